"""Asking again: how often, how long in between, and for what."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import BinaryIO, cast

import pytest

from acidctl.errors import NoSuchTableError, StorageError, ThrottledError, UnreachableError
from acidctl.storage.local import LocalStorage
from acidctl.storage.port import Descend, PathStat, Storage, Walk
from acidctl.storage.prefetch import RangedFile
from acidctl.storage.remote import DirectoryEntry, walk_tree
from acidctl.storage.resolve import resolve
from acidctl.storage.retry import Retrying, RetryPolicy, retrying
from tests.support.distant import Requests, ranged
from tests.support.memory import MemoryStorage


def _policy(pauses: list[float]) -> RetryPolicy:
    return RetryPolicy(sleep=pauses.append, jitter=lambda: 1.0)


class _Answers:
    """An action that raises the given errors one after the other, and then answers."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.asked = 0

    def __call__(self) -> int:
        self.asked += 1
        if self.errors:
            raise self.errors.pop(0)
        return self.asked


def test_pauses_grow() -> None:
    """And are up to half as long by chance."""
    pauses: list[float] = []
    assert _policy(pauses).run(_Answers(UnreachableError("a"), ThrottledError("b"), UnreachableError("c"))) == 4
    assert pauses == pytest.approx([0.2, 0.6, 1.8])
    RetryPolicy(sleep=pauses.append, jitter=lambda: 0.0).run(_Answers(UnreachableError("a")))
    assert pauses[-1] == pytest.approx(0.1)


def test_it_ends_with_the_last_error_which_says_how_often_was_asked() -> None:
    """Whoever asks around it does not begin anew."""
    pauses: list[float] = []
    action = _Answers(*(UnreachableError(str(number)) for number in range(9)))
    with pytest.raises(UnreachableError, match="3") as caught:
        _policy(pauses).run(lambda: _policy(pauses).run(action))
    assert (action.asked, caught.value.attempts, len(pauses)) == (4, 4, 3)


@pytest.mark.parametrize("error", [StorageError("no"), NoSuchTableError("no"), OSError("no"), KeyboardInterrupt()])
def test_what_is_not_transient_is_asked_once(error: Exception) -> None:
    """A refusal stays one."""
    action = _Answers(error)
    with pytest.raises(type(error)):
        _policy([]).run(action)
    assert action.asked == 1


class _Flaky(MemoryStorage):
    """Every verb fails before it does anything, until `left` runs out."""

    def __init__(self, files: dict[str, bytes]) -> None:
        super().__init__(files)
        self.left = 0
        self.calls: list[str] = []

    def __getattribute__(self, name: str) -> object:
        found = super().__getattribute__(name)
        verbs = ("stat", "walk", "open", "hosts", "create", "create_exclusive", "mkdir", "inherit", "rename_dir")
        if name not in (*verbs, "remove_tree", "remove_file", "move", "copy_file", "discard"):
            return found

        def call(*args: object) -> object:
            self.calls.append(name)
            if self.left:
                self.left -= 1
                raise UnreachableError(f"no answer to {name}")
            return found(*args)

        return call


@pytest.mark.parametrize(
    ("verb", "use"),
    [
        ("stat", lambda storage: storage.stat("t/f")),
        ("walk", lambda storage: storage.walk("t")),
        ("open", lambda storage: storage.open("t/f").close()),
        ("hosts", lambda storage: storage.hosts("t/f")),
        ("inherit", lambda storage: storage.inherit("t/f", "t")),
    ],
)
def test_reading_verbs_are_asked_again(verb: str, use: Callable[[Storage], object]) -> None:
    """Three times more, and then it is an error."""
    storage = _Flaky({"t/f": b"1"})
    storage.left = 3
    use(retrying(storage, _policy([])))
    storage.left = 9
    with pytest.raises(UnreachableError):
        use(retrying(storage, _policy([])))
    assert storage.calls.count(verb) == 8


def test_a_server_that_is_gone_is_not_waited_for_again_and_again() -> None:
    """After the first time in vain each call is tried once, until one works."""
    storage = _Flaky({"t/f": b"1"})
    patient = retrying(storage, _policy([]))
    storage.left = 6
    for _ in range(3):
        with pytest.raises(UnreachableError):
            patient.stat("t/f")
    assert len(storage.calls) == 6
    patient.stat("t/f")
    storage.left = 3
    patient.stat("t/f")
    assert len(storage.calls) == 11


