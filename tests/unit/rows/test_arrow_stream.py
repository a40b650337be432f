"""A snapshot as other libraries read it: Arrow's C stream interface, tables, pandas."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from acidctl import open_table
from acidctl.errors import NoSuchTableError, UsageError
from acidctl.rows.snapshot import Snapshot
from tests.support.steps import STEPS

BY_NAME = {str(step): step for step in STEPS}


def snapshot_of(name: str) -> Snapshot:
    """The snapshot of one recorded step."""
    step = BY_NAME[name]
    return open_table(str(step.table)).snapshot(**step.view)


@pytest.mark.parametrize("name", ["hive4/types_numbers/01-written", "hive4/types_time_modern/01-written"])
def test_others_read_the_same_values(name: str) -> None:
    """Arrow, Polars and DuckDB see the rows of `to_table`; a second reading sees them again."""
    snapshot = snapshot_of(name)
    rows = list(map(str, snapshot.to_table().to_pylist()))  # as text, in which NaN equals itself
    assert rows
    assert list(map(str, pa.table(snapshot).to_pylist())) == rows
    assert pa.table(snapshot).schema == pa.schema(snapshot)
    assert pl.DataFrame(snapshot).to_arrow().num_rows == len(rows)
    relation = duckdb.sql("from snapshot")
    assert relation is not None
    assert (len(relation.fetchall()), relation.columns) == (len(rows), list(snapshot.column_names()))


def test_pandas_keeps_what_it_would_change() -> None:
    """Integers stay integers beside NULLs, decimals exact."""
    snapshot = snapshot_of("hive4/types_numbers/01-written")
    frame, table = snapshot.to_pandas(), snapshot.to_table()
    for name, kind in zip(table.column_names, table.schema.types, strict=True):
        assert frame.dtypes[name] == pd.ArrowDtype(kind)
        values = [None if value is pd.NA else value for value in frame[name]]
        if pa.types.is_integer(kind) or pa.types.is_decimal(kind):
            assert values == table[name].to_pylist()
    assert any(isinstance(value, Decimal) for name in frame for value in frame[name])


def test_pandas_has_no_place_for_unions() -> None:
    """One sentence, and what to do."""
    with pytest.raises(UsageError, match="pandas cannot hold"):
        snapshot_of("hive4/types_union/01-written").to_pandas()


@pytest.mark.parametrize("how", [{"batch_rows": 0}, {"threads": 0}, {"limit": -1}], ids=str)
def test_amounts_that_make_no_sense_are_refused(how: dict[str, Any]) -> None:
    """Nothing hangs, and nothing is taken for no rows."""
    snapshot = snapshot_of("hive4/partitioned/02-changed")
    with pytest.raises(UsageError, match=f"{next(iter(how))}=.*: expected a whole number from"):
        snapshot.to_table(**how)


def test_one_column_may_be_named_alone() -> None:
    """A text is one name, and not a name for each of its letters."""
    snapshot = snapshot_of("hive4/partitioned/02-changed")
    assert snapshot.to_table("id").column_names == ["id"]


def test_partitions_narrow_the_rows() -> None:
    """As `--partition` does; no filter is all of them."""
    snapshot = snapshot_of("hive4/partitioned/02-changed")
    (name,) = snapshot.partition_names[:1]
    values = set(snapshot.to_table([name])[name].to_pylist())
    assert len(values) > 1
    for value in values:
        part = snapshot.to_table(partitions=[f"{name}={value}"])
        assert set(part[name].to_pylist()) == {value}
    assert snapshot.to_table(partitions=f"{name}=*").num_rows == snapshot.count()
    with pytest.raises(NoSuchTableError, match="has no partition that matches 'd=1'"):
        snapshot.to_table(partitions="d=1")
