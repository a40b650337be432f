"""A table directory of a fixture, put into a running Hive as a table of its own, with the write ids it had.

What Hive then answers is its judgement on directories that it did not write in that place: those of another run, and
those that acidctl makes beside them.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from restore import restore

from acidctl.format.names import DEFAULT_PARTITION, is_hidden, parse_partition
from acidctl.format.write_ids import TxnListFormat, ValidTxns, ValidWriteIds
from tests import ROOT
from tests.cli.runner import acidctl
from tests.services.hive import Hive

FIXTURES = ROOT / "fixtures" / "tables"
# Above every transaction of the fixtures, whose `_v` names then count as committed.
FIRST_TXN = 1_000_001


def steps(engine: str) -> Iterator[Path]:
    """The folders of all steps of that engine's full ACID and insert-only tables."""
    for file in sorted((FIXTURES / engine).glob("*/*/step.json")):
        facts = json.loads(file.read_text())
        if facts["kind"] in ("full", "insert_only"):
            yield file.parent


class Adopted:
    """One table of `hive`, `folder` its directory, filled from a fixture's step."""

    def __init__(self, hive: Hive, step: Path, name: str, *, table: Path | None = None) -> None:
        """`table` holds other files than the step's own."""
        self.hive = hive
        self.name = name
        self.facts: dict[str, Any] = json.loads((step / "step.json").read_text())
        self.insert_only = self.facts["kind"] == "insert_only"
        restore(step / "step.json")
        source = table or step / "table"
        hive.run(f"drop table if exists {name}")
        hive.run(_ddl(self.facts["ddl"], name))
        self._fill(source)
        self.partitions = tuple(sorted(_partitions(source))) if self.facts["partition_columns"] else ()
        self._bring_write_ids_up()
        for partition in self.partitions:
            values = [value or DEFAULT_PARTITION for _, value in parse_partition(partition)]
            add = hive.java.acidctl.Adoption.addPartition
            where = f"{self.location}/{partition}"
            hive.call(add, "default", name, hive.strings(values), where, what=f"add {partition}")

    @property
    def folder(self) -> Path:
        """Where the table's files are, if Hive's warehouse is on this machine."""
        return self.hive.warehouse / self.name

    @property
    def location(self) -> str:
        """The same as Hive knows it."""
        return f"file:{self.folder}"

    @property
    def url(self) -> str:
        """The same as acidctl is given it."""
        return str(self.folder)

    def _fill(self, source: Path) -> None:
        """Puts the files of a local table directory there."""
        shutil.copytree(source, self.folder, dirs_exist_ok=True)

    def listed(self) -> list[str]:
        """Every file and directory of the table, relative to it."""
        return sorted(str(path.relative_to(self.folder)) for path in self.folder.rglob("*"))

    def _bring_write_ids_up(self) -> None:
        """The same ids open and aborted; one more is committed, since Hive 4.0.1 misreports a table without any."""
        given = self.facts["valid_write_ids"]
        if given is None:
            ids = ValidWriteIds.from_txns(ValidTxns.parse(self.facts["valid_txns"], list_format=TxnListFormat.HIVE2))
        else:
            ids = ValidWriteIds.parse(given)
        exceptions = sorted(ids.exceptions)
        last = ids.high_watermark
        seeded = min(exceptions[0] - 1, last) if exceptions else last
        fates = "".join(
            ("a" if ids.is_aborted(number) else "o") if number in exceptions else "c"
            for number in range(seeded + 1, max(last, *exceptions, last) + 1)
        )
        java = self.hive.java.acidctl
        if seeded:
            self.hive.call(java.Services.seedWriteIds, "default", self.name, seeded, what=f"seed {self.name}")
        given_ids = (java.Adoption.writeIds, "default", self.name, fates + "c")
        self._open = list(self.hive.call(*given_ids, what=f"write ids of {self.name}"))

    def lists(self) -> list[str]:
        """The lists that Hive hands to a reader now, as options."""
        session = self.hive.session()
        txns = session.valid_txns()
        write_ids = session.valid_write_ids(f"default.{self.name}", txns)
        return [part for text in (write_ids, txns) if text for part in ("--validtxns", text)]

    def ddl(self) -> str:
        """SHOW CREATE TABLE."""
        answer = self.hive.session().select(f"show create table {self.name}")
        return "\n".join(json.loads(row[0]) for row in answer.values)

    def compact(self, kind: str, *options: str) -> dict[str, Any]:
        """Runs `acidctl compact` with the lists and the DDL of now; returns the report."""
        given = ["compact", kind, self.url, *self.lists(), "--schema", self.ddl(), "-o", "json", *options]
        result = acidctl(*given)
        assert result.code in (0, 3), (given, result.code, result.stderr)
        report: dict[str, Any] = result.json()
        return report

    def rows(self, *, job: bool = False, vectorised: bool = True) -> list[str]:
        """What Hive reads, sorted: in process by the row reader, or in a job."""
        session = self.hive.session()
        session.set("hive.fetch.task.conversion", "none" if job else "more")
        session.set("hive.vectorized.execution.enabled", str(vectorised).lower())
        session.set("mapred.input.dir.recursive", "true")
        columns = "*" if self.insert_only else "ROW__ID, *"
        try:
            return sorted(canonical(line) for line in session.rows(f"select {columns} from {self.name}"))
        finally:
            session.set("hive.fetch.task.conversion", "more")
            session.set("hive.vectorized.execution.enabled", "true")

    def values(self, *, job: bool = False, vectorised: bool = True) -> list[str]:
        """The same without row ids, which have to be distinct within a partition."""
        rows = [json.loads(line) for line in self.rows(job=job, vectorised=vectorised)]
        keys = [column.split()[0] for column in self.facts["partition_columns"].split(",") if column.strip()]
        ids = [
            json.dumps([row.pop("ROW__ID"), *(row[key] for key in keys)], sort_keys=True)
            for row in rows
            if "ROW__ID" in row
        ]
        assert len(set(ids)) == len(ids), f"two rows have one row id: {sorted(ids)}"
        return sorted(json.dumps(row) for row in rows)

    def hive_compacts(self, kind: str) -> list[str]:
        """Requests it from Hive for the table or each partition; returns the states it ended in."""
        return [self.hive.compact(self.name, kind, _clause(p) if p else "") for p in self.partitions or ("",)]

    def directories(self) -> list[str]:
        """Visible names at the top of every location, without the numbers of transactions."""
        places = {f"{partition}/" if partition else "" for partition in self.partitions or ("",)}
        found = [path for path in self.listed() if path[: path.rfind("/") + 1] in places]
        return sorted(re.sub(r"_v\d+$", "", path) for path in found if not is_hidden(path.rpartition("/")[2]))

    def end_open(self) -> None:
        """Aborts the transactions that are open as in the fixture: the cleaner waits for them in every table."""
        while self._open:
            self.hive.call(self.hive.java.acidctl.Adoption.abort, self._open.pop(), what=f"abort of {self.name}")

    def drop(self) -> None:
        """Removes the table and its open transactions."""
        self.end_open()
        self.hive.run(f"drop table if exists {self.name}")


