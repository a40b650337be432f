"""Nothing that a name or a list can look like raises anything but our own errors.

One case is one text or one listing, and there are more than 10,000 of them.
"""

from __future__ import annotations

import contextlib
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from acidctl.errors import AcidctlError
from acidctl.format.bucket_codec import decode, encode
from acidctl.format.list_texts import parse_tables, recognise
from acidctl.format.listing import FileInfo, Listing
from acidctl.format.names import (
    BaseDir,
    BucketFile,
    DeltaDir,
    OriginalFile,
    SideFile,
    format_base,
    format_delta,
    parse_directory,
    parse_file,
    parse_partition,
    path_order_key,
    unescape_partition_value,
)
from acidctl.format.write_ids import Profile, Reader, ValidTxns, ValidWriteIds
from acidctl.state.equivalence import disagreements
from acidctl.state.inventory import data_files
from acidctl.state.resolve import guess_table_type, resolve
from tests.support.extent import amount

TEXT_EXAMPLES = 400
LISTING_EXAMPLES = 250
SEEDS = 100
TEXTS_PER_SEED = 120

# Pieces of real names and lists, and what breaks readers of numbers, glued together at random.
_WORDS = """
    base_ delta_ delete_delta_ _v bucket_ _copy_ _flush_length _tmp. -tmp. . _ -1 + 0 5 0000005 0000012 000000_0 _0
    9223372036854775807 9223372036854775808 -9223372036854775808 99999999999999999999 x HIVE_UNION_SUBDIR_1
    _orc_acid_version _metadata_acid = % %3A %zz / : :: , - $ db.t null 11:4:4 17$ 4-8 8-4 1-99999999999 ٣ ² é
"""
_PIECES = [*_WORDS.split(), " ", "\n", "\t", "\0", "\U0001f600", "\udcff", "1" * 5000]
glued = st.lists(st.sampled_from(_PIECES), max_size=9).map("".join)
texts = st.one_of(glued, glued, st.text(max_size=40))
number = st.sampled_from(["", "0", "5", "12", "-3", "x", "4-8", "8-4", "1-9223372036854775807", str((1 << 63) - 1)])
id_lists = st.lists(number, max_size=5).map(",".join)
head = st.sampled_from(["", "db.t:", "null:", "17$db.t:", "17$", "x:"])
list_texts = st.one_of(
    glued,
    st.builds(
        lambda start, fields, end: start + ":".join(fields) + end,
        head,
        st.lists(number | id_lists, max_size=6),
        st.sampled_from(["", ":", "\n", "$db.u:5:5:5:"]),
    ),
)

pytestmark = pytest.mark.slow
common = settings(deadline=None, suppress_health_check=list(HealthCheck))


@settings(common, max_examples=TEXT_EXAMPLES)
@given(texts)
def test_names_never_raise(text: str) -> None:
    """Any text is some kind of name, kept as it is; what was understood formats back to the same meaning."""
    name = text.replace("/", "")
    assert _names_of(text) == (name, name)


@settings(common, max_examples=TEXT_EXAMPLES)
@given(list_texts, st.sampled_from([None, "db.t"]), st.sampled_from([None, "hive2"]))
def test_lists_never_raise(text: str, table: str | None, form: str | None) -> None:
    """Any text is one of our lists or one of our errors, told in one line."""
    assert "\n" not in _complaint(text, table, form)


@settings(common, max_examples=SEEDS)
@given(st.integers(0, 1 << 32))
def test_many_texts_never_raise(seed: int) -> None:
    """The same in bulk: texts glued from the pieces, many for each seed."""
    random = Random(seed)
    for _ in range(TEXTS_PER_SEED):
        text = "".join(random.choices(_PIECES, k=random.randrange(9)))
        name = text.replace("/", "")
        assert _names_of(text) == (name, name)
        form = random.choice([None, "hive2", "hive3", "hive4"])
        assert "\n" not in _complaint(text, random.choice([None, "db.t"]), form)


