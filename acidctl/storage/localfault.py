"""What the system refuses on a local disk, as our errors."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from acidctl.errors import AcidctlError, DeniedError, ExistsError, QuotaError, SafeModeError, StorageError

STRANGE = "See what has put it there; if another command is at work on this table, wait until it has ended."


@dataclass(frozen=True, slots=True)
class _Meaning:
    """What the system refuses by an error number: the kind of error, and what to do for who reads and who writes."""

    kind: type[StorageError] = StorageError
    reading: str | None = None
    writing: str | None = None


_DENIED = _Meaning(
    DeniedError,
    "Run as a user that may read the table, for example the owner of the warehouse.",
    "Run as a user that may write to the table, for example the owner of the warehouse.",
)
_FULL = "Free space on this file system and run the command again; the table is as it was."
_OVER_QUOTA = "Raise the quota or free space, and run the command again; the table is as it was."
_READ_ONLY = "The file system is mounted read-only; mount it for writing, or work on a copy of the table."
_ELSEWHERE = "Source and target have to lie on one file system, because a copy could be seen half done."
_MEANINGS = {
    errno.EACCES: _DENIED,
    errno.EPERM: _DENIED,
    errno.EROFS: _Meaning(SafeModeError, writing=_READ_ONLY),
    errno.ENOSPC: _Meaning(QuotaError, writing=_FULL),
    errno.EDQUOT: _Meaning(QuotaError, writing=_OVER_QUOTA),
    errno.EXDEV: _Meaning(writing=_ELSEWHERE),
}


@contextmanager
def writing(path: str) -> Iterator[None]:
    """What the system refuses, as one of our errors with the advice for those who write."""
    try:
        yield
    except (OSError, ValueError) as error:
        raise refused(path, error, writing=True) from error


def named(error: OSError | ValueError) -> str | None:
    """The path that the system complains of: an entry of a directory rather than the directory."""
    name = error.filename if isinstance(error, OSError) else None
    return name if isinstance(name, str) else None


def refused(path: str, error: OSError | ValueError, *, writing: bool = False) -> AcidctlError:
    """The system's answer as one of our errors."""
    if isinstance(error, FileNotFoundError):
        name = named(error)
        # A bare name counts from an open directory, and says nothing.
        path = name if name is not None and "/" in name else path
        return StorageError(
            f"{path} is not there any more",
            path=path,
            hint="If a compaction or a cleaner runs on this table now, run the command again.",
        )
    if isinstance(error, FileExistsError) and writing:
        return ExistsError(f"{path} exists already", path=path, hint=STRANGE)
    number = error.errno if isinstance(error, OSError) and error.errno else 0
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    meaning = _MEANINGS.get(number, _Meaning())
    return meaning.kind(
        f"{path} cannot be {'written' if writing else 'used'}: {reason}",
        path=path,
        hint=meaning.writing if writing else meaning.reading,
    )
