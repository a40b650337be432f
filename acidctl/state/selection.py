"""Which bases and deltas a reader opens: profile strict, by careful rules, and profile hive4, as Hive 4.0 itself.

Strict differs from Hive 4 (AcidUtils.getAcidState) on purpose: no `N <= minOpen` shortcut for bases (HIVE-22754 lets an
uncommitted overwrite through), missing history is an error whenever a compacted base had to be passed over, and of two
compactions of the same range the later one counts. No name raises an error.

Both profiles choose deltas by the same walk (findBestWorkingDeltas). The order of its sort decides everything: lowest
first id, then the WIDEST, then the statement, so that a compacted delta comes before what it covers:

    delta_1_5_v10  delta_1_1_0000  delta_5_5_0000  delta_6_6_0000
    taken          covered         covered         taken

Changing it makes a reader skip data or read it twice.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import field, replace
from typing import NamedTuple

from acidctl.findings import Finding
from acidctl.format.listing import FileInfo, Listing
from acidctl.format.names import (
    ACID_PREFIXES,
    BASE_PREFIX,
    METADATA_MARKER,
    MIN_LONG,
    VERSION_MARKER,
    BaseDir,
    DeltaDir,
    DeltaKind,
    WriteIdRange,
    is_hidden_to_hive,
    is_marker,
    parse_directory,
    path_order_key,
)
from acidctl.format.write_ids import RangeAnswer, Reader, ValidTxns, ValidWriteIds, describe_ids
from acidctl.state.entries import (
    Directory,
    EntryState,
    HistoryGap,
    HiveFailureError,
    Inventory,
    MarkerContent,
    MissingTxnListError,
    Verdict,
    aborted_delta,
    covered_by_base,
    covered_by_deltas,
    degenerate_delta,
    delete_delta_in_insert_only,
    join_names,
    judge_compacted,
    judge_overwrite,
    judge_visibility,
    same_ids_as_base,
    span,
)
from acidctl.state.inventory import read_marker
from acidctl.state.journal import disbelief, journals_of, missing_inputs, standing_of
from acidctl.values import dataclass


@dataclass(slots=True)
class Selection:
    """What was decided: what is read, verdicts on bases and deltas, and side results.

    `considered` are the directories that Hive 4 lists as bases and deltas, `failures` what it fails on; both are empty
    in profile strict, which considers the whole inventory.
    """

    base: Directory | None = None
    deltas: list[Directory] = field(default_factory=list)
    originals: list[FileInfo] = field(default_factory=list)
    verdicts: dict[str, Verdict] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    doubts: list[Finding] = field(default_factory=list)
    lonely: dict[str, Finding] = field(default_factory=dict)
    history_gap: HistoryGap | None = None
    considered: dict[str, Directory] = field(default_factory=dict)
    failures: list[HiveFailureError | MissingTxnListError] = field(default_factory=list)


# --- deltas, in both profiles


class _Choice(NamedTuple):
    """What became of one admitted delta.

    `covered` is True for one that lies inside what is read already; neither taken nor covered is one whose rest is not
    visible. `cover` are the deltas it was measured against, empty for the base; `covered_to` is how far those reach.
    """

    directory: Directory
    taken: bool
    covered: bool
    cover: tuple[Directory, ...]
    covered_to: int


def delta_order(directory: Directory) -> tuple[int, int, int, bytes]:
    """Sort key of the selection order: first id up, last id down, statement up (none first), then the path."""
    delta = directory.delta
    statement = -1 if delta.statement_id is None else delta.statement_id
    return delta.min_write_id, -delta.max_write_id, statement, path_order_key(directory.name)


def _choose_deltas(
    admitted: Iterable[Directory], selection: Selection, ids: ValidWriteIds, *, insert_only: bool = False
) -> list[_Choice]:
    """Walk the admitted deltas in selection order; they count from the base's write id on, without a base from 1."""
    choices: list[_Choice] = []
    current = 0 if selection.base is None else selection.base.base.write_id
    group: list[Directory] = []
    previous: DeltaDir | None = None
    last_statement: int | None = None
    for directory in sorted(admitted, key=delta_order):
        delta = directory.delta
        cover = tuple(group)
        if delta.max_write_id > current:
            taken = ids.is_range_valid(current + 1, delta.max_write_id) is not RangeAnswer.NONE
            choices.append(_Choice(directory, taken, False, cover, current))
            if taken:
                current, last_statement, previous = delta.max_write_id, delta.statement_id, delta
                group = [directory]
            continue
        # Other statements of the same transaction, and the other kind of the same statement; Hive does not
        # compare where they begin.
        sibling = delta.max_write_id == current and last_statement is not None
        # The other kind of one compaction: equal numbers, and no statement to tell them apart.
        twin = previous is not None and (delta.range, delta.statement_id) == (previous.range, previous.statement_id)
        choices.append(_Choice(directory, sibling or twin, not (sibling or twin), cover, current))
        if sibling or twin:
            previous = delta
            group.append(directory)
    for choice in choices:
        selection.verdicts[choice.directory.name] = _verdict_on(choice, selection.base, ids, insert_only)
    selection.deltas = [choice.directory for choice in choices if choice.taken]
    return choices


