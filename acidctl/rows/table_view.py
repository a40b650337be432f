"""What lies on storage, judged for a reader: locations, states, what the user has to know, and the answer of `ls`.

Neither pyarrow nor numpy is needed here; a schema is parsed only when one is given.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from shlex import quote
from typing import TYPE_CHECKING, NamedTuple

from acidctl.errors import NoSuchTableError, NotAcidTableError, UsageError
from acidctl.findings import Finding
from acidctl.format.list_texts import recognise
from acidctl.format.listing import Listing, is_foreign
from acidctl.format.names import (
    ACID_PREFIXES,
    has_hidden_part,
    is_hidden,
    same_table,
)
from acidctl.format.write_ids import Profile, Reader, TxnListFormat
from acidctl.options import ReadView
from acidctl.phases import phase
from acidctl.state.entries import AcidState, EntryState, StateEntry, TableType, TooOld, Verdict
from acidctl.state.equivalence import disagreements
from acidctl.state.inventory import empty_file_notes, unread_data
from acidctl.state.report import (
    Damage,
    Details,
    Disagreement,
    Gap,
    LsEntry,
    LsPartition,
    LsReport,
    add_up,
    make_entries,
)
from acidctl.state.resolve import TableGuess, guess_table_type, resolve
from acidctl.storage.locations import Location, gather, is_partition_folder
from acidctl.storage.port import Storage, join
from acidctl.values import dataclass

if TYPE_CHECKING:
    from acidctl.types.schema import TableSchema

ORC_MAGIC = b"ORC"
# Names in a sentence; `ls` shows all.
_SOME = 3
_TABLE_TYPES = {"auto": None, "full": TableType.FULL, "insert-only": TableType.INSERT_ONLY}


class PartitionState(NamedTuple):
    """One location, and what a reader with given lists makes of it."""

    location: Location
    state: AcidState

    @property
    def partition(self) -> str:
        """The on-disk text, such as `ds=1/hr=2`; "" for a table without partitions."""
        return self.location.partition

    def with_too_old(self, found: TooOld | None) -> PartitionState:
        """The same with what files tell of the age of the lists."""
        return self._replace(state=replace(self.state, too_old=found))


@dataclass(frozen=True, slots=True)
class TableState:
    """All locations of a table, the lists by which their states were decided, and what the user has to know."""

    parts: tuple[PartitionState, ...]
    lists: Reader
    profile: Profile
    kind: TableGuess
    schema: TableSchema | None
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def doubts(self) -> tuple[Finding, ...]:
        """Why rows may be missing or come twice, as far as the listing tells."""
        return tuple(one.at(part.partition) for part in self.parts for one in part.state.doubts)

    @property
    def table_type(self) -> TableType:
        """The kind that was stated, else guessed."""
        return self.kind.type

    def of_table(self, root: str, stated: str | None, shown: str, *, changes: bool = False) -> TableState:
        """The same with warnings about what the table is called; raises as `own_table_warnings`."""
        listed = self.lists.effective_write_ids.table
        warnings = own_table_warnings(root, self.schema, listed=listed, stated=stated, shown=shown, changes=changes)
        lists = replace(self.lists, notes=(*self.lists.notes, *warnings))
        return replace(self, lists=lists, warnings=(*self.warnings, *warnings)) if warnings else self


def read(locations: Sequence[Location], view: ReadView = ReadView(), *, complete: bool = False) -> TableState:
    """Judge listed locations for a reader.

    `complete` wants every field of the lists, as who changes data must. Missing history is in the states
    (`history_gap`), it does not raise here.
    """
    lists = recognise(
        view.validtxns, table=view.table, list_format=view.list_format, as_of=view.as_of, complete=complete
    )
    known = schema_of(view.schema)
    decided = decide_kind(locations, known, lists, table_type=view.table_type, list_format=view.list_format)
    if decided.acid_v1:
        lists = lists.for_acid_v1()
    rules = Profile(view.profile)
    reader = Reader(lists.effective_write_ids, lists.effective_txns, rules)
    parts = []
    for location in locations:
        state = resolve(location.listing, reader, table_type=decided, raise_on_history=False)
        parts.append(PartitionState(location, _stray(state) if location.stray else state))
    notes = kind_notes(decided)
    warnings = list(lists.notes)
    if decided.type is TableType.ORIGINALS:
        warnings.append(
            "There is no base and no delta that counts: these ORC files may not be of a transactional table."
        )
    if decided.type is TableType.EMPTY:
        notes.append("Nothing here holds rows: an empty table.")
    for part in parts:
        where = part.location.prefix
        warnings.extend(where + note for note in (*part.state.notes, *empty_file_notes(part.state)))
        if part.location.stray and part.state.unrecognised:
            warnings.append(f"{where}data lies beside partition folders; Hive reads partitions only.")
    odd = [f"{part.location.partition}/{e.name}".lstrip("/") for part in parts for e in part.state.unrecognised]
    for location in locations:
        warnings.extend(link_notes(location))
    if odd:
        more = f" and {len(odd) - _SOME} more" if len(odd) > _SOME else ""
        many = "1 entry was" if len(odd) == 1 else f"{len(odd):,} entries were"
        warnings.append(f"{many} not recognised; no reader uses them: {', '.join(odd[:_SOME])}{more}")
    return TableState(tuple(parts), lists, rules, decided, known, tuple(notes), tuple(warnings))


def link_notes(location: Location) -> list[str]:
    """What to say of symbolic links and of files that are none: how Hive takes them, and how acidctl does."""
    listing, notes = location.listing, []
    where = location.prefix
    if "" in listing.links:
        notes.append(
            f"{location.partition or 'the table'} is a symbolic link to {listing.links['']}: it is read, as Hive reads "
            "it, and not compacted or cleaned by this name"
        )
    followed = [path for path in sorted(listing.links) if path and not is_foreign(path)]
    if followed:
        more = f" and {len(followed) - 1:,} others" if len(followed) > 1 else ""
        notes.append(
            f"{where}{followed[0]} is a symbolic link{more}: what is behind is read, as Hive reads it, and nothing "
            "there is compacted or cleaned"
        )
    for path in listing.foreign[:_SOME]:
        notes.append(f"{where}{path} is a symbolic link, which acidctl neither follows nor removes: see who made it")
    odd = [(path, kind) for path, kind in sorted(listing.special.items()) if not has_hidden_part(path)]
    for path, kind in odd[:_SOME]:
        notes.append(f"{where}{path} is {kind} and no regular file: nothing is read of it, and Hive may hang there")
    return notes


def decide_kind(
    locations: Sequence[Location],
    schema: TableSchema | None,
    lists: Reader,
    *,
    table_type: str = "auto",
    list_format: str | None = None,
) -> TableGuess:
    """The kind of a table as stated by option or DDL, else as guessed; `ambiguous` only where it was guessed."""
    if table_type not in _TABLE_TYPES:
        raise UsageError(f"{table_type!r} is not a table type; expected one of {', '.join(_TABLE_TYPES)}")
    guess = guess_table_type((location.listing for location in locations if not location.stray), lists)
    stated = _TABLE_TYPES[table_type]
    if stated is None and schema is not None and schema.transactional:
        stated = TableType.INSERT_ONLY if schema.insert_only else TableType.FULL
    kind = stated or guess.type
    # Original files alone do not tell which Hive reads them; a list in Hive 2's form does.
    acid_v1 = kind is not TableType.INSERT_ONLY and (guess.acid_v1 or list_format == TxnListFormat.HIVE2.value)
    if stated is not None:
        guess = guess._replace(ambiguous=False, until_cleaned=False)
    return guess._replace(type=kind, acid_v1=acid_v1)


def kind_notes(kind: TableGuess) -> list[str]:
    """What to say about a kind that was guessed although another looks the same."""
    if not kind.ambiguous or kind.type not in _KIND_WORDS:
        return []
    return [f"Taken as {_KIND_WORDS[kind.type]}: {kind.why}. --table-type or --schema says otherwise."]


_KIND_WORDS = {TableType.FULL: "a full ACID table", TableType.INSERT_ONLY: "an insert-only table"}


def list_table(storage: Storage, root: str, partitions: Sequence[str] = ()) -> tuple[Location, ...]:
    """A table as it is now: one location, or one per partition, narrowed by `key=value` filters.

    Raises `NoSuchTableError`, and `NotAcidTableError` for what is no table directory.
    """
    found, shown = storage.stat(root), storage.display(root)
    if found is None:
        raise NoSuchTableError(
            f"{shown} does not exist",
            path=shown,
            hint="Check the path; relative ones start at the current directory.",
        )
    if not found.is_directory:
        raise NotAcidTableError(
            f"{shown} is a file, and a table is a directory", path=shown, hint="Use `acidctl dump` to look into a file."
        )
    with phase("list"):
        locations = gather(storage, root, partitions)
    require_table(locations, shown, storage)
    return locations


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
                is_orc = stream.read(len(ORC_MAGIC)) == ORC_MAGIC
            if not is_orc:
                raise NotAcidTableError(
                    f"{shown} is not an ACID table: no base, no delta, and {filled.path} is not an ORC file",
                    path=shown,
                    hint="Give the directory that holds base_* and delta_*, or partitions with them.",
                )
            return


def own_table_warnings(
    root: str,
    schema: TableSchema | None,
    *,
    listed: str | None,
    stated: str | None,
    shown: str,
    changes: bool = False,
) -> tuple[str, ...]:
    """Refuse a list, or `--table`, of another table than the one at `root`; warn where only the names differ.

    Ids of one table mean nothing in another, and the answer would look right. The DDL tells which table this is, and
    so do Hive's own folders, `<database>.db/<table>`; what other directories are called proves nothing. So a command
    that `changes` data wants the user to state that the list is of this table where the directory is called otherwise.
    """
    known = known_table(root, schema)
    for given, what in ((listed, f"the write-id list is of table {listed}"), (stated, f"--table says {stated}")):
        if given is not None and known is not None and not same_table(given, known):
            raise UsageError(
                f"{what}, but {shown} is {known}",
                path=shown,
                hint=f"Give the list of {known}. If the directory is really that of {given}, give the text of its "
                "SHOW CREATE TABLE with --schema.",
            )
    folder = _warehouse_table(root)
    if schema is not None and schema.table is not None:
        if folder is not None and not same_table(schema.table, folder):
            return (f"The DDL is of {schema.table}, and this directory is that of {folder}.",)
        return ()
    if known is not None or stated is not None or listed is None:
        return ()
    parts = _table_path(root)
    name, called = listed.rpartition(".")[2].lower(), parts[-1] if parts else ""
    if name == called.lower():
        return ()
    if changes:
        raise UsageError(
            f"the write-id list is of table {listed}, and "
            + (f"the directory {shown} is called {called}" if parts else f"{shown} has no name of its own"),
            path=shown,
            hint=f"If the table here is {listed}, add --table {quote(listed)}; else give the list of this table.",
        )
    # Copies and exports are often called after the table: orders_old, orders/2026.
    if not parts or re.search(rf"(?<![a-z0-9]){re.escape(name)}(?![a-z0-9])", "/".join(parts).lower()):
        return ()
    return (f"The list is of {listed}, and this directory is called {called}.",)


def known_table(root: str, schema: TableSchema | None) -> str | None:
    """`database.table` as the DDL, else a path in Hive's warehouse tells; None where neither does."""
    folder = _warehouse_table(root)
    ddl = schema.table if schema is not None else None
    # A DDL may name the table without its database.
    return folder if ddl is None or (folder is not None and "." not in ddl and same_table(ddl, folder)) else ddl


