"""Calls of each kind going wrong on real HDFS, by both of its protocols, and on S3: as before, or done, and a sentence.

What is common to all storages is gone through call by call in `test_network_faults`; here stand the adapters, call by
call when all is swept.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest

import acidctl
import acidctl.api as table_module
from acidctl.cleaning.run import prepare
from acidctl.compaction import task as task_module
from acidctl.compaction.partition_run import TablePlace
from acidctl.compaction.report import CompactionReport, Outcome
from acidctl.compaction.run import Prepared
from acidctl.errors import AcidctlError, ExitCode
from acidctl.options import CleanOptions
from acidctl.storage.port import Storage
from acidctl.storage.resolve import resolve
from acidctl.storage.retry import Retrying, retrying
from tests.cli.runner import acidctl as command
from tests.support.breaking import AllAtOnce, in_turn
from tests.support.cleaning_cases import FIXTURES, step
from tests.support.extent import SAMPLE, SWEEP
from tests.support.faulty import Fault, FaultyStorage

STEP = "hive4/bucketed/02-changed"
LISTS = list(step(STEP).lists)
OWNER = str(step(STEP).facts["table"])
_NUMBERS = itertools.count(1)
_LATER = 4e9


@dataclass
class Far:
    """Tables on a service; `put` puts the fixture's table at a new place and gives its URL."""

    put: Callable[[], str]
    options: Mapping[str, Any] = field(default_factory=dict)
    # In a sample both protocols of HDFS share the faults, and S3 has those of its own verbs, which are the last.
    sample: slice = field(default_factory=lambda: slice(-2, None))

    def open(self, url: str) -> tuple[Storage, str]:
        """The adapter without the layer that asks again, and the path of the table."""
        storage, root = resolve(url, self.options)
        assert isinstance(storage, Retrying)
        return storage.inner, root

    def rows(self, url: str) -> tuple[int, str]:
        """What its reader sees."""
        return acidctl.open_table(url, storage_options=self.options).snapshot(validtxns=LISTS).count_and_digest()

    def compact(self, url: str, storage: Storage, patch: pytest.MonkeyPatch) -> CompactionReport:
        """A plan of this moment, carried out on a storage, tasks and all."""
        table = acidctl.open_table(url, storage_options=self.options)
        plan = table.plan_compaction("minor", validtxns=LISTS, table=OWNER, assume_exclusive=True)
        root = resolve(url, self.options)[1]
        with patch.context() as patched:
            patched.setattr(task_module, "resolve", lambda of, options=None: (storage, resolve(of, self.options)[1]))
            report = Prepared(TablePlace(storage, root, url, dict(self.options)), plan).start(AllAtOnce()).run()
        for part in report.partitions:
            if part.outcome is Outcome.FAILED:
                error = AcidctlError(part.reason)
                error.exit_code = part.exit_code
                raise error
        return report

    def again(self, url: str) -> None:
        """The next run of the command."""
        table = acidctl.open_table(url, storage_options=self.options)
        report = (
            table.prepare_compaction("minor", validtxns=LISTS, table=OWNER, assume_exclusive=True)
            .start(AllAtOnce())
            .run()
        )
        assert {part.outcome for part in report.partitions} <= {Outcome.COMPACTED, Outcome.NOTHING_TO_DO}, report

    def clean(self, url: str, storage: Storage) -> object:
        """By somebody who knows all readers, long after."""
        root = resolve(url, self.options)[1]
        request = CleanOptions(validtxns=tuple(LISTS), schema=step(STEP).facts["ddl"], skip_trash=True)
        run = prepare(storage, root, request, now=_LATER)
        return run.delete(run.plan())


@pytest.fixture(
    params=[
        pytest.param("hdfs", marks=pytest.mark.hdfs),
        pytest.param("webhdfs", marks=pytest.mark.hdfs),
        pytest.param("s3", marks=pytest.mark.s3),
    ]
)
def far(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, nobody_waits: None) -> Far:
    """Each service; nobody waits between two tries."""
    in_turn(monkeypatch)
    local = FIXTURES / STEP / "table"
    if request.param == "s3":
        server = request.getfixturevalue("moto")
        bucket = server.bucket()

        def put() -> str:
            prefix = f"w/t{next(_NUMBERS)}"
            server.put_tree(local, bucket, prefix)
            return f"s3://{bucket}/{prefix}"

        return Far(put, server.options)
    cluster = request.getfixturevalue("hdfs_cluster")
    monkeypatch.setenv("HADOOP_USER_NAME", cluster.superuser)

    def put_tree() -> str:
        path = f"/faults-{next(_NUMBERS)}"
        cluster.put_tree(local, path)
        return f"{cluster.url if request.param == 'hdfs' else cluster.webhdfs}{path}"

    return Far(put_tree, sample=slice(["hdfs", "webhdfs"].index(request.param), None, 2))


