"""Random histories of a table in a running Hive, compared after every step with what acidctl reads."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

from tests.cli.runner import acidctl
from tests.services.hive import Hive, HiveError, Session

LAYOUTS = ("clustered by (id) into 2 buckets", "", "partitioned by (p string)")
HIVE2_LAYOUTS = ("clustered by (id) into 2 buckets", "partitioned by (p string) clustered by (id) into 2 buckets")
COLUMNS = "id int, v string, d decimal(12,3), at timestamp, tags array<string>"
WORDS = ("plain", "", "it''s", "línea", "tab\\t", None)


class History:
    """One table and its random life; `compare` after each step."""

    def __init__(
        self, hive: Hive, name: str, seed: int, *, list_format: str | None = None, warehouse: str | None = None
    ) -> None:
        """`warehouse` is the URL of Hive's, where it is not on this machine."""
        self._hive = hive
        self._random = Random(seed)
        self._name = name
        self._list_format = list_format
        self._next_id = 1
        self._open: list[str] = []
        # Hive 2 takes only bucketed tables.
        layout = self._random.choice(LAYOUTS if list_format is None else HIVE2_LAYOUTS)
        self._partitioned = "partitioned" in layout
        self.url = f"{warehouse or hive.warehouse}/{name}"
        self._run(f"create table {name} ({COLUMNS}) {layout} stored as orc tblproperties ({self._properties()})")
        self.log: list[str] = []

    def live(self, steps: int) -> list[int]:
        """An insert and so many steps, compared after each: the numbers of rows that were equal."""
        compared = []
        try:
            self._take(self._insert)
            for _ in range(steps):
                self.step()
                compared.append(self.compare())
        finally:
            self.close()
        return compared

    def step(self) -> None:
        """One random statement, transaction or compaction."""
        self._take(self._random.choice(self._actions()))

    def _actions(self) -> list[Callable[[], None]]:
        actions = [self._insert] * 4 + [self._update] * 3 + [self._delete] * 3
        return [*actions, self._aborted, self._left_open, self._end_open, self._compact, self._compact, self._clean]

    def _properties(self) -> str:
        return "'transactional'='true'"

    def _run(self, sql: str) -> None:
        self._hive.run(sql)

    def _take(self, action: Callable[[], None]) -> None:
        self.log.append(action.__name__)
        action()

    def compare(self) -> int:
        """Hive's rows and row ids and ours, with the lists that Hive gave its own reader; how many they are."""
        session = self._hive.session()
        answer = session.select(f"select ROW__ID, * from {self._name}")
        options = self._lists(answer.valid_txns)
        ddl = self._ddl()
        result = acidctl("snapshot", self.url, *options, "--schema", ddl, "-o", "jsonl", "--row-id")
        assert result.code == 0, (self.log, result.stderr)
        ours = sorted(json.dumps(json.loads(line), sort_keys=True) for line in result.stdout.split("\n") if line)
        theirs = sorted(json.dumps(json.loads(line), sort_keys=True) for line in answer.lines())
        assert ours == theirs, (self.log, options)
        count = acidctl("snapshot", self.url, *options, "--count", "-o", "json")
        assert count.json()["rows"] == len(theirs), (self.log, options)
        return len(theirs)

    def _lists(self, txns: str | None = None) -> list[str]:
        """The lists that Hive gives a reader, as options."""
        session = self._hive.session()
        txns = txns or session.valid_txns()
        write_ids = session.valid_write_ids(f"default.{self._name}", txns)
        options = [option for text in (write_ids, txns) if text for option in ("--validtxns", text)]
        return [*options, "--list-format", self._list_format] if self._list_format else options

    def _ddl(self) -> str:
        answer = self._hive.session().select(f"show create table {self._name}")
        return "\n".join(json.loads(row[0]) for row in answer.values)

    def close(self) -> None:
        """Roll back what is still open."""
        for session in self._open:
            self._hive.session(session).run("rollback")

    def _rows(self) -> str:
        rows = []
        for _ in range(self._random.randint(1, 6)):
            word = self._random.choice(WORDS)
            text = "cast(null as string)" if word is None else f"'{word}'"
            amount = f"cast({self._random.randint(-99999, 99999) / 1000} as decimal(12,3))"
            at = f"timestamp '20{self._random.randint(10, 40)}-03-04 05:06:07.{self._random.randint(0, 999999999):09d}'"
            row = f"select {self._next_id}, {text}, {amount}, {at}, array('a', {text})"
            rows.append(row + (f", 'p{self._next_id % 2}'" if self._partitioned else ""))
            self._next_id += 1
        return " union all ".join(rows)

    def _insert_text(self) -> str:
        target = f"{self._name} partition (p)" if self._partitioned else self._name
        return f"insert into {target} {self._rows()}"

    def _insert(self) -> None:
        self._run(self._insert_text())

    def _some(self) -> str:
        modulus = self._random.randint(2, 5)
        return f"id % {modulus} = {self._random.randrange(modulus)}"

    def _update(self) -> None:
        self._run(self._update_text())

    def _update_text(self) -> str:
        return f"update {self._name} set v = concat('u', id), d = d + 1 where {self._some()}"

    def _delete(self) -> None:
        self._run(self._delete_text())

    def _delete_text(self) -> str:
        return f"delete from {self._name} where {self._some()}"

    def _aborted(self) -> None:
        self._begin(f"{self._name}-aborting").run("rollback")

    def _begin(self, name: str) -> Session:
        """An insert in a transaction of its own, in a session of that name."""
        session = self._hive.session(name)
        if self._list_format:
            session.run("set autocommit false")
        session.run("start transaction")
        session.run(self._insert_text())
        return session

    def _left_open(self) -> None:
        if len(self._open) < 2:
            name = f"{self._name}-open-{len(self.log)}"
            self._begin(name)
            self._open.append(name)

    def _end_open(self) -> None:
        if self._open:
            name = self._open.pop(self._random.randrange(len(self._open)))
            self._hive.session(name).run(self._random.choice(("commit", "rollback")))

    def _compact(self) -> None:
        kind = self._random.choice(("minor", "major"))
        try:
            self._hive.compact(self._name, kind, f"p='p{self._random.randrange(2)}'" if self._partitioned else "")
        except HiveError as error:
            self.log.append(f"refused: {str(error)[:60]}")

    def _clean(self) -> None:
        self._hive.clean()


