"""What only opened files tell a cleaner: whether covers are complete, and whether a delta without a cover is empty.

A location without victims costs nothing here; one with victims costs the tails of its covers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from acidctl.cleaning.decisions import Rules, Survey, contains, survey
from acidctl.cleaning.plan import CoverFacts, Evidence
from acidctl.errors import AcidctlError, DamagedDataError
from acidctl.format.listing import Listing
from acidctl.format.names import (
    LOCK_NAME,
    OWNER_NAME,
    VERSION_MARKER,
    WORK_PREFIX,
    DeltaDir,
    must_hold_events,
    must_not_hold_events,
)
from acidctl.format.write_ids import Reader
from acidctl.maintenance.lock import Life, from_bytes, life_of
from acidctl.maintenance.work_dir import WORK_TYPE
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
    dead = tuple(_dead(storage, listing))
    times: dict[str, float | None] = {}
    while True:
        seen = survey(listing, common, kind, rules, times=times, dead=dead)
        if not seen.wanted_times:
            return seen
        for name in seen.wanted_times:
            # Prefixes of names have no time of their own.
            found = storage.stat(join(listing.root, name)) if storage.facts.empty_directories else None
            times[name] = None if found is None else found.modified


def look_into(storage: Storage, seen: Survey, elsewhere: Mapping[str, str] | None = None) -> Evidence:
    """Open what the guards have to know of; a file that cannot be read makes its cover incomplete.

    `elsewhere` maps top-level names that are judged as if they were in the location to the directories that hold them.
    """
    reader = _Reader(storage, seen, elsewhere or {})
    covers = {cover.name: reader.cover(cover) for cover in seen.covers}
    return Evidence(covers, {delta.name: reader.is_empty(delta) for delta in seen.one_sided})


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


class _Reader:
    """Looks into directories of one location."""

    def __init__(self, storage: Storage, seen: Survey, elsewhere: Mapping[str, str]) -> None:
        self._storage = storage
        self._seen = seen
        self._elsewhere = elsewhere
        self._insert_only = seen.kind.type is TableType.INSERT_ONLY

    def cover(self, cover: Directory) -> CoverFacts:
        """Whether a cover is complete, and for an empty compacted base what it stands for."""
        files = self._files(cover)
        marked = any(info.path == f"{cover.name}/{VERSION_MARKER}" for info in cover.files)
        # All that TRUNCATE writes in Hive 4 is the mark that says so.
        truncated = cover.marker is MarkerContent.OVERWRITE
        if not (marked or truncated) and not any(file.info.size for file in files):
            return CoverFacts(f"holds neither {VERSION_MARKER} nor a data file")
        try:
            rows = self._count(files)
        except AcidctlError as error:
            return CoverFacts(error.message)
        facts = CoverFacts(rows=rows)
        if rows != 0 or self._seen.kind.acid_v1:
            return facts
        if isinstance(cover.parsed, DeltaDir):
            return self._inside(cover, facts)
        return self._below(cover, facts) if cover.is_compacted else facts

    def is_empty(self, delta: Directory) -> bool:
        """Whether readers see no event of a delta: it has no rows, or only those of aborted writes."""
        try:
            return not any(self._visible(file, enough=1) for file in self._files(delta))
        except AcidctlError:
            return False

    def _inside(self, cover: Directory, facts: CoverFacts) -> CoverFacts:
        """A minor compaction without events stands for deltas of its kind in which readers see none."""
        wide = cover.delta
        for delta in self._seen.chosen.decided:
            if delta.kind is cover.kind and contains(wide, delta.delta) and not self.is_empty(delta):
                return CoverFacts(f"it holds no event at all, and {delta.name}, which it covers, holds some")
        return facts

    def _below(self, base: Directory, facts: CoverFacts) -> CoverFacts:
        """Rows and deletes that a reader would find if this base and later ones were not there."""
        seen = self._seen
        top = base.base.write_id
        later = {other.name for other in seen.inventory.bases if other.base.write_id >= top}
        state = resolve(
            seen.listing.without(later),
            seen.common,
            table_type=seen.kind,
            raise_on_history=False,
        )
        rows = deletes = 0
        for entry in live_entries(state):
            if entry.max_write_id is not None and entry.max_write_id > top:
                continue
            try:
                count = self._count_visible(entry)
            except AcidctlError as error:
                return CoverFacts(f"it holds no rows, and what it covers cannot be counted: {error.message}")
            if count is None:
                return CoverFacts("it holds no rows, and what it covers is not ORC and cannot be counted")
            if entry.kind is EntryKind.DELETE_DELTA:
                deletes += count
            else:
                rows += count
        return replace(facts, rows_below=rows, deletes_below=deletes)

    def _files(self, candidate: Directory) -> tuple[DataFile, ...]:
        return data_files(candidate, insert_only=self._insert_only)

    def _count(self, files: Iterable[DataFile]) -> int | None:
        """Rows by the footers, None where a file is not ORC; DamagedDataError for what cannot be whole."""
        total: int | None = 0
        for file in files:
            rows = self._rows(file)
            total = None if rows is None or total is None else total + rows
        return total

    def _count_visible(self, entry: StateEntry) -> int | None:
        """The same of an entry without the events of aborted writes, which are in its files and count for nobody."""
        files = data_files(entry, insert_only=self._insert_only)
        low, high = entry.min_write_id, entry.max_write_id
        aborted = low is not None and high is not None and self._seen.common.effective_write_ids.aborted_in(low, high)
        if self._insert_only or not aborted:
            return self._count(files)
        return sum(self._visible(file) for file in files)

    def _rows(self, file: DataFile) -> int | None:
        from acidctl.orc.acidmeta import check_shape
        from acidctl.orc.tail import read_tail

        length = self._length(file)
        if length == 0:
            return 0
        path = self._path(file.info.path)
        shown = self._storage.display(path)
        with self._storage.open(path) as stream:
            head = stream.read(len(_PARQUET)) if self._insert_only else ORC_MAGIC
            if head == _PARQUET:
                stream.seek(length - len(_PARQUET))
                if stream.read(len(_PARQUET)) != _PARQUET:
                    raise DamagedDataError(f"{shown} does not end as a Parquet file does", path=shown)
                return None
            if not head.startswith(ORC_MAGIC):
                return None
            tail = read_tail(stream, name=shown, length=length)
            rows = not self._insert_only and must_not_hold_events(file.info.path)
            return check_shape(tail, events=self._holds_events(file), rows=rows).rows

    def _visible(self, file: DataFile, *, enough: int | None = None) -> int:
        """The events of a file that are not of aborted writes; after `enough` of them nobody counts on."""
        from acidctl.orc.reader import open_orc

        length = self._length(file)
        if length == 0:
            return 0
        path = self._path(file.info.path)
        with self._storage.open(path) as stream:
            orc = open_orc(stream, name=self._storage.display(path), length=length, events=self._holds_events(file))
            if not orc.rows or not orc.is_acid:
                return orc.rows
            ids = self._seen.common.effective_write_ids
            found = 0
            for batch in orc.scan(["currentTransaction"]):
                counts = batch.column(0).value_counts().to_pylist()
                found += sum(each["counts"] for each in counts if not ids.is_aborted(each["values"]))
                if enough is not None and found >= enough:
                    break
            return found

    def _holds_events(self, file: DataFile) -> bool:
        return not self._insert_only and must_hold_events(file.info.path)

    def _path(self, path: str) -> str:
        """Where a file of the listing lies."""
        return join(self._elsewhere.get(path.partition("/")[0], self._seen.listing.root), path)

    def _length(self, file: DataFile) -> int:
        """Bytes up to the logical end."""
        if file.side_file is None:
            return file.info.size
        from acidctl.orc.input_file import read_logical_length

        path = self._path(file.side_file.path)
        with self._storage.open(path) as stream:
            return read_logical_length(stream, name=self._storage.display(path))