_NETWORK = (Fault.SILENT, Fault.UNHEARD, Fault.BUSY, Fault.GONE)
_COMPACTING = (
    *((Fault.SILENT, verb) for verb in ("read", "close")),
    *((Fault.UNHEARD, verb) for verb in ("create_exclusive", "rename_dir", "remove_tree", "copy_file")),
    *((Fault.GONE, verb) for verb in ("rename_dir", "copy_file")),
)
_CLEANING = (
    *((Fault.UNHEARD, verb) for verb in ("rename_dir", "move", "remove_tree")),
    (Fault.GONE, "remove_tree"),
)


def _chosen(far: Far, names: list[str], faults: tuple[tuple[Fault, str], ...]) -> list[tuple[Fault, int]]:
    """The last call of each verb, as far as the run has any; or every call and whatever can happen on a network."""
    if SWEEP:
        return [(fault, at) for at in range(1, len(names) + 1) for fault in _NETWORK]
    last = {name.partition(" ")[0]: number for number, name in enumerate(names, 1)}
    found = [(fault, last[verb]) for fault, verb in faults if verb in last]
    return found[far.sample] if SAMPLE else found


def _calls(far: Far, run: Callable[[str, Storage], object]) -> list[str]:
    url = far.put()
    counter = FaultyStorage(far.open(url)[0], reads=True)
    run(url, retrying(counter))
    return counter.names


def _raised(action: Callable[[], object]) -> AcidctlError | None:
    try:
        action()
    except AcidctlError as error:
        return error
    return None


def test_compaction(far: Far, monkeypatch: pytest.MonkeyPatch) -> None:
    """Readers get the rows that they got before, a failure is one of the storage, and the next run completes."""

    def run(url: str, storage: Storage) -> object:
        return far.compact(url, storage, monkeypatch)

    names = _calls(far, run)
    chosen = _chosen(far, names, _COMPACTING)
    assert len(chosen) > (1 if SAMPLE else 4)
    for fault, at in chosen:
        url = far.put()
        before = far.rows(url)
        inner, root = far.open(url)
        files = {(info.path, info.size) for info in inner.walk(root).files}
        storage = FaultyStorage(inner, at, fault, reads=True)
        error = _raised(partial(run, url, retrying(storage)))
        assert error is None or error.exit_code == ExitCode.STORAGE or "_acidctl_lock" in names[at - 1], error
        # Where a run ended before its fault, something else went wrong, and the error says what.
        assert storage.hit, (fault, at, names[at - 1], error)
        assert far.rows(url) == before, names[at - 1]
        far.again(url)
        after = inner.walk(root)
        assert far.rows(url) == before, names[at - 1]
        assert files <= {(info.path, info.size) for info in after.files}, names[at - 1]
        assert [path for path in after.directories if "_acidctl" in path] == [], names[at - 1]


def test_cleaning(far: Far, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows stay, and the next run completes."""

    def compacted() -> str:
        url = far.put()
        far.compact(url, resolve(url, far.options)[0], monkeypatch)
        return url

    url = compacted()
    counter = FaultyStorage(far.open(url)[0], reads=True)
    far.clean(url, retrying(counter))
    inner, root = far.open(url)
    cleaned = inner.walk(root)
    chosen = _chosen(far, counter.names, _CLEANING)
    assert chosen
    for fault, at in chosen:
        url = compacted()
        before = far.rows(url)
        inner, root = far.open(url)
        storage = FaultyStorage(inner, at, fault, reads=True)
        error = _raised(partial(far.clean, url, retrying(storage)))
        assert error is None or error.exit_code == ExitCode.STORAGE, (counter.names[at - 1], error)
        assert far.rows(url) == before, counter.names[at - 1]
        far.clean(url, resolve(url, far.options)[0])
        assert far.rows(url) == before, counter.names[at - 1]
        assert inner.walk(root).directories == cleaned.directories, counter.names[at - 1]


@pytest.mark.parametrize("args", [("ls", "-l", "--rows"), ("snapshot", "--count")], ids=" ".join)
def test_reading(far: Far, args: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls may fail once without being noticed; without a server there is a sentence, and no answer."""
    url = far.put()
    inner, root = far.open(url)
    lists = [*(word for text in LISTS for word in ("--validtxns", text)), "--table", OWNER]

    def run(storage: Storage) -> Any:
        monkeypatch.setattr(table_module, "resolve_url", lambda of, options=None: (storage, root))
        return command(*args, url, *lists, "-o", "json")

    counter = FaultyStorage(inner, reads=True)
    right = run(retrying(counter))
    assert right.code == ExitCode.DONE, right
    for at in range(1, counter.calls + 1, 1 if SWEEP else 17):
        assert run(retrying(FaultyStorage(inner, at, Fault.SILENT, reads=True))) == right, counter.names[at - 1]
    gone = run(retrying(FaultyStorage(inner, counter.calls // 2, Fault.GONE, reads=True)))
    assert (gone.code, gone.stdout, gone.error()["code"]) == (ExitCode.STORAGE, "", "unreachable")
