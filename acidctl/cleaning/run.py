"""One run of `clean` over a table: what was asked becomes the meet of all readers and the rules, then an answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from acidctl.cleaning.candidates import Rules
from acidctl.cleaning.plan import CleanPlan, LocationPlan
from acidctl.cleaning.removal import Cleaning
from acidctl.cleaning.report import Action, CleanedLocation, CleanReport, Outcome
from acidctl.cleaning.rules import Meet
from acidctl.errors import UsageError
from acidctl.format.list_texts import ManyLists, recognise_many
from acidctl.format.names import BaseDir, DeltaDir, parse_directory
from acidctl.format.write_ids import Reader, ValidWriteIds, meet_txns, meet_write_ids
from acidctl.maintenance.limits import TimeLimit
from acidctl.options import CleanOptions
from acidctl.rows.table_view import decide_kind, kind_notes, known_table, own_table_warnings, schema_of
from acidctl.state.resolve import TableGuess, TableType
from acidctl.storage.local import whole_path
from acidctl.storage.locations import Location, require_no_way_in, shows_in_table
from acidctl.storage.port import Storage, join
from acidctl.types.schema import TableSchema

_UNNAMED_HINT = "What was given are transaction lists; one of write ids begins with its table, as db.table:20:... . "
_LISTS_HINT = (
    "Give --validtxns with the list of each reader that may still run, or, while nobody else uses the table, "
    "--as-of N --assume-exclusive."
)


Report = Callable[[int, int | None], None]
Item = TypeVar("Item")


def _unwatched(done: int, total: int | None) -> None:
    """No progress is shown."""


@dataclass(frozen=True, slots=True)
class CleanRun:
    """A run, ready to be shown and then carried out; made by `prepare`."""

    cleaning: Cleaning
    locations: tuple[Location, ...]
    shown: str
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    limit: TimeLimit | None = None

    def plan(self, *, progress: Report = _unwatched, whole: bool = True) -> CleanPlan:
        """What may go; changes nothing, but opens the ends of covering files.

        Half of the time that `limit` leaves is for this, where it is not the `whole` run.
        """
        meet = self.cleaning.meet
        return CleanPlan(
            location=self.shown,
            table_type=self.cleaning.kind.type.value,
            write_ids=meet.write_ids.format(),
            txns="" if meet.txns is None else meet.txns.format(),
            retention_seconds=self.cleaning.rules.older_than,
            locations=self.cleaning.plan(self.locations, progress=progress, stop=self._stop(whole)),
            notes=self.notes,
            warnings=self.warnings,
        )

    def _stop(self, whole: bool) -> Callable[[], bool]:
        if self.limit is None:
            return lambda: False
        limit = self.limit
        return (lambda: limit.over) if whole else limit.planning()

    def _each(
        self, parts: Sequence[LocationPlan], act: Callable[[LocationPlan], CleanedLocation], progress: Report
    ) -> list[CleanedLocation]:
        """Each location in turn; none is begun when the time is over."""

        def in_time(part: LocationPlan) -> CleanedLocation:
            late = part.victims and self.limit is not None and self.limit.over
            return CleanedLocation.left(part) if part.postponed or late else act(part)

        return _each(parts, in_time, progress)

    def show(self, plan: CleanPlan) -> CleanReport:
        """The answer of a dry run."""
        return self._report(plan, Action.SHOW, [CleanedLocation.planned(part) for part in plan.locations])

    def delete(self, plan: CleanPlan, *, progress: Report = _unwatched) -> CleanReport:
        """Remove what was planned; a failure at one location neither stops nor hides the others."""
        return self._report(plan, Action.DELETE, self._each(plan.locations, self.cleaning.delete, progress))

    def quarantine(self, plan: CleanPlan, base: str | None, *, progress: Report = _unwatched) -> CleanReport:
        """Move what was planned into boxes below `base`, a path of the table's own storage (None: each location)."""
        self._require_hidden(base)

        def act(part: LocationPlan) -> CleanedLocation:
            return self.cleaning.quarantine(part, base)

        return self._report(plan, Action.QUARANTINE, self._each(plan.locations, act, progress))

    def undo(self, base: str | None, *, progress: Report = _unwatched) -> CleanReport:
        """Bring back what earlier runs moved into boxes, where something still covers it."""
        if base is not None:
            require_no_way_in(self.cleaning.storage, self.cleaning.root, base)

        def act(location: Location) -> CleanedLocation:
            return self.cleaning.undo(location, base)

        places = [location for location in self.locations if not location.stray]
        done = _each(places, act, progress)
        notes = self.notes
        if all(part.outcome is Outcome.NOTHING_TO_DO and not part.kept for part in done):
            where = "within the table" if base is None else f"in {self.cleaning.storage.display(base)}"
            notes = (*notes, f"No quarantine of this table was found {where}; --quarantine DIR names another place.")
        plan = CleanPlan(self.shown, "", "", "", None, (), notes, self.warnings)
        return self._report(plan, Action.UNDO, done)

    def _report(self, plan: CleanPlan, action: Action, done: Sequence[CleanedLocation]) -> CleanReport:
        meet = self.cleaning.meet
        return CleanReport(
            location=self.shown,
            table_type=self.cleaning.kind.type.value,
            action=action,
            write_ids=meet.write_ids.format(),
            txns=None if meet.txns is None else meet.txns.format(),
            retention_seconds=self.cleaning.rules.older_than,
            partitions=tuple(done),
            notes=plan.notes,
            warnings=plan.warnings,
        )

    def _require_hidden(self, base: str | None) -> None:
        """A visible folder inside the table would be read as data."""
        if base is None:
            return
        require_no_way_in(self.cleaning.storage, self.cleaning.root, base)
        if shows_in_table(self.cleaning.storage, self.cleaning.root, base):
            raise UsageError(
                f"the quarantine {base} lies inside the table, where readers would take it for data",
                path=base,
                hint="Name a directory outside of the table on the same storage, or leave the name out.",
            )


