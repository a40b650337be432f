"""The way to the lists in docs/operations.md: its SQL on the metastore of real Hive, its shell lines, Hive's answer."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from acidctl.format.write_ids import ValidTxns
from tests import ROOT
from tests.services.hive import Hive

pytestmark = pytest.mark.hive

PAGE = (ROOT / "docs/operations.md").read_text()
CHAPTER = PAGE.partition("\n## Lists by SQL\n")[2].partition("\n## ")[0]
WRITE_IDS, TXNS = "write_ids.txt", "txns.txt"


def _blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", CHAPTER, re.DOTALL)


def test_the_lists_of_the_page_are_hives_own(hive4: Hive, tmp_path: Path) -> None:
    """Committed, open and aborted writes: both lists are Hive's."""
    hive4.run("create table orders (id int) stored as orc tblproperties ('transactional'='true')")
    hive4.run("insert into orders values (1)")
    opened, aborted = hive4.session("opened"), hive4.session("aborted")
    opened.run("start transaction")
    opened.run("insert into orders values (2)")
    aborted.run("start transaction")
    aborted.run("insert into orders values (3)")
    aborted.run("rollback")
    hive4.run("insert into orders values (4)")
    txns = hive4.session().valid_txns()
    expected = hive4.session().valid_write_ids("default.orders", txns)
    (statement,) = _blocks("sql")
    connection = hive4.java.java.sql.DriverManager.getConnection(f"jdbc:derby:{hive4.folder}/metastore")
    try:
        found = connection.createStatement().executeQuery(statement)
        lines = []
        while found.next():
            lines.append(" ".join(found.getString(column) for column in (1, 2, 3)))
    finally:
        connection.close()
    (tmp_path / "lines.txt").write_text("\n".join(lines) + "\n")
    shell = next(block for block in _blocks("sh") if block.startswith("list()"))
    shell = "\n".join(line for line in shell.splitlines() if not line.startswith("psql"))
    subprocess.run(["sh", "-eu", "-c", shell], cwd=tmp_path, check=True, timeout=30)
    assert (tmp_path / WRITE_IDS).read_text().strip() == expected
    # Of neighbours that were aborted Hive makes a range, and other tests of this Hive leave many.
    assert ValidTxns.parse((tmp_path / TXNS).read_text().strip()) == ValidTxns.parse(txns)
    assert expected is not None
    assert expected.count(":") == 4
    assert expected.partition(":")[2].split(":")[2:] == ["2", "3"]
    opened.run("rollback")
    hive4.run("drop table orders")
