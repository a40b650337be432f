"""Written files are read back: every kind of wrong result is refused, and right ones are not."""

from __future__ import annotations

import gc
import io
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from acidctl.compaction import task, verify
from acidctl.compaction.cross_check import OutputSample
from acidctl.compaction.plan import Role, WriterSettings
from acidctl.compaction.verify import Expected, IndexCheck, verify_file
from acidctl.errors import ExitCode, VerificationError
from acidctl.format.bucket_codec import encode
from acidctl.format.events import WIDE, EventBatch, EventKeys, Operation, keys_of
from acidctl.orc import pyorc_files as secondread
from acidctl.orc.reader import OrcFile, open_orc
from acidctl.orc.stats import StatisticsKind, ValueStatistics
from acidctl.orc.writer import write_orc
from acidctl.state.entries import AcidState
from acidctl.types.digest import RowDigest
from acidctl.types.hive_types import StructType
from acidctl.types.schema import parse_type
from tests.support.corruption import Corruption, corrupt_file, corrupted, corrupting_writer, rewritten
from tests.support.orc_files import fixture_files
from tests.support.orc_mutations import METADATA, ROW_INDEX, Field, encoded, parsed, put_together, taken_apart
from tests.support.specs import small_table, specs_of

NAME = "base_0000007/bucket_00001"
BUCKET = encode(1)
ROWS = 20_000
COLUMNS = "struct<id:bigint,name:varchar(20),day:date>"
# Small stripes, and a tail in which bytes can be found.
SETTINGS = WriterSettings(compression="none", stripe_size=1 << 17)


@dataclass(frozen=True)
class Case:
    """A file with what it must hold."""

    data: bytes
    expected: Expected

    def check(self, data: bytes | None = None, *, threads: bool = False, **changes: Any) -> None:
        content = self.data if data is None else data
        verify_file(lambda: io.BytesIO(content), NAME, replace(self.expected, **changes), threads=threads)


