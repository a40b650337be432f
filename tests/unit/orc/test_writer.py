"""What the writer writes is what was given, bit for bit, by our reader and by pyorc, with either backend."""

from __future__ import annotations

import io
import math
import struct
from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import Context, Decimal
from itertools import accumulate
from typing import Any, BinaryIO, cast

import numpy as np
import pyarrow as pa
import pyorc
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from acidctl.compaction.joining import write_exactly
from acidctl.errors import DamagedDataError, UsageError
from acidctl.format.events import WIDE, Operation, RowId
from acidctl.orc.reader import OrcFile, open_orc
from acidctl.orc.schema_evolution import arrow_type, null_array
from acidctl.orc.stats import StatisticsKind
from acidctl.orc.stripe import StreamKind, read_column_index
from acidctl.orc.tail import Calendar
from acidctl.orc.writer import Backend, NeedsExactWriter, divided, write_orc
from acidctl.rows.file_report import acid_facts
from acidctl.types.hive_types import Dialect, HiveType, ListType, MapType, Primitive, StructType, UnionType
from acidctl.types.schema import parse_type
from tests.support.extent import amount
from tests.support.orc_events import SETTINGS, EventBatch, keys, plain, read_all, written
from tests.support.orc_files import CLOCKS

BACKENDS = (Backend.ARROW, Backend.EXACT)
both = pytest.mark.parametrize("backend", BACKENDS, ids=lambda backend: backend.value)
DAY_1 = -719_162
YEAR_1, YEAR_1500, YEAR_9999 = -62_135_596_800, -14_831_769_600, 253_402_300_799


def columns_of(text: str) -> StructType:
    """Columns from the text of a struct."""
    columns = parse_type(text)
    assert isinstance(columns, StructType)
    return columns


def wide(*moments: tuple[int, int] | None) -> pa.Array:
    """Moments as (seconds, nanoseconds) in their wide form."""
    return pa.array([None if m is None else {"seconds": m[0], "nanos": m[1]} for m in moments], WIDE)


def opened(data: bytes) -> OrcFile:
    return open_orc(io.BytesIO(data), name="f")


def check(text: str, arrays: list[pa.Array], backend: Backend, **options: Any) -> bytes:
    """Write the columns as inserted events, read them back, compare; the file."""
    columns = columns_of(text)
    batch = EventBatch(keys(len(arrays[0])), tuple(arrays))
    data, done = written([batch], columns, backend=backend, **options)
    assert opened(data).columns == columns
    expected = list(zip(*(plain(array) for array in arrays), strict=True))
    assert [row["row"] for row in read_all(data)] == expected
    assert (done.rows, done.bytes, done.backend) == (len(batch), len(data), backend)
    return data


def floats(bits: list[int], kind: Any, code: str) -> pa.Array:
    raw = struct.pack(f"<{len(bits)}{code}", *bits)
    return pa.Array.from_buffers(kind, len(bits), [None, pa.py_buffer(raw)])


PRIMITIVES: dict[str, Callable[[], pa.Array]] = {
    "boolean": lambda: pa.array([True, False, None, True]),
    "tinyint": lambda: pa.array([-128, 127, 0, None], pa.int8()),
    "smallint": lambda: pa.array([-(1 << 15), (1 << 15) - 1, None], pa.int16()),
    "int": lambda: pa.array([-(1 << 31), (1 << 31) - 1, None], pa.int32()),
    "bigint": lambda: pa.array([-(1 << 63), (1 << 63) - 1, None, 0], pa.int64()),
    # Quiet NaN with a payload, both zeros, both infinities, the least positive number.
    "float": lambda: floats([0x7FC12345, 0xFFC00001, 0x80000000, 0, 0x7F800000, 0xFF800000, 1], pa.float32(), "I"),
    "double": lambda: floats(
        [0x7FF8000000012345, 0x7FF4000000000001, 1 << 63, 0, 0x7FF0 << 48, 0xFFF0 << 48, 1], pa.float64(), "Q"
    ),
    "string": lambda: pa.array([b"", None, b"\xff\xfe", "é水😀".encode(), b"a\0b", b" x "], pa.binary()).view(
        pa.string()
    ),
    "binary": lambda: pa.array([b"", None, b"\xff\xfe", bytes(range(256))]),
    "varchar(3)": lambda: pa.array([b"", None, b"\xff", "é水😀".encode()], pa.binary()).view(pa.string()),
    "char(3)": lambda: pa.array([b"", None, b"\xff", "é水😀".encode(), b"a"], pa.binary()).view(pa.string()),
    "date": lambda: pa.array([DAY_1, -171_668, 0, 2_932_896, None], pa.int32()).cast(pa.date32()),
    "decimal(38,0)": lambda: pa.array([Decimal("9" * 38), Decimal("-" + "9" * 38), None], pa.decimal128(38, 0)),
    "decimal(38,38)": lambda: pa.array([Decimal("0." + "9" * 38), Decimal(0), None], pa.decimal128(38, 38)),
    "decimal(18,2)": lambda: pa.array([Decimal("-9999999999999999.99"), None, Decimal("0.01")], pa.decimal128(18, 2)),
    "timestamp": lambda: pa.array([0, 1, 999_999_999, 2**63 - 2**40, -(10**9), None]).cast(pa.timestamp("ns")),
    "timestamp with local time zone": lambda: pa.array([0, 1_700_000_000_123_456_789, None]).cast(
        pa.timestamp("ns", tz="UTC")
    ),
}


