"""Where a place lies that a user named beside a table: in the table, for readers to see, or not.

Places are judged by what they are and not by what they are called: a link into the table leads into the table.
"""

from __future__ import annotations

import os

from acidctl.errors import UsageError
from acidctl.format.names import is_hidden
from acidctl.storage.local import LocalStorage
from acidctl.storage.locations import own_partition
from acidctl.storage.port import Storage, join


def canonical(storage: Storage, path: str) -> str:
    """A place by the one name that depends neither on links nor on where the command is run."""
    return real_name(storage, storage.display(path))


def real_name(storage: Storage, shown: str) -> str:
    """The same of a name as the storage shows it."""
    return os.path.realpath(shown) if isinstance(storage, LocalStorage) else shown.rstrip("/")


def shows_in_table(storage: Storage, root: str, place: str) -> bool:
    """Whether readers of the table at `root` would find what is put at `place`.

    A partition is part of a table, and beside it there are others.
    """
    top = canonical(storage, root)
    partition = own_partition(top)
    table = top[: len(top) - len(partition)].rstrip("/") if partition else top.rstrip("/")
    found = canonical(storage, place)
    if found != table and not found.startswith(table + "/"):
        return False
    parts = found[len(table) + 1 :].split("/") if found != table else []
    # Below a partition folder the first name that is none decides.
    own = next((part for part in parts if "=" not in part or is_hidden(part)), "")
    return not is_hidden(own)


def require_no_way_in(storage: Storage, root: str, place: str) -> None:
    """UsageError where the way to a place, as it was named, leads through a link inside the table."""
    if not isinstance(storage, LocalStorage):
        return
    top, named = os.path.abspath(root), os.path.abspath(place)
    if not named.startswith(top.rstrip("/") + "/"):
        return
    inside = named[len(top.rstrip("/")) + 1 :]
    if os.path.realpath(place) != join(os.path.realpath(root), inside):
        raise UsageError(
            f"{place} leads through a symbolic link inside the table, and nothing is changed through one",
            path=place,
            hint=f"Name the place itself: {os.path.realpath(place)}.",
        )


def require_outside(storage: Storage, root: str, path: str, option: str) -> None:
    """UsageError where a file of this machine would be written into the table, for readers to take it for data."""
    if isinstance(storage, LocalStorage) and shows_in_table(storage, root, path):
        raise UsageError(
            f"{option} {path} lies inside the table, where readers would take it for data",
            path=path,
            hint="Name a file outside of the table.",
        )
