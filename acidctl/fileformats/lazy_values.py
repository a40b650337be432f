"""Values of text files as Hive's LazySimpleSerDe reads them: bytes in, Arrow out, NULL for what is none of its type.

The rules are those of the `Lazy*` classes of Hive 4: a number may end in a fraction that is dropped, a day may be
followed by anything but a digit, Base64 that is none stays as it is. Fields are slices of a line; primitive columns
are parsed by their distinct values.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from functools import lru_cache
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from acidctl.errors import NotAcidTableError
from acidctl.format.events import WIDE, rebuilt
from acidctl.orc.calendar import SECONDS_PER_DAY
from acidctl.orc.schema_evolution import arrow_type, fit_decimal, parse_decimal, parse_double, truncate
from acidctl.types.hive_types import HiveType, ListType, MapType, Primitive, StructType, TypeKind, children, kinds
from acidctl.values import dataclass

_INTEGER = re.compile(rb"[+-]?[0-9]*(\.[0-9]*)?\Z")
_PLAIN_INTEGER, _PLAIN_DOUBLE = r"^-?[0-9]{1,18}$", r"^-?[0-9]{1,15}(\.[0-9]{1,15})?$"
_BITS = {TypeKind.TINYINT: 8, TypeKind.SMALLINT: 16, TypeKind.INT: 32, TypeKind.BIGINT: 64}
_DAY = re.compile(rb"(-?[0-9]{1,4})-([0-9]{1,2})-([0-9]{1,2})(?![0-9])")
_MOMENT = re.compile(
    rb"(-?[0-9]{1,10})-([0-9]{1,2})-([0-9]{1,2}) ([0-9]{1,2}):([0-9]{1,2}):([0-9]{1,2})(?:\.([0-9]{1,9}))?\Z"
)
_ISO_MOMENT = re.compile(
    rb"(-?[0-9]{4}|[+-][0-9]{5,10})-([0-9]{2})-([0-9]{2})[Tt]([0-9]{2}):([0-9]{2})(?::([0-9]{2})(?:\.([0-9]{0,9}))?)?\Z"
)
_ZONED = re.compile(
    rb"(-?[0-9]{4,10})-([0-9]{2})-([0-9]{2})(?: ([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.([0-9]{1,9}))?)? ?(\S*)\Z"
)
_OFFSET = re.compile(r"([+-])([0-9]{1,2})(?::?([0-9]{2}))?\Z")
_BASE64 = re.compile(rb"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}(?:==)?|[A-Za-z0-9+/]{3}=?)?\Z")
_JAVA_BLANKS = bytes(range(33))
_SHORTEST_DATE = 8
_MOST_KEPT = 1 << 14
_TEXTS = frozenset({TypeKind.STRING, TypeKind.CHAR, TypeKind.VARCHAR})

Parse = Callable[[bytes], Any]


@dataclass(frozen=True, slots=True)
class LazyRules:
    """How fields are cut: one separator for each depth of nesting, the escape character, what stands for NULL."""

    separators: bytes
    escape: int | None
    null: bytes
    takes_rest: bool = False

    def fields(self, line: bytes, depth: int, most: int | None = None) -> list[bytes]:
        """The parts of a field at a depth, still escaped; at most `most`, the rest in the last or dropped."""
        separator = self.separators[depth : depth + 1]
        if self.escape is None or self.escape not in line:
            parts = line.split(separator, -1 if most is None else most)
        else:
            parts = _cut(line, separator[0], self.escape)
        if most is not None and self.takes_rest and len(parts) > most:
            parts = [*parts[: most - 1], separator.join(parts[most - 1 :])]
        return parts[:most]

    def plain(self, field: bytes) -> bytes:
        """A text without its escapes (`LazyUtils.copyAndEscapeStringDataToText`)."""
        if self.escape is None or self.escape not in field:
            return field
        escape = re.escape(bytes([self.escape]))
        return re.sub(escape + rb"(.)", lambda m: _ENDS.get(m[1], m[1]), field, flags=re.DOTALL)


_ENDS = {b"r": b"\r", b"n": b"\n"}


def _cut(line: bytes, separator: int, escape: int) -> list[bytes]:
    parts, start, at, end = [], 0, 0, len(line)
    while at < end:
        if line[at] == separator:
            parts.append(line[start:at])
            start = at + 1
        elif line[at] == escape and at + 1 < end:
            at += 1
        at += 1
    return [*parts, line[start:]]


def column(fields: Sequence[bytes | None], kind: HiveType, rules: LazyRules) -> pa.Array:
    """A column of the table from its fields; None is a field that the line does not have."""
    if isinstance(kind, Primitive):
        encoded = pa.array(fields, pa.binary()).dictionary_encode()
        values, null = encoded.dictionary, pa.scalar(None, pa.binary())
        known = pc.if_else(pc.equal(values, rules.null), null, values)
        return _typed(_parsed(known, kind, rules).take(encoded.indices), kind)
    form, nested = _carried(kind), _nested(kind, rules, 1)
    parsed = [None if field is None or field == rules.null else nested(field) for field in fields]
    return _typed(pa.array(parsed, type=form), kind)


def _parsed(values: pa.Array, kind: Primitive, rules: LazyRules) -> pa.Array:
    """Distinct fields as values; Arrow takes the plain numbers among them, which are most."""
    parse, form = parser(kind, rules), _carried(kind)
    pattern = _PLAIN_DOUBLE if kind.kind is TypeKind.DOUBLE else _PLAIN_INTEGER if kind.kind in _BITS else None
    if pattern is None:
        return _each(values, parse, form)
    plain = pc.match_substring_regex(values, pattern).fill_null(False)
    numbers = values.filter(plain).view(pa.string()).cast(pa.int64() if kind.kind in _BITS else form)
    if kind.kind in _BITS:
        most = (1 << _BITS[kind.kind] - 1) - 1
        fits = pc.and_(pc.less_equal(numbers, most), pc.greater_equal(numbers, -most - 1))
        numbers = pc.if_else(fits, numbers, pa.scalar(None, pa.int64())).cast(form)
    odd = _each(values.filter(pc.invert(plain)), parse, form)
    # The odd ones stand behind the numbers, and each takes its place again.
    at = np.asarray(plain.cast(pa.int64()))
    places = np.where(at == 1, np.cumsum(at) - 1, len(numbers) + np.cumsum(1 - at) - 1)
    return pa.concat_arrays([numbers, odd]).take(pa.array(places))


def _each(values: pa.Array, parse: Parse, form: pa.DataType) -> pa.Array:
    return pa.array([None if value is None else parse(value) for value in values.to_pylist()], type=form)


def _typed(array: pa.Array, kind: HiveType) -> pa.Array:
    """Texts as such, which need not be UTF-8."""
    if kind.kind in _TEXTS:
        return array.view(pa.string())
    if isinstance(kind, Primitive) or kinds(kind).isdisjoint(_TEXTS):
        return array
    parts = children(kind)
    names = kind.names if isinstance(kind, StructType) else ()
    return rebuilt(array, lambda place, child: _typed(child, parts[place]), names)


def _carried(kind: HiveType) -> pa.DataType:
    """The Arrow type of parsed values: that of ORC's, with every timestamp WIDE and texts as bytes."""
    if kind.kind in _TEXTS:
        return pa.binary()
    if kind.kind in (TypeKind.TIMESTAMP, TypeKind.TIMESTAMP_LOCAL):
        return WIDE
    if isinstance(kind, ListType):
        return pa.list_(_carried(kind.element))
    if isinstance(kind, MapType):
        return pa.map_(_carried(kind.key), _carried(kind.value))
    if isinstance(kind, StructType):
        return pa.struct([pa.field(field.name, _carried(field.type)) for field in kind.fields])
    if not isinstance(kind, Primitive):
        raise NotAcidTableError(f"acidctl does not read {kind} from text", hint="Leave the column out with --columns.")
    return arrow_type(kind)


