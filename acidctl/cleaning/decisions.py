"""Which entries of one location no reader can reach, before anything is opened: a reader's selection turned round.

A reader takes the newest base and the deltas beyond it; what it never takes, whatever it may see *in addition* to
the common snapshot of all readers, may go. So an entry counts against another only when every reader sees it (bases
that every reader can use, deltas none of whose ids is open), a cover has to contain what it covers, and whatever is not
understood is left where it is. An entry younger than the retention is neither removed nor a cover (guard G6).

These rules are narrower than the question that `state.equivalence` answers, and the plan asks that one as well: it
accepts what the rules remove, but it would also accept some of what they keep (see docs/architecture.md). Takes values
and returns values: no clock, no storage; the guards are in `plan`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from enum import Enum
from itertools import takewhile
from typing import NamedTuple

from acidctl.format.listing import FileInfo, Listing
from acidctl.format.names import (
    FAILED_NAME,
    METADATA_MARKER,
    REMOVED_NAME,
    UNION_SUBDIRECTORY,
    WORK_PREFIX,
    BaseDir,
    BucketFile,
    DeltaDir,
    DeltaKind,
    OriginalFile,
    WriteIdRange,
    is_hidden,
    is_journal,
    parse_directory,
    parse_file,
)
from acidctl.format.write_ids import Reader, ValidWriteIds
from acidctl.options import RETENTION
from acidctl.state.entries import (
    ORIGINALS_NAME,
    Directory,
    EntryKind,
    EntryState,
    Inventory,
    MarkerContent,
    StateEntry,
    TableType,
    Verdict,
    aborted_delta,
    covered_by_base,
    covered_by_deltas,
    degenerate_delta,
    delete_delta_in_insert_only,
    judge_compacted,
    judge_originals,
    judge_overwrite,
    judge_visibility,
    same_ids_as_base,
    span,
)
from acidctl.state.inventory import take_inventory
from acidctl.state.journal import is_unowned, journals_of, standing_of
from acidctl.state.resolve import TableGuess
from acidctl.state.selection import delta_order
from acidctl.values import dataclass

# A Hive worker that has not reported for a day is dead (hive.compactor.worker.timeout).
HIVE_TIMEOUT = 24 * 3600.0
_HIVE_PREFIXES = ("_tmp_", ".hive-staging", "_tmp.", "_task_tmp.")


class Label(Enum):
    """KEEP: some reader needs it. DELETE: none can reach it. IGNORE: left alone, and covers nothing."""

    KEEP = "keep"
    DELETE = "delete"
    IGNORE = "ignore"


@dataclass(frozen=True, slots=True)
class Decision:
    """What becomes of an entry: a stable code, one sentence, and the entries that cause it."""

    label: Label
    reason_code: str
    reason: str
    because_of: tuple[str, ...] = ()

    @classmethod
    def by(cls, verdict: Verdict | StateEntry, label: Label) -> Decision:
        """The decision that follows from a reader's verdict."""
        return cls(label, verdict.reason_code, verdict.reason, verdict.because_of)


WITHHELD = Decision(Label.IGNORE, "withheld", "is neither removed nor counted as a cover")


# --- bases, deltas and originals -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Classification:
    """Decisions by entry name. `best` is the base that covers; `decided` are deltas that every reader judges alike.

    `undecided` are deltas that readers see differently (open ids, ids above the watermark); they cover nothing and
    stay.
    """

    decisions: Mapping[str, Decision]
    best: Directory | None
    decided: tuple[Directory, ...]
    undecided: tuple[Directory, ...]

    @property
    def victims(self) -> tuple[str, ...]:
        """Names of the entries that may go."""
        return tuple(name for name, decision in self.decisions.items() if decision.label is Label.DELETE)

    @property
    def causes(self) -> set[str]:
        """Names of the entries because of which others may go."""
        return {cause for name in self.victims for cause in self.decisions[name].because_of}


