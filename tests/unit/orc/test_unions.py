"""Unions of any form are written by the exact backend as they were given, and as ORC's own writer would put them."""

from __future__ import annotations

import io
from functools import partial
from itertools import cycle, islice
from typing import Any

import numpy as np
import pyarrow as pa
import pyorc
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from acidctl.compaction.verify import IndexCheck
from acidctl.errors import InternalError, VerificationError
from acidctl.orc import writer
from acidctl.orc.arrow_writer import StripeSink
from acidctl.orc.protobuf import Message
from acidctl.orc.stripe import (
    EncodingKind,
    StreamKind,
    each_stripe,
    moved_positions,
    read_column_index,
    recorded,
)
from acidctl.orc.tail import OrcKind
from acidctl.orc.writer import Backend, NeedsExactWriter
from acidctl.types.hive_types import HiveType, ListType, MapType, StructType, UnionType
from acidctl.types.schema import parse_type
from tests.support.extent import amount
from tests.support.orc_events import EventBatch, keys, plain, read_all, written
from tests.unit.orc.test_stripe_sink import indexes
from tests.unit.orc.test_writer import LEAVES, check, columns_of, made, opened, union

UNION = "uniontype<int,string,double,array<string>>"
VALUES: list[tuple[int, Any] | None] = [(0, 7), (1, "x"), (3, ["a", None]), (2, 0.5), (1, ""), (3, []), (0, -1)]
HOLES = [*VALUES, None, (0, None), (3, None), None, (2, None)]
# Alternatives of one type, of types whose values Python does not tell apart, and unions in unions.
SAME = "uniontype<string,varchar(3),string,binary,boolean,int,bigint>"
SAMES = [(0, "a"), (1, "a"), None, (2, "a"), (3, b"a"), (2, None), (4, True), (5, 1), (6, 1), (4, None), (1, None)]
DEEP = f"uniontype<{UNION},array<{UNION}>,map<int,{UNION}>,struct<u:{UNION},i:int>,uniontype<int>>"
DEEPS = [
    *((0, value) for value in HOLES),
    (1, HOLES[:4]),
    (1, [None]),
    (1, []),
    (1, None),
    None,
    (2, [(1, None), (2, (1, "m")), (3, (0, None))]),
    (3, (HOLES[3], 1)),
    (3, (None, 2)),
    (3, None),
    (4, (0, 5)),
    (4, None),
]
KEYS = [(0, 1), (1, 1), (2, "x"), (0, None)]
SHAPES: dict[str, tuple[str, list[Any]]] = {
    "null": (UNION, HOLES),
    "none null": (UNION, VALUES),
    "all null": (UNION, [None, None, None]),
    "one tag": (UNION, [(1, "x"), (1, None), (1, "yy")]),
    "same types": (SAME, SAMES),
    "below a struct": (
        f"struct<u:{UNION},i:int,s:struct<u:{UNION}>>",
        [None, *((value, i, (value,) if i % 3 else None) for i, value in enumerate(HOLES)), None],
    ),
    "in arrays": (f"array<{UNION}>", [HOLES[:i] for i in range(8)] + [None, [], [None], HOLES]),
    "in maps": (f"map<string,{UNION}>", [[(str(i), v) for i, v in enumerate(HOLES[:n])] for n in range(9)] + [None]),
    "as keys": (
        "map<uniontype<int,int,string>,int>",
        [[(v, i) for i, v in enumerate(KEYS[:n])] for n in range(5)] + [None],
    ),
    "in unions": (DEEP, DEEPS),
}
every_shape = pytest.mark.parametrize("shape", SHAPES)


def shaped(shape: str, rows: int) -> tuple[str, pa.Array]:
    """The type of a shape and so many of its values, over and over."""
    kind, values = SHAPES[shape]
    return kind, made(parse_type(kind), list(islice(cycle(values), rows)))


def held_to_its_index(data: bytes) -> None:
    """Statistics of all levels and positions are those of the rows."""
    file = opened(data)
    index = IndexCheck(file, io.BytesIO(data), lambda text: VerificationError(text))
    row = file.tail.types[0].subtypes[-1]
    for batch in file.scan():
        rows = batch.column(batch.num_columns - 1)
        # What lies below the NULL row of a delete is nobody's value.
        columns = [] if rows.null_count else [rows.field(i) for i in range(rows.type.num_fields)]
        index.add(list(zip(file.tail.types[row].subtypes, columns, strict=False)), len(batch))
    index.finish()


