"""What storage found at one location, as plain values.

A location is the directory of an unpartitioned table, or one partition directory. Together with a reader's
lists a `Listing` is all that `state` needs; nothing here touches storage, and no path is ever made absolute.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import field
from typing import NamedTuple

from acidctl.format.names import OWN_PREFIX, is_hidden, is_marker
from acidctl.values import dataclass


@dataclass(frozen=True, slots=True)
class FileInfo:
    """One file; `path` is relative to the location with `/`, `size` in bytes, `modified` in seconds since 1970 UTC."""

    path: str
    size: int
    modified: float | None = None

    @property
    def name(self) -> str:
        """Last part of the path."""
        return self.path.rpartition("/")[2]

    @property
    def directory(self) -> str:
        """Path of the directory that holds the file, empty for the location itself."""
        return self.path.rpartition("/")[0]


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Listing:
    """Every file and directory below `root`, hidden ones too, and the contents of marker files.

    `directories` holds all directories below the root, empty ones included; `markers` maps the path of a
    `_orc_acid_version` or `_metadata_acid` file to its content. A marker that is listed but not in `markers`
    was not read. `links` maps the path of each symbolic link to the place to which it leads, an empty path being the
    location itself; those that are not followed (see `is_foreign`) are in neither of the first two. `special` maps the
    path of each file that is no regular one to what it is.
    """

    root: str
    files: tuple[FileInfo, ...] = ()
    directories: tuple[str, ...] = ()
    markers: Mapping[str, bytes] = field(default_factory=dict)
    links: Mapping[str, str] = field(default_factory=dict)
    special: Mapping[str, str] = field(default_factory=dict)

    @property
    def foreign(self) -> tuple[str, ...]:
        """Links that are not followed, those among acidctl's own names only: nobody else's mean anything to it."""
        return tuple(path for path in sorted(self.links) if is_foreign(path) and path.startswith(OWN_PREFIX))

    def without(self, tops: Collection[str]) -> Listing:
        """The listing as if these top-level entries were gone."""
        return self._where(lambda path: path.partition("/")[0] not in tops)

    def _where(self, holds: Callable[[str], bool]) -> Listing:
        return Listing(
            self.root,
            tuple(info for info in self.files if holds(info.path)),
            tuple(path for path in self.directories if holds(path)),
            {path: content for path, content in self.markers.items() if holds(path)},
            {path: target for path, target in self.links.items() if holds(path)},
            {path: kind for path, kind in self.special.items() if holds(path)},
        )

    def with_entries_of(self, other: Listing, tops: Collection[str]) -> Listing:
        """The listing with some top-level entries of another beside its own."""
        more = other._where(lambda path: path.partition("/")[0] in tops)
        return Listing(
            self.root,
            tuple(sorted((*self.files, *more.files), key=lambda info: info.path)),
            tuple(sorted({*self.directories, *more.directories})),
            {**self.markers, **more.markers},
            {**self.links, **more.links},
            {**self.special, **more.special},
        )

    @property
    def linked_entries(self) -> frozenset[str]:
        """Top-level names that are links or hold some."""
        return frozenset(path.partition("/")[0] for path in self.links if path)


def is_foreign(path: str) -> bool:
    """Whether a symbolic link at this path below a table is not followed: no reader looks behind a hidden name.

    The markers of Hive are hidden too, and are read.
    """
    *above, name = path.split("/")
    return any(is_hidden(part) for part in above) or (is_hidden(name) and not is_marker(name))


class Obstacle(NamedTuple):
    """Why commands that change data leave a location alone: one sentence, and what to do about it.

    `damaged`: no reader can read what stands there.
    """

    message: str
    hint: str
    damaged: bool = False


def obstacle(listing: Listing) -> Obstacle | None:
    """What keeps a location from being changed, None when nothing does.

    Hive follows links, and so do our reading commands. But what lies behind one belongs to another owner, or to the
    table by another name as well: it may not be published into, nor counted as a cover, nor removed.
    """
    for path, kind in sorted(listing.special.items()):
        if not any(is_hidden(part) for part in path.split("/")):
            return Obstacle(
                f"{path} is {kind} and no regular file",
                "Remove it, or put the data file in its place; then run the command again.",
                damaged=True,
            )
    if "" in listing.links:
        return Obstacle(
            f"{listing.root} is reached by a symbolic link, through which nothing is changed",
            f"Name the directory itself: {listing.links['']}.",
        )
    for path, target in sorted(listing.links.items()):
        if not is_foreign(path):
            return Obstacle(
                f"{path} is a symbolic link to {target}, and only what lies in the table is compacted or cleaned",
                "Put the file or directory itself in the place of the link, then run the command again.",
            )
    return None
