"""Changes whose answer can get lost: looked for, and made again where that may help."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from acidctl.errors import StorageError, UnreachableError
from acidctl.maintenance.lock import until_done
from acidctl.maintenance.work_dir import make_directory, move, remove_directory, remove_file, write_file
from acidctl.storage.port import Storage, Walk
from tests.support.memory import MemoryStorage

_CHANGES: dict[str, Callable[[Storage], None]] = {
    "mkdir": lambda storage: make_directory(storage, "t/new", "t"),
    "create_exclusive": lambda storage: write_file(storage, "t/new", b"content", "t"),
    "move": lambda storage: move(storage, "t/f", "t/new"),
    "remove_tree": lambda storage: remove_directory(storage, "t/d"),
    "remove_file": lambda storage: remove_file(storage, "t/f"),
}


@pytest.fixture(autouse=True)
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Nobody waits."""
    seen: list[float] = []
    monkeypatch.setattr("time.sleep", seen.append)
    return seen


class _Changing(MemoryStorage):
    """Changes fail with `error` while `left` lasts: carried out all the same, carried out by half, or not at all."""

    def __init__(self, verb: str, done: str, error: type[StorageError], left: int = 2) -> None:
        super().__init__({"t/f": b"1", "t/d/f": b"2"})
        self.left = left
        self.tried = 0
        self.verb, self.done, self.error = verb, done, error

    def __getattribute__(self, name: str) -> object:
        found: Any = super().__getattribute__(name)
        if name.startswith("_") or name in ("verb", "left", "tried", "done", "error") or name != self.verb:
            return found

        def change(*args: str) -> None:
            self.tried += 1
            failing = self.left > 0
            self.left -= failing
            if not failing or self.done == "all":
                found(*args)
            if not failing:
                return
            if self.done == "half":
                self._files["t/new"] = b"con"
            raise self.error("no answer")

        return change


def _after(verb: str) -> Walk:
    storage = MemoryStorage({"t/f": b"1", "t/d/f": b"2"})
    _CHANGES[verb](storage)
    return storage.walk("t")


@pytest.mark.parametrize("verb", _CHANGES)
def test_a_lost_answer_is_no_failure(verb: str, pauses: list[float]) -> None:
    """The storage shows the change, so it is not made again, and nobody waits."""
    storage = _Changing(verb, "all", UnreachableError)
    _CHANGES[verb](storage)
    assert storage.walk("t") == _after(verb)
    assert (storage.tried, pauses) == (1, [])


@pytest.mark.parametrize("verb", _CHANGES)
def test_what_was_not_carried_out_is_tried_again(verb: str, pauses: list[float]) -> None:
    """Where the storage says that this may help, with pauses."""
    storage = _Changing(verb, "nothing", UnreachableError)
    _CHANGES[verb](storage)
    assert storage.walk("t") == _after(verb)
    assert (storage.tried, len(pauses)) == (3, 2)


@pytest.mark.parametrize("verb", _CHANGES)
def test_a_refusal_is_not_tried_again(verb: str, pauses: list[float]) -> None:
    """It would only be refused again."""
    storage = _Changing(verb, "nothing", StorageError)
    with pytest.raises(StorageError, match="no answer"):
        _CHANGES[verb](storage)
    assert (storage.tried, pauses) == (1, [])


def test_half_a_file_is_written_anew() -> None:
    """What a writer left that was cut off does not stand in its own way."""
    storage = _Changing("create_exclusive", "half", UnreachableError)
    write_file(storage, "t/new", b"content", "t")
    with storage.open("t/new") as stream:
        assert stream.read() == b"content"


def test_it_ends(pauses: list[float]) -> None:
    """With the error of the storage."""
    storage = _Changing("mkdir", "nothing", UnreachableError, left=99)
    with pytest.raises(UnreachableError, match="no answer"):
        make_directory(storage, "t/new", "t")
    assert (storage.tried, len(pauses)) == (4, 3)


def test_nothing_is_tried_again_before_it_has_been_looked_for() -> None:
    """The change could be made twice."""
    story: list[str] = []

    def change() -> None:
        story.append("change")
        raise UnreachableError("no answer")

    def done() -> bool:
        story.append("look")
        return story.count("look") == 3

    until_done(change, done)
    assert story == ["change", "look"] * 3
