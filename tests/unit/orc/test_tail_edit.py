"""The edited tail: what is changed is changed, and everything else is as it was."""

from __future__ import annotations

import io

import pyarrow as pa
import pyorc
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from acidctl.errors import InternalError
from acidctl.orc.codec import Compression, expand, pack
from acidctl.orc.protobuf import (
    Message,
    Value,
    WireError,
    block,
    encode_varint,
    number,
    raw_fields,
    rewritten,
    varint,
    zigzag,
    zigzagged,
)
from acidctl.orc.reader import open_orc
from acidctl.orc.tail import Calendar, Tail, read_tail
from acidctl.orc.tail_edit import (
    CALENDAR,
    METADATA,
    TYPES,
    encode_type,
    merged_metadata,
    orc_types,
    renamed_types,
    sealed,
)
from acidctl.types.schema import parse_type
from tests.support.orc_files import by_arrow, by_pyorc, fixture_files

CODECS = ("uncompressed", "zlib", "snappy", "lz4", "zstd")


def tail_of(data: bytes) -> Tail:
    return read_tail(io.BytesIO(data), name="f")


def edited(data: bytes, changes: dict[int, Value]) -> bytes:
    """The file with some fields of its footer replaced."""
    tail = tail_of(data)
    post = tail.postscript
    kept = len(data) - post.footer_length - post.length - 1
    return data[:kept] + sealed(
        rewritten(tail.footer, changes), data[-1 - post.length : -1], post.compression, post.block_size
    )


@pytest.mark.parametrize("codec", CODECS)
def test_types_metadata_and_calendar(codec: str) -> None:
    """The columns get other names and lengths, the rest of the tail stays."""
    table = pa.table({"a": ["x ", None], "b": ["y", ""], "s": [{"p": "z"}, None]})
    data = by_arrow(table, compression=codec)
    old = tail_of(data)
    wanted = parse_type("struct<`a b`:char(2),v:varchar(7),s:struct<`p.q`:string>>")
    changes: dict[int, Value] = {
        TYPES: renamed_types(old, orc_types(wanted)),
        METADATA: merged_metadata(old, {"key": b"\x00\xff", "other": b""}),
        CALENDAR: Calendar.PROLEPTIC_GREGORIAN,
    }
    result = edited(data, changes)
    new = tail_of(result)
    assert new.hive_type() == wanted
    assert new.user_metadata == (("key", b"\x00\xff"), ("other", b""))
    assert new.calendar is Calendar.PROLEPTIC_GREGORIAN
    assert (new.statistics, new.stripes, new.rows) == (old.statistics, old.stripes, old.rows)
    assert (new.writer_code, new.software_version) == (old.writer_code, old.software_version)
    # Hive's footer cache looks for them there.
    assert result[-4:-1] == b"ORC"
    reader = pyorc.Reader(io.BytesIO(result))
    assert list(reader) == [("x ", "y", ("z",)), (None, "", None)]
    assert reader.user_metadata == {"key": b"\x00\xff", "other": b""}
    file = open_orc(io.BytesIO(result), name="f")
    assert file.stripe_statistics() == open_orc(io.BytesIO(data), name="f").stripe_statistics()


def test_nothing_changed_changes_nothing() -> None:
    """A footer that is only taken apart and put together has the same bytes, whoever wrote it."""
    files = [path.read_bytes() for path in fixture_files("hive*/types_*/*/table")]
    assert len(files) > 10
    for data in files:
        tail = tail_of(data)
        assert rewritten(tail.footer, {}) == tail.footer
        assert b"".join(encode_type(entry) for entry in tail.types) == b"".join(Message(tail.footer).blobs(TYPES))
        shapes = [(entry.kind, entry.subtypes, entry.names) for entry in tail.types]
        assert [(entry.kind, entry.subtypes, entry.names) for entry in orc_types(tail.hive_type())] == shapes
        assert tail_of(edited(data, {})).footer == tail.footer


def test_unknown_fields_stay() -> None:
    """A newer writer's fields in footer and postscript, at whatever place."""
    data = by_pyorc("struct<a:int>", [(1,)])
    extra = block(900, b"new") + encode_varint(901 << 3 | 5) + b"1234" + encode_varint(902 << 3 | 1) + b"12345678"
    tail = tail_of(data)
    post = tail.postscript
    kept = len(data) - post.footer_length - post.length - 1
    newer = data[:kept] + sealed(
        extra + tail.footer, data[-1 - post.length : -1] + number(903, 7), post.compression, post.block_size
    )
    result = edited(newer, {CALENDAR: 2})
    footer = Message(tail_of(result).footer)
    assert (footer.data(900), footer.data(901), footer.data(902)) == (b"new", b"1234", b"12345678")
    assert Message(result[-1 - result[-1] : -1]).uint(903) == 7
    assert footer.uint(CALENDAR) == 2


@pytest.mark.parametrize(
    ("found", "wanted"),
    [
        ("struct<a:int>", "struct<a:bigint>"),
        ("struct<a:int>", "struct<a:int,b:int>"),
        ("struct<a:decimal(10,2)>", "struct<a:decimal(10,3)>"),
        ("struct<a:string>", "struct<a:binary>"),
        ("struct<a:array<struct<x:int>>,b:int>", "struct<a:array<struct<x:int,y:int>>>"),
    ],
)
def test_types_that_are_stored_otherwise_are_refused(found: str, wanted: str) -> None:
    """Only names and the kinds of text may differ from what the stripes hold."""
    with pytest.raises(InternalError):
        renamed_types(tail_of(by_pyorc(found, [])), orc_types(parse_type(wanted)))


@hypothesis_settings(max_examples=30, deadline=None)
@given(
    data=st.binary(max_size=400) | st.binary(max_size=5).map(lambda part: part * 100),
    codec=st.sampled_from([c for c in Compression if c not in (Compression.LZO, Compression.BROTLI)]),
    size=st.integers(1, 300),
)
def test_sections_are_packed_as_they_are_read(data: bytes, codec: Compression, size: int) -> None:
    """In chunks of any size, and never larger than their headers make them."""
    packed = pack(data, codec, size)
    assert expand(packed, codec, size, len(data)) == data
    assert len(packed) <= len(data) + 3 * -(-len(data) // size)


@hypothesis_settings(max_examples=50, deadline=None)
@given(st.integers(-(1 << 63), (1 << 63) - 1))
def test_numbers(value: int) -> None:
    """Both forms of numbers are read back."""
    assert zigzag(varint(encode_varint(zigzagged(value)), 0)[0]) == value
    assert Message(number(5, abs(value))).uint(5) == abs(value)


@pytest.mark.parametrize("data", [b"\x0b", b"\x0a\x05abc", b"\x09123", b"\x08\x80"])
def test_what_is_no_message(data: bytes) -> None:
    """Damage is told, not copied."""
    with pytest.raises(WireError):
        rewritten(data, {})
    with pytest.raises(WireError):
        list(raw_fields(data))
