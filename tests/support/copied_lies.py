"""Tables of which stripes are copied, with one file that lies: in statistics of any level, in its index or streams.

`lies` makes files that differ from a sound one in one thing. What a compaction makes of a table with such a file is
judged by `judged`: it is refused and nothing is published, or the rows that were there before come out and can be read.
"""

from __future__ import annotations

import io
import shutil
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa

import acidctl
from acidctl.compaction.plan import WriterSettings
from acidctl.errors import AcidctlError, ExitCode
from acidctl.format.bucket_codec import encode
from acidctl.format.events import EventBatch, EventKeys, Operation
from acidctl.format.names import DeltaKind, format_delta
from acidctl.orc.protobuf import zigzag, zigzagged
from acidctl.orc.stitch import StripeRun, stitch
from acidctl.orc.stripe import StreamKind
from acidctl.orc.tail import read_tail
from acidctl.orc.writer import write_orc
from acidctl.types.schema import parse_schema
from tests.support.orc_mutations import (
    FOOTER,
    METADATA,
    ROW_INDEX,
    Field,
    Parts,
    encoded,
    mutations,
    parsed,
    put_together,
    taken_apart,
)

COLUMNS = (
    "id bigint, num int, price double, name string, flag boolean, raw binary, `day` date, moment timestamp, "
    "amount decimal(12,2), tags array<int>"
)
STRIPE_ROWS, STRIDE = 2400, 1000
DDL = (
    f"CREATE TABLE t ({COLUMNS}) STORED AS ORC TBLPROPERTIES "
    f"('transactional'='true', 'orc.row.index.stride'='{STRIDE}')"
)
BASE, LATER = "base_0000001_v0000010", format_delta(DeltaKind.INSERT, 2, 2, 0)
_SETTINGS = WriterSettings(row_index_stride=STRIDE)


def _columns(numbers: Any) -> tuple[pa.Array, ...]:
    some, gap = numbers.tolist(), numbers % 7 == 3
    return (
        pa.array(numbers),
        pa.array((numbers * 7919 % 100_003).astype(np.int32), mask=gap),
        pa.array(numbers * 1.5 - 7000, mask=gap),
        pa.array([None if i % 11 == 5 else f"name {i * 7919 % 9973:05} of {i}" for i in some]),
        pa.array(numbers % 3 == 0, mask=gap),
        pa.array([bytes([i % 256, 255]) * (1 + i % 3) for i in some], pa.binary()),
        pa.array((numbers + 10_000).astype(np.int32), mask=gap).cast(pa.date32()),
        pa.array(1_500_000_000_123_456_789 + numbers * 86_400_000_001, mask=gap).cast(pa.timestamp("ns")),
        pa.array([None if i % 5 == 1 else Decimal(i * 37 - 90_000).scaleb(-2) for i in some], pa.decimal128(12, 2)),
        pa.array([[i, None, -i][: i % 4] for i in some], pa.list_(pa.int32())),
    )


def write_rows(path: Path, write_id: int, rows: Sequence[int], current: int = 0) -> None:
    """A bucket file with a stripe for each `STRIPE_ROWS`; of deletes by `current`, if that is given."""
    parts = []
    for at in range(0, len(rows), STRIPE_ROWS):
        numbers = np.asarray(rows[at : at + STRIPE_ROWS], dtype=np.int64)
        ones = np.ones(len(numbers), dtype=np.int64)
        operation = ones * Operation.DELETE if current else None
        keys = EventKeys(ones * write_id, ones * encode(0), numbers, ones * (current or write_id), operation)
        sink = io.BytesIO()
        batch = EventBatch(keys, () if current else _columns(numbers + 100_000 * write_id))
        write_orc(sink, [batch], parse_schema(COLUMNS).columns, _SETTINGS, acid=True, metadata={})
        parts.append(sink)
    path.parent.mkdir(parents=True, exist_ok=True)
    (path.parent / "_orc_acid_version").write_bytes(b"2")
    with path.open("wb") as out:
        stitch(out, [StripeRun.whole(one, name="part") for one in parts])


