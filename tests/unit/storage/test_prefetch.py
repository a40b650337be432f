"""A file read by ranges: the right bytes, few requests, bounded memory."""

from __future__ import annotations

import io
import random
import threading
import time
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acidctl.errors import StorageError, UnreachableError
from acidctl.storage.prefetch import Budget, RangedFile, Tuning

_K = 1 << 10
_SMALL = Tuning(memory=4 * _K, whole=0, gap=16, piece=512, least=64, first=32, ahead=128, depth=3)


class Server:
    """Bytes to be read by ranges; every request is counted, and `trouble` is called with it before the answer."""

    def __init__(self, data: bytes, *, at_most: int = 1 << 40) -> None:
        self.data = data
        self.requests: list[tuple[int, int]] = []
        self.at_most = at_most
        self.trouble: Callable[[int, int], None] = lambda offset, length: None
        self._lock = threading.Lock()

    def read_at(self, offset: int, length: int) -> bytes:
        assert 0 <= offset < offset + length <= len(self.data)
        with self._lock:
            self.requests.append((offset, length))
        self.trouble(offset, length)
        return self.data[offset : offset + min(length, self.at_most)]


def _open(server: Server, tuning: Tuning = _SMALL, budget: int = 1 << 30) -> RangedFile:
    return RangedFile(server.read_at, len(server.data), name="x://f", tuning=tuning, budget=Budget(budget))


def _bytes(size: int) -> bytes:
    return random.Random(size).randbytes(size)


_READS = st.lists(
    st.one_of(
        st.tuples(st.just("seek"), st.integers(0, 5000), st.integers(0, 700)),
        st.tuples(st.just("read"), st.just(0), st.integers(-1, 700)),
        st.tuples(st.just("prefetch"), st.integers(0, 5000), st.integers(0, 3000)),
    ),
    max_size=30,
)


