"""Tables, for Python and for the commands: `open_table(url)` and what can be asked of it.

    table = acidctl.open_table("/warehouse/orders")
    for entry in table.ls(validtxns=["default.orders:20:15:15,17:3,4,5"]).entries:
        print(entry.name, entry.state, entry.reason)
    for batch in table.snapshot(as_of=20).to_batches():
        ...

Listing needs neither pyarrow nor numpy; they are loaded with the first snapshot.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from acidctl.errors import DamagedDataError, NoSuchTableError, NotAcidTableError, UsageError
from acidctl.listing import Listing
from acidctl.lsreport import (
    Damage,
    Details,
    Disagreement,
    FileDetail,
    Gap,
    LsEntry,
    LsPartition,
    LsReport,
    add_up,
    make_entries,
)
from acidctl.names import ACID_PREFIXES, is_hidden
from acidctl.state import (
    AcidState,
    EntryState,
    Profile,
    StateEntry,
    TableGuess,
    TableType,
    data_files,
    disagreements,
    empty_file_notes,
    guess_table_type,
    resolve,
)
from acidctl.state_stock import has_hidden_part
from acidctl.storage.gather import Location, gather, is_partition_folder
from acidctl.storage.port import Storage, join
from acidctl.storage.resolve import resolve as resolve_url
from acidctl.writeids import ReaderLists, TxnListFormat, recognise

if TYPE_CHECKING:
    from acidctl.schema import TableSchema
    from acidctl.snapshot import Snapshot

__all__ = ["LsReport", "Table", "open_table"]

_ORC_MAGIC = b"ORC"
_TABLE_TYPES = {"auto": None, "full": TableType.FULL, "insert-only": TableType.INSERT_ONLY}


def open_table(url: str, *, storage_options: Mapping[str, Any] | None = None) -> Table:
    """A table or partition directory by path or URL; nothing is listed yet."""
    storage, root = resolve_url(url, storage_options)
    return Table(storage, root)


@dataclass(frozen=True, slots=True)
class Reading:
    """One location as a reader with given lists sees it."""

    location: Location
    state: AcidState


@dataclass(frozen=True, slots=True)
class Readings:
    """All locations of a table, the lists they were judged by, and what the user has to know."""

    parts: tuple[Reading, ...]
    lists: ReaderLists
    profile: Profile
    kind: TableGuess
    schema: TableSchema | None
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def table_type(self) -> TableType:
        """The kind that was stated, else guessed."""
        return self.kind.type


def _unwatched(done: int, total: int | None) -> None:
    """No progress is shown."""


class Table:
    """A table directory, or one partition directory, on some storage."""

    def __init__(self, storage: Storage, root: str) -> None:
        self._storage = storage
        self._root = root

    @property
    def location(self) -> str:
        """Path or URL, without secrets."""
        return self._storage.display(self._root)

    def locations(self, partitions: Sequence[str] = ()) -> tuple[Location, ...]:
        """List the table now: one location, or one per partition, narrowed by `key=value` filters.

        Raises `NoSuchTableError`, and `NotAcidTableError` for what is no table directory.
        """
        found = self._storage.stat(self._root)
        if found is None:
            raise NoSuchTableError(
                f"{self.location} does not exist",
                path=self.location,
                hint="Check the path; relative ones start at the current directory.",
            )
        if not found.is_directory:
            raise NotAcidTableError(
                f"{self.location} is a file, and a table is a directory",
                path=self.location,
                hint="Use `acidctl dump` to look into a file.",
            )
        locations = gather(self._storage, self._root, partitions)
        require_table(locations, self.location, self._storage)
        return locations

    def ls(
        self,
        *,
        partitions: Sequence[str] = (),
        long: bool = False,
        rows: bool = False,
        progress: Callable[[int, int | None], None] = _unwatched,
        **view: Any,
    ) -> LsReport:
        """Every directory with its state and the reason.

        `view` are the arguments of `read`. `rows` opens the tail of every data file, and tells `progress` how many
        entries are done of how many; `long` lists the files.
        """
        readings = self._read(partitions, view)
        details = self._details(readings, rows, progress) if rows or long else None
        return report(self.location, readings, long=long, details=details)

    def snapshot(self, *, partitions: Sequence[str] = (), **view: Any) -> Snapshot:
        """What a reader sees; `view` are the arguments of `read`. Raises `NotEnoughHistoryError`."""
        from acidctl.snapshot import PartitionState, Snapshot

        readings = self._read(partitions, view)
        for part in readings.parts:
            error = part.state.not_enough_history
            if error is not None:
                raise error
        return Snapshot(
            self._storage,
            self.location,
            [PartitionState(part.location, part.state) for part in readings.parts if not part.location.stray],
            readings.lists,
            readings.schema,
            readings.notes,
            readings.warnings,
        )

    def _read(self, partitions: Sequence[str], view: Mapping[str, Any]) -> Readings:
        readings = read(self.locations(partitions), **view)
        if view.get("table") is None:
            _require_own_list(readings, self._root, self.location)
        return readings

    def _details(self, readings: Readings, rows: bool, progress: Callable[[int, int | None], None]) -> Details:
        """What the tails and side files of all data files tell."""
        details: dict[tuple[str, str], FileDetail] = {}
        insert_only = readings.table_type is TableType.INSERT_ONLY
        skipped = (EntryState.HIDDEN, EntryState.UNRECOGNISED)
        work = [(part, entry) for part in readings.parts for entry in part.state.entries if entry.state not in skipped]
        for done, (part, entry) in enumerate(work):
            progress(done, len(work))
            for path, detail in self._entry_details(part, entry, rows, insert_only):
                details[part.location.partition, path] = detail
        return details

    def _entry_details(
        self, part: Reading, entry: StateEntry, rows: bool, insert_only: bool
    ) -> Iterable[tuple[str, FileDetail]]:
        from acidctl.orc.sidefile import read_logical_length

        root = part.location.listing.root
        for file in data_files(entry, insert_only=insert_only):
            length: int | None = None
            if file.side_file is not None:
                side = join(root, file.side_file.path)
                try:
                    with self._storage.open(side) as stream:
                        length = read_logical_length(stream, name=self._storage.display(side))
                except DamagedDataError as error:
                    yield file.info.path, FileDetail(problem=error.message)
                    continue
            detail = FileDetail(logical_length=length)
            if rows:
                # Files without a byte are skipped by readers, and so are streaming files before their first commit.
                empty = (file.info.size if length is None else length) == 0
                detail = (
                    FileDetail(0, length) if empty else self._counted(join(root, file.info.path), length, insert_only)
                )
            yield file.info.path, detail

    def _counted(self, path: str, length: int | None, insert_only: bool) -> FileDetail:
        """The rows that a footer states, or what is wrong with the file: one bad file must not hide the others."""
        from acidctl.orc.tail import read_tail

        with self._storage.open(path) as stream:
            # Insert-only tables may hold any file format.
            if insert_only and stream.read(len(_ORC_MAGIC)) != _ORC_MAGIC:
                return FileDetail(logical_length=length)
            try:
                return FileDetail(read_tail(stream, name=self._storage.display(path), length=length).rows, length)
            except DamagedDataError as error:
                return FileDetail(logical_length=length, problem=error.message)


def read(
    locations: Sequence[Location],
    *,
    validtxns: str | Sequence[str] = (),
    as_of: int | None = None,
    table: str | None = None,
    list_format: str | None = None,
    profile: str | Profile = Profile.STRICT,
    schema: str | None = None,
    table_type: str = "auto",
) -> Readings:
    """Judge listed locations for a reader.

    `validtxns` are lists in any form that `--validtxns` takes, `as_of` stands for "write ids up to N";
    `table` chooses out of a list of several tables. Missing history is in the states (`history_gap`), it does
    not raise here.
    """
    texts = (validtxns,) if isinstance(validtxns, str) else tuple(validtxns)
    lists = recognise(texts, table=table, list_format=list_format, as_of=as_of)
    known = _parse_schema(schema)
    guess = guess_table_type(location.listing for location in locations if not location.stray)
    kind = _chosen_type(table_type, known) or guess.type
    # Original files alone do not tell which Hive reads them; a list in Hive 2's form does.
    acid_v1 = kind is not TableType.INSERT_ONLY and (guess.acid_v1 or list_format == TxnListFormat.HIVE2.value)
    if acid_v1:
        lists = lists.for_acid_v1()
    rules = Profile(profile)
    decided = replace(guess, type=kind, acid_v1=acid_v1)
    parts = []
    for location in locations:
        state = resolve(
            location.listing,
            lists.effective_write_ids,
            lists.effective_txns,
            profile=rules,
            table_type=decided,
            raise_on_history=False,
        )
        parts.append(Reading(location, _stray(state) if location.stray else state))
    notes: list[str] = []
    warnings = list(lists.notes)
    if guess.ambiguous and kind is guess.type and kind in (TableType.FULL, TableType.INSERT_ONLY):
        notes.append(f"Taken as {_KIND_WORDS[kind]}: {guess.why}. --table-type or --schema says otherwise.")
    if kind is TableType.ORIGINALS:
        warnings.append("There is no base and no delta: these ORC files may not be of a transactional table.")
    if kind is TableType.EMPTY:
        notes.append("The directory is empty: an empty table.")
    for part in parts:
        where = f"{part.location.partition}: " if part.location.partition else ""
        warnings.extend(where + note for note in (*part.state.notes, *empty_file_notes(part.state)))
        if part.location.stray:
            warnings.append(f"{where}data lies beside partition folders; Hive reads partitions only.")
    return Readings(tuple(parts), lists, rules, decided, known, tuple(notes), tuple(warnings))


_KIND_WORDS = {TableType.FULL: "a full ACID table", TableType.INSERT_ONLY: "an insert-only table"}


def report(
    location: str, readings: Readings, *, long: bool = False, details: Details | None = None, sizes: bool = True
) -> LsReport:
    """The answer of `ls` over judged locations."""
    entries: list[LsEntry] = []
    parts: list[LsPartition] = []
    found: list[Disagreement] = []
    gaps: list[Gap] = []
    for part in readings.parts:
        name = part.location.partition
        own = make_entries(name, part.state, sizes=sizes, long=long, details=details)
        entries.extend(own)
        error = part.state.not_enough_history
        if error is not None:
            gaps.append(Gap(name, error.message, error.hint))
        parts.append(LsPartition(name, add_up(own, [part.state], sizes=sizes), error is None))
        if not part.location.stray:
            said = disagreements(
                part.location.listing,
                readings.lists.effective_write_ids,
                readings.lists.effective_txns,
                table_type=readings.kind,
                ours=part.state if readings.profile is Profile.STRICT else None,
            )
            found.extend(Disagreement(name, text) for text in said)
    problems = [
        Damage(partition, path, detail.problem)
        for (partition, path), detail in (details or {}).items()
        if detail.problem is not None
    ]
    return LsReport(
        location=location,
        profile=readings.profile.value,
        table_type=readings.table_type.value,
        assumed=readings.lists.assumed,
        summary=add_up(entries, [part.state for part in readings.parts], sizes=sizes),
        entries=tuple(entries),
        partitions=tuple(parts),
        disagreements=tuple(found),
        gaps=tuple(gaps),
        damaged=tuple(problems),
        notes=readings.notes,
        warnings=readings.warnings,
    )


def require_table(locations: Sequence[Location], shown: str, storage: Storage | None = None) -> None:
    """Refuse what is no table: neither ACID directories, nor empty, nor ORC files alone.

    With a storage one file is opened to see whether original files are ORC; without, they are believed.
    """
    listings = [location.listing for location in locations]
    # A name such as base_x is no base, but the directory still wants an answer that says so.
    if any(path.startswith(ACID_PREFIXES) for listing in listings for path in listing.directories):
        return
    for listing in listings:
        filled = next((info for info in listing.files if info.size and not has_hidden_part(info.path)), None)
        nested = _nested_table(listing)
        if nested is not None:
            raise NotAcidTableError(
                f"{shown} is not a table, but holds directories that look like tables",
                path=shown,
                hint=f"Name one of them, for example {join(shown, nested)}.",
            )
        if filled is not None and storage is not None:
            with storage.open(join(listing.root, filled.path)) as stream:
                is_orc = stream.read(len(_ORC_MAGIC)) == _ORC_MAGIC
            if not is_orc:
                raise NotAcidTableError(
                    f"{shown} is not an ACID table: no base, no delta, and {filled.path} is no ORC file",
                    path=shown,
                    hint="Give the directory that holds base_* and delta_*, or partitions with them.",
                )
            return


def _require_own_list(readings: Readings, root: str, shown: str) -> None:
    """Refuse write ids of another table, where the path or the DDL tells which table this is.

    Ids of one table mean nothing in another, and the answer would look right. Hive's own folders are called
    `<database>.db/<table>`; other paths tell nothing.
    """
    given = readings.lists.write_ids.table if readings.lists.write_ids is not None else None
    if given is None:
        return
    parts = [part for part in root.split("/") if not is_partition_folder(part)]
    expected = readings.schema.table if readings.schema is not None else None
    if expected is None and len(parts) > 1 and parts[-2].endswith(".db"):
        expected = f"{parts[-2].removesuffix('.db')}.{parts[-1]}"
    if expected is not None and not _same_table(given, expected):
        raise UsageError(
            f"the write-id list is of table {given}, but {shown} is {expected}",
            path=shown,
            hint=f"Give the list of {expected}; if it is the right one all the same, add --table {given}.",
        )


def _same_table(first: str, second: str) -> bool:
    """Whether two names can mean one table: catalog and database count only where both have them."""
    pairs = zip(reversed(first.lower().split(".")), reversed(second.lower().split(".")), strict=False)
    return all(one == other for one, other in pairs)


def _stray(state: AcidState) -> AcidState:
    """Nothing beside partition folders is read, whatever its name."""
    entries = tuple(
        entry
        if entry.state is EntryState.HIDDEN
        else replace(
            entry,
            state=EntryState.UNRECOGNISED,
            reason_code="beside_partitions",
            reason="lies beside partition folders, and Hive reads partitions only",
            because_of=(),
        )
        for entry in state.entries
    )
    return replace(state, base=None, deltas=(), originals=(), entries=entries, notes=(), history_gap=None)


def _parse_schema(text: str | None) -> TableSchema | None:
    if text is None:
        return None
    from acidctl.schema import parse_schema

    return parse_schema(text)


def _chosen_type(name: str, schema: TableSchema | None) -> TableType | None:
    """The kind that the user states, by option or by SHOW CREATE TABLE; None when it has to be guessed."""
    if name not in _TABLE_TYPES:
        raise UsageError(f"{name!r} is no table type; known are {', '.join(_TABLE_TYPES)}")
    stated = _TABLE_TYPES[name]
    if stated is not None or schema is None or not schema.transactional:
        return stated
    return TableType.INSERT_ONLY if schema.insert_only else TableType.FULL


def _nested_table(listing: Listing) -> str | None:
    """Path of the first table that lies deeper than this directory."""
    for path in listing.directories:
        parts = path.split("/")
        for depth, part in enumerate(parts):
            if is_hidden(part):
                break
            if depth and (part.startswith(ACID_PREFIXES) or is_partition_folder(part)):
                return "/".join(parts[:depth])
    return None