class ReadByPyorc:
    """Rows and columns that pyorc was asked for since the last `clear`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.rows = 0
        self.columns: list[int] = []
        begin, read = secondread.Rows.__init__, secondread.Rows.read

        def begun(rows: secondread.Rows, file: Any, orc: OrcFile, columns: Sequence[int]) -> None:
            self.columns += columns
            begin(rows, file, orc, columns)

        def counted(rows: secondread.Rows, start: int, count: int) -> tuple[list[Any], list[Any]]:
            self.rows += count
            return read(rows, start, count)

        monkeypatch.setattr(secondread.Rows, "__init__", begun)
        monkeypatch.setattr(secondread.Rows, "read", counted)

    def clear(self) -> None:
        self.rows, self.columns = 0, []


@pytest.fixture
def read_by_pyorc(monkeypatch: pytest.MonkeyPatch) -> ReadByPyorc:
    return ReadByPyorc(monkeypatch)


def expected_of(events: EventBatch, columns: str, **more: Any) -> Expected:
    digest = RowDigest()
    digest.update(events.keys, events.columns)
    pairs = Counter(zip(events.keys.write_id.tolist(), events.keys.bucket.tolist(), strict=True))
    counts = tuple((*pair, rows) for pair, rows in sorted(pairs.items()))
    return Expected(len(events), digest.hexdigest(), columns, counts, bucket_id=1, **more)


def make(events: EventBatch, columns: str, *, settings: WriterSettings = SETTINGS, **more: Any) -> Case:
    """The events as a file."""
    schema = parse_type(columns)
    data = rewritten([events], schema, {"acidctl.target": b"hive4"}, settings)
    return Case(data, expected_of(events, columns, **more))


def some_keys(rows: int, **more: Any) -> EventKeys:
    numbers = np.arange(rows, dtype=np.int64)
    write_ids = 1 + numbers * 3 // rows
    return EventKeys(write_ids, np.full(rows, BUCKET), numbers, more.pop("current", write_ids), **more)


@pytest.fixture(scope="module")
def rows() -> Case:
    """A base: several stripes, three write ids, NULLs."""
    numbers = np.arange(ROWS)
    names = pa.array([None if n % 7 == 0 else f"name {n * 31 % 1000}" for n in range(ROWS)])
    days = pa.array(np.where(numbers % 2, numbers, -numbers).astype(np.int32), mask=numbers % 5 == 0).cast(pa.date32())
    events = EventBatch(some_keys(ROWS), (pa.array(numbers * 7919 % ROWS), names, days))
    return make(events, COLUMNS, metadata={"acidctl.target": b"hive4"})


@pytest.fixture(scope="module")
def deletes() -> Case:
    """Delete events of a minor compaction, some rows deleted twice."""
    rows = 900
    keys = some_keys(rows, current=np.full(rows, 9), operation=np.full(rows, int(Operation.DELETE)))
    twice = keys.select(np.repeat(np.arange(rows), 1 + (np.arange(rows) % 100 == 0)))
    current = np.where(twice.same_as_previous(), 8, 9)
    return make(EventBatch(replace(twice, current=current)), COLUMNS, operation=2, collapsed=False)


def test_a_right_file_passes(rows: Case, deletes: Case, read_by_pyorc: ReadByPyorc) -> None:
    """Some of its rows are read by both libraries."""
    orc = open_orc(io.BytesIO(rows.data), name=NAME)
    assert len(orc.tail.stripes) > 2
    rows.check()
    assert ROWS // 50 < read_by_pyorc.rows <= 500
    assert read_by_pyorc.columns == [0, 1, 2]
    read_by_pyorc.clear()
    deletes.check(threads=True)
    assert read_by_pyorc.rows == 500 < deletes.expected.rows


WRONG = {
    Corruption.DROP_ROW: "it has {less} rows, not",
    Corruption.DOUBLE_ROW: "it has {more} rows, not",
    Corruption.CHANGE_VALUE: "the digest of its rows is",
    Corruption.BREAK_ORDER: "its rows are not in order",
    Corruption.LOSE_DELETE: "it has {more} rows, not",
}


@pytest.mark.parametrize("corruption", Corruption, ids=lambda corruption: corruption.name.lower())
def test_a_wrong_result_is_refused(rows: Case, deletes: Case, corruption: Corruption) -> None:
    """The five ways, of rows and of delete events; the file itself is whole each time."""
    for case in (rows, deletes):
        data = corrupt_file(case.data, corruption, settings=SETTINGS)
        with pytest.raises(VerificationError) as caught:
            case.check(data)
        wanted = WRONG[corruption]
        if case is deletes and corruption is Corruption.LOSE_DELETE:
            wanted = "it has {less} rows, not"
        count = case.expected.rows
        assert wanted.format(less=count - 1, more=count + 1) in caught.value.message
        assert (caught.value.exit_code, caught.value.path) == (ExitCode.DAMAGED, NAME)
        assert caught.value.hint is not None


@pytest.mark.parametrize(
    ("first", "second"),
    [(Corruption.DROP_ROW, Corruption.DOUBLE_ROW), (Corruption.LOSE_DELETE, Corruption.DROP_ROW)],
    ids=["doubled", "back"],
)
def test_a_wrong_result_of_the_right_size_is_refused(rows: Case, first: Corruption, second: Corruption) -> None:
    """A row too few here and one too many there."""
    data = corrupt_file(corrupt_file(rows.data, first, settings=SETTINGS), second, settings=SETTINGS)
    with pytest.raises(VerificationError, match=r"rows of write id|not in order"):
        rows.check(data)


def events_of(data: bytes) -> EventBatch:
    batches = []
    for batch in open_orc(io.BytesIO(data), name=NAME).scan():
        row = batch.column("row")
        columns = () if row.null_count else tuple(row.field(i) for i in range(row.type.num_fields))
        batches.append(EventBatch(keys_of(batch, name=NAME), columns))
    return EventBatch.concat(batches)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, AcidState, str]:
    """A base and three rounds of changes."""
    return small_table(tmp_path_factory.mktemp("table"), 300)


@pytest.mark.parametrize("role", [Role.SURVIVING, Role.INSERTS, Role.DELETES], ids=lambda role: role.value)
@pytest.mark.parametrize("corruption", Corruption, ids=lambda corruption: corruption.name.lower())
@pytest.mark.slow
def test_a_task_refuses_its_own_wrong_result(
    table: tuple[Path, AcidState, str], role: Role, corruption: Corruption, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever goes wrong between the merge and the storage; right ones have the digest of what was merged."""
    root, state, columns = table
    (spec,) = specs_of(root, state, columns, [role])
    right = task.run_task(spec, threads=False)
    assert right.digest.startswith("r2:")
    monkeypatch.setattr(task, "write_orc", corrupting_writer(corruption))
    with pytest.raises(VerificationError, match="is not what was to be written"):
        task.run_task(spec, threads=False)


