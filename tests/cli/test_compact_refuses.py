"""Results that are wrong: `compact` publishes none of them, keeps them as evidence, and does it right the next time."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from acidctl.compaction import joining, task
from acidctl.compaction import task as plainfiles
from acidctl.compaction import tasks as planned_tasks
from acidctl.compaction.attempts import Attempt
from acidctl.compaction.plan import Role
from acidctl.compaction.tasks import make_tasks
from acidctl.engine import TaskOutcome
from acidctl.engine.local import LocalEngine
from acidctl.errors import ExitCode
from acidctl.format.events import EventKeys
from acidctl.format.write_ids import ValidWriteIds
from acidctl.orc.stitch import stitch
from acidctl.rows import merge
from tests.cli.runner import Result, acidctl
from tests.support.cleaning_cases import age, step
from tests.support.corruption import Corruption, corrupting_writer

TABLE = "hive4/multi_statement/02-transaction"
LARGE = "hive4/many_rows/01-written"
PLAIN = "hive4/insert_only/02-aborted"
ROWS = (Corruption.DROP_ROW, Corruption.DOUBLE_ROW, Corruption.CHANGE_VALUE)


class Case:
    """A table, and how the command is called for it."""

    def __init__(
        self, root: Path, kind: str, args: list[str], read: Callable[[bytes], list[Any]] | None = None
    ) -> None:
        """`read` gives the rows of a file, where acidctl reads no such files."""
        self.root = root
        self._read = read
        self._kind = kind
        self._args = args
        self.before = self.content()
        self.rows = self.digest()

    def compact(self) -> Result:
        """One run, in this process."""
        return acidctl(
            "compact", self._kind, str(self.root), "--engine", "local", "--assume-exclusive", *self._args, "-o", "json"
        )

    def clean(self) -> Result:
        """Delete what may go."""
        return acidctl("clean", str(self.root), *self._args, "--delete", "--yes", "-o", "json")

    def digest(self) -> str:
        """What a reader gets."""
        if self._read is not None:
            files = sorted(self.root.glob("base_*/0*")) or sorted(self.root.glob("delta_*/0*"))
            return str([row for path in files for row in self._read(path.read_bytes())])
        result = acidctl("snapshot", str(self.root), *self._args, "--digest", "-o", "csv", "--no-header", "-q")
        assert result.code == 0, result.stderr
        return result.stdout

    def content(self) -> dict[str, bytes]:
        """Every file of the table, those of ours left out."""
        files = (path for path in sorted(self.root.rglob("*")) if path.is_file())
        return {str(f): f.read_bytes() for f in files if not any(p.startswith("_acidctl") for p in f.parts)}

    def evidence(self) -> list[Path]:
        """Work directories that are kept."""
        return sorted(self.root.rglob("_acidctl*_work_*"))

    def refuses(self, faulty: pytest.MonkeyPatch, *, attempts: bool = True) -> str:
        """Why one run refused: the table is as it was, and what was written is kept. Then nothing is faulty."""
        result = self.compact()
        faulty.undo()
        assert result.code == ExitCode.DAMAGED, (result.stdout, result.stderr)
        (part,) = result.json()["partitions"]
        assert (part["outcome"], part["reason_code"], part["outputs"]) == ("failed", "verification_failed", [])
        reason: str = part["reason"]
        assert reason in " ".join(result.stderr.split())
        assert self.content() == self.before
        assert self.digest() == self.rows
        (work,) = self.root.glob("_acidctl_*")
        assert json.loads((work / "failed").read_text())["reason"] == reason
        assert part["notes"][-1].startswith(f"What was written is kept as evidence in {work.name}")
        assert not attempts or list(work.glob("attempts/*")) or list(work.glob("out/*/*"))
        return reason

    def mends(self) -> None:
        """The next run does it right and leaves the evidence, which goes when it is old."""
        (work,) = self.root.glob("_acidctl_*")
        held = sorted(work.rglob("*"))
        result = self.compact()
        assert result.code == ExitCode.DONE, (result.stdout, result.stderr)
        assert result.json()["partitions"][0]["outcome"] == "compacted"
        assert self.digest() == self.rows
        assert sorted(work.rglob("*")) == held
        assert self.clean().code == ExitCode.DONE
        assert sorted(work.rglob("*")) == held
        age(work)
        assert self.clean().code == ExitCode.DONE
        assert not list(self.root.glob("_acidctl*"))
        assert self.digest() == self.rows


def _case(name: str, kind: str, folder: Path) -> Case:
    chosen = step(name)
    root = folder / "t"
    chosen.copy(root)
    for path in (root, *root.rglob("*")):
        os.utime(path)
    lists = [option for text in chosen.lists for option in ("--validtxns", text)]
    return Case(root, kind, [*lists, "--schema", chosen.facts["ddl"]])


SAID = {
    Corruption.DROP_ROW: "rows, not ",
    Corruption.DOUBLE_ROW: "rows, not ",
    Corruption.CHANGE_VALUE: "the digest of its rows is ",
    Corruption.BREAK_ORDER: "its rows are not in order",
    Corruption.LOSE_DELETE: "rows, not ",
}
FAST: set[Any] = {("major", Corruption.LOSE_DELETE), ("minor", Corruption.CHANGE_VALUE)}
WAYS = [
    pytest.param(kind, corruption, marks=() if (kind, corruption) in FAST else (pytest.mark.slow,))
    for kind in ("major", "minor")
    for corruption in Corruption
]


@pytest.mark.parametrize(("kind", "corruption"), WAYS)
def test_a_file_with_other_rows(
    kind: str, corruption: Corruption, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the writer made is not what it was given."""
    case = _case(TABLE, kind, tmp_path)
    monkeypatch.setattr(task, "write_orc", corrupting_writer(corruption))
    assert SAID[corruption] in case.refuses(monkeypatch)
    case.mends()


