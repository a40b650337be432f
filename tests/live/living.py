"""Whether real Hive goes on with a table that acidctl has compacted: writing, compacting, cleaning, reading."""

from __future__ import annotations

import logging
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from tests.live.adopted import FIXTURES, Adopted
from tests.live.compactions import Adopt, compact_alike, went_well
from tests.live.statements import Statement, full_acid, inserts, overwrite, refused_by_insert_only
from tests.services.hive import Hive, HiveError

REFUSED = "refused"
READERS = ("row", "vectorised")
LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Life:
    """How a table went on, in everything as its judge says.

    The judge is `statements` (what they mean) or `twin` (a table that nobody compacted before). `changed` counts rows
    that went or came, one number per statement, `answers` what was compared, `removed` the directories that Hive's
    cleaner took away; `refused` names what Hive does not do with an insert-only table, `faults` tells what else failed.
    """

    judge: str
    changed: tuple[int, ...]
    answers: int
    removed: int
    refused: tuple[str, ...]
    faults: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Seen:
    """What Hive reads after one thing was done, without row ids, and what went wrong: a text, or nothing."""

    what: str
    rows: tuple[str, ...]
    fault: str = ""


@dataclass(frozen=True, slots=True)
class _Round:
    """Statements, those that Hive refuses, and which compaction of Hive's comes after them ("" for none)."""

    statements: tuple[Statement, ...]
    refused: tuple[str, ...]
    compaction: str


def _rounds(table: Adopted, compactions: Sequence[str]) -> tuple[_Round, ...]:
    """What a table goes through, so that each compaction has something to do."""
    facts, rows = table.facts, table.values()
    if not table.insert_only:
        written = tuple(full_acid(facts, rows))
        return tuple(_Round(() if number else written, (), kind) for number, kind in enumerate(compactions))
    one, two, three = inserts(facts, rows)
    return (
        _Round((one, two), refused_by_insert_only(facts), "minor"),
        _Round((three,), (), "major"),
        _Round((overwrite(facts, three.rows),), (), ""),
    )


def _meant(rounds: Sequence[_Round]) -> Iterator[_Seen]:
    """What is to be seen on that way, by what the statements mean."""
    rows: tuple[str, ...] = ()
    for each in rounds:
        for statement in each.statements:
            rows = statement.rows
            yield _Seen(statement.sql, rows)
        yield from (_Seen(sql, rows, REFUSED) for sql in each.refused)
        if each.compaction:
            yield _Seen(f"Hive's {each.compaction}", rows)
            yield _Seen(f"cleaning after Hive's {each.compaction}", rows)
    yield from (_Seen(f"a job of the {reader} reader", rows) for reader in READERS)


def live_on(hive: Hive, case: str, *, adopt: Adopt = Adopted) -> Life:
    """Hive changes, compacts and cleans what acidctl has compacted; each time the rows are what they have to be.

    `case` is engine, scenario, step and kind of our compaction: `hive4/bucketed/02-changed major`. Where the rows are
    not what the statements mean, a twin that nobody compacted before has to answer the same: then it is Hive's doing.
    """
    started = time.monotonic()
    source, _, kind = case.partition(" ")
    step, name = FIXTURES / source, re.sub(r"\W", "_", f"lived_{case}")
    ours = adopt(hive, step, f"{name}_ours")
    try:
        outcomes = compact_alike(ours, step, kind, case.partition("/")[0])
        assert "compacted" in outcomes.values(), outcomes
        rounds = _rounds(ours, ("major",) if breaks_itself(ours) else ("minor", "major"))
        seen, removed = _go_on(hive, ours, rounds)
    finally:
        ours.drop()
    judge, expected = "statements", tuple(_meant(rounds))
    if seen != expected:
        LOG.info("%s: not what the statements mean: %s", case, _differences(seen, expected))
        twin = adopt(hive, step, f"{name}_twin")
        try:
            judge, (expected, _) = "twin", _go_on(hive, twin, rounds)
        finally:
            twin.drop()
    assert _differences(seen, expected) == [], judge
    life = Life(
        judge,
        tuple(statement.changed for each in rounds for statement in each.statements),
        len(seen),
        removed,
        tuple(one.what.partition(" ")[0] for one in seen if one.fault == REFUSED),
        tuple(f"{one.what}: {one.fault}" for one in seen if one.fault not in ("", REFUSED)),
    )
    LOG.info("%s: %s (%.0f s)", case, life, time.monotonic() - started)
    return life


