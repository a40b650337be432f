"""Stripes that are inflated for Arrow give what Arrow's own zlib gives, and nothing depends on igzip being right."""

from __future__ import annotations

import io
import itertools
import zlib
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from functools import cache
from typing import Any, cast

import pyarrow as pa
import pytest

from acidctl.errors import DamagedDataError
from acidctl.format.events import EventBatch
from acidctl.orc import inflate, reader
from acidctl.orc.codec import CodecError, Compression
from acidctl.orc.deflate import Inflate, igzip_inflate
from acidctl.orc.reader import open_orc
from acidctl.types.stored_digest import RowDigest
from tests.support.orc_events import keys, written
from tests.support.orc_files import by_arrow, by_pyorc, fixture_files
from tests.unit.orc.test_recompress import CHUNKS, STRIPES, every_chunk, every_stripe, made, values
from tests.unit.orc.test_writer import columns_of

ROWS = 1500
Scan = Callable[..., list[pa.RecordBatch]]


@pytest.fixture(autouse=True)
def _however_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """The files of these tests are smaller than what is worth it."""
    monkeypatch.setattr("acidctl.orc.reader._WORTH_INFLATING", 0)


class Distant(io.RawIOBase):
    """A file that is on no disk of this machine, and counts the bytes that are asked of it."""

    def __init__(self, data: bytes) -> None:
        super().__init__()
        self._file = io.BytesIO(data)
        self.asked = 0

    def read(self, size: int = -1) -> bytes:
        part = self._file.read(size)
        self.asked += len(part)
        return part

    def seek(self, offset: int, whence: int = 0) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()


@cache
def file_of(chunk: int = CHUNKS["tiny"], stripe: int = STRIPES["many"]) -> bytes:
    """A file of all types, with NULLs."""
    with pytest.MonkeyPatch.context() as patch:
        data, _ = made(values(True, ROWS), patch, chunk=chunk, stripe_size=stripe)
    return data


def batches_of(file: Any, *args: Any, **options: Any) -> list[pa.RecordBatch]:
    if isinstance(file, bytes):
        file = io.BytesIO(file)
    return list(open_orc(file, name="f").scan(*args, **options))


def by_arrows_zlib(data: bytes, *args: Any, **options: Any) -> list[pa.RecordBatch]:
    """The batches without igzip."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(inflate, "igzip_inflate", lambda: None)
        return batches_of(data, *args, **options)


def use(monkeypatch: pytest.MonkeyPatch, function: Inflate) -> None:
    monkeypatch.setattr(inflate, "igzip_inflate", lambda: function)


def real() -> Inflate:
    function = igzip_inflate()
    assert function is not None
    return function


@pytest.fixture
def restarts(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many rows had been given each time that a scan went on in Arrow's own way, though there is igzip."""
    seen: list[int] = []
    before = reader._stripe_of

    def noted(tail: Any, given: int) -> tuple[int, int]:
        if tail.postscript.compression is Compression.ZLIB and vars(inflate)["igzip_inflate"]() is not None:
            seen.append(given)
        return before(tail, given)

    monkeypatch.setattr(reader, "_stripe_of", noted)
    return seen


# --- the same rows


@every_stripe
@every_chunk
def test_inflated_stripes_give_the_same_batches(chunk: int, stripe: int, restarts: list[int]) -> None:
    """All types, in one stripe and in many, in one chunk and in many."""
    data = file_of(chunk, stripe)
    found = batches_of(data, batch_size=400)
    assert restarts == []
    assert found == by_arrows_zlib(data, batch_size=400)
    assert sum(map(len, found)) == ROWS


@pytest.mark.slow
def test_any_projection_gives_the_same_batches(restarts: list[int]) -> None:
    """Only what is asked for is inflated, and that suffices."""
    data = file_of()
    fields = range(len(open_orc(io.BytesIO(data), name="f").columns.fields))
    for wanted in [(), *((field,) for field in fields), (19, 7, 0)]:
        found = batches_of(data, ["rowId", "row"], fields=wanted)
        assert found == by_arrows_zlib(data, ["rowId", "row"], fields=wanted), wanted
    for stripes in (range(1), range(1, 3), range(2, 2)):
        assert batches_of(data, stripes=stripes) == by_arrows_zlib(data, stripes=stripes), stripes
    assert restarts == []