def _nested(kind: HiveType, rules: LazyRules, depth: int) -> Parse:
    """The parser of a type whose parts are separated by the separator of `depth`."""
    if depth + isinstance(kind, MapType) >= len(rules.separators) and not isinstance(kind, Primitive):
        raise NotAcidTableError(
            f"{kind} is nested deeper than LazySimpleSerDe reads",
            hint="Hive needs the SerDe property hive.serialization.extend.nesting.levels there.",
        )

    def part(inner: HiveType, below: int) -> Parse:
        parse = _nested(inner, rules, below)
        return lambda field: None if field == rules.null else parse(field)

    if isinstance(kind, ListType):
        element = part(kind.element, depth + 1)
        return lambda field: [element(each) for each in rules.fields(field, depth)] if field else []
    if isinstance(kind, MapType):
        return _map_parser(part(kind.key, depth + 2), part(kind.value, depth + 2), rules, depth)
    if isinstance(kind, StructType):
        members = [(member.name, part(member.type, depth + 1)) for member in kind.fields]

        def struct(field: bytes) -> dict[str, Any]:
            found = rules.fields(field, depth)[: len(members)]
            return {name: parse(text) for (name, parse), text in zip(members, found, strict=False)}

        return struct
    assert isinstance(kind, Primitive)
    return lru_cache(_MOST_KEPT)(parser(kind, rules))