def _table_path(root: str) -> list[str]:
    return [part for part in root.split("/") if part and not is_partition_folder(part)]


def _warehouse_table(root: str) -> str | None:
    parts = _table_path(root)
    if len(parts) < 2 or not parts[-2].endswith(".db"):
        return None
    return f"{parts[-2].removesuffix('.db')}.{parts[-1]}"


def _stray(state: AcidState) -> AcidState:
    """Nothing beside partition folders is read, whatever its name."""
    reason = "lies beside partition folders, and Hive reads partitions only"
    verdict = Verdict(EntryState.UNRECOGNISED, "beside_partitions", reason)
    entries = tuple(e if e.state is EntryState.HIDDEN else StateEntry.of(e, verdict) for e in state.entries)
    return replace(
        state,
        base=None,
        deltas=(),
        originals=(),
        entries=entries,
        notes=(),
        doubts=tuple(unread_data(entries)),
        lonely={},
        history_gap=None,
        too_old=None,
    )


def schema_of(text: str | None) -> TableSchema | None:
    """The schema that a user gave as text, None when there is none."""
    if text is None:
        return None
    from acidctl.types.schema import parse_schema

    return parse_schema(text)


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


# --- the answer of `ls`


def report(
    location: str,
    table: TableState,
    *,
    long: bool = False,
    details: Details | None = None,
    sizes: bool = True,
    found: Iterable[Finding] = (),
) -> LsReport:
    """The answer of `ls` over judged locations; `found` is what opened files tell beside their details."""
    entries: list[LsEntry] = []
    parts: list[LsPartition] = []
    disagreeing: list[Disagreement] = []
    gaps: list[Gap] = []
    reader = Reader(table.lists.effective_write_ids, table.lists.effective_txns)
    for part in table.parts:
        name, stray = part.partition, part.location.stray
        own = make_entries(name, part.state, sizes=sizes, long=long, details=details)
        entries.extend(own)
        error = part.state.not_enough_history
        if error is not None:
            gaps.append(Gap(name, error.message, error.hint))
        if not stray or part.state.unrecognised:
            summary = add_up(own, [part.state], sizes=sizes, stray=int(stray))
            parts.append(LsPartition(name, summary, error is None))
        if not stray:
            ours = part.state if table.profile is Profile.STRICT else None
            texts = disagreements(part.location.listing, reader, table_type=table.kind, ours=ours)
            disagreeing.extend(Disagreement(name, text) for text in texts)
    of_files = (one.finding.at(partition) for (partition, _), one in (details or {}).items() if one.finding is not None)
    findings = tuple(dict.fromkeys((*table.doubts, *found, *of_files)))
    stray_parts = sum(part.location.stray for part in table.parts)
    return LsReport(
        location=location,
        profile=table.profile.value,
        table_type=table.table_type.value,
        assumed=table.lists.assumed,
        summary=add_up(entries, [part.state for part in table.parts], sizes=sizes, stray=stray_parts),
        entries=tuple(entries),
        partitions=tuple(parts),
        disagreements=tuple(disagreeing),
        gaps=tuple(gaps),
        damaged=tuple(
            Damage(partition, path, detail.problem)
            for (partition, path), detail in (details or {}).items()
            if detail.problem is not None
        ),
        notes=table.notes,
        warnings=table.warnings,
        doubts=tuple(one.sentence for one in findings),
        findings=findings,
    )
