"""How a base has to be named, by what real Hive makes of an aborted write that it has forgotten."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.cli.runner import acidctl
from tests.services.hive import Hive

LATE = 666
DDL = "(id int) clustered by (id) into 1 buckets stored as orc tblproperties ('transactional'='true')"


class Table:
    """Rows 1 and 2 of two writes, and what the third wrote before it was aborted."""

    def __init__(self, hive: Hive, name: str, folder: Path) -> None:
        self._hive = hive
        self._name = name
        self.place = hive.warehouse / name
        hive.run(f"create table {name} {DDL}")
        hive.run(f"insert into {name} values (1)")
        hive.run(f"insert into {name} values (2)")
        writer = hive.session(f"aborts_{name}")
        if hive.version.name == "hive3":
            writer.run("set autocommit false")
        for sql in ("start transaction", f"insert into {name} values ({LATE})", "rollback"):
            writer.run(sql)
        hive.end_session(f"aborts_{name}")
        self._aborted = next(self.place.glob("delta_0000003*"))
        self._kept = Path(shutil.copytree(self._aborted, folder / name))

    def lists(self) -> list[str]:
        """The lists of a reader that comes now, as options."""
        txns = self._hive.session().valid_txns()
        write_ids = self._hive.session().valid_write_ids(f"default.{self._name}", txns)
        return ["--validtxns", str(write_ids), "--validtxns", txns]

    def compact(self, *options: str) -> dict[str, Any]:
        """What acidctl's major compaction says."""
        given = ("--table-type", "full", "--target", self._hive.version.name, "-o", "json")
        result = acidctl("compact", "major", str(self.place), *self.lists(), *given, *options)
        assert result.code in (0, 3), result.stderr
        (part,) = result.json()["partitions"]
        return dict(part)

    def compact_in_txn(self) -> str:
        """The same under a transaction, which is committed; the name of the base."""
        adoption = self._hive.java.acidctl.Adoption
        lists, txn = self.lists(), self._hive.call(adoption.open, what="open")
        result = acidctl(
            *("compact", "major", str(self.place), *lists, "--table-type", "full", "-o", "json"),
            *("--visibility-txn", str(txn)),
        )
        assert result.code == 0, result.stderr
        self._hive.call(adoption.commit, txn, what="commit")
        return str(result.json()["partitions"][0]["outputs"][0])

    def hive_cleans(self) -> None:
        """Hive's compaction, which finds little to do, and its Cleaner; then Hive forgets the aborted write."""
        self._hive.compact(self._name, "major")
        self._hive.clean()
        self._hive.clean()
        self._hive.call(self._hive.java.acidctl.Services.forgetTransactions, what="forget")

    def forgotten(self) -> bool:
        """Whether no list names the aborted write any more."""
        return self.lists()[1].endswith("::")

    def bring_back(self) -> None:
        """What the aborted write left is there (again): it could not be removed, or came late."""
        if not self._aborted.exists():
            shutil.copytree(self._kept, self._aborted)

    def bases(self) -> list[str]:
        """Names of the bases on disk."""
        return sorted(path.name for path in self.place.glob("base_*"))

    def rows(self) -> list[int]:
        """What Hive reads."""
        return sorted(json.loads(row)["id"] for row in self._hive.rows(f"select id from {self._name}"))

    def drop(self) -> None:
        """Removes the table."""
        self._hive.run(f"drop table {self._name}")


@pytest.mark.hive
def test_hive_4_reads_a_forgotten_write_above_a_base_but_not_inside(hive4: Hive, tmp_path: Path) -> None:
    """acidctl's base under a transaction covers it; named after its newest input, it does not."""
    covering, control = Table(hive4, "covering", tmp_path), Table(hive4, "control", tmp_path)
    name = covering.compact_in_txn()
    assert name.startswith("base_0000003_v")
    short = control.compact_in_txn()
    (control.place / short).rename(control.place / short.replace("base_0000003", "base_0000002"))
    for table in (covering, control):
        assert table.rows() == [1, 2]
        table.hive_cleans()
        assert table.forgotten()
        table.bring_back()
    assert covering.bases() == [name]
    assert covering.rows() == [1, 2]
    assert control.rows() == [1, 2, LATE]
    covering.drop()
    control.drop()


@pytest.mark.hive
def test_the_cleaner_of_hive_4_removes_a_base_that_ends_with_an_aborted_write(hive4: Hive, tmp_path: Path) -> None:
    """It takes one without a suffix for an aborted overwrite, marker or not; acidctl gives none such a name."""
    ours, control = Table(hive4, "ours", tmp_path), Table(hive4, "control", tmp_path)
    for table in (ours, control):
        assert table.compact()["outputs"] == ["base_0000002"]
    (control.place / "base_0000002").rename(control.place / "base_0000003")
    for table in (ours, control):
        assert table.rows() == [1, 2]
        table.hive_cleans()
        assert table.rows() == [1, 2]
    assert ours.bases() == ["base_0000002"]
    assert control.bases() == []
    ours.drop()
    control.drop()


@pytest.mark.hive3
def test_hive_3_keeps_a_base_that_ends_with_an_aborted_write(hive3: Hive, tmp_path: Path) -> None:
    """Its Cleaner leaves it alone, and the write inside it stays unread; above a base it is read there too."""
    covering, control = Table(hive3, "covering", tmp_path), Table(hive3, "control", tmp_path)
    for table in (covering, control):
        assert table.compact()["outputs"] == ["base_0000003"]
    (control.place / "base_0000003").rename(control.place / "base_0000002")
    covering.hive_cleans()
    assert covering.forgotten()
    for table in (covering, control):
        table.bring_back()
    assert covering.bases() == ["base_0000003"]
    assert covering.rows() == [1, 2]
    # Its own compaction would cover the write, as acidctl does.
    assert control.rows() == [1, 2, LATE]
    covering.drop()
    control.drop()