def _verdict_on(choice: _Choice, base: Directory | None, ids: ValidWriteIds, insert_only: bool) -> Verdict:
    delta = choice.directory.delta
    if choice.taken:
        return _live_delta(delta.range, ids, insert_only)
    cover = tuple(directory.name for directory in choice.cover)
    if not choice.covered:
        by = cover or (() if base is None else (base.name,))
        before = f"its write ids up to {choice.covered_to} are covered by {join_names(by)}, and of the rest "
        rest = WriteIdRange(max(choice.covered_to + 1, delta.min_write_id), delta.max_write_id)
        verdict = _unseen(rest, ids, before if by else "")
        return verdict._replace(reason_code=f"rest_{verdict.reason_code}", because_of=by)
    if cover:
        return covered_by_deltas(cover, choice.cover[0].delta)
    if base is not None:
        return covered_by_base("", base)
    why = f"{span(delta.range)} is never read: writes begin at 1"
    return Verdict(EntryState.OBSOLETE, "below_first_write_id", why)


def _live_delta(own: WriteIdRange, ids: ValidWriteIds, insert_only: bool) -> Verdict:
    """Why a delta is read, and which of its ids are left out row by row.

    Rows of an insert-only table carry no write id, so there a directory is read whole or not at all.
    """
    if own.is_empty or ids.covers(own.min, own.max):
        return Verdict(EntryState.LIVE, "visible", f"{span(own)} {'is' if own.min == own.max else 'are'} visible")
    rest = "but the directory is read whole" if insert_only else "whose rows are left out"
    return Verdict(EntryState.LIVE, "partly_visible", f"{span(own)} are visible except {_invalid(own, ids)}, {rest}")


def _unseen(rest: WriteIdRange, ids: ValidWriteIds, before: str = "") -> Verdict:
    """The verdict on a delta none of whose write ids, or of the rest of them, is valid."""
    limit = ids.high_watermark
    verb = "is" if rest.min == rest.max else "are"
    if rest.min > limit:
        why = f"{before}{span(rest)} {verb} above this reader's high watermark {limit}"
        return Verdict(EntryState.ABOVE_WATERMARK, "above_watermark", why)
    open_ids = ids.open_in(rest.min, min(rest.max, limit))
    if open_ids and len(open_ids) == rest.max - rest.min + 1:
        return Verdict(EntryState.OPEN, "write_open", f"{before}{span(rest)} {verb} still open for this reader")
    if open_ids:
        state, code = EntryState.OPEN, "write_open"
    elif rest.max <= limit:
        state, code = EntryState.ABORTED, "write_aborted"
    else:
        state, code = EntryState.ABOVE_WATERMARK, "above_watermark"
    return Verdict(state, code, f"{before}no id is visible: {_invalid(rest, ids)}")