def write_mixed(path: Path, *writes: tuple[int, int]) -> None:
    """A bucket file of one stripe with rows of several writes: (write id, rows)."""
    ids = np.concatenate([np.full(count, write_id, dtype=np.int64) for write_id, count in writes])
    numbers = np.concatenate([np.arange(count, dtype=np.int64) for _, count in writes])
    keys = EventKeys(ids, np.full(len(ids), encode(0)), numbers, ids)
    path.parent.mkdir(parents=True, exist_ok=True)
    (path.parent / "_orc_acid_version").write_bytes(b"2")
    batch = EventBatch(keys, _columns(numbers + 10_000 * ids))
    with path.open("wb") as sink:
        write_orc(sink, [batch], parse_schema(COLUMNS).columns, _SETTINGS, acid=True, metadata={})


def table(root: Path) -> Path:
    """A base of five stripes, rows of it deleted in the third, a delta of two stripes."""
    write_rows(root / BASE / "bucket_00000", 1, range(5 * STRIPE_ROWS))
    write_rows(root / LATER / "bucket_00000", 2, range(2 * STRIPE_ROWS - 300))
    middle = 2 * STRIPE_ROWS
    write_rows(
        root / ("delete_" + format_delta(DeltaKind.INSERT, 3, 3, 0)) / "bucket_00000", 1, [middle + 5, middle + 6], 3
    )
    return root


# --- Lies.


class NothingToChange(Exception):
    """The lie cannot be told of this file."""


Lie = Callable[[Parts, Random], tuple[str, bytes]]


def lies(data: bytes, rng: Random) -> Iterator[tuple[str, bytes]]:
    """Endlessly files that differ from a sound one in one thing, with a few words about it; in turn of each kind."""
    parts, others = taken_apart(data), mutations(data, rng)
    while True:
        for kind in _KINDS:
            try:
                yield kind(parts, rng)
            except NothingToChange:
                continue
        yield next(others)


_LEVELS = ("file", "stripe", "groups")


def _statistics(parts: Parts, rng: Random) -> tuple[str, bytes]:
    """One field of a column, in some levels or, in agreement, in all."""
    levels = rng.choice([*((one,) for one in _LEVELS), _LEVELS[:2], _LEVELS[1:], _LEVELS[::2], _LEVELS, _LEVELS])
    stripe, columns = rng.randrange(len(parts.stripes)), len(parsed(parts.metadata, METADATA)[0].value)
    column, group = rng.randrange(columns), rng.randrange(3)
    field = rng.choice((1, 2, 3, 3, "count", "null", "none"))
    how = rng.choice((1, -1, 1000, -1000, 1 << 30, -(1 << 30)))
    made = with_statistics(parts, levels, column, field, how, stripe=stripe, group=group)
    said = f"{field} by {how} in {'+'.join(levels)} (stripe {stripe}, group {group})"
    return f"statistics of column {column}: {said}", made


def with_statistics(
    parts: Parts, levels: Sequence[str], column: int, field: int | str, how: int, *, stripe: int = 0, group: int = 0
) -> bytes:
    """The file with another number in the statistics of a column, in these of the levels file, stripe and groups.

    `field` is 1 for the least value, 2 for the greatest, 3 for the sum, or `count`, `null`, `none`.
    """
    changed: list[bool] = []

    def lie(statistics: list[Field]) -> None:
        changed.append(_changed(statistics, field, how))

    metadata = parsed(parts.metadata, METADATA)
    if "stripe" in levels:
        lie(metadata[stripe].value[column].value)
    stripes = list(parts.stripes)
    if "groups" in levels:
        streams = list(stripes[stripe].streams)
        for place, (kind, of, plain) in enumerate(streams):
            if kind == StreamKind.ROW_INDEX and of == column:
                entries = parsed(plain, ROW_INDEX)
                lie(next(one.value for one in entries[group % len(entries)].value if one.number == 2))
                streams[place] = kind, of, encoded(entries)
        stripes[stripe] = replace(stripes[stripe], streams=tuple(streams))

    def on_footer(footer: bytes) -> bytes:
        fields = parsed(footer, FOOTER)
        if "file" in levels:
            lie([one for one in fields if one.number == 7][column].value)
        return encoded(fields)

    made = put_together(replace(parts, stripes=tuple(stripes), metadata=encoded(metadata), on_footer=on_footer))
    if not any(changed):
        raise NothingToChange
    return made


