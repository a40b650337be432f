"""Carries out a scenario on a running Hive and records its steps: table directory, lists and rows."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .hive import Answer, Hive, HiveError, Session
from .scenario import Action, Scenario

# Table properties that say when and by whom, which would change with every run.
_VOLATILE = re.compile(r"'(?:last_modified_by|last_modified_time|transient_lastDdlTime)'='[^']*'(?:,\s*)?")


@dataclass(frozen=True, slots=True)
class TableFacts:
    """What Hive says a table is; columns are DDL text (`id int, v string`)."""

    ddl: str
    location: Path
    kind: str
    columns: str
    partition_columns: str


def describe(session: Session, table: str, warehouse: Path) -> TableFacts:
    """Asks Hive by SHOW CREATE TABLE and DESCRIBE; the DDL's location is given below `/warehouse`."""
    lines = [json.loads(row[0]) for row in session.select(f"show create table {table}").values]
    ddl = "\n".join(lines)
    location = re.search(r"LOCATION\s+'file:/*(/[^']*)'", ddl)
    if location is None:
        raise HiveError(f"{table}: SHOW CREATE TABLE names no location")
    transactional = re.search(r"'transactional'='true'", ddl, re.IGNORECASE)
    insert_only = re.search(r"'transactional_properties'='insert_only'", ddl, re.IGNORECASE)
    data, partition = _columns(session, table)
    ddl = _VOLATILE.sub("", ddl.replace(str(warehouse), "/warehouse"))
    return TableFacts(
        re.sub(r",\s*\)$", ")", ddl),
        Path(location[1]),
        "insert_only" if insert_only else "full" if transactional else "non_acid",
        data,
        partition,
    )


def _columns(session: Session, table: str) -> tuple[str, str]:
    data: list[str] = []
    partition: list[str] = []
    current = data
    for row in session.select(f"describe {table}").values:
        name, kind = (str(json.loads(text) or "").strip() for text in row[:2])
        if name.startswith("# Partition"):
            current = partition
        elif name and not name.startswith("#"):
            current.append(f"{name} {kind}")
    return ", ".join(text for text in data if text not in partition), ", ".join(partition)


