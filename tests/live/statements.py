"""UPDATE, DELETE, INSERT and MERGE for any fixture table, and the rows that each of them has to leave behind.

Every table of the fixtures has `id int`, by which rows are chosen; so the rows to expect follow from those before.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from acidctl.types.schema import parse_schema

Row = Mapping[str, Any]
# What is added to the ids of changed rows in tables that have no other column to change.
UPDATED = 40_000
# So many ids are changed at most; each is named in the statement.
AT_MOST = 60
GAP = re.compile(r"1582-10-(0[5-9]|1[0-4])")
# How a column of that type is given a value, from the text of an expression for the id.
CHANGES: Mapping[str, tuple[str, Callable[[int], Any]]] = {
    "string": ("concat('after-', {id})", lambda number: f"after-{number}"),
    "date": ("cast('2001-02-03' as date)", lambda number: "2001-02-03"),
    "bigint": ("cast({id} as bigint)", lambda number: number),
}
BY_ID = (f"{{id}} + {UPDATED}", lambda number: number + UPDATED)


@dataclass(frozen=True, slots=True)
class Statement:
    """`sql` with `{t}` for the table, the rows that are there afterwards; `changed` counts those that went or came."""

    sql: str
    rows: tuple[str, ...]
    changed: int


@dataclass(frozen=True, slots=True)
class Columns:
    """The names of a table's columns, and which one is changed in which way."""

    plain: tuple[str, ...]
    partition: tuple[str, ...]
    target: str
    expression: str
    value: Callable[[int], Any]
    hybrid: bool

    @classmethod
    def of(cls, facts: Mapping[str, Any]) -> Columns:
        """From the `ddl` of a step."""
        schema = parse_schema(facts["ddl"])
        kinds = {field.name: str(field.type) for field in schema.columns.fields}
        # Only the id is ever bucketed by, and every bucketed table has another column.
        found = ((kind, name) for kind in CHANGES for name, its in kinds.items() if its == kind)
        kind, target = next(found, (None, "id"))
        partition = tuple(field.name for field in schema.partition_columns)
        expression, value = CHANGES[kind] if kind else BY_ID
        return cls(tuple(kinds), partition, target, expression, value, hybrid=facts["engine"] == "hive4")

    def written(self, row: Row) -> Row:
        """The row as Hive writes it: Hive 4 takes 5 to 14 October 1582, which its calendar lacks, for later days."""
        if not self.hybrid:
            return row
        return {
            name: f"1582-10-{int(value[8:]) + 10}" if isinstance(value, str) and GAP.fullmatch(value) else value
            for name, value in row.items()
        }

    def changed(self, row: Row) -> dict[str, Any]:
        """The row with a new value in the column that is changed."""
        return {**self.written(row), self.target: self.value(row["id"])}

    def listed(self, number: str, table: str = "") -> str:
        """A SELECT list of all columns as they are, but `number` for the id."""
        return ", ".join(number if name == "id" else f"{table}`{name}`" for name in (*self.plain, *self.partition))


def full_acid(facts: Mapping[str, Any], rows: Sequence[str]) -> Iterator[Statement]:
    """UPDATE, DELETE, INSERT and MERGE, in that order, each of which changes something.

    Where there are too few rows for that, rows are inserted first. `rows` are those before, as lines of JSON.
    """
    columns = Columns.of(facts)
    now: list[Row] = [json.loads(line) for line in rows]
    while len(_ids(now)) < 3:
        sql, after = _insert(columns, now) if now else _insert_values(columns, now)
        yield _statement(sql, now, after)
        now = after
    for step in (_update, _delete, _insert, _merge):
        sql, after = step(columns, now)
        yield _statement(sql, now, after)
        now = after


def inserts(facts: Mapping[str, Any], rows: Sequence[str]) -> Iterator[Statement]:
    """Three INSERTs, each of which doubles what is there."""
    columns = Columns.of(facts)
    now: list[Row] = [json.loads(line) for line in rows]
    for _ in range(3):
        sql, after = _insert(columns, now)
        yield _statement(sql, now, after)
        now = after


def overwrite(facts: Mapping[str, Any], rows: Sequence[str]) -> Statement:
    """INSERT OVERWRITE by half of the rows; a partition of which none is among them stays as it is."""
    columns = Columns.of(facts)
    now: list[Row] = [json.loads(line) for line in rows]
    chosen = _ids(now)[::2]
    kept = [row for row in now if row["id"] in chosen]
    replaced = {_partition(columns, row) for row in kept}
    after = [*kept, *(row for row in now if _partition(columns, row) not in replaced)]
    names = ", ".join(f"`{name}`" for name in (*columns.plain, *columns.partition))
    sql = f"insert overwrite table {{t}}{_clause(columns)} select {names} from {{t}} where {_among(chosen)}"
    return _statement(sql, now, after)