@both
@pytest.mark.parametrize("kind", PRIMITIVES)
def test_primitives(kind: str, backend: Backend) -> None:
    """The values that writers change, at the top and at every depth, whole and in a slice."""
    array = PRIMITIVES[kind]()
    text = f"struct<c:{kind},l:array<{kind}>,s:struct<x:{kind}>,m:map<int,{kind}>,ll:array<array<{kind}>>>"
    rows = len(array)
    validity = np.arange(rows) % 3 == 1
    lists = pa.ListArray.from_arrays(pa.array(np.arange(rows + 1, dtype=np.int32)), array, mask=pa.array(validity))
    empty = pa.ListArray.from_arrays(pa.array([0] + [rows] * rows, pa.int32()), array)
    structs = pa.StructArray.from_arrays([array], ["x"], mask=pa.array(validity))
    maps = pa.MapArray.from_arrays(list(range(rows + 1)), pa.array(range(rows), pa.int32()), array)
    nested = pa.ListArray.from_arrays(pa.array([0] * rows + [rows], pa.int32()), lists)
    for lists_used in (lists, empty):
        arrays = [array, lists_used, structs, maps, nested]
        data = check(text, arrays, backend)
        check(text, [column.slice(1, rows - 2) for column in arrays], backend, compression="none")
    if "timestamp" not in kind and "string" not in kind and "char" not in kind:
        pyorc_rows = [row[5][0] for row in pyorc.Reader(io.BytesIO(data))]
        assert [None if v != v else v for v in pyorc_rows] == [None if v != v else v for v in array.to_pylist()]


@both
def test_wide_moments(backend: Backend) -> None:
    """The years 1, 1500 and 9999 in microseconds, which either backend writes."""
    values = wide((YEAR_1, 0), (YEAR_1500, 0), (YEAR_9999, 999_999_000), None, (0, 1000), (-1, 0))
    data = check("struct<t:timestamp,u:array<timestamp>>", [values, pa.array([None] * 6, pa.list_(WIDE))], backend)
    got = [row[5][0] for row in pyorc.Reader(io.BytesIO(data), converters=CLOCKS)]
    assert got == [None if v is None else v["seconds"] * 10**9 + v["nanos"] for v in values.to_pylist()]


MIXED = [
    [wide((-2, 500_000_000))],
    [wide((YEAR_1500, 999_999_999)), wide((YEAR_9999, 999_999_999)), wide((-1, 999_999))],
    [wide((5, 1)), wide((YEAR_9999, 0))],
    [pa.array([-1_500_000_000]).cast(pa.timestamp("ns"))],
]


@pytest.mark.parametrize("batches", MIXED, ids=range(len(MIXED)))
def test_moments_that_arrow_would_change(batches: list[pa.Array]) -> None:
    """Fractions before 1970, and moments for which no one unit is enough, take the exact backend."""
    columns = columns_of("struct<t:timestamp>")
    events = [EventBatch(keys(1, start=i), (array,)) for i, array in enumerate(batches)]
    with pytest.raises(NeedsExactWriter):
        written(events, columns)
    data, _ = written(events, columns, backend=Backend.EXACT)
    # The same moment in its wide form, whatever the one that was given.
    expected = [divmod(v * 1, 10**9) if isinstance(v, int) else v for array in batches for v in plain(array)]
    assert [row["row"][0] for row in read_all(data)] == expected


