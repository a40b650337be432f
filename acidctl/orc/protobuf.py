"""The protobuf wire format, read into plain values and written.

ORC's messages are few and small, and a file's tail may lie: decoding by hand (this page) refuses a bad length
or number with one exception, needs neither a dependency nor generated code, and starts in no time, which
`protobuf` does not. Unknown fields are skipped, as the format asks, and `rewritten` keeps them byte for byte: what a
newer writer put there is not ours to drop.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_LENGTHS = {_FIXED64: 8, _FIXED32: 4}
_U64 = (1 << 64) - 1


class WireError(ValueError):
    """The bytes are not a protobuf message; the text says where."""


def varint(data: bytes, at: int) -> tuple[int, int]:
    """The unsigned 64-bit number at `at` and the offset after it."""
    result = shift = 0
    while True:
        if at >= len(data):
            raise WireError("a number runs past the end")
        byte = data[at]
        at += 1
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            return result & _U64, at
        shift += 7
        if shift > 63:
            raise WireError("a number has more than ten bytes")


def zigzag(value: int) -> int:
    """A `sint64` from its unsigned form."""
    return (value >> 1) ^ -(value & 1)


def signed(value: int) -> int:
    """An `int64` from its unsigned form."""
    return value - (1 << 64) if value >> 63 else value


# How many fields may be read of the messages of a section: some always, and more of sections that have the bytes. A few
# stored bytes can expand to millions of fields, and each would become an object.
FREE_FIELDS = 1 << 18
FIELDS_OF_A_BYTE = 8
_TOO_MANY_FIELDS = "it has more fields than the file has room for"
_CONTINUED = bytes(range(128, 256))


class Budget:
    """The fields that may still be read of a section of so many stored bytes, over all its messages."""

    __slots__ = ("left",)

    def __init__(self, stored: int) -> None:
        self.left = FREE_FIELDS + FIELDS_OF_A_BYTE * stored

    def spend(self, fields: int) -> None:
        self.left -= fields
        if self.left < 0:
            raise WireError(_TOO_MANY_FIELDS)


class Message:
    """The fields of one message by number; the last of repeated scalars wins, as protobuf asks.

    `budget` is for the message and all that are taken out of it.
    """

    __slots__ = ("_budget", "_fields")

    def __init__(self, data: bytes, budget: Budget | None = None) -> None:
        self._budget = budget = Budget(len(data)) if budget is None else budget
        if len(data) > 2 * budget.left and any(True for _ in islice(raw_fields(data), budget.left, None)):
            # Counted before anything is kept.
            raise WireError(_TOO_MANY_FIELDS)
        fields: dict[int, list[int | bytes]] = {}
        at, end = 0, len(data)
        last = end - 1
        while at < end:
            # Most numbers have one byte; a call for each would take half of the time that a tail takes.
            key = data[at]
            at += 1
            if key >= 0x80:
                key, at = varint(data, at - 1)
            kind, number = key & 7, key >> 3
            value: int | bytes
            if kind == _VARINT:
                value, at = (data[at], at + 1) if at < end and data[at] < 0x80 else varint(data, at)
            elif kind == _BYTES:
                length, at = (data[at], at + 1) if at < end and data[at] < 0x80 else varint(data, at)
                value = data[at : at + length]
                at += length
                if at < last and data[at] == key < 0x80 and number:
                    # Fields of one number stand together, and most of them are short.
                    run = fields.setdefault(number, [])
                    while at < last and data[at] == key and (length := data[at + 1]) < 0x80:
                        run.append(value)
                        at += 2
                        value = data[at : (at := at + length)]
                if at > end:
                    raise WireError("a field runs past the end")
            elif kind in _LENGTHS:
                length = _LENGTHS[kind]
                if length > end - at:
                    raise WireError("a field runs past the end")
                value = data[at : at + length]
                at += length
            else:
                raise WireError(f"wire type {kind} is unknown")
            if number == 0:
                raise WireError("field number 0 is not allowed")
            if number in fields:
                fields[number].append(value)
            else:
                fields[number] = [value]
        self._fields = fields
        budget.spend(sum(map(len, fields.values())))

    def __contains__(self, number: object) -> bool:
        return number in self._fields

    def __iter__(self) -> Iterator[int]:
        return iter(self._fields)

    def numbers(self, *numbers: int) -> tuple[int, ...]:
        """Unsigned numbers, 0 where absent."""
        result = []
        for number in numbers:
            values = self._fields.get(number)
            value = values[-1] if values else 0
            if not isinstance(value, int):
                raise WireError(f"field {number} is not a number")
            result.append(value)
        return tuple(result)

    def uint(self, number: int) -> int | None:
        """An unsigned number, or None when absent."""
        values = self._fields.get(number)
        if not values:
            return None
        value = values[-1]
        if not isinstance(value, int):
            raise WireError(f"field {number} is not a number")
        return value

    def sint(self, number: int) -> int | None:
        """A zigzag-coded number, or None when absent."""
        value = self.uint(number)
        return None if value is None else zigzag(value)

    def data(self, number: int) -> bytes | None:
        """A length-delimited or fixed-width field, or None when absent."""
        values = self._fields.get(number)
        if not values:
            return None
        value = values[-1]
        if not isinstance(value, bytes):
            raise WireError(f"field {number} is not bytes")
        return value

    def text(self, number: int) -> str | None:
        """Text; bytes that are not UTF-8 become U+FFFD, as in Java."""
        value = self.data(number)
        return None if value is None else value.decode("utf-8", "replace")

    def message(self, number: int) -> Message | None:
        value = self.data(number)
        return None if value is None else Message(value, self._budget)

    def messages(self, number: int) -> Iterator[Message]:
        for value in self.blobs(number):
            yield Message(value, self._budget)

    def numbers_of(self, number: int, count: int) -> list[Sequence[int]]:
        """Of each message of a repeated field the numbers of its fields 1 to `count`, as `numbers` gives them.

        Most have nothing else, as the eighty of a stripe's footer: a `Message`, or a call, for each would take most of
        the time of a small file.
        """
        found: list[Sequence[int]] = []
        last, bare = count << 3, 0
        for data in self.blobs(number):
            result, at, end = [0] * count, 0, len(data)
            try:
                while at < end:
                    key, value = data[at], data[at + 1]
                    if key & 7 or not 0 < key <= last or end > 1 << 8:
                        break
                    at += 2
                    if value >= 0x80:
                        value, at = varint(data, at - 1)
                    result[(key >> 3) - 1] = value
            except IndexError:
                at = 0
            bare += at == end
            found.append(result if at == end else Message(data, self._budget).numbers(*range(1, count + 1)))
        self._budget.spend(bare * count)
        return found

    def count(self, number: int) -> int:
        return len(self._fields.get(number, ()))

    def uints(self, number: int) -> tuple[int, ...]:
        """A repeated number, packed or not."""
        result: list[int] = []
        for value in self._fields.get(number, ()):
            if isinstance(value, int):
                result.append(value)
                continue
            at = 0
            self._budget.spend(len(value.translate(None, _CONTINUED)))
            while at < len(value):
                item, at = varint(value, at)
                result.append(item)
        return tuple(result)

    def blobs(self, number: int) -> tuple[bytes, ...]:
        """The raw bytes of a repeated field of bytes or of fixed width."""
        values = self._fields.get(number, ())
        if int in map(type, values):
            raise WireError(f"field {number} is not bytes")
        return tuple(values)  # type: ignore[arg-type]


# --- Written.

#: A number, a double, bytes (texts and messages too), or as many fields as there are bytes; None for no field.
Value = int | float | bytes | Iterable[bytes] | None


def encoded(fields: Mapping[int, Value]) -> bytes:
    """A message of these fields, in this order; numbers with a sign are the caller's to convert (`zigzagged`)."""
    return b"".join([_field(field, value) for field, value in fields.items()])


