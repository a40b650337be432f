"""Work on a stream of batches in threads while the stream goes on being read; order is kept.

Arrow and numpy let go of the interpreter lock in their loops, so decoding one batch and rendering another take both
cores. Nothing runs ahead by more than a few batches: memory stays bounded.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def ordered_map(
    function: Callable[[Item], Result], items: Iterable[Item], *, workers: int | None = None
) -> Iterator[Result]:
    """Yield `function(item)` for each item, in order; `items` is consumed by the calling thread.

    Errors of either side come out where their result would have; what was submitted is waited for, not abandoned.
    """
    count = workers or min(4, os.cpu_count() or 1)
    pending: deque[Future[Result]] = deque()
    with ThreadPoolExecutor(count, thread_name_prefix="acidctl") as pool:
        try:
            for item in items:
                pending.append(pool.submit(function, item))
                while pending and (len(pending) > count + 1 or pending[0].done()):
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        finally:
            for future in pending:
                future.cancel()