def _map_parser(key: Parse, value: Parse, rules: LazyRules, depth: int) -> Parse:
    separator = rules.separators[depth + 1]

    def parse(field: bytes) -> list[tuple[Any, Any]]:
        entries: dict[Any, Any] = {}
        for entry in rules.fields(field, depth) if field else ():
            # The first separator counts, escaped ones do not.
            parts = entry.split(bytes([separator]), 1) if rules.escape is None else _cut(entry, separator, rules.escape)
            name = key(parts[0])
            if name is not None and name not in entries:
                rest = entry[len(parts[0]) + 1 :]
                entries[name] = value(rest) if len(parts) > 1 else None
        return list(entries.items())

    return parse


def parser(kind: Primitive, rules: LazyRules) -> Parse:
    """The parser of a primitive type."""
    word = kind.kind
    if word is TypeKind.STRING:
        return rules.plain
    if word in (TypeKind.CHAR, TypeKind.VARCHAR):
        return lambda field: _limited(field, kind, rules)
    if word in _BITS:
        return lambda field: _integer(field, _BITS[word])
    if word is TypeKind.FLOAT:
        return _float
    if word is TypeKind.DOUBLE:
        return _double
    if word is TypeKind.DECIMAL:
        return lambda field: _decimal(field, kind.precision or 0, kind.scale or 0)
    return _OTHERS[word]


def _limited(field: bytes, kind: Primitive, rules: LazyRules) -> bytes | None:
    try:
        field.decode("utf-8", "replace" if rules.escape is not None else "strict")
    except UnicodeDecodeError:
        return None
    text = rules.plain(field).decode("utf-8", "replace").encode()
    cut = truncate(text, kind.length or 0)
    return cut.rstrip(b" ") if kind.kind is TypeKind.CHAR else cut


def _may_be_number(field: bytes) -> bool:
    """LazyUtils.isNumberMaybe."""
    if len(field) < 3:
        return any(48 <= byte < 58 for byte in field)
    return not (len(field) == 4 and field[:1] in (b"N", b"n"))


def _integer(field: bytes, bits: int) -> int | None:
    if not _may_be_number(field) or len(field) > 1000 or _INTEGER.match(field) is None:
        return None
    digits = field.partition(b".")[0]
    value = int(digits) if digits not in (b"", b"+", b"-") else 0
    return value if -(1 << bits - 1) <= value < 1 << bits - 1 else None


def _double(field: bytes) -> float | None:
    return parse_double(field) if _may_be_number(field) else None