def classify(inventory: Inventory, common: Reader, kind: TableGuess, withheld: Collection[str] = ()) -> Classification:
    """Decide about every base, every delta and the original files; what is `withheld` neither goes nor covers."""
    decisions: dict[str, Decision] = {}

    def decide(name: str, decision: Decision) -> None:
        decisions[name] = WITHHELD if name in withheld and decision.label is Label.DELETE else decision

    bases = []
    for base in inventory.bases:
        decision = _judge_visibility(base, common) or _judge_base(base, common.effective_write_ids, kind)
        if decision is not None:
            decide(base.name, decision)
        elif base.name in withheld:
            decisions[base.name] = WITHHELD
        else:
            bases.append(base)
    best = max(bases, key=lambda b: (b.base.write_id, _compacted(b, kind), b.visibility_txn_id or 0), default=None)
    if best is not None:
        decisions |= {base.name: _decide_base(base, best, kind) for base in bases}
    elif any(_compacted(base, kind) for base in inventory.bases):
        _keep_masks(decisions)
    if inventory.group_files:
        decide(ORIGINALS_NAME, _decide_originals(inventory, best, kind))
    decided: list[Directory] = []
    undecided: list[Directory] = []
    for delta in inventory.deltas:
        decision = _judge_delta(delta, common, kind)
        if decision is None:
            decided.append(delta)
            continue
        decide(delta.name, decision)
        if decision.reason_code in ("write_open", "above_watermark"):
            undecided.append(delta)
    _decide_deltas([delta for delta in decided if delta.name not in withheld], best, decisions)
    for delta in decided:
        decisions.setdefault(delta.name, WITHHELD)
    return Classification(decisions, best, tuple(decided), tuple(undecided))


def _judge_visibility(directory: Directory, common: Reader) -> Decision | None:
    txn = directory.visibility_txn_id
    if txn is None or directory.parsed is None:
        return None
    if common.txns is None:
        why = f"made by compaction transaction {txn}, of which nothing is known without a transaction list"
        return Decision(Label.IGNORE, "no_txn_list", why)
    unseen = judge_visibility(directory.parsed, common.txns)
    if unseen is None:
        return None
    # Only a list may call a compaction aborted: one that is merely not visible may still be running.
    return Decision.by(unseen, Label.DELETE if unseen.state is EntryState.ABORTED else Label.IGNORE)


def _judge_base(base: Directory, ids: ValidWriteIds, kind: TableGuess) -> Decision | None:
    """The decision on a base that some reader cannot use."""
    parsed = base.base
    if base.is_first_compaction:
        return None
    if base.marker in (MarkerContent.BAD, MarkerContent.UNREAD) and parsed.visibility_txn_id is None:
        problem = base.marker_problem or "could not be read"
        why = f"its _metadata_acid {problem}, so acidctl cannot tell what made it"
        return Decision(Label.IGNORE, "bad_marker", why)
    if parsed.write_id < 0:
        return Decision(Label.IGNORE, "bad_name", "no write has a negative id")
    if _compacted(base, kind):
        verdict = judge_compacted(parsed, ids)
        if verdict is None and kind.acid_v1 and not base.is_compacted and ids.is_aborted(parsed.write_id):
            # Hive 1 and 2 mark nothing. Should a later Hive have written this, then its overwrite was aborted.
            return Decision(Label.IGNORE, "write_aborted", f"write id {parsed.write_id} was aborted")
        return None if verdict is None else Decision.by(verdict, Label.IGNORE)
    verdict = judge_overwrite(parsed, ids)
    if verdict is None:
        return None
    if verdict.state is not EntryState.ABORTED:
        return Decision.by(verdict, Label.IGNORE)
    if ids.lowest_open is not None and ids.lowest_open <= parsed.write_id:
        # HIVE-22754: Hive 4 reads an overwrite that is the lowest open id of its snapshot, committed or not.
        why = f"{verdict.reason}, but Hive 4 reads it for a reader whose lowest open id it is"
        return Decision(Label.IGNORE, "lowest_open", why)
    return Decision.by(verdict, Label.DELETE)


