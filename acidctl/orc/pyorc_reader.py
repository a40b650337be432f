"""A second opinion on a file: chosen rows as another ORC library (pyorc) reads them, as Arrow arrays of ours.

It shares neither code nor decoder with `reader`: pyorc carries a copy of ORC's C++ library of its own and knows nothing
of our footers. What it cannot hold is not compared, with a reason: the tag of a union, bytes that are not UTF-8.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from decimal import Decimal
from typing import Any, BinaryIO, cast

import pyarrow as pa
import pyorc
from pyorc.converters import ORCConverter

from acidctl.errors import AcidctlError
from acidctl.format.events import WIDE
from acidctl.format.names import EVENT_FIELDS
from acidctl.orc.reader import OrcFile
from acidctl.types.hive_types import HiveType, ListType, MapType, StructType, TypeKind, kinds

_NANOS = 10**9
_MOMENTS = (TypeKind.TIMESTAMP, TypeKind.TIMESTAMP_LOCAL)


class CannotRead(Exception):
    """pyorc cannot read the file for a reason that says nothing about the file; the text is a sentence's end."""


class _Nameless:
    """A file without its name: pyorc asks for it, and fails where its bytes are not UTF-8."""

    def __init__(self, file: BinaryIO) -> None:
        self.read, self.seek, self.tell, self.seekable = file.read, file.seek, file.tell, file.seekable


class Rows:
    """Open with pyorc; `columns` are positions in `OrcFile.columns` and the only ones read."""

    def __init__(self, file: BinaryIO, orc: OrcFile, columns: Sequence[int]) -> None:
        self._acid = orc.is_acid
        names = [orc.columns.names[i] for i in columns]
        chosen: list[str] = []
        if len(columns) < len(orc.columns.fields):
            # Names are all that pyorc takes: dots divide what is nested, and of two equal ones it takes one.
            if any("." in name or names.count(name) > 1 for name in names):
                raise CannotRead("its column names do not say which column is meant")
            keys = [orc.tail.types[0].names[i] for i in range(len(EVENT_FIELDS) - 1)] if self._acid else []
            row = orc.tail.types[0].names[-1]
            chosen = [*keys, *(f"{row}.{name}" if self._acid else name for name in names)]
        try:
            self._reader = pyorc.Reader(
                cast(BinaryIO, _Nameless(file)), batch_size=256, column_names=chosen, converters=_CONVERTERS
            )
        except AcidctlError:
            raise
        except Exception as error:
            raise _judged(error) from error

    def __len__(self) -> int:
        return len(self._reader)

    def read(self, start: int, count: int) -> tuple[list[tuple[int, ...]], list[tuple[Any, ...] | None]]:
        """Keys (as stored; empty tuples in a file without) and values of `count` rows from `start` (of the file).

        A row is None where an event has none, and empty where no column was asked for. CannotRead, or ValueError when
        pyorc finds the file at fault. It goes by the row index, and wrong positions there end the process.
        """

        def rows() -> list[Any]:
            self._reader.seek(start)
            return self._reader.read(count)

        return self._split(rows)

    def read_stripe(self, index: int, count: int) -> tuple[list[tuple[int, ...]], list[tuple[Any, ...] | None]]:
        """The same of the first rows of a stripe, without its row index."""
        return self._split(lambda: self._reader.read_stripe(index).read(count))

    def _split(self, read: Callable[[], list[Any]]) -> tuple[list[tuple[int, ...]], list[tuple[Any, ...] | None]]:
        try:
            rows = read()
        except AcidctlError:
            raise
        except Exception as error:
            raise _judged(error) from error
        if not self._acid:
            return [()] * len(rows), rows
        keys = [row[:5] for row in rows]
        return keys, [row[5] if len(row) > 5 else () for row in rows]


def _judged(error: Exception) -> Exception:
    text = str(error).splitlines()[0] if str(error) else type(error).__name__
    if isinstance(error, UnicodeDecodeError):
        return CannotRead("a string is not valid UTF-8")
    if "zoneinfo" in text or "timezone" in text.lower():
        return CannotRead(f"there is no time zone database for it ({text})")
    return ValueError(text)


def incomparable(kind: HiveType, orc: OrcFile) -> str | None:
    """Why columns of a type cannot be compared at all, None if they can."""
    below = kinds(kind)
    if TypeKind.UNION in below:
        return "pyorc does not tell which alternative of a union it read"
    if orc.tail.is_hybrid and below & {TypeKind.DATE, TypeKind.TIMESTAMP}:
        return "pyorc knows no hybrid calendar"
    return None