def prepare(
    storage: Storage,
    root: str,
    locations: Sequence[Location],
    request: CleanOptions,
    *,
    now: float,
    limit: TimeLimit | None = None,
) -> CleanRun:
    """Make a run of a request; `now` is in seconds since 1970, `limit` bounds its time.

    UsageError without a write-id list, for the list of another table, and without a transaction list where names
    carry transactions.
    """
    shown = storage.display(root)
    schema = schema_of(request.schema)
    lists = recognise_many(
        request.validtxns, table=request.table, list_format=request.list_format, as_of=request.as_of, complete=True
    )
    kind = decide_kind(
        locations, schema, _common(lists), table_type=request.table_type, list_format=request.list_format
    )
    meet = _meet(lists, request, kind, locations, shown)
    path, listed = whole_path(storage, root), meet.write_ids.table
    named = own_table_warnings(path, schema, listed=listed, stated=request.table, shown=shown)
    rules = Rules(
        now=now,
        older_than=request.older_than,
        highest_write_id=request.highest_write_id,
        leftovers=request.leftovers,
        no_cleanup=_no_cleanup(schema),
        table=known_table(path, schema),
    )
    trash = storage.facts.trash and not request.skip_trash
    cleaning = Cleaning(storage, root, meet, kind, rules, request.unsafe_break_lock, trash)
    notes = kind_notes(kind)
    if kind.type is TableType.EMPTY:
        notes.append("Nothing here holds rows: an empty table.")
    if request.older_than is None:
        notes.append("Ages are not looked at: a reader that began before the last compaction may lose its files.")
    if trash:
        notes.append("What is deleted goes into the trash of this user, which frees no space until it is emptied.")
    return CleanRun(cleaning, tuple(locations), shown, tuple(notes), (*lists.notes, *named), limit)


def _common(lists: ManyLists) -> Reader:
    """The lists of a reader who sees what all of them see."""
    return Reader(
        meet_write_ids(lists.write_ids) if lists.write_ids else None,
        meet_txns(lists.txns) if lists.txns else None,
    )


def _meet(lists: ManyLists, request: CleanOptions, kind: TableGuess, locations: Sequence[Location], shown: str) -> Meet:
    write_ids, txns = lists.write_ids, lists.txns
    if request.as_of is not None and not request.assume_exclusive:
        raise UsageError(
            "--as-of says nothing of other readers, and what they read must not be deleted",
            path=shown,
            hint="Add --assume-exclusive when nobody else reads or writes this table now, or give --validtxns.",
        )
    # In Hive 2's form the second of two ids may be open, and what is aborted goes.
    mixed = next((item for item in txns if len(item.open) == len(item.aborted) == 1), None)
    if kind.acid_v1 and not write_ids and mixed is not None and request.list_format is None:
        raise UsageError(
            f"the transaction list {mixed.format()} means one thing in Hive 2 and another in Hive 3 and 4",
            path=shown,
            hint="Say whose it is with --list-format hive2, hive3 or hive4.",
        )
    if not write_ids and kind.acid_v1:
        write_ids = tuple(ValidWriteIds.from_txns(item) for item in txns)
    if not write_ids:
        raise UsageError(
            "without a list of valid write ids nothing can be told to be out of every reader's reach",
            path=shown,
            hint=(_UNNAMED_HINT if lists.txns else "") + _LISTS_HINT,
        )
    named = next((join(part.listing.root, name) for part in locations for name in _with_txn(part)), None)
    if named is not None and not txns:
        raise UsageError(
            f"{named} is judged by its transaction, and no transaction list was given",
            path=shown,
            hint="Give the transaction list of each reader with --validtxns too, beside its write ids.",
        )
    return Meet(meet_write_ids(write_ids), meet_txns(txns) if txns else None)


def _with_txn(part: Location) -> list[str]:
    """Names of a location that carry a transaction."""
    if part.stray:
        return []
    tops = ((name, parse_directory(name)) for name in part.listing.directories if "/" not in name)
    return [name for name, d in tops if isinstance(d, BaseDir | DeltaDir) and d.visibility_txn_id is not None]


def _no_cleanup(schema: TableSchema | None) -> bool | None:
    if schema is None or not schema.from_ddl:
        return None
    return (schema.table_property("no_cleanup") or "").lower() == "true"


def _each(items: Sequence[Item], act: Callable[[Item], CleanedLocation], progress: Report) -> list[CleanedLocation]:
    done = []
    for index, item in enumerate(items):
        progress(index, len(items))
        done.append(act(item))
    return done
