"""Names are understood as Hive understands them, or kept with the reason."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acidctl.errors import UsageError
from acidctl.format.names import (
    DEFAULT_PARTITION,
    MAX_LONG,
    MIN_LONG,
    BaseDir,
    BucketFile,
    DeltaDir,
    DeltaKind,
    HiddenName,
    Marker,
    OriginalFile,
    SideFile,
    Unrecognised,
    WriteIdRange,
    first_crossing,
    format_base,
    format_bucket_file,
    format_delta,
    parse_directory,
    parse_file,
    parse_partition,
    parse_partition_folder,
    path_order_key,
    unescape_partition_value,
)

INSERT, DELETE = DeltaKind.INSERT, DeltaKind.DELETE

# Hive's FileUtils.charToEscape: these never stand in a partition folder's name as they are.
_ESCAPED = frozenset([chr(i) for i in range(1, 0x20)] + list("\"#%'*/:=?\\\x7f{[]^"))


def escape_partition_value(value: str | None) -> str:
    """Text of a partition value inside a folder name; NULL and the empty string share Hive's default partition."""
    if not value:
        return DEFAULT_PARTITION
    return "".join(f"%{ord(c):02X}" if c in _ESCAPED else c for c in value)


@pytest.mark.parametrize(
    ("name", "write_id", "visibility"),
    [
        ("base_0000123", 123, None),
        ("base_123", 123, None),
        ("base_0000005_v0000010", 5, 10),
        ("base_-9223372036854775808_v0000023", MIN_LONG, 23),
        ("base_+5", 5, None),
        ("base_1234567890", 1234567890, None),
        ("base_0000010_v0000000", 10, None),
        ("base_" + "0" * 5000 + "7", 7, None),
    ],
)
def test_base_names(name: str, write_id: int, visibility: int | None) -> None:
    """Every spelling of a base that Hive accepts is read, and the spelling is kept."""
    assert parse_directory(name) == BaseDir(name, write_id, visibility)


@pytest.mark.parametrize(
    ("name", "kind", "numbers"),
    [
        ("delta_0000001_0000005", INSERT, (1, 5, None, None)),
        ("delta_1_5_v10", INSERT, (1, 5, None, 10)),
        ("delta_0000005_0000005_0003_v0000009", INSERT, (5, 5, 3, 9)),
        ("delete_delta_0000002_0000002_0000", DELETE, (2, 2, 0, None)),
        ("delta_0000063_63_0", INSERT, (63, 63, 0, None)),
        ("delta_10_5", INSERT, (10, 5, None, None)),
        ("delta_5_5_-1", INSERT, (5, 5, None, None)),
        ("delete_delta_10000001_10000001_0000", DELETE, (10000001, 10000001, 0, None)),
    ],
)
def test_delta_names(name: str, kind: DeltaKind, numbers: tuple[int, int, int | None, int | None]) -> None:
    """Every spelling of a delta that Hive accepts is read; statement and visibility may stand together."""
    assert parse_directory(name) == DeltaDir(name, kind, *numbers)


@pytest.mark.parametrize(
    "name",
    [
        "base_",
        "base_x",
        "base_5_6",
        "base_5x",
        "base_5_v",
        "base_5_v10_tmp",
        "base_v5",
        "base__v5",
        "base_5_0",
        "base_9223372036854775808",
        "delta_5",
        "delta_5_",
        "delta__5",
        "delta_5_5_x",
        "delta_5_5_0_1",
        "delta_5_5_v",
        "delta_5_5_v10_v20",
        "delta_v5",
        "delta_",
        "delta_9223372036854775808_9223372036854775808",
        "delete_delta_1",
        "delta_1_2_99999999999",
        "base_٣",
        "delta_1_1²",
    ],
)
def test_names_that_hive_fails_on(name: str) -> None:
    """A name with an ACID prefix that Hive cannot parse is unrecognised with a reason, never original."""
    found = parse_directory(name)
    assert isinstance(found, Unrecognised)
    assert found.name == name
    assert found.reason