def _changed(statistics: list[Field], field: int | str, how: int) -> bool:
    """Change a number of the statistics of a column; whether there was something to change."""
    typed = [one for one in statistics if one.number not in (1, 10, 11)]
    if field in ("count", "null"):
        number = 1 if field == "count" else 10
        for one in statistics:
            if one.number == number:
                one.value = max(0, one.value + (1 if how > 0 else -1)) if number == 1 else 1 - one.value
                return True
        return False
    if field == "none":
        for one in typed:
            statistics.remove(one)
        return bool(typed)
    for one in typed:
        for inner in one.value if isinstance(one.value, list) else ():
            if inner.number == field or (len(one.value) == 1 and field in (1, 2, 3)):
                inner.value = _moved(inner, how)
                return True
    return False


def _moved(field: Field, how: int) -> Any:
    if field.wire == 0:
        return zigzagged(max(-(1 << 62), min(1 << 62, zigzag(field.value) + how)))
    if field.wire == 1:
        return struct.pack("<d", struct.unpack("<d", field.value)[0] + how)
    text = field.value
    if text[:1] in b"-0123456789" and text[-1:].isdigit():
        return str(Decimal(text.decode()) + how).encode()
    return text[:-1] + bytes([(text[-1] + (1 if how > 0 else 127)) % 128]) if text else b"x"


def _entries(parts: Parts, rng: Random) -> tuple[str, bytes]:
    """Entries of stripes in the footer: where they lie, how long they are, how many rows; swapped, doubled, dropped."""
    said = ""

    def on_footer(footer: bytes) -> bytes:
        nonlocal said
        fields = parsed(footer, {**FOOTER})
        places = [i for i, one in enumerate(fields) if one.number == 3]
        one, other = rng.sample(places, 2)
        how = rng.choice(("number", "number", "number", "rows", "swap", "double", "drop", "overlap"))
        said = f"{how} of stripe {places.index(one)}"
        inner = fields[one].value
        if how == "number":
            chosen = rng.choice(inner)
            chosen.value = max(0, chosen.value + rng.choice((1, -1, 3, -3, 100, -100, 1 << 20)))
            said += f": field {chosen.number}"
        elif how == "rows":
            rows, theirs = (next(f for f in fields[i].value if f.number == 5) for i in (one, other))
            by = rng.choice((1, 100, 1000))
            rows.value, theirs.value = rows.value + by, max(0, theirs.value - by)
        elif how == "swap":
            fields[one], fields[other] = fields[other], fields[one]
        elif how == "double":
            fields[other] = fields[one]
        elif how == "drop":
            del fields[one]
        else:
            starts = [next(f for f in fields[i].value if f.number == 1) for i in (one, other)]
            starts[0].value = starts[1].value
        return encoded(fields)

    made = put_together(replace(parts, on_footer=on_footer))
    return f"entry: {said}", made


def _whole_stripes(parts: Parts, rng: Random) -> tuple[str, bytes]:
    """Stripes in another order, twice, or left out, with or without their statistics."""
    order = list(range(len(parts.stripes)))
    one, other = rng.sample(order, 2)
    how, along = rng.choice(("swap", "double", "drop")), rng.random() < 0.5
    if how == "swap":
        order[one], order[other] = other, one
    elif how == "double":
        order[other] = one
    else:
        del order[one]
    stripes, metadata = [parts.stripes[index] for index in order], parsed(parts.metadata, METADATA)
    if along:
        metadata = [metadata[index] for index in order]
    rows = sum(stripe.rows for stripe in stripes)

    def on_footer(footer: bytes) -> bytes:
        fields = parsed(footer, {})
        for field in fields:
            if field.number == 6:
                field.value = rows
        return encoded(fields)

    made = put_together(replace(parts, stripes=tuple(stripes), metadata=encoded(metadata), on_footer=on_footer))
    return f"stripes: {how} {one} and {other}{' with statistics' if along else ''}", made


