"""Compaction and cleaning of tables on S3, end to end: by the command, by worker processes, killed and in a race."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import acidctl
from acidctl.compaction.report import Outcome
from acidctl.engine.local import LocalEngine
from acidctl.state.report import to_json
from acidctl.storage.resolve import resolve
from tests.cli.runner import Result
from tests.cli.runner import acidctl as command
from tests.services.s3 import S3Server
from tests.support.cleaning_cases import step
from tests.support.extent import some
from tests.support.faulty import KILLED

pytestmark = [pytest.mark.s3, pytest.mark.slow]

STEP = "hive4/bucketed/02-changed"
# Ends like a power cut right before the copy with this number.
_DIES = """
import os, sys
from acidctl.cli.main import main
from acidctl.storage.s3 import S3Objects
from acidctl.compaction import publish

publish.COPIES = 1
copy, done, last = S3Objects.copy, [], int(sys.argv[1])

def copied(self, source, target):
    done.append(target)
    if len(done) == last:
        os._exit(137)
    copy(self, source, target)

S3Objects.copy = copied
sys.argv[1:] = sys.argv[2:]
main()
"""


@dataclass(frozen=True)
class OnS3:
    """A fixture's table in a bucket of its own."""

    server: S3Server
    bucket: str
    source: str

    @property
    def url(self) -> str:
        """Of the table."""
        return f"s3://{self.bucket}/t"

    @property
    def lists(self) -> tuple[str, ...]:
        """Of its reader."""
        return step(self.source).lists

    @property
    def owner(self) -> str:
        """The table that the lists are of."""
        return str(step(self.source).facts["table"])

    @property
    def options(self) -> list[str]:
        """The same on the command line."""
        return [*(option for text in self.lists for option in ("--validtxns", text)), "--table", self.owner]

    def run(self, name: str, *args: str) -> Result:
        """`acidctl NAME ARGS URL`; the answer must not hold the secret."""
        result = command(*name.split(), self.url, *self.options, *args, "-o", "json")
        assert self.server.secret not in result.stdout + result.stderr
        return result

    def arguments(self, *args: str) -> list[str]:
        """Of a compaction by a process."""
        return [
            "compact",
            "major",
            self.url,
            *self.options,
            "--engine",
            "local",
            "-o",
            "json",
            "--assume-exclusive",
            *args,
        ]

    def rows(self) -> Any:
        """Rows and digest that the reader gets."""
        table = acidctl.open_table(self.url, storage_options=self.server.options)
        return table.snapshot(validtxns=list(self.lists)).count_and_digest()

    def names(self) -> set[str]:
        """Top-level names."""
        return {key.split("/")[1] for key in self.server.keys(self.bucket)}