def _invalid(among: WriteIdRange, ids: ValidWriteIds) -> str:
    """`4 (aborted), 6..7 (open), 11..12 (above the high watermark)`."""
    limit = ids.high_watermark
    seen = (among.min, min(among.max, limit))
    pairs = ((ids.aborted_in(*seen), "aborted"), (ids.open_in(*seen), "open"))
    parts = [f"{describe_ids(found)} ({word})" for found, word in pairs if found]
    if among.max > limit:
        parts.append(f"{WriteIdRange(max(among.min, limit + 1), among.max)} (above the high watermark)")
    return ", ".join(parts)


def _live_base(base: Directory, compacted: bool) -> Verdict:
    write_id = base.base.write_id
    if base.is_first_compaction:
        why = "holds the original files as compacted before the first write"
    elif compacted:
        why = f"the newest base this reader can use: it holds all writes up to {write_id}"
    elif not any(file.size and not is_hidden_to_hive(file.name) for file in base.files):
        why = f"write id {write_id} emptied the table or overwrote it with nothing"
    else:
        why = f"write id {write_id} overwrote everything before it"
    return Verdict(EntryState.LIVE, "base", why)


def _id(base: Directory) -> int:
    return base.base.write_id


def _replaced_by(base: Directory, better: Directory) -> Verdict:
    return same_ids_as_base(better) if _id(base) == _id(better) else covered_by_base("", better)


# --- profile strict


def select_strict(
    listing: Listing, inventory: Inventory, reader: Reader, *, insert_only: bool, acid_v1: bool
) -> Selection:
    """Decide about every base and delta of an inventory by our own rules."""
    ids, txns = reader.effective_write_ids, reader.effective_txns
    selection = Selection(notes=list(inventory.notes))
    half_published = _judge_half_published(listing, ids, selection)
    published = without(inventory, half_published)
    bases = [_as_hive2(base, ids, selection) for base in published.bases] if acid_v1 else published.bases
    _choose_base(bases, ids, txns, selection)
    # What a later overwrite replaced is a cleaner's to remove; a snapshot from before may miss rows.
    later = [b.name for b in published.bases if selection.verdicts[b.name].state is EntryState.ABOVE_WATERMARK]
    if later:
        selection.notes.append(
            f"{join_names(later)} overwrote later what this snapshot reads; parts of it may have been cleaned "
            "already, which no listing can tell."
        )
    admitted = []
    for directory in published.deltas:
        verdict = _judge_delta(directory.delta, ids, txns, insert_only)
        if verdict is None:
            admitted.append(directory)
        else:
            selection.verdicts[directory.name] = verdict
    doubts: list[Finding] = []
    admitted = _drop_earlier_compactions(admitted, selection, doubts)
    choices = _choose_deltas(admitted, selection, ids, insert_only=insert_only)
    base = selection.base
    if insert_only and base is not None:
        # The kind may be guessed wrong; what lies below the base holds no rows that anybody misses either way.
        for directory in published.deltas:
            own = directory.delta.range
            if directory.delta.kind is DeltaKind.DELETE and not own.is_empty and base.base.range.covers(own):
                selection.verdicts[directory.name] = covered_by_base("", base)
    doubts += _overlap_doubts(choices, base)
    selection.lonely = _lonely_deltas(choices)
    if insert_only:
        for choice in choices:
            delta = choice.directory.delta
            if choice.taken and ids.open_in(delta.min_write_id, delta.max_write_id):
                selection.notes.append(
                    f"{delta.name} is read whole although some of its write ids are open for this "
                    "reader: rows of an insert-only table do not say which write made them."
                )
    elif base is None:
        selection.originals = [file for file in inventory.original_files if file.size]
    selection.notes += [one.sentence for one in (*doubts, *selection.lonely.values())]
    selection.doubts += doubts
    return selection


def without(inventory: Inventory, names: Collection[str]) -> Inventory:
    """An inventory less some bases and deltas."""
    if not names:
        return inventory
    return replace(
        inventory,
        bases=tuple(directory for directory in inventory.bases if directory.name not in names),
        deltas=tuple(directory for directory in inventory.deltas if directory.name not in names),
    )