def hive_rows(step: Path) -> list[str]:
    """The rows that Hive returned when the fixture was made, as `Adopted.rows` has them."""
    return sorted(canonical(line) for line in (step / "rows.jsonl").read_text().split("\n") if line)


def canonical(line: str) -> str:
    """A row as text that does not depend on the order of its keys, without the row id that insert-only rows lack."""
    values = json.loads(line)
    return json.dumps({key: value for key, value in values.items() if value is not None or key != "ROW__ID"})


def _ddl(text: str, name: str) -> str:
    renamed = re.sub(r"^(CREATE (?:EXTERNAL )?TABLE) `[^`]+`(?:\.`[^`]+`)?", rf"\1 {name}", text, count=1)
    assert name in renamed, text
    return re.sub(r"\nLOCATION\s*\n?\s*'[^']*'", "", renamed)


def _partitions(folder: Path) -> Iterator[str]:
    """Partition folders below a table directory, relative to it."""
    for path in folder.rglob("*"):
        relative = path.relative_to(folder)
        ours = path.is_dir() and all("=" in part and not is_hidden(part) for part in relative.parts)
        if ours and not any(child.is_dir() and "=" in child.name for child in path.iterdir()):
            yield str(relative)


def _clause(partition: str) -> str:
    """The text of a PARTITION clause."""
    pairs: Sequence[tuple[str, str | None]] = parse_partition(partition)
    texts = []
    for key, value in pairs:
        text = DEFAULT_PARTITION if value is None else value
        quoted = text.replace("\\", "\\\\").replace("'", "\\'")
        texts.append(f"`{key}`='{quoted}'")
    return ", ".join(texts)
