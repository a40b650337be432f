"""Mutated ORC tails: whatever the bytes say, the answer is a Tail or an error of ours."""

from __future__ import annotations

import io
from collections.abc import Callable
from contextlib import suppress
from functools import cache

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from acidctl.errors import AcidctlError
from acidctl.orc.codec import Compression
from acidctl.orc.input_file import read_logical_length
from acidctl.orc.protobuf import Message, WireError
from acidctl.orc.reader import open_orc
from acidctl.orc.stripe import each_stripe, read_stripe_footer
from acidctl.orc.tail import read_tail
from acidctl.orc.tail_edit import safe_tail
from tests.support.extent import amount
from tests.support.orc_files import EVENT, by_arrow, by_pyorc, fixture_files

pytestmark = pytest.mark.slow

_SETTINGS = settings(max_examples=amount(2000, swept=2000), deadline=None, suppress_health_check=list(HealthCheck))


@cache
def _files() -> tuple[bytes, ...]:
    rows = [(0, 1, 536870912, i, 1, (i, f"v{i}", [i], {"k": i}, i * 10**9)) for i in range(50)]
    row = "row:struct<id:int,v:string,l:array<int>,m:map<string,int>,t:timestamp>"
    made = [by_pyorc(f"struct<{EVENT},{row}>", rows, compression=kind) for kind in (0, 1, 2)]
    table = pa.table({"id": [1, 2], "v": ["a", None]})
    made += [by_arrow(table, compression=kind) for kind in ("lz4", "zstd")]
    made += [path.read_bytes() for path in fixture_files("hive*/types_nested/*/table")]
    return tuple(made)


def complaint(action: Callable[[], object]) -> str:
    """What an error of ours says, nothing when there is none; others come through."""
    try:
        action()
    except AcidctlError as error:
        return error.message
    return ""


def read_everything(data: bytes) -> None:
    """All that is said about a file, without its rows."""
    file = io.BytesIO(data)
    tail = read_tail(file, name="f")
    str(tail.hive_type())
    tuple(each_stripe(file, tail))
    for index in range(len(tail.stripes)):
        read_stripe_footer(file, tail, index)
    safe_tail(tail, ())
    orc = open_orc(file, name="f")
    orc.key_range()
    orc.operations()


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    """A real file whose last kilobyte, where the tail is, was tampered with."""
    data = bytearray(draw(st.sampled_from(_files())))
    for _ in range(draw(st.integers(1, 4))):
        back = draw(st.integers(1, min(len(data), 1000)))
        kind = draw(st.integers(0, 3))
        at = len(data) - back
        if kind == 0:
            data[at] ^= 1 << draw(st.integers(0, 7))
        elif kind == 1:
            data[at] = draw(st.sampled_from([0, 1, 127, 128, 255]))
        elif kind == 2:
            del data[at : at + draw(st.integers(1, 40))]
        else:
            data[at:at] = draw(st.binary(min_size=1, max_size=12))
        if not data:
            break
    return bytes(data)


@given(mutated())
@_SETTINGS
def test_tampered_tails(data: bytes) -> None:
    """Flipped bits, lies about lengths, lost and added bytes."""
    assert "\n" not in complaint(lambda: read_everything(data))


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(out) + bytes([value])


def _field(number: int, value: int | bytes) -> bytes:
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value)
    return _varint(number << 3 | 2) + _varint(len(value)) + value


_NUMBERS = st.one_of(st.integers(0, 40), st.sampled_from([2**31, 2**32, 2**63, 2**64 - 1, 10**6]))


@st.composite
def forged(draw: st.DrawFn) -> bytes:
    """A file whose tail is well-formed protobuf and says anything at all."""
    body = b"ORC" + bytes(draw(st.integers(0, 60)))
    footer = _field(1, draw(_NUMBERS)) + _field(2, draw(_NUMBERS))
    for _ in range(draw(st.integers(0, 3))):
        footer += _field(3, b"".join(_field(i, draw(_NUMBERS)) for i in range(1, 6)))
    for _ in range(draw(st.integers(0, 5))):
        kind = _field(1, draw(st.integers(0, 20)))
        children = b"".join(_field(2, draw(_NUMBERS)) for _ in range(draw(st.integers(0, 3))))
        names = b"".join(_field(3, draw(st.binary(max_size=3))) for _ in range(draw(st.integers(0, 3))))
        rest = b"".join(_field(i, draw(_NUMBERS)) for i in (4, 5, 6) if draw(st.booleans()))
        footer += _field(4, kind + children + names + rest)
    footer += _field(6, draw(_NUMBERS)) + _field(8, draw(_NUMBERS)) + _field(9, draw(_NUMBERS))
    compression = draw(st.sampled_from([int(Compression.NONE), int(Compression.ZLIB), 3, 7, 2**32]))
    stored = footer
    if compression == Compression.ZLIB:
        stored = (len(footer) << 1 | 1).to_bytes(3, "little") + footer
    honest = draw(st.booleans())
    post = _field(1, len(stored) if honest else draw(_NUMBERS)) + _field(2, compression)
    post += _field(3, draw(st.sampled_from([0, 1, 262_144, 2**23, 2**40]))) + _field(5, draw(_NUMBERS))
    post += _field(8000, b"ORC")
    return body + stored + post + bytes([len(post) & 255])


@given(forged())
@_SETTINGS
def test_forged_tails(data: bytes) -> None:
    """Absurd counts, sizes, offsets and trees are refused before anything is allocated for them."""
    assert "\n" not in complaint(lambda: read_everything(data))


@given(st.binary(max_size=300))
@_SETTINGS
def test_any_bytes(data: bytes) -> None:
    """Bytes of no kind at all, as a file, as a message, as a side file."""
    assert "\n" not in complaint(lambda: read_everything(data))
    assert "\n" not in complaint(lambda: read_logical_length(io.BytesIO(data), name="f"))
    with suppress(WireError):
        Message(data)


@given(mutated())
@settings(max_examples=amount(250, swept=250), deadline=None, suppress_health_check=list(HealthCheck))
def test_scans_of_tampered_files(data: bytes) -> None:
    """What passes the checks can be scanned, or fails as an error of ours."""
    rows: list[int] = []
    said = complaint(lambda: rows.extend(len(batch) for batch in open_orc(io.BytesIO(data), name="f").scan()))
    assert "\n" not in said
    assert 0 not in rows
