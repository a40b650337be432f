"""Look at a table as a compaction has to: which files hold what, by their tails alone, and a plan made of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from acidctl.compaction.finish import Harvest, check_dropped, finish, finish_partition, refit, refuse
from acidctl.compaction.plan import Action, CompactionPlan, PartitionPlan, is_within
from acidctl.compaction.planner import Draft, Ground, draft, refused, settle
from acidctl.compaction.request import CompactionRequest, TableView
from acidctl.compaction.tasks import InputFile
from acidctl.errors import AcidctlError, DamagedDataError, StalePlanError
from acidctl.format.listing import Listing, obstacle
from acidctl.maintenance.reach import Reach
from acidctl.maintenance.time_limit import MAX_RUNTIME, UNREACHABLE, TimeLimit
from acidctl.rows.pipeline import ordered_map
from acidctl.rows.table_view import link_notes
from acidctl.state.resolve import data_files
from acidctl.storage.locations import Location
from acidctl.storage.port import Storage

if TYPE_CHECKING:
    from acidctl.compaction.footer_facts import Look

# Tails are small and far away on most storages: waiting for several at once costs nothing.
_WORKERS = 8


def _unwatched(done: int, total: int | None) -> None:
    """No progress is shown."""


def _unforeseen(bytes_in: int) -> None:
    """Nobody waits for it."""


@dataclass(frozen=True, slots=True)
class Decision:
    """A plan and what it was decided by, so that a part of it can be decided again and come out no wider."""

    storage: Storage
    ground: Ground
    plan: CompactionPlan

    def again(self, part: PartitionPlan, listing: Listing) -> PartitionPlan:
        """The plan of one partition from what lies there now, by the options, lists and kind of table of the first one.

        Only what was to be compacted is compacted, into directories of the same names, from what had been inputs or
        has taken their place; StalePlanError where that is not what lies there.
        """
        if part.action is not Action.COMPACT:
            return part
        made = draft(self.ground, part.partition, part.path, listing)
        if self.ground.request.max_bytes is not None and made.plan.bytes_in > part.bytes_in:
            why = (
                f"its {made.plan.bytes_in} bytes are more than the {part.bytes_in} of the plan; a later run takes them"
            )
            made = refused(made, "max_bytes", why)
        harvest = Harvest()
        (plan,) = _surveyed(self.storage, self.ground, [made], harvest, None, _unwatched, None)
        new = refit(self.ground, self.plan, plan, harvest)
        if new.action is Action.COMPACT and not is_within(new, part):
            raise StalePlanError(
                "what lies here now is not what was planned to be compacted",
                path=self.storage.display(listing.root),
                hint="Run the command again; it plans anew.",
            )
        return new


def decide(
    storage: Storage,
    root: str,
    locations: Sequence[Location],
    view: TableView,
    request: CompactionRequest,
    *,
    progress: Callable[[int, int | None], None] = _unwatched,
    foreseen: Callable[[int], None] = _unforeseen,
    limit: TimeLimit | None = None,
) -> Decision:
    """The plan of a whole run over the locations of the table at `root`; opens each file that it concerns once.

    Partitions come in the order of `locations`, stray ones are left out. `progress` is told how many files are
    done of how many, and `foreseen`, before the first is opened, how many bytes there are. Partitions whose turn does
    not come within half of the time that `limit` leaves are left for a later run; where not all may have their turn,
    those with the most directories to merge have it first. What is wrong with one of several partitions makes that one
    REFUSED; with a single location it is raised: NotEnoughHistoryError, DamagedDataError, StorageError. UsageError: no
    lists and nothing assumed, or options that contradict each other or the table.
    """
    places = [location for location in locations if not location.stray]
    listings = [location.listing for location in places]
    facts = storage.facts
    ground = settle(view, request, listings, renames=facts.atomic_rename, locks=facts.exclusive_create)
    alone = len(places) == 1
    drafts = [_drafted(ground, location, root, alone) for location in places]
    order = list(range(len(drafts)))
    if request.bounded or limit is not None:
        order.sort(key=lambda place: -len(drafts[place].consumed))
    chosen = _bounded([drafts[place] for place in order], request)
    bytes_in = sum(item.plan.bytes_in for item in chosen if item.compacts)
    if bytes_in:
        foreseen(bytes_in)
    harvest = Harvest()
    stop = None if limit is None else limit.planning()
    reach = None if alone else Reach(storage, root)
    made = dict(zip(order, _surveyed(storage, ground, chosen, harvest, reach, progress, stop), strict=True))
    plans = [made[place] for place in range(len(drafts))]
    notes = [
        f"Data lies beside partition folders in {location.partition or 'the table itself'} and is left as it is; Hive "
        "reads partitions only."
        for location in locations
        if location.stray
    ]
    notes += [note for location in places for note in link_notes(location)]
    plan = finish(ground, storage.display(root), plans, harvest, notes)
    if not request.bounded and limit is None:
        # Else what a name stands for may lie in a partition that a later run takes.
        check_dropped(ground, plan, harvest)
    return Decision(storage, ground, plan)


def _drafted(ground: Ground, location: Location, root: str, alone: bool) -> Draft:
    listing = location.listing
    path = listing.root.removeprefix(root.rstrip("/")).strip("/") if listing.root != root else ""
    try:
        made = draft(ground, location.partition, path, listing)
        found = obstacle(listing) if made.compacts else None
        if found is None:
            return made
        if not found.damaged:
            return refused(made, "symbolic_link", f"{found.message}. {found.hint.rstrip('.')}")
        raise DamagedDataError(found.message, path=listing.root, hint=found.hint)
    except AcidctlError as error:
        if alone:
            raise
        blank = PartitionPlan(location.partition, path, Action.NOTHING_TO_DO)
        return Draft(_failed(blank, error), listing.root)


def _bounded(drafts: Sequence[Draft], request: CompactionRequest) -> list[Draft]:
    """Leave for a later run what goes beyond the bounds; a smaller partition behind it still has its turn."""
    max_bytes, kept = request.max_bytes, []
    bytes_left, count_left = max_bytes or 0, request.max_partitions
    for item in drafts:
        if not item.compacts:
            kept.append(item)
            continue
        size = item.plan.bytes_in
        if max_bytes is not None and size > bytes_left:
            why = (
                f"its {size} bytes are more than --max-bytes allows"
                if size > max_bytes
                else f"its {size} bytes go beyond --max-bytes {max_bytes}; a later run takes them"
            )
            kept.append(refused(item, "max_bytes", why))
            continue
        if count_left == 0:
            why = f"it goes beyond --max-partitions {request.max_partitions}; a later run takes it"
            kept.append(refused(item, "max_partitions", why))
            continue
        bytes_left -= size
        count_left = None if count_left is None else count_left - 1
        kept.append(item)
    return kept


@dataclass(slots=True)
class _Part:
    """One draft while its files come in."""

    draft: Draft
    files: list[InputFile] = field(default_factory=list)
    error: AcidctlError | None = None


def _surveyed(
    storage: Storage,
    ground: Ground,
    drafts: Sequence[Draft],
    harvest: Harvest,
    reach: Reach | None,
    progress: Callable[[int, int | None], None],
    stop: Callable[[], bool] | None,
) -> Iterator[PartitionPlan]:
    """The plans in the order of the drafts; what is known of files is let go with each partition.

    Without `reach` what is wrong with a partition is raised, as it is where the storage gives nothing of any.
    """
    # Arrow comes along, so that what is foreseen can be told first.
    from acidctl.compaction.footer_facts import looks

    total = sum(_file_count(item) for item in drafts)
    done = 0
    progress(done, total)

    def work() -> Iterator[tuple[Draft, Look | None]]:
        begun = False
        for item in drafts:
            # One at least, so that run after run gets somewhere.
            if item.compacts and begun and stop is not None and stop():
                why = "--max-runtime left no time to look into its files; a later run takes it"
                yield refused(item, MAX_RUNTIME, why), None
                continue
            if item.compacts and reach is not None and reach.stopped:
                why = "it was not begun, because the storage has stopped answering; a later run takes it"
                yield refused(item, UNREACHABLE, why), None
                continue
            yield item, None
            if item.compacts:
                begun = True
                yield from ((item, look) for look in looks(storage, item))

    part: _Part | None = None
    for item, result in ordered_map(_attempt, work(), workers=_WORKERS):
        if result is None:
            if part is not None:
                yield _finished(ground, part, harvest, reach)
            part = _Part(item)
            continue
        assert part is not None
        if isinstance(result, InputFile):
            part.files.append(result)
        else:
            part.error = part.error or result
        done += 1
        progress(done, total)
    if part is not None:
        yield _finished(ground, part, harvest, reach)


def _attempt(work: tuple[Draft, Look | None]) -> tuple[Draft, InputFile | AcidctlError | None]:
    item, look = work
    if look is None:
        return item, None
    try:
        return item, look()
    except AcidctlError as error:
        return item, error


def _finished(ground: Ground, part: _Part, harvest: Harvest, reach: Reach | None) -> PartitionPlan:
    plan = part.draft.plan
    if not part.draft.compacts:
        return plan
    if part.error is not None:
        if reach is not None:
            reach.heed(plan.path, part.error)
        if reach is None or reach.gone or (reach.stopped and not reach.heard):
            raise part.error
        return _failed(plan, part.error)
    if reach is not None and part.files:
        reach.answered()
    made = finish_partition(ground, part.draft, part.files)
    if made.action is not Action.COMPACT:
        return made
    problem = harvest.add(plan.path, part.files)
    return made if problem is None else refuse(plan, *problem)


def _failed(plan: PartitionPlan, error: AcidctlError) -> PartitionPlan:
    return replace(refuse(plan, error.code, error.message), failed=True)


def _file_count(item: Draft) -> int:
    if not item.compacts or item.state is None:
        return 0
    insert_only = item.state.insert_only
    return sum(f.has_rows for entry in item.consumed for f in data_files(entry, insert_only=insert_only))
