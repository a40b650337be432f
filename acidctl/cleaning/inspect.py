"""What only opened files tell a cleaner: whether covers are complete, and whether a delta without a cover is empty.

A location without victims costs nothing here; one with victims costs the tails of its covers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from typing import BinaryIO

from acidctl.cleaning.decisions import Rules, Survey, contains, survey
from acidctl.cleaning.plan import Evidence
from acidctl.errors import AcidctlError, DamagedDataError
from acidctl.format.listing import FileInfo, Listing
from acidctl.format.names import (
    LOCK_NAME,
    OWNER_NAME,
    VERSION_MARKER,
    WORK_PREFIX,
    BaseDir,
    DeltaDir,
    must_hold_events,
    must_not_hold_events,
)
from acidctl.format.write_ids import Reader
from acidctl.maintenance.lock import Life, from_bytes, life_of
from acidctl.maintenance.work_dir import WORK_TYPE
from acidctl.orc.input_file import read_logical_length
from acidctl.orc.reader import open_orc
from acidctl.orc.tail import check_shape, read_tail
from acidctl.rows.table_view import ORC_MAGIC
from acidctl.state.entries import Directory, MarkerContent, StateEntry
from acidctl.state.resolve import (
    DataFile,
    EntryKind,
    TableGuess,
    TableType,
    data_files,
    live_entries,
    resolve,
)
from acidctl.storage.port import Storage, join

_PARQUET = b"PAR1"
_LIMIT = 1 << 16


def look_around(storage: Storage, listing: Listing, common: Reader, kind: TableGuess, rules: Rules) -> Survey:
    """Judge a listing with everything that storage tells beside it: times of directories, owners of work."""

    def time_of(name: str) -> float | None:
        # Prefixes of names have no time of their own.
        found = storage.stat(join(listing.root, name)) if storage.facts.empty_directories else None
        return None if found is None else found.modified

    return survey(listing, common, kind, rules, time_of=time_of, dead=tuple(_dead(storage, listing)))


def look_into(storage: Storage, seen: Survey, elsewhere: Mapping[str, str] | None = None) -> Evidence:
    """Open what the guards have to know of.

    `elsewhere` maps top-level names that are judged as if they were in the location to the directories that hold them.
    """
    return _Reader(storage, seen, elsewhere or {}).evidence()


def _dead(storage: Storage, listing: Listing) -> Iterator[str]:
    """Work directories whose owner is known to have ended."""
    locked = any(info.path == LOCK_NAME for info in listing.files)
    for info in listing.files:
        work, _, name = info.path.partition("/")
        if name == OWNER_NAME and work.startswith(WORK_PREFIX):
            try:
                with storage.open(join(listing.root, info.path)) as stream:
                    owner = from_bytes(stream.read(_LIMIT), WORK_TYPE)
            except AcidctlError:
                continue  # it has just been removed, or may not be read: then nothing is known
            if owner is None or work != WORK_PREFIX + owner.id:
                continue
            life = life_of(owner)
            # An earlier run of this very process is over when it has no lock.
            if life is Life.DEAD or (life is Life.OURSELVES and not locked):
                yield work


@dataclass(frozen=True, slots=True)
class _Reader:
    """Looks into directories of one location, some of which may be `elsewhere`."""

    storage: Storage
    seen: Survey
    elsewhere: Mapping[str, str]

    @property
    def insert_only(self) -> bool:
        """Whether the files hold plain rows."""
        return self.seen.kind.type is TableType.INSERT_ONLY

    def evidence(self) -> Evidence:
        """What the guards have to know; a file that cannot be read makes its cover incomplete."""
        covers: dict[str, str | None] = {}
        for cover in self.seen.covers:
            try:
                covers[cover.name] = self._problem(cover)
            except AcidctlError as error:
                covers[cover.name] = f"{cover.name} is not complete: {error.message}"
        return Evidence(covers, {delta.name: self._is_empty(delta) for delta in self.seen.one_sided})

    def _problem(self, cover: Directory) -> str | None:
        """Why a directory is no cover; an empty compaction has to stand for nothing."""
        files = data_files(cover, insert_only=self.insert_only)
        marked = any(info.path == f"{cover.name}/{VERSION_MARKER}" for info in cover.files)
        # All that TRUNCATE writes in Hive 4 is the mark that says so.
        truncated = cover.marker is MarkerContent.OVERWRITE
        if not (marked or truncated) and not any(file.info.size for file in files):
            return f"{cover.name} is not complete: holds neither {VERSION_MARKER} nor a data file"
        if self._count(files) != 0 or self.seen.kind.acid_v1:
            return None
        if isinstance(cover.parsed, DeltaDir):
            for delta in self.seen.chosen.decided:
                if delta.kind is cover.kind and contains(cover.delta, delta.delta) and not self._is_empty(delta):
                    why = f"it holds no event at all, and {delta.name}, which it covers, holds some"
                    return f"{cover.name} is not complete: {why}"
        return self._below(cover) if cover.is_compacted and isinstance(cover.parsed, BaseDir) else None

    def _below(self, base: Directory) -> str | None:
        """What is wrong with a base without rows: a reader would find more rows than deletes if there were no such."""
        top, seen = base.base.write_id, self.seen
        later = {other.name for other in seen.inventory.bases if other.base.write_id >= top}
        state = resolve(seen.listing.without(later), seen.common, table_type=seen.kind, raise_on_history=False)
        counts = {True: 0, False: 0}
        for entry in live_entries(state):
            if entry.max_write_id is not None and entry.max_write_id > top:
                continue
            why = f"{base.name} is not complete: it holds no rows, and what it covers"
            try:
                count = self._count_visible(entry)
            except AcidctlError as error:
                return f"{why} cannot be counted: {error.message}"
            if count is None:
                return f"{why} is not ORC and cannot be counted"
            counts[entry.kind is EntryKind.DELETE_DELTA] += count
        if counts[False] <= counts[True]:
            return None
        return (
            f"{base.name} holds no rows, but what it covers holds {counts[False]} and only {counts[True]} deletes; "
            "Hive 4.0 is known to write such bases by mistake"
        )

    def _is_empty(self, delta: Directory) -> bool:
        """Whether readers see no event of a delta: it has no rows, or only those of aborted writes."""
        try:
            return not any(self._visible(file, enough=1) for file in data_files(delta, insert_only=self.insert_only))
        except AcidctlError:
            return False

    def _count(self, files: Iterable[DataFile]) -> int | None:
        """Rows by the footers, None where a file is not ORC; DamagedDataError for what cannot be whole."""
        rows = [self._rows(file) for file in files]
        return None if None in rows else sum(filter(None, rows))

    def _count_visible(self, entry: StateEntry) -> int | None:
        """The same of an entry without the events of aborted writes, which are in its files and count for nobody."""
        files = data_files(entry, insert_only=self.insert_only)
        low, high = entry.min_write_id, entry.max_write_id
        aborted = low is not None and high is not None and self.seen.common.effective_write_ids.aborted_in(low, high)
        if self.insert_only or not aborted:
            return self._count(files)
        return sum(self._visible(file) for file in files)

    def _rows(self, file: DataFile) -> int | None:
        with self._opened(file) as (stream, shown, length):
            if not length:
                return 0
            head = stream.read(len(_PARQUET)) if self.insert_only else ORC_MAGIC
            if head == _PARQUET:
                stream.seek(length - len(_PARQUET))
                if stream.read(len(_PARQUET)) != _PARQUET:
                    raise DamagedDataError(f"{shown} does not end as a Parquet file does", path=shown)
                return None
            if not head.startswith(ORC_MAGIC):
                return None
            tail = read_tail(stream, name=shown, length=length)
            rows = not self.insert_only and must_not_hold_events(file.info.path)
            return check_shape(tail, events=self._holds_events(file), rows=rows).rows

    def _visible(self, file: DataFile, *, enough: int | None = None) -> int:
        """The events of a file that are not of aborted writes; after `enough` of them nobody counts on."""
        with self._opened(file) as (stream, shown, length):
            if not length:
                return 0
            orc = open_orc(stream, name=shown, length=length, events=self._holds_events(file))
            if not orc.rows or not orc.is_acid:
                return orc.rows
            ids = self.seen.common.effective_write_ids
            found = 0
            for batch in orc.scan(["currentTransaction"]):
                counts = batch.column(0).value_counts().to_pylist()
                found += sum(each["counts"] for each in counts if not ids.is_aborted(each["values"]))
                if enough is not None and found >= enough:
                    break
            return found

    def _holds_events(self, file: DataFile) -> bool:
        return not self.insert_only and must_hold_events(file.info.path)

    @contextmanager
    def _opened(self, file: DataFile) -> Iterator[tuple[BinaryIO, str, int]]:
        """The bytes of a file, what it is called, and its logical end; nothing is opened of an empty one."""

        def path(info: FileInfo) -> str:
            return join(self.elsewhere.get(info.path.partition("/")[0], self.seen.listing.root), info.path)

        length = file.info.size
        if file.side_file is not None:
            side = path(file.side_file)
            with self.storage.open(side) as stream:
                length = read_logical_length(stream, name=self.storage.display(side))
        own = path(file.info)
        with self.storage.open(own) if length else BytesIO() as stream:
            yield stream, self.storage.display(own), length
