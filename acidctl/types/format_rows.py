"""Values as text: one JSON encoding, and CSV, made a column at a time.

Takes Arrow arrays beside the Hive types that say how to read them (a char is trimmed; a struct of seconds and
nanos under a timestamp is a moment that nanoseconds cannot count). Every function is pure and safe to call
from threads; nothing loops over rows in Python, except over a batch with strings that are not valid UTF-8.

A column becomes a list of pieces, which are joined row by row at the very end, so that a struct without NULLs costs
no text of its own. Other encodings share the work through `Style`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from acidctl.types import format_scalars, pieces
from acidctl.types.format_scalars import Damage, bytes_of, either, joined, literal, shortest_floats, valid_utf8
from acidctl.types.hive_types import HiveType, ListType, MapType, Primitive, StructType, TypeKind, UnionType
from acidctl.types.pieces import Piece, text_of
from acidctl.values import dataclass

#: The text of a column, or the pieces of it.
Text: TypeAlias = pa.Array | list[Piece]

_NULL = "null"
_INTEGERS = frozenset({TypeKind.TINYINT, TypeKind.SMALLINT, TypeKind.INT, TypeKind.BIGINT})
_TEXTS = frozenset({TypeKind.STRING, TypeKind.CHAR, TypeKind.VARCHAR})
SPLIT_BYTES = 1 << 28  # Arrow strings end at 2 GiB; text is a few times larger than what it shows
_SHORT = {"\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r", '"': '\\"', "\\": "\\\\"}
_ESCAPES = {i: _SHORT.get(chr(i), f"\\u{i:04x}") for i in (*range(32), 0x22, 0x5C)}
# JavaScript takes these two for line ends; as escapes they are the same JSON.
_LINE_ENDS = {"\u2028": "\\u2028", "\u2029": "\\u2029"}
#: The first byte value that is not ASCII.
HIGH = 0x80


@dataclass(frozen=True, slots=True)
class Style:
    """How primitive values are written; each function takes an array and gives its text, NULL for NULL.

    Those of numbers and moments may give pieces, one of them if the array has NULLs.
    `strings`, `dates`, `timestamps` (the flag: with local time zone) and `decimals` give what stands between
    quotes, the latter complete text if `bare_decimals`; `floats` gives complete text. With `names`, structs
    name their fields and binary is a list of numbers; without, structs are positional and binary is a string.
    """

    floats: Callable[[pa.Array], Text]
    decimals: Callable[[pa.Array], Text]
    dates: Callable[[pa.Array], Text]
    timestamps: Callable[[pa.Array, bool], Text]
    strings: Callable[[pa.Array, Damage], pa.Array]
    tagged_unions: bool = True
    bare_decimals: bool = False
    names: bool = True


def json_column(array: pa.Array, hive_type: HiveType, *, damage: Damage | None = None) -> pa.Array:
    """One JSON text per value, as a string array of the same length; NULL is the text `null`."""
    return text_of(pieces_of(array, hive_type, JSON_STYLE, damage or Damage()), len(array), nulls=_NULL)


def json_lines(
    columns: Sequence[pa.Array],
    names: Sequence[str],
    types: Sequence[HiveType],
    *,
    damage: Damage | None = None,
) -> pa.Buffer:
    """One JSON object a row, keys in the given order, each line ended by a newline."""
    return lines(columns, names, types, JSON_STYLE, damage)


def lines(
    columns: Sequence[pa.Array],
    names: Sequence[str] | None,
    types: Sequence[HiveType],
    style: Style,
    damage: Damage | None = None,
) -> pa.Buffer:
    """The rows as objects in the given style; columns have one length, and there is at least one."""
    counter = damage or Damage()

    def render(some: Sequence[pa.Array]) -> list[Piece]:
        pieces = _object(names, [pieces_of(a, t, style, counter) for a, t in zip(some, types, strict=True)])
        return [*pieces, b"\n"]

    return _rows(columns, render)


def csv_header(names: Sequence[str]) -> bytes:
    """The header line of `csv_lines`."""
    cells = [f'"{n.replace(chr(34), chr(34) * 2)}"' if _needs_quotes(n) else n for n in names]
    return (",".join(cells) + "\n").encode("utf-8", "surrogateescape")


def csv_lines(columns: Sequence[pa.Array], types: Sequence[HiveType], *, damage: Damage | None = None) -> pa.Buffer:
    """One CSV line a row (RFC 4180, `\\n`): NULL bare, empty string `""`, nested values as JSON text."""
    counter = damage or Damage()

    def render(some: Sequence[pa.Array]) -> list[Piece]:
        pieces: list[Piece] = []
        for array, hive_type in zip(some, types, strict=True):
            pieces += [b"," if pieces else b"", *_csv_cells(array, hive_type, counter)]
        return [*pieces, b"\n"]

    return _rows(columns, render, nulls="")


def _rows(
    columns: Sequence[pa.Array], render: Callable[[Sequence[pa.Array]], list[Piece]], *, nulls: str = _NULL
) -> pa.Buffer:
    count = len(columns[0])
    if count > 1 and sum(column.nbytes for column in columns) > SPLIT_BYTES:
        half = count // 2
        first = _rows([c.slice(0, half) for c in columns], render, nulls=nulls)
        rest = _rows([c.slice(half) for c in columns], render, nulls=nulls)
        return pa.py_buffer(b"".join((first, rest)))
    text = text_of(render(columns), count, nulls=nulls)
    _, offsets, data = text.buffers()
    if data is None:
        return pa.py_buffer(b"")
    ends = np.frombuffer(offsets, dtype=np.int32)
    start, stop = int(ends[text.offset]), int(ends[text.offset + count])
    return data.slice(start, stop - start)


def pieces_of(array: pa.Array, hive_type: HiveType, style: Style, damage: Damage) -> list[Piece]:
    """The JSON text of a column in pieces. If the column has NULLs it is one array, NULL there."""
    if isinstance(hive_type, StructType):
        members = [pieces_of(array.field(i), field.type, style, damage) for i, field in enumerate(hive_type.fields)]
        return _masked(_object(hive_type.names if style.names else None, members), array)
    if isinstance(hive_type, ListType):
        return _list(array, pieces_of(array.flatten(), hive_type.element, style, damage))
    if isinstance(hive_type, MapType):
        array = _as_list(array)
        entries = array.flatten()
        pair = [
            pieces_of(entries.field(index), child, style, damage)
            for index, child in enumerate((hive_type.key, hive_type.value))
        ]
        return _list(array, _object(("_key", "_value"), pair))
    if isinstance(hive_type, UnionType):
        return [_union(array, hive_type, style, damage)]
    if hive_type.kind is TypeKind.BINARY and style.names:
        return _list(array, [_octets(array)])
    made, quoted = _scalars(array, hive_type.kind, style, damage)
    text = made if isinstance(made, list) else [made]
    if not quoted:
        return text
    text = [b'"', *text, b'"']
    return text if array.null_count == 0 else [text_of(text, len(array), nulls=None)]


def _scalars(array: pa.Array, kind: TypeKind, style: Style, damage: Damage) -> tuple[Text, bool]:
    """The text of primitive values, and whether JSON puts it into quotes."""
    if kind in _INTEGERS:
        return _integers(array), False
    if kind in _TEXTS or kind is TypeKind.BINARY:
        if not pa.types.is_string(array.type):
            array = array.cast(pa.binary()).view(pa.string())
        return style.strings(pc.ascii_rtrim(array, " ") if kind is TypeKind.CHAR else array, damage), True
    if kind is TypeKind.BOOLEAN:
        return pieces.booleans(array) or pc.cast(array, pa.string()), False
    if kind in (TypeKind.DOUBLE, TypeKind.FLOAT):
        return style.floats(array), False
    if kind is TypeKind.DATE:
        return style.dates(array), True
    if kind is TypeKind.DECIMAL:
        return style.decimals(array), not style.bare_decimals
    return style.timestamps(array, kind is TypeKind.TIMESTAMP_LOCAL), True


# --- nested values


def _object(names: Sequence[str] | None, members: Sequence[list[Piece]]) -> list[Piece]:
    pieces: list[Piece] = [b"{"]
    for index, member in enumerate(members):
        key = b"" if names is None else _key(names[index])
        pieces += [b"," + key if index else key, *member]
    return [*pieces, b"}"]


def _key(name: str) -> bytes:
    text = json.dumps(name, ensure_ascii=False)
    for mark, escape in _LINE_ENDS.items():
        text = text.replace(mark, escape)
    return text.encode("utf-8", "surrogateescape") + b":"


def _masked(pieces: list[Piece], array: pa.Array) -> list[Piece]:
    """NULL where `array` is; NULLs inside the pieces become the text null."""
    if array.null_count == 0:
        return pieces
    text = text_of(pieces, len(array), nulls=_NULL)
    return [either(pc.is_valid(array), text, None)]


def _as_list(array: pa.Array) -> pa.Array:
    """A map as the list of pairs that it is; Arrow's list functions refuse maps."""
    pairs = pa.StructArray.from_arrays([array.keys, array.items], ["_key", "_value"])
    buffers, nulls = array.buffers()[:2], array.null_count
    return pa.Array.from_buffers(pa.list_(pairs.type), len(array), buffers, nulls, array.offset, children=[pairs])