def test_the_second_before_1970_is_refused() -> None:
    """ORC has no form for it: every reader would see the second after."""
    batch = EventBatch(keys(1), (wide((-1, 500_000_000)),))
    with pytest.raises(DamagedDataError, match="last second before 1970"):
        written([batch], columns_of("struct<t:timestamp>"), backend=Backend.EXACT)


def test_pieces_of_several_forms_make_one_column() -> None:
    """Narrow and wide moments, dictionaries and plain strings, in small batches and large."""
    columns = columns_of("struct<t:timestamp,s:string>")
    narrow = pa.array([1_000, 2_000]).cast(pa.timestamp("ns"))
    strings = pa.array(["a", None])
    batches = [
        EventBatch(keys(2), (narrow, strings)),
        EventBatch(keys(2, start=2), (wide((YEAR_9999, 0), None), strings.dictionary_encode())),
        EventBatch(keys(2, start=4), (narrow, strings.cast(pa.binary()))),
    ]
    data, _ = written(batches, columns)
    assert [row["row"][0] for row in read_all(data)] == [
        *[(0, 1000), (0, 2000), (YEAR_9999, 0), None],
        *[(0, 1000), (0, 2000)],
    ]
    assert [row["row"][1] for row in read_all(data)] == [b"a", None] * 3


@both
def test_char_is_stored_padded(backend: Backend) -> None:
    """As Hive's writers do: search arguments and bloom filters compare with the padded value."""
    data, _ = written(
        [EventBatch(keys(3), (pa.array(["é", "", "abc"]),))], columns_of("struct<c:char(3)>"), backend=backend
    )
    assert [row[5][0] for row in pyorc.Reader(io.BytesIO(data))] == ["é  ", "   ", "abc"]


def union(kind: str, rows: list[tuple[int, Any] | None]) -> pa.Array:
    """A column as the reader delivers unions."""
    return made(parse_type(kind), rows)


def made(kind: HiveType, values: Sequence[Any]) -> pa.Array:
    """The Arrow array of Python values; a struct is a tuple, a union a pair of tag and value."""
    if isinstance(kind, Primitive):
        return pa.array(values, arrow_type(kind))
    missing = [value is None for value in values]
    mask = pa.array(missing, pa.bool_())
    if isinstance(kind, UnionType):
        children = [
            made(alternative, [value[1] if value and value[0] == tag else None for value in values])
            for tag, alternative in enumerate(kind.alternatives)
        ]
        codes = pa.array([len(children) if value is None else value[0] for value in values], pa.int8())
        names = [*map(str, range(len(children))), "null"]
        return pa.UnionArray.from_sparse(codes, [*children, pa.nulls(len(values))], names)
    if isinstance(kind, StructType):
        columns = [made(field.type, [v and v[i] for v in values]) for i, field in enumerate(kind.fields)]
        return pa.StructArray.from_arrays(columns, kind.names, mask=mask)
    offsets = pa.array(accumulate((len(value or ()) for value in values), initial=0), pa.int32())
    pieces = [piece for value in values for piece in value or ()]
    if isinstance(kind, ListType):
        return pa.ListArray.from_arrays(offsets, made(kind.element, pieces), mask=mask)
    assert isinstance(kind, MapType)
    keys, items = made(kind.key, [key for key, _ in pieces]), made(kind.value, [item for _, item in pieces])
    return pa.MapArray.from_arrays(offsets, keys, items, mask=mask)


@both
def test_maps_with_any_keys(backend: Backend) -> None:
    """Equal keys, NaN, both zeros, lists as keys: a map of the file is a list of pairs."""
    zeros = pa.MapArray.from_arrays(
        [0, 4, 4], pa.array([0.0, -0.0, float("nan"), float("nan")]), pa.array([1, 2, 3, None], pa.int32())
    )
    twice = pa.MapArray.from_arrays([0, 2, 3], pa.array(["a", "a", ""]), pa.array([1, 2, 3], pa.int32()))
    lists = pa.MapArray.from_arrays(
        [0, 2, 3], pa.array([[1], [1], []], pa.list_(pa.int32())), pa.array([1, 2, 3], pa.int32())
    )
    bits = pa.MapArray.from_arrays([0, 3, 3], pa.array([True, True, False]), pa.array([1, 2, 3], pa.int32()))
    text = "struct<z:map<double,int>,t:map<string,int>,l:map<array<int>,int>,b:map<boolean,int>>"
    check(text, [zeros, twice, lists, bits], backend)