@pytest.mark.parametrize(
    ("verb", "use"),
    [
        ("create", lambda storage: storage.create("t/new")),
        ("create_exclusive", lambda storage: storage.create_exclusive("t/new", b"")),
        ("mkdir", lambda storage: storage.mkdir("t/new")),
        ("rename_dir", lambda storage: storage.rename_dir("t/d", "t/new")),
        ("remove_tree", lambda storage: storage.remove_tree("t/d")),
        ("remove_file", lambda storage: storage.remove_file("t/f")),
        ("move", lambda storage: storage.move("t/f", "t/new")),
        ("copy_file", lambda storage: storage.copy_file("t/f", "t/new")),
        ("discard", lambda storage: storage.discard("t/f")),
    ],
)
def test_changes_are_made_once(verb: str, use: Callable[[Storage], object]) -> None:
    """Whether the change was made cannot be told by a lost answer."""
    storage = _Flaky({"t/f": b"1", "t/d/f": b"1"})
    before = storage.calls
    storage.left = 1
    with pytest.raises(UnreachableError):
        use(retrying(storage, _policy([])))
    assert before == [verb]
    if verb != "discard":
        use(retrying(storage, _policy([])))


class _Reads(MemoryStorage):
    """Files whose reads fail with each of the given errors in turn; every opening counts."""

    def __init__(self, data: bytes, *errors: Exception | None) -> None:
        super().__init__({"t/f": data})
        self.errors = list(errors)
        self.opened = 0

    def open(self, path: str) -> BinaryIO:
        self.opened += 1
        storage = self

        class File(io.BytesIO):
            def read(self, size: int | None = -1) -> bytes:
                error = storage.errors.pop(0) if storage.errors else None
                if error is not None:
                    raise error
                return super().read(size)

        return File(super().open(path).read())


def test_reads_go_on_where_they_were() -> None:
    """In a file opened anew; a partial read before it is no part of the next."""
    storage = _Reads(b"0123456789", None, UnreachableError("a"), UnreachableError("b"), None, ThrottledError("c"))
    pauses: list[float] = []
    with retrying(storage, _policy(pauses)).open("t/f") as file:
        assert file.read(3) == b"012"
        assert file.read(3) == b"345"
        assert (file.seek(-4, io.SEEK_CUR), file.tell()) == (2, 2)
        assert file.read() == b"23456789"
        assert file.seek(-1, io.SEEK_END) == 9
        assert file.read(5) == b"9"
    assert (storage.opened, len(pauses)) == (4, 3)
    with pytest.raises(ValueError, match="closed"):
        file.read()


def test_a_read_that_goes_on_failing_is_an_error() -> None:
    """And so is one that fails for another reason."""
    storage = _Reads(b"01", *(UnreachableError("a") for _ in range(9)))
    with pytest.raises(UnreachableError), retrying(storage, _policy([])).open("t/f") as file:
        file.read(1)
    storage = _Reads(b"01", StorageError("no"))
    with pytest.raises(StorageError, match="no"), retrying(storage, _policy([])).open("t/f") as file:
        file.read(1)
    assert storage.opened == 1


def test_what_a_file_can_fetch_ahead_it_still_can() -> None:
    """And no other file claims to."""
    requests = Requests()

    class Ranged(MemoryStorage):
        def open(self, path: str) -> BinaryIO:
            return cast(BinaryIO, ranged(super().open(path).read(), requests))

    files = {"t/f": b"0" * 1_000_000}
    with retrying(Ranged(files)).open("t/f") as file:
        cast(RangedFile, file).prefetch([(0, 10)])
        assert file.read(10) == b"0" * 10
    assert requests.ranges == [("f", 0, 10)]
    assert not hasattr(retrying(MemoryStorage(files)).open("t/f"), "prefetch")


def test_a_walk_that_asked_again_itself_is_not_begun_anew() -> None:
    """Else a directory that cannot be listed would be listed sixteen times."""
    listed: list[str] = []

    class Tree(MemoryStorage):
        def walk(self, root: str, descend: Descend | None = None) -> Walk:
            def list_directory(path: str) -> list[DirectoryEntry]:
                listed.append(path)
                raise UnreachableError("no answer")

            return walk_tree(list_directory, root, policy=_policy([]))

    with pytest.raises(UnreachableError):
        retrying(Tree(), _policy([])).walk("t")
    assert listed == ["t"] * 4


def test_only_what_is_on_this_machine_is_not_asked_again() -> None:
    """Every other storage is, whatever its scheme."""
    assert isinstance(resolve("/t")[0], LocalStorage)
    assert isinstance(resolve("file:///t")[0], LocalStorage)
    assert isinstance(resolve("memory://t")[0], Retrying)


def test_facts_and_names_are_those_of_the_storage() -> None:
    """Nothing is lost on the way."""
    storage = retrying(MemoryStorage({"t/f": b"1"}))
    assert storage.facts == MemoryStorage().facts
    assert (storage.display("t/f"), storage.stat("t/f")) == ("t/f", PathStat(False, 1, 0.0))