@pytest.mark.slow
@given(_READS, st.integers(1, 5000), st.sampled_from([0, 300, 1 << 20]), st.sampled_from([17, 1 << 20]))
def test_reads_like_a_file_whatever_is_announced(
    steps: list[tuple[str, int, int]], size: int, budget: int, at_most: int
) -> None:
    """Any order of seeks, reads and announcements, short answers of the server, and no memory to read ahead."""
    server = Server(_bytes(size), at_most=at_most)
    plain = io.BytesIO(server.data)
    with _open(server, budget=budget) as file:
        announced = []
        for verb, offset, length in steps:
            if verb == "prefetch":
                announced.append((offset, length))
                file.prefetch([*announced, (offset // 2, length // 3)])
                continue
            if verb == "seek":
                file.seek(offset)
                plain.seek(offset)
            assert file.read(length) == plain.read(length)
            assert file.tell() == plain.tell()


def test_it_is_a_file_to_python() -> None:
    """What the standard library asks of a file that is read."""
    server = Server(b"one\ntwo\nthree")
    file = _open(server)
    assert (file.readable(), file.seekable(), file.writable()) == (True, True, False)
    assert [file.seek(-5, io.SEEK_END), file.read(), file.read(1)] == [8, b"three", b""]
    assert [file.seek(0), file.seek(2, io.SEEK_CUR), file.readline(), list(file)] == [
        0,
        2,
        b"e\n",
        [b"two\n", b"three"],
    ]
    with pytest.raises(ValueError, match="seek to -1"):
        file.seek(-1)
    buffer = bytearray(6)
    assert (file.seek(4), file.readinto(buffer), bytes(buffer)) == (4, 6, b"two\nth")
    file.close()
    for use in (file.read, file.tell, lambda: file.seek(0), lambda: file.prefetch([])):
        with pytest.raises(ValueError, match="closed"):
            use()


def test_an_empty_file_costs_no_request() -> None:
    """There is nothing to ask for."""
    server = Server(b"")
    assert _open(server).read() == b""
    assert server.requests == []


def test_near_ranges_are_fetched_together_and_far_ones_apart() -> None:
    """One request for what lies at most a gap apart; what has been fetched is not fetched again."""
    server = Server(_bytes(2000))
    with _open(server) as file:
        file.prefetch([(100, 20), (1000, 50), (130, 20), (60, 30)])
        for offset, length in ((60, 30), (100, 20), (130, 20), (1000, 50)):
            file.seek(offset)
            assert file.read(length) == server.data[offset : offset + length]
    assert sorted(server.requests) == [(60, 90), (1000, 50)]


def test_a_long_range_is_fetched_in_pieces_at_once() -> None:
    """Several requests are under way together: the server answers none before it has seen three."""
    server = Server(_bytes(2000))
    together = threading.Barrier(3, timeout=10)

    def trouble(offset: int, length: int) -> None:
        together.wait()

    server.trouble = trouble
    with _open(server) as file:
        file.prefetch([(0, 3 * 512)])
        assert file.read(3 * 512) == server.data[: 3 * 512]
    assert sorted(server.requests) == [(0, 512), (512, 512), (1024, 512)]


def test_what_is_announced_is_held_only_as_far_as_memory_goes() -> None:
    """The rest follows as bytes are read, so that all is fetched once and never much at a time."""
    server = Server(_bytes(100_000))
    budget = Budget(1 << 30)
    with RangedFile(server.read_at, 100_000, name="f", tuning=_SMALL, budget=budget) as file:
        file.prefetch([(0, 100_000)])
        time.sleep(0.05)
        assert sum(length for _, length in server.requests) <= _SMALL.memory
        for at in range(0, 100_000, 100):
            assert file.read(100) == server.data[at : at + 100]
            assert sum(length for _, length in server.requests) <= at + 100 + _SMALL.memory
    assert sum(length for _, length in server.requests) == 100_000


def test_streams_that_are_read_side_by_side_have_a_window_each() -> None:
    """A stripe that is larger than the memory: its columns are read in turns, and no byte is fetched twice."""
    server = Server(_bytes(40_000))
    with _open(server) as file:
        streams = [(start, 10_000) for start in range(0, 40_000, 10_000)]
        file.prefetch(streams)
        for at in range(0, 10_000, 100):
            for start, _ in streams:
                file.seek(start + at)
                assert file.read(100) == server.data[start + at : start + at + 100]
    assert sum(length for _, length in server.requests) == 40_000
    assert len(server.requests) <= 40_000 / 500


def test_without_memory_only_what_is_asked_for_is_fetched() -> None:
    """All files together have used up what may be held: slower, and never wrong or larger."""
    server = Server(_bytes(4_000))
    with _open(server, budget=0) as file:
        file.prefetch([(0, 4_000)])
        assert server.requests == []
        for at in (2_000, 500, 3_000):
            file.seek(at)
            assert file.read(200) == server.data[at : at + 200]
    assert server.requests == [(2_000, 200), (500, 200), (3_000, 200)]


def test_memory_is_given_back() -> None:
    """By reading and by closing, whatever has come of the requests."""
    budget = Budget(10_000)
    server = Server(_bytes(8_000))

    def refuse(offset: int, length: int) -> None:
        if offset > 4_000:
            raise UnreachableError("no answer")

    server.trouble = refuse
    tuning = Tuning(memory=10_000, whole=0, gap=16, piece=512, least=64)
    with RangedFile(server.read_at, 8_000, name="f", tuning=tuning, budget=budget) as file:
        file.prefetch([(0, 8_000)])
        assert not budget.take(2_001)
        assert file.read(4_096) == server.data[:4_096]
        file.prefetch([])
        assert budget.take(6_000)
        budget.give(6_000)
    assert budget.take(10_000)


def test_reading_on_is_noticed_and_fetched_ahead() -> None:
    """Small reads one after another become few requests, which are under way before they are needed."""
    server = Server(_bytes(20_000))
    with _open(server) as file:
        read = b"".join(iter(lambda: file.read(20), b""))
    assert read == server.data
    assert len(server.requests) <= 2 + 20_000 / _SMALL.ahead
    assert sum(length for _, length in server.requests) == 20_000


def test_single_reads_fetch_little() -> None:
    """A look here and there is not taken for reading on."""
    server = Server(_bytes(100_000))
    with _open(server) as file:
        for at in (90_000, 10_000, 50_000):
            file.seek(at)
            file.read(10)
    assert server.requests == [(90_000, 32), (10_000, 32), (50_000, 32)]


def test_what_is_not_announced_again_makes_room() -> None:
    """A reader that has gone elsewhere does not pay for what it once announced."""
    server = Server(_bytes(20_000))
    with _open(server) as file:
        file.prefetch([(0, 4_000)])
        file.prefetch([(10_000, 4_000)])
        file.seek(10_000)
        assert file.read(4_000) == server.data[10_000:14_000]
    assert sum(length for offset, length in server.requests if offset >= 10_000) == 4_000


def test_what_is_announced_again_is_kept() -> None:
    """The next stripe is announced together with what is left of this one."""
    server = Server(_bytes(20_000))
    with _open(server) as file:
        file.prefetch([(0, 2_000)])
        file.read(1_000)
        file.prefetch([(1_000, 1_000), (2_000, 2_000)])
        file.read(3_000)
    assert sum(length for _, length in server.requests) == 4_000


def test_an_error_ahead_shows_only_where_it_is_read_and_only_if_it_stays() -> None:
    """A request that failed in the background is made again when its bytes are needed."""
    server = Server(_bytes(2_000))
    failed: list[int] = []

    def once(offset: int, length: int) -> None:
        if offset not in failed:
            failed.append(offset)
            raise UnreachableError("no answer")

    server.trouble = once
    with _open(server) as file:
        file.prefetch([(0, 500), (1_000, 500)])
        time.sleep(0.02)
        assert file.read(500) == server.data[:500]
        file.seek(1_600)
        with pytest.raises(UnreachableError):
            file.read(10)
        assert file.tell() == 1_600
        assert file.read(10) == server.data[1_600:1_610]


def test_a_file_that_got_shorter_is_an_error() -> None:
    """Never fewer bytes than its size promised."""
    file = RangedFile(lambda offset, length: b"abc"[offset : offset + length], 5, name="x://f")
    with pytest.raises(StorageError, match="x://f ends at byte 3"):
        file.read()


def test_a_small_file_costs_one_request_however_it_is_read() -> None:
    """Its end first, then its beginning, then all of it."""
    for announced in ([], [(300, 50)]):
        server = Server(_bytes(400))
        with _open(server, Tuning(whole=400)) as file:
            file.prefetch(announced)
            file.seek(300)
            file.read()
            for _ in range(2):
                file.seek(0)
                file.prefetch([])
                assert file.read() == server.data
        assert server.requests == [(0, 400)]


def test_what_was_read_can_be_read_again() -> None:
    """A stripe is looked at before it is decoded; its bytes stay until the next is announced."""
    server = Server(_bytes(4_000))
    with _open(server) as file:
        file.prefetch([(0, 2_000)])
        for _ in range(3):
            file.seek(0)
            assert file.read(2_000) == server.data[:2_000]
        assert sum(length for _, length in server.requests) == 2_000
        file.prefetch([(2_000, 2_000)])
        file.seek(0)
        file.read(100)
    assert sum(length for offset, length in server.requests if offset < 2_000) > 2_000


def test_many_open_files_share_the_memory() -> None:
    """Each may hold as much as the others."""
    server = Server(_bytes(4_000))
    budget = Budget(4_000)
    files = [RangedFile(server.read_at, 4_000, name="f", tuning=_SMALL, budget=budget) for _ in range(4)]
    for file in files:
        file.prefetch([(0, 4_000)])
    for file in files:
        assert file.read(4_000) == server.data
        file.close()
    assert budget.share == 4_000