KEY_CHANGES: dict[str, tuple[Callable[[EventKeys], dict[str, Any]], str]] = {
    "write id": (lambda keys: {"write_id": np.where(keys.row_id < ROWS - 1, keys.write_id, 4)}, "current write id"),
    "current": (lambda keys: {"current": keys.current + (keys.row_id == 77)}, "current write id"),
    "bucket": (lambda keys: {"bucket": keys.bucket + (keys.row_id == ROWS - 1)}, "rows of write id"),
    "other bucket": (lambda keys: {"bucket": np.where(keys.row_id == ROWS - 1, encode(2), keys.bucket)}, "of bucket 2"),
    "no bucket": (lambda keys: {"bucket": np.where(keys.row_id == ROWS - 1, -1, keys.bucket)}, "not in order"),
    "row id": (lambda keys: {"row_id": keys.row_id + (keys.row_id == ROWS - 1)}, "the digest of its rows"),
    "operation": (lambda keys: {"operation": (keys.row_id == 5).astype(np.int64)}, "operation 1, not 0"),
}


@pytest.mark.parametrize("name", KEY_CHANGES)
def test_a_wrong_key_is_refused(rows: Case, name: str) -> None:
    """Of one row, in a file that is whole."""
    change, message = KEY_CHANGES[name]
    events = events_of(rows.data)
    keys = replace(events.keys, **change(events.keys))
    data = rewritten([replace(events, keys=keys)], parse_type(COLUMNS), rows.expected.metadata, SETTINGS)
    data = data.replace(b"%d,0,0" % (ROWS - 1), b"%d,0,0" % ROWS)
    with pytest.raises(VerificationError) as caught:
        rows.check(data)
    assert message in caught.value.message or "acid.stats" in caught.value.message


def test_events_of_a_row_descend(deletes: Case) -> None:
    """Who deleted last stands first; equal ones are one too many."""
    events = events_of(deletes.data)
    for current in (np.where(events.keys.same_as_previous(), 9, 8), np.full(len(events), 9)):
        wrong = replace(events, keys=replace(events.keys, current=current))
        schema = parse_type(COLUMNS)
        case = Case(rewritten([wrong], schema, {}, SETTINGS), expected_of(wrong, COLUMNS, operation=2, collapsed=False))
        with pytest.raises(VerificationError, match=r"not in order.*comes twice"):
            case.check()
    with pytest.raises(VerificationError, match="comes twice"):
        deletes.check(collapsed=True)


def test_rows_are_where_they_belong(rows: Case, deletes: Case) -> None:
    """Rows in delete events, none in others, and neither taken for the other."""
    with pytest.raises(VerificationError, match=r"hive.acid.stats"):
        rows.check(operation=2)
    with pytest.raises(VerificationError, match=r"hive.acid.stats"):
        deletes.check(operation=0)
    count = deletes.expected.rows
    with pytest.raises(VerificationError, match="has no row"):
        deletes.check(changed_tail(deletes.data, b"0,0,%d" % count, b"%d,0,0" % count), operation=0)
    with pytest.raises(VerificationError, match="has a row"):
        rows.check(changed_tail(rows.data, b"%d,0,0" % ROWS, b"0,0,%d" % ROWS), operation=2)