@pytest.mark.parametrize("kind", ["major", pytest.param("minor", marks=pytest.mark.slow)])
def test_a_merge_that_loses_a_delete(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file is what the merge gave, and that is wrong: rows are counted and looked for apart from it."""
    case = _case(TABLE, kind, tmp_path)
    if kind == "major":
        collect = merge.DeletedRows.collect

        def but_one(cls: type, batches: Iterator[EventKeys], write_ids: ValidWriteIds) -> merge.DeletedRows:
            kept = list(batches)
            kept[:1] = [keys.select(slice(1, None)) for keys in kept[:1]]
            return collect(kept, write_ids)

        monkeypatch.setattr(merge.DeletedRows, "collect", classmethod(but_one))
    else:
        merged = merge.merge_sorted

        def lossy(cursors: Any) -> Iterator[Any]:
            for batch in merged(cursors):
                yield batch if batch.keys.operation is None else batch.slice(1, len(batch))

        monkeypatch.setattr(merge, "merge_sorted", lossy)
    refused = case.refuses(monkeypatch, attempts=False)
    assert "would not hold the right rows" in refused or "would be lost" in refused
    case.mends()


def _finely(output: str, role: Role, files: Any, deletes: Any, split_bytes: int, *more: Any) -> Any:
    """Tasks that are all cut into parts."""
    return make_tasks(output, role, files, deletes, 1, *more)


@pytest.mark.slow
@pytest.mark.parametrize("corruption", list(Corruption))
def test_a_join_with_other_rows(corruption: Corruption, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts that are right, and a whole that is not, written anew."""
    case = _case(LARGE, "major", tmp_path)
    monkeypatch.setattr(planned_tasks, "make_tasks", _finely)
    monkeypatch.setattr(joining, "mismatch", lambda *_: "differ")
    monkeypatch.setattr(joining, "write_orc", corrupting_writer(corruption))
    assert SAID[corruption] in case.refuses(monkeypatch)
    case.mends()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda runs: runs[:-1], "rows, not "),
        (lambda runs: [*runs, runs[-1]], "rows, not "),
        (lambda runs: runs[::-1], "its stripes are not those"),
    ],
    ids=["lost", "double", "order"],
)
def test_a_join_of_other_parts(
    change: Callable[[Any], Any], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stripes that are copied as they are, but not those that should be."""
    case = _case(LARGE, "major", tmp_path)
    monkeypatch.setattr(planned_tasks, "make_tasks", _finely)
    monkeypatch.setattr(joining, "stitch", lambda sink, runs: stitch(sink, change(runs)))
    assert said in case.refuses(monkeypatch)
    case.mends()


def _after_the_task(change: Callable[[bytes], bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    """Files change when their tasks have verified them."""
    run = LocalEngine.run

    def spoiled(self: LocalEngine, specs: Any) -> Iterator[TaskOutcome]:
        for outcome in run(self, specs):
            spec = specs[outcome.index]
            if outcome.result is not None and outcome.result.path is not None:
                path = Path(spec.url, spec.work, outcome.result.path)
                path.write_bytes(change(path.read_bytes()))
            yield outcome

    monkeypatch.setattr(LocalEngine, "run", spoiled)


@pytest.mark.slow
def test_a_file_that_is_cut_short_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between verification and publication sizes are looked at once more."""
    case = _case(TABLE, "major", tmp_path)
    _after_the_task(lambda data: data[:-1], monkeypatch)
    assert " bytes, not " in case.refuses(monkeypatch)
    case.mends()


@pytest.mark.slow
def test_a_part_that_changes_before_it_is_joined(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a join copies is verified as a whole, so a bit of a part that flips is found."""
    case = _case(LARGE, "major", tmp_path)
    monkeypatch.setattr(planned_tasks, "make_tasks", _finely)
    _after_the_task(lambda data: data[:200] + bytes([data[200] ^ 1]) + data[201:], monkeypatch)
    assert "part" in case.refuses(monkeypatch)


# --- insert-only


@pytest.mark.slow
@pytest.mark.parametrize("corruption", ROWS)
def test_plain_orc_with_other_rows(corruption: Corruption, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows without ids."""
    case = _case(PLAIN, "major", tmp_path)
    monkeypatch.setattr(plainfiles, "write_orc", corrupting_writer(corruption))
    assert SAID[corruption] in case.refuses(monkeypatch)
    case.mends()


def _plain(folder: Path, contents: list[bytes], read: Callable[[bytes], list[Any]]) -> Case:
    root = folder / "t"
    for number, data in enumerate(contents, 1):
        path = root / f"delta_{number:07}_{number:07}_0000" / "000000_0"
        path.parent.mkdir(parents=True)
        path.write_bytes(data)
    lists = ["--validtxns", f"default.t:{len(contents)}:{2**63 - 1}::", "--validtxns", f"9:{2**63 - 1}::"]
    return Case(root, "major", [*lists, "--table-type", "insert-only", "--schema", "a int"], read)


def _parquet_rows(data: bytes) -> list[Any]:
    rows: list[Any] = pq.read_table(io.BytesIO(data)).to_pylist()
    return rows


PARQUET: dict[Corruption, Callable[[pa.Table], pa.Table]] = {
    Corruption.DROP_ROW: lambda table: table.slice(1),
    Corruption.DOUBLE_ROW: lambda table: pa.concat_tables([table, table.slice(0, 1)]),
    Corruption.CHANGE_VALUE: lambda table: pa.concat_tables([table.slice(1), table.slice(1, 1)]),
}
TEXT: dict[Corruption, Callable[[bytes], bytes]] = {
    Corruption.DROP_ROW: lambda data: data[2:],
    Corruption.DOUBLE_ROW: lambda data: data + data[-2:],
    Corruption.CHANGE_VALUE: lambda data: b"7" + data[1:],
}


@pytest.mark.slow
@pytest.mark.parametrize("corruption", ROWS)
def test_parquet_with_other_rows(corruption: Corruption, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another format, the same answer."""
    contents = []
    for rows in ([1, 2, 3], [4, 5]):
        sink = io.BytesIO()
        pq.write_table(pa.table({"a": pa.array(rows, pa.int32())}), sink)
        contents.append(sink.getvalue())
    case = _plain(tmp_path, contents, _parquet_rows)
    write = pq.ParquetWriter.write_table
    monkeypatch.setattr(pq.ParquetWriter, "write_table", lambda self, table: write(self, PARQUET[corruption](table)))
    assert "does not hold the rows" in case.refuses(monkeypatch)
    case.mends()


class _Wrong:
    """A sink that writes something else."""

    def __init__(self, sink: BinaryIO, change: Callable[[bytes], bytes]) -> None:
        self._sink = sink
        self._change = change

    def write(self, data: bytes) -> int:
        self._sink.write(self._change(data))
        return len(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sink, name)


@pytest.mark.slow
@pytest.mark.parametrize("corruption", ROWS)
def test_text_with_other_rows(corruption: Corruption, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bytes that are put together."""
    case = _plain(tmp_path, [b"1\n2\n3\n", b"4\n5\n"], bytes.splitlines)
    create = Attempt.create

    @contextmanager
    def wrong(self: Attempt) -> Iterator[Any]:
        with create(self) as sink:
            yield _Wrong(sink, TEXT[corruption])

    monkeypatch.setattr(Attempt, "create", wrong)
    assert "does not hold the bytes" in case.refuses(monkeypatch)
    case.mends()


@pytest.mark.slow
def test_parquet_that_cannot_be_read_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A failed verification too, and no fault of ours."""
    sink = io.BytesIO()
    pq.write_table(pa.table({"a": pa.array(range(99), pa.int32())}), sink)
    case = _plain(tmp_path, [sink.getvalue()] * 2, _parquet_rows)
    create = Attempt.create

    @contextmanager
    def wrong(self: Attempt) -> Iterator[Any]:
        with create(self) as sink:
            yield _Wrong(sink, lambda data: data.replace(b"PAR1", b"PAR2"))

    monkeypatch.setattr(Attempt, "create", wrong)
    assert "cannot be read back" in case.refuses(monkeypatch)
    case.mends()
