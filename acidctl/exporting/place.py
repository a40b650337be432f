"""Where an export may go: beside tables, never into one, above one, or through what leads to one.

Readers of a table take for data what lies in it, and an export that replaces a directory above a table would take the
table with it. A table is known by its own place, by the links on the way to it and in it, and by what lies in the
directories above a target: only tables hold `base_*`, `delta_*`, `delete_delta_*` and Hive's markers.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress

from acidctl.errors import AcidctlError, UsageError
from acidctl.exporting.manifest import is_of_a_table
from acidctl.storage.local import LocalStorage
from acidctl.storage.locations import canonical, own_partition
from acidctl.storage.port import Storage, join

_HINT = "Name a file or directory outside of all tables."


def require_free_of_tables(
    table: Storage, root: str, links: Iterable[str], storage: Storage, path: str, option: str
) -> None:
    """UsageError where a target lies in a table, the exported one at `root` or any other, or that one in the target.

    `links` are the places to which links inside the table lead; `option` is how the user has named the target.
    """
    if not isinstance(storage, LocalStorage) and {".", ".."} & set(path.split("/")):
        raise UsageError(f"{option} has `.` or `..` in it, which only paths of this machine may", path=option)
    if isinstance(table, LocalStorage) == isinstance(storage, LocalStorage):
        _require_apart(table, root, links, canonical(storage, path), option)
    above = _table_above(storage, path)
    if above:
        shown = storage.display(above)
        raise UsageError(
            f"{option} lies inside a table: {shown} is there, and readers would read the export as data",
            path=option,
            hint=_HINT,
        )


def _require_apart(table: Storage, root: str, links: Iterable[str], target: str, option: str) -> None:
    top = canonical(table, root)
    partition = own_partition(top)
    whole = top[: len(top) - len(partition)].rstrip("/") if partition else top
    for place in (whole, *links):
        if _is_within(target, place):
            raise UsageError(
                f"{option} lies inside the table, where readers would read it as data", path=option, hint=_HINT
            )
    ways = _links_on_the_way(root) if isinstance(table, LocalStorage) else ()
    for place in (whole, *links, *ways):
        if _is_within(place, target):
            raise UsageError(
                f"{option} is a directory above the table: {place} lies in it, or leads to it",
                path=option,
                hint=_HINT,
            )


def _is_within(path: str, directory: str) -> bool:
    return path == directory or path.startswith(f"{directory.rstrip('/')}/")


def _links_on_the_way(path: str) -> set[str]:
    """The places of all symbolic links by which a path of this machine is reached, also one through another."""
    found: set[str] = set()
    pending = [os.path.abspath(path)]
    while pending:
        parts = pending.pop().split("/")
        for depth in range(2, len(parts) + 1):
            here = "/".join(parts[:depth])
            if not os.path.islink(here):
                continue
            folder = os.path.realpath(os.path.dirname(here))
            place = join(folder, parts[depth - 1])
            if place not in found:
                found.add(place)
                pending.append(os.path.normpath("/".join((join(folder, os.readlink(here)), *parts[depth:]))))
            break
    return found


def _table_above(storage: Storage, path: str) -> str | None:
    """What only a table holds, in the directories above a path; None where there is none.

    A directory that may not be listed tells nothing.
    """
    above = os.path.realpath(path) if isinstance(storage, LocalStorage) else path
    while "/" in above.rstrip("/"):
        above, _, _ = above.rstrip("/").rpartition("/")
        if is_of_a_table(above.rpartition("/")[2]):
            return above
        if not above and not storage.facts.empty_directories:
            return None
        for name in names_in(storage, above or "/"):
            if is_of_a_table(name):
                return join(above or "/", name)
    return None


def names_in(storage: Storage, directory: str) -> Iterator[str]:
    """The names in a directory; none where it cannot be listed."""
    with suppress(OSError, AcidctlError):
        if isinstance(storage, LocalStorage):
            yield from os.listdir(directory or os.curdir)
            return
        names: list[str] = []

        def refuse(relative: str) -> bool:
            names.append(relative)
            return False

        names += [info.path for info in storage.walk(directory, refuse).files]
        yield from names
