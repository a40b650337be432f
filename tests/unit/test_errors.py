"""Every refusal of a storage says what to do now, whoever raises it."""

from __future__ import annotations

from acidctl.errors import StorageError


def _kinds(kind: type[StorageError]) -> list[type[StorageError]]:
    return [kind, *(one for below in kind.__subclasses__() for one in _kinds(below))]


def test_a_refusal_without_a_reason_has_a_hint_all_the_same() -> None:
    """Of each kind its own; one that knows better says so instead."""
    for kind in _kinds(StorageError):
        if kind.__init__ is not StorageError.__init__:
            continue  # made of another, with what that says
        error = kind("t cannot be used")
        assert error.hint, kind
        assert error.hint.endswith("."), kind
        assert kind("t cannot be used", hint="Wait.").hint == "Wait."
