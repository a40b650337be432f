"""What a scan asks of a file on a server: few requests, each byte once, the next stripe while this one is decoded."""

from __future__ import annotations

import io
import time
from collections.abc import Iterator
from functools import cache
from itertools import islice

import numpy as np
import pyarrow as pa
import pytest

from acidctl.format.names import KEY_FIELDS
from acidctl.orc.reader import open_orc
from acidctl.orc.tail import read_tail
from acidctl.storage.prefetch import Tuning
from acidctl.types.schema import parse_schema
from tests.support.distant import Requests, ranged
from tests.support.orc_events import EventBatch, keys, written

pytestmark = pytest.mark.slow

_ROWS = 20_000
_STRIPES = 6
_TINY = Tuning(memory=1 << 20, whole=0, gap=4 << 10, piece=256 << 10, least=32 << 10)


@cache
def _file(compression: str) -> bytes:
    """A file of six stripes of a megabyte or more, the columns of which cannot be compressed."""
    types = parse_schema("a bigint, b binary, c array<int>").columns
    random = np.random.default_rng(7)

    def batches() -> Iterator[EventBatch]:
        for number in range(_STRIPES):
            texts = pa.array([row.tobytes() for row in random.integers(0, 1 << 60, (_ROWS, 5))], pa.binary())
            lists = pa.ListArray.from_arrays(np.arange(_ROWS + 1, dtype=np.int32), random.integers(0, 99, _ROWS, "i4"))
            columns = (pa.array(random.integers(0, 1 << 60, _ROWS)), texts, lists)
            yield EventBatch(keys(_ROWS, start=number * _ROWS), columns)

    # Of plain streams the C++ writer counts blocks that are hardly filled.
    size = 2 << 20 if compression == "none" else 1 << 20
    data, _ = written(batches(), types, compression=compression, stripe_size=size)
    return data


def test_a_tail_is_one_request() -> None:
    """Whatever the size of the file."""
    data, requests = _file("zlib"), Requests()
    tail = read_tail(ranged(data, requests), name="f")
    assert requests.ranges == [("f", len(data) - (64 << 10), 64 << 10)]
    assert len(tail.stripes) >= _STRIPES


@pytest.mark.parametrize("compression", ["zlib", "snappy", "none"])
def test_tail_and_keys_are_one_request_and_one_per_stripe(compression: str) -> None:
    """The keys of a stripe come with the footer of the stripe before."""
    data, requests = _file(compression), Requests()
    orc = open_orc(ranged(data, requests), name="f")
    rows = sum(len(batch) for batch in orc.scan(KEY_FIELDS))
    assert rows == _STRIPES * _ROWS
    assert len(requests.ranges) <= 1 + len(orc.tail.stripes)
    assert requests.bytes < len(data) / 4


@pytest.mark.parametrize("compression", ["zlib", "snappy"])
@pytest.mark.parametrize("fields", [None, (0,), (2, 1)])
def test_a_scan_fetches_each_byte_once(compression: str, fields: tuple[int, ...] | None) -> None:
    """And delivers what it delivers of a file that is near."""
    data, requests = _file(compression), Requests()
    orc = open_orc(ranged(data, requests), name="f")
    far = pa.Table.from_batches(orc.scan(fields=fields))
    near = pa.Table.from_batches(open_orc(io.BytesIO(data), name="f").scan(fields=fields))
    assert far.equals(near)
    assert requests.bytes <= len(data)
    assert len(requests.ranges) <= 1 + 4 * len(orc.tail.stripes)


def test_stripes_larger_than_the_memory_are_read_by_their_streams() -> None:
    """Slower, and right; little is fetched twice."""
    data, requests = _file("snappy"), Requests()
    far = pa.Table.from_batches(open_orc(ranged(data, requests, tuning=_TINY), name="f").scan())
    assert far.equals(pa.Table.from_batches(open_orc(io.BytesIO(data), name="f").scan()))
    assert requests.bytes <= 1.2 * len(data)


def test_a_part_of_the_stripes_fetches_no_other() -> None:
    """Whoever reads a range of keys pays for no byte of the rest, nor for its footers."""
    data, requests = _file("snappy"), Requests()
    with ranged(data, requests) as file:
        orc = open_orc(file, name="f")
        part, opened = orc.tail.stripes[2], len(requests.ranges)
        assert sum(len(batch) for batch in orc.scan(stripes=range(2, 3))) == part.rows
    asked = requests.ranges[opened:]
    assert asked
    assert all(part.offset <= offset and offset + length <= part.end for _, offset, length in asked)


def test_the_next_stripe_is_on_its_way_while_one_is_decoded() -> None:
    """The server is asked for it before the first rows are delivered."""
    data, requests = _file("snappy"), Requests()
    orc = open_orc(ranged(data, requests), name="f")
    list(islice(orc.scan(batch_size=100), 1))
    following = orc.tail.stripes[1]
    deadline = time.monotonic() + 5
    while not any(following.offset < offset < following.end for _, offset, length in requests.ranges if length > 65536):
        assert time.monotonic() < deadline
        time.sleep(0.001)