def _streams(parts: Parts, rng: Random) -> tuple[str, bytes]:
    """A stream that is empty, shorter, of another column or stripe, or has other bytes."""
    stripes = list(parts.stripes)
    number, other = rng.sample(range(len(stripes)), 2)
    streams = list(stripes[number].streams)
    place = rng.choice([i for i, (kind, _, _) in enumerate(streams) if kind != StreamKind.ROW_INDEX])
    kind, column, plain = streams[place]
    how = rng.choice(("empty", "shorter", "flipped", "of another stripe", "of another column", "dropped"))
    if how == "empty":
        streams[place] = kind, column, b""
    elif how == "shorter":
        streams[place] = kind, column, plain[: rng.randrange(len(plain) + 1)]
    elif how == "flipped" and plain:
        at = rng.randrange(len(plain))
        streams[place] = kind, column, plain[:at] + bytes([plain[at] ^ 1 << rng.randrange(8)]) + plain[at + 1 :]
    elif how == "of another stripe":
        same = [one for one in stripes[other].streams if one[:2] == (kind, column)]
        streams[place] = same[0] if same else (kind, column, b"")
    elif how == "of another column":
        streams[place] = kind, column, rng.choice([one for one in streams if one[0] == kind])[2]
    else:
        del streams[place]
    stripes[number] = replace(stripes[number], streams=tuple(streams))
    return f"stream {kind} of column {column}, stripe {number}: {how}", put_together(
        replace(parts, stripes=tuple(stripes))
    )


def _positions(parts: Parts, rng: Random) -> tuple[str, bytes]:
    """Row groups begin elsewhere, or there are more or fewer of them."""
    stripes = list(parts.stripes)
    number = rng.randrange(len(stripes))
    streams = list(stripes[number].streams)
    place = rng.choice([i for i, (kind, _, _) in enumerate(streams) if kind == StreamKind.ROW_INDEX])
    kind, column, plain = streams[place]
    entries = parsed(plain, ROW_INDEX)
    entry = rng.choice(entries)
    how = rng.choice(("number", "number", "double", "drop", "swap"))
    if how == "double":
        entries.append(entry)
    elif how == "drop":
        entries.remove(entry)
    elif how == "swap":
        entries.reverse()
    else:
        known = [one for one in entry.value if one.number == 1 and one.value]
        if not known:
            raise NothingToChange
        raw = bytearray(known[0].value)
        raw[rng.randrange(len(raw))] ^= 1 << rng.randrange(7)
        known[0].value = bytes(raw)
    streams[place] = kind, column, encoded(entries)
    stripes[number] = replace(stripes[number], streams=tuple(streams))
    return f"row index of column {column}, stripe {number}: {how}", put_together(replace(parts, stripes=tuple(stripes)))


def _user_metadata(parts: Parts, rng: Random) -> tuple[str, bytes]:
    """Key index and counts of events that are others, are cut short, or are not there."""
    said = ""

    def on_footer(footer: bytes) -> bytes:
        nonlocal said
        fields = parsed(footer, {5: {}})
        items = [one for one in fields if one.number == 5 and one.value[0].value.startswith(b"hive.acid")]
        chosen = rng.choice(items)
        text, how = chosen.value[1].value, rng.choice(("digit", "cut", "drop", "swap"))
        said = f"{how} in {chosen.value[0].value.decode()}"
        if how == "drop":
            fields.remove(chosen)
        elif how == "cut":
            chosen.value[1].value = text[: rng.randrange(len(text) + 1)]
        elif how == "swap":
            chosen.value[1].value = b";".join(sorted(text.split(b";"), key=lambda _: rng.random()))
        else:
            at = rng.choice([i for i, byte in enumerate(text) if 48 <= byte < 58])
            chosen.value[1].value = text[:at] + b"%d" % rng.randrange(10) + text[at + 1 :]
        return encoded(fields)

    made = put_together(replace(parts, on_footer=on_footer))
    return f"user metadata: {said}", made


def _keys(parts: Parts, rng: Random) -> tuple[str, bytes]:
    """Key columns of a stripe are those of another one, alone or with all that is said of them."""
    stripes, metadata = list(parts.stripes), parsed(parts.metadata, METADATA)
    one, other = rng.sample(range(len(stripes)), 2)
    columns, along = rng.choice(((4,), (2,), (2, 3, 4, 5), (1,), (5,))), rng.random() < 0.7
    kinds = (StreamKind.DATA, StreamKind.ROW_INDEX) if along else (StreamKind.DATA,)
    theirs = {item[:2]: item for item in stripes[other].streams if item[0] in kinds and item[1] in columns}
    streams = tuple(theirs.get(item[:2], item) for item in stripes[one].streams)
    stripes[one] = replace(stripes[one], streams=streams)
    if along:
        for column in columns:
            metadata[one].value[column] = metadata[other].value[column]
    made = put_together(replace(parts, stripes=tuple(stripes), metadata=encoded(metadata)))
    return f"keys: columns {columns} of stripe {one} are those of {other}{', as all says' if along else ''}", made