def _float(field: bytes) -> float | None:
    value = _double(field)
    if value is None:
        return None
    with np.errstate(over="ignore"):
        near = np.float32(value)
        # Half way between two floats only the text tells which is nearer, and Java looks at that.
        if np.isfinite(near) and abs(float(near) - value) * 2 == float(np.spacing(np.abs(near))):
            exact = parse_decimal(field.strip(_JAVA_BLANKS).rstrip(b"fFdD"))
            if exact is not None and exact != Decimal(value):
                return float(
                    np.nextafter(np.float32(near), np.float32("inf" if exact > Decimal(float(near)) else "-inf"))
                )
    return float(near)


def _decimal(field: bytes, precision: int, scale: int) -> Decimal | None:
    value = parse_decimal(field)
    return None if value is None else fit_decimal(value, precision, scale)


def _boolean(field: bytes) -> bool | None:
    return {b"true": True, b"false": False}.get(field.lower())


def _binary(field: bytes) -> bytes:
    return base64.b64decode(field + b"=" * (-len(field) % 4)) if _BASE64.match(field) else field


def _day_number(year: bytes, month: bytes, day: bytes) -> int | None:
    """Days since 1970-01-01 of a day that there is; a year may have any number."""
    number = int(year)
    cycle = 2000 + number % 400
    try:
        place = date(cycle, int(month), int(day)).toordinal() - 719_163
    except ValueError:
        return None
    return None if number == 0 and year.startswith(b"-") else place + (number - cycle) // 400 * 146_097


def _date(field: bytes) -> int | None:
    match = _DAY.match(field.strip(_JAVA_BLANKS)) if len(field) >= _SHORTEST_DATE else None
    try:
        field.decode()
    except UnicodeDecodeError:
        return None
    return None if match is None else _day_number(*match.groups())


def _moment(match: re.Match[bytes] | None) -> dict[str, int] | None:
    if match is None:
        return None
    day = _day_number(match[1], match[2], match[3])
    hour, minute, second = (int(match[place] or 0) for place in (4, 5, 6))
    if day is None or hour > 23 or minute > 59 or second > 59:
        return None
    nanos = int((match[7] or b"0").ljust(9, b"0"))
    return {"seconds": day * SECONDS_PER_DAY + hour * 3600 + minute * 60 + second, "nanos": nanos}


def _timestamp(field: bytes) -> dict[str, int] | None:
    if len(field) < _SHORTEST_DATE:
        return None
    text = field.strip(_JAVA_BLANKS)
    return _moment(_MOMENT.match(text) or _ISO_MOMENT.match(text))


def _local_timestamp(field: bytes) -> dict[str, int] | None:
    """A moment in its zone, by default the session's, which is UTC here."""
    match = _ZONED.match(field) if len(field) >= _SHORTEST_DATE else None
    moment = _moment(match)
    if moment is None or match is None:
        return None
    zone = match[8].decode("ascii", "replace")
    if zone in ("", "Z", "UTC", "GMT"):
        return moment
    offset = _OFFSET.match(zone)
    if offset is not None:
        minutes = int(offset[2]) * 60 + int(offset[3] or 0)
        return moment | {"seconds": moment["seconds"] - 60 * (minutes if offset[1] == "+" else -minutes)}
    try:
        shown = datetime(1970, 1, 1, tzinfo=ZoneInfo(zone)) + timedelta(seconds=moment["seconds"])
    except (ValueError, OSError, OverflowError):
        return None
    return moment | {"seconds": moment["seconds"] - int((shown.utcoffset() or timedelta()).total_seconds())}


_OTHERS: dict[TypeKind, Parse] = {
    TypeKind.BOOLEAN: _boolean,
    TypeKind.BINARY: _binary,
    TypeKind.DATE: _date,
    TypeKind.TIMESTAMP: _timestamp,
    TypeKind.TIMESTAMP_LOCAL: _local_timestamp,
}