@both
@pytest.mark.parametrize("acid", [True, False])
def test_a_file_without_rows(backend: Backend, acid: bool) -> None:
    """It has the columns, and no key in its index."""
    columns = columns_of("struct<`a b`:int,c:char(3),u:uniontype<int,string>,s:struct<x:decimal(5,2)>>")
    data, done = written([], columns, acid=acid, backend=backend)
    file = opened(data)
    assert (file.columns, file.rows, file.is_acid) == (columns, 0, acid)
    assert (done.rows, done.stripes, done.first_key, done.last_key) == (0, 0, None, None)
    assert file.tail.metadata_value("hive.acid.key.index") == (b"" if acid else None)
    assert list(pyorc.Reader(io.BytesIO(data))) == []


@both
@pytest.mark.parametrize(
    ("values", "low", "high"),
    [
        ([math.nan, 1.5], -math.inf, math.nan),
        ([1.5, math.nan, 2.5], 1.5, math.nan),
        ([1.5, 2.5], 1.5, 2.5),
    ],
)
def test_bounds_of_doubles(values: list[float], low: float, high: float, backend: Backend) -> None:
    """Those of a stripe hold in Java's order, by which Hive leaves stripes out: NaN is the greatest."""
    data = check("struct<a:double,f:float>", [pa.array(values), pa.array(values, pa.float32())], backend)
    (stripe,) = opened(data).stripe_statistics()
    for column in (7, 8):
        found = stripe[column].values
        assert found is not None
        assert repr((found.minimum, found.maximum)) == repr((low, high))


@both
def test_deletes(backend: Backend) -> None:
    """The rows of delete events are NULL, with columns and without; the file keeps the columns."""
    columns = columns_of("struct<id:int,t:timestamp,m:map<int,string>,s:struct<x:int>>")
    nulls = tuple(null_array(field.type, 4) for field in columns.fields)
    for batch in (EventBatch(keys(4, operation=2)), EventBatch(keys(4, operation=2), nulls)):
        data, done = written([batch, EventBatch(keys(2, start=4, operation=2))], columns, backend=backend)
        facts = acid_facts(opened(data))
        assert facts.stats is not None
        assert (facts.stats["delete"], facts.stats["insert"], facts.events) == (6, 0, {"delete": 6})
        assert (facts.key_index.state, facts.version) == ("matches", "2")
        assert [row["row"] for row in read_all(data)] == [None] * 6
        assert done.last_key == RowId(1, 536870912, 5)
        assert [row[5] for row in pyorc.Reader(io.BytesIO(data))] == [None] * 6
        assert opened(data).columns == columns


@both
def test_some_rows_deleted(backend: Backend) -> None:
    """Rows of both kinds in one batch keep what they are."""
    batch = EventBatch(keys(3, operation=[0, 2, 0]), (pa.array([1, None, 3], pa.int32()),))
    data, _ = written([batch], columns_of("struct<id:int>"), backend=backend)
    assert [row["row"] for row in read_all(data)] == [(1,), None, (3,)]
    assert opened(data).tail.metadata_value("hive.acid.stats") == b"2,0,1"


@both
def test_rows_without_ids(backend: Backend) -> None:
    """Files of insert-only tables have the bare columns and no ACID metadata."""
    data, done = written(
        [EventBatch(keys(2), (pa.array([1, None], pa.int32()),))],
        columns_of("struct<Id:int>"),
        acid=False,
        backend=backend,
    )
    assert read_all(data) == [{"Id": 1}, {"Id": None}]
    assert opened(data).tail.user_metadata == ()
    assert (done.first_key, done.last_key, done.rows) == (None, None, 2)


