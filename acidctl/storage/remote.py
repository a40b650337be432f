"""Many requests at once: walks over storages that list one directory at a time, and one action for many things."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from queue import SimpleQueue
from typing import TypeVar

from acidctl.errors import DeniedError, NoSuchTableError
from acidctl.format.listing import FileInfo
from acidctl.storage.port import Descend, Walk, join, may_be_closed
from acidctl.storage.retry import DEFAULT_RETRY, RetryPolicy
from acidctl.values import dataclass

WORKERS = 16
_MOST_AT_A_TIME = 64


@dataclass(frozen=True, slots=True)
class DirectoryEntry:
    """One entry of a directory: the last part of its path, its size in bytes, its time in seconds since 1970 UTC."""

    name: str
    is_directory: bool
    size: int = 0
    modified: float | None = None


ListDirectory = Callable[[str], Iterable[DirectoryEntry]]
ListSome = Callable[[Sequence[str]], Sequence[Sequence[DirectoryEntry] | None]]


def walk_tree(
    list_directory: ListDirectory,
    root: str,
    descend: Descend | None = None,
    *,
    list_some: ListSome = lambda paths: [None] * len(paths),
    workers: int = WORKERS,
    policy: RetryPolicy = DEFAULT_RETRY,
) -> Walk:
    """Everything below `root`, as `Storage.walk` promises it.

    `list_directory` is given the path of a directory and gives its entries, all pages of them; it is called in up to
    `workers` threads, and raises NoSuchTableError for what does not exist and DeniedError for what is closed. A
    transient error is answered by listing that one directory again. `list_some` is for clients whose calls cost more
    than their answers: it is given several directories and gives their entries in the same order, or None for each
    that `list_directory` is to be asked. `descend` is asked in the caller's thread.
    """
    files: list[FileInfo] = []
    directories: set[str] = set()
    waiting: deque[str] = deque([""])
    finished: SimpleQueue[Future[list[tuple[str, Sequence[DirectoryEntry] | None]]]] = SimpleQueue()
    under_way = 0

    def list_share(share: Sequence[str]) -> list[tuple[str, Sequence[DirectoryEntry] | None]]:
        known = list_some([join(root, relative) for relative in share]) if len(share) > 1 else (None,)
        pairs = zip(share, known, strict=True)
        return [
            (relative, _listed(list_directory, root, relative, policy) if entries is None else entries)
            for relative, entries in pairs
        ]

    pool = ThreadPoolExecutor(workers, "acidctl-walk")
    try:
        while waiting or under_way:
            while waiting and under_way < 2 * workers:
                # One by one while threads have nothing to do; many at a time where handing over costs more.
                share = min(max(len(waiting) // (2 * workers), 1), _MOST_AT_A_TIME)
                pool.submit(list_share, [waiting.popleft() for _ in range(share)]).add_done_callback(finished.put)
                under_way += 1
            for relative, entries in finished.get().result():
                if entries is None:
                    directories.discard(relative)
                prefix = relative + "/" if relative else ""
                for entry in entries or ():
                    path = prefix + entry.name
                    if not entry.is_directory:
                        files.append(FileInfo(path, entry.size, entry.modified))
                    elif descend is None or descend(path):
                        directories.add(path)
                        waiting.append(path)
            under_way -= 1
    finally:
        # Nothing is under way, or the result is not wanted any more: a server that hangs is not waited for.
        pool.shutdown(wait=False, cancel_futures=True)
    return Walk.of(files, directories)


def _listed(
    list_directory: ListDirectory, root: str, relative: str, policy: RetryPolicy
) -> Sequence[DirectoryEntry] | None:
    """The entries of one directory; None when it has vanished."""
    try:
        return policy.run(lambda: list(list_directory(join(root, relative))))
    except NoSuchTableError:
        if not relative:
            raise
        return None
    except DeniedError:
        if not may_be_closed(relative):
            raise
        return ()


Item = TypeVar("Item")
Answer = TypeVar("Answer")


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


def in_thread(action: Callable[[], Answer]) -> Future[Answer]:
    """Begin a call in a thread of its own, which ends the process as little as any other daemon."""
    call: Future[Answer] = Future()
    call.set_running_or_notify_cancel()

    def run() -> None:
        try:
            call.set_result(action())
        except BaseException as error:  # libraries panic with BaseException
            call.set_exception(error)

    threading.Thread(target=run, name="acidctl-call", daemon=True).start()
    return call
