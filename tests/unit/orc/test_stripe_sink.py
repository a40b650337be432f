"""Deflated stripes are those that Arrow's writer made, and every position in their indexes leads where it should."""

from __future__ import annotations

import io
import zlib
from collections.abc import Callable, Iterator
from decimal import Decimal
from functools import cache
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyorc
import pytest

from acidctl.errors import InternalError
from acidctl.orc import arrow_writer, codec, writer
from acidctl.orc import arrow_writer as arrowwriter
from acidctl.orc.arrow_writer import Chunks, Physical, StripeSink
from acidctl.orc.codec import Compression, expand
from acidctl.orc.protobuf import Message, block
from acidctl.orc.reader import OrcFile, open_orc
from acidctl.orc.stitch import StripeRun, stitch
from acidctl.orc.stripe import (
    EncodingKind,
    StreamKind,
    each_stripe,
    moved_positions,
    read_column_index,
    recorded,
)
from acidctl.orc.tail import OrcKind
from acidctl.orc.writer import Backend, WrittenFile
from tests.cli.runner import acidctl
from tests.support.orc_events import EventBatch, keys, read_all, written
from tests.support.orc_files import CLOCKS
from tests.unit.orc.test_writer import columns_of, union, wide

ROWS, STRIDE = 4000, 500
TYPES = {
    "bo": "boolean",
    "ti": "tinyint",
    "si": "smallint",
    "i": "int",
    "id": "bigint",
    "f": "float",
    "d": "double",
    "s": "string",
    "c": "char(6)",
    "v": "varchar(9)",
    "b": "binary",
    "dt": "date",
    "n": "decimal(12,2)",
    "w": "decimal(38,4)",
    "t": "timestamp",
    "tl": "timestamp with local time zone",
    "far": "timestamp",
    "l": "array<string>",
    "m": "map<int,array<bigint>>",
    "st": "struct<x:int,y:struct<z:string>>",
    "u": "uniontype<int,string>",
}
COLUMNS = columns_of("struct<" + ",".join(f"{name}:{kind}" for name, kind in TYPES.items()) + ">")
# The whole of a small file in one stripe, or many stripes, all of whose streams have many chunks where these are tiny.
STRIPES = {"one": 64 << 20, "many": 1 << 16}
CHUNKS = {"tiny": 300, "usual": arrow_writer.LARGEST_CHUNK}

every_form = pytest.mark.parametrize(
    "nulls", [pytest.param(True, id="nulls"), pytest.param(False, id="full", marks=pytest.mark.slow)]
)
every_chunk = pytest.mark.parametrize(
    "chunk",
    [pytest.param(CHUNKS["tiny"], id="tiny"), pytest.param(CHUNKS["usual"], id="usual", marks=pytest.mark.slow)],
)
every_stripe = pytest.mark.parametrize(
    "stripe",
    [pytest.param(STRIPES["many"], id="many"), pytest.param(STRIPES["one"], id="one", marks=pytest.mark.slow)],
)


@cache
def values(nulls: bool, rows: int = ROWS, seed: int = 7) -> EventBatch:
    """Rows of all types; numbers and texts that do not compress, and runs of equal ones that do."""
    rng = np.random.default_rng(seed)
    numbers = np.where(np.arange(rows) % 1100 < 200, 7, rng.integers(-(1 << 40), 1 << 40, rows))
    holes = rng.random(rows) < 0.3

    def column(items: list[Any], kind: pa.DataType | None = None) -> pa.Array:
        return pa.array([None if nulls and hole else item for item, hole in zip(items, holes, strict=True)], kind)

    ints = [int(n) for n in numbers]
    texts = [f"{n % 100_003:x}é" for n in ints]
    lists = [texts[i : i + i % 4] for i in range(rows)]
    moments = [abs(n) * 1_000_003 for n in ints]
    pairs = [[(n % 50, [n, i]), (n % 7 + 50, None if nulls else [])] for i, n in enumerate(ints)]
    inner = [
        {"x": n % 99, "y": None if nulls and i % 3 else {"z": text}}
        for i, (n, text) in enumerate(zip(ints, texts, strict=True))
    ]
    arrays = (
        column([n % 3 == 0 for n in ints]),
        column([n % 100 for n in ints], pa.int8()),
        column([n % 30_000 for n in ints], pa.int16()),
        column([n % (1 << 31) for n in ints], pa.int32()),
        pa.array(range(rows), pa.int64()),
        column([n / 7 for n in ints], pa.float32()),
        column([n / 7 for n in ints]),
        column(texts),
        column([text[:5] for text in texts]),
        column(texts),
        column([text.encode() for text in texts]),
        column([n % 20_000 for n in ints], pa.int32()).cast(pa.date32()),
        column([Decimal(n % 10**10).scaleb(-2) for n in ints], pa.decimal128(12, 2)),
        column([Decimal(n).scaleb(-4) for n in ints], pa.decimal128(38, 4)),
        column(moments, pa.timestamp("ns")),
        column(moments, pa.timestamp("ns", tz="UTC")),
        wide(
            *(None if nulls and hole else (abs(n) >> 3, n % 1000 * 1000) for n, hole in zip(ints, holes, strict=True))
        ),
        column(lists),
        column(pairs, pa.map_(pa.int32(), pa.list_(pa.int64()))),
        column(inner),
        union(TYPES["u"], [(0, n % 1000) if n % 2 else (1, text) for n, text in zip(ints, texts, strict=True)]),
    )
    return EventBatch(keys(rows), arrays)