def _judge_half_published(listing: Listing, ids: ValidWriteIds, selection: Selection) -> set[str]:
    """Outputs of which a part stands alone although a journal says that all were to be published together.

    Only a journal that is believed hides anything; one that is not leaves a doubt.
    """
    names: set[str] = set()
    for journal in journals_of(listing):
        standing = standing_of(journal, listing)
        if not standing.half:
            continue
        first, absent = standing.shown[0], standing.missing[0]
        not_so = disbelief(journal, listing, ids)
        if not_so is not None:
            why = (
                f"{journal.work} says that {first} is half of an interrupted compaction; it is read all the same, "
                f"because {not_so}."
            )
            selection.doubts.append(Finding("foreign_journal", why, first))
            continue
        gone = next(iter(missing_inputs(journal, listing)), None)
        if gone is not None:
            what = "is not whole" if absent.startswith(f"{first}/") else "is half of an interrupted compaction"
            why = (
                f"{first} {what}: {absent} was never published, and of their inputs {gone} is gone. Rows may be "
                "wrong; run `acidctl compact` to complete it."
            )
            selection.doubts.append(Finding("half_published", why, first))
            continue
        why = (
            f"half of an interrupted compaction: {absent} is not published yet, so their inputs are read; "
            "`acidctl compact` completes or undoes it"
        )
        verdict = Verdict(EntryState.NOT_VISIBLE, "half_published", why, (journal.work,))
        selection.verdicts.update(dict.fromkeys(journal.outputs, verdict))
        names.update(journal.outputs)
        selection.notes.append(
            f"A compaction was interrupted between {standing.there[-1]} and {absent}; acidctl reads its inputs, "
            "Hive would not. Run `acidctl compact` again to complete or undo it."
        )
    selection.notes += [one.sentence for one in selection.doubts]
    return names


def _as_hive2(base: Directory, ids: ValidWriteIds, selection: Selection) -> Directory:
    """A base of Hive 1 or 2 as what it is: a compaction, although nothing marks it so."""
    if base.is_compacted:
        return base
    if (judge_compacted(base.base, ids) is None) != ids.is_valid(_id(base)):
        selection.notes.append(
            f"{base.name} is treated as a compaction by Hive 1 or 2, which write no overwrites as bases; nothing "
            "here was marked by a later Hive."
        )
    return replace(base, marker=MarkerContent.COMPACTED)


def _choose_base(bases: Sequence[Directory], ids: ValidWriteIds, txns: ValidTxns, selection: Selection) -> None:
    usable: list[tuple[Directory, bool]] = []
    passed_over: list[Directory] = []
    for base in bases:
        unseen = judge_visibility(base.base, txns)
        if unseen is not None:
            selection.verdicts[base.name] = unseen
            continue
        verdict, compacted = _judge_base(base, ids, selection)
        if verdict is None:
            usable.append((base, compacted))
            continue
        selection.verdicts[base.name] = verdict
        if compacted:
            passed_over.append(base)
    if not usable:
        oldest = min(passed_over, key=_id, default=None)
        selection.history_gap = None if oldest is None else HistoryGap(oldest.name, _id(oldest), ids)
        return
    # Among equals a compaction is preferred to the overwrite it compacted (HIVE-25777), the later one first.
    best, compacted = max(usable, key=lambda u: (_id(u[0]), u[1], u[0].visibility_txn_id or 0))
    selection.base = best
    selection.verdicts.update({base.name: _replaced_by(base, best) for base, _ in usable})
    selection.verdicts[best.name] = _live_base(best, compacted)
    newer = [base.name for base in passed_over if _id(base) > _id(best)]
    if newer:
        selection.notes.append(
            f"{best.name} is read because this reader cannot use {join_names(newer)}; deltas between "
            "them may have been cleaned already, which reading rows finds out."
        )
    if not any(is_marker(file.name) or not is_hidden_to_hive(file.name) for file in best.files):
        selection.notes.append(f"{best.name} holds no file that readers see; it is read as an empty base.")