def test_blanks_and_underscores_are_no_digits() -> None:
    """What Python's int() would take, Java does not."""
    for name in ("base_ 5", "base_5 ", "base_5\n", "delta_1__5", "delta_1_000 ", "base_1_0"):
        assert isinstance(parse_directory(name), Unrecognised), name


@pytest.mark.parametrize("name", ["Delta_5_5", "deltas_5_5", "basex", "HIVE_UNION_SUBDIR_1", "my_base_1", "a=1"])
def test_other_directories(name: str) -> None:
    """Only the three prefixes make a directory ACID."""
    assert parse_directory(name) is None


@pytest.mark.parametrize(
    "name",
    [
        ".hive-staging_hive_2020-01-01",
        "_tmp.delta_0000001_0000001",
        "_tmp_0e1f",
        "-tmp.delta_0000002_0000002_0000",
        "-ext-10002",
        "_acidctl_work_1",
        "_acidctl_lock",
        "_acidctl_quarantine",
        "_SUCCESS",
        ".snapshot",
    ],
)
def test_hidden_names(name: str) -> None:
    """Temporary and private names are hidden, each with a reason."""
    for found in (parse_directory(name), parse_file(name)):
        assert isinstance(found, HiddenName)
        assert found.reason


def test_data_file_names() -> None:
    """Bucket files, side files, originals, markers and the rest are told apart."""
    assert parse_file("bucket_00003") == BucketFile("bucket_00003", 3, None)
    assert parse_file("bucket_00003_1") == BucketFile("bucket_00003_1", 3, 1)
    assert parse_file("bucket_3_flush_length") == SideFile("bucket_3_flush_length", "bucket_3")
    assert parse_file("bucket_3_0_flush_length") == SideFile("bucket_3_0_flush_length", "bucket_3_0")
    assert parse_file("000012_0") == OriginalFile("000012_0", 12, 0, None)
    assert parse_file("000012_0_copy_3") == OriginalFile("000012_0_copy_3", 12, 0, 3)
    assert parse_file("_orc_acid_version") == Marker("_orc_acid_version")
    assert parse_file("_metadata_acid") == Marker("_metadata_acid")
    for name in ("random", "000012_0.gz", "00000", "bucket_3x", "bucket_", "bucket_99999999999", "0_0_copy_"):
        assert isinstance(parse_file(name), Unrecognised), name


ids = st.integers(MIN_LONG, MAX_LONG)
natural = st.integers(0, MAX_LONG)
optional_statement = st.none() | st.integers(0, (1 << 31) - 1)
optional_txn = st.none() | st.integers(1, MAX_LONG)


@given(ids, optional_txn)
def test_base_round_trip(write_id: int, txn: int | None) -> None:
    """What is formatted as a base is read back."""
    name = format_base(write_id, txn)
    assert parse_directory(name) == BaseDir(name, write_id, txn)


@given(st.sampled_from(DeltaKind), natural, natural, optional_statement, optional_txn)
def test_delta_round_trip(kind: DeltaKind, low: int, high: int, statement: int | None, txn: int | None) -> None:
    """What is formatted as a delta is read back."""
    name = format_delta(kind, low, high, statement, txn)
    assert parse_directory(name) == DeltaDir(name, kind, low, high, statement, txn)


@given(st.integers(0, (1 << 31) - 1), st.none() | st.integers(0, (1 << 31) - 1))
def test_bucket_file_round_trip(bucket_id: int, attempt_id: int | None) -> None:
    """What is formatted as a bucket file is read back."""
    name = format_bucket_file(bucket_id, attempt_id)
    assert parse_file(name) == BucketFile(name, bucket_id, attempt_id)


def test_names_as_hive_writes_them() -> None:
    """Widths are Hive's: 7 digits, 4 for a statement, 5 for a bucket, the sign counted."""
    assert format_base(5) == "base_0000005"
    assert format_base(MIN_LONG, 23) == "base_-9223372036854775808_v0000023"
    assert format_delta(DELETE, 2, 3, 1, 9) == "delete_delta_0000002_0000003_0001_v0000009"
    assert format_delta(INSERT, 10000001, 10000001) == "delta_10000001_10000001"
    assert format_bucket_file(3, 0) == "bucket_00003_0"