def made(batch: EventBatch, monkeypatch: pytest.MonkeyPatch, **options: Any) -> tuple[bytes, WrittenFile]:
    """A file of pieces of 700 rows, by Arrow's own codec with `igzip=False`; chunks no larger than `chunk`."""
    with monkeypatch.context() as patch:
        if not options.pop("igzip", True):
            patch.setattr(writer, "igzip", lambda: None)
        patch.setattr(arrow_writer, "LARGEST_CHUNK", options.pop("chunk", arrow_writer.LARGEST_CHUNK))
        patch.setattr(writer, "FEW_ROWS", 700)
        rows = len(batch)
        pieces = (batch.slice(start, min(start + 700, rows)) for start in range(0, rows, 700))
        options = {"row_index_stride": STRIDE, "block_size": 1 << 16, **options}
        return written(pieces, options.pop("columns", COLUMNS), bloom_columns=("s", "id"), **options)


def opened(data: bytes) -> OrcFile:
    return open_orc(io.BytesIO(data), name="f")


def by_pyorc(data: bytes, **options: Any) -> pyorc.Reader:
    return pyorc.Reader(io.BytesIO(data), converters=CLOCKS, **options)


def chunk_starts(raw: bytes, block_size: int) -> dict[int, int]:
    """Where each chunk of a stored stream begins, and its end: from stored to plain offsets."""
    stored = [0]
    lengths = []
    while stored[-1] < len(raw):
        end = stored[-1] + 3 + (int.from_bytes(raw[stored[-1] : stored[-1] + 3], "little") >> 1)
        lengths.append(len(expand(raw[stored[-1] : end], Compression.ZLIB, block_size, block_size)))
        stored.append(end)
    return dict(zip(stored, accumulate(lengths, initial=0), strict=True))


def indexes(data: bytes) -> Iterator[list[Any]]:
    """Per stripe and column the entries of the index and the filters, with positions as in a plain file."""
    file = opened(data)
    post = file.tail.postscript
    for footer in file.stripe_footers():
        for column, entry in enumerate(file.tail.types):
            found = read_column_index(io.BytesIO(data), file.tail, footer, column)
            assert found.entries is not None
            nulls = footer.stream(StreamKind.PRESENT, column) is not None
            streams = recorded(entry.kind, footer.encodings[column].kind, nulls=nulls)
            maps = {}
            for kind, _ in streams:
                stream = footer.stream(kind, column)
                assert stream is not None
                raw = data[stream.offset : stream.offset + stream.length]
                maps[kind] = chunk_starts(raw, post.block_size) if post.compression is Compression.ZLIB else None
            for group in found.entries:
                rest = list(group.positions)
                places: list[int] = []
                for kind, count in streams:
                    starts = maps[kind]
                    places.append(rest.pop(0) if starts is None else starts[rest.pop(0)] + rest.pop(0))
                    places += (rest.pop(0) for _ in range(count))
                assert rest == []
                yield [column, group.statistics, places]
            yield [column, found.filters]