def refused_by_insert_only(facts: Mapping[str, Any]) -> tuple[str, ...]:
    """UPDATE, DELETE and MERGE, which Hive has for full ACID tables alone."""
    rows: list[Row] = [{"id": number} for number in range(4)]
    return tuple(step(Columns.of(facts), rows)[0] for step in (_update, _delete, _merge))


def _statement(sql: str, before: Sequence[Row], after: Sequence[Row]) -> Statement:
    old, new = (Counter(json.dumps(row) for row in rows) for rows in (before, after))
    return Statement(sql, tuple(sorted(new.elements())), ((old - new) | (new - old)).total())


def _update(columns: Columns, rows: Sequence[Row]) -> tuple[str, list[Row]]:
    chosen = _ids(rows)[::3]
    sql = f"update {{t}} set `{columns.target}` = {columns.expression.format(id='id')} where {_among(chosen)}"
    return sql, [columns.changed(row) if row["id"] in chosen else row for row in rows]


def _delete(columns: Columns, rows: Sequence[Row]) -> tuple[str, list[Row]]:
    chosen = _ids(rows)[1::3]
    return f"delete from {{t}} where {_among(chosen)}", [row for row in rows if row["id"] not in chosen]


def _insert(columns: Columns, rows: Sequence[Row]) -> tuple[str, list[Row]]:
    """Of each row one more, with an id of its own."""
    chosen, more = _ids(rows), _beyond(rows)
    sql = f"insert into {{t}}{_clause(columns)} select {columns.listed(f'id + {more}')} from {{t}}"
    new = [{**columns.written(row), "id": row["id"] + more} for row in rows if row["id"] in chosen]
    return f"{sql} where {_among(chosen)}", [*rows, *new]


def _insert_values(columns: Columns, rows: Sequence[Row]) -> tuple[str, list[Row]]:
    """For a table without rows; the columns that are not named become NULL."""
    ids = range(1, 7)
    new = [{**dict.fromkeys(columns.plain), "id": number} for number in ids]
    return f"insert into {{t}} (id) values {', '.join(f'({number})' for number in ids)}", [*rows, *new]


def _merge(columns: Columns, rows: Sequence[Row]) -> tuple[str, list[Row]]:
    """Of ids that are there once (else Hive refuses the second match) some go, some change, and some come."""
    ids = [number for number, times in Counter(row["id"] for row in rows).items() if times == 1 and number is not None]
    ids = sorted(ids)[:AT_MOST]
    gone, changed, come, more = ids[::4], ids[1::4], ids[2::4], _beyond(rows)
    new = [{**columns.written(row), "id": row["id"] + more} for row in rows if row["id"] in come]
    left = [columns.changed(row) if row["id"] in changed else row for row in rows if row["id"] not in gone]
    names = ", ".join(f"`{name}`" for name in (*columns.plain, *columns.partition) if name != "id")
    source = f"select id, id + if({_among(come)}, {more}, 0) as sid{', ' if names else ''}{names} from {{t}}"
    return (
        f"merge into {{t}} using ({source} where {_among([*gone, *changed, *come])}) picked on {{t}}.id = picked.sid "
        f"when matched and {_among(gone, 'picked.id')} then delete "
        f"when matched then update set `{columns.target}` = {columns.expression.format(id='picked.sid')} "
        f"when not matched then insert values ({columns.listed('picked.sid', 'picked.')})"
    ), [*left, *new]


def _ids(rows: Sequence[Row]) -> list[int]:
    return sorted({row["id"] for row in rows} - {None})[:AT_MOST]


def _beyond(rows: Sequence[Row]) -> int:
    """What to add to an id to get one that no row has."""
    return 10_000 * (1 + max(row["id"] or 0 for row in rows) // 10_000)


def _among(ids: Sequence[int], name: str = "id") -> str:
    return f"{name} in ({', '.join(map(str, ids))})"


def _clause(columns: Columns) -> str:
    return f" partition ({', '.join(f'`{name}`' for name in columns.partition)})" if columns.partition else ""


def _partition(columns: Columns, row: Row) -> tuple[Any, ...]:
    return tuple(row[name] for name in columns.partition)
