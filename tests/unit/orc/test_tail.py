"""The tail reader against files of three writers, and against files that are none."""

from __future__ import annotations

import io
import subprocess
import sys

import pyarrow as pa
import pyorc
import pytest

from acidctl.errors import DamagedDataError, StorageError
from acidctl.orc.codec import CodecError, Compression, expand, expand_chunk
from acidctl.orc.stats import StatisticsKind, ValueStatistics
from acidctl.orc.stripe import EncodingKind, StreamKind, each_stripe, read_stripe_footer
from acidctl.orc.tail import Calendar, Tail, Writer, read_tail
from tests.support.orc_files import EVENT, by_arrow, by_pyorc, fixture_files

ROWS = [(i, f"name {i}") for i in range(1000)]


def tail_of(data: bytes, *, length: int | None = None) -> Tail:
    """The tail of a file in memory."""
    return read_tail(io.BytesIO(data), name="f", length=length)


@pytest.mark.parametrize("compression", ["uncompressed", "zlib", "snappy", "lz4", "zstd"])
def test_every_compression(compression: str) -> None:
    """Footer and metadata are read whatever they are compressed with."""
    data = by_arrow(pa.table({"id": [1, 2, None], "v": ["a", "bb", "ccc"]}), compression=compression)
    tail = tail_of(data)
    assert (tail.rows, str(tail.hive_type())) == (3, "struct<id:bigint,v:string>")
    assert tail.statistics[1].values == ValueStatistics(StatisticsKind.INTEGER, 1, 2, 3)
    assert tail.statistics[2].values == ValueStatistics(StatisticsKind.STRING, "a", "ccc", 6)
    assert tuple(each_stripe(io.BytesIO(data), tail)) == (tail.statistics,)


def test_what_the_writer_said() -> None:
    """User metadata, writer, row index stride and lengths of char types come from the tail."""
    data = by_pyorc(
        "struct<c:char(3),v:varchar(7),d:decimal(12,4)>",
        [],
        user_metadata={"hive.acid.version": b"2", "raw": b"\xff\x00"},
        row_index_stride=5000,
    )
    tail = tail_of(data)
    assert str(tail.hive_type()) == "struct<c:char(3),v:varchar(7),d:decimal(12,4)>"
    assert tail.metadata_value("raw") == b"\xff\x00"
    assert tail.metadata_value("absent") is None
    assert (tail.writer, tail.row_index_stride, tail.rows) == (Writer.ORC_CPP, 5000, 0)
    assert tail.calendar is Calendar.UNKNOWN


def test_files_of_hive_4_say_their_calendar() -> None:
    """Hive 4 marks the hybrid calendar, and the proleptic one where it was told to use it."""
    for path in fixture_files("hive4/types_time*/*/table"):
        assert tail_of(path.read_bytes()).calendar is Calendar.JULIAN_GREGORIAN
    for path in fixture_files("hive4/types_proleptic/*/table"):
        assert tail_of(path.read_bytes()).calendar is Calendar.PROLEPTIC_GREGORIAN


def test_tails_agree_with_pyorc() -> None:
    """Rows, stripes, schema and metadata of Hive's own files are as another reader sees them."""
    for path in fixture_files("hive*/types_*/*/table"):
        tail = tail_of(path.read_bytes())
        with path.open("rb") as file:
            reader = pyorc.Reader(file)
            assert tail.rows == len(reader), path
            assert str(tail.hive_type()).replace("`", "") == str(reader.schema).replace("`", ""), path
            assert dict(tail.user_metadata) == {k: bytes(v) for k, v in reader.user_metadata.items()}, path
            assert [(s.rows, s.offset) for s in tail.stripes] == [
                (len(s), s.bytes_offset) for s in reader.iter_stripes()
            ], path


def test_stripe_footers() -> None:
    """Streams lie one after the other in the stripe, and every column has an encoding."""
    data = by_pyorc("struct<id:int,v:string>", ROWS, stripe_size=1 << 20)
    tail = tail_of(data)
    footer = read_stripe_footer(io.BytesIO(data), tail, 0)
    at = tail.stripes[0].offset
    for stream in footer.streams:
        assert stream.offset == at
        at += stream.length
    assert footer.encodings[1].kind is EncodingKind.DIRECT_V2
    assert footer.stream(StreamKind.DATA, 1) is not None
    assert footer.stream(StreamKind.PRESENT, 1) is None


