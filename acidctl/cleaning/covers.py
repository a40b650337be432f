"""Nothing that a reader sees goes: the rows of what goes are looked for in what covers it, before anything is removed.

Names say which directory covers which; only the rows say whether it holds them. A compaction of damaged or half
missing inputs, a bucket file that was lost or renamed, a copied directory: by names all of these are in order.

**Full ACID.** Each row of a victim has to be in its cover, by ROW__ID, unless a DELETE event that is still there
removes it; and each DELETE event of a victim has to be in the delete half that covers it. *All* victims are asked, not
those that readers would fall back to: what a damaged minor compaction lost may still be in its inputs. And a base
may hold no row that a DELETE event of a victim names: a compaction that had lost the event has let the row come back,
and the victim is the last that knows of it. In ACID version 1, where an update keeps the ROW__ID, the cover has to hold
the newest version that the victims do, or a later one.

Where an earlier run was stopped, a row whose DELETE event has gone already would look lost. Therefore inserts go before
the deletes that may remove them: within a run by the order of removal (`plan._ranks`), between runs because deletes
stay as long as the retention keeps an insert before them (`decisions.survey`). Hive's own cleaner knows no such order.
Where it was stopped between the two, the location stays until it has ended.

What an overwrite or truncation replaced is nobody's any more: only what is newer than the last of them is compared.
That base may itself have been removed by the run that was stopped; it then lies in that run's work directory. A base
without a mark of a compaction that holds rows of other writes than its own is no overwrite.

A rebalancing compaction (Hive 4) numbers all rows anew, from 0 on over all buckets. A base of that form that lacks a
row has to hold as many rows as its inputs.

**Insert-only.** Rows have no ids there, so they are counted: a cover has to hold at least as many as the directories
that would be read without it. Text is counted where the DDL says how.

Every file of a cover is decoded whole: a damaged chunk is noticed while the inputs are still there. All of it is done
as streams; of the deletes below a cover the keys of one bucket at a time are in memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from acidctl.cleaning.decisions import Survey, contains, is_replaced, overwrites
from acidctl.cleaning.plan import Compared
from acidctl.errors import AcidctlError, NotAcidTableError
from acidctl.fileformats.plain import PlainFiles
from acidctl.rows.containment import (
    Contained,
    Files,
    contained,
    events_contained,
    is_renumbered,
    not_removed,
    read_whole,
)
from acidctl.rows.source import DataSource, live_sources
from acidctl.state.entries import (
    ORIGINALS_NAME,
    AcidState,
    Directory,
    EntryKind,
    EntryState,
    StateEntry,
    TableType,
    Verdict,
)
from acidctl.state.inventory import live_entries
from acidctl.state.resolve import resolve
from acidctl.storage.port import Storage
from acidctl.types.schema import TableSchema


def compare(storage: Storage, seen: Survey, schema: TableSchema | None = None) -> Compared:
    """Look for the rows of all victims in their covers; `schema` is what the DDL says of text files.

    Reads the covers whole, and the keys of the victims.
    """
    location = _Location(storage, seen, schema)
    try:
        return location.counted() if location.insert_only else location.compared()
    except AcidctlError as error:
        return Compared(f"what goes cannot be compared with what covers it: {error.message}")


class _LostError(Exception):
    """A sentence about what a cover lacks."""


class _Location:
    """The directories of one location, as sources of rows."""

    def __init__(self, storage: Storage, seen: Survey, schema: TableSchema | None) -> None:
        self._storage, self._seen = storage, seen
        self.insert_only = seen.kind.type is TableType.INSERT_ONLY
        self._plain = PlainFiles(schema) if self.insert_only else None
        self._rows = self._deletes = 0

    def _causes(self, directory: Directory) -> tuple[str, ...]:
        return self._seen.chosen.decisions[directory.name].because_of

    def _sources(self, directories: Iterable[Directory]) -> tuple[tuple[DataSource, ...], tuple[DataSource, ...]]:
        """The files with rows and those with deletes, whatever readers make of their directories."""
        entries = [StateEntry.of(one, Verdict(EntryState.LIVE, "compared", "")) for one in directories]
        kind = self._seen.kind
        state = AcidState(
            base=None,
            deltas=tuple(entry for entry in entries if entry.name != ORIGINALS_NAME),
            originals=(),
            entries=tuple(entries),
            table_type=kind.type,
            acid_v1=kind.acid_v1,
        )
        return live_sources(self._storage, self._seen.listing.root, state, self._plain)

    # --- full ACID

    def compared(self) -> Compared:
        """Every row and every DELETE event of the victims, by its ROW__ID."""
        try:
            base = self._seen.chosen.best
            if base is not None and base.name in self._seen.chosen.causes:
                self._below_base(base)
            groups: dict[tuple[str, ...], list[Directory]] = {}
            for victim in self._seen.covered:
                if base is None or self._causes(victim) != (base.name,):
                    groups.setdefault(self._causes(victim), []).append(victim)
            for names, victims in groups.items():
                self._below_deltas([c for c in self._seen.covers if c.name in names], victims)
        except _LostError as error:
            return Compared(str(error))
        files = [one for some in self._sources(self._seen.covers) for one in some]
        _, size = read_whole(files)
        deletes = f" and {self._deletes:,} deletes" if self._deletes else ""
        found = f"{self._rows:,} rows{deletes} of what goes are in what covers it"
        return Compared(None, f"{found} ({_files(files)}, {size:,} bytes, read whole)")

    def _below_base(self, base: Directory) -> None:
        bases = overwrites(self._seen).items()
        floor = max((number for number, one in bases if one is None or self._is_overwrite(one)), default=None)
        victims = [
            one for one in self._seen.covered if self._causes(one) == (base.name,) and not is_replaced(one, floor)
        ]
        found = self._compared_with(base, victims)
        if found.missing is not None:
            inputs = self._numbered_anew(victims)
            found = self._compared_with(base, [one for one in victims if one not in inputs]) if inputs else found
        if found.missing is not None and not self._is_renumbered(base, victims):
            raise _LostError(_lacks(base.name, found))
        self._require_removed(base, victims)
        self._rows += found.rows

    def _require_removed(self, base: Directory, victims: Sequence[Directory]) -> None:
        """A base holds no row that a victim deletes: a compaction that had lost the event has let the row come back."""
        rows, _ = self._sources([base])
        _, deletes = self._sources(victims)
        if not deletes or self._seen.kind.acid_v1:
            return
        row = not_removed(Files(rows, deletes), self._seen.common.effective_write_ids)
        # New row ids may be those of old deletes; to find that out takes reading all keys, so it is asked last.
        if row is not None and not self._is_renumbered(base, victims):
            name = f"{row.write_id},{row.bucket_property},{row.row_id}"
            raise _LostError(f"{base.name} holds row {name}, which a delete that would go removes")

    def _numbered_anew(self, victims: Sequence[Directory]) -> list[Directory]:
        """The inputs of the newest rebalancing compaction among victims, compacted since without a cleaning."""
        bases = [one for one in victims if one.kind is EntryKind.BASE and one.is_compacted]
        for base in sorted(bases, key=lambda one: -one.base.write_id):
            inputs = [one for one in victims if one is not base and is_replaced(one, base.base.write_id)]
            if inputs and self._is_renumbered(base, inputs):
                return inputs
        return []

    def _is_overwrite(self, base: Directory) -> bool:
        """Whether a base without a mark of a compaction holds rows of its own write alone, as far as tails tell.

        A compactor of Hive 3 that dies before it marks its base leaves one that looks like an overwrite.
        """
        rows, _ = self._sources([base])
        lowest = (source.facts.lowest for source in rows)
        return all(low is None or low.write_id >= base.base.write_id for low in lowest)

    def _wanted(self, base: Directory, victims: Sequence[Directory]) -> Files:
        """The rows of victims, less what the deletes remove that a base has applied."""
        below = [one for one in self._seen.chosen.decided if one.delta.max_write_id <= base.base.write_id]
        rows, _ = self._sources(victims)
        _, deletes = self._sources(below)
        return Files(rows, deletes)

    def _compared_with(self, base: Directory, victims: Sequence[Directory]) -> Contained:
        if self._seen.kind.acid_v1:
            # Updates and deletes are events of the same files: only all of them together tell what a row became.
            below = [one for one in self._seen.chosen.decided if one.delta.max_write_id <= base.base.write_id]
            victims = [*victims, *(one for one in below if one not in victims)]
        held, _ = self._sources([base])
        return contained(self._wanted(base, victims), Files(held), self._seen.common.effective_write_ids)

    def _is_renumbered(self, base: Directory, inputs: Sequence[Directory]) -> bool:
        if base.visibility_txn_id is None:
            return False
        held, _ = self._sources([base])
        return is_renumbered(self._wanted(base, inputs), held, self._seen.common.effective_write_ids)

    def _below_deltas(self, covers: Sequence[Directory], victims: Sequence[Directory]) -> None:
        """Victims inside the range of a minor compaction; `covers` are its halves."""
        write_ids = self._seen.common.effective_write_ids
        held, held_deletes = self._sources(covers)
        rows, deletes = self._sources(victims)
        inside = [one for one in self._seen.chosen.decided if any(_within(one, cover) for cover in covers)]
        _, removed = self._sources(inside)
        names = " and ".join(cover.name for cover in covers)
        found = contained(Files(rows, removed), Files(held), write_ids)
        if found.missing is not None:
            raise _LostError(_lacks(names, found))
        self._rows += found.rows
        if self._seen.kind.acid_v1:
            deletes, held_deletes = rows, held
        events = events_contained(deletes, held_deletes, write_ids)
        if events.missing is not None:
            raise _LostError(_lacks(names, events, "the event of row"))
        self._deletes += events.rows

    # --- insert-only

    def counted(self) -> Compared:
        """Rows of the covers, against those of what would be read without them."""
        seen = self._seen
        lines = []
        for cover in seen.covers:
            inputs = self._inputs(cover)
            try:
                (held, _), (rows, _) = self._sources([cover]), self._sources(inputs)
                there, wanted = _total(held), _total(rows)
                read_whole(held)
            except NotAcidTableError as error:
                lines.append(f"rows of {cover.name} were not counted ({error.message})")
                continue
            if there < wanted:
                return Compared(
                    f"{cover.name} holds {there:,} rows, and what it covers holds {wanted:,}: some would be lost"
                )
            lines.append(f"{cover.name} holds {there:,} rows ({sum(one.bytes for one in held):,} bytes read)")
        return Compared(None, "; ".join(lines))

    def _inputs(self, cover: Directory) -> list[Directory]:
        """What a reader would read in the place of a cover if there were no such."""
        seen = self._seen
        if cover.kind is EntryKind.BASE:
            if not cover.is_compacted:
                return []  # an overwrite, in the place of everything before it
            top = cover.base.write_id
            without = {one.name for one in seen.inventory.bases if one.base.write_id > top or one.name == cover.name}
        else:
            without = {one.name for one in seen.inventory.bases}
            without |= {one.name for one in seen.inventory.deltas if not contains(cover.delta, one.delta)}
            top = cover.delta.max_write_id
        state = resolve(seen.listing.without(without), seen.common, table_type=seen.kind, raise_on_history=False)
        return [one for one in live_entries(state) if one.max_write_id is None or one.max_write_id <= top]


def _within(delta: Directory, cover: Directory) -> bool:
    return cover.delta.range.covers(delta.delta.range)


def _total(sources: Sequence[DataSource]) -> int:
    return sum(source.facts.rows for source in sources)


def _files(sources: Sequence[DataSource]) -> str:
    return "1 file" if len(sources) == 1 else f"{len(sources):,} files"


def _lacks(cover: str, found: Contained, what: str = "row") -> str:
    row = found.missing
    assert row is not None
    shown = f"{row.write_id},{row.bucket_property},{row.row_id}"
    aborted = f", or give lists that say so if write id {row.write_id} was aborted" if row.write_id else ""
    return (
        f"{cover} lacks {what} {shown}, which {found.file} holds and nothing that is there deletes: it would be lost "
        f"(restore {cover}{aborted})"
    )
