"""Real Hive as the judge of files of which some stripes were copied: its readers, predicates, changes, compactions."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from acidctl.compaction import stripes
from tests.cli.runner import acidctl
from tests.live.adopted import canonical
from tests.services.hive import Hive
from tests.support.extent import SWEEP

# The row reader, a job, a vectorised job.
READERS = (("more", "true"), ("none", "false"), ("none", "true"))
# Hive's writer looks at the size of its stripe every 5,000 rows.
ROWS = 24_000
# All kinds of statistics, with edges, NULLs, texts that only have bounds, and days that calendars count alike.
COLUMNS = {
    "id": "id",
    "tiny": "cast(id % 256 - 128 as tinyint)",
    "small": "cast(id - 12000 as smallint)",
    "num": "case id when 7 then -2147483648 when 23990 then 2147483647 else cast(id * 3 as int) end",
    "big": "case id when 11001 then 9223372036854775807 else cast(id as bigint) * -1 end",
    "f": "cast(case when id % 997 = 3 then 'NaN' when id = 15000 then '-0.0' else id / 8 end as float)",
    "d": "cast(case when id = 15001 then '-0.0' when id = 60 then '-Infinity' else id / 7 end as double)",
    "amount": "cast(id / 100 as decimal(10,2))",
    "wide": "cast(concat('12345678901234567890', id, '.5') as decimal(38,4))",
    "s": "case when id % 11 = 0 then null when id % 6000 = 77 then concat(id, repeat('x', 1500)) "
    "else concat('s', id) end",
    "v": "cast(concat('v', id % 3000) as varchar(9))",
    "c": "cast(concat('c', id % 50) as char(8))",
    "flag": "id % 3 = 0",
    "bin": "cast(concat('b', id) as binary)",
    "day": "date_add('1990-01-01', id)",
    "moment": "cast(from_unixtime(id * 86400 + 300000000) as timestamp)",
    "late": "case when id > 20000 then cast(id as string) end",
    "tags": "array(id, id + 1)",
    "pair": "named_struct('a', id, 'b', concat('p', id))",
}
TYPES = {
    "id": "int",
    "tiny": "tinyint",
    "small": "smallint",
    "num": "int",
    "big": "bigint",
    "f": "float",
    "d": "double",
    "amount": "decimal(10,2)",
    "wide": "decimal(38,4)",
    "s": "string",
    "v": "varchar(9)",
    "c": "char(8)",
    "flag": "boolean",
    "bin": "binary",
    "day": "date",
    "moment": "timestamp",
    "late": "string",
    "tags": "array<int>",
    "pair": "struct<a:int,b:string>",
}
# Each is true of a few rows, here in stripes that are copied, there in such as are written anew.
PREDICATES = (
    "id between 5998 and 6003",
    "tiny = -128 and id > 20000",
    "small > 11990",
    "num = -2147483648",
    "num = 2147483647",
    "big > 9000000000000000000",
    "f = 0.0",
    "d < -1000000",
    "d = 0",
    "amount between 59.98 and 60.02",
    "wide > 1234567890123456789023990",
    "s = 's1234'",
    "s between '77xx' and '77xz'",
    "s is null and id between 11000 and 11050",
    "v = 'v2999'",
    "c = 'c49' and id < 500",
    "flag = true and id > 23990",
    "day = '2000-01-01'",
    "day > '2055-09-10'",
    "moment between '2000-01-01 00:00:00' and '2000-01-03 00:00:00'",
    "late = '23456'",
    "late is not null and id < 20003",
)


@pytest.fixture(autouse=True)
def _every_size_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """No stripe is too small to be copied."""
    monkeypatch.setattr(stripes, "SMALL_SHARE", 1 << 40)


class Table:
    """A table of Hive's whose base has many stripes."""

    def __init__(self, hive: Hive, name: str, types: Mapping[str, str] = TYPES) -> None:
        self.hive, self.name = hive, name
        columns = ", ".join(f"`{column}` {kind}" for column, kind in types.items())
        hive.run(f"drop table if exists {name}")
        hive.run(
            f"create table {name} ({columns}) clustered by (id) into 1 buckets stored as orc tblproperties "
            "('transactional'='true', 'orc.row.index.stride'='1000', 'orc.stripe.size'='100000')"
        )

    def fill(self, how: str = "overwrite table", first: int = 0, rows: int = ROWS) -> None:
        """A base, or a delta, that Hive has written itself."""
        numbers = (
            f"(select pos + {first} as id from (select posexplode(split(space({rows - 1}), ' ')) as (pos, x)) n) n"
        )
        values = ", ".join(COLUMNS.values())
        self.hive.run(f"insert {how} {self.name} select {values} from {numbers} sort by id")

    def compact(self, kind: str = "major") -> dict[str, Any]:
        """`acidctl compact` with Hive's own lists; the report of the partition."""
        session = self.hive.session()
        txns = session.valid_txns()
        lists: list[str] = [str(text) for text in (session.valid_write_ids(f"default.{self.name}", txns), txns)]
        ddl = "\n".join(json.loads(row[0]) for row in session.select(f"show create table {self.name}").values)
        given = [part for text in lists for part in ("--validtxns", text)]
        result = acidctl("compact", kind, str(self.folder), *given, "--schema", ddl, "-o", "json")
        assert result.code == 0, result.stderr
        (part,) = result.json()["partitions"]
        assert part["outcome"] == "compacted", part
        return dict(part)

    @property
    def folder(self) -> Path:
        """Where its files are."""
        return self.hive.warehouse / self.name

    def _by(self, where: str, reader: tuple[str, str]) -> list[str]:
        """The rows that a reader gives, sorted."""
        session = self.hive.session()
        session.set("hive.fetch.task.conversion", reader[0])
        session.set("hive.vectorized.execution.enabled", reader[1])
        clause = f"where {where}" if where else ""
        rows = sorted(map(canonical, session.rows(f"select ROW__ID, * from {self.name} {clause}")))
        session.set("hive.fetch.task.conversion", "more")
        session.set("hive.vectorized.execution.enabled", "true")
        return rows

    def matching(self, where: str, reader: int) -> list[str]:
        """What one of the readers answers; in a sweep all of them, who agree."""
        first, *others = [self._by(where, one) for one in (READERS if SWEEP and where else (READERS[reader],))]
        assert all(other == first for other in others), where
        return first

    def values(self) -> list[str]:
        """All rows without their ids, sorted."""
        rows = [json.loads(line) for line in self._by("", READERS[0])]
        return sorted(json.dumps({name: value for name, value in row.items() if name != "ROW__ID"}) for row in rows)


