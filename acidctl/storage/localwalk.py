"""The walk over a local directory: names are taken as they are, nothing is ever globbed, and links are told.

Hadoop's local file system follows links, so those to what readers look at are followed. Nobody reads behind a hidden
name: links there are not followed, be it to a loop or to nothing, and none of them is ever acidctl's own.
"""

from __future__ import annotations

import os
import stat as stat_bits
from dataclasses import dataclass, field

from acidctl.errors import NoSuchTableError, StorageError
from acidctl.format.listing import FileInfo, is_foreign
from acidctl.storage.localfault import named, refused
from acidctl.storage.port import Descend, Walk, may_be_closed

_KINDS = {
    stat_bits.S_IFIFO: "a named pipe",
    stat_bits.S_IFSOCK: "a socket",
    stat_bits.S_IFCHR: "a device",
    stat_bits.S_IFBLK: "a device",
}


@dataclass(slots=True)
class _Found:
    """What the walk has met so far."""

    files: list[FileInfo] = field(default_factory=list)
    directories: list[str] = field(default_factory=list)
    links: dict[str, str] = field(default_factory=dict)
    special: dict[str, str] = field(default_factory=dict)

    def add_file(self, name: str, entry: os.DirEntry[str]) -> None:
        """Nothing for a file that was removed since its directory was read."""
        try:
            found = entry.stat()
        except FileNotFoundError as error:
            if name in self.links and os.path.lexists(entry.path):
                raise StorageError(
                    f"{entry.path} is a symbolic link whose target does not exist",
                    path=entry.path,
                    hint="Restore the target or remove the link; a table with missing files would be misread.",
                ) from error
            return
        if not stat_bits.S_ISREG(found.st_mode):
            self.special[name] = kind_of(found.st_mode)
        self.files.append(FileInfo(name, found.st_size, found.st_mtime))


def kind_of(mode: int) -> str:
    """What stands in the place of a regular file, for a sentence."""
    return _KINDS.get(stat_bits.S_IFMT(mode), "something else")


def walk_local(root: str, descend: Descend | None) -> Walk:
    """See `port.Storage.walk`: one `scandir` per directory."""
    found = _Found()
    pending = [("", root)]
    while pending:
        relative, path = pending.pop()
        prefix = relative + "/" if relative else ""
        try:
            with os.scandir(path) as entries:
                for entry in entries:
                    name = prefix + entry.name
                    is_link = entry.is_symlink()
                    if is_link:
                        found.links[name] = os.path.realpath(entry.path)
                        if is_foreign(name):
                            continue
                    if not entry.is_dir():
                        found.add_file(name, entry)
                    elif descend is None or descend(name):
                        if is_link:
                            _refuse_loop(root, relative, entry.path)
                        found.directories.append(name)
                        pending.append((name, entry.path))
        except FileNotFoundError as error:
            if not relative:
                raise NoSuchTableError(f"{path} does not exist", path=path) from error
            found.directories.remove(relative)
        except (OSError, ValueError) as error:
            if not may_be_closed(relative):
                raise refused(named(error) or path, error) from error
    found.files.sort(key=_path_of)
    found.directories.sort()
    return Walk(tuple(found.files), tuple(found.directories), found.links, found.special)


def _path_of(info: FileInfo) -> str:
    return info.path


def _refuse_loop(root: str, relative: str, path: str) -> None:
    """A link to one of its own parents, also through other links, would be walked for ever."""
    target = os.path.realpath(path)
    parents = [root]
    for part in relative.split("/") if relative else ():
        parents.append(f"{parents[-1]}/{part}")
    for parent in parents:
        here = os.path.realpath(parent)
        if here == target or here.startswith(target.rstrip("/") + "/"):
            raise StorageError(
                f"{path} is a symbolic link to one of its own parent directories",
                path=path,
                hint="Remove the link: whoever follows it, as Hive does, reads the same files again and again.",
            )