def _list(array: pa.Array, members: Sequence[Piece]) -> list[Piece]:
    """`[a,b]` per row, from the pieces of the flattened elements."""
    lengths = pc.fill_null(pc.cast(_lengths(array), pa.int32()), 0).to_numpy(zero_copy_only=False)
    offsets = np.zeros(len(array) + 1, dtype=np.int32)
    np.cumsum(lengths, out=offsets[1:])
    flat = text_of(members, int(offsets[-1]), nulls=_NULL)
    joined = pc.binary_join(pa.ListArray.from_arrays(pa.array(offsets), flat), literal(","))
    return _masked([b"[", joined, b"]"], array)


def _lengths(array: pa.Array) -> pa.Array:
    return pc.binary_length(array) if pa.types.is_binary(array.type) else pc.list_value_length(array)


def _union(array: pa.Array, hive_type: UnionType, style: Style, damage: Damage) -> pa.Array:
    # pyarrow's `type_codes` and `offsets` forget that the array is a slice, so the buffers are read here.
    here = slice(array.offset, array.offset + len(array))
    tags = np.frombuffer(array.buffers()[1], dtype=np.int8)[here]
    dense = array.type.mode == "dense"
    positions = np.frombuffer(array.buffers()[2], dtype=np.int32)[here] if dense else None
    texts, rows = [], []
    for index, alternative in enumerate(hive_type.alternatives):
        mine = np.flatnonzero(tags == array.type.type_codes[index])
        if mine.size == 0:
            continue
        chosen = mine if positions is None else positions[mine]
        child = array.field(index).take(pa.array(chosen))
        pieces = pieces_of(child, alternative, style, damage)
        if style.tagged_unions:
            pieces = [b'{"tag":%d,"value":' % index, *pieces, b"}"]
        texts.append(text_of(pieces, len(child), nulls=_NULL))
        rows.append(mine)
    null = np.flatnonzero(~np.isin(tags, array.type.type_codes[: len(hive_type.alternatives)]))
    if null.size:  # a child of its own marks the unions that are NULL themselves
        texts.append(pa.nulls(null.size, pa.string()))
        rows.append(null)
    if not texts:
        return pa.array([], pa.string())
    back = np.argsort(np.concatenate(rows), kind="stable")
    return pa.concat_arrays(texts).take(pa.array(back))


