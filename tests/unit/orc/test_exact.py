"""Wide timestamps, against pyorc, which reads them one by one."""

from __future__ import annotations

import io
import random
import zoneinfo

import numpy as np
import pyarrow as pa
import pyorc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from acidctl.format.events import WIDE
from acidctl.orc.codec import Compression, expand
from acidctl.orc.reader import open_orc
from acidctl.orc.rle import bounds_v1, bounds_v2, constants_v2, decode_bits, decode_v1, decode_v2, exact_bounds
from acidctl.orc.stripe import EncodingKind, StreamKind
from tests.support.orc_files import CLOCKS, by_arrow, by_pyorc, fixture_files

YEAR_1 = -62_135_596_800
YEAR_9999_END = 253_402_300_799
# Before 1970 a fraction of a millisecond and more moves by a second in every writer; whole seconds do not.
MOMENTS = st.one_of(
    st.none(),
    st.integers(0, YEAR_9999_END * 10**9 + 999_999_999),
    st.integers(YEAR_1, -1).map(lambda s: s * 10**9),
    st.sampled_from([0, 1, 999, 10**9 - 1, 1_000_000, 500_000_000, YEAR_9999_END * 10**9 + 999_999_999, 10**18]),
)


def as_pyorc_reads(data: bytes) -> list[object]:
    """The first column as pyorc reads it, timestamps as nanoseconds."""
    return [row[0] for row in pyorc.Reader(io.BytesIO(data), converters=CLOCKS)]


def nanos(array: pa.Array) -> list[int | None]:
    """Timestamps of either form as nanoseconds since 1970."""
    if not pa.types.is_struct(array.type):
        found: list[int | None] = array.cast(pa.int64()).to_pylist()
        return found
    return [None if v is None else v["seconds"] * 10**9 + v["nanos"] for v in array.to_pylist()]


@given(st.lists(MOMENTS, min_size=1, max_size=600))
@settings(max_examples=60, deadline=None)
def test_any_moments(values: list[int | None]) -> None:
    """Whatever the values, both forms equal what pyorc reads."""
    data = by_pyorc("struct<t:timestamp>", [(value,) for value in values])
    batches = open_orc(io.BytesIO(data), name="f").scan(batch_size=64)
    got = [value for batch in batches for value in nanos(batch.column(0))]
    assert got == as_pyorc_reads(data)


def test_wide_exactly_where_it_must_be() -> None:
    """Values of today stay nanoseconds; one beyond 2262, or no statistics to judge by, make the column wide."""

    def form(rows: list[tuple[int | None]], **options: int) -> pa.DataType:
        (batch,) = open_orc(io.BytesIO(by_pyorc("struct<t:timestamp>", rows, **options)), name="f").scan()
        return batch.column(0).type

    today = (1_795_255_200_123_456_789,)
    assert form([today, (None,)]) == pa.timestamp("ns")
    assert form([today, (YEAR_9999_END * 10**9,)]) == WIDE
    assert form([today], row_index_stride=0) == WIDE
    assert form([(None,), (None,)]) == pa.timestamp("ns")


def test_instants_are_in_utc() -> None:
    """A timestamp with local time zone has the zone in its narrow form and no zone arithmetic in its wide one."""
    rows = [(1_795_255_200_123_456_789,)]
    narrow = by_pyorc("struct<t:timestamp with local time zone>", rows)
    (batch,) = open_orc(io.BytesIO(narrow), name="f").scan()
    assert batch.column(0).type == pa.timestamp("ns", tz="UTC")
    wide = by_pyorc("struct<t:timestamp with local time zone>", rows, row_index_stride=0)
    (other,) = open_orc(io.BytesIO(wide), name="f").scan()
    assert nanos(other.column(0)) == nanos(batch.column(0))


@pytest.mark.slow
def test_at_every_depth() -> None:
    """In structs, lists, maps and unions, with NULL at each level and several stripes."""
    random.seed(1)

    def moment() -> int | None:
        return random.choice([None, random.randrange(YEAR_9999_END * 10**9), YEAR_1 * 10**9])

    rows = []
    for i in range(3000):
        deep = None if i % 7 == 0 else (None if i % 5 == 0 else [moment() for _ in range(i % 4)], moment())
        pairs = None if i % 6 == 0 else [(str(k), moment()) for k in range(i % 3)]
        rows.append((deep, pairs, moment(), random.randbytes(50).hex()))
    schema = "struct<s:struct<l:array<timestamp>,t:timestamp>,m:map<string,timestamp>,t:timestamp,fill:string>"
    data = by_pyorc(schema, rows, stripe_size=1 << 12, batch_size=250)
    file = open_orc(io.BytesIO(data), name="f")
    assert len(file.tail.stripes) > 3

    def back(value: dict[str, int] | None) -> int | None:
        return None if value is None else value["seconds"] * 10**9 + value["nanos"]

    got = []
    for batch in file.scan(batch_size=100):
        for s, m, t in zip(*(batch.column(i).to_pylist() for i in range(3)), strict=True):
            deep = None if s is None else (None if s["l"] is None else [back(v) for v in s["l"]], back(s["t"]))
            pairs = None if m is None else [(k, back(v)) for k, v in m]
            got.append((deep, pairs, back(t)))
    assert got == [row[:3] for row in rows]