def _field(field: int, value: Value) -> bytes:
    if value is None:
        return b""
    if isinstance(value, int):
        return number(field, value)
    if isinstance(value, float):
        return encode_varint(field << 3 | _FIXED64) + struct.pack("<d", value)
    return block(field, value) if isinstance(value, bytes) else b"".join([block(field, item) for item in value])


def number(field: int, value: int) -> bytes:
    """An unsigned number as a field."""
    return encode_varint(field << 3) + encode_varint(int(value))


def block(field: int, data: bytes) -> bytes:
    """Bytes, text or a message as a field."""
    return encode_varint(field << 3 | _BYTES) + encode_varint(len(data)) + data


def packed(values: Iterable[int]) -> bytes:
    """A repeated number as the bytes of its field."""
    return b"".join(map(encode_varint, values))


def encode_varint(value: int) -> bytes:
    """An unsigned number in groups of seven bits, the lowest first."""
    if 0 <= value < 0x80:
        return value.to_bytes(1, "little")
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def zigzagged(value: int) -> int:
    """A `sint64` in its unsigned form."""
    return value << 1 if value >= 0 else (-value << 1) - 1


def raw_fields(data: bytes) -> Iterator[tuple[int, bytes]]:
    """The fields of a message in order: number, and the whole field with its key; WireError when it is not one."""
    at, end = 0, len(data)
    while at < end:
        start = at
        key, at = (data[at], at + 1) if data[at] < 0x80 else varint(data, at)
        kind = key & 7
        if kind in (_VARINT, _BYTES):
            value, at = (data[at], at + 1) if at < end and data[at] < 0x80 else varint(data, at)
            at += value if kind == _BYTES else 0
        elif kind in _LENGTHS:
            at += _LENGTHS[kind]
        else:
            raise WireError(f"wire type {kind} is unknown")
        if at > end:
            raise WireError("a field runs past the end")
        yield key >> 3, data[start:at]


def rewritten(data: bytes, changes: Mapping[int, Value]) -> bytes:
    """The message with all fields of each number in `changes` replaced by those there, which come first.

    What was last stays last: readers look for the letters at the end of a postscript without parsing it.
    """
    kept = [field for number, field in raw_fields(data) if number not in changes]
    return encoded(changes) + b"".join(kept)