def _judge_base(base: Directory, ids: ValidWriteIds, selection: Selection) -> tuple[Verdict | None, bool]:
    """The verdict on a visible base (None if usable), and whether it counts as compacted."""
    parsed = base.base
    if base.is_first_compaction:
        return None, True
    if base.marker is MarkerContent.BAD and parsed.visibility_txn_id is None:
        selection.notes.append(f"{base.name}/_metadata_acid {base.marker_problem}.")
        # Where both meanings allow it, it does not matter which one the marker had.
        if judge_compacted(parsed, ids) is None and judge_overwrite(parsed, ids) is None:
            return None, True
        why = f"its _metadata_acid {base.marker_problem}, so acidctl cannot tell whether this reader may use it"
        return Verdict(EntryState.UNRECOGNISED, "bad_marker", why), True
    if base.marker is MarkerContent.UNREAD and parsed.visibility_txn_id is None:
        kind = "a compaction" if base.guessed_compacted else "a truncation"
        selection.notes.append(f"The content of {base.name}/_metadata_acid is not known; it is treated as {kind}.")
    judge = judge_compacted if base.is_compacted else judge_overwrite
    return judge(parsed, ids), base.is_compacted


def _judge_delta(delta: DeltaDir, ids: ValidWriteIds, txns: ValidTxns, insert_only: bool) -> Verdict | None:
    """The verdict on a delta with nothing visible in it, else None."""
    if delta.range.is_empty:
        return degenerate_delta(delta)
    if insert_only and delta.kind is DeltaKind.DELETE:
        return delete_delta_in_insert_only()
    unseen = judge_visibility(delta, txns)
    if unseen is not None:
        return unseen
    if ids.is_range_aborted(delta.min_write_id, delta.max_write_id) is RangeAnswer.ALL:
        return aborted_delta(delta)
    if ids.is_range_valid(delta.min_write_id, delta.max_write_id) is RangeAnswer.NONE:
        return _unseen(delta.range, ids)
    return None


def _drop_earlier_compactions(
    admitted: Sequence[Directory], selection: Selection, doubts: list[Finding]
) -> list[Directory]:
    """Of several directories of one kind and exactly one range keep the latest compaction.

    Hive 4 reads them all and returns their rows more than once. Equal visibility (none, say) is no order, and
    then all are kept: a row too many is seen, a row too few is not.
    """
    groups: dict[tuple[DeltaKind, WriteIdRange, int | None], list[Directory]] = defaultdict(list)
    for directory in admitted:
        delta = directory.delta
        groups[delta.kind, delta.range, delta.statement_id].append(directory)
    dropped: set[str] = set()
    for group in groups.values():
        if len(group) < 2:
            continue
        best = max(group, key=lambda c: c.visibility_txn_id or 0)
        kept = [c for c in group if (c.visibility_txn_id or 0) == (best.visibility_txn_id or 0)]
        for directory in group:
            if directory in kept:
                continue
            dropped.add(directory.name)
            why = f"{best.name} holds the same {span(best.delta.range)}, compacted later"
            selection.verdicts[directory.name] = Verdict(EntryState.OBSOLETE, "same_range", why, (best.name,))
            selection.notes.append(
                f"{directory.name} and {best.name} hold the same range; the later compaction is read, while "
                "Hive 4 reads both and returns their rows twice."
            )
        if len(kept) > 1:
            names = [directory.name for directory in kept]
            why = f"{join_names(names)} hold the same range; all are read, as Hive does."
            doubts.append(Finding("same_range", why, names[-1]))
    return [directory for directory in admitted if directory.name not in dropped]


def _overlap_doubts(choices: Sequence[_Choice], base: Directory | None) -> list[Finding]:
    """Deltas that are read although they reach into what is read already.

    Compactors produce nested or disjoint ranges only, and reading such a pair is right only if they did.
    """
    doubts = []
    for choice in choices:
        name = choice.directory.name
        if not choice.taken or not choice.directory.delta.range.crosses(WriteIdRange(MIN_LONG, choice.covered_to)):
            continue
        if choice.cover:
            other = choice.cover[0].name
            why = f"{name} overlaps {other} in part; both are read whole, and rows that both hold come twice."
        elif base is not None and not base.is_first_compaction:
            why = (
                f"{name} begins inside {base.name}; it is read whole, and rows that the base holds as well come twice."
            )
        else:
            continue
        doubts.append(Finding("overlapping_ranges", why, name))
    return doubts