def changed_tail(data: bytes, old: bytes, new: bytes) -> bytes:
    assert data.count(old) == 1, old
    assert len(old) == len(new)
    return data.replace(old, new)


def test_lies_of_the_tail_are_refused(rows: Case) -> None:
    """Key index, version, counts, types, metadata."""
    orc = open_orc(io.BytesIO(rows.data), name=NAME)
    index = orc.tail.metadata_value("hive.acid.key.index") or b""
    entries = index.split(b";")
    wrong_key = entries[1][:-1] + (b"0" if entries[1][-1:] != b"0" else b"1")
    lies = {
        "wrong key for stripe 1": changed_tail(rows.data, index, index.replace(entries[1], wrong_key)),
        "keys for": changed_tail(rows.data, index, index[: -len(entries[-2]) - 1].ljust(len(index), b";")),
        "cannot be read": changed_tail(rows.data, index, b"x" + index[1:]),
        "has no hive.acid.key.index": changed_tail(rows.data, b"hive.acid.key.index", b"hive.acid.key.indey"),
        "hive.acid.version is missing": changed_tail(rows.data, b"hive.acid.version", b"hive.acid.versiox"),
        "hive.acid.stats is": changed_tail(rows.data, b"%d,0,0" % ROWS, b"%d,1,0" % ROWS),
        "acidctl.target is 'hive3'": changed_tail(rows.data, b"hive4", b"hive3"),
        "its columns are struct<id:bigint,nama": changed_tail(rows.data, b"\x1a\x04name", b"\x1a\x04nama"),
        "cannot be read back": rows.data[:-1],
    }
    for message, data in lies.items():
        with pytest.raises(VerificationError) as caught:
            rows.check(data)
        assert message in caught.value.message
    with pytest.raises(VerificationError, match="not struct<id:int>"):
        rows.check(columns="struct<id:int>")
    with pytest.raises(VerificationError, match="has columns of events"):
        rows.check(acid=False)


def test_a_damaged_byte_is_refused(rows: Case) -> None:
    """Anywhere in the data: uncompressed, most of them still decode."""
    stripe = open_orc(io.BytesIO(rows.data), name=NAME).tail.stripes[1]
    begin = stripe.offset + stripe.index_length
    for place in np.linspace(begin, begin + stripe.data_length - 1, 9).astype(int).tolist():
        data = bytearray(rows.data)
        data[place] ^= 0x10
        with pytest.raises(VerificationError):
            rows.check(bytes(data))


