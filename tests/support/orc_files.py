"""ORC files made in memory for the tests of this folder, and lies told about them."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.orc as po
import pyorc

from tests import ROOT

FIXTURES = ROOT / "fixtures" / "tables"
EVENT = "operation:int,originalTransaction:bigint,bucket:int,rowId:bigint,currentTransaction:bigint"


class Clock:
    """Timestamps as nanoseconds since 1970, so that pyorc writes and reads what Python's datetime cannot hold."""

    @staticmethod
    def to_orc(value: int, zone: Any) -> tuple[int, int]:
        return value // 10**9, value % 10**9

    @staticmethod
    def from_orc(seconds: int, nanos: int, zone: Any) -> int:
        return seconds * 10**9 + nanos


CLOCKS: Any = {pyorc.TypeKind.TIMESTAMP: Clock, pyorc.TypeKind.TIMESTAMP_INSTANT: Clock}


def by_pyorc(schema: str, rows: Sequence[tuple[Any, ...]], **options: Any) -> bytes:
    """A file written by ORC's C++ writer through pyorc; timestamps are nanoseconds since 1970."""
    file = io.BytesIO()
    metadata = options.pop("user_metadata", {})
    with pyorc.Writer(file, schema, converters=CLOCKS, **options) as writer:
        for row in rows:
            writer.write(row)
        writer.set_user_metadata(**metadata)
    return file.getvalue()


def by_arrow(table: pa.Table, **options: Any) -> bytes:
    """A file written by pyarrow."""
    file = io.BytesIO()
    po.write_table(table, file, **options)
    return file.getvalue()


def fixture_files(pattern: str = "*/*/*/table") -> list[Path]:
    """The bucket files of the fixture tables, without side files."""
    found = FIXTURES.glob(f"{pattern}/**/bucket_*")
    return sorted(path for path in found if not path.name.endswith("_flush_length"))
