"""The same done with many things, several at once, and undone by the caller when one fails."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")


def for_each(action: Callable[[Item], object], items: Sequence[Item], *, threads: int, name: str) -> None:
    """Do something with each, in up to so many threads of that name.

    The first error is raised when none is under way any more, so that all can be undone; what has not begun by then
    is not begun.
    """
    if len(items) < 2:
        for item in items:
            action(item)
        return
    with ThreadPoolExecutor(min(threads, len(items)), name) as pool:
        futures = [pool.submit(action, item) for item in items]
        try:
            for future in futures:
                future.result()
        except BaseException:
            pool.shutdown(wait=True, cancel_futures=True)
            raise
