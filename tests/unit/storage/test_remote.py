"""The parallel walk: every directory listed once, sorted, with the errors of the port."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from acidctl.errors import DeniedError, NoSuchTableError, StorageError, UnreachableError
from acidctl.storage.remote import DirectoryEntry, walk_tree
from acidctl.storage.retry import RetryPolicy
from tests.support.memory import MemoryStorage

_PARENTS = st.lists(st.sampled_from(["a", "b", "a=", "_", "-b"]), max_size=3)


class Server:
    """A tree that is listed directory by directory; `trouble` is called with each path before it is listed."""

    def __init__(self, *paths: str) -> None:
        self.storage = MemoryStorage({f"/t/{path}": b"1" * len(path) for path in paths})
        self.listed: Counter[str] = Counter()
        self.trouble: Callable[[str], None] = lambda path: None

    def list_directory(self, path: str) -> Iterator[DirectoryEntry]:
        self.listed[path] += 1
        self.trouble(path)
        found = self.storage.walk(path, lambda name: "/" not in name)
        yield from (DirectoryEntry(name, True) for name in reversed(found.directories) if "/" not in name)
        yield from (DirectoryEntry(info.path, False, info.size, 5.0) for info in found.files if "/" not in info.path)


def _raise(error: StorageError | NoSuchTableError, *paths: str) -> Callable[[str], None]:
    def trouble(path: str) -> None:
        if path in paths:
            raise error

    return trouble


_PATHS = st.builds(lambda parents, name: "/".join([*parents, name]), _PARENTS, st.sampled_from(["c", "cd", "d/"]))


@given(st.sets(_PATHS, max_size=20), st.integers(1, 4))
@settings(max_examples=40)
def test_it_finds_what_the_reference_finds(paths: set[str], workers: int) -> None:
    """Files and directories sorted; one listing per directory; `descend` is asked once for each, parents first."""
    server = Server(*paths)
    if not paths:
        server.storage.mkdir("/t")
    wanted = server.storage.walk("/t", lambda path: not path.endswith("="))
    asked: list[str] = []

    def descend(path: str) -> bool:
        asked.append(path)
        return not path.endswith("=")

    found = walk_tree(server.list_directory, "/t", descend, workers=workers)
    assert [(info.path, info.size, info.modified) for info in found.files] == [
        (info.path, info.size, 5.0) for info in wanted.files
    ]
    assert found.directories == wanted.directories
    assert server.listed == Counter(["/t", *(f"/t/{path}" for path in wanted.directories)])
    assert len(asked) == len(set(asked))
    assert all(parent in asked for path in asked if (parent := path.rpartition("/")[0]))


def test_directories_are_listed_side_by_side() -> None:
    """Eight listings are under way at once: none is answered before."""
    server = Server(*(f"d{number}/f" for number in range(8)))
    together = threading.Barrier(8, timeout=10)

    def trouble(path: str) -> None:
        if path != "/t":
            together.wait()

    server.trouble = trouble
    assert len(walk_tree(server.list_directory, "/t", workers=8).files) == 8


def test_many_directories_in_one_call() -> None:
    """Where many wait; each is listed once, and what is left open there is asked for by itself, with its errors."""
    server = Server(*(f"d{number:03}/f" for number in range(300)), "d300/.closed/f")
    server.trouble = _raise(DeniedError("closed"), "/t/d300/.closed")
    together: list[int] = []

    def list_some(paths: Sequence[str]) -> list[list[DirectoryEntry] | None]:
        together.append(len(paths))
        return [None if path.endswith(("7", "0")) else list(server.list_directory(path)) for path in paths]

    found = walk_tree(server.list_directory, "/t", list_some=list_some, workers=2)
    assert [info.path for info in found.files] == [f"d{number:03}/f" for number in range(300)]
    assert max(together) > 10
    assert set(server.listed.values()) == {1}
    assert len(server.listed) == 303


def test_descend_is_asked_in_the_thread_of_the_caller() -> None:
    """It need not be safe for others."""
    server = Server(*(f"d{number}/e/f" for number in range(20)))
    threads = set()

    def descend(path: str) -> bool:
        threads.add(threading.current_thread())
        return True

    walk_tree(server.list_directory, "/t", descend)
    assert threads == {threading.current_thread()}


def test_a_missing_root_is_no_such_table() -> None:
    """And is not asked for twice."""
    server = Server("f")
    with pytest.raises(NoSuchTableError):
        walk_tree(server.list_directory, "/t/missing")
    assert server.listed == Counter(["/t/missing"])


def test_a_directory_that_vanishes_counts_as_never_seen() -> None:
    """A cleaner at work is no error."""
    server = Server("delta_1_1/f", "delta_2_2/f")
    server.trouble = _raise(NoSuchTableError("gone"), "/t/delta_1_1")
    found = walk_tree(server.list_directory, "/t")
    assert (found.directories, [info.path for info in found.files]) == (("delta_2_2",), ["delta_2_2/f"])


@pytest.mark.parametrize("path", ["delta_1_1", "ds=1/delta_1_1", "_acidctl_work_0123456789ab", "_acidctl_work_0/out"])
def test_a_closed_directory_is_an_error(path: str) -> None:
    """A listing with holes would be misread; what acidctl itself left there decides what counts."""
    server = Server(f"{path}/f", "ds=2/delta_1_1/f")
    server.trouble = _raise(DeniedError("closed"), f"/t/{path}")
    with pytest.raises(DeniedError, match="closed"):
        walk_tree(server.list_directory, "/t")


@pytest.mark.parametrize("path", [".hive-staging", "_tmp.x", "_x/deep"])
def test_hidden_directories_may_be_closed(path: str) -> None:
    """Other users' staging folders, and what lies in them."""
    server = Server(f"{path}/f", "delta_1_1/f")
    server.trouble = _raise(DeniedError("closed"), f"/t/{path}")
    found = walk_tree(server.list_directory, "/t")
    assert [info.path for info in found.files] == ["delta_1_1/f"]
    assert path in found.directories


def test_a_hidden_directory_that_cannot_be_reached_is_an_error() -> None:
    """Only permissions are forgiven."""
    server = Server(".hive-staging/f")
    server.trouble = _raise(StorageError("broken"), "/t/.hive-staging")
    with pytest.raises(StorageError, match="broken"):
        walk_tree(server.list_directory, "/t")


def test_what_is_transient_is_listed_again_alone() -> None:
    """One directory twice, and not the whole tree."""
    server = Server("a/f", "b/f", "c/f")
    pauses: list[float] = []

    def trouble(path: str) -> None:
        if path == "/t/b" and server.listed[path] < 3:
            raise UnreachableError("no answer")

    server.trouble = trouble
    found = walk_tree(server.list_directory, "/t", policy=RetryPolicy(sleep=pauses.append))
    assert [info.path for info in found.files] == ["a/f", "b/f", "c/f"]
    assert (server.listed, len(pauses)) == (Counter({"/t": 1, "/t/a": 1, "/t/b": 3, "/t/c": 1}), 2)


def test_a_failure_ends_the_walk_soon() -> None:
    """What has not been listed by then is not."""
    server = Server(*(f"d{number:03}/f" for number in range(300)))

    def trouble(path: str) -> None:
        if path == "/t/d299":
            raise StorageError("broken")
        time.sleep(0.001)

    server.trouble = trouble
    with pytest.raises(StorageError, match="broken"):
        walk_tree(server.list_directory, "/t", workers=1)
    assert len(server.listed) < 100