def _decide_base(base: Directory, best: Directory, kind: TableGuess) -> Decision:
    if base is best:
        return Decision(Label.KEEP, "base", "the newest base that every reader can use")
    if base.base.write_id != best.base.write_id:
        return Decision.by(covered_by_base("", best), Label.DELETE)
    if _compacted(base, kind) and _compacted(best, kind):
        why = f"{best.name} is a compaction of the same writes, and readers take either"
        return Decision(Label.KEEP, "tie", why)
    return Decision.by(same_ids_as_base(best), Label.DELETE)


def _keep_masks(decisions: dict[str, Decision]) -> None:
    """Keep aborted overwrites below a compacted base that some readers cannot use, where no base serves all of them.

    Hive 4 reports missing history when the *oldest* base is a compacted one; an aborted overwrite below it keeps
    readers that still find every delta from failing.
    """
    for name, decision in decisions.items():
        if decision.label is Label.DELETE and decision.reason_code == "write_aborted":
            why = f"{decision.reason}, but without it Hive 4 may refuse to read here (not enough history)"
            decisions[name] = Decision(Label.KEEP, "masks_history", why)


def _decide_originals(inventory: Inventory, best: Directory | None, kind: TableGuess) -> Decision:
    if kind.type is TableType.INSERT_ONLY:
        return Decision.by(judge_originals(None, True), Label.IGNORE)
    if best is None:
        return Decision.by(judge_originals(None, False), Label.KEEP)
    if any("/" in entry.name for entry in inventory.decided):
        return Decision(Label.IGNORE, "nested", "base or delta directories lie among them")
    return Decision.by(judge_originals(best, False), Label.DELETE)


def _judge_delta(directory: Directory, common: Reader, kind: TableGuess) -> Decision | None:
    """The decision on a delta that readers do not all see alike; None where every id is decided and one committed."""
    delta, ids = directory.delta, common.effective_write_ids
    low, high = delta.min_write_id, delta.max_write_id
    if delta.range.is_empty:
        return Decision(Label.IGNORE, "bad_range", degenerate_delta(delta).reason)
    if kind.type is TableType.INSERT_ONLY and delta.kind is DeltaKind.DELETE:
        return Decision.by(delete_delta_in_insert_only(), Label.IGNORE)
    unseen = _judge_visibility(directory, common)
    if unseen is not None:
        return unseen
    if high <= ids.high_watermark and len(ids.aborted_in(low, high)) == high - low + 1:
        return Decision.by(aborted_delta(delta), Label.DELETE)
    if high > ids.high_watermark:
        rest = f"{high} is" if low == high else f"it reaches to {high},"
        why = f"{rest} above {ids.high_watermark}, the last write id of this snapshot"
        return Decision(Label.IGNORE, "above_watermark", why)
    open_ids, lowest = ids.open_in(low, high), ids.min_open
    # The list may name a lowest open id here that it does not enumerate.
    named_only = lowest is not None and lowest in delta.range and not ids.is_aborted(lowest)
    if open_ids or named_only:
        first = open_ids[0] if open_ids else lowest
        return Decision(Label.IGNORE, "write_open", f"write id {first} is still open for some reader")
    return None


def _decide_deltas(deltas: Iterable[Directory], best: Directory | None, decisions: dict[str, Decision]) -> None:
    """Hive's walk over deltas (findBestWorkingDeltas) with a stricter notion of what is covered.

    The order decides, as in `state.selection`: the widest first, so that a cover comes before what it covers.
    """
    floor = best.base.write_id if best is not None else 0
    current = max(floor, 0)
    covers: list[Directory] = []
    for directory in sorted(deltas, key=delta_order):
        delta = directory.delta
        if delta.max_write_id > current or _is_twin(delta, covers):
            decisions[directory.name] = Decision(Label.KEEP, "visible", f"readers need {span(delta.range)}")
            covers.append(directory)
            current = max(current, delta.max_write_id)
        elif best is not None and delta.max_write_id <= floor:
            decisions[directory.name] = Decision.by(covered_by_base("", best), Label.DELETE)
        else:
            wider = []
            for cover in reversed(covers):
                # Chosen deltas reach ever farther, so those that reach far enough are the last ones.
                if cover.delta.max_write_id < delta.max_write_id:
                    break
                wider += [cover] if contains(cover.delta, delta) else []
            why = f"readers pass over {span(delta.range)}, but no entry holds all of it"
            decisions[directory.name] = Decision(Label.KEEP, "no_cover", why)
            if wider:
                verdict = covered_by_deltas(sorted(c.name for c in wider), wider[-1].delta)
                decisions[directory.name] = Decision.by(verdict, Label.DELETE)