def _lonely_deltas(choices: Sequence[_Choice]) -> dict[str, Finding]:
    """Deltas covered only by deltas of the other kind: half of a compaction is missing.

    Unless they hold nothing: Hive 3 writes files without events for the side of a minor compaction that has none.
    """
    found = {}
    for choice in choices:
        if not choice.covered or not choice.cover or not choice.directory.bytes:
            continue
        kind = choice.directory.delta.kind
        if all(cover.delta.kind is not kind for cover in choice.cover):
            missing = "inserted" if kind is DeltaKind.INSERT else "deleted"
            name = choice.directory.name
            why = (
                f"{name} is covered by {choice.cover[0].name} alone, which cannot hold what it {missing}; the other "
                "half of that compaction is missing."
            )
            found[name] = Finding("half_of_minor", why, name)
    return found


# --- profile hive4, faults included. It sees the location as Hive lists it, so that empty directories, nested deltas
# and temporary directories fare as they do there. Where Hive's own result depends on the order of a hash map,
# directories come in ascending path order.


@dataclass(slots=True)
class Listed:
    """One directory of Hive's listing; the location itself has the empty path."""

    path: str
    files: list[FileInfo] = field(default_factory=list)
    metadata: FileInfo | None = None


def list_as_hive(listing: Listing) -> list[Listed]:
    """getHdfsDirSnapshots: a directory exists only if a visible file is in it."""
    found: dict[str, Listed] = {}
    for file in listing.files:
        parent, _, name = file.path.rpartition("/")
        marker = name.startswith((METADATA_MARKER, VERSION_MARKER))
        if (is_hidden_to_hive(name) and not marker) or any(map(is_hidden_to_hive, parent.split("/"))):
            continue
        # Hive counts files below a base or delta to it; it looks for the words anywhere in the path.
        while any(prefix in parent for prefix in ACID_PREFIXES) and not _is_acid(parent):
            parent = parent.rpartition("/")[0]
        directory = found.setdefault(parent, Listed(parent))
        if METADATA_MARKER in file.path:
            directory.metadata = file
        elif VERSION_MARKER not in file.path:
            directory.files.append(file)
    return [found[path] for path in sorted(found, key=path_order_key)]


def _is_acid(path: str) -> bool:
    return path.rpartition("/")[2].startswith(ACID_PREFIXES)


def select_hive4(listed: Iterable[Listed], listing: Listing, reader: Reader, *, tolerant: bool) -> Selection:
    """Run Hive's algorithm; with `tolerant` a failure is noted and the directory passed over, else raised."""
    run = _HiveRun(listing, reader, tolerant, reader.effective_write_ids)
    answer = run.answer
    for directory in listed:
        if _is_acid(directory.path):
            run.consider(directory)
        else:
            answer.originals += [file for file in directory.files if file.size]
    if answer.base is not None:
        answer.originals = []
        answer.verdicts[answer.base.name] = _live_base(answer.base, run.compacted(answer.base))
    elif run.oldest is not None and run.compacted(run.oldest):
        answer.history_gap = HistoryGap(run.oldest.name, _id(run.oldest), run.ids)
    _choose_deltas(run.admitted, answer, run.ids)
    answer.originals.sort(key=lambda file: path_order_key(file.path))
    answer.notes = [f"{error.message}." for error in answer.failures]
    return answer


