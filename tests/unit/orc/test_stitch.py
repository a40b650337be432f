"""Files joined stripe by stripe: the same rows, keys and statistics as one file of everything."""

from __future__ import annotations

import errno
import io
import os
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from functools import partial
from pathlib import Path
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyorc
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from acidctl.errors import InternalError
from acidctl.format.events import RowId
from acidctl.orc.protobuf import Message, block, number, zigzagged
from acidctl.orc.reader import open_orc
from acidctl.orc.stats import (
    ColumnStatistics,
    StatisticsKind,
    ValueStatistics,
    merged_statistics,
    parse_statistics,
)
from acidctl.orc.stitch import (
    Obstacle,
    Stitcher,
    StoredStripe,
    StripeRun,
    mismatch,
    obstacle_of_stripe,
    postscript_of,
    stitch,
)
from acidctl.orc.stripe import encoded_statistics
from acidctl.orc.tail import Calendar, Tail
from acidctl.orc.writer import Backend, physical_of
from acidctl.rows.file_report import acid_facts
from acidctl.storage.local import TAKEN_BYTES, LocalStorage
from acidctl.storage.prefetch import RangedFile, Tuning
from tests.support.orc_events import SETTINGS, EventBatch, keys, read_all, written
from tests.support.orc_mutations import encoded, parsed
from tests.unit.orc.test_writer import columns_of

COLUMNS = columns_of("struct<id:int,v:string,x:double,d:decimal(20,2),t:timestamp,l:array<int>,b:boolean,day:date>")


def events(start: int, rows: int) -> EventBatch:
    """Some events with a value of every kind that has statistics of its own."""
    numbers = range(start, start + rows)
    columns = (
        pa.array([None if i % 5 == 0 else i for i in numbers], pa.int32()),
        pa.array([f"v{i * 7919 % 1000}" for i in numbers]),
        pa.array([i / 8 - 100 for i in numbers]),
        pa.array([i * 100 for i in numbers]).cast(pa.decimal128(20, 0)).cast(pa.decimal128(20, 2)),
        pa.array([i * 10**14 + 1 for i in numbers]).cast(pa.timestamp("ns")),
        pa.array([[1] * (i % 3) for i in numbers], pa.list_(pa.int32())),
        pa.array([i % 3 == 0 for i in numbers]),
        pa.array([i - 500 for i in numbers], pa.int32()).cast(pa.date32()),
    )
    return EventBatch(keys(rows, start=start), columns)


def run(data: bytes, stripes: tuple[int, ...] | None = None) -> StripeRun:
    """All or some stripes of a file in memory."""
    whole = StripeRun.whole(io.BytesIO(data), name="part")
    return StripeRun(whole.file, whole.tail, stripes)


def joined(runs: Sequence[StripeRun]) -> bytes:
    """The stitched bytes."""
    sink = io.BytesIO()
    done = stitch(sink, runs)
    data = sink.getvalue()
    assert (done.bytes, done.backend) == (len(data), Backend.COPY)
    assert data[-4:-1] == b"ORC"
    return data


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_the_same_as_written_at_once(codec: str) -> None:
    """Rows, key index, counts and all statistics; pyorc reads it too."""
    write = partial(written, columns=COLUMNS, compression=codec, stripe_size=1 << 14)
    parts = [write([events(i * 500, 500)])[0] for i in range(3)]
    whole, _ = write([events(0, 1500)])
    data = joined([run(part) for part in parts])
    mine, other = open_orc(io.BytesIO(data), name="f"), open_orc(io.BytesIO(whole), name="f")
    assert read_all(data) == read_all(whole)
    facts = acid_facts(mine)
    assert facts.stats is not None
    assert (facts.key_index.state, facts.stats["insert"], facts.ordered) == ("matches", 1500, True)
    assert len(mine.tail.stripes) == sum(len(run(part).tail.stripes) for part in parts) >= 3
    for found, meant in zip(mine.tail.statistics, other.tail.statistics, strict=True):
        assert comparable(found) == comparable(meant)
    assert [len(s) for s in mine.stripe_statistics()] == [len(mine.tail.types)] * len(mine.tail.stripes)
    assert list(pyorc.Reader(io.BytesIO(data))) == list(pyorc.Reader(io.BytesIO(whole)))


