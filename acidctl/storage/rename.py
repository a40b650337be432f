"""Renaming on a local file system without ever replacing anything.

POSIX `rename` replaces a file or an empty directory at its target, and to look for one first leaves a moment in which
another process may put it there. Linux has a call that refuses in the same step.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from contextlib import suppress
from functools import cache

_AT_FDCWD = -100
_RENAME_NOREPLACE = 1
# A kernel without the call, a file system that does not know the flag (NFS, some of FUSE), a sandbox that forbids it.
_NOT_OFFERED = frozenset({errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EPERM})


def rename_new(source: str, target: str, source_in: int | None = None, target_in: int | None = None) -> None:
    """Rename a file or directory to a path where nothing is; relative paths count from the open directories.

    FileExistsError when something is there, also a dangling link; OSError as of `os.rename` otherwise. Where the system
    does not offer both in one step, a file has both names for a moment, and of a directory the target is looked for
    first.
    """
    call = _renameat2()
    if call is not None and "\0" not in source + target:
        number = call(os.fsencode(source), os.fsencode(target), _at(source_in), _at(target_in))
        if number == 0:
            return
        if number not in _NOT_OFFERED:
            raise OSError(number, os.strerror(number), source, None, target)
    # What decides who has a lock must not replace another's.
    if _is_file(source, source_in) and _linked(source, target, source_in, target_in):
        os.unlink(source, dir_fd=source_in)
        return
    try:
        os.stat(target, dir_fd=target_in, follow_symlinks=False)
    except FileNotFoundError:
        os.rename(source, target, src_dir_fd=source_in, dst_dir_fd=target_in)
        return
    raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), source, None, target)


def _is_file(path: str, parent: int | None) -> bool:
    with suppress(OSError):
        return stat.S_ISREG(os.stat(path, dir_fd=parent, follow_symlinks=False).st_mode)
    return False


def _linked(source: str, target: str, source_in: int | None, target_in: int | None) -> bool:
    """Whether a file could be given a second name, which is refused where the name is taken."""
    try:
        os.link(source, target, src_dir_fd=source_in, dst_dir_fd=target_in, follow_symlinks=False)
    except FileExistsError:
        raise
    except OSError:
        return False
    return True


def _at(number: int | None) -> int:
    return _AT_FDCWD if number is None else number


@cache
def _renameat2() -> Callable[[bytes, bytes, int, int], int] | None:
    """Linux's call, which gives an error number or 0; None on other systems."""
    # Only what renames needs it; reading commands start without.
    import ctypes

    function = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if function is None:
        return None
    function.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint)
    function.restype = ctypes.c_int

    def call(source: bytes, target: bytes, source_in: int, target_in: int) -> int:
        failed = function(source_in, source, target_in, target, _RENAME_NOREPLACE)
        return ctypes.get_errno() if failed else 0

    return call