def sought(data: bytes, stride: int) -> None:
    """ORC's reader finds the rows at and around the beginning of every row group, each by a seek from the start."""
    rows = list(pyorc.Reader(io.BytesIO(data)))
    for number in range(pyorc.Reader(io.BytesIO(data)).num_of_stripes):
        stripe = pyorc.Reader(io.BytesIO(data)).read_stripe(number)
        for row in sorted({*range(0, len(stripe), stride), *range(stride - 1, len(stripe), stride)}):
            fresh = pyorc.Reader(io.BytesIO(data)).read_stripe(number)
            fresh.seek(row)
            assert fresh.read(3) == rows[fresh.row_offset :][row : min(row + 3, len(stripe))]


@pytest.mark.slow
@every_shape
def test_every_shape(shape: str) -> None:
    """As it was given, in a slice too, beyond a batch of pyorc's, in many stripes and row groups."""
    kind, array = shaped(shape, 2500)
    text = f"struct<a:binary,c:{kind},b:binary>"
    chance = np.random.default_rng(7)
    noise = pa.array([chance.bytes(100) for _ in range(2500)])
    columns = [noise, array, noise]
    check(text, [column.slice(3, 40) for column in columns], Backend.EXACT)
    forms = (("none", 1 << 12, 3), ("zstd", 1 << 12, 3), ("none", 1 << 24, 1), ("zlib", 1 << 24, 1))
    for codec, size, stripes in forms:
        options = {"compression": codec, "stripe_size": size, "block_size": 1 << 16, "row_index_stride": 300}
        data = check(text, columns, Backend.EXACT, **options)
        assert len(opened(data).tail.stripes) == stripes
        held_to_its_index(data)
        sought(data, 300)


@pytest.mark.slow
@every_shape
def test_deletes_beside_inserts(shape: str) -> None:
    """The row of a delete is NULL, and with it every union in it."""
    kind, array = shaped(shape, 3000)
    operations = np.resize([0, 2, 2, 0, 1], 3000).tolist()
    columns = columns_of(f"struct<c:{kind}>")
    batch = EventBatch(keys(3000, operation=operations), (array,))
    data, _ = written([batch], columns, backend=Backend.EXACT, stripe_size=1 << 12, row_index_stride=300)
    expected = [None if op == 2 else (value,) for op, value in zip(operations, plain(array), strict=True)]
    assert [row["row"] for row in read_all(data)] == expected
    held_to_its_index(data)
    sought(data, 300)


def test_files_of_deletes() -> None:
    """They come without columns. Arrow's writer would end the process over a union below a NULL row."""
    columns = columns_of("struct<" + ",".join(f"c{i}:{kind}" for i, (kind, _) in enumerate(SHAPES.values())) + ">")
    deletes = [EventBatch(keys(3000, operation=2))]
    with pytest.raises(NeedsExactWriter):
        written(deletes, columns)
    data, _ = written(deletes, columns, backend=Backend.EXACT)
    assert opened(data).columns == columns
    assert [row["row"] for row in read_all(data)] == [None] * 3000
    held_to_its_index(data)


def test_arrays_that_are_longer_than_a_batch() -> None:
    """pyorc's own unions have room for one value per row."""
    kind = f"array<{UNION}>"
    values = [[], list(islice(cycle(HOLES), 5000)), None, list(islice(cycle(HOLES), 3000))]
    check(f"struct<c:{kind}>", [made(parse_type(kind), values)], Backend.EXACT)


def test_keys_that_are_equal_or_have_no_hash() -> None:
    """A map of the file is a list of pairs."""
    values = [[(key, i) for i, key in enumerate(VALUES * 2)], None, [((3, ["a"]), 1)]]
    check(f"struct<m:map<{UNION},int>>", [made(parse_type(f"map<{UNION},int>"), values)], Backend.EXACT)


def test_without_row_indexes() -> None:
    """Nothing is counted then, and no stream is of an index."""
    file = opened(check(f"struct<u:{DEEP}>", [made(parse_type(DEEP), DEEPS * 200)], Backend.EXACT, row_index_stride=0))
    (footer,) = file.stripe_footers()
    assert not [stream for stream in footer.streams if stream.kind is StreamKind.ROW_INDEX]


def test_null_unions_above_and_below_a_struct() -> None:
    """Arrow's arrays have a struct in the slots of NULL unions too, below which the file holds nothing."""
    kind = "uniontype<int,struct<v:uniontype<int,string>>>"
    values = [(1, ((1, "x"),)), None, (1, (None,)), (0, 1), None, (1, ((1, "y"),))]
    check(f"struct<u:{kind}>", [union(kind, values)], Backend.EXACT)


