"""Batches: how many rows to take at a time, and work on them in threads while reading goes on; order is kept.

Arrow and numpy let go of the interpreter lock in their loops, so decoding one batch and rendering another take both
cores. Nothing runs ahead by more than a few batches, nor by more than `BYTES_IN_FLIGHT`: memory stays bounded.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from queue import SimpleQueue
from typing import Generic, TypeVar

#: Of batches that are read and not yet delivered; a batch that is larger than this is alone.
BYTES_IN_FLIGHT = 32 << 20

#: How many batches of one part of a table may wait while those of an earlier part are delivered, and of how many bytes
#: a batch counts as one; a larger one counts as several.
DEPTH_OF_STREAMS, BYTES_OF_ONE = 8, 3 << 20

Item = TypeVar("Item")
Result = TypeVar("Result")


def cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def ordered_map(
    function: Callable[[Item], Result],
    items: Iterable[Item],
    *,
    workers: int | None = None,
    size: Callable[[Item], int] = lambda item: 0,
) -> Generator[Result, None, None]:
    """Yield `function(item)` for each item, in order; `items` is consumed by the calling thread.

    `size` tells the bytes of an item: while the items whose results are not delivered have more than
    `BYTES_IN_FLIGHT`, no further item is read. Errors of either side come out where their result would have; what was
    submitted is waited for, not abandoned.
    """
    count = workers or min(4, os.cpu_count() or 1)
    pending: deque[tuple[Future[Result], int]] = deque()
    in_flight = 0
    with ThreadPoolExecutor(count, thread_name_prefix="acidctl") as pool:
        failure: Exception | None = None
        source = iter(items)
        try:
            while True:
                try:
                    item = next(source)
                except StopIteration:
                    break
                except Exception as error:  # what came before it is delivered first: how much does not hang on timing
                    failure = error
                    break
                pending.append((pool.submit(function, item), size(item)))
                in_flight += pending[-1][1]
                del item
                while pending and (len(pending) > count + 1 or in_flight > BYTES_IN_FLIGHT or pending[0][0].done()):
                    in_flight -= pending[0][1]
                    yield pending.popleft()[0].result()
            while pending:
                yield pending.popleft()[0].result()
            if failure is not None:
                raise failure
        finally:
            for future, _ in pending:
                future.cancel()


def read_ahead(items: Iterator[Item], *, depth: int = 2) -> Generator[Item, None, None]:
    """The same items, produced by a thread of its own that stays at most `depth` items ahead.

    An error of `items` is raised where its item would have come. Closing the result ends the thread and closes `items`
    there, so that files are closed by the thread that reads them.
    """
    ahead = _Ahead(items, depth)
    try:
        ahead.start()
        yield from ahead.results()
    finally:
        ahead.close()


def ordered_streams(
    streams: Iterable[Iterator[Item]],
    *,
    workers: int,
    depth: int = DEPTH_OF_STREAMS,
    size: Callable[[Item], int] = lambda item: 0,
) -> Iterator[Item]:
    """All items of the streams, one stream after the other, while up to `workers` of them are read by a thread each.

    At most `depth` items of a stream wait, fewer if `size` gives them many bytes, and of one stream more than there are
    workers. `streams` is consumed by the calling thread; its errors and those of a stream come out where the next item
    would have.
    """
    pending: deque[_Ahead[Item]] = deque()
    source = iter(streams)
    failure: Exception | None = None
    exhausted = False

    def refill() -> None:
        nonlocal failure, exhausted
        while not exhausted and len(pending) <= workers and sum(not one.ended for one in pending) < workers:
            try:
                stream = next(source)
            except StopIteration:
                exhausted = True
                return
            except Exception as error:  # what came before it is delivered first
                failure, exhausted = error, True
                return
            pending.append(_Ahead(stream, depth, size))
            pending[-1].start()

    try:
        refill()
        while pending:
            for item in pending[0].results():
                refill()
                yield item
            pending.popleft().close()
            refill()
        if failure is not None:
            raise failure
    finally:
        for one in pending:
            one.stop()
        for one in pending:
            one.close()


class _Ahead(Generic[Item]):
    """An iterator that a thread of its own reads, at most `depth` items ahead of who takes its results."""

    def __init__(self, items: Iterator[Item], depth: int, size: Callable[[Item], int] = lambda item: 0) -> None:
        # An interrupt may come at any place of the main thread. Of Queue, Semaphore and Event it could leave the lock
        # held, and the other thread would wait for it for ever; these queues have none that Python code could leave.
        self._ready: SimpleQueue[tuple[Item | None, int, BaseException | None]] = SimpleQueue()
        self._room: SimpleQueue[None] = SimpleQueue()
        for _ in range(depth):
            self._room.put(None)
        self._items, self._depth, self._size = items, depth, size
        self._stopped = False
        self.ended = False
        self._thread = threading.Thread(target=self._produce, name="acidctl-read-ahead", daemon=True)

    def start(self) -> None:
        """Begin to read."""
        self._thread.start()

    def results(self) -> Iterator[Item]:
        """The items in order, and then what went wrong, if anything did."""
        while True:
            item, places, failure = self._ready.get()
            if failure is not None:
                raise failure
            if item is None:
                return
            yield item
            for _ in range(places):
                self._room.put(None)

    def stop(self) -> None:
        """Ask for no further item."""
        self._stopped = True
        for _ in range(self._depth):
            self._room.put(None)

    def close(self) -> None:
        """Stop, and wait for the thread, which closes what it reads."""
        self.stop()
        with suppress(RuntimeError):  # an interrupt came before it was known to run; then it ends with its first item
            self._thread.join()

    def _produce(self) -> None:
        failure: BaseException | None = None
        try:
            for item in self._items:
                places = min(1 + self._size(item) // BYTES_OF_ONE, self._depth)
                self._ready.put((item, places, None))
                for _ in range(places):
                    self._room.get()
                if self._stopped:
                    break
        except BaseException as error:
            failure = error
        finally:
            close = getattr(self._items, "close", None)
            if close is not None:
                close()
            self.ended = True
            self._ready.put((None, 0, failure))