@pytest.mark.slow
def test_delete_events_have_no_rows(restarts: list[int]) -> None:
    """A NULL struct has its fields behind a stream of its own."""
    data, _ = written([EventBatch(keys(ROWS, operation=2), ())], columns_of("struct<a:int,b:string,c:array<int>>"))
    found = batches_of(data)
    assert restarts == []
    assert found == by_arrows_zlib(data)
    assert {batch.column("row").null_count for batch in found} == {ROWS}


@pytest.mark.slow
def test_files_of_hive_give_the_same_batches(restarts: list[int]) -> None:
    """Bucket files of the fixtures, among them all kinds and types; compared bit for bit, NaN with NaN."""
    files = [path for path in fixture_files()[::3] if path.stat().st_size]
    found = {path: _answer(batches_of, path.read_bytes()) for path in files}
    assert found == {path: _answer(by_arrows_zlib, path.read_bytes()) for path in files}
    assert restarts == []
    assert len(files) > 50


def _answer(scan: Scan, data: bytes) -> str | tuple[int, str]:
    """The digest of the rows, or what is wrong with the file."""
    digest = RowDigest()
    try:
        for batch in scan(data):
            digest.update(None, batch.columns)
    except DamagedDataError as error:
        return error.message
    return digest.rows, digest.hexdigest()


@pytest.mark.parametrize(
    "codec",
    ["zlib", *(pytest.param(codec, marks=pytest.mark.slow) for codec in ("uncompressed", "snappy", "zstd", "lz4"))],
)
def test_files_of_other_writers(codec: str, restarts: list[int]) -> None:
    """Only ZLIB is inflated here; pyarrow's chunks are of one size, as all writers' are."""
    table = pa.table({"a": pa.array(range(50_000)), "b": [f"text {i % 977}" for i in range(50_000)]})
    data = by_arrow(table, compression=codec, compression_block_size=1 << 16)
    found = batches_of(data)
    assert restarts == []
    assert pa.Table.from_batches(found) == table


# --- what is odd


@pytest.mark.slow
def test_a_scan_goes_on_in_arrows_way_wherever_inflating_fails(
    monkeypatch: pytest.MonkeyPatch, restarts: list[int]
) -> None:
    """No row is lost and none comes twice, whichever chunk it is."""
    data = file_of()
    want = pa.Table.from_batches(by_arrows_zlib(data, batch_size=100))
    calls = itertools.count()
    use(monkeypatch, lambda chunk, most: (next(calls), real()(chunk, most))[1])
    batches_of(data, batch_size=100)
    total = next(calls)
    assert total > 200
    for failing in range(0, total, 17):
        left = itertools.count(failing, -1)
        use(monkeypatch, _failing(left))
        assert pa.Table.from_batches(batches_of(data, batch_size=100)) == want, failing
    assert len(set(restarts)) >= 3


def _failing(left: Iterator[int]) -> Inflate:
    """igzip, until nothing is left."""
    igzip = real()

    def some(chunk: bytes | memoryview, most: int) -> bytes:
        if next(left) <= 0:
            raise CodecError("enough")
        return igzip(chunk, most)

    return some


@pytest.mark.slow
def test_chunks_of_different_sizes(monkeypatch: pytest.MonkeyPatch, restarts: list[int]) -> None:
    """Where a chunk lies cannot be told then; it is noticed before a byte of it is used."""
    data = file_of(stripe=STRIPES["one"])
    want = by_arrows_zlib(data)
    igzip = real()
    calls = itertools.count()

    def longer(chunk: bytes | memoryview, most: int) -> bytes:
        plain = igzip(chunk, most)
        return plain + b"\0" if next(calls) > 100 else plain

    use(monkeypatch, longer)
    found = batches_of(data)
    assert restarts != []
    assert pa.Table.from_batches(found) == pa.Table.from_batches(want)