def test_arrow_takes_unions_without_null() -> None:
    """Alternatives may be NULL, the unions not; whole and in slices."""
    text = f"struct<u:{UNION}>"
    check(text, [union(UNION, [*VALUES, (0, None), (1, None)])], Backend.ARROW)
    check(text, [union(UNION, [(0, 1), *VALUES]).slice(1)], Backend.ARROW)
    with pytest.raises(NeedsExactWriter):
        check(text, [union(UNION, HOLES)], Backend.ARROW)


@pytest.mark.slow
def test_byte_for_byte_as_orc_writes_unions() -> None:
    """Where ORC's C++ writer can be trusted with unions: streams, encodings, statistics, positions.

    Without text, for which the exact backend keeps other statistics.
    """
    kind = parse_type("uniontype<int,double,array<int>,struct<a:bigint,b:uniontype<int,int>>>")
    values = [(0, 7), (1, 0.5), (2, [1, None]), (3, (5, (1, 6))), (0, None), (2, []), (3, (None, (0, None))), (1, None)]
    union = made(kind, values * 1000)
    numbers = pa.array(range(len(union)))
    lists = pa.ListArray.from_arrays(pa.array(np.minimum(np.arange(len(union) + 1) * 3, len(union)), pa.int32()), union)
    structs = pa.StructArray.from_arrays([numbers, union], ["i", "u"])
    text = f"struct<u:{kind},s:struct<i:bigint,u:{kind}>,l:array<{kind}>,i:bigint>"
    columns = [union, structs, lists, numbers]
    files = [
        check(text, columns, backend, compression="none", row_index_stride=700, bloom_columns=("i",))
        for backend in (Backend.ARROW, Backend.EXACT)
    ]
    arrow, exact = map(opened, files)
    assert exact.tail.types == arrow.tail.types
    places = [(part.offset, part.index_length, part.data_length, part.rows) for part in arrow.tail.stripes]
    assert [(part.offset, part.index_length, part.data_length, part.rows) for part in exact.tail.stripes] == places
    content = Message(exact.tail.footer)
    assert content.uint(2) == exact.tail.stripes[-1].end - (content.uint(1) or 0)
    assert exact.tail.statistics == arrow.tail.statistics
    by_arrow, by_exact = (
        tuple(each_stripe(io.BytesIO(data), file.tail)) for data, file in zip(files, (arrow, exact), strict=True)
    )
    assert by_exact == by_arrow
    (one,), (other,) = arrow.stripe_footers(), exact.stripe_footers()
    assert other.encodings == one.encodings
    streams = [
        [(stream.kind, stream.column, data[stream.offset : stream.offset + stream.length]) for stream in footer.streams]
        for data, footer in zip(files, (one, other), strict=True)
    ]
    assert streams[0] == streams[1]
    assert list(indexes(files[0])) == list(indexes(files[1]))