@both
@pytest.mark.parametrize("codec", ["none", "zlib", "snappy", "lz4", "zstd"])
@pytest.mark.slow
def test_physical_form(codec: str, backend: Backend) -> None:
    """Codec, stripes, stride, block size, filters, calendar, zone, metadata; one right key per stripe."""
    columns = columns_of("struct<id:int,name:string>")
    rows = 30_000
    names = pa.array([f"{i * 7919}" for i in range(rows)])
    batch = EventBatch(keys(rows), (pa.array(range(rows), pa.int32()), names))
    data, done = written(
        [batch.slice(i, min(i + 9000, rows)) for i in range(0, rows, 9000)],
        columns,
        backend=backend,
        metadata={"acidctl.target": b"hive3"},
        compression=codec,
        stripe_size=1 << 14,
        row_index_stride=5000,
        block_size=1 << 17,
        bloom_columns=("NAME", "nothing"),
    )
    file = opened(data)
    facts = acid_facts(file)
    assert done.stripes == len(file.tail.stripes) == len(facts.stripes) > 1
    assert (facts.key_index.state, facts.ordered) == ("matches", True)
    post = file.tail.postscript
    assert (post.compression.name.lower(), file.tail.row_index_stride) == (codec, 5000)
    assert codec == "none" or post.block_size == 1 << 17
    filters = {s.column for f in file.stripe_footers() for s in f.streams if s.kind is StreamKind.BLOOM_FILTER_UTF8}
    assert filters == {8}
    assert {footer.time_zone for footer in file.stripe_footers()} <= {"GMT", "UTC"}
    assert file.tail.calendar is Calendar.PROLEPTIC_GREGORIAN
    assert (file.dialect, file.tail.metadata_value("acidctl.target")) == (Dialect.HIVE3, b"hive3")
    assert file.key_range() == (RowId(1, 536870912, 0), RowId(1, 536870912, rows - 1))
    assert [row["row"][1] for row in read_all(data)] == plain(names)


@pytest.mark.parametrize("codec", ["zlib", "zstd", "none"])
def test_the_largest_block_size_is_written(codec: str) -> None:
    """A table may ask for nearly 8 MiB (`orc.compress.size`); the C++ writer would end the process at 8 MiB."""
    batch = EventBatch(keys(3), (pa.array([1, 2, 3], pa.int32()),))
    data, _ = written([batch], columns_of("struct<a:int>"), compression=codec, block_size=(1 << 23) - 1)
    assert opened(data).rows == 3


def test_bloom_filters_do_not_depend_on_the_backend() -> None:
    """Text that goes through pyorc as binary is in its filter as text is."""
    columns = columns_of("struct<s:string,c:char(4),v:varchar(9),l:array<int>,b:boolean>")
    texts = pa.array([f"{i}" for i in range(500)])
    lists, flags = pa.array([[1]] * 500, pa.list_(pa.int32())), pa.array([True] * 500)
    batch = EventBatch(keys(500), (texts, texts, texts, lists, flags))
    found = []
    for backend in BACKENDS:
        data, _ = written([batch], columns, backend=backend, bloom_columns=columns.names)
        file = opened(data)
        (footer,) = file.stripe_footers()
        found.append([read_column_index(io.BytesIO(data), file.tail, footer, i).filters for i in range(13)])
    assert found[0] == found[1]
    assert [i for i, filters in enumerate(found[0]) if filters] == [7, 8, 9]
    of_text = found[0][7]
    assert of_text is not None
    assert of_text[0].set_count > 1000


@both
def test_no_row_index(backend: Backend) -> None:
    """A stride of 0 is what the footer says."""
    data = check(
        "struct<id:int>", [pa.array(range(30_000), pa.int32())], backend, row_index_stride=0, compression="none"
    )
    assert opened(data).tail.row_index_stride == 0


def test_target_decides_the_dialect() -> None:
    """Files for Hive 4 too; without the key a file counts as Hive 4's."""
    for target, dialect in ((b"hive4", Dialect.HIVE4), (b"hive3", Dialect.HIVE3), (b"hive9", Dialect.HIVE4)):
        data, _ = written([], columns_of("struct<id:int>"), metadata={"acidctl.target": target})
        assert opened(data).dialect is dialect
    assert opened(written([], columns_of("struct<id:int>"))[0]).dialect is Dialect.HIVE4