def test_stripes_are_copied_byte_for_byte() -> None:
    """Also when only some are taken; the rest of the file is that of the chosen ones."""
    columns = columns_of("struct<id:int>")

    def numbers(start: int, rows: int) -> EventBatch:
        return EventBatch(keys(rows, start=start), (pa.array(range(start, start + rows), pa.int32()),))

    data, _ = written([numbers(i * 9000, 9000) for i in range(3)], columns, stripe_size=1 << 10, compression="none")
    source = run(data)
    assert [stripe.rows for stripe in source.tail.stripes] == [9000] * 3
    other, done = written([numbers(30_000, 500)], columns, stripe_size=1 << 10, compression="none")
    result = joined([run(data, (1,)), run(other)])
    file = open_orc(io.BytesIO(result), name="f")
    stripe, old = file.tail.stripes[0], source.tail.stripes[1]
    assert result[stripe.offset : stripe.end] == data[old.offset : old.end]
    assert file.tail.rows == 9500
    facts = acid_facts(file)
    assert facts.stats is not None
    assert (facts.key_index.state, facts.stats["insert"]) == ("matches", 9500)
    assert file.key_range() == (RowId(1, 536870912, 9000), RowId(1, 536870912, 30_499))
    assert done.first_key == RowId(1, 536870912, 30_000)
    assert [row["row"][0] for row in read_all(result)] == [*range(9000, 18_000), *range(30_000, 30_500)]