def unreadable(kind: HiveType, values: pa.Array) -> str | None:
    """Why pyorc cannot deliver these very values, None if it can."""
    if kinds(kind) & {TypeKind.STRING, TypeKind.CHAR, TypeKind.VARCHAR}:
        try:
            values.validate(full=True)
        except pa.ArrowInvalid:
            return "pyorc reads no string that is not valid UTF-8"
    return None


def undecided(kind: HiveType, values: pa.Array) -> str | None:
    """Why a difference in these values proves nothing, None if it does."""
    below = kinds(kind)
    if TypeKind.FLOAT in below and _any(values.to_pylist(), lambda value: isinstance(value, float) and value != value):
        return "pyorc may change the bits of a NaN"
    if TypeKind.MAP in below and _any(values.to_pylist(), _repeats):
        return "pyorc keeps one of the equal keys of a map"
    return None


def as_arrow(values: Sequence[Any], kind: HiveType, form: pa.DataType) -> pa.Array:
    """Values from `Rows.read` as an array of our reader's type for the column; ValueError where they do not fit."""
    convert = _converter(kind, form)
    try:
        return pa.array(values if convert is None else [None if v is None else convert(v) for v in values], form)
    except (pa.ArrowException, TypeError, OverflowError) as error:
        raise ValueError(str(error)) from error


def _converter(kind: HiveType, form: pa.DataType) -> Callable[[Any], Any] | None:
    """From pyorc's value to what `pa.array` takes; None where they are the same."""
    if kind.kind is TypeKind.CHAR:
        return lambda value: value.rstrip(" ")
    if kind.kind is TypeKind.DECIMAL:
        return Decimal
    if kind.kind in _MOMENTS:
        if form.equals(WIDE):
            return None
        return lambda value: value[0] * _NANOS + value[1]
    if isinstance(kind, ListType):
        element = _nullable(_converter(kind.element, form.value_type))
        return lambda value: [element(item) for item in value]
    if isinstance(kind, MapType):
        key, item = _nullable(_converter(kind.key, form.key_type)), _nullable(_converter(kind.value, form.item_type))
        return lambda value: [(key(k), item(v)) for k, v in value.items()]
    if isinstance(kind, StructType):
        inner = [_nullable(_converter(field.type, form.field(i).type)) for i, field in enumerate(kind.fields)]
        return lambda value: tuple(convert(item) for convert, item in zip(inner, value, strict=True))
    return None


def _nullable(convert: Callable[[Any], Any] | None) -> Callable[[Any], Any]:
    if convert is None:
        return lambda value: value
    return lambda value: None if value is None else convert(value)


def _any(value: Any, matches: Callable[[Any], bool]) -> bool:
    """Whether anything in nested Python values matches."""
    if matches(value):
        return True
    if isinstance(value, Mapping):
        return any(_any(item, matches) for item in value.values())
    if isinstance(value, list | tuple):
        return any(_any(item, matches) for item in value)
    return False


def _repeats(value: Any) -> bool:
    """Whether a value is the list of pairs of a map in which two keys are equal."""
    if not isinstance(value, list) or not value or not all(isinstance(p, tuple) and len(p) == 2 for p in value):
        return False
    keys = [pair[0] for pair in value]
    with suppress(TypeError):
        return len(set(keys)) < len(keys)
    return any(key in keys[:i] for i, key in enumerate(keys))


class _Moment(ORCConverter):
    """Seconds and nanoseconds as they are: Python's datetime knows neither year 0 nor nanoseconds."""

    @staticmethod
    def from_orc(seconds: int, nanoseconds: int, timezone: object) -> tuple[int, int]:
        return seconds, nanoseconds

    @staticmethod
    def to_orc(*args: Any) -> Any:
        raise NotImplementedError


class _Plain(ORCConverter):
    """Days and the text of a decimal as they are."""

    @staticmethod
    def from_orc(value: Any) -> Any:
        return value

    @staticmethod
    def to_orc(*args: Any) -> Any:
        raise NotImplementedError


_CONVERTERS = {
    pyorc.TypeKind.TIMESTAMP: _Moment,
    pyorc.TypeKind.TIMESTAMP_INSTANT: _Moment,
    pyorc.TypeKind.DATE: _Plain,
    pyorc.TypeKind.DECIMAL: _Plain,
}