def test_names_of_any_kind() -> None:
    """Dots, blanks, equal names, letters of every script."""
    columns = columns_of("struct<`a.b`:int,`a b`:int,`日`:struct<`x.y`:int,X:int>>")
    inner = pa.StructArray.from_arrays([pa.array([1], pa.int32())] * 2, ["p", "q"])
    one = pa.array([1], pa.int32())
    for backend in BACKENDS:
        data, _ = written([EventBatch(keys(1), (one, one, inner))], columns, backend=backend)
        assert opened(data).columns == columns
        twice = StructType((columns.fields[0], columns.fields[0]))
        data, _ = written([EventBatch(keys(1), (one, one))], twice, backend=backend)
        assert opened(data).columns == twice


class Refusing(io.RawIOBase):
    """A file on a full disk; takes a few bytes at a time before."""

    def __init__(self, room: int) -> None:
        super().__init__()
        self.room = room
        self.taken = bytearray()

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        part = bytes(data[:1000])
        self.room -= len(part)
        if self.room < 0:
            raise OSError(28, "No space left on device")
        self.taken += part
        return len(part)


@both
@pytest.mark.parametrize("room", [0, 2, 20_000, 60_000])
def test_a_sink_that_fails(backend: Backend, room: int) -> None:
    """Its own error comes out, whenever it happens."""
    columns = columns_of("struct<id:int,v:string>")
    values = pa.array([f"{i * 7919}" for i in range(8000)])
    batch = EventBatch(keys(8000), (pa.array(range(8000), pa.int32()), values))
    whole, _ = written([batch], columns, backend=backend, stripe_size=1 << 13)
    sink = Refusing(len(whole) - 1 if room == 60_000 else room)
    settings = replace(SETTINGS, stripe_size=1 << 13)
    pieces = (batch.slice(start, start + 1000) for start in range(0, 8000, 1000))
    with pytest.raises(OSError, match="No space left"):
        write_orc(cast(BinaryIO, sink), pieces, columns, settings, acid=True, metadata={}, backend=backend)


@both
def test_a_sink_that_takes_little_at_a_time(backend: Backend) -> None:
    """Raw files may write less than they are given; the file is the same."""
    columns = columns_of("struct<id:int>")
    batch = EventBatch(keys(9000), (pa.array(range(9000), pa.int32()),))
    whole, _ = written([batch], columns, backend=backend)
    sink = Refusing(1 << 20)
    file = write_orc(cast(BinaryIO, sink), [batch], columns, SETTINGS, acid=True, metadata={}, backend=backend)
    assert file.bytes == len(whole)
    assert bytes(sink.taken) == whole
    assert not sink.closed


def test_unknown_codec() -> None:
    """A plan from elsewhere may name any."""
    with pytest.raises(UsageError, match="'lzo' is unknown"):
        written([], columns_of("struct<id:int>"), compression="lzo")


LEAVES = {
    "int": st.integers(-(1 << 31), (1 << 31) - 1),
    "string": st.text(st.characters(codec="utf-8"), max_size=5),
    "binary": st.binary(max_size=5),
    "double": st.floats(),
    "decimal(30,3)": st.integers(1 - 10**30, 10**30 - 1).map(lambda i: Decimal(i).scaleb(-3, Context(prec=40))),
    "boolean": st.booleans(),
}
TYPES = st.recursive(
    st.sampled_from(sorted(LEAVES)),
    lambda inner: st.one_of(
        inner.map(lambda t: f"array<{t}>"),
        inner.map(lambda t: f"map<int,{t}>"),
        st.lists(inner, min_size=1, max_size=3).map(
            lambda ts: "struct<" + ",".join(f"f{i}:{t}" for i, t in enumerate(ts)) + ">"
        ),
    ),
    max_leaves=5,
)


def values_of(kind: Any) -> st.SearchStrategy[Any]:
    """Values of a Hive type as Arrow takes them, NULL at every level."""
    inner: st.SearchStrategy[Any]
    if isinstance(kind, StructType):
        inner = st.fixed_dictionaries({field.name: values_of(field.type) for field in kind.fields})
    elif hasattr(kind, "element"):
        inner = st.lists(values_of(kind.element), max_size=3)
    elif hasattr(kind, "value"):
        inner = st.lists(st.tuples(st.integers(0, 5), values_of(kind.value)), max_size=3)
    else:
        inner = LEAVES[str(kind)]
    return st.none() | inner