@dataclass(slots=True)
class _HiveRun:
    """One pass over the directories, as Hive's processing of base and delta directories keeps its state."""

    listing: Listing
    reader: Reader
    tolerant: bool
    ids: ValidWriteIds
    oldest: Directory | None = None
    admitted: list[Directory] = field(default_factory=list)
    answer: Selection = field(default_factory=Selection)

    def consider(self, listed: Listed) -> None:
        """Hive's on_base or on_delta for one directory."""
        parsed = parse_directory(listed.path.rpartition("/")[2])
        if not isinstance(parsed, BaseDir | DeltaDir):
            why = f"Hive 4 fails here with {_exception(listed.path)} on the name {listed.path}"
            self._fail(HiveFailureError(why, path=self.listing.root or None))
            return
        marker, problem = MarkerContent.ABSENT, None
        if listed.metadata is not None:
            marker, problem = read_marker(self.listing.markers.get(listed.metadata.path))
        directory = Directory(listed.path, parsed, tuple(listed.files), marker, problem)
        self.answer.considered[directory.name] = directory
        if self.reader.txns is None:
            why = f"Hive 4 does not read {listed.path} without a list of valid transactions"
            self._fail(MissingTxnListError(why, hint="Give one with --validtxns."))
        verdict = judge_visibility(parsed, self.reader.effective_txns)
        if verdict is None:
            verdict = self._on_base(directory) if isinstance(parsed, BaseDir) else self._on_delta(directory)
        if verdict is not None:
            self.answer.verdicts[directory.name] = verdict

    def _on_base(self, base: Directory) -> Verdict | None:
        ids, best, write_id = self.ids, self.answer.base, _id(base)
        if self.oldest is None or write_id < _id(self.oldest):
            self.oldest = base
        if ids.is_aborted(write_id) and not self.compacted(base):
            return Verdict(EntryState.ABORTED, "write_aborted", f"write id {write_id} was aborted")
        if best is not None and (_id(best) > write_id or (_id(best) == write_id and not self.compacted(base))):
            return _replaced_by(base, best)
        if not self._usable(base):
            judge = judge_compacted if self.compacted(base) else judge_overwrite
            why = f"Hive 4 does not use a base up to {write_id} with this list"
            return judge(base.base, ids) or Verdict(EntryState.UNUSABLE, "base_unusable", why)
        if best is not None:
            self.answer.verdicts[best.name] = _replaced_by(best, base)
        self.answer.base = base
        return None

    def _usable(self, base: Directory) -> bool:
        ids, write_id = self.ids, _id(base)
        if base.is_first_compaction:
            return True
        # HIVE-22754: also lets an uncommitted overwrite through whose id is the lowest open one.
        if ids.min_open is not None and write_id <= ids.min_open:
            return True
        return ids.is_valid_base(write_id) if self.compacted(base) else ids.is_valid(write_id)

    def _on_delta(self, directory: Directory) -> Verdict | None:
        delta = directory.delta
        if self.ids.is_range_aborted(delta.min_write_id, delta.max_write_id) is RangeAnswer.ALL:
            return aborted_delta(delta)
        if self.ids.is_range_valid(delta.min_write_id, delta.max_write_id) is RangeAnswer.NONE:
            return _unseen(delta.range, self.ids)
        self.admitted.append(directory)
        return None

    def compacted(self, base: Directory) -> bool:
        """Hive asks for the marker only where it matters, so a bad one fails only there."""
        if base.visibility_txn_id is None and base.marker is MarkerContent.BAD:
            why = f"Hive 4 fails here: {base.name}/_metadata_acid {base.marker_problem}"
            self._fail(HiveFailureError(why, path=self.listing.root or None))
        return base.is_compacted

    def _fail(self, error: HiveFailureError | MissingTxnListError) -> None:
        if not self.tolerant:
            raise error
        if not any(known.message == error.message for known in self.answer.failures):
            self.answer.failures.append(error)


def _exception(path: str) -> str:
    """The Java exception that a bad name ends in: with a part missing, a substring fails before any number."""
    name = path.rpartition("/")[2].partition("_v")[0]
    prefix = next((p for p in ACID_PREFIXES if name.startswith(p)), None)
    missing = prefix is None or (prefix != BASE_PREFIX and "_" not in name[len(prefix) :])
    return "StringIndexOutOfBoundsException" if missing else "NumberFormatException"
