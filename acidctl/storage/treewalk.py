"""The walk of storages that list one directory at a time: many listings under way at once, each made once."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from queue import SimpleQueue

from acidctl.errors import DeniedError, NoSuchTableError
from acidctl.listing import FileInfo
from acidctl.names import WORK_PREFIX
from acidctl.storage.port import Descend, Walk, join
from acidctl.storage.retry import PATIENT, Patience

WORKERS = 16


@dataclass(frozen=True, slots=True)
class Found:
    """One entry of a directory: the last part of its path, its size in bytes, its time in seconds since 1970 UTC."""

    name: str
    is_directory: bool
    size: int = 0
    modified: float | None = None


ListDirectory = Callable[[str], Iterable[Found]]


def walk_tree(
    list_directory: ListDirectory,
    root: str,
    descend: Descend | None = None,
    *,
    workers: int = WORKERS,
    patience: Patience = PATIENT,
) -> Walk:
    """Everything below `root`, as `Storage.walk` promises it.

    `list_directory` is given the path of a directory and gives its entries, all pages of them; it is called in up to
    `workers` threads, and raises NoSuchTableError for what does not exist and DeniedError for what is closed. A
    transient error is answered by listing that one directory again. `descend` is asked in the caller's thread.
    """
    files: list[FileInfo] = []
    directories: set[str] = set()
    finished: SimpleQueue[tuple[str, Future[list[Found]]]] = SimpleQueue()
    left = 0

    def listed(path: str) -> list[Found]:
        return patience.ask(lambda: list(list_directory(path)))

    pool = ThreadPoolExecutor(workers, "acidctl-walk")

    def enter(relative: str) -> None:
        nonlocal left
        left += 1
        future = pool.submit(listed, join(root, relative))
        future.add_done_callback(lambda done: finished.put((relative, done)))

    try:
        enter("")
        while left:
            relative, future = finished.get()
            left -= 1
            prefix = relative + "/" if relative else ""
            for entry in _entries(relative, future, directories):
                path = prefix + entry.name
                if not entry.is_directory:
                    files.append(FileInfo(path, entry.size, entry.modified))
                elif descend is None or descend(path):
                    directories.add(path)
                    enter(path)
    finally:
        # Nothing is under way, or nobody wants to know any more, and then a server that hangs is not waited for.
        pool.shutdown(wait=False, cancel_futures=True)
    files.sort(key=_path_of)
    return Walk(tuple(files), tuple(sorted(directories)))


def _entries(relative: str, future: Future[list[Found]], directories: set[str]) -> list[Found]:
    """What a directory holds; one that has vanished leaves `directories`."""
    try:
        return future.result()
    except NoSuchTableError:
        if not relative:
            raise
        directories.discard(relative)
    except DeniedError:
        if not may_be_closed(relative):
            raise
    return []


def may_be_closed(relative: str) -> bool:
    """Whether a directory need not be readable: other users' staging folders often are not, and hold no data.

    A work directory of acidctl is none of them: its journal decides what counts.
    """
    parts = relative.split("/")
    return any(part.startswith(("_", ".")) for part in parts) and not any(
        part.startswith(WORK_PREFIX) for part in parts
    )


def _path_of(info: FileInfo) -> str:
    return info.path
