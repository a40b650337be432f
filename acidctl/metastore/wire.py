"""Answers of a metastore, read within bounds: of time, of bytes, of memory, and of how deep values nest.

Thrift's binary protocol declares the length of every text and container before its content, and an answer has no
length of its own. So whatever answers could make a client wait or grow for ever. Here one answer has a deadline and a
number of bytes, what it declares is compared with them before anything is made of it, and what the interface says is
required has to be there.
"""

from __future__ import annotations

import io
import socket
import struct
import time
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

_RECEIVE = 1 << 16
_DEEPEST = 32
_NAME_BYTES = 1 << 10
# What values take in memory, about: a number, a text beside its bytes, a record, an entry of a container.
_NUMBER, _TEXT, _RECORD, _ENTRY = 32, 64, 512, 8
_VERSION, _VERSION_MASK = 0x80010000, 0xFFFF0000
REPLY, EXCEPTION = 2, 3
_STOP, _BOOL, _I8, _DOUBLE, _I16, _I32, _I64, _STRING, _STRUCT, _MAP, _SET, _LIST = (
    0,
    2,
    3,
    4,
    6,
    8,
    10,
    11,
    12,
    13,
    14,
    15,
)
_BINARY = 18  # of thriftpy2 alone; it travels as a string
_NUMBERS = {
    kind: struct.Struct(form) for kind, form in ((_I8, ">b"), (_DOUBLE, ">d"), (_I16, ">h"), (_I32, ">i"), (_I64, ">q"))
}
_field, _length = struct.Struct(">bh").unpack_from, struct.Struct(">i").unpack_from
_WIDTHS = {_BOOL: 1, _I8: 1, _DOUBLE: 8, _I16: 2, _I32: 4, _I64: 8}


class WireError(Exception):
    """Bytes that are no answer to the call; the text is a clause."""


class TooLargeError(WireError):
    """More than one answer may have."""


class Bounds:
    """What one answer may take: seconds from `begin` on, bytes, and about as many bytes in memory."""

    def __init__(self, largest: int) -> None:
        self.largest = largest
        self._deadline = 0.0
        self._bytes = self._memory = 0

    def begin(self, seconds: float) -> None:
        """Before a call."""
        self._deadline = time.monotonic() + seconds
        self._bytes = self._memory = self.largest

    def seconds(self) -> float:
        """What is left of the time; TimeoutError where nothing is."""
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("timed out")
        return left

    def received(self, count: int) -> None:
        """So many bytes have come; WireError where there are too many."""
        self._bytes -= count
        if self._bytes < 0:
            raise self.too_large()

    def takes(self, count: int) -> None:
        """Something takes so many bytes in memory; WireError, before it is made, where that is too much."""
        self._memory -= count
        if self._memory < 0:
            raise self.too_large()

    def too_large(self) -> WireError:
        """The error for more than that."""
        return TooLargeError(f"its answer takes more than {self.largest:,} bytes")


class GuardedSocket:
    """A connected socket within bounds, for Thrift and for HTTP."""

    def __init__(self, inner: socket.socket, bounds: Bounds) -> None:
        self._inner = inner
        self._bounds = bounds

    def recv(self, size: int) -> bytes:
        """Some bytes, none at the end."""
        self._inner.settimeout(self._bounds.seconds())
        data = self._inner.recv(min(size, _RECEIVE))
        self._bounds.received(len(data))
        return data

    def sendall(self, data: bytes) -> None:
        """All bytes; the time is that of the answer."""
        self._inner.settimeout(self._bounds.seconds())
        self._inner.sendall(data)

    def makefile(self, mode: str, *buffering: int) -> io.BufferedReader:
        """What HTTP reads from."""
        return io.BufferedReader(_GuardedFile(self._inner.makefile("rb", buffering=0), self._inner, self._bounds))

    def shutdown(self, how: int) -> None:
        """As of a socket."""
        self._inner.shutdown(how)

    def close(self) -> None:
        """As of a socket."""
        self._inner.close()


class _GuardedFile(io.RawIOBase):
    def __init__(self, inner: io.RawIOBase, connection: socket.socket, bounds: Bounds) -> None:
        super().__init__()
        self._inner = inner
        self._connection = connection
        self._bounds = bounds

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self._connection.settimeout(self._bounds.seconds())
        count = self._inner.readinto(buffer) or 0
        self._bounds.received(count)
        return count

    def close(self) -> None:
        super().close()
        self._inner.close()