# --- primitive values


def _integers(array: pa.Array) -> Text:
    if len(array) > 1 and array.null_count == 0:
        ends = pc.min_max(array)
        if ends["min"] == ends["max"]:
            return [str(ends["min"].as_py()).encode()]
    return pieces.integers(array) or pc.cast(array, pa.string())


def _octets(array: pa.Array) -> pa.Array:
    """The text of every byte of all the values that are not NULL, one after the other."""
    array = array.filter(pc.is_valid(array)) if array.null_count else array
    names = pa.array([str(value) for value in range(256)], pa.string())
    return names.take(pa.array(bytes_of(array)))


def json_strings(text: pa.Array, damage: Damage) -> pa.Array:
    """What stands between the quotes of a JSON string; bytes that are not UTF-8 are decoded and counted."""
    found = special_bytes(text)
    if found.size and found[-1] >= HIGH:
        text = valid_utf8(text, damage)
    text = escape_ascii(text, found)
    if 0xE2 in found:
        for mark, escape in _LINE_ENDS.items():
            text = pc.replace_substring(text, mark, escape)
    return text


def special_bytes(text: pa.Array) -> npt.NDArray[np.intp]:
    """Which byte values that a JSON string cannot hold as they are, or that are not ASCII, occur; ascending."""
    data = bytes_of(text)
    special = (data < 0x20) | (data == 0x22) | (data == 0x5C) | (data >= HIGH)
    if not special.any():
        return np.zeros(0, dtype=np.intp)
    return np.flatnonzero(np.bincount(data[special], minlength=256))