@pytest.mark.slow
@every_form
@every_chunk
@every_stripe
def test_seeking(nulls: bool, chunk: int, stripe: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rows are those of Arrow's own codec, and a seek to any row group, and into it, finds its rows."""
    batch = values(nulls)
    data, done = made(batch, monkeypatch, chunk=chunk, stripe_size=stripe)
    usual, _ = made(batch, monkeypatch, igzip=False, stripe_size=stripe)
    rows = list(by_pyorc(usual))
    assert (done.backend, done.rows, len(rows)) == (Backend.ARROW, ROWS, ROWS)
    assert (done.stripes > 3) == (stripe == STRIPES["many"])
    assert read_all(data) == read_all(usual)
    reader = by_pyorc(data)
    assert list(reader) == rows
    for number in range(reader.num_of_stripes):
        part = reader.read_stripe(number)
        count = len(part)
        for row in {*range(0, count, STRIDE), *range(STRIDE - 1, count, STRIDE), count // 2, count - 1}:
            # A stripe from the start: no decoder has gone ahead.
            fresh = by_pyorc(data).read_stripe(number)
            fresh.seek(row)
            assert fresh.read(3) == rows[part.row_offset :][row : min(row + 3, count)]
            reader.seek(part.row_offset + row)
            assert reader.read(1) == rows[part.row_offset + row :][:1]


@every_form
@every_stripe
def test_same_as_the_plain_file(nulls: bool, stripe: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stripes, statistics at all levels, filters, positions: all that does not speak of stored bytes."""
    batch = values(nulls)
    data, _ = made(batch, monkeypatch, chunk=300, stripe_size=stripe)
    bare, _ = made(batch, monkeypatch, compression="none", stripe_size=stripe * 3 // 2)
    mine, other = opened(data).tail, opened(bare).tail
    assert [s.rows for s in mine.stripes] == [s.rows for s in other.stripes]
    assert mine.statistics == other.statistics
    assert mine.types == other.types
    per_stripe = tuple(each_stripe(io.BytesIO(data), mine))
    assert per_stripe == tuple(each_stripe(io.BytesIO(bare), other))
    assert len(per_stripe) == len(mine.stripes)
    assert list(indexes(data)) == list(indexes(bare))
    content = Message(mine.footer)
    assert content.uint(2) == mine.stripes[-1].end - (content.uint(1) or 0)
    assert len(data) < len(bare)


@pytest.mark.slow
@every_form
def test_same_positions_as_arrow(nulls: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrow's own ZLIB files have them in other chunks, and in the same bytes, values and bits."""
    batch = values(nulls, 3 * ROWS)
    data, _ = made(batch, monkeypatch)
    usual, _ = made(batch, monkeypatch, igzip=False)
    assert data != usual
    found = list(indexes(data))
    assert found == list(indexes(usual))
    assert any(max(entry[-1], default=0) > 1 << 16 for entry in found if len(entry) == 3)


@every_form
@pytest.mark.slow
def test_dictionaries(nulls: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their positions are of another kind."""
    monkeypatch.setattr(arrowwriter, "DICTIONARY_SHARE", 1.0)
    batch = values(nulls)
    data, _ = made(batch, monkeypatch, chunk=300)
    encodings = [footer.encodings[14].kind for footer in opened(data).stripe_footers()]
    assert encodings == [EncodingKind.DICTIONARY_V2]
    usual, _ = made(batch, monkeypatch, igzip=False)
    assert read_all(data) == read_all(usual)
    assert list(indexes(data)) == list(indexes(usual))
    rows = list(by_pyorc(usual))
    for row in range(0, ROWS, STRIDE):
        reader = by_pyorc(data)
        reader.seek(row)
        assert reader.read(2) == rows[row : row + 2]


def test_physical_form(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is noted in the tail; no row index; blocks larger than any chunk."""
    batch = values(True, 900)
    data, done = made(batch, monkeypatch, row_index_stride=0, block_size=1 << 22)
    tail = opened(data).tail
    assert (tail.postscript.compression, tail.postscript.block_size) == (Compression.ZLIB, 1 << 22)
    assert (tail.row_index_stride, done.bytes, tail.file_length) == (0, len(data), len(data))
    assert read_all(data) == read_all(made(batch, monkeypatch, igzip=False)[0])


@pytest.mark.parametrize("wrong", [lambda _: b"x", lambda plain: zlib.compress(bytes(plain)[1:] + b"!", wbits=-15)])
def test_what_zlib_does_not_inflate_is_not_written(
    wrong: Callable[[bytes | memoryview], bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reading back is done by the library that deflates, so a mistake of both shows here."""
    monkeypatch.setattr(writer, "igzip", lambda: wrong)
    with pytest.raises(InternalError, match="not what zlib inflates"):
        made(values(False, 900), monkeypatch)


def test_without_igzip(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where isal is missing the file is Arrow's own."""
    batch = values(False, 900)
    usual, _ = made(batch, monkeypatch, igzip=False)
    monkeypatch.setitem(__import__("sys").modules, "isal", None)
    assert arrow_writer.igzip() is None
    assert made(batch, monkeypatch)[0] == usual


def test_other_codecs_stay_with_arrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only ZLIB is what igzip makes."""
    batch = values(False, 900)
    for name in ("none", "snappy", "zstd"):
        assert made(batch, monkeypatch, compression=name) == made(batch, monkeypatch, compression=name, igzip=False)


@pytest.mark.slow
def test_stripes_can_be_joined(monkeypatch: pytest.MonkeyPatch) -> None:
    """With each other, and with those of Arrow's own codec."""
    whole = values(True)
    parts = [whole.slice(0, 1500), whole.slice(1500, 2900), whole.slice(2900, ROWS)]
    files = [made(part, monkeypatch, chunk=300, igzip=part is not parts[1])[0] for part in parts]
    sink = io.BytesIO()
    done = stitch(sink, [StripeRun.whole(io.BytesIO(file), name="part") for file in files])
    usual, _ = made(whole, monkeypatch, igzip=False)
    assert (done.rows, done.stripes) == (ROWS, 3)
    assert read_all(sink.getvalue()) == read_all(usual)
    rows = list(by_pyorc(usual))
    reader = by_pyorc(sink.getvalue())
    for row in range(40, ROWS, STRIDE):
        reader.seek(row)
        assert reader.read(1) == [rows[row]]


def chunks_of(*writes: bytes, block_size: int = 1 << 16) -> Chunks:
    """What a sink makes of these calls."""
    compress = arrow_writer.igzip()
    assert compress is not None
    sink = StripeSink(io.BytesIO(), (), Physical(Compression.ZLIB, 0, block_size, 0, frozenset(), 0.0), compress)
    for data in writes:
        assert sink.write(data) == len(data)
    assert sink.tell() == sum(map(len, writes))
    return sink.take()


def test_chunks() -> None:
    """Places are counted from the first chunk of a stream; a border is the end of the chunk before it."""
    chunks = chunks_of(b"ab", b"c" * 100, b"", b"d" * 50, block_size=40)
    assert chunks.plain == [0, 2, 42, 82, 102, 142, 152]
    assert chunks.inflated(1, 4) == b"c" * 100
    assert [chunks.last(size) for size in (0, 1, 51)] == [b"", b"d", b"c" + b"d" * 50]
    assert (chunks.at(0), chunks.at(102), chunks.at(152)) == (0, 4, 6)
    second = chunks.places[2] - chunks.places[1]
    assert [chunks.place(1, 4, at) for at in (0, 1, 40, 41)] == [(0, 0), (0, 1), (0, 40), (second, 1)]
    assert chunks.place(1, 4, 100) == (chunks.places[3] - chunks.places[1], 20)
    assert chunks.place(4, 4, 0) == (0, 0)
    for first, end, offset in ((1, 4, 101), (4, 4, 1)):
        with pytest.raises(InternalError, match="outside its stream"):
            chunks.place(first, end, offset)
    for offset in (1, 103, 200):
        with pytest.raises(InternalError, match="no chunk begins"):
            chunks.at(offset)


def test_chunks_that_do_not_shrink() -> None:
    """They are stored as they are."""
    noise = np.random.default_rng(1).bytes(1000)
    chunks = chunks_of(noise, b"a" * 1000)
    assert chunks.stored[0] == (2001).to_bytes(3, "little") + noise
    assert len(chunks.stored[1]) < 50
    assert chunks.inflated(0, 2) == noise + b"a" * 1000


def test_chunks_that_hardly_shrink() -> None:
    """They are stored as they are; of the next one a part is tried, whatever stream it is of."""
    random = np.random.default_rng(1)
    # Seven bits of eight say something in some, and nearly all of them in others.
    seven, eight = (random.integers(0, most, 1 << 16).astype(np.uint8).tobytes() for most in (128, 200))
    chunks = chunks_of(eight, eight, seven, eight, b"a" * (1 << 16))
    assert [stored[0] & 1 for stored in chunks.stored] == [1, 1, 0, 1, 0]
    assert chunks.inflated(0, 5) == eight * 2 + seven + eight + b"a" * (1 << 16)


def test_windows_that_suit_a_stream() -> None:
    """A small one for digits, the usual one for what comes again far away; other libraries inflate both."""
    random = np.random.default_rng(1)
    digits = "".join(f"+49-{number:010}" for number in random.integers(0, 10**10, 10_000)).encode()[: 1 << 17]
    far = random.bytes(8 << 10) * 16
    compress, library = arrow_writer.igzip(), codec.igzip()
    assert compress is not None
    usual, small = ([len(library.compress(data, level=1, wbits=-bits)) for data in (digits, far)] for bits in (15, 12))
    # The end of a stream is deflated as its beginning was.
    made = [compress(data) for data in (digits, digits[:1000], far, digits[:5], digits)]
    assert [len(made[i] or b"") for i in (0, 2, 4)] == [small[0], usual[1], small[0]]
    assert small[0] < usual[0]
    assert usual[1] < small[1]
    assert [zlib.decompress(one or b"", -15) for one in made] == [digits, digits[:1000], far, digits[:5], digits]


def test_positions_that_are_not_of_the_column() -> None:
    """A layout that is not known is refused, never guessed."""
    index = block(1, block(1, bytes([5, 6, 7])))
    places = {StreamKind.DATA: lambda offset: (100, offset), StreamKind.LENGTH: lambda offset: (200, offset)}
    streams = recorded(OrcKind.STRING, EncodingKind.DIRECT_V2, nulls=False)
    assert moved_positions(index, streams, places) == block(1, block(1, bytes([100, 5, 200 & 127 | 128, 1, 6, 7])))
    for kind in (OrcKind.LONG, OrcKind.STRUCT, OrcKind.DOUBLE):
        with pytest.raises(InternalError, match="cannot be of"):
            moved_positions(index, recorded(kind, EncodingKind.DIRECT_V2, nulls=False), places)
    with pytest.raises(InternalError, match="cannot be of PRESENT"):
        moved_positions(index, recorded(OrcKind.STRUCT, EncodingKind.DIRECT, nulls=True), places)


@pytest.mark.parametrize("odd", ["added", "joined"])
def test_a_writer_that_puts_files_together_otherwise(odd: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A byte between streams, or two streams in one write, end the writing."""

    class Odd(StripeSink):
        calls = 0
        kept = b""

        def write(self, data: bytes) -> int:  # type: ignore[override]
            self.calls += 1
            if self.calls == 30 and odd == "joined":
                self.kept = data
            else:
                super().write(self.kept + data + (b"x" if self.calls == 30 else b""))
                self.kept = b""
            return len(data)

    monkeypatch.setattr(writer, "StripeSink", Odd)
    with pytest.raises(InternalError, match="no footer" if odd == "added" else "no chunk begins"):
        made(values(False, 900), monkeypatch)


@pytest.mark.orctools
def test_orc_tools_reads_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """ORC's Java reader finds the same rows."""
    from tests.support.orc_tools import SEPARATOR, orc_tools

    files = []
    variants: dict[str, dict[str, int]] = {
        **{chunk: {"chunk": size, "stripe_size": 1 << 16} for chunk, size in CHUNKS.items()},
        "arrow": {"igzip": False},
    }
    for name, options in variants.items():
        files.append(tmp_path / f"{name}.orc")
        files[-1].write_bytes(made(values(True), monkeypatch, **options)[0])
    *mine, usual, rest = orc_tools("data", *files).split(SEPARATOR)
    assert mine == [usual, usual]
    assert rest == b""
    assert usual.count(b"\n") >= ROWS
    assert usual + SEPARATOR == acidctl("dump", "-d", str(files[0])).stdout.encode()
