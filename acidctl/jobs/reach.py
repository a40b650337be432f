"""Whether a storage does not answer at all, or only did not answer once: the two look alike to who asked."""

from __future__ import annotations

from acidctl.errors import AcidctlError, UnreachableError
from acidctl.storage.port import Storage


def is_gone(storage: Storage, root: str, error: AcidctlError) -> bool:
    """Whether after such an error nothing can be asked: not for the table itself either.

    A refusal is an answer, and so is "not found". One machine of many that is down takes some files with it, and the
    storage still answers for the table.
    """
    # An error of a worker need not have its type any more.
    if error.code != UnreachableError.code:
        return False
    try:
        storage.stat(root)
    except AcidctlError as second:
        return second.code == UnreachableError.code
    return False