def escape_ascii(text: pa.Array, found: npt.NDArray[np.intp]) -> pa.Array:
    """Escape the quotes, backslashes and control characters among the byte values `found`."""
    # The backslash comes first: the other escapes bring backslashes of their own.
    for code in sorted((int(c) for c in found if c < HIGH), key=lambda c: c != 0x5C):
        text = pc.replace_substring(text, chr(code), _ESCAPES[code])
    return text


# --- CSV


def _csv_cells(array: pa.Array, hive_type: HiveType, damage: Damage) -> list[Piece]:
    if not isinstance(hive_type, Primitive) or hive_type.kind is TypeKind.BINARY:
        nested = pieces_of(array, hive_type, JSON_STYLE, damage)
        # Of several pieces none is NULL because the whole value is: what is NULL in them lies deeper.
        return [_csv_quoted(text_of(nested, len(array), nulls=None if len(nested) == 1 else _NULL))]
    text, _ = _scalars(array, hive_type.kind, _CSV_STYLE, damage)
    return text if isinstance(text, list) else [text]


def _csv_floats(array: pa.Array) -> Text:
    if (quick := pieces.floats(array)) is not None:
        return quick
    text = shortest_floats(array)
    return text if pc.all(pc.is_finite(array)).as_py() is not False else pc.ascii_trim(text, '"')


def _csv_strings(text: pa.Array, damage: Damage) -> pa.Array:
    return _csv_quoted(valid_utf8(text, damage) if (bytes_of(text) >= HIGH).any() else text)


def _csv_quoted(text: pa.Array) -> pa.Array:
    """Quotes where RFC 4180 wants them, around empty strings, and where blanks at an end could get lost."""
    needs = pc.equal(pc.binary_length(text), 0)
    data = bytes_of(text)
    if ((data == 0x22) | (data == 0x2C) | (data == 0x0A) | (data == 0x0D)).any():
        for mark in (",", '"', "\n", "\r"):
            needs = pc.or_(needs, pc.match_substring(text, mark))
    if (data <= 0x20).any():
        for mark in (" ", "\t", "\x0b", "\x0c"):
            needs = pc.or_(needs, pc.or_(pc.starts_with(text, mark), pc.ends_with(text, mark)))
    if not pc.any(needs).as_py():
        return text
    quoted = joined('"', pc.replace_substring(text, '"', '""'), '"')
    return pc.if_else(needs, quoted, text)


def _needs_quotes(text: str) -> bool:
    return not text or any(mark in text for mark in ',"\r\n') or text != text.strip()


JSON_STYLE = Style(
    floats=lambda array: pieces.floats(array) or shortest_floats(array),
    decimals=lambda array: pieces.decimals(array, cut=False) or format_scalars.decimals(array),
    dates=lambda array: pieces.dates(array) or format_scalars.dates(array),
    timestamps=lambda array, local: pieces.timestamps(array, local, 0) or format_scalars.timestamps(array, local),
    strings=json_strings,
)
_CSV_STYLE = replace(JSON_STYLE, floats=_csv_floats, strings=_csv_strings)