def _form(parts: Parts, rng: Random) -> tuple[str, bytes]:
    """What the tail says of writer, version, calendar, stride and blocks."""
    number, values = rng.choice(
        (
            ("writer version", (0, 1, 4, 6, 7, 8, 9, 10, 99)),
            ("version", (0, 11, 12, 13)),
            ("block size", (1 << 10, 1 << 16, 1 << 17, 1 << 19, 1 << 23)),
            ("writer", (0, 1, 2, 3, 4, 5, 9)),
            ("calendar", (0, 1, 2)),
            ("stride", (0, 1, 500, 999, 1001, 2000, 10_000)),
        )
    )
    value = rng.choice(values)

    def on_footer(footer: bytes) -> bytes:
        fields = parsed(footer, {})
        place = {"writer": 9, "calendar": 12, "stride": 8}.get(number)
        if place is None:
            return footer
        return encoded([*(one for one in fields if one.number != place), Field(place, 0, value)])

    post = parsed(parts.postscript, {})
    for one in post:
        if number == "writer version" and one.number == 6:
            one.value = value
        if number == "block size" and one.number == 3:
            one.value = value
        if number == "version" and one.number == 4:
            one.wire, one.value = 2, bytes([0, value])
    made = put_together(replace(parts, postscript=encoded(post), on_footer=on_footer))
    return f"form: {number} {value}", made


def _stored_bytes(parts: Parts, rng: Random) -> tuple[str, bytes]:
    """A bit of the compressed bytes of a stripe."""
    data = bytearray(put_together(parts))
    end = read_tail(io.BytesIO(bytes(data)), name="file").stripes[-1].end
    at = rng.randrange(3, end)
    data[at] ^= 1 << rng.randrange(8)
    return f"a bit of byte {at}", bytes(data)


_KINDS: tuple[Lie, ...] = (
    *(_statistics, _entries, _statistics, _streams, _whole_stripes, _statistics, _positions, _keys),
    *(_statistics, _user_metadata, _streams, _form, _statistics, _stored_bytes, _streams),
)


# --- What becomes of a table with one.


@dataclass(frozen=True)
class Judgement:
    """`kind` is `refused`, `published` or `wrong`; `copied` are stripes that went over as they were."""

    kind: str
    copied: int
    why: str = ""


def digest_of(root: Path) -> tuple[Any, ...] | str:
    """Rows and digest as `snapshot` gives them, also row by row; the code of the error that it ends with."""
    try:
        snapshot = acidctl.open_table(str(root)).snapshot()
        found = tuple(snapshot.count_and_digest())
        rows = sum(map(len, acidctl.open_table(str(root)).snapshot().to_batches()))
        return (*found, rows)
    except AcidctlError as error:
        return error.code


def judged(root: Path, sound: tuple[Any, ...] | str, *, strict: bool = True, **options: Any) -> Judgement:
    """Compact a table of which one file may lie; `sound` is what it held before that.

    Where it can be read, the same rows have to come out. Where it cannot, with `strict` nothing may be published but
    the rows of before the lie, and in any case not what looks like them and is not.
    """
    before, listing = digest_of(root), _listing(root)
    try:
        (part,) = (
            acidctl.open_table(str(root))
            .compact("major", assume_committed=True, schema=DDL, engine="local", parallelism=1, **options)
            .partitions
        )
    except AcidctlError as error:
        return Judgement("refused" if _listing(root) == listing else "wrong", 0, error.code)
    if part.outcome.value != "compacted":
        same = _listing(root) == listing and part.exit_code is not ExitCode.FAILED
        return Judgement("refused" if same else "wrong", 0, f"{part.reason_code}: {part.reason}")
    after, copied = digest_of(root), part.stripes_copied or 0
    meant = sound if isinstance(before, str) else before
    if after == meant or (not strict and isinstance(before, str) and after == before):
        return Judgement("published", copied)
    return Judgement("wrong", copied, f"{before} became {after}, meant was {meant}")


def _listing(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*"))


def with_file(sound: Path, root: Path, name: str, data: bytes) -> Path:
    """A copy of a table in which one file is another."""
    shutil.rmtree(root, ignore_errors=True)
    shutil.copytree(sound, root)
    (root / name).write_bytes(data)
    return root
