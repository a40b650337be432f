"""`dataclass` as in the standard library, in a quarter of the time.

Each command makes some 150 such classes when it starts. The standard library compiles up to six functions for each;
here `__init__` alone is compiled, and the other methods are the same few functions for all. Type checkers see the
standard library's own.
"""

from __future__ import annotations

import dataclasses
from dataclasses import MISSING, FrozenInstanceError, fields
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(cls=None, /, *, init=True, repr=True, eq=True, frozen=False, order=False, **settings):
        """As `dataclasses.dataclass`; `settings` are `slots`, `kw_only` and `weakref_slot`."""

        def made(cls):
            own = {*vars(cls)}
            cls = dataclasses.dataclass(cls, init=False, repr=False, eq=order, order=order, **settings)
            methods = _equality(cls, frozen) if eq else {}
            if frozen:
                methods |= {"__setattr__": _refuse_to_set, "__delattr__": _refuse_to_delete}
                methods |= {"__getstate__": _state, "__setstate__": _set_state}
            if init:
                methods["__init__"] = _init(cls, frozen)
            if repr:
                methods["__repr__"] = _repr
            for name, method in methods.items():
                if name not in own:
                    setattr(cls, name, method)
            return cls

        return made if cls is None else made(cls)


def _init(cls: Any, frozen: bool) -> Any:
    """Takes the fields as arguments and sets them; of a frozen class, which has slots, by these: nothing is quicker."""
    known: dict[str, Any] = {"none_": MISSING}
    by_place, by_name, lines = list[str](), list[str](), list[str]()
    annotations: dict[str, Any] = {}
    for one in fields(cls):
        name = one.name
        if one.default_factory is not MISSING:
            known[f"make_{name}"] = one.default_factory
            value = f"make_{name}() if {name} is none_ else {name}" if one.init else f"make_{name}()"
            default = "=none_"
        else:
            known[f"default_{name}"] = one.default
            value = name if one.init else f"default_{name}"
            default = "" if one.default is MISSING else f"=default_{name}"
        if one.init:
            (by_name if one.kw_only else by_place).append(name + default)
            annotations[name] = one.type
        elif not default:
            continue
        if frozen:
            known[f"set_{name}"] = getattr(cls, name).__set__
        lines.append(f" set_{name}(self, {value})" if frozen else f" self.{name} = {value}")
    if hasattr(cls, "__post_init__"):
        lines.append(" self.__post_init__()")
    arguments = ["self", *by_place, *(["*", *by_name] if by_name else [])]
    exec(f"def __init__({', '.join(arguments)}):\n" + ("\n".join(lines) or " pass"), known)
    init = known["__init__"]
    init.__annotations__ = annotations
    return init


def _equality(cls: Any, frozen: bool) -> dict[str, Any]:
    """`__eq__` and `__hash__` over the fields that are compared."""
    names = [one.name for one in fields(cls) if one.compare]
    compared: Any = attrgetter(*names) if names else lambda self: ()

    def __eq__(self: Any, other: Any) -> Any:
        return compared(self) == compared(other) if other.__class__ is self.__class__ else NotImplemented

    def __hash__(self: Any) -> int:
        return hash(compared(self))

    return {"__eq__": __eq__, "__hash__": __hash__ if frozen else None}


def _repr(self: Any) -> str:
    shown = (f"{one.name}={getattr(self, one.name)!r}" for one in fields(self) if one.repr)
    return f"{type(self).__qualname__}({', '.join(shown)})"


def _refuse_to_set(self: Any, name: str, value: Any) -> NoReturn:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_to_delete(self: Any, name: str) -> NoReturn:
    raise FrozenInstanceError(f"cannot delete field {name!r}")


def _state(self: Any) -> list[Any]:
    return [getattr(self, one.name) for one in fields(self)]


def _set_state(self: Any, state: list[Any]) -> None:
    for one, value in zip(fields(self), state, strict=True):
        object.__setattr__(self, one.name, value)