@dataclass(slots=True)
class Recorder:
    """One run of one scenario; `target` is the scenario's folder of recorded steps."""

    hive: Hive
    scenario: Scenario
    target: Path
    handmade: Path
    report: Callable[[str], None]
    table: str = "t"
    session_name: str = "main"
    reader: str = "reader"
    refusal: str | None = None
    fault: str | None = None
    fault_rows: list[str] = field(default_factory=list)
    fault_texts: list[tuple[str, str]] = field(default_factory=list)
    done: list[str] = field(default_factory=list)
    compactor_settings: dict[str, str] = field(default_factory=dict)
    batch: Any = None
    steps: int = 0
    used_tables: set[str] = field(default_factory=set)

    def run(self) -> None:
        """Carries out every action; a failure names the line of the scenario."""
        shutil.rmtree(self.target, ignore_errors=True)
        services = self.hive.java.acidctl.Services
        if self.scenario.first_txn > 1:
            self.hive.call(services.seedTransactions, self.scenario.first_txn, what="first-txn")
        try:
            for action in self.scenario.actions:
                try:
                    self._carry_out(action)
                except Exception as error:
                    raise HiveError(f"{self.scenario.path}:{action.line}: {error}") from error
        finally:
            self._tidy()

    def _carry_out(self, action: Action) -> None:
        if action.word not in ("table", "row", "step", "fault", "instead", "refused"):
            self.done.append(action.text if action.word == "sql" else f"-- {action.word}: {action.text}")
        getattr(self, "_do_" + action.word.replace("-", "_"))(action.text)

    def _session(self) -> Session:
        return self.hive.session(f"{self.scenario.name}-{self.session_name}")

    def _do_table(self, text: str) -> None:
        self.table = text

    def _do_session(self, text: str) -> None:
        self.session_name = text

    def _do_set(self, text: str) -> None:
        key, _, value = text.partition("=")
        self._session().set(key.strip(), self._filled(value.strip()))

    def _do_compactor_set(self, text: str) -> None:
        key, _, value = text.partition("=")
        self.compactor_settings[key.strip()] = self._filled(value.strip())

    def _filled(self, text: str) -> str:
        return text.replace("${folder}", str(self.hive.folder)).replace("${warehouse}", str(self.hive.warehouse))

    def _do_sql(self, text: str) -> None:
        created = re.match(r"create table (?:if not exists )?([a-z0-9_.]+)", text, re.IGNORECASE)
        if created:
            self.used_tables.add(created[1])
        if self.refusal is None:
            self._session().run(self._filled(text))
            return
        expected, self.refusal = self.refusal, None
        try:
            self._session().run(self._filled(text))
        except HiveError as error:
            if expected not in str(error):
                raise
        else:
            raise HiveError(f"Hive was expected to refuse with {expected!r}")

    def _do_reader(self, text: str) -> None:
        self.reader = text

    def _do_refused(self, text: str) -> None:
        self.refusal = text

    def _do_compact(self, text: str) -> None:
        kind, _, partition = text.partition(" ")
        state = self.hive.compact(self.table, kind, partition, self.compactor_settings)
        if state not in ("ready for cleaning", "succeeded"):
            entry = self.hive.compactions(self.table)[-1]
            raise HiveError(f"compaction ended as {state}: {entry.get('errormessage')}")

    def _do_clean(self, text: str) -> None:
        self.hive.clean(self.compactor_settings)

    def _do_ingest(self, text: str) -> None:
        """`new {...}` starts a batch, `[...]` continues it."""
        if text.startswith("new "):
            wish = json.loads(text[4:])
            location = self.hive.warehouse / self.table
            partition = wish.get("partition")
            folder = location / partition if partition else location
            self.batch = self.hive.ingest(f"default.{self.table}", wish["row"], wish["transactions"], folder, partition)
            return
        for verb, *arguments in json.loads(text):
            self.hive.call(getattr(self.batch, verb), *arguments, what=f"ingest {verb}")

    def _do_python(self, text: str) -> None:
        spec = importlib.util.spec_from_file_location("handmade", self.handmade)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        getattr(module, text)(self.hive, self.hive.warehouse / self.table)

    def _do_fault(self, text: str) -> None:
        self.fault = text

    def _do_row(self, text: str) -> None:
        json.loads(text)
        self.fault_rows.append(text)

    def _do_instead(self, text: str) -> None:
        wrong, _, right = text.partition(" => ")
        self.fault_texts.append((wrong, right))

    def _do_step(self, text: str) -> None:
        folder, note = self.scenario.steps()[self.steps]
        self.steps += 1
        target = self.target / folder
        # Hive describes no table inside a transaction, so another session does.
        describer = self.hive.session(f"{self.scenario.name}-reader")
        facts = describe(describer, self.table, self.hive.warehouse)
        session = self.hive.session(f"{self.scenario.name}-{self.reader}")
        name = f"default.{self.table}"
        query = "select ROW__ID, * from " if facts.kind != "non_acid" else "select * from "
        lines: list[str] = []
        try:
            answer = session.select(query + self.table)
            lines = _sorted_lines(answer, facts.partition_columns)
        except HiveError as error:
            if self.fault is None:
                raise
            self.report(f"    {folder}: {error}")
            answer = Answer((), (), session.valid_txns())
        txns = answer.valid_txns or session.valid_txns()
        if self.fault is not None:
            lines = self.fault_rows or [self._corrected(line) for line in lines]
        target.mkdir(parents=True)
        empty = _copy_table(facts.location, target / "table")
        (target / "rows.jsonl").write_text("".join(line + "\n" for line in lines))
        step = {
            "scenario": self.scenario.name,
            "step": folder,
            "engine": self.hive.version.name,
            "table": name,
            "kind": facts.kind,
            "columns": facts.columns,
            "partition_columns": facts.partition_columns,
            "ddl": facts.ddl,
            "valid_write_ids": session.valid_write_ids(name, txns) if facts.kind != "non_acid" else None,
            "valid_txns": txns,
            "sql": [self._scrubbed(text) for text in self.done],
            "empty_directories": empty,
            "hive_fault": self.fault,
            "rows": len(lines),
            "note": note,
        }
        (target / "step.json").write_text(json.dumps(step, indent=1, ensure_ascii=False) + "\n")
        self.report(f"    {folder}: {len(lines)} rows, {step['valid_write_ids']}")
        self.done, self.fault, self.fault_rows, self.fault_texts = [], None, [], []

    def _corrected(self, line: str) -> str:
        for wrong, right in self.fault_texts:
            line = line.replace(wrong, right)
        return line

    def _scrubbed(self, text: str) -> str:
        return text.replace(str(self.hive.folder), "")

    def _tidy(self) -> None:
        """Ends the scenario's sessions and batch and drops its tables: the next one meets none of it."""
        if self.batch is not None:
            self.hive.call(self.batch.abandon, what="abandon a batch")
        for name in {action.text for action in self.scenario.actions if action.word == "session"} | {
            "main",
            "reader",
        }:
            self.hive.end_session(f"{self.scenario.name}-{name}")
        for table in sorted(self.used_tables):
            try:
                self.hive.run(f"drop table if exists {table}")
            except HiveError as error:
                self.report(f"    not dropped: {error}")
        self.hive.call(self.hive.java.acidctl.Services.forgetTransactions, what="forget transactions")


def _sorted_lines(answer: Answer, partition_columns: str) -> list[str]:
    """The rows as JSON lines, by partition and ROW__ID, so that a rerun gives the same file."""
    names = {part.split()[0] for part in partition_columns.split(", ") if part}

    def order(line: str) -> tuple[str, tuple[int, ...], str]:
        row = json.loads(line)
        identity = row.get("ROW__ID") or {}
        partition = json.dumps([row[name] for name in answer.columns if name in names])
        return partition, tuple(identity.get(key, 0) for key in ("writeid", "bucketid", "rowid")), line

    return sorted(answer.lines(), key=order)


def _copy_table(source: Path, target: Path) -> list[str]:
    """Copies a table directory without checksums; returns its empty directories, `.` being the table itself."""
    shutil.copytree(source, target, ignore=shutil.ignore_patterns("*.crc"))
    return sorted(
        str(path.relative_to(target))
        for path in (target, *target.rglob("*"))
        if path.is_dir() and not any(path.iterdir())
    )