def _names_of(text: str) -> tuple[str, str]:
    """The text as the name of a directory and of a file, and back; what else reads names takes it too."""
    name = text.replace("/", "")
    found = parse_directory(name)
    if isinstance(found, BaseDir):
        again = parse_directory(format_base(found.write_id, found.visibility_txn_id))
        assert isinstance(again, BaseDir)
        assert (again.write_id, again.visibility_txn_id) == (found.write_id, found.visibility_txn_id)
    elif isinstance(found, DeltaDir):
        numbers = (found.min_write_id, found.max_write_id, found.statement_id, found.visibility_txn_id)
        delta = parse_directory(format_delta(found.kind, *numbers))
        assert isinstance(delta, DeltaDir)
        assert numbers == (
            delta.min_write_id,
            delta.max_write_id,
            delta.statement_id,
            delta.visibility_txn_id,
        )
    file = parse_file(name)
    if isinstance(file, BucketFile | OriginalFile):
        assert file.bucket_id >= 0
    if isinstance(file, SideFile):
        assert name.startswith(file.data_file)
    path_order_key(text)
    unescape_partition_value(text)
    with contextlib.suppress(AcidctlError):
        parse_partition(text)
    return name if found is None else found.name, file.name


def _complaint(text: str, table: str | None, form: str | None) -> str:
    """What is wrong with a list, nothing when it is one; what else reads lists takes it too."""
    message = ""
    try:
        lists = recognise([text], table=table, list_format=form)
        ids = lists.effective_write_ids
        assert ValidWriteIds.parse(ids.format()).exceptions == ids.exceptions
    except AcidctlError as error:
        message = error.message
    with contextlib.suppress(AcidctlError):
        parse_tables(text)
    for parse in (ValidWriteIds.parse, ValidTxns.parse):
        with contextlib.suppress(AcidctlError):
            found = parse(text)
            found.format()
            found.is_valid(5)
            found.is_range_valid(5, 3)
            found.is_range_aborted(-5, 1 << 70)
            found.covers(0, 12)
    return message


@settings(common, max_examples=amount(200, swept=200))
@given(st.integers(), st.integers(), st.none() | st.integers(), st.none() | st.integers())
def test_codec_never_raises(value: int, bucket: int, statement: int | None, largest: int | None) -> None:
    """Any integer is a bucket property or refused by our error."""
    found = None
    with contextlib.suppress(AcidctlError):
        found = decode(value)
    assert found is None or decode(encode(found.bucket_id, found.statement_id, version=found.version)) == found
    packed = None
    with contextlib.suppress(AcidctlError):
        packed = encode(bucket, statement, max_statement_id=largest)
    assert packed is None or bucket > 4095 or decode(packed).bucket_id == bucket


paths = st.lists(
    st.builds("/".join, st.lists(glued.map(lambda t: t.replace("/", "") or "x"), min_size=1, max_size=3)),
    max_size=7,
    unique=True,
)
markers = st.sampled_from([None, b"", b"2", b"\0\0\0\0", b"{", b'{"thisFileVersion":"0","dataFormat":"compacted"}'])


@settings(common, max_examples=LISTING_EXAMPLES)
@given(paths, paths, list_texts, list_texts, markers)
def test_listings_never_raise(
    files: list[str], directories: list[str], ids: str, txns: str, marker: bytes | None
) -> None:
    """Whatever stands in a directory, both profiles answer or raise our errors, and no file is lost."""
    content = {} if marker is None else dict.fromkeys(files, marker)
    infos = tuple(FileInfo(path, index % 3) for index, path in enumerate(files))
    listing = Listing("/t", infos, tuple(directories), content)
    write_ids, valid_txns = ValidWriteIds.everything(), ValidTxns.everything()
    with contextlib.suppress(AcidctlError):
        write_ids = ValidWriteIds.parse(ids)
    with contextlib.suppress(AcidctlError):
        valid_txns = ValidTxns.parse(txns)
    state = resolve(listing, Reader(write_ids, valid_txns), raise_on_history=False)
    assert sorted(f.path for entry in state.entries for f in entry.files) == sorted(files)
    for entry in state.entries:
        data_files(entry)
    guess_table_type([listing])
    with contextlib.suppress(AcidctlError):
        resolve(listing, Reader(write_ids, valid_txns, Profile.HIVE4))
    tolerant = resolve(listing, Reader(write_ids, profile=Profile.HIVE4), raise_on_history=False)
    assert sorted(f.path for entry in tolerant.entries for f in entry.files) == sorted(files)
    disagreements(listing, Reader(write_ids, valid_txns))
