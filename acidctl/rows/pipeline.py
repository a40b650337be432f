"""Batches: how many rows to take at a time, and work on them in threads while reading goes on; order is kept.

Arrow and numpy let go of the interpreter lock in their loops, so decoding one batch and rendering another take both
cores. Nothing runs ahead by more than a few batches, nor by more than `BYTES_IN_FLIGHT`: memory stays bounded.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from queue import SimpleQueue
from typing import TypeVar

#: Of batches that are read and not yet delivered; a batch that is larger than this is alone.
BYTES_IN_FLIGHT = 32 << 20

Item = TypeVar("Item")
Result = TypeVar("Result")


def ordered_map(
    function: Callable[[Item], Result],
    items: Iterable[Item],
    *,
    workers: int | None = None,
    size: Callable[[Item], int] = lambda item: 0,
) -> Iterator[Result]:
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


def read_ahead(items: Iterator[Item], *, depth: int = 2) -> Iterator[Item]:
    """The same items, produced by a thread of its own that stays at most `depth` items ahead.

    An error of `items` is raised where its item would have come. Closing the result ends the thread and closes `items`
    there, so that files are closed by the thread that reads them.
    """
    # An interrupt may come at any place of the main thread. Of Queue, Semaphore and Event it could leave the lock held,
    # and the other thread would wait for it for ever; these queues have none that Python code could leave.
    ready: SimpleQueue[tuple[Item | None, BaseException | None]] = SimpleQueue()
    room: SimpleQueue[None] = SimpleQueue()
    for _ in range(depth):
        room.put(None)
    stopped = False

    def produce() -> None:
        failure: BaseException | None = None
        try:
            for item in items:
                ready.put((item, None))
                room.get()
                if stopped:
                    break
        except BaseException as error:
            failure = error
        finally:
            close = getattr(items, "close", None)
            if close is not None:
                close()
            ready.put((None, failure))

    thread = threading.Thread(target=produce, name="acidctl-read-ahead", daemon=True)
    try:
        thread.start()
        while True:
            item, failure = ready.get()
            if failure is not None:
                raise failure
            if item is None:
                return
            yield item
            room.put(None)
    finally:
        stopped = True
        room.put(None)
        with suppress(RuntimeError):  # an interrupt came before it was known to run; then it ends with its first item
            thread.join()