def test_statistics_that_hide_rows_are_refused(rows: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hive leaves out what statistics rule out."""

    def lie(column: int, change: Callable[[Any], Any]) -> None:
        def opened(file: Any, *, name: str) -> OrcFile:
            orc = open_orc(file, name=name)
            statistics = list(orc.tail.statistics)
            statistics[column] = change(statistics[column])
            orc.tail = replace(orc.tail, statistics=tuple(statistics))
            return orc

        monkeypatch.setattr(verify, "open_orc", opened)

    rows.check()
    narrow = ValueStatistics(StatisticsKind.INTEGER, 1, ROWS - 1)
    for column, change, message in (
        (
            7,
            lambda s: replace(s, values=narrow),
            "column 7 does not .*: the smallest value is 0, the statistics give 1",
        ),
        (4, lambda s: replace(s, values=ValueStatistics(StatisticsKind.INTEGER, 0, 5)), "column 4 does not match"),
        (
            8,
            lambda s: replace(s, count=ROWS),
            f"column 8 does not .* values, the statistics count {ROWS}",
        ),
        (9, lambda s: replace(s, has_null=False), "column 9 for the file deny"),
    ):
        lie(column, change)
        with pytest.raises(VerificationError, match=message):
            rows.check()


def _count_one_more(statistics: list[Field]) -> None:
    count = next(field for field in statistics if field.number == 1)
    count.value += 1


def test_statistics_of_every_stripe_are_judged(rows: Case) -> None:
    """Of its first row group, and of the stripe as such, the last stripe as well as the first."""
    parts, column = taken_apart(rows.data), 8
    for place in (0, len(parts.stripes) - 1):
        stripes = list(parts.stripes)
        streams = list(stripes[place].streams)
        index = next(i for i, (kind, of, _) in enumerate(streams) if (kind, of) == (6, column))
        groups = parsed(streams[index][2], ROW_INDEX)
        _count_one_more(next(field.value for field in groups[0].value if field.number == 2))
        streams[index] = 6, column, encoded(groups)
        stripes[place] = replace(stripes[place], streams=tuple(streams))
        with pytest.raises(VerificationError, match=f"column {column} for row group 0 of stripe {place} count"):
            rows.check(put_together(replace(parts, stripes=tuple(stripes))))
        metadata = parsed(parts.metadata, METADATA)
        _count_one_more(metadata[place].value[column].value)
        with pytest.raises(VerificationError, match=f"column {column} for stripe {place} count"):
            rows.check(put_together(replace(parts, metadata=encoded(metadata))))


def test_statistics_of_a_file_without_row_index_are_judged() -> None:
    """There are no row groups to compare them with, but the rows."""
    events = EventBatch(some_keys(5000), (pa.array(np.arange(5000)),))
    settings = replace(SETTINGS, row_index_stride=0)
    plain = make(events, "struct<id:bigint>", settings=settings, metadata={"acidctl.target": b"hive4"})
    plain.check()
    parts = taken_apart(plain.data)
    metadata = parsed(parts.metadata, METADATA)
    _count_one_more(metadata[0].value[7].value)
    with pytest.raises(VerificationError, match="column 7 for stripe 0 count"):
        plain.check(put_together(replace(parts, metadata=encoded(metadata))))


def test_statistics_of_judged_stripes_are_forgotten(rows: Case) -> None:
    """What is kept does not grow with the stripes of a file."""
    orc = open_orc(io.BytesIO(rows.data), name=NAME)
    check = IndexCheck(orc, io.BytesIO(rows.data), lambda what: VerificationError(what))
    kept = []
    ends = np.cumsum([stripe.rows for stripe in orc.tail.stripes]).tolist()
    passed = 0
    for batch in orc.scan():
        passed += len(batch)
        check.add(list(zip(orc.tail.types[0].subtypes, batch.columns, strict=True)), len(batch))
        if passed in ends:
            kept.append(sum(isinstance(thing, verify._Figures) for thing in gc.get_objects()))
    check.finish()
    assert len(kept) > 2
    assert 0 < max(kept) == kept[0]


def test_the_other_library_is_heard(rows: Case, deletes: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """A value, a key or a row that it reads otherwise makes the file wrong, although we read it right."""
    read = secondread.Rows.read

    def other(change: Callable[[list[Any], list[Any]], None]) -> None:
        def changed(self: secondread.Rows, start: int, count: int) -> tuple[list[Any], list[Any]]:
            keys, values = read(self, start, count)
            if start > ROWS // 2 or len(self) < ROWS:
                change(keys, values)
            return keys, values

        monkeypatch.setattr(secondread.Rows, "read", changed)

    def set_value(keys: list[Any], values: list[Any]) -> None:
        values[3] = (*values[3][:1], "x", *values[3][2:])

    def set_key(keys: list[Any], values: list[Any]) -> None:
        keys[3] = (*keys[3][:3], -1, *keys[3][4:])

    def set_row(keys: list[Any], values: list[Any]) -> None:
        values[3] = None

    def fail(keys: list[Any], values: list[Any]) -> None:
        raise ValueError("bad stream")

    for case, change, message in (
        (rows, set_value, "other values in column 'name' near row 1"),
        (rows, set_key, "other keys"),
        (rows, set_row, "finds no row"),
        (deletes, set_key, "other keys"),
        (rows, fail, "cannot read it: bad stream"),
    ):
        other(change)
        with pytest.raises(VerificationError, match=message):
            case.check()


def test_without_the_other_library(rows: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it cannot read proves nothing."""

    def missing(*args: object) -> None:
        raise secondread.CannotRead("there is no time zone database for it")

    monkeypatch.setattr(secondread.Rows, "__init__", missing)
    rows.check()


MOMENTS = [
    {"seconds": s, "nanos": n} for s in (-62135596800, -14831769600, -2, 0, 253402300799) for n in (0, 1, 10**9 - 1)
]
TYPES: dict[str, pa.Array] = {
    "boolean": pa.array([True, None, False]),
    "tinyint": pa.array([-128, None, 127], pa.int8()),
    "float": pa.array([1.5, None, -0.0], pa.float32()),
    "double": pa.array([float("nan"), None, float("-inf"), -0.0, 5e-324]),
    "decimal(38,10)": pa.array(
        [Decimal("-1234567890123456789012345678.0123456789"), None, Decimal(0)], pa.decimal128(38, 10)
    ),
    "decimal(7,2)": pa.array([Decimal("-12345.67"), None], pa.decimal128(7, 2)),
    "string": pa.array(["", None, "é" * 50, "\0"]),
    "char(5)": pa.array(["ab", None, ""]),
    "varchar(3)": pa.array(["a ", None]),
    "binary": pa.array([b"\xff\0", None, b""]),
    "date": pa.array([-719162, None, 2932896], pa.int32()).cast(pa.date32()),
    "timestamp": pa.array([None, *MOMENTS], WIDE),
    "timestamp with local time zone": pa.array([-(10**18) + 1, None, 10**18 + 1]).cast(pa.timestamp("ns", tz="UTC")),
    "array<string>": pa.array([["a", None], None, []]),
    "map<string,array<int>>": pa.array(
        [[("a", [1]), ("b", None)], None, []], pa.map_(pa.string(), pa.list_(pa.int32()))
    ),
    "struct<a:int,b:struct<c:char(3),d:decimal(5,1)>>": pa.array(
        [{"a": 1, "b": {"c": "x", "d": Decimal("1.5")}}, None, {"a": None, "b": None}],
        pa.struct([("a", pa.int32()), ("b", pa.struct([("c", pa.string()), ("d", pa.decimal128(5, 1))]))]),
    ),
}


@pytest.mark.parametrize("kind", TYPES)
def test_both_libraries_agree_on_every_type(kind: str, read_by_pyorc: ReadByPyorc) -> None:
    """Nothing is left out of the comparison that pyorc can hold, wherever in a file it stands."""
    column = TYPES[kind]
    events = EventBatch(some_keys(len(column)), (column, pa.array(np.arange(len(column)))))
    make(events, f"struct<v:{kind},n:bigint>").check()
    assert (read_by_pyorc.rows, read_by_pyorc.columns) == (len(column), [0, 1])
    read_by_pyorc.clear()
    rows = 2500
    nulls = pa.nulls(rows, column.type)
    late = pa.concat_arrays([nulls.slice(0, 1900), *[column] * 600]).slice(0, rows)
    many = column.take(pa.array(np.arange(rows) * 7 % len(column)))
    events = EventBatch(some_keys(rows), (many, late, nulls))
    settings = replace(SETTINGS, row_index_stride=1000)
    case = make(events, f"struct<many:{kind},late:{kind},nulls:{kind}>", settings=settings)
    case.check()
    assert read_by_pyorc.rows >= 300
    assert read_by_pyorc.columns == [0, 1, 2]


@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()], ids=str)
def test_a_zero_of_another_sign_is_another_value(kind: pa.DataType, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hive shows the sign."""
    events = EventBatch(some_keys(3), (pa.array([0.0, 1.5, None], kind),))
    case = make(events, "struct<v:float>" if kind == pa.float32() else "struct<v:double>")
    case.check()
    read = secondread.Rows.read

    def other(rows: Any, start: int, count: int) -> Any:
        keys, values = read(rows, start, count)
        return keys, [None if row is None else (-0.0 if row[0] == 0 else row[0],) for row in values]

    monkeypatch.setattr(secondread.Rows, "read", other)
    with pytest.raises(VerificationError, match="other values in column 'v'"):
        case.check()


def test_what_pyorc_cannot_hold_is_left_out(read_by_pyorc: ReadByPyorc) -> None:
    """Column by column: the others are compared all the same."""
    bad = pa.Array.from_buffers(
        pa.string(), 3, [None, pa.py_buffer(np.array([0, 1, 2, 3], np.int32)), pa.py_buffer(b"a\xffb")]
    )
    floats = pa.Array.from_buffers(pa.float32(), 3, [None, pa.py_buffer(np.array([0x7FC00001, 0, 0], np.uint32))])
    union = pa.UnionArray.from_sparse(
        pa.array([0, 1, 0], pa.int8()), [pa.array([1, 2, 3], pa.int32()), pa.array(list("abc"))]
    )
    events = EventBatch(some_keys(3), (bad, union, floats, pa.array(["x", "y", None])))
    make(events, "struct<bad:string,u:uniontype<int,string>,f:float,good:string>").check()
    assert (read_by_pyorc.rows, read_by_pyorc.columns) == (3, [2, 3])
    read_by_pyorc.clear()
    make(EventBatch(some_keys(3), (bad,)), "struct<`a.b`:string>").check()
    assert (read_by_pyorc.rows, read_by_pyorc.columns) == (3, [])


def test_files_without_events(read_by_pyorc: ReadByPyorc) -> None:
    """Of insert-only tables: neither keys nor their metadata."""
    schema = parse_type("struct<a:int>")
    assert isinstance(schema, StructType)
    values = pa.array([3, None, 1], pa.int32())
    sink = io.BytesIO()
    keys = some_keys(3)
    write_orc(sink, [EventBatch(keys, (values,))], schema, SETTINGS, acid=False, metadata={})
    digest = RowDigest()
    digest.update(None, [values])
    case = Case(sink.getvalue(), Expected(3, digest.hexdigest(), "struct<a:int>", acid=False))
    case.check()
    assert read_by_pyorc.rows == 3
    with pytest.raises(VerificationError, match="the digest of its rows"):
        case.check(digest="r2:" + 32 * "0")
    with pytest.raises(VerificationError, match="no columns of events"):
        case.check(acid=True)


def test_corruptions_are_small() -> None:
    """Each changes at most one event: what finds it finds everything."""
    events = EventBatch(some_keys(10), (pa.array(np.arange(10)),))
    sizes = {c: len(next(corrupted([events], c))) for c in Corruption}
    assert sizes == {
        Corruption.DROP_ROW: 9,
        Corruption.DOUBLE_ROW: 11,
        Corruption.CHANGE_VALUE: 10,
        Corruption.BREAK_ORDER: 10,
        Corruption.LOSE_DELETE: 11,
    }


@pytest.mark.slow
@pytest.mark.parametrize("hive", ["hive2", "hive3", "hive4"])
def test_both_libraries_agree_on_what_hive_wrote(hive: str, read_by_pyorc: ReadByPyorc) -> None:
    """All files of all fixtures, as far as they hold events of one kind."""
    for path in fixture_files(f"{hive}/*/*/table"):
        data = path.read_bytes()
        orc = open_orc(io.BytesIO(data), name=str(path)) if data else None
        if orc is None or not orc.is_acid or not orc.rows:
            continue
        codes = {code.as_py() for batch in orc.scan(["operation"]) for code in batch.column(0).unique()}
        if len(codes) > 1:
            continue
        sample, first = OutputSample(orc), 0
        for batch in orc.scan():
            row = batch.column("row")
            columns = () if row.null_count else tuple(row.field(i) for i in range(row.type.num_fields))
            sample.keep(keys_of(batch, name=str(path)), columns, first, len(batch))
            first += len(batch)
        sample.require_same(io.BytesIO(data))
    assert read_by_pyorc.rows > 200
