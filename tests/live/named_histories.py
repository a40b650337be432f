"""Tables that are read by name alone, beside Hive's own SELECT of the same moment."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from random import Random

import acidctl as api
from acidctl.format.names import DEFAULT_PARTITION
from acidctl.types.format_rows import json_lines
from tests.cli.runner import Result, acidctl
from tests.live.histories import History
from tests.services.hive import HiveError
from tests.services.metastore import Metastore

# An open UPDATE keeps nobody waiting; whoever commits first wins.
SETTINGS = {"hive.txn.xlock.write": "false", "hive.lock.numretries": "20", "hive.lock.sleep.between.retries": "1s"}
WIDER = {"int": "bigint", "decimal(12,3)": "decimal(20,3)", "float": "double"}


def by_name(metastore: Metastore, name: str, *options: str) -> Result:
    """`acidctl snapshot db.table`."""
    return acidctl("snapshot", name, "--metastore", metastore.url, *options)


def same_as_hive(metastore: Metastore, name: str, *, row_ids: bool = True, by_python: bool = False) -> int:
    """Compares all rows, with their row ids where the table has them; how many there are."""
    theirs = metastore.hive.session().select(f"select {'ROW__ID, ' if row_ids else ''}* from {name}")
    if by_python:
        ours = _sorted(_python_lines(metastore, name, row_ids))
    else:
        result = by_name(metastore, name, "-o", "jsonl", *(["--row-id"] if row_ids else []))
        assert result.code == 0, result.stderr
        ours = _sorted(result.stdout.split("\n"))
    # Hive shows null of a text partition by the name of its folder.
    expected = _sorted(line.replace(f'"{DEFAULT_PARTITION}"', "null") for line in theirs.lines())
    assert ours == expected, (name, sorted(set(ours) ^ set(expected))[:6])
    return len(ours)


def _python_lines(metastore: Metastore, name: str, row_ids: bool) -> list[str]:
    with api.Metastore(metastore.url) as connected:
        found: list[str] = []
        for rows in connected.table(name).snapshot().rows():
            names, types, columns = rows.with_row_id() if row_ids else (rows.names, rows.types, rows.columns)
            found += bytes(json_lines(columns, names, types)).decode().split("\n")
        return found


def _sorted(lines: Iterable[str]) -> list[str]:
    return sorted(json.dumps(json.loads(line), sort_keys=True) for line in lines if line)


class NamedHistory(History):
    """A history that is read by name alone: no path, no lists, no schema; the table itself changes as well."""

    def __init__(self, metastore: Metastore, name: str, seed: int) -> None:
        random = Random(f"kind {seed}")
        self._insert_only = random.random() < 0.25
        self._metastore = metastore
        self._by_python = seed % 3 == 0
        self._columns = {"id": "int", "v": "string", "d": "decimal(12,3)", "at": "timestamp", "tags": "array<string>"}
        self._names = 0
        self._writers = f"{name}-writer"
        super().__init__(metastore.hive, name, seed)

    def compare(self) -> int:
        """Hive's rows and row ids, and ours."""
        try:
            return same_as_hive(self._metastore, self._name, row_ids=not self._insert_only, by_python=self._by_python)
        except AssertionError as error:
            raise AssertionError(f"{self.log}: {error}") from error

    def drop(self) -> None:
        """Ends its sessions and the table."""
        self._run(f"drop table {self._name}")
        self._hive.end_session(self._writers)

    def _properties(self) -> str:
        more = ", 'transactional_properties'='insert_only'" if self._insert_only else ""
        return super()._properties() + more

    def _run(self, sql: str) -> None:
        self._hive.session(self._writers, SETTINGS).run(sql)

    def _actions(self) -> list[Callable[[], None]]:
        changes = (self._update, self._delete)
        actions = [one for one in super()._actions() if not self._insert_only or one not in changes]
        actions += [self._left_open] * 3 + [self._end_open]
        return [*actions, *[self._alter] * 4]

    def _alter(self) -> None:
        """The table itself changes, which it does for nobody's open transaction; another is left open at once."""
        while self._open:
            self._end_open()
        changes = [self._rename, self._add_column, self._rename_column, self._widen]
        # An INSERT by dynamic partition puts a delta of an insert-only table that was moved into another delta.
        if self._partitioned and not self._insert_only:
            changes += [self._move] * 4
        self._take(self._random.choice(changes))
        self._take(self._left_open)

    def _left_open(self) -> None:
        """Up to three statements in a transaction whose end may come much later."""
        if len(self._open) == 3:
            return
        name = f"{self._name}-open-{len(self.log)}"
        session = self._hive.session(name, SETTINGS)
        session.run("start transaction")
        self._open.append(name)
        for _ in range(self._random.randint(1, 3)):
            texts = (
                [self._insert_text] if self._insert_only else [self._insert_text, self._update_text, self._delete_text]
            )
            session.run(self._random.choice(texts)())

    def _end_open(self) -> None:
        try:
            super()._end_open()
        except HiveError as error:
            if "conflict" not in str(error):
                raise
            self.log.append("conflict")

    # --- the table changes

    def _rows(self) -> str:
        rows = super()._rows()
        more = list(self._columns.values())[5:]
        if not more:
            return rows
        values = ", ".join(f"cast({self._random.randint(-9, 9)} as {kind})" for kind in more)
        names = [f"`_c{number}`" for number in range(6 if self._partitioned else 5)]
        return f"select {', '.join([*names[:5], values, *names[5:]])} from ({rows}) r"

    def _rename(self) -> None:
        self._names += 1
        new = f"{self._name.partition('_as_')[0]}_as_{self._names}"
        self._run(f"alter table {self._name} rename to {new}")
        self._name = new

    def _cascade(self) -> str:
        return " cascade" if self._partitioned else ""

    def _add_column(self) -> None:
        name = f"more_{len(self._columns)}"
        self._columns[name] = self._random.choice(("int", "float", "string", "decimal(12,3)"))
        self._run(f"alter table {self._name} add columns ({name} {self._columns[name]}){self._cascade()}")

    def _change(self, old: str, new: str, kind: str) -> None:
        self._run(f"alter table {self._name} change column {old} {new} {kind}{self._cascade()}")
        self._columns = {
            new if name == old else name: kind if name == old else has for name, has in self._columns.items()
        }

    def _rename_column(self) -> None:
        old = self._random.choice([name for name in self._columns if name not in ("id", "v", "d")])
        self._change(old, f"{old}_r", self._columns[old])

    def _widen(self) -> None:
        narrow = [name for name, kind in self._columns.items() if kind in WIDER and name != "id"]
        if narrow:
            name = self._random.choice(narrow)
            self._change(name, name, WIDER[self._columns[name]])

    def _move(self) -> None:
        """A partition with all that is in it lies elsewhere from now on."""
        part = f"p{self._random.randrange(2)}"
        places = dict(self._places())
        if f"p={part}" not in places:
            return
        old = Path(places[f"p={part}"].removeprefix("file:"))
        self._names += 1
        new = self._hive.folder / f"elsewhere {self._name}" / str(self._names)
        if not old.exists():
            return
        new.parent.mkdir(exist_ok=True)
        shutil.move(old, new)
        self._run(f"alter table {self._name} partition (p='{part}') set location '{new.as_uri()}'")

    def _places(self) -> Iterable[tuple[str, str]]:
        with api.Metastore(self._metastore.url) as connected:
            return list(connected.catalog.partitions(connected.table(self._name).info))
