"""What storage found at one location, as plain values.

A location is the directory of an unpartitioned table, or one partition directory. Together with a reader's
lists a `Listing` is all that `state` needs; nothing here touches storage, and no path is ever made absolute.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class FileInfo:
    """One file; `path` is relative to the location with `/`, `size` in bytes, `modified` in seconds since
    1970 UTC.
    """

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
    was not read.
    """

    root: str
    files: tuple[FileInfo, ...] = ()
    directories: tuple[str, ...] = ()
    markers: Mapping[str, bytes] = field(default_factory=dict)
