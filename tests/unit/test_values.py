"""`acidctl.values.dataclass` beside the standard library's, for all that the package's classes make use of."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
from dataclasses import FrozenInstanceError, field
from typing import Any, ClassVar

import pytest

from acidctl import values


def _classes(dataclass: Any) -> tuple[Any, Any, Any]:
    @dataclass(frozen=True, slots=True)
    class Base:
        one: int
        two: str = "2"
        more: list[int] = field(default_factory=list)
        hidden: bytes = field(default=b"", repr=False, compare=False)
        kind: ClassVar = "a kind"

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Derived(Base):
        three: int = field(init=False)
        four: float = 4.0

        def __post_init__(self) -> None:
            object.__setattr__(self, "three", self.one + 2)

    @dataclass(slots=True)
    class Changing:
        one: int = 1
        made: dict[str, int] = field(init=False, default_factory=dict)

    return Base, Derived, Changing


OURS, THEIRS = _classes(values.dataclass), _classes(dataclasses.dataclass)
ARGUMENTS = [
    (0, (1,), {}),
    (0, (1, "two", [3]), {"hidden": b"x"}),
    (1, (1,), {"four": 5.0}),
    (2, (), {}),
    (2, (7,), {}),
]


@pytest.mark.parametrize(("which", "places", "names"), ARGUMENTS)
def test_instances_are_those_of_the_standard_library(which: int, places: Any, names: Any) -> None:
    ours, theirs = OURS[which](*places, **names), THEIRS[which](*places, **names)
    assert repr(ours) == repr(theirs)
    assert dataclasses.asdict(ours) == dataclasses.asdict(theirs)
    assert ours == OURS[which](*places, **names) != theirs
    assert dataclasses.replace(ours, one=9) != ours
    assert copy.copy(ours) == ours
    assert [one.name for one in dataclasses.fields(ours)] == [one.name for one in dataclasses.fields(theirs)]


@pytest.mark.parametrize("which", range(3))
def test_classes_are_those_of_the_standard_library(which: int) -> None:
    ours, theirs = OURS[which], THEIRS[which]
    assert ours.__match_args__ == theirs.__match_args__
    assert ours.__slots__ == theirs.__slots__
    assert (ours.__hash__ is None) == (theirs.__hash__ is None)
    parameters = [[(one.name, one.kind) for one in inspect.signature(it).parameters.values()] for it in (ours, theirs)]
    assert parameters[0] == parameters[1]
    with pytest.raises(TypeError):
        ours(1, "two", [], b"", 5, 6)


def test_what_is_frozen_stays() -> None:
    value = OURS[0](1)
    for name in ("one", "new"):
        with pytest.raises(FrozenInstanceError):
            setattr(value, name, 2)
    with pytest.raises(FrozenInstanceError):
        del value.one
    assert value.one == 1
    assert hash(OURS[0](1, "2", ())) == hash(OURS[0](1, "2", (), b"other"))


def test_no_list_is_shared() -> None:
    first, second = OURS[0](1), OURS[0](1)
    assert first.more is not second.more


@values.dataclass(frozen=True, slots=True)
class Travelling:
    """What goes to another process."""

    one: int
    two: tuple[str, ...] = ()


def test_values_travel_by_pickle() -> None:
    value = Travelling(1, ("a", "b"))
    assert pickle.loads(pickle.dumps(value)) == value


def test_an_ordered_class_compares_and_can_be_a_key() -> None:
    @values.dataclass(frozen=True, slots=True, order=True)
    class Ordered:
        one: int
        two: int

    assert Ordered(1, 2) < Ordered(1, 3) <= Ordered(2, 0)
    assert {Ordered(1, 2)} == {Ordered(1, 2)}
    with pytest.raises(dataclasses.FrozenInstanceError):
        Ordered(1, 2).one = 3  # type: ignore[misc]