def test_a_writer_outside_utc() -> None:
    """The wall clock of the writer is what counts, before 1900 by its standard offset as in Java."""
    zone = zoneinfo.ZoneInfo("America/Los_Angeles")
    rows = [(0,), (1_600_000_000 * 10**9 + 5,), (1_590_000_000 * 10**9,), (None,), (4_000_000_000 * 10**9,)]
    for options in ({}, {"row_index_stride": 0}):
        data = by_pyorc("struct<t:timestamp>", rows, timezone=zone, **options)
        file = open_orc(io.BytesIO(data), name="f")
        assert file.stripe_footers()[0].time_zone == "America/Los_Angeles"
        got = [value for batch in file.scan() for value in nanos(batch.column(0))]
        utc = pyorc.Reader(io.BytesIO(data), converters=CLOCKS, timezone=zoneinfo.ZoneInfo("UTC"))
        assert got == [row[0] for row in utc]


@pytest.mark.parametrize("version", ["0.11", "0.12"])
def test_run_lengths(version: str) -> None:
    """Both encodings of integers come back whatever shape the numbers have, and bounds hold."""
    random.seed(2)
    shapes = [
        [random.randrange(5) for _ in range(3000)],
        list(range(3000)),
        [3000 - i for i in range(3000)],
        [7] * 3000,
        [5000 if random.random() < 0.01 else random.randrange(8) for _ in range(3000)],
        sorted(random.randrange(1000) for _ in range(3000)),
    ]
    for lengths in shapes:
        table = pa.table({"b": pa.array([bytes(n) for n in lengths], pa.binary())})
        data = by_arrow(table, compression="zlib", file_version=version)
        file = open_orc(io.BytesIO(data), name="f")
        got: list[int] = []
        for footer in file.stripe_footers():
            stream = footer.stream(StreamKind.LENGTH, 1)
            assert stream is not None
            section = data[stream.offset : stream.offset + stream.length]
            plain = expand(section, Compression.ZLIB, file.tail.postscript.block_size, 1 << 20)
            second = footer.encodings[1].kind is EncodingKind.DIRECT_V2
            values = np.concatenate(list(decode_v2(plain) if second else decode_v1(plain)))
            bounds = (bounds_v2 if second else bounds_v1)(plain, len(values))
            exact = exact_bounds(decode_v2(plain) if second else decode_v1(plain), len(values))
            assert (exact.total, exact.top, exact.count) == (values.sum(), values.max(), len(values))
            for window in (1, 7, 600, 2000, len(values)):
                largest = int(np.convolve(values.astype(np.int64), np.ones(window, np.int64), "valid").max())
                assert largest <= exact.of(window) <= bounds.of(window)
            assert (bounds.count, bounds.total >= exact.total) == (len(values), True)
            got += values.tolist()
        assert got == lengths


def test_signed_runs() -> None:
    """Decimal scales are signed; a constant one is recognised from the headers."""
    table = pa.table({"d": pa.array([1, 2, 3, None, 5] * 400).cast(pa.decimal128(38, 4))})
    data = by_arrow(table, compression="uncompressed")
    file = open_orc(io.BytesIO(data), name="f")
    stream = file.stripe_footers()[0].stream(StreamKind.SECONDARY, 1)
    assert stream is not None
    plain = data[stream.offset : stream.offset + stream.length]
    assert constants_v2(plain) == {4}
    assert set(np.concatenate(list(decode_v2(plain, signed=True))).tolist()) == {4}


def test_bits() -> None:
    """Runs and literals of booleans, the first value in the highest bit."""
    assert (
        np.concatenate(list(decode_bits(b"\x00\xf0\xfe\x81\x00"))).tolist()
        == ([True] * 4 + [False] * 4) * 3 + [True] + [False] * 6 + [True] + [False] * 8
    )


def test_fixtures_of_hive() -> None:
    """Where pyorc knows the calendar (modern dates), Hive's own timestamps agree with it."""
    for path in fixture_files("hive*/types_time_modern/*/table"):
        data = path.read_bytes()
        rows = [row[5] for row in pyorc.Reader(io.BytesIO(data), converters=CLOCKS)]
        batches = open_orc(io.BytesIO(data), name="f").scan()
        got = [value for batch in batches for value in nanos(batch.column("row").field("ts"))]
        assert got == [row[2] for row in rows]
