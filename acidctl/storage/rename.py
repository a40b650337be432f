"""Renaming on a local file system without ever replacing anything.

POSIX `rename` replaces a file or an empty directory at its target, and to look for one first leaves a moment in which
another process may put it there. Linux has a call that refuses in the same step.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from functools import cache

_AT_FDCWD = -100
_RENAME_NOREPLACE = 1
# A kernel without the call, a file system that does not know the flag (NFS, some of FUSE), a sandbox that forbids it.
_NOT_OFFERED = frozenset({errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EPERM})


def rename_new(source: str, target: str) -> None:
    """Rename a file or directory to a path where nothing is.

    FileExistsError when something is there, also a dangling link; OSError as of `os.rename` otherwise. Where the system
    does not offer both in one step, the target is looked for first.
    """
    call = _renameat2()
    if call is not None and "\0" not in source + target:
        number = call(os.fsencode(source), os.fsencode(target))
        if number == 0:
            return
        if number not in _NOT_OFFERED:
            raise OSError(number, os.strerror(number), source, None, target)
    if os.path.lexists(target):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), source, None, target)
    os.rename(source, target)


@cache
def _renameat2() -> Callable[[bytes, bytes], int] | None:
    """Linux's call, which gives an error number or 0; None on other systems."""
    # Only what renames needs it; reading commands start without.
    import ctypes

    function = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if function is None:
        return None
    function.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint)
    function.restype = ctypes.c_int

    def call(source: bytes, target: bytes) -> int:
        failed = function(_AT_FDCWD, source, _AT_FDCWD, target, _RENAME_NOREPLACE)
        return ctypes.get_errno() if failed else 0

    return call
