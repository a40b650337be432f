"""A file that is read in several scans, of some stripes nothing: values and statistics are those of the file."""

from __future__ import annotations

import io
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from acidctl.errors import DamagedDataError
from acidctl.format.names import KEY_FIELDS
from acidctl.orc.reader import OrcFile, open_orc
from acidctl.orc.scan_check import StripesCheck
from acidctl.orc.stripe import StreamKind
from tests.support import copied_lies
from tests.support.copied_lies import BASE, with_statistics
from tests.support.orc_mutations import put_together, taken_apart

NUM = 8
Reads = tuple[range, ...]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A file of five stripes."""
    root = tmp_path_factory.mktemp("sound")
    copied_lies.write_rows(root / BASE / "bucket_00000", 1, range(5 * copied_lies.STRIPE_ROWS))
    return Path(root / BASE / "bucket_00000").read_bytes()


def watched(data: bytes) -> tuple[OrcFile, StripesCheck]:
    """An open file whose scans are taken note of."""
    orc = open_orc(io.BytesIO(data), name="f")
    orc.check = StripesCheck(orc.tail, orc.stripe_statistics, orc.tail.types[0].subtypes[:-1])
    return orc, orc.check


def turned(data: bytes, stripe: int) -> bytes:
    """The file with another number in a stripe."""
    parts = taken_apart(data)
    one = parts.stripes[stripe]
    streams = tuple(
        (kind, of, plain[:40] + bytes([plain[40] ^ 4]) + plain[41:] if (kind, of) == (StreamKind.DATA, NUM) else plain)
        for kind, of, plain in one.streams
    )
    stripes = [replace(one, streams=streams) if i == stripe else old for i, old in enumerate(parts.stripes)]
    return put_together(replace(parts, stripes=tuple(stripes)))


@pytest.mark.parametrize("size", [700, 100_000])
@pytest.mark.parametrize(
    "reads",
    [
        (range(5),),
        (range(2, 3),),
        (range(1), range(3, 5)),
        # One that is read twice counts once.
        (range(2), range(1, 3), range(2, 3)),
        (),
    ],
)
def test_sound_files_pass(reads: Reads, size: int, data: bytes) -> None:
    """Whichever stripes are read, in whichever order."""
    orc, check = watched(data)
    for stripes in reads:
        assert sum(map(len, orc.scan(batch_size=size, stripes=stripes))) == sum(orc.stripe_rows[i] for i in stripes)
    check.finish()


@pytest.mark.parametrize("reads", [(range(5),), (range(2, 3),), (range(2), range(2, 4)), (range(1, 3), range(1, 4))])
def test_another_value_is_noticed(reads: Reads, data: bytes) -> None:
    """In a stripe that is read, beside others that are or are not."""
    orc, check = watched(turned(data, 2))
    for stripes in reads:
        list(orc.scan(stripes=stripes))
    with pytest.raises(DamagedDataError, match=f"column {NUM} does not match"):
        check.finish()


@pytest.mark.parametrize(
    "read",
    [
        lambda orc: list(orc.scan(stripes=range(2))),
        lambda orc: list(orc.scan(KEY_FIELDS)),
        lambda orc: list(orc.scan(stripes=range(2, 3), limit=100)),
    ],
)
def test_what_is_not_read_is_not_noticed(read: Callable[[OrcFile], object], data: bytes) -> None:
    """Another stripe, keys alone, the beginning of a stripe; and a scan that is given up in the middle."""
    orc, check = watched(turned(data, 2))
    read(orc)
    check.finish()
    with closing(orc.scan(stripes=range(2, 3), batch_size=100)) as batches:  # type: ignore[type-var]
        next(batches)
    check.finish()


def test_a_file_that_lies_about_all_of_its_rows(data: bytes) -> None:
    """Its stripes may be right and all be read."""
    lied = with_statistics(taken_apart(data), ("file",), NUM, 3, 5)
    for reads in ((range(2), range(2, 5)), (range(3, 4),)):
        orc, check = watched(lied)
        for stripes in reads:
            list(orc.scan(stripes=stripes))
        with pytest.raises(DamagedDataError, match="the total is"):
            check.finish()


def test_the_last_stripe_that_was_read(data: bytes) -> None:
    """It is held against its own statistics by whoever wants to copy it."""
    orc, check = watched(turned(data, 2))
    list(orc.scan(stripes=range(2)))
    assert check.last(0) is None
    last = check.last(1)
    assert last is not None
    last.check_against(orc.stripe_statistics()[1])
    list(orc.scan(KEY_FIELDS, stripes=range(2, 3)))
    assert check.last(2) is None
    list(orc.scan(stripes=range(2, 3)))
    last = check.last(2)
    assert last is not None
    with pytest.raises(DamagedDataError):
        last.check_against(orc.stripe_statistics()[2])


def test_without_statistics_of_stripes(data: bytes) -> None:
    """Nothing is known of the others, so that only what is read as a whole is compared."""
    orc = open_orc(io.BytesIO(turned(data, 2)), name="f")
    orc.check = StripesCheck(orc.tail, lambda: ())
    list(orc.scan(stripes=range(2, 3)))
    orc.check.finish()
    list(orc.scan())
    with pytest.raises(DamagedDataError):
        orc.check.finish()
