"""Tables of a live metastore whose compactions go through its queue: what is there, and what may happen meanwhile.

A worker of this process is met by `Meddling`, one of its own by `started`; both at a `Moment` of a request's way.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any, NamedTuple

from acidctl import CompactArguments
from acidctl.compaction.report import PartitionReport
from acidctl.metastore.catalog import TableName
from acidctl.metastore.client import Client
from acidctl.metastore.settings import make_settings
from acidctl.worker.queue import Queue, Request
from acidctl.worker.service import Worker
from tests.cli.runner import Result, acidctl
from tests.services.metastore import IDL, Metastore, ask, end_writes

FULL = "stored as orc tblproperties ('transactional'='true')"
INSERTS = "stored as orc tblproperties ('transactional'='true', 'transactional_properties'='insert_only')"


class Moment(NamedTuple):
    """The end of a call, the first of its name or a later one.

    Of `show_compact` those count that name a request; number 0 is the first of those that do not.
    """

    call: str
    number: int = 1


# Where the table lies is known then.
PLACED = Moment("open_txns")
LOCKED = Moment("lock")
WORKING = Moment("set_hadoop_jobid")
# All has been asked: what comes next is the publication, or the commit of what is published.
PUBLISHING = Moment("show_compact")
COMMITTING = Moment("show_compact", 2)


@contextmanager
def acid_table(metastore: Metastore, test: str) -> Iterator[str]:
    """A table with inserts, a delete and an aborted write, called as its test is."""
    name = "w_" + "".join(c if c.isalnum() else "_" for c in test.lower())[-40:]
    run = metastore.hive.run
    run(f"create table {name} (id int, v string) {FULL}")
    for number in range(2):
        run(f"insert into {name} values ({number}, 'v{number}'), ({number + 2}, 'more')")
    run(f"delete from {name} where id = 1")
    with ask(metastore.url) as thrift:
        end_writes(thrift, f"default.{name}", "a")
    yield name
    release(metastore)
    run(f"drop table if exists {name}")


def release(metastore: Metastore) -> None:
    """Abort all that is open: what a killed process has locked stays so for ever here, where nothing runs by itself."""
    metastore.time_out({"hive.txn.timeout": "0s"})


def rows(metastore: Metastore, name: str) -> list[str]:
    """What Hive answers, row ids included where a table has them."""
    return sorted(metastore.hive.rows(f"select row__id, * from {name}"))


def directories(metastore: Metastore, name: str, partition: str = "") -> list[str]:
    """What lies in the table's directory, without hidden names."""
    return sorted(p.name for p in (metastore.hive.warehouse / name / partition).iterdir() if p.name[0] not in "._")


def states(metastore: Metastore, name: str) -> list[str]:
    """The states of the table's requests, oldest first."""
    return [one["state"] for one in metastore.hive.compactions(name)]


def clean(metastore: Metastore, name: str) -> None:
    """Passes of the cleaner until none of the table's requests waits for one, or three.

    Its tasks for a compaction and for the aborted writes of one table run side by side: the one that finds nothing
    left to remove does not end its request, which the next pass does.
    """
    for _ in range(3):
        metastore.clean()
        if "ready for cleaning" not in states(metastore, name):
            return


def entries(metastore: Metastore, name: str) -> list[Any]:
    """The table's requests as the metastore shows them, oldest first."""
    with ask(metastore.url) as thrift:
        found = thrift.show_compact(IDL.ShowCompactRequest(dbName="default", tbName=name)).compacts
    return sorted(found, key=lambda one: one.id)


def command(metastore: Metastore, *words: str) -> Result:
    """The command line, in this process: to start one takes longer than most of them."""
    return acidctl(*words, "--metastore", metastore.url)


class Meddling(Client):
    """A client behind whose back something happens at a moment."""

    def __init__(self, metastore: Metastore, moment: Moment, act: Callable[[], object]) -> None:
        super().__init__(make_settings({"uris": metastore.url}))
        self._left = max(1, moment.number)
        self._named = moment.number > 0
        self._after, self._act = moment.call, act

    def call(self, name: str, *arguments: Any) -> Any:
        answer = super().call(name, *arguments)
        if name == self._after and (name != "show_compact" or (arguments[0].id is not None) == self._named):
            self._left -= 1
            if self._left == 0:
                self._act()
        return answer


def carried_out(
    client: Client, table: str, kind: str = "major", partition: str = ""
) -> tuple[Request, PartitionReport]:
    """A request of a table, made, taken and carried out."""
    queue = Queue(client)
    queue.request(TableName("default", table), partition, "major", "acidctl-test")
    request = queue.take("acidctl-test")
    assert request is not None
    with closing(client):
        return request, Worker(queue, lambda url: {}, CompactArguments("major")).carry_out(request)


# A program of acidctl to which something happens, by what its first argument says.
_PROGRAM = """
import json, signal, sys, threading, time
given = json.loads(sys.argv[1])
real = time.time
time.time = lambda: real() + given["ahead"]
from acidctl.cli.main import run
from acidctl.compaction import publish
from acidctl.metastore.client import Client
call, rename = Client.call, publish.rename_dir
def meet():
    given["number"] -= 1
    if given["number"] == 0:
        # To this thread: one sent to the process lets it go on until another thread has taken the signal.
        signal.pthread_kill(threading.get_ident(), given["signal"])
def met(self, name, *arguments):
    answer = call(self, name, *arguments)
    if name == given["call"] and (name != "show_compact" or arguments[0].id is not None):
        meet()
    return answer
def renaming(*arguments):
    if given["call"] == "rename":
        meet()
    rename(*arguments)
Client.call, publish.rename_dir = met, renaming
sys.exit(run(sys.argv[2:]))
"""
# Not the end of a call, but the beginning of the rename by which a result is published.
RENAMING = Moment("rename")
NEVER = Moment("")


@contextmanager
def started(
    metastore: Metastore,
    *words: str,
    at: Moment = NEVER,
    by: signal.Signals = signal.SIGKILL,
    clock_ahead: float = 0.0,
) -> Iterator[subprocess.Popen[str]]:
    """The program in a process that gets a signal at a moment, and whose clock shows another time."""
    given = {"call": at.call, "number": at.number, "signal": by, "ahead": clock_ahead}
    whole = [sys.executable, "-c", _PROGRAM, json.dumps(given), *words, "--metastore", metastore.url]
    with subprocess.Popen(whole, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def paused(process: subprocess.Popen[str]) -> None:
    """Wait until it has been stopped."""
    until = time.monotonic() + 180
    while time.monotonic() < until:
        with open(f"/proc/{process.pid}/stat", encoding="ascii", errors="replace") as stream:
            if stream.read().rpartition(")")[2].split()[0] == "T":
                return
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    raise AssertionError("it was not stopped")


def goes_on(process: subprocess.Popen[str]) -> None:
    """Wake it up."""
    os.kill(process.pid, signal.SIGCONT)