@pytest.mark.parametrize("refusal", [None, errno.EXDEV, errno.ENOSYS])
def test_local_files_are_copied_by_the_kernel(
    refusal: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without their bytes passing through this process, nor a hash; where it refuses, they pass through."""
    part = written([events(0, 60_000)], COLUMNS, compression="none", stripe_size=1 << 20)[0]
    (tmp_path / "part").write_bytes(part)
    by_kernel: list[int] = []

    def copied(source: int, target: int, count: int, offset: int) -> int:
        if refusal is not None:
            raise OSError(refusal, "no")
        # Never more than a part of what is asked for.
        by_kernel.append(os_copy(source, target, min(count, 50_000), offset))
        return by_kernel[-1]

    os_copy = os.copy_file_range
    monkeypatch.setattr(os, "copy_file_range", copied)
    storage = LocalStorage()
    with storage.open(str(tmp_path / "part")) as file, storage.create(str(tmp_path / "whole")) as sink:
        run = StripeRun.whole(file, name="part")
        statistics = encoded_statistics(file, run.tail)
        stitcher = Stitcher(sink, run.tail, postscript_of(file, run.tail))
        for index in run.numbers:
            one = StoredStripe(file, run.tail, index, statistics[index])
            large = run.tail.stripes[index].end - run.tail.stripes[index].offset >= TAKEN_BYTES
            assert stitcher.copy(one, None) == (None if large and not refusal else one.fingerprint())
        stitcher.finish({})
    assert len(run.numbers) > 4
    sizes = [stripe.end - stripe.offset for stripe in run.tail.stripes]
    assert sum(by_kernel) == (0 if refusal else sum(size for size in sizes if size >= TAKEN_BYTES))
    assert (tmp_path / "whole").read_bytes()[: run.tail.stripes[-1].end] == part[: run.tail.stripes[-1].end]
    assert StripeRun.whole(io.BytesIO((tmp_path / "whole").read_bytes()), name="whole").rows == 60_000


def test_the_block_size_is_that_of_the_largest() -> None:
    """Readers take it for the most that a chunk inflates to: that of the first file would be too little."""
    small, _ = written([events(0, 3000)], COLUMNS, compression="zlib", block_size=1 << 16)
    large, _ = written([events(3000, 50_000)], COLUMNS, compression="zlib", block_size=1 << 18)
    first, second = run(small), run(large)
    assert (first.tail.postscript.block_size, second.tail.postscript.block_size) == (1 << 16, 1 << 18)
    sink = io.BytesIO()
    stitcher = Stitcher(sink, first.tail, postscript_of(io.BytesIO(small), first.tail), block_size=1 << 18)
    for data, one in ((small, first), (large, second)):
        statistics = encoded_statistics(io.BytesIO(data), one.tail)
        for index in one.numbers:
            stitcher.copy(StoredStripe(io.BytesIO(data), one.tail, index, statistics[index]), None)
    stitcher.finish({})
    joined = sink.getvalue()
    assert open_orc(io.BytesIO(joined), name="f").tail.postscript.block_size == 1 << 18
    assert list(pyorc.Reader(io.BytesIO(joined))) == [
        *pyorc.Reader(io.BytesIO(small)),
        *pyorc.Reader(io.BytesIO(large)),
    ]


@pytest.mark.parametrize(
    ("days", "moments", "copied"),
    [
        (0, 0, True),
        (-141_427, -141_426, True),  # 1582-10-15, and a day more for whatever zone was meant
        (-141_428, 0, False),
        (0, -141_427, False),
        (None, None, True),
    ],
)
def test_old_days_of_the_hybrid_calendar_are_not_copied(days: int | None, moments: int | None, copied: bool) -> None:
    """They would be other days under the claims of a new file."""
    columns = columns_of("struct<day:date,t:timestamp>")
    first = None if moments is None else 0
    values = (
        pa.array([days, None], pa.int32()).cast(pa.date32()),
        pa.array([first, None], pa.int64()).cast(pa.timestamp("ns")),
    )
    data, _ = written([EventBatch(keys(2), values)], columns, compression="none")
    orc = open_orc(io.BytesIO(data), name="f")
    physical = physical_of(SETTINGS, orc.tail.types, acid=True)
    (statistics,) = encoded_statistics(io.BytesIO(data), orc.tail)
    hybrid = replace(orc.tail, calendar=Calendar.JULIAN_GREGORIAN)

    def obstacle(tail: Tail, statistics: bytes) -> Obstacle | None:
        return obstacle_of_stripe(tail, 0, orc.stripe_footers()[0], statistics, physical)

    assert obstacle(orc.tail, statistics) is None
    fields = parsed(statistics, {1: {9: {}}})
    bounds = next((field for field in fields[-1].value if field.number == 9), None)
    if moments is None or bounds is None:
        assert obstacle(hybrid, statistics) is None
        return
    for bound in bounds.value:
        if bound.number == 3:
            bound.value = zigzagged(moments * 86_400_000)
    assert obstacle(hybrid, encoded(fields)) is (None if copied else Obstacle.CALENDAR)
    # Hive 2 and 3 write no bounds in UTC.
    bounds.value = [bound for bound in bounds.value if bound.number not in (3, 4)]
    assert obstacle(hybrid, encoded(fields)) is Obstacle.CALENDAR
    fields[-1].value.remove(bounds)
    assert obstacle(hybrid, encoded(fields)) is Obstacle.CALENDAR


def test_adjacent_stripes_come_in_few_requests() -> None:
    """From a server: the stripes that are copied are read one behind the other, as one long range."""
    data, done = written([events(i * 500, 500) for i in range(40)], COLUMNS, stripe_size=1 << 17, compression="none")
    assert done.stripes > 4
    requests: list[int] = []

    def read_at(offset: int, length: int) -> bytes:
        requests.append(length)
        return data[offset : offset + length]

    tail = run(data).tail
    statistics = encoded_statistics(io.BytesIO(data), tail)
    with RangedFile(read_at, len(data), name="f", tuning=Tuning(whole=0, first=4096)) as file:
        stitcher = Stitcher(io.BytesIO(), tail, b"")
        for index in range(done.stripes):
            stitcher.copy(StoredStripe(file, tail, index, statistics[index]), None)
    assert len(requests) <= 3
    assert sum(requests) < len(data) * 1.1


def test_parts_without_rows() -> None:
    """An empty part adds nothing, wherever it stands, and only empty ones make an empty file."""
    empty, _ = written([], COLUMNS)
    full, _ = written([events(0, 100)], COLUMNS)
    for parts in ([empty, full], [full, empty], [empty, full, empty]):
        assert read_all(joined([run(part) for part in parts])) == read_all(full)
    nothing = joined([run(empty), run(empty)])
    assert read_all(nothing) == []
    assert list(pyorc.Reader(io.BytesIO(nothing))) == []


def test_both_backends_join() -> None:
    """Parts that different libraries wrote stand in one file."""
    one, _ = written([events(0, 100)], COLUMNS)
    two, _ = written([events(100, 100)], COLUMNS, backend=Backend.EXACT)
    data = joined([run(one), run(two)])
    assert read_all(data) == read_all(written([events(0, 200)], COLUMNS)[0])


def test_what_does_not_fit_is_refused() -> None:
    """Other columns, codecs and block sizes."""
    base, _ = written([events(0, 10)], COLUMNS)
    other, _ = written([events(0, 10)], COLUMNS, compression="zstd")
    assert mismatch(run(base).tail, run(other).tail) == "are compressed differently"
    with pytest.raises(InternalError, match="compressed differently"):
        joined([run(base), run(other)])
    narrow, _ = written([EventBatch(keys(1), (pa.array([1], pa.int32()),))], columns_of("struct<id:int>"))
    assert mismatch(run(base).tail, run(narrow).tail) == "have different columns"


def statistics(kind: str, values: Sequence[object]) -> bytes:
    """The encoded statistics that ORC's writer makes of a column."""
    file = io.BytesIO()
    with pyorc.Writer(file, f"struct<c:{kind}>") as writer:
        writer.writerows((value,) for value in values)
    return list(Message(run(file.getvalue()).tail.footer).blobs(7))[1]


KINDS = {
    "bigint": st.one_of(st.integers(-(1 << 63), (1 << 63) - 1), st.integers(-5, 5)),
    "double": st.floats(-1e9, 1e9).map(lambda x: float(round(x))),
    "string": st.text(max_size=4),
    "boolean": st.booleans(),
    "decimal(38,3)": st.decimals(-(10**9), 10**9, places=3),
    "date": st.dates(),
    "timestamp": st.datetimes(timezones=st.just(ZoneInfo("UTC"))).filter(lambda t: t.year > 1970),
    "binary": st.binary(max_size=4),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@hypothesis_settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_merged_statistics(kind: str, data: st.DataObject) -> None:
    """Merging what ORC says of parts gives what it says of the whole."""
    values = st.lists(st.one_of(st.none(), KINDS[kind]), max_size=6)
    one, two = data.draw(values), data.draw(values)
    merged = parse_statistics(Message(merged_statistics([statistics(kind, one), statistics(kind, two)])))
    whole = parse_statistics(Message(statistics(kind, [*one, *two])))
    if (part := merged.of(StatisticsKind.INTEGER)) and (sums := whole.of(StatisticsKind.INTEGER)):
        # Whether a sum overflows on the way depends on the order; a part without one leaves the whole without any.
        assert part.sum in (None, sums.sum) or sums.sum is None
        merged = replace(merged, values=replace(part, sum=None))
        whole = replace(whole, values=replace(sums, sum=None))
    assert comparable(merged) == comparable(whole)


def comparable(statistics: ColumnStatistics) -> tuple[object, ...]:
    """What has to agree; a decimal sum may end in zeros."""
    values = statistics.values
    if values is not None and values.kind is StatisticsKind.DECIMAL and values.sum is not None:
        values = replace(values, sum=str(Decimal(values.sum).normalize()))
    return statistics.count, statistics.has_null, values


def test_unknown_statistics_stay_unknown() -> None:
    """A part that does not say its bounds leaves the whole without any: readers would skip rows."""
    known = statistics("string", ["a", "b"])
    silent = statistics("binary", [b"a"])
    merged = parse_statistics(Message(merged_statistics([known, silent])))
    assert (merged.count, merged.values) == (3, None)


def test_merged_statistics_of_lists() -> None:
    """Those of the C++ writer depend on whether there are NULLs, so they are made by hand."""

    def lists(low: int, high: int, total: int) -> bytes:
        return number(1, 4) + block(12, number(1, low) + number(2, high) + number(3, total))

    merged = parse_statistics(Message(merged_statistics([lists(1, 3, 8), lists(0, 2, 5)])))
    assert (merged.count, merged.values) == (8, ValueStatistics(StatisticsKind.COLLECTION, 0, 3, 13))
    silent = number(1, 4) + block(12, number(3, 7))
    merged = parse_statistics(Message(merged_statistics([lists(1, 3, 8), silent])))
    assert merged.values == ValueStatistics(StatisticsKind.COLLECTION, None, None, 15)