class MaintainedHistory(History):
    """A history in which acidctl compacts and cleans as well, beside Hive's own compactor and cleaner.

    `ours` counts the outcomes of acidctl's partitions.
    """

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self.ours: Counter[str] = Counter()

    def step(self) -> None:
        """Every third step is ours, and leaves Hive's answer as it was."""
        if self._random.randrange(3):
            super().step()
            return
        before = self._hive.rows(f"select ROW__ID, * from {self._name}")
        self._take(self._random.choice((self._our_major, self._our_major, self._our_minor, self._our_clean)))
        assert sorted(self._hive.rows(f"select ROW__ID, * from {self._name}")) == sorted(before), self.log

    def _our_major(self) -> None:
        self._ours("compact", "major")

    def _our_minor(self) -> None:
        self._ours("compact", "minor", "--assume-exclusive")

    def _our_clean(self) -> None:
        # No other reader is there, so the lists of now are the meet, and no age has to protect anybody.
        self._ours("clean", options=("--unsafe-no-retention", "--delete", "--yes"))

    def _ours(self, *command: str, options: tuple[str, ...] = ()) -> None:
        given = (*command, self.url, *self._lists(), "--schema", self._ddl(), "-o", "json", *options)
        result = acidctl(*given)
        assert result.code in (0, 3), (self.log, given, result.stderr)
        outcomes = [part["outcome"] for part in result.json().get("partitions", [])]
        self.ours.update(outcomes)
        self.log.append(",".join(sorted(set(outcomes))))
        assert "failed" not in outcomes, (self.log, result.stdout)