def contains(cover: DeltaDir, delta: DeltaDir) -> bool:
    """Whether `cover` has the form of compactor output, and holds the range of `delta` without being its sibling."""
    return (
        cover.statement_id is None
        and cover.range.covers(delta.range)
        and (cover.range, cover.statement_id) != (delta.range, delta.statement_id)
    )


def _is_twin(delta: DeltaDir, covers: list[Directory]) -> bool:
    """Whether a chosen delta has the same range: the other kind, or another statement of the same write."""
    # Equal ranges stand together in the order, so only the last ones can match.
    for other in takewhile(lambda c: c.delta.range == delta.range, reversed(covers)):
        statement = other.delta.statement_id
        if statement == delta.statement_id or (statement is not None and delta.statement_id is not None):
            return True
    return False


def _compacted(base: Directory, kind: TableGuess) -> bool:
    """Whether a compaction made the base; in ACID v1 nothing else makes any."""
    return base.is_compacted or base.is_first_compaction or kind.acid_v1


def overwrites(seen: Survey) -> dict[int, Directory | None]:
    """By write id the bases of overwrites and truncations that every reader sees: what was there before them is gone.

    None for a base that lies in the work directory of a cleaner that was stopped, which takes bases away first.
    """
    common, ids = seen.common, seen.common.effective_write_ids
    found: dict[int, Directory | None] = {}
    marked = {info.directory for info in seen.listing.files if info.name == METADATA_MARKER}
    for path in seen.listing.directories if not seen.kind.acid_v1 else ():
        work, _, inner = path.partition(f"/{REMOVED_NAME}/")
        parsed = parse_directory(inner)
        if not (work.startswith(WORK_PREFIX) and isinstance(parsed, BaseDir)) or path in marked:
            continue
        if parsed.visibility_txn_id is None and ids.is_valid(parsed.write_id):
            found[parsed.write_id] = None
    for base in seen.inventory.bases:
        visible = _judge_visibility(base, common) is None and _judge_base(base, ids, seen.kind) is None
        if visible and not _compacted(base, seen.kind):
            found[base.base.write_id] = base
    return found


def is_replaced(directory: Directory, floor: int | None) -> bool:
    """Whether an overwrite of that write id took the place of a base, a delta or the original files."""
    if floor is None:
        return False
    if directory.kind is EntryKind.BASE:
        return directory.base.write_id < floor
    return directory.parsed is None or directory.delta.max_write_id <= floor


# --- what dead or failed runs have left ----------------------------------------------------------------------------


class Leftover(NamedTuple):
    """A hidden entry that may go by its age; `at_least` is the lowest age in seconds, None for those that stay.

    It holds no data, is hidden from every reader, and is in the way. `at_once`: nobody can need it any more, however
    young it is.
    """

    reason_code: str
    reason: str
    at_least: float | None = 0.0
    at_once: bool = False

    def decide(self, modified: float | None, rules: Rules) -> Decision:
        """What becomes of it."""
        if self.at_least is None:
            return Decision(Label.IGNORE, self.reason_code, self.reason)
        old = modified is not None and rules.now - modified >= max(rules.older_than or 0.0, self.at_least)
        if rules.older_than is None or self.at_once or old:
            return Decision(Label.DELETE, self.reason_code, self.reason)
        code = "too_young" if modified is not None else "age_unknown"
        return Decision(Label.IGNORE, code, f"{self.reason}, but younger than the retention")


