"""Directories of a local disk, opened part by part where no part of a path may be a symbolic link.

What acidctl changes lies below a place that a user named, a table or a box. The way to that place may lead through
links; from there on a link would lead to what is somebody else's, and might be put there at any moment. So the
directory in which something is changed is opened first, without following any, and everything is done in what was
opened. The same holds for reading what bears one of acidctl's own names.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from acidctl.errors import StorageError
from acidctl.format.names import OWN_PREFIX

_DIRECTORY = os.O_RDONLY | os.O_CLOEXEC | getattr(os, "O_DIRECTORY", 0)
# Enough to go on from, also where a directory may be entered and not be listed.
_STEP = getattr(os, "O_PATH", os.O_RDONLY) | os.O_CLOEXEC | getattr(os, "O_DIRECTORY", 0)
NO_LINK = getattr(os, "O_NOFOLLOW", 0)
_ADVICE = "See who has put it there, and remove the link by hand; then run the command again."


def is_own(path: str) -> bool:
    """Whether a path leads through a name of acidctl's own."""
    return _own_from(path) is not None


@contextmanager
def parent_of(path: str, tops: Sequence[str], *, own_only: bool = False) -> Iterator[tuple[int, str]]:
    """The directory in which a path lies, open, and the last part of the path.

    Below one of `tops`, and from a name of acidctl's own on, no part but the last is a link; with `own_only` only the
    latter. StorageError names the link; OSError with the path of what cannot be opened.
    """
    start, parts = _cut(path, () if own_only else tops)
    here = start or os.curdir
    number = _opened(here, None, here, last=len(parts) == 1)
    try:
        for index, part in enumerate(parts[:-1]):
            here = f"{here.rstrip('/')}/{part}" if start else "/".join(parts[: index + 1])
            below = _opened(part, number, here, last=index == len(parts) - 2)
            os.close(number)
            number = below
        yield number, parts[-1]
    finally:
        os.close(number)


def refuse_link(number: int, name: str, path: str) -> None:
    """StorageError where an entry of an open directory is a symbolic link."""
    try:
        found = os.stat(name, dir_fd=number, follow_symlinks=False)
    except FileNotFoundError:
        return
    if stat.S_ISLNK(found.st_mode):
        raise link_error(path)


def link_error(path: str) -> StorageError:
    """What is said of a link that is in the way."""
    return StorageError(
        f"{path} is a symbolic link, and acidctl follows none among its own files and changes nothing through one",
        path=path,
        hint=_ADVICE,
    )


def _cut(path: str, tops: Sequence[str]) -> tuple[str, list[str]]:
    """A path as a part that may hold links, and the names after it, one at least."""
    starts = [len(top.rstrip("/")) for top in tops if path.startswith(top.rstrip("/") + "/")]
    own = _own_from(path)
    if own is not None:
        starts.append(own)
    if not starts:
        parent, _, name = path.rpartition("/")
        return parent or ("/" if path.startswith("/") else ""), [name]
    # A table may lie in a table's quarantine: the way to it is not of the user's choice any more than what is below.
    start = min(starts)
    names = [part for part in path[start:].split("/") if part]
    return path[:start] or ("/" if path.startswith("/") else ""), names


def _own_from(path: str) -> int | None:
    """Where the part before the first name of acidctl's own ends."""
    if path.startswith(OWN_PREFIX):
        return 0
    found = path.find("/" + OWN_PREFIX)
    return None if found < 0 else found


def _opened(name: str, parent: int | None, path: str, *, last: bool) -> int:
    flags = (_DIRECTORY if last else _STEP) | (NO_LINK if parent is not None else 0)
    try:
        return os.open(name, flags, dir_fd=parent)
    except OSError as error:
        if parent is not None and error.errno in (errno.ENOTDIR, errno.ELOOP):
            refuse_link(parent, name, path)
        error.filename = path
        raise