def test_statistics_of_null_unions() -> None:
    """At each level the union counts those that are not NULL, its alternatives their own values."""
    data = check(f"struct<u:{UNION}>", [union(UNION, HOLES * 100)], Backend.EXACT, row_index_stride=600)
    file = opened(data)
    (footer,) = file.stripe_footers()
    # The union, its int, string, double and array.
    for column, count, nulls in ((7, 1000, True), (8, 200, True), (9, 200, False), (10, 100, True), (11, 200, True)):
        found = file.tail.statistics[column]
        assert (found.count, found.has_null) == (count, nulls)
        entries = read_column_index(io.BytesIO(data), file.tail, footer, column).entries or ()
        assert [entry.statistics and entry.statistics.count for entry in entries] == [count // 2] * 2


def test_a_null_union_is_counted_apart_from_a_union_of_null() -> None:
    """Statistics of the one do not pass for those of the other."""
    data = check(f"struct<u:{UNION}>", [union(UNION, HOLES)], Backend.EXACT)
    filled: list[tuple[int, Any] | None] = [value or (0, None) for value in HOLES]
    for values in (HOLES, filled):
        index = IndexCheck(opened(data), io.BytesIO(data), lambda text: VerificationError(text))
        if values is HOLES:
            index.add([(7, union(UNION, values))], len(HOLES))
            index.finish()
            continue
        with pytest.raises(VerificationError, match="count 10 values, there are 12"):
            index.add([(7, union(UNION, values))], len(HOLES))


def test_filters_of_the_columns_beside() -> None:
    """Columns after a union are written under other numbers; filters are those of the columns that were asked for."""
    text = f"struct<u:{DEEP},i:int,j:int>"
    columns = [made(parse_type(DEEP), DEEPS), *[pa.array(range(len(DEEPS)), pa.int32())] * 2]
    file = opened(check(text, columns, Backend.EXACT, bloom_columns=("j",)))
    (footer,) = file.stripe_footers()
    filters = [stream.column for stream in footer.streams if stream.kind is StreamKind.BLOOM_FILTER_UTF8]
    assert filters == [len(file.tail.types) - 1]


def test_a_writer_that_puts_files_together_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    """A byte between streams ends the writing."""

    class Odd(StripeSink):
        calls = 0

        def write(self, data: bytes) -> int:  # type: ignore[override]
            self.calls += 1
            super().write(data + (b"x" if self.calls == 20 else b""))
            return len(data)

    monkeypatch.setattr(writer, "StripeSink", Odd)
    with pytest.raises(InternalError, match="no footer"):
        check(f"struct<u:{UNION}>", [union(UNION, HOLES)], Backend.EXACT)


def test_positions_that_are_not_of_a_union() -> None:
    """A layout that is not known is refused, never guessed."""
    union, tags = (recorded(kind, EncodingKind.DIRECT, nulls=True) for kind in (OrcKind.UNION, OrcKind.BYTE))
    index = b"\x0a\x05\x0a\x03\x01\x02\x03"
    places = dict.fromkeys((StreamKind.PRESENT, StreamKind.DATA), lambda offset: (offset,))
    of_tags = b"\x0a\x07\x0a\x05\x04\x05\x06\x07\x08"
    assert moved_positions(index, union, places, (of_tags, tags)) == b"\x0a\x07\x0a\x05\x01\x02\x03\x07\x08"
    for odd in (index, b""):
        with pytest.raises(InternalError, match="tags of"):
            moved_positions(index, union, places, (odd, tags))
    with pytest.raises(InternalError, match="5 positions, which cannot be of DATA"):
        moved_positions(index, union[1:], places, (of_tags, tags))


TYPES = st.recursive(
    st.sampled_from(sorted(LEAVES)),
    lambda inner: st.one_of(
        inner.map(lambda t: f"array<{t}>"),
        st.tuples(inner, inner).map(lambda ts: f"map<{ts[0]},{ts[1]}>"),
        st.lists(inner, min_size=1, max_size=3).map(lambda ts: f"uniontype<{','.join(ts)}>"),
        st.lists(inner, min_size=1, max_size=3).map(
            lambda ts: "struct<" + ",".join(f"f{i}:{t}" for i, t in enumerate(ts)) + ">"
        ),
    ),
    max_leaves=6,
).map(lambda t: f"uniontype<{t},int>")


def values_of(kind: HiveType) -> st.SearchStrategy[Any]:
    """Values of a type as `made` takes them, NULL at every level."""
    inner: st.SearchStrategy[Any]
    if isinstance(kind, StructType):
        inner = st.tuples(*(values_of(field.type) for field in kind.fields))
    elif isinstance(kind, UnionType):
        alternatives = enumerate(kind.alternatives)
        inner = st.one_of(*(st.tuples(st.just(tag), values_of(alternative)) for tag, alternative in alternatives))
    elif isinstance(kind, ListType):
        inner = st.lists(values_of(kind.element), max_size=3)
    elif isinstance(kind, MapType):
        # Arrow has no NULL among the keys of a map.
        inner = st.lists(
            st.tuples(values_of(kind.key).filter(lambda key: key is not None), values_of(kind.value)), max_size=3
        )
    else:
        inner = LEAVES[str(kind)]
    return st.none() | inner


@pytest.mark.slow
@hypothesis_settings(max_examples=amount(300, swept=300), deadline=None)
@given(data=st.data(), codec=st.sampled_from(["none", "zlib", "snappy", "lz4", "zstd"]))
def test_any_union(data: st.DataObject, codec: str) -> None:
    """Whatever the nesting and the values, in events that may be deletes."""
    kind = parse_type(data.draw(TYPES))
    values = data.draw(st.lists(values_of(kind), min_size=1, max_size=12))
    rows = data.draw(st.sampled_from([len(values), 1500]))
    array = made(kind, list(islice(cycle(values), rows)))
    pattern = data.draw(st.lists(st.sampled_from([0, 2]), min_size=1, max_size=5))
    operations = list(islice(cycle(pattern), rows))
    stripe = data.draw(st.sampled_from([1 << 10, 1 << 20]))
    stride = data.draw(st.sampled_from([100, 1024]))
    batch = EventBatch(keys(rows, operation=operations), (array,))
    columns = StructType((columns_of(f"struct<u:{kind}>").fields[0],))
    write = partial(written, backend=Backend.EXACT, compression=codec, stripe_size=stripe, row_index_stride=stride)
    file, _ = write([batch], columns)
    expected = [None if op == 2 else (value,) for op, value in zip(operations, plain(array), strict=True)]
    assert [row["row"] for row in read_all(file)] == expected
    held_to_its_index(file)