def _leftover(entry: StateEntry, half: bool, dead: bool, linked: bool, asked: bool) -> Leftover | None:
    """What a hidden entry is that a dead or failed run may have left.

    A work directory of acidctl goes when it is marked as failed, or when its owner is known to have ended (`dead`). One
    that names no owner, and what Hive's queries left (`_tmp_*`, `.hive-staging*`), look like what a running one needs,
    so they go only when `asked`, by age. `half`: it is of a half published compaction. `linked`: it is a symbolic link
    or holds one; acidctl makes none, so that is not ours.
    """
    name, files = entry.name, entry.files
    if linked:
        why = f"{entry.reason}; holds a symbolic link, so it stays"
        return None if entry.reason_code == "foreign_link" else Leftover("holds_link", why, None)
    if name.startswith(_HIVE_PREFIXES):
        if asked:
            return Leftover("temporary", f"{entry.reason}, left behind", HIVE_TIMEOUT)
        return Leftover("temporary", f"{entry.reason}; --leftovers removes old ones", None)
    if not name.startswith(WORK_PREFIX):
        return None
    if half:
        return Leftover("half_published", "a compaction that `acidctl compact` has to complete or undo", None)
    if any(info.path == f"{name}/{FAILED_NAME}" for info in files):
        return Leftover("work_failed", "work directory of a compaction that failed; kept as evidence")
    if dead:
        return Leftover("work_dead", "left by an acidctl run that has died", at_once=True)
    if not is_unowned(name, files):
        return Leftover("work", "work directory of an acidctl run that may still be working", None)
    # Whoever removes it holds the lock; a run that has lost its own publishes nothing.
    why = "work directory that names no owner"
    if asked:
        return Leftover("work_unowned", f"{why}, left behind", HIVE_TIMEOUT)
    return Leftover("work_unowned", f"{why}; --leftovers removes old ones", None)


def half_published(listing: Listing) -> frozenset[str]:
    """Work directories whose journal names outputs that are in place in part; an unread journal counts as such."""
    journals = journals_of(listing)
    half = {journal.work for journal in journals if standing_of(journal, listing).half}
    paths = [info.path for info in listing.files if is_journal(info.path)]
    unread = {path.partition("/")[0] for path in paths if path not in listing.markers}
    return frozenset(half | (unread - {journal.work for journal in journals}))


# --- one location: decisions and ages ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Rules:
    """What the user decides. `older_than` is in seconds, None for no retention at all; `now` in seconds since 1970.

    `highest_write_id` bounds the snapshot (guard G9). `leftovers` also removes what Hive's queries left behind.
    `no_cleanup` is what the DDL says, None when there was none; `table` is the table's name where it is known.
    """

    now: float
    older_than: float | None = RETENTION
    highest_write_id: int | None = None
    leftovers: bool = False
    no_cleanup: bool | None = None
    table: str | None = None

    def is_young(self, modified: float | None) -> bool:
        """Whether something of that time is withheld; an unknown age is no age."""
        return self.older_than is not None and (modified is None or self.now - modified < self.older_than)


@dataclass(frozen=True, slots=True)
class Survey:
    """One location as `clean` judges it; `common` is what every live reader sees.

    `entries` are all entries with what becomes of them and when they changed last, None where that is not known. `held`
    is how many of them the retention alone keeps. `covers` are the directories because of which something goes;
    `one_sided` are deltas under a minor compaction of which only the half of the other kind is there, so that they may
    go only if they hold nothing.
    """

    listing: Listing
    inventory: Inventory
    common: Reader
    kind: TableGuess
    rules: Rules
    chosen: Classification
    entries: tuple[tuple[Directory, Decision, float | None], ...]
    held: int
    covers: tuple[Directory, ...]
    one_sided: tuple[Directory, ...]

    @property
    def goes(self) -> bool:
        """Whether anything may go."""
        return any(decision.label is Label.DELETE for _, decision, _ in self.entries)

    @property
    def covered(self) -> tuple[Directory, ...]:
        """What may go because something else covers it."""
        return tuple(
            directory
            for directory, decision, _ in self.entries
            if decision.label is Label.DELETE and decision.because_of and directory.name in self.chosen.decisions
        )