def test_the_tail_is_read_at_the_logical_end() -> None:
    """Bytes behind the logical length are not looked at."""
    data = by_pyorc("struct<id:int,v:string>", ROWS)
    assert tail_of(data + b"torn stripe", length=len(data)).rows == len(ROWS)
    with pytest.raises(DamagedDataError):
        tail_of(data + b"torn stripe")


def test_one_ranged_read_is_enough_for_a_small_tail() -> None:
    """The tail of an ordinary file costs one read of at most 16 KiB."""
    reads: list[int] = []

    class Counting(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            data = super().read(size)
            reads.append(len(data))
            return data

    data = by_pyorc("struct<id:int,v:string>", [(i, f"{i * 7919 % 100_003}") for i in range(100_000)])
    assert len(data) > 100_000
    read_tail(Counting(data), name="f")
    assert len(reads) == 1
    assert reads[0] <= 16 * 1024


def test_a_wide_footer_costs_a_second_read() -> None:
    """A footer beyond the first window is fetched whole."""
    columns = {f"a_rather_long_column_name_{i}": [i] for i in range(2000)}
    assert len(tail_of(by_arrow(pa.table(columns), compression="uncompressed")).types) == 2001


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"", "f is empty (0 bytes), so it is not an ORC file"),
        (b"P", "f is not an ORC file (it begins with b'P')"),
        (b"PAR1 and so on PAR1", "f is not an ORC file (it looks like a Parquet file)"),
        (b"ORC", "f is truncated or its footer is damaged: "),
    ],
)
def test_files_that_are_none(data: bytes, sentence: str) -> None:
    """Empty, foreign and cut files are told apart, each in one sentence with a hint."""
    with pytest.raises(DamagedDataError) as caught:
        tail_of(data)
    assert caught.value.message.startswith(sentence)
    assert caught.value.hint
    assert caught.value.path == "f"


def test_every_truncation_is_damage() -> None:
    """No shortened file passes, wherever it was cut."""
    data = by_pyorc("struct<id:int,v:string>", ROWS)
    for end in range(1, len(data)):
        with pytest.raises(DamagedDataError):
            tail_of(data[:end])


def test_a_promise_beyond_the_end_is_damage() -> None:
    """A logical length larger than the file means that bytes were lost."""
    data = by_pyorc("struct<id:int>", [(1,)])
    with pytest.raises(DamagedDataError, match=f"has {len(data)} bytes, but its side file gives a length of"):
        tail_of(data, length=len(data) + 1)


def test_a_refusing_storage_is_no_damage() -> None:
    """An error of the storage stays one, with the file's name."""

    class Refusing(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            raise OSError("connection reset")

    with pytest.raises(StorageError, match="cannot read f: connection reset"):
        read_tail(Refusing(b"x" * 100), name="f")


def test_a_small_file_cannot_ask_for_much() -> None:
    """Chunks are bounded by the block size and sections by their limit, however well they compress."""
    bomb = pa.Codec("zstd").compress(bytes(1 << 24), asbytes=True)
    with pytest.raises(CodecError, match="larger than the block size"):
        expand_chunk(bomb, Compression.ZSTD, 1 << 18)
    chunk = pa.Codec("snappy").compress(bytes(1 << 18), asbytes=True)
    section = (len(chunk) << 1).to_bytes(3, "little") + chunk
    with pytest.raises(CodecError, match="too large"):
        expand(section * 100, Compression.SNAPPY, 1 << 18, 1 << 20)


def test_nesting_is_bounded() -> None:
    """A type tree that would exhaust the stack is refused."""
    kind = pa.int32()
    for _ in range(150):
        kind = pa.list_(kind)
    data = by_arrow(pa.table({"deep": pa.array([None], kind)}))
    with pytest.raises(DamagedDataError, match="nested too deeply"):
        tail_of(data)


def test_reading_a_tail_does_not_load_pyarrow() -> None:
    """Row counts of ZLIB files come without the 100 MB of a C++ library."""
    path = fixture_files("hive4/*/*/table")[0]
    code = (
        "import sys; from acidctl.orc.tail import read_tail;"
        f"read_tail(open({str(path)!r}, 'rb'), name='f'); print('pyarrow' in sys.modules, 'numpy' in sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "False False\n"


def test_event_schema() -> None:
    """The type tree of an event file comes out in column order."""
    tail = tail_of(by_pyorc(f"struct<{EVENT},row:struct<id:int>>", []))
    assert [entry.kind.name for entry in tail.types] == [
        "STRUCT",
        "INT",
        "LONG",
        "INT",
        "LONG",
        "LONG",
        "STRUCT",
        "INT",
    ]
