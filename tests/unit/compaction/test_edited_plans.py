"""Plans that were edited by hand: refused as they are, and with --accept-edited compared with a new plan, all of it."""

from __future__ import annotations

import copy
import json
import random
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from functools import reduce
from pathlib import Path
from typing import Any, TypedDict

import pytest

import acidctl as library
from acidctl.compaction.plan import encode, parse, to_json
from acidctl.compaction.report import Outcome
from acidctl.compaction.run import Prepared
from acidctl.engine.local import LocalEngine
from acidctl.errors import AcidctlError, ExitCode, StalePlanError
from tests import ROOT
from tests.cli.runner import acidctl
from tests.support.extent import amount

TABLES = ROOT / "fixtures" / "tables"
SOURCE = TABLES / "hive4/bucketed/02-changed/table"
# What a command may end with that refuses a plan or carries it out.
CLEAN = {ExitCode.DONE, ExitCode.USAGE, ExitCode.NO_SUCH_TABLE, ExitCode.STALE_PLAN}
HUGE = 10**30


def places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Paths to everything inside a JSON value."""
    if at:
        yield at
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in inner:
        yield from places(one, (*at, key))


Change = Callable[[Any, Any], object]


def edits(values: Any, at: tuple[Any, ...]) -> Iterator[tuple[str, Change]]:
    """What may be done to one place of a plan's JSON values, each with a word on how: see `edited`."""

    def put(new: Any) -> Change:
        return lambda holder, key: holder.__setitem__(key, new)

    old = reduce(lambda value, step: value[step], at, values)
    yield "left out", lambda holder, key: holder.pop(key)
    others: dict[str, object] = {"null": None, "true": True, "text": "x", "none": "", "list": [], "object": {}}
    for name, other in others.items():
        yield name, put(other)
    for number in (0, 1, -1, 7, 0.5, -0.5, 2**31, 2**63, HUGE, -HUGE, 1e300, float("nan"), float("inf")):
        yield repr(number), put(number)
    if isinstance(at[-1], int):
        yield "twice", lambda holder, key: holder.insert(key, copy.deepcopy(old))
        yield "moved", lambda holder, key: holder.append(holder.pop(key))
    if isinstance(old, str):
        for new in (old + "0", old[:-1], old.replace("0", "1"), old.upper(), f"../{old}", f"_{old}", f"{old}/_x"):
            yield new, put(new)
        for new in (
            *("refused", "compact", "inserts", "bytes", "minor", "hive3", "insert-only"),
            *("9" * 30, "\x00", "struct<>"),
        ):
            yield new, put(new)
    if isinstance(old, int) and not isinstance(old, bool):
        yield "one more", put(old + 1)
        yield "one less", put(old - 1)
    if isinstance(old, list) and len(old) > 1:
        yield "backwards", put(old[::-1])
        yield "halved", put(old[: len(old) // 2])


def edited(values: Any, at: tuple[Any, ...], change: Change) -> Any:
    """A copy with one place changed."""
    copied = copy.deepcopy(values)
    change(reduce(lambda value, step: value[step], at[:-1], copied), at[-1])
    return copied


def _table(folder: Path) -> Path:
    """Two partitions with deletes, two buckets each."""
    for name in ("ds=1", "ds=2"):
        shutil.copytree(SOURCE, folder / "t" / name)
    return folder / "t"


class Agreed(TypedDict):
    """What is said again when the plan is carried out."""

    assume_committed: bool
    assume_exclusive: bool


def _agreed(kind: str) -> Agreed:
    return {"assume_committed": True, "assume_exclusive": kind == "minor"}


def _plan(table: Path, kind: str, **options: Any) -> Any:
    """A plan as a file gives it."""
    plan = library.open_table(str(table)).prepare_compaction(kind, **_agreed(kind), **options).plan
    return json.loads(json.dumps(to_json(plan)))


def _accepted(table: Path, kind: str, values: Any) -> Prepared:
    plan = parse(json.dumps(values), accept_edited=True)
    return library.open_table(str(table)).prepare_compaction(kind, plan=plan, accept_edited=True, **_agreed(kind))


def _run(prepared: Prepared) -> library.CompactionReport:
    return prepared.start(LocalEngine(parallelism=1)).run()


def _rows(table: Path) -> tuple[int, str]:
    return library.open_table(str(table)).snapshot().count_and_digest()


# All of them, some 8,600 of each kind, take minutes: give None to try them.
SHARE: int | None = amount(300, swept=1500)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["major", "minor"])
def test_no_edit_of_any_field_changes_rows(kind: str, tmp_path: Path) -> None:
    """Every field left out, of another type, negative, huge, another text; every element dropped, doubled, moved.

    What is accepted is carried out, each different plan once.
    """
    table = _table(tmp_path)
    before, values = _rows(table), _plan(table, kind)
    names = sorted(str(path) for path in table.rglob("*"))
    cases = [(at, how, change) for at in places(values) for how, change in edits(values, at)]
    if SHARE is not None:
        cases = random.Random(7).sample(cases, SHARE)
    codes: Counter[int] = Counter()
    distinct: dict[str, tuple[Any, Any]] = {}
    for at, how, change in cases:
        plan = edited(values, at, change)
        try:
            prepared = _accepted(table, kind, plan)
        except AcidctlError as error:
            codes[error.exit_code] += 1
            continue
        codes[0] += 1
        distinct.setdefault(
            json.dumps([*encode(prepared.plan.partitions), encode(prepared.plan.table)]), (plan, (at, how))
        )
    assert sorted(str(path) for path in table.rglob("*")) == names
    assert codes.keys() <= CLEAN
    assert min(codes[0], codes[2], codes[15]) > 0
    for plan, how in distinct.values():
        shutil.rmtree(table)
        _table(tmp_path)
        report = _run(_accepted(table, kind, plan))
        assert report.exit_code in (0, 3), (how, report)
        assert all(part.outcome is not Outcome.FAILED for part in report.partitions), (how, report)
        assert _rows(table) == before, how


def _writer(**settings: Any) -> Callable[[Any], None]:
    return lambda values: values["table"]["writer"].update(settings)


def _task(**fields: Any) -> Callable[[Any], None]:
    return lambda values: values["partitions"][0]["tasks"][0].update(fields)


def _cuts(*keys: tuple[int, int, int]) -> Callable[[Any], None]:
    names = ("write_id", "bucket_property", "row_id")
    return _task(cuts=[dict(zip(names, key, strict=True)) for key in keys])


@pytest.mark.slow
def test_what_an_editor_decides(tmp_path: Path) -> None:
    """Partitions, the form of files, cuts: carried out, and the rows are the same."""
    table = _table(tmp_path)
    before = _rows(table)
    for change in (
        _writer(compression="snappy", stripe_size=1, block_size=1, row_index_stride=1000, bloom_columns=["id", "v"]),
        _writer(compression="zstd", row_index_stride=0, stripe_size=1 << 40, bloom_columns=["id"], bloom_fpp=1e-300),
        _cuts((-(2**63), 0, 0), (1, 536870912, 0), (1, 536870912, 1), (2**63 - 1, 2**63 - 1, 2**63 - 1)),
    ):
        values = _plan(table, "major")
        change(values)
        report = _run(_accepted(table, "major", values))
        assert [part.outcome.value for part in report.partitions] == ["compacted"] * 2
        assert _rows(table) == before
        shutil.rmtree(table)
        _table(tmp_path)
    values = _plan(table, "major")
    values["partitions"][0]["action"] = "refused"
    report = _run(_accepted(table, "major", values))
    assert [part.outcome.value for part in report.partitions] == ["refused", "compacted"]
    assert report.partitions[0].reason_code == "left_out"
    assert report.exit_code == 3


NOT_HIS: dict[str, Callable[[Any], object]] = {
    "no deletes": _task(delete_files=[]),
    "a role": _task(role="rows"),
    "bytes": _task(role="bytes"),
    "a hidden output": _task(output="base_0000005/_x"),
    "another bucket": _task(output="base_0000005/bucket_00077"),
    "no task": lambda values: values["partitions"][0].update(tasks=[], rows_in=0),
    "no output": lambda values: values["partitions"][0].update(outputs=[]),
    "an input": lambda values: values["partitions"][0]["inputs"].pop(),
    "lists": lambda values: values["table"].update(write_ids="default.t:3:9223372036854775807::"),
    "another list of the reader": lambda values: values.update(write_ids="default.t:3:9223372036854775807::"),
    "columns": lambda values: values["table"].update(columns="struct<id:int>"),
    "no columns": lambda values: values["table"].update(columns="int"),
    "the kind of table": lambda values: values["table"].update(table_type="insert-only"),
    "what it is read as": lambda values: values["options"]["view"].update(table_type="insert-only"),
    "a bound": lambda values: values["options"]["request"].update(max_partitions=1),
    "a transaction": lambda values: values["options"]["request"].update(visibility_txn=9),
    "a dialect": lambda values: values["table"].update(dialect="hive3"),
    "equal cuts": _cuts((1, 1, 1), (1, 1, 1)),
    "a cut of many bits": _cuts((1, 1, 2**63)),
    "a codec": _writer(compression="brotli"),
    "large filters": _writer(bloom_columns=["id"], row_index_stride=1 << 30),
    "a filter of no column": _writer(bloom_columns=["nothing"]),
    "a partition twice": lambda values: values["partitions"].append(values["partitions"][0]),
    "another partition": lambda values: values["partitions"][0].update(partition="ds=3", path="ds=3"),
}


@pytest.mark.slow
def test_what_is_not_for_an_editor_to_decide(tmp_path: Path) -> None:
    """Exit 15 with the place, nothing changed; without --accept-edited the same, with another sentence."""
    table, saved = _table(tmp_path), tmp_path / "plan.json"
    whole = _plan(table, "major")
    names = sorted(str(path) for path in table.rglob("*"))
    command = ("compact", "major", str(table), "--plan", str(saved), "--assume-committed", "-o", "json")
    for what, change in NOT_HIS.items():
        values = copy.deepcopy(whole)
        change(values)
        saved.write_text(json.dumps(values))
        plain, accepted = acidctl(*command), acidctl(*command, "--accept-edited")
        assert (plain.code, plain.stdout, plain.error()["code"]) == (15, "", "stale_plan"), what
        assert "was changed after it was made" in plain.error()["message"]
        assert (accepted.code, accepted.stdout, accepted.error()["code"]) == (15, "", "edited_plan"), (what, accepted)
        assert "plan." in accepted.error()["message"], what
        assert "--plan-out" in accepted.error()["hint"]
    assert sorted(str(path) for path in table.rglob("*")) == names


def test_what_was_assumed_is_said_again(tmp_path: Path) -> None:
    """A plan file agrees to no risk: not for a plan that is made anew."""
    table, saved = _table(tmp_path), tmp_path / "plan.json"
    for kind, flags in (("major", ["--assume-committed"]), ("minor", ["--assume-committed", "--assume-exclusive"])):
        saved.write_text(json.dumps(_plan(table, kind)))
        command = ("compact", kind, str(table), "--plan", str(saved), "--accept-edited")
        for flag in flags:
            result = acidctl(*command, *(other for other in flags if other != flag))
            assert (result.code, result.stdout) == (2, ""), flag
            assert flag in result.stderr
    assert acidctl(*command, *flags).code == 0


def test_a_table_that_has_changed_makes_an_edited_plan_stale(tmp_path: Path) -> None:
    """Whether the plan or the table is another now: exit 15."""
    table = _table(tmp_path)
    values = _plan(table, "major")
    _writer(compression="snappy")(values)
    shutil.copytree(table / "ds=1/delta_0000005_0000005_0001", table / "ds=1/delta_0000006_0000006_0000")
    with pytest.raises(StalePlanError, match=r"a new plan does not compact it: .* holds rows of write id 5"):
        _accepted(table, "major", values)