def breaks_itself(table: Adopted) -> bool:
    """Whether Hive's own minor compaction makes a table unreadable for it, whoever compacted before.

    Hive 3.1.3 writes the deletes of one bucket of an unbucketed table into files of several; its own minor compaction
    then keeps them in several, and its readers refuse that ("Two readers for").
    """
    return table.facts["engine"] == "hive3" and not table.insert_only and "CLUSTERED BY" not in table.facts["ddl"]


def faults_without_us(hive: Hive, case: str) -> tuple[str, ...]:
    """What goes wrong in Hive after the statements and its minor compaction, in a table that acidctl never touched."""
    table = Adopted(hive, FIXTURES / case.partition(" ")[0], "without_us")
    try:
        seen, _ = _go_on(hive, table, _rounds(table, ("minor",)))
        return tuple(one.fault for one in seen if one.fault)
    finally:
        table.drop()


def _go_on(hive: Hive, table: Adopted, rounds: Sequence[_Round]) -> tuple[tuple[_Seen, ...], int]:
    """What Hive answers on its way through them, and how many directories its cleaner removed."""
    seen: list[_Seen] = []
    removed = 0
    for each in rounds:
        seen += [_write(hive, table, statement.sql) for statement in each.statements]
        for sql in each.refused:
            refusal = _write(hive, table, sql)
            seen.append(replace(refusal, fault=REFUSED if refusal.fault else "done"))
        # Hive's compactor stops below open writes, and its cleaner waits for them.
        table.end_open()
        if each.compaction:
            seen.append(_keeps_ids(table, f"Hive's {each.compaction}", partial(_compact, table, each.compaction)))
            before = len(table.directories())
            seen.append(_keeps_ids(table, f"cleaning after Hive's {each.compaction}", hive.clean))
            removed += before - len(table.directories())
    for reader in READERS:
        read = partial(table.values, job=True, vectorised=reader == "vectorised")
        seen.append(_Seen(f"a job of the {reader} reader", *_tried(table, read)))
    return tuple(seen), removed


def _write(hive: Hive, table: Adopted, sql: str) -> _Seen:
    _, fault = _tried(table, lambda: hive.run(sql.format(t=table.name)))
    rows, unreadable = _tried(table, table.values)
    return _Seen(sql, rows, fault or unreadable)


def _keeps_ids(table: Adopted, what: str, action: Callable[[], object]) -> _Seen:
    """`action` may change neither rows nor row ids."""
    before, _ = _tried(table, table.rows)
    _, fault = _tried(table, action)
    after, unreadable = _tried(table, table.rows)
    rows, _ = _tried(table, table.values)
    return _Seen(what, rows, fault or unreadable or ("" if before == after else "other row ids"))


def _compact(table: Adopted, kind: str) -> None:
    states = set(table.hive_compacts(kind))
    if not went_well(states):
        raise HiveError(f"the compaction: {', '.join(sorted(states))}")


def _tried(table: Adopted, action: Callable[[], object]) -> tuple[tuple[str, ...], str]:
    """What `action` returned, and what Hive said when it failed, without what differs between two tables."""
    try:
        found = action()
    except HiveError as error:
        return (), re.sub(rf"{table.name}|/\S+|\d+", "#", str(error).partition(": ")[2]) or "failed"
    return tuple(found) if isinstance(found, list) else (), ""


def _differences(seen: Sequence[_Seen], expected: Sequence[_Seen]) -> list[tuple[str, list[str], list[str], str, str]]:
    """For each answer that is not the expected one: rows that are too many, rows that lack, and both faults."""
    return [
        (
            one.what,
            sorted((Counter(one.rows) - Counter(other.rows)).elements()),
            sorted((Counter(other.rows) - Counter(one.rows)).elements()),
            one.fault,
            other.fault,
        )
        for one, other in zip(seen, expected, strict=True)
        if one != other
    ]
