"""The ORC files that a path names: the file itself, or every data file below a directory, in order of their paths."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO

from acidctl.errors import DamagedDataError, NoSuchTableError
from acidctl.format.names import SIDE_FILE_SUFFIX, is_hidden_to_hive, must_hold_events
from acidctl.storage.port import Storage, join
from acidctl.storage.resolve import resolve

if TYPE_CHECKING:
    from acidctl.orc.reader import OrcFile


@dataclass(frozen=True, slots=True)
class SideFileFacts:
    """What a `_flush_length` side file says; `logical_length` is where the data file ends for a reader."""

    name: str
    length: int
    logical_length: int


@dataclass(frozen=True, slots=True)
class OpenedFile:
    """An open file: `orc` gives its rows and tail, `stream` its bytes (not while a scan is running).

    `shape_damage` is why its columns cannot be what was written; commands that use the rows refuse such a file.
    """

    orc: OrcFile
    stream: BinaryIO
    shape_damage: DamagedDataError | None


@dataclass(frozen=True, slots=True)
class DataFile:
    """One file to be looked into; `name` is the path as the user would type it, `size` its bytes on storage."""

    storage: Storage
    path: str
    name: str
    size: int

    def side_file(self) -> SideFileFacts | None:
        """The side file beside it, if there is one; DamagedDataError when that holds no length."""
        from acidctl.orc.input_file import read_logical_length

        path = self.path + SIDE_FILE_SUFFIX
        found = self.storage.stat(path)
        if found is None or found.is_directory:
            return None
        name = self.storage.display(path)
        with self.storage.open(path) as stream:
            return SideFileFacts(name, found.size, read_logical_length(stream, name=name))

    @contextmanager
    def open(self, side: SideFileFacts | None) -> Iterator[OpenedFile]:
        """The file up to its logical end, closed with the block; errors as `open_as_it_is`."""
        from acidctl.orc.acidmeta import shape_damage
        from acidctl.orc.reader import open_as_it_is

        with self.storage.open(self.path) as stream:
            length = None if side is None else side.logical_length
            orc = open_as_it_is(stream, name=self.name, length=length)
            yield OpenedFile(orc, stream, shape_damage(orc.tail, events=must_hold_events(self.path)))


def data_files(path: str, options: Mapping[str, Any]) -> tuple[DataFile, ...]:
    """The data files that a path or URL names; NoSuchTableError when nothing is there.

    Below a directory, what Hive hides and side files are left out (FileDump.HIDDEN_AND_SIDE_FILE_FILTER of ORC).
    """
    storage, root = resolve(path, options)
    found = storage.stat(root)
    if found is None:
        raise NoSuchTableError(f"{storage.display(root)} does not exist", path=storage.display(root))
    if not found.is_directory:
        return (DataFile(storage, root, storage.display(root), found.size),)
    walk = storage.walk(root, lambda relative: not is_hidden_to_hive(relative.rpartition("/")[2]))
    return tuple(
        DataFile(storage, join(root, info.path), storage.display(join(root, info.path)), info.size)
        for info in walk.files
        if not is_hidden_to_hive(info.name) and not info.name.endswith(SIDE_FILE_SUFFIX)
    )