def survey(
    listing: Listing,
    common: Reader,
    kind: TableGuess,
    rules: Rules,
    *,
    time_of: Callable[[str], float | None] = lambda name: None,
    dead: Collection[str] = (),
    any_name: bool = False,
) -> Survey:
    """Judge a listing. `time_of` is asked when directories by which something goes, or that go, changed themselves.

    `dead` names work directories whose owner is known to have ended. With `any_name` files that are not called as Hive
    calls original files count as such, as they do for Hive.
    """
    inventory, common = take_inventory(listing), _capped(common, rules.highest_write_id)
    halves, linked = half_published(listing), listing.linked_entries
    leftovers = {
        entry.name: found
        for entry in inventory.decided
        if (found := _leftover(entry, entry.name in halves, entry.name in dead, entry.name in linked, rules.leftovers))
    }
    directories = {entry.name: entry for entry in (*inventory.bases, *inventory.deltas)}
    foreign: tuple[Directory, ...] = ()
    if not any_name:
        inventory, foreign = _without_foreign(inventory, common, kind)
    judged = [*directories.values(), *([originals_of(inventory)] if inventory.group_files else ())]
    tops = {path for path in listing.directories if "/" not in path}
    times: dict[str, float | None] = {}

    def modified(entry: Directory) -> float | None:
        found = [info.modified for info in entry.files]
        # A rename into place leaves the times of the files alone, so the directory's own counts as well.
        known = [time for time in (*found, times.get(entry.name)) if time is not None]
        # A time that was reset tells nothing.
        return None if None in found or min(known, default=1) <= 0 else max(known, default=None)

    chosen = ageless = classify(inventory, common, kind)
    for _ in range(1 + len(tops)):
        wanted = ({*chosen.victims, *chosen.causes, *leftovers} & tops) - times.keys()
        times |= {name: time_of(name) for name in sorted(wanted)}
        young = frozenset(entry.name for entry in judged if rules.is_young(modified(entry)))
        chosen = classify(inventory, common, kind, young) if young else ageless
        if not wanted:
            break
    chosen = _with_needed_deletes(chosen, ageless, judged, kind)
    entries: list[tuple[Directory, Decision, float | None]] = [(entry, _FOREIGN, modified(entry)) for entry in foreign]
    for entry in (*judged, *inventory.decided):
        changed, leftover = modified(entry), leftovers.get(entry.name)
        if leftover is not None:
            decision = leftover.decide(changed, rules)
        elif isinstance(entry, StateEntry):
            decision = Decision.by(entry, Label.IGNORE)
        else:
            decision = _counted(chosen.decisions[entry.name], ageless.decisions[entry.name], changed, rules)
        entries.append((entry, decision, changed))
    covers = tuple(directories[name] for name in sorted(chosen.causes))
    one_sided = tuple(_one_sided(covers, chosen.decided))
    held = len(set(ageless.victims) - set(chosen.victims))
    return Survey(listing, inventory, common, kind, rules, chosen, tuple(entries), held, covers, one_sided)


def _without_foreign(inventory: Inventory, common: Reader, kind: TableGuess) -> tuple[Inventory, tuple[Directory, ...]]:
    """An inventory without those original files that Hive would not have called so, where a base covers them all.

    For Hive every file beside a base is an original one, whatever its name. But it makes a table transactional only if
    all its files are called `000000_0` or so (HIVE-16722), so that no base can hold rows of others: they are
    notes, or a directory that was renamed so as to be kept.
    """
    files: dict[str, list[FileInfo]] = {}
    for info in inventory.group_files:
        files.setdefault(info.path.partition("/")[0], []).append(info)
    foreign = {top: infos for top, infos in files.items() if not all(map(is_own_original, infos))}
    decided = classify(inventory, common, kind).decisions.get(ORIGINALS_NAME) if foreign else None
    if decided is None or decided.label is not Label.DELETE:
        return inventory, ()
    own = tuple(info for info in inventory.group_files if info.path.partition("/")[0] not in foreign)
    kept = tuple(Directory(top, None, tuple(infos)) for top, infos in foreign.items())
    return replace(inventory, group_files=own), kept


