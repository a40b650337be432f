"""What keeps a stripe from being copied into a file of another form: each reason by itself, and nothing else."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from acidctl.compaction.plan import WriterSettings
from acidctl.orc.arrow_writer import Physical
from acidctl.orc.reader import OrcFile, open_orc
from acidctl.orc.stitch import Obstacle, obstacle_of_file, obstacle_of_stripe
from acidctl.orc.tail import Calendar, OrcType, Tail, TypeTree, Writer
from acidctl.orc.tail_edit import event_type, orc_types
from acidctl.orc.writer import physical_of
from tests.support.orc_events import EventBatch, keys, written
from tests.unit.orc.test_writer import columns_of

COLUMNS = columns_of("struct<id:int,s:string,day:date,t:timestamp>")
_OLD = -200_000  # days; in the year 1422


def file_of(first_day: int = 0, **options: Any) -> OrcFile:
    """A file of a hundred rows from that day on."""
    days = pa.array(range(first_day, first_day + 100), pa.int32()).cast(pa.date32())
    moments = pa.array([day * 86_400_000_000 for day in range(100)]).cast(pa.timestamp("us"))
    rows = (pa.array(range(100), pa.int32()), pa.array([f"v{i}" for i in range(100)]), days, moments)
    data, _ = written([EventBatch(keys(100), rows)], COLUMNS, **{"compression": "zlib", **options})
    return open_orc(io.BytesIO(data), name="f")


def form(**options: Any) -> tuple[tuple[OrcType, ...], Physical]:
    """Columns and form of the file into which stripes are copied."""
    types = orc_types(event_type(COLUMNS))
    return types, physical_of(replace(WriterSettings(), **options), types, acid=True)


def of_stripe(orc: OrcFile, physical: Physical, tail: Tail | None = None, zone: str | None = "UTC") -> Obstacle | None:
    """What is in the way of its first stripe, under another tail or zone where these are given."""
    footer = replace(orc.stripe_footers()[0], time_zone=zone)
    return obstacle_of_stripe(tail or orc.tail, 0, footer, orc.stripe_messages()[0], physical)


def test_a_file_of_the_same_form_can_be_copied() -> None:
    """Smaller compression blocks, old days and lower case in the names of an event do not matter."""
    types, physical = form()
    for orc in (file_of(), file_of(_OLD), file_of(block_size=64 << 10)):
        assert obstacle_of_file(orc.tail, types, physical) is None
        assert of_stripe(orc, physical) is None
    tail = file_of().tail
    lower = replace(tail.types[0], names=tuple(name.lower() for name in tail.types[0].names))
    assert obstacle_of_file(replace(tail, types=TypeTree((lower, *tail.types[1:]))), types, physical) is None


def _post(**changes: Any) -> Callable[[Tail], Tail]:
    return lambda tail: replace(tail, postscript=replace(tail.postscript, **changes))


@pytest.mark.parametrize(
    ("change", "obstacle"),
    [
        (_post(version=(0, 11)), Obstacle.VERSION),
        (_post(writer_version=5), Obstacle.WRITER),
        (_post(writer_version=10), Obstacle.WRITER),
        (lambda tail: replace(tail, writer=Writer.TRINO), Obstacle.WRITER),
        (lambda tail: replace(tail, encrypted=True), Obstacle.ENCRYPTION),
        (lambda tail: replace(tail, statistics=()), Obstacle.STATISTICS),
        (lambda tail: replace(tail, types=TypeTree(tail.types[:-1])), Obstacle.SCHEMA),
    ],
)
def test_tails_that_say_something_else(change: Callable[[Tail], Tail], obstacle: Obstacle) -> None:
    """Version of the format, writers of which too little is known, encryption, no statistics, other columns."""
    assert obstacle_of_file(change(file_of().tail), *form()) is obstacle


@pytest.mark.parametrize(
    ("options", "obstacle"),
    [
        ({"compression": "zstd"}, Obstacle.COMPRESSION),
        ({"block_size": 512 << 10}, Obstacle.BLOCK_SIZE),
        ({"row_index_stride": 1000}, Obstacle.STRIDE),
        ({"row_index_stride": 0}, Obstacle.STRIDE),
    ],
)
def test_files_of_another_layout(options: dict[str, Any], obstacle: Obstacle) -> None:
    """Codec, larger blocks, row groups of another size or none."""
    assert obstacle_of_file(file_of(**options).tail, *form()) is obstacle


def test_stripes_with_other_filters_zones_and_calendars() -> None:
    """Bloom filters on other columns; moments of another zone; days that another calendar counts otherwise."""
    _, physical = form()
    assert of_stripe(file_of(bloom_columns=("id",)), physical) is Obstacle.BLOOM_FILTERS
    assert of_stripe(file_of(), form(bloom_columns=("s",))[1]) is Obstacle.BLOOM_FILTERS
    assert of_stripe(file_of(bloom_columns=("id",)), form(bloom_columns=("id",))[1]) is None
    assert of_stripe(file_of(), physical, zone="Europe/Berlin") is Obstacle.TIME_ZONE
    for day, obstacle in ((0, None), (_OLD, Obstacle.CALENDAR)):
        orc = file_of(day)
        assert of_stripe(orc, physical, replace(orc.tail, calendar=Calendar.JULIAN_GREGORIAN)) is obstacle