CHANGES = (
    "update {0} set s = 'changed', num = -1 where id between 2000 and 2003 or id = 9001",
    "delete from {0} where id between 14990 and 15010 or id = 23999",
    "merge into {0} t using (select id from {0} where id in (3, 4, 20001, 20002)) x on t.id = x.id "
    "when matched and x.id % 2 = 0 then delete when matched then update set s = 'merged'",
)


def check_stitched(hive: Hive) -> None:
    """Hive's base, changed in some stripes and compacted twice: what Hive answers, and what it then does with it."""
    table, twin = Table(hive, "stitched"), Table(hive, "stitched_twin")
    session = hive.session()
    for one in (table, twin):
        one.fill()
        hive.run(f"delete from {one.name} where id between 9000 and 9002 or id = 12345")
        hive.run(f"insert into {one.name} select * from (select * from {one.name} where id in (1, 2)) x")
    session.set("hive.optimize.index.filter", "false")
    session.set("hive.optimize.ppd.storage", "false")
    wanted = {where: table.matching(where, 0) for where in PREDICATES[:: 1 if SWEEP else 3]}
    whole = table.matching("", 0)
    session.set("hive.optimize.index.filter", "true")
    session.set("hive.optimize.ppd.storage", "true")
    for turn in range(2):
        report = table.compact()
        # First of the file that Hive wrote, then of what was put together.
        assert report["stripes_copied"] >= 3 + 4 * turn, report
        assert report["verified"]["rows_by_copy"] >= 14_000 - 5000 * turn
        assert table.matching("", 1 + turn) == whole
        for number, (where, rows) in enumerate(wanted.items()):
            assert table.matching(where, (number + turn) % 3) == rows, where
        if not turn:
            hive.run(f"insert into {table.name} select * from (select * from {table.name} where id = 5) x")
            hive.run(f"insert into {twin.name} select * from (select * from {twin.name} where id = 5) x")
            hive.run(f"delete from {table.name} where id = 8000")
            hive.run(f"delete from {twin.name} where id = 8000")
            session.set("hive.optimize.index.filter", "false")
            whole = table.matching("", 0)
            wanted = {where: table.matching(where, 0) for where in PREDICATES[:: 1 if SWEEP else 8]}
            session.set("hive.optimize.index.filter", "true")
    for change in CHANGES:
        for one in (table, twin):
            hive.run(change.format(one.name))
    assert table.values() == twin.values()
    assert hive.compact(table.name, "major") in ("ready for cleaning", "succeeded")
    assert table.values() == twin.values()


@pytest.mark.hive
def test_hive4_takes_stitched_deltas(hive4: Hive) -> None:
    """Deltas of Hive's that became one by copying alone, twice: readers, predicates, changes, its own compaction."""
    table, session = Table(hive4, "stitched_deltas"), hive4.session()
    session.set("hive.optimize.index.filter", "true")
    for turn in range(2):
        for number in range(3):
            table.fill("into", (3 * turn + number) * ROWS // 6, ROWS // 6)
        wanted = [table.matching(where, 0) for where in ("", *PREDICATES[::4])]
        report = table.compact("minor")
        assert (report["stripes_encoded"], report["verified"]["rows_by_copy"]) == ({}, ROWS // 2 * (turn + 1))
        assert [table.matching(where, 1 + turn) for where in ("", *PREDICATES[::4])] == wanted
    for change in CHANGES:
        hive4.run(change.format(table.name))
    values = table.values()
    assert hive4.compact(table.name, "major") in ("ready for cleaning", "succeeded")
    assert table.values() == values


@pytest.mark.hive
def test_hive4_takes_stitched_bases(hive4: Hive) -> None:
    """Readers, predicates over copied row indexes and merged statistics, UPDATE, DELETE, MERGE, its own compaction."""
    check_stitched(hive4)


@pytest.mark.hive
def test_hive4_finds_rows_beside_nan(hive4: Hive) -> None:
    """A stripe that is written anew and begins with NaN is not left out, as one of Hive's own is."""
    table = Table(hive4, "beside_nan", {"id": "int", "d": "double"})
    values = "struct(0, 'NaN'), struct(1, '1.5'), struct(2, '-Infinity'), struct(3, '4')"
    hive4.run(
        f"insert into {table.name} select id, cast(d as double) from "
        f"(select inline(array({values})) as (id, d)) x sort by id"
    )
    hive4.run(f"delete from {table.name} where id = 3")
    assert table.compact()["stripes_encoded"] == {"deleted": 1}
    hive4.session().set("hive.optimize.index.filter", "true")
    for where in ("d = 1.5", "d < 1", "d between 1 and 5"):
        assert len(table.matching(where, 0)) == 1, where


@pytest.mark.hive3
def test_hive3_takes_stitched_bases(hive3: Hive) -> None:
    """The same by Hive 3, whose files have other claims."""
    check_stitched(hive3)