def is_own_original(info: FileInfo) -> bool:
    """Whether Hive gives such a name to a file that becomes an original one, or hides it."""
    *parents, name = info.path.split("/")
    if any(is_hidden(part) for part in (*parents, name)):
        return True
    named = isinstance(parse_file(name), OriginalFile | BucketFile)
    return named and all(parent.startswith(UNION_SUBDIRECTORY) for parent in parents)


_FOREIGN = Decision(
    Label.IGNORE, "foreign_name", "no original file of Hive is called so, so that nothing shows that a base holds it"
)


def _with_needed_deletes(
    chosen: Classification, ageless: Classification, judged: Iterable[Directory], kind: TableGuess
) -> Classification:
    """The decisions, less the removal of deletes below a base that concern rows which the retention keeps beside it.

    A later run could not tell any more that these rows, which the base lacks, were deleted.
    """
    held = {name for name in ageless.victims if chosen.decisions[name].label is not Label.DELETE}
    directories = {entry.name: entry for entry in judged}
    rows = [entry for name in held if (entry := directories[name]).kind is not EntryKind.DELETE_DELTA]
    if not rows:
        return chosen
    needed: dict[str, Decision] = {}
    for name in chosen.victims:
        entry, decision = directories[name], chosen.decisions[name]
        deletes = entry.kind is EntryKind.DELETE_DELTA or (kind.acid_v1 and entry.kind is EntryKind.DELTA)
        if not deletes or decision.reason_code != "covered_by_base":
            continue
        kept = next((row for row in rows if _may_delete(entry.delta, row)), None)
        if kept is not None:
            why = f"{decision.reason}, but {kept.name} stays, and this deletes rows of it"
            needed[name] = Decision(Label.IGNORE, "deletes_needed", why, decision.because_of)
    return replace(chosen, decisions={**chosen.decisions, **needed}) if needed else chosen


def _may_delete(deletes: DeltaDir, rows: Directory) -> bool:
    """Whether events of a delta may delete rows of a base, of another delta, or of the original files."""
    if rows.kind is EntryKind.BASE:
        return deletes.max_write_id > rows.base.write_id
    return rows.parsed is None or deletes.max_write_id >= rows.delta.min_write_id


def _counted(chosen: Decision, ageless: Decision, modified: float | None, rules: Rules) -> Decision:
    """The decision that counts, in words that say so where only the retention keeps an entry."""
    if chosen.label is Label.DELETE or chosen.reason_code == "deletes_needed":
        return chosen
    if ageless.label is not Label.DELETE:
        return ageless
    code, why = "too_young", "but younger than the retention"
    if not rules.is_young(modified):
        code, why = "cover_too_young", "but that is younger than the retention"
    elif modified is None:
        code, why = "age_unknown", "but its age is not known"
    return Decision(Label.IGNORE, code, f"{ageless.reason}, {why}", ageless.because_of)


def originals_of(inventory: Inventory) -> Directory:
    """All original files of a location as one entry."""
    return Directory(ORIGINALS_NAME, None, inventory.group_files)


def _capped(common: Reader, highest: int | None) -> Reader:
    ids = common.effective_write_ids
    if highest is None or highest >= ids.high_watermark:
        return common
    open_ids = tuple(i for i in ids.open if i <= highest)
    aborted = tuple(i for i in ids.aborted if i <= highest)
    return replace(common, write_ids=replace(ids, high_watermark=highest, open=open_ids, aborted=aborted))


def _one_sided(covers: Iterable[Directory], decided: Iterable[Directory]) -> Iterator[Directory]:
    """Deltas inside a covering delta that has no twin of their kind."""
    decided = tuple(decided)
    held: dict[WriteIdRange, set[DeltaKind]] = {}
    for directory in decided:
        if directory.delta.statement_id is None:
            held.setdefault(directory.delta.range, set()).add(directory.delta.kind)
    wide = [(c.delta, held.get(c.delta.range, set())) for c in covers if isinstance(c.parsed, DeltaDir)]
    lacking = [(cover, kinds) for cover, kinds in wide if len(kinds) < len(DeltaKind)]
    for directory in decided:
        if any(directory.delta.kind not in kinds and contains(cover, directory.delta) for cover, kinds in lacking):
            yield directory