def test_an_inflater_that_is_wrong_is_found_out(monkeypatch: pytest.MonkeyPatch, restarts: list[int]) -> None:
    """Of each stripe one chunk is held against zlib before a row of it is given."""
    data = file_of(CHUNKS["usual"])
    igzip = real()

    def wrong(chunk: bytes | memoryview, most: int) -> bytes:
        plain = igzip(chunk, most)
        return plain[:-1] + bytes([plain[-1] ^ 1])

    use(monkeypatch, wrong)
    found = batches_of(data)
    assert restarts == [0]
    assert found == by_arrows_zlib(data)


def test_without_isal_nothing_is_inflated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then Arrow does it all."""
    held: list[object] = []
    monkeypatch.setattr(inflate, "PlainStripes", held.append)
    assert sum(map(len, by_arrows_zlib(file_of()))) == ROWS
    assert held == []


@pytest.mark.slow
def test_damage_is_told_as_arrow_tells_it() -> None:
    """Bytes of chunks that are flipped or cut: the same sentence, or the same rows where nobody can notice."""
    data = file_of()
    end = open_orc(io.BytesIO(data), name="f").tail.stripes[-1].end
    answers = set()
    for at in range(3, end, 3001):
        bad = data[:at] + bytes([data[at] ^ 0x55]) + data[at + 1 :]
        found = _answer(batches_of, bad)
        assert found == _answer(by_arrows_zlib, bad), at
        answers.add(found if isinstance(found, str) else "rows")
    assert len(answers) > 3


def test_a_chunk_cannot_ask_for_more_than_a_block() -> None:
    """A bomb of a kilobyte is refused, and so is what follows the end of a chunk."""
    deflater = zlib.compressobj(9, wbits=-15)
    bomb = deflater.compress(bytes(1 << 20)) + deflater.flush()
    with pytest.raises(CodecError, match="size"):
        real()(bomb, (1 << 20) - 1)
    with pytest.raises(CodecError, match="size"):
        real()(bomb + b"x", 1 << 20)
    with pytest.raises(CodecError, match="size"):
        real()(bomb[:-1], 1 << 20)
    assert real()(bomb, 1 << 20) == bytes(1 << 20)


# --- what is held


@pytest.mark.slow
def test_a_distant_file_is_read_once() -> None:
    """Its stored bytes are held while a stripe is read."""
    data = file_of()
    file = Distant(data)
    assert batches_of(file) == by_arrows_zlib(data)
    assert file.asked < 2 * len(data)


def test_what_is_held_is_bounded_and_given_back(monkeypatch: pytest.MonkeyPatch, restarts: list[int]) -> None:
    """A stripe for which there is no room is read in Arrow's way; what was taken is there again afterwards."""
    data = file_of()
    largest = max(stripe.data_length for stripe in open_orc(io.BytesIO(data), name="f").tail.stripes)
    budget = inflate._Budget(largest)
    monkeypatch.setattr(inflate, "_BUDGET", budget)
    assert batches_of(Distant(data)) == by_arrows_zlib(data)
    with closing(cast(Generator[pa.RecordBatch], open_orc(Distant(data), name="f").scan(batch_size=10))) as scan:
        next(scan)
        assert not budget.take(largest)
    assert budget.take(largest)
    assert restarts == []
    assert batches_of(Distant(data)) == by_arrows_zlib(data)
    assert restarts == [0]


@pytest.mark.slow
def test_a_column_of_no_stream(restarts: list[int]) -> None:
    """An empty struct has nothing to inflate."""
    data = by_pyorc("struct<a:struct<>,b:int>", [((), i) for i in range(10)])
    assert batches_of(data, ["a"]) == by_arrows_zlib(data, ["a"])
    assert restarts[:1] != [10]
