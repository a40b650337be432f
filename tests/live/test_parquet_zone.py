"""Timestamps in Parquet, which Hive reads by what a file says of its writer: the same after a compaction."""

from __future__ import annotations

import pytest

from tests.cli.runner import acidctl
from tests.services.hive import Hive

pytestmark = pytest.mark.hive

TABLE = "zoned"
MOMENTS = ("2024-01-01 12:00:00.5", "2024-07-01 00:30:00", "1960-02-29 23:59:59.999999999", "1890-01-01 00:00:00")


@pytest.mark.parametrize("zone", ["Europe/Berlin", "UTC"])
def test_a_server_outside_of_utc(hive4: Hive, zone: str) -> None:
    """Its Parquet library writes the moment in UTC and the zone beside it, and converts only what it wrote itself."""
    zones = hive4.java.java.util.TimeZone
    before = zones.getDefault()
    zones.setDefault(zones.getTimeZone(zone))
    try:
        hive4.run(
            f"create table {TABLE} (id int, at timestamp, day date) stored as parquet "
            "tblproperties ('transactional'='true', 'transactional_properties'='insert_only')"
        )
        for number, moment in enumerate(MOMENTS):
            hive4.run(f"insert into {TABLE} values ({number}, timestamp '{moment}', date '{moment[:10]}')")
        query = f"select * from {TABLE} order by id"
        rows = hive4.rows(query)
        assert [moment[:19] in row for moment, row in zip(MOMENTS, rows, strict=True)] == [True] * len(MOMENTS)
        folder = hive4.warehouse / TABLE
        options = ("--assume-committed", "--table-type", "insert-only", "-o", "json")
        done = acidctl("compact", "major", str(folder), *options)
        assert done.code == 0, done.stdout
        assert hive4.rows(query) == rows
        assert list(folder.glob("base_*/0*")) != []
    finally:
        zones.setDefault(before)
        hive4.run(f"drop table if exists {TABLE}")