@given(st.text(min_size=1).filter(lambda text: text != DEFAULT_PARTITION))
def test_partition_values_round_trip(value: str) -> None:
    """Escaping a partition value and reading it back changes nothing."""
    assert unescape_partition_value(escape_partition_value(value)) == value


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("a:b", "a%3Ab"),
        ("a/b=c%d#e", "a%2Fb%3Dc%25d%23e"),
        ("with space}", "with space}"),
        ("üñ水", "üñ水"),
        ('{"', "%7B%22"),
        ("..", ".."),
        (None, DEFAULT_PARTITION),
    ],
)
def test_partition_values_as_hive_escapes_them(value: str | None, text: str) -> None:
    """Hive escapes these characters and no others; NULL is the default partition."""
    assert escape_partition_value(value) == text
    assert unescape_partition_value(text) == value


def test_a_stray_percent_stands_for_itself() -> None:
    """Text that Hive would not have written is kept."""
    assert unescape_partition_value("50%") == "50%"
    assert unescape_partition_value("%zz%4") == "%zz%4"


def test_partition_paths() -> None:
    """A partition path is split into keys and un-escaped values."""
    expected = (("ds", "2026-01-01"), ("hr", None), ("p", "a/b"))
    assert parse_partition("ds=2026-01-01/hr=__HIVE_DEFAULT_PARTITION__/p=a%2Fb") == expected
    assert parse_partition("") == ()
    assert parse_partition_folder("x=") == ("x", "")
    assert parse_partition_folder("plain") is None
    assert parse_partition_folder("_x=1") is None
    with pytest.raises(UsageError, match="key=value"):
        parse_partition("ds=1/oops")


def test_originals_sort_by_encoded_path() -> None:
    """The order of original files is that of Java's percent-encoded paths, in UTF-16 code units."""
    plain = [
        "000000_0",
        "000000_0_copy_1",
        "000000_0_copy_10",
        "000000_0_copy_2",
        "000001_0",
        "SUB/0",
        "sub/0",
    ]
    assert sorted(set(plain), key=path_order_key) == plain
    # A blank is %20 and so sorts behind `!`; a brace is %7B and so before letters.
    assert sorted(["a b", "a!b", "a{b", "aab"], key=path_order_key) == ["a!b", "a b", "a{b", "aab"]
    # A surrogate pair sorts before U+FF5E, although its code point is larger.
    assert sorted(["\uff5e", "\U0001f600"], key=path_order_key) == ["\U0001f600", "\uff5e"]


ALL_RANGES = [WriteIdRange(low, high) for low in range(1, 6) for high in range(low, 6)]


@pytest.mark.parametrize("one", ALL_RANGES, ids=str)
def test_ranges_compare_as_the_sets_of_their_ids(one: WriteIdRange) -> None:
    """Every comparison is that of the ids counted one by one; a range that ends before it begins is empty."""
    own = set(range(one.min, one.max + 1))
    for other in ALL_RANGES:
        ids = set(range(other.min, other.max + 1))
        assert one.covers(other) == (ids <= own)
        assert one.overlaps(other) == bool(ids & own)
        assert one.nests(other) == (ids <= own or own <= ids)
        assert one.crosses(other) == bool(ids & own and ids - own and own - ids)
        assert set(range(1, 6)) & (own | ids) <= {i for i in range(1, 6) if i in WriteIdRange.around([one, other])}
    assert not one.is_empty
    assert WriteIdRange(2, 1).is_empty
    assert (str(one), str(WriteIdRange(5, 9))) == (str(one.min) if len(own) == 1 else f"{one.min}..{one.max}", "5..9")


def test_the_first_crossing_is_found_among_any_ranges() -> None:
    """Some pair crosses exactly where `first_crossing` names one, and that pair does cross."""
    for chosen in combinations(ALL_RANGES, 3):
        crossing = first_crossing((ids, ids) for ids in chosen)
        assert (crossing is not None) == any(one.crosses(other) for one, other in combinations(chosen, 2))
        assert crossing is None or crossing[0].crosses(crossing[1])