class _Plan(NamedTuple):
    """How a struct is read: by field id its type, its name and what is in it; and which names have to be there."""

    fields: dict[int, tuple[int, str, Any]]
    required: tuple[str, ...]


@cache
def _plan(kind: Any) -> _Plan:
    fields, required = {}, []
    for number, stated in kind.thrift_spec.items():
        fields[number] = stated[0], stated[1], stated[2] if len(stated) > 3 else None
        if stated[-1]:
            required.append(stated[1])
    return _Plan(fields, tuple(required))


class Answer:
    """Reads one answer; `source` gives some bytes or all that are asked for, and none at the end."""

    def __init__(self, source: Callable[[int], bytes], bounds: Bounds, *, exact: bool) -> None:
        """`exact` sources give no more than was asked for, others whatever has come."""
        self._source = source
        self._bounds = bounds
        self._exact = exact
        self._data = b""
        self._at = self._id = 0

    def begin(self) -> tuple[str, int, int]:
        """Name, kind and number of the message."""
        word = self._number(_I32) & 0xFFFFFFFF
        if word & _VERSION_MASK != _VERSION:
            raise WireError("its first bytes are not those of Thrift")
        size = self._number(_I32)
        if not 0 <= size <= _NAME_BYTES:
            raise WireError(f"a name claims {size:,} bytes")
        return self._take(size).decode("utf-8", "replace"), word & 0xFF, self._number(_I32)

    def record(self, kind: Any, depth: int = 0) -> Any:
        """A struct of this class; WireError where a required field is not there."""
        self._bounds.takes(_RECORD)
        _check_depth(depth)
        fields, required = _plan(kind)
        found = kind()
        values = found.__dict__
        while (stated := self._field()) != _STOP:
            wanted = fields.get(self._id)
            if wanted is None or not (stated == wanted[0] or _alike(stated, wanted[0])):
                self._skip(stated, depth + 1)
            elif wanted[0] == _STRING:
                (values[wanted[1]],) = self._strings(1)
            else:
                values[wanted[1]] = self._value(wanted[0], wanted[2], depth + 1)
        for name in required:
            if values[name] is None:
                raise WireError(f"{kind.__name__} has no {name}")
        return found

    def end(self) -> None:
        """WireError where more has come than the answer."""
        if self._at != len(self._data):
            raise WireError("more follows its answer")

    # --- values

    def _value(self, kind: int, inner: Any, depth: int) -> Any:
        if kind in _NUMBERS:
            return self._number(kind)
        if kind in (_STRING, _BINARY):
            return self._strings(1)[0] if kind == _STRING else self._text()
        if kind == _STRUCT:
            return self.record(inner, depth)
        if kind == _BOOL:
            return self._byte() != 0
        if kind == _MAP:
            return self._map(inner, depth)
        return self._list(inner, depth)

    def _strings(self, count: int) -> list[str]:
        """So many texts. Names that are not UTF-8 travel as surrogate escapes, as everywhere."""
        found = []
        data, at, last = self._data, self._at, len(self._data) - 4
        begun = at
        for _ in range(count):
            if at <= last and 0 <= (size := _length(data, at)[0]) <= last - at:
                found.append(str(data[at + 4 : at + 4 + size], "utf-8", "surrogateescape"))
                at += 4 + size
                continue
            self._bounds.takes(at - begun + _TEXT * len(found))
            self._at = at
            found.append(str(self._text(), "utf-8", "surrogateescape"))
            data, at, last = self._data, self._at, len(self._data) - 4
            begun = at
        self._at = at
        self._bounds.takes(at - begun + _TEXT * count)
        return found

    def _text(self) -> bytes:
        size = self._size(1)
        self._bounds.takes(_TEXT + size)
        return self._take(size)

    def _list(self, inner: Any, depth: int) -> list[Any] | None:
        _check_depth(depth)
        kind, more = _inner(inner)
        stated = self._byte()
        size = self._size(_width(stated))
        if not _alike(stated, kind):
            self._skip_all([stated], size, depth)
            return None
        self._bounds.takes(size * (_ENTRY + (_NUMBER if kind in _WIDTHS else 0)))
        if kind == _STRING:
            return self._strings(size)
        return [self._value(kind, more, depth + 1) for _ in range(size)]

    def _map(self, inner: Any, depth: int) -> dict[Any, Any] | None:
        _check_depth(depth)
        (key, in_key), (kind, in_value) = map(_inner, inner)
        keys, values = self._byte(), self._byte()
        size = self._number(_I32)
        if not size:
            return {}  # of which some writers do not state the types
        self._require_room(size, _width(keys) + _width(values))
        if not (_alike(keys, key) and _alike(values, kind)):
            self._skip_all([keys, values], size, depth)
            return None
        self._bounds.takes(size * 2 * (_ENTRY + _NUMBER))
        if key == kind == _STRING:
            texts = self._strings(2 * size)
            return dict(zip(texts[::2], texts[1::2], strict=True))
        return {self._value(key, in_key, depth + 1): self._value(kind, in_value, depth + 1) for _ in range(size)}

    def _skip(self, kind: int, depth: int) -> None:
        """Pass over a value that is not known."""
        _check_depth(depth)
        if kind in _WIDTHS:
            self._take(_WIDTHS[kind])
        elif kind == _STRING:
            self._pass(self._size(1))
        elif kind == _STRUCT:
            while stated := self._byte():
                self._take(2)
                self._skip(stated, depth + 1)
        elif kind == _MAP:
            kinds = [self._byte(), self._byte()]
            size = self._number(_I32)
            if size:
                self._require_room(size, sum(map(_width, kinds)))
                self._skip_all(kinds, size, depth)
        elif kind in (_LIST, _SET):
            stated = self._byte()
            self._skip_all([stated], self._size(_width(stated)), depth)
        else:
            raise WireError(f"it has a value of the unknown type {kind}")

    def _skip_all(self, kinds: list[int], count: int, depth: int) -> None:
        if all(kind in _WIDTHS for kind in kinds):
            self._pass(count * sum(_WIDTHS[kind] for kind in kinds))
            return
        for _ in range(count):
            for kind in kinds:
                self._skip(kind, depth + 1)

    # --- bytes

    def _size(self, width: int) -> int:
        """The number of what follows, each of which takes `width` bytes or more."""
        size: int = self._number(_I32)
        self._require_room(size, width)
        return size

    def _require_room(self, size: int, width: int) -> None:
        if size < 0:
            raise WireError(f"a length of {size:,} is impossible")
        if size * width > self._bounds.largest:
            raise self._bounds.too_large()

    def _number(self, kind: int) -> Any:
        form = _NUMBERS[kind]
        at = self._at
        end = at + form.size
        if end > len(self._data):
            self._receive(form.size)
            at, end = 0, form.size
        self._at = end
        return form.unpack_from(self._data, at)[0]

    def _field(self) -> int:
        """The type of the next field of a record, whose id is `_id` then; _STOP at its end."""
        at = self._at
        if at + 3 <= len(self._data):
            stated, self._id = _field(self._data, at)
            self._at = at + 3 if stated else at + 1
            return int(stated)
        stated = self._byte()
        if stated:
            self._id = self._number(_I16)
        return stated

    def _byte(self) -> int:
        if self._at >= len(self._data):
            self._receive(1)
        self._at += 1
        return self._data[self._at - 1]

    def _take(self, size: int) -> bytes:
        if self._at + size > len(self._data):
            self._receive(size)
        self._at += size
        return self._data[self._at - size : self._at]

    def _pass(self, size: int) -> None:
        while size > 0:
            step = min(size, _RECEIVE)
            self._take(step)
            size -= step

    def _receive(self, size: int) -> None:
        """Have so many bytes, from the beginning of the data on."""
        pieces = [self._data[self._at :]]
        have = len(pieces[0])
        while have < size:
            self._bounds.seconds()
            piece = self._source(size - have if self._exact else _RECEIVE)
            if not piece:
                raise EOFError("the connection ended")
            pieces.append(piece)
            have += len(piece)
        self._data, self._at = b"".join(pieces), 0


def _check_depth(depth: int) -> None:
    if depth > _DEEPEST:
        raise WireError(f"its values are nested more than {_DEEPEST} deep")


def _alike(stated: int, wanted: int) -> bool:
    return stated == wanted or (stated == _STRING and wanted == _BINARY)


def _inner(stated: Any) -> tuple[int, Any]:
    """Type and further types of what is in a container, as thriftpy2 states them."""
    return (stated, None) if isinstance(stated, int) else (stated[0], stated[1])


def _width(kind: int) -> int:
    """The least that a value takes; WireError for a type that there is not."""
    least = {**_WIDTHS, _STRING: 4, _STRUCT: 1, _MAP: 6, _SET: 5, _LIST: 5}.get(kind)
    if least is None:
        raise WireError(f"it has a value of the unknown type {kind}")
    return least