@pytest.fixture
def server(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> S3Server:
    """A server, its address and keys in the environment, as users have them; moto unless a test says otherwise."""
    found: S3Server = request.getfixturevalue(getattr(request, "param", "moto"))
    for name, value in found.environment.items():
        monkeypatch.setenv(name, value)
    return found


def plant(server: S3Server, source: str, folder: Path) -> OnS3:
    """Copy a fixture's table there."""
    bucket = server.bucket()
    step(source).copy(folder / "t")
    server.put_tree(folder / "t", bucket, "t")
    return OnS3(server, bucket, source)


@pytest.fixture
def table(server: S3Server, tmp_path: Path) -> OnS3:
    """A bucketed table with updates and deletes."""
    return plant(server, STEP, tmp_path)


@pytest.mark.parametrize("server", some(["moto", "versitygw"], one_of=2, first=1), indirect=True)
def test_compact_and_clean_by_the_command(table: OnS3) -> None:
    """Refused without a window, with the remedy; then minor, major, and what both made obsolete goes."""
    before = table.rows()
    objects = set(table.server.keys(table.bucket))
    for kind in ("minor", "major"):
        refused = table.run(f"compact {kind}", "--engine", "local")
        (part,) = refused.json()["partitions"]
        assert (refused.code, part["outcome"], part["reason_code"]) == (3, "refused", "needs_exclusive_window")
        assert "--visibility-txn" in part["reason"]
        assert "--assume-exclusive" in part["reason"]
    for kind in ("minor", "major"):
        done = table.run(f"compact {kind}", "--engine", "local", "--assume-exclusive")
        assert (done.code, done.json()["partitions"][0]["outcome"]) == (0, "compacted"), done.stderr
        assert objects < set(table.server.keys(table.bucket))
        assert table.rows() == before
        assert not any(name.startswith("_acidctl") for name in table.names())
    again = table.run("compact major", "--engine", "local", "--assume-exclusive")
    assert (again.code, again.json()["partitions"][0]["outcome"]) == (0, "nothing_to_do")
    boxed = table.run("clean", "--quarantine", "--unsafe-no-retention", "--yes")
    assert boxed.code == 0, boxed.stderr
    assert table.rows() == before
    assert objects.isdisjoint(table.server.keys(table.bucket))
    undone = table.run("clean", "--undo", "--yes")
    assert undone.code == 0, undone.stderr
    assert objects < set(table.server.keys(table.bucket))
    cleaned = table.run("clean", "--delete", "--unsafe-no-retention", "--yes")
    assert cleaned.code == 0, cleaned.stderr
    assert len(table.names()) == 1
    assert table.rows() == before


def test_partitions_by_worker_processes(server: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Credentials that were given as options reach the workers, and stand in no report."""
    table = plant(server, "hive4/partitioned/02-changed", tmp_path)
    before = table.rows()
    for name in server.environment:
        monkeypatch.delenv(name)
    opened = acidctl.open_table(table.url, storage_options=server.options)
    prepared = opened.prepare_compaction("major", validtxns=list(table.lists), table=table.owner, assume_exclusive=True)
    with LocalEngine(2, small_bytes=0) as engine:
        report = prepared.start(engine).run()
    outcomes = [part.outcome for part in report.partitions]
    assert set(outcomes) <= {Outcome.COMPACTED, Outcome.NOTHING_TO_DO}
    assert outcomes.count(Outcome.COMPACTED) >= 2
    assert server.secret not in json.dumps(to_json(report)) + repr(prepared.plan)
    assert table.rows() == before


def test_under_a_transaction(table: OnS3) -> None:
    """No window is needed: who does not see the transaction reads as before, who does reads the same rows."""
    write_ids, txns = table.lists
    txn = 900_000
    before = table.rows()
    opened = acidctl.open_table(table.url, storage_options=table.server.options)
    lists = [write_ids, f"{txn}:{txn}:{txn}:"]
    report = opened.compact("major", engine="local", validtxns=lists, table=table.owner, visibility_txn=txn)
    assert [part.outcome for part in report.partitions] == [Outcome.COMPACTED]
    made = report.partitions[0].outputs[0]
    assert made.endswith(f"_v{txn:07}")
    for view, reads in ((txns, False), (f"{txn}:{2**63 - 1}::", True)):
        snapshot = opened.snapshot(validtxns=[write_ids, view])
        base = snapshot.partitions[0].state.base
        assert (base is not None and base.name == made) is reads
        assert snapshot.count_and_digest() == before


@pytest.mark.parametrize("server", ["versitygw"], indirect=True)
@pytest.mark.parametrize("copies", some([1, 2, 3], one_of=2))
def test_a_run_that_dies_between_copies_is_completed(table: OnS3, copies: int) -> None:
    """Readers get their rows in between, and the next run ends it without merging anything again."""
    before = table.rows()
    dead = subprocess.run(
        [sys.executable, "-c", _DIES, str(copies), *table.arguments()], capture_output=True, text=True, check=False
    )
    assert dead.returncode == KILLED, dead.stderr
    assert any(name.startswith("_acidctl_work") for name in table.names())
    assert any(name.startswith("base") for name in table.names()) is (copies > 1)
    assert table.rows() == before
    again = table.run("compact major", "--engine", "local", "--assume-exclusive")
    assert again.code == 0, again.stderr
    assert again.json()["partitions"][0]["outcome"] == ("compacted" if copies == 1 else "nothing_to_do")
    assert not any(name.startswith("_acidctl") for name in table.names())
    assert sum(name.startswith("base") for name in table.names()) == 1
    assert table.rows() == before


@pytest.mark.parametrize("server", ["versitygw"], indirect=True)
def test_of_two_runs_one_compacts(table: OnS3) -> None:
    """The other finds the lock, or nothing to do."""
    before = table.rows()
    runs = [
        subprocess.Popen(
            [sys.executable, "-m", "acidctl", *table.arguments()],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    answers = [json.loads(run.communicate()[0])["partitions"][0] for run in runs]
    outcomes = sorted(answer["outcome"] for answer in answers)
    assert outcomes in (["compacted", "failed"], ["compacted", "nothing_to_do"])
    assert {run.returncode for run in runs} <= {0, 15}
    assert sum(name.startswith("base") for name in table.names()) == 1
    assert not any(name.startswith("_acidctl") for name in table.names())
    assert table.rows() == before


def test_an_interrupt_leaves_the_table_as_it_was(table: OnS3) -> None:
    """Ctrl-C while the work directory is there: objects, lock and unfinished uploads are taken away."""
    before = set(table.server.keys(table.bucket))
    slow = "from acidctl.compaction import task; import time; run = task.run_task\n"
    slow += "def slowly(*a, **k):\n    time.sleep(3); return run(*a, **k)\ntask.run_task = slowly\n"
    slow += "import sys; from acidctl.cli.main import main; main()"
    run = subprocess.Popen(
        [sys.executable, "-c", slow, *table.arguments()],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    for _ in range(300):
        if any("_acidctl_work" in key for key in table.server.keys(table.bucket)):
            break
        time.sleep(0.1)
    run.send_signal(signal.SIGINT)
    _, errors = run.communicate(timeout=60)
    assert run.returncode == 130, errors
    assert set(table.server.keys(table.bucket)) == before
    assert table.server.client.list_multipart_uploads(Bucket=table.bucket).get("Uploads", []) == []


def test_where_nothing_is(server: S3Server) -> None:
    """A bucket, a path and a quarantine that do not exist; exit code and a sentence each."""
    bucket = server.bucket()
    for url, code, what in (
        ("s3://no-such-bucket-here/t", 10, "the bucket does not exist"),
        (f"s3://{bucket}/nothing", 10, "does not exist"),
    ):
        result = command("ls", url)
        assert (result.code, what in result.stderr) == (code, True), result.stderr
        assert "Traceback" not in result.stderr
    storage, root = resolve(f"s3://{bucket}/nothing", server.options)
    assert storage.stat(root) is None
