"""Files of this machine that an option names: plans, lists, configurations, logs, figures.

Anybody may have put something in their place. What is read is a regular file, or what a shell has opened; what is
written takes its name when it is whole, and never goes through a link that another has left.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import stat as stat_bits
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import BinaryIO

from acidctl.errors import StorageError

_KINDS = {
    stat_bits.S_IFDIR: "a directory",
    stat_bits.S_IFIFO: "a named pipe",
    stat_bits.S_IFSOCK: "a socket",
    stat_bits.S_IFCHR: "a device",
    stat_bits.S_IFBLK: "a device",
}
_OWN_STREAM = re.compile(r"(?:/dev/fd|/proc/self/fd)/([0-9]{1,9})")
# What this process has open already: `<(...)` of a shell, and what stands on its stdin.
_OPEN_ALREADY = re.compile(r"/dev/(?:stdin|fd/\d+)|/proc/(?:self|thread-self|\d+)/fd/\d+")


@contextmanager
def whole_file(path: str) -> Iterator[BinaryIO]:
    """A file for writing that takes its name only when it is whole, in place of what was there.

    Until then it has a random name beside it that is new: what others have left there, links above all, is neither
    written to nor removed. What is there and is no file (a device, a pipe), and `/dev/stdout` whatever it leads to, is
    written to as it is: a rename would put a file in its place, which for `/dev/null` ends more than this command. A
    link stays a link.
    """
    try:
        stream_number = own_stream(path)
        if stream_number is not None or is_special(path):
            with open(path if stream_number is None else os.dup(stream_number), "wb") as stream:
                yield stream
            return
        target = os.path.realpath(path) if os.path.islink(path) else path
        part = os.path.join(os.path.dirname(target), f".acidctl-{secrets.token_hex(8)}.part")
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(part, flags, 0o666), "wb") as stream:
            try:
                yield stream
                stream.flush()
                os.replace(part, target)
            except BaseException:
                with suppress(FileNotFoundError):
                    os.unlink(part)
                raise
    except OSError as error:
        raise StorageError(f"{path} cannot be written: {error.strerror or error}", path=path) from error


def is_special(path: str) -> bool:
    """Whether there is something at a path that is neither a file nor a directory."""
    return os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path)


def own_stream(path: str) -> int | None:
    """The descriptor behind a name of the system for something that this process has open, such as `/dev/stdout`.

    Whoever writes to a copy of it goes on where others have ended, also where it leads to a file.
    """
    match = _OWN_STREAM.fullmatch(path)
    return {"/dev/stdout": 1, "/dev/stderr": 2}.get(path) if match is None else int(match[1])


def write_bytes(path: str | os.PathLike[str], chunks: Iterable[bytes]) -> None:
    """Write chunks to a file, see `whole_file`."""
    with whole_file(os.fspath(path)) as stream:
        for chunk in chunks:
            stream.write(chunk)


def open_regular(path: str, *, or_open_already: bool = False) -> BinaryIO:
    """A regular file of this machine for reading. OSError at once for anything else: nobody may ever write to a named
    pipe, and a device may have no end. With `or_open_already` pipes and devices that a shell has opened are taken too.
    """
    number = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    try:
        status = os.fstat(number)
        if stat_bits.S_ISDIR(status.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if not stat_bits.S_ISREG(status.st_mode):
            if not or_open_already or _OPEN_ALREADY.fullmatch(path) is None:
                raise OSError(errno.EINVAL, f"it is {kind_of(status)} and no regular file")
            os.set_blocking(number, True)
        return os.fdopen(number, "rb")
    except BaseException:
        os.close(number)
        raise


def kind_of(status: os.stat_result) -> str:
    """A file, directory, pipe or device, for a sentence."""
    return _KINDS.get(stat_bits.S_IFMT(status.st_mode), "something else")