@st.composite
def tables(draw: st.DrawFn) -> tuple[str, list[pa.Array]]:
    """Columns and their values, at times as a slice of something longer."""
    columns = columns_of(
        "struct<" + ",".join(f"c{i}:{t}" for i, t in enumerate(draw(st.lists(TYPES, min_size=1, max_size=3)))) + ">"
    )
    rows = draw(st.integers(1, 12))
    start = draw(st.integers(0, 2))
    arrays = [
        pa.array(
            draw(st.lists(values_of(f.type), min_size=rows + start, max_size=rows + start)), arrow_type(f.type)
        ).slice(start)
        for f in columns.fields
    ]
    return str(columns), arrays


@both
@hypothesis_settings(max_examples=20, deadline=None)
@given(table=tables())
@pytest.mark.slow
def test_any_table(table: tuple[str, list[pa.Array]], backend: Backend) -> None:
    """Whatever the nesting and the values."""
    check(*table, backend, compression="zlib")


@pytest.mark.slow
@both
@hypothesis_settings(max_examples=amount(600, swept=600), deadline=None)
@given(table=tables(), codec=st.sampled_from(["none", "zlib", "snappy", "lz4", "zstd"]))
def test_any_table_at_length(table: tuple[str, list[pa.Array]], codec: str, backend: Backend) -> None:
    """More of the same, with every codec."""
    check(*table, backend, compression=codec)


def test_stripes_are_as_large_as_asked_for() -> None:
    """Also below what a backend is given at once; what the next compaction may copy depends on it."""
    rows, width = 40_000, 72
    values = np.random.default_rng(1).integers(0, 1 << 60, rows)
    batch = EventBatch(keys(rows), (pa.array(values), pa.array([f"{value:064x}" for value in values])))
    for size in (1 << 18, 1 << 20):
        data, done = written([batch], columns_of("struct<a:bigint,s:string>"), stripe_size=size, compression="zlib")
        assert size / 3 < rows * width / done.stripes < size * 1.5
        assert [row["row"][0] for row in read_all(data)[:: rows - 1]] == values[:: rows - 1].tolist()


def test_one_old_moment_costs_a_piece() -> None:
    """What Arrow would change is written value by value, its neighbours are not, and text keeps its bounds."""
    rows, columns = 9000, columns_of("struct<t:timestamp,s:string,c:char(4)>")

    def batch(place: int, moment: int, word: bytes = b"\xc3\xa9\0") -> EventBatch:
        moments = np.arange(rows, dtype=np.int64) * 10**9
        moments[7] = moment
        words = pa.array([b"%05d" % (place * rows + i) + word for i in range(rows)]).view(pa.string())
        return EventBatch(
            keys(rows, start=place * rows), (pa.array(moments, pa.timestamp("ns")), words, pa.array(["ab"] * rows))
        )

    old = -1_500_000_001
    events = [batch(0, 0), batch(1, 0), batch(2, old), batch(3, 1), batch(4, old, b"\xff"), batch(5, 0)]
    runs = [(backend, sum(map(len, run))) for backend, run in divided(events, columns, SETTINGS.stripe_size)]
    arrow, text, exact = Backend.ARROW, Backend.TEXT, Backend.EXACT
    assert runs == [(arrow, 2 * rows), (text, rows), (arrow, rows), (exact, rows), (arrow, rows)]
    for count, bounded in ((4, True), (6, False)):
        sink = io.BytesIO()
        done = write_exactly(sink, events[:count], columns, SETTINGS, {"k": b"v"}, Operation.INSERT)
        assert (done.rows, done.backend, opened(sink.getvalue()).tail.metadata_value("k")) == (
            count * rows,
            exact,
            b"v",
        )
        want = [row for one in events[:count] for row in zip(*map(plain, one.columns), strict=True)]
        assert [row["row"] for row in read_all(sink.getvalue())] == [(t, s, c) for t, s, c in want]
        stated = [opened(sink.getvalue()).tail.statistics[column].of(StatisticsKind.STRING) for column in (8, 9)]
        assert all(one is not None for one in stated) is bounded
        if bounded and stated[0] is not None and stated[1] is not None:
            assert (stated[0].minimum, stated[0].maximum) == ("00000\u00e9\0", "35999\u00e9\0")
            assert (stated[1].minimum, stated[1].maximum) == ("ab  ", "ab  ")
