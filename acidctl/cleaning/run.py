"""One run of `clean` over a table: what was asked becomes a snapshot common to all readers and rules, then an answer.

It is carried out under the lock, after one more look, and in an order in which a crash harms nobody:

    lock -> what dead runs left -> list and judge again: the same? -> move victims away, one by one -> remove them

A victim leaves the location by one rename, into the hidden work directory of this run (or a quarantine box), so that no
reader ever sees half of one. No reader needs any of the victims, so wherever a run dies, the table reads as before;
the next run removes what lies in the work directory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import field, replace
from datetime import UTC, datetime
from functools import partial

from acidctl.cleaning import files as boxes
from acidctl.cleaning.covers import compare
from acidctl.cleaning.decisions import Rules, Survey, half_published, survey
from acidctl.cleaning.files import look_around, look_into, look_into_restored
from acidctl.cleaning.plan import (
    CleanPlan,
    Compared,
    Entry,
    LocationPlan,
    fingerprint,
    plan_location,
    spared,
    untouched,
)
from acidctl.cleaning.report import Action, CleanedLocation, CleanReport, Outcome
from acidctl.compaction.recovery import recover
from acidctl.errors import AcidctlError, ExitCode, StorageError, UsageError
from acidctl.format.list_texts import ManyLists, recognise_many
from acidctl.format.listing import Listing, is_foreign
from acidctl.format.names import LOCK_NAME, OWNER_NAME, QUARANTINE_NAME, WORK_PREFIX, BaseDir, DeltaDir, parse_directory
from acidctl.format.write_ids import Reader, ValidTxns, ValidWriteIds, common_txns, common_write_ids
from acidctl.maintenance.limits import MAX_RUNTIME, TimeLimit, checked_time, wall_clock
from acidctl.maintenance.lock import Lock, acquire, to_bytes, until_done
from acidctl.maintenance.work_dir import (
    REMOVED,
    WORK_TYPE,
    list_location,
    make_directory,
    move,
    remove_directory,
    remove_file,
    remove_work,
    write_file,
)
from acidctl.options import CleanOptions, Progress, unwatched
from acidctl.rows.table_view import decide_kind, kind_notes, known_table, list_table, own_table_warnings, schema_of
from acidctl.state.entries import TableType
from acidctl.state.report import Problem
from acidctl.state.resolve import TableGuess, guess_table_type
from acidctl.storage.local import whole_path
from acidctl.storage.locations import Location, canonical, require_no_table, require_no_way_in, shows_in_table
from acidctl.storage.port import Storage, join
from acidctl.types.schema import TableSchema
from acidctl.values import dataclass

_UNNAMED_HINT = "What was given are transaction lists; one of write ids begins with its table, as db.table:20:... . "
_LISTS_HINT = (
    "Give --validtxns with the list of each reader that may still run, or, while nobody else uses the table, "
    "--as-of N --assume-exclusive."
)


# Why an entry may come back: something still there covers it. Aborted ones would look committed one day.
_RESTORABLE = frozenset({"covered_by_base", "same_ids_as_base", "originals_covered_by_base", "covered_by_delta"})
_ABORTED = frozenset({"write_aborted", "compaction_aborted"})
_OTHERS_HINT = "Run --undo on that place; for a table that was renamed since, give it that name again until it is done."


class _OthersOnlyError(AcidctlError):
    """Where this table's boxes were looked for there are only those of others."""

    exit_code = ExitCode.FINDINGS
    code = "others_only"


# What is done with the victims of a location while it is locked.
Act = Callable[[str, Lock, LocationPlan], CleanedLocation]


@dataclass(frozen=True, slots=True)
class CleanRun:
    """A run over one table, ready to be shown and then carried out; made by `prepare`.

    `root` is the table's path and `shown` its name, `common` what all its readers see, `rules` what the user decided,
    `limit` the time that there is. `break_locks` takes over locks whose owner may still live. With `trash` what is
    deleted goes there. `schema` is what the DDL says.
    """

    storage: Storage
    root: str
    shown: str
    locations: tuple[Location, ...]
    common: Reader
    kind: TableGuess
    rules: Rules
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    limit: TimeLimit | None = None
    break_locks: bool = False
    trash: bool = False
    schema: TableSchema | None = None
    _known: dict[str, tuple[dict[str, str], Compared]] = field(default_factory=dict, init=False, compare=False)

    def plan(self, *, progress: Progress = unwatched, whole: bool = True) -> CleanPlan:
        """What may go; changes nothing, but opens the ends of covering files.

        Half of the time that `limit` leaves is for this, where it is not the `whole` run.
        """
        limit, found = self.limit, []
        half_over = None if whole or limit is None else limit.planning()
        linked = self._linked()
        for done, location in enumerate(self.locations):
            progress(done, len(self.locations))
            listing, partition, path = location.listing, location.partition, location.listing.root
            if location.stray:
                why = "lies beside partition folders, and Hive reads partitions only"
                part = untouched(listing, "beside_partitions", why, partition=partition, path=path)
            elif done and limit is not None and (half_over() if half_over else limit.over):
                why = "--max-runtime left no time to look into it"
                part = untouched(listing, MAX_RUNTIME, why, partition=partition, path=path)
            else:
                part = self._judge(listing, partition, path, linked=linked.get(listing.root))
            found.append(part)
        self._require_lasting_kind(found)
        return CleanPlan(
            location=self.shown,
            table_type=self.kind.type.value,
            write_ids=self._write_ids,
            txns=self._txns,
            retention_seconds=self.rules.older_than,
            locations=tuple(found),
            notes=self.notes,
            warnings=self.warnings,
        )

    def _require_lasting_kind(self, planned: Sequence[LocationPlan]) -> None:
        """UsageError where the victims alone show that this is a full ACID table: the rest would lose its row ids."""
        if self.kind.type is not TableType.FULL or not (self.kind.until_cleaned or self.kind.ambiguous):
            return
        left = [
            location.listing.without({path for victim in part.victims for path in victim.paths})
            for location, part in zip(self.locations, planned, strict=True)
            if not location.stray
        ]
        if guess_table_type(left, self.common).type is TableType.INSERT_ONLY:
            raise UsageError(
                f"only what would go shows that {self.shown} is a full ACID table ({self.kind.why}), and what is left "
                "looks like an insert-only one",
                path=self.shown,
                hint="Add --table-type full, or the text of its SHOW CREATE TABLE with --schema; from then on all "
                "commands need it.",
            )

    def show(self, plan: CleanPlan) -> CleanReport:
        """The answer of a dry run."""
        return self._report(Action.SHOW, [CleanedLocation.planned(part) for part in plan.locations])

    def delete(self, plan: CleanPlan, *, progress: Progress = unwatched) -> CleanReport:
        """Remove what was planned; a failure at one location neither stops nor hides the others."""
        return self._report(Action.DELETE, self._each(plan, self._delete, progress))

    def quarantine(self, plan: CleanPlan, base: str | None, *, progress: Progress = unwatched) -> CleanReport:
        """Move what was planned into boxes below `base`, a path of the table's own storage (None: each location)."""
        if base is not None:
            require_no_way_in(self.storage, self.root, base)
            own = (self.root, *self._elsewhere)
            if any(shows_in_table(self.storage, place, base) for place in own):
                raise UsageError(
                    f"the quarantine {base} lies inside the table, where readers would take it for data",
                    path=base,
                    hint="Name a directory outside of the table on the same storage, or leave the name out.",
                )
            require_no_table(self.storage, base, own)
        done = self._each(plan, lambda root, lock, fresh: self._box(root, lock, fresh, base), progress)
        return self._report(Action.QUARANTINE, done)

    def undo(self, base: str | None, *, progress: Progress = unwatched) -> CleanReport:
        """Bring back what earlier runs moved into boxes, where something still covers it."""
        if base is not None:
            require_no_way_in(self.storage, self.root, base)
        places = [location for location in self.locations if not location.stray]
        done = []
        for index, location in enumerate(places):
            progress(index, len(places))
            done.append(self._undo(location, base))
        notes = []
        if all(part.outcome is Outcome.NOTHING_TO_DO and not part.kept for part in done):
            where = "within the table" if base is None else f"in {self.storage.display(base)}"
            notes = [f"No quarantine of this table was found {where}; --quarantine DIR names another place."]
        return self._report(Action.UNDO, done, notes)

    @property
    def _write_ids(self) -> str:
        return self.common.effective_write_ids.format()

    @property
    def _txns(self) -> str:
        return "" if self.common.txns is None else self.common.txns.format()

    @property
    def _elsewhere(self) -> list[str]:
        """Locations outside of the table's directory."""
        roots = (location.listing.root for location in self.locations)
        return [root for root in roots if root != self.root and not root.startswith(f"{self.root.rstrip('/')}/")]

    def _report(self, action: Action, done: Sequence[CleanedLocation], notes: Sequence[str] = ()) -> CleanReport:
        return CleanReport(
            location=self.shown,
            table_type=self.kind.type.value,
            action=action,
            write_ids=self._write_ids,
            txns=self._txns or None,
            retention_seconds=self.rules.older_than,
            partitions=tuple(done),
            notes=(*self.notes, *notes),
            warnings=self.warnings,
        )

    # --- judging

    def _linked(self) -> dict[str, str]:
        """Of each location into which a link of another one leads that link, shown with the table.

        A link to a whole partition does not count: who reads by it reads what this command has judged.
        """
        every = [
            (join(location.listing.root, path), target)
            for location in self.locations
            for path, target in location.listing.links.items()
            if path and not is_foreign(path)
        ]
        if not every:
            return {}
        places = {canonical(self.storage, location.listing.root): location.listing.root for location in self.locations}
        found: dict[str, str] = {}
        for link, target in every:
            while target and target not in places:
                target = target.rpartition("/")[0]
            if target and not link.startswith(places[target] + "/"):
                found.setdefault(places[target], self.storage.display(link))
        return found

    def _judge(
        self,
        listing: Listing,
        partition: str,
        path: str,
        *,
        again: LocationPlan | None = None,
        linked: str | None = None,
    ) -> LocationPlan:
        """The plan of a location; `again` is the earlier one, from which it must not differ."""
        seen = look_around(self.storage, listing, self.common, self.kind, self.rules)
        evidence = replace(look_into(self.storage, seen, self.schema), again=again is not None, linked=linked)
        compare = partial(self._compared, path, seen)
        fresh = plan_location(seen, evidence, partition=partition, path=path, compare=compare)
        if again is None or not fresh.holds:
            return fresh
        changed = _difference(again, fresh)
        if changed is not None:
            return plan_location(seen, replace(evidence, changed=changed), partition=partition, path=path)
        planned = {victim.name for victim in again.victims}
        victims = tuple(victim for victim in fresh.victims if victim.name in planned)
        late = (spared(victim, "not_planned", "") for victim in fresh.victims if victim.name not in planned)
        return replace(fresh, victims=victims, kept=(*fresh.kept, *late))

    def _compared(self, path: str, seen: Survey) -> Compared:
        """What goes, compared with its covers; what an earlier look has found counts as long as the files are the same.

        Hive's cleaner may have removed some of it since: what is left was among what was compared.
        """
        files = {directory.name: fingerprint(directory) for directory in (*seen.covers, *seen.covered)}
        known = self._known.get(path)
        if known is not None and files.items() <= known[0].items():
            return known[1]
        found = compare(self.storage, seen, self.schema)
        self._known[path] = files, found
        return found

    # --- changing

    def _lock(self, root: str) -> Lock:
        return acquire(self.storage, root, now=self.rules.now, unsafe_break_lock=self.break_locks)

    def _recovered(self, root: str, lock: Lock) -> tuple[Listing, tuple[str, ...]]:
        """The location without what dead runs left; a half published compaction is not ours to settle."""
        listing = list_location(self.storage, root)
        if half_published(listing):
            return listing, ()
        sentences = recover(self.storage, root, listing, lock=lock, txns=self.common.txns)
        if QUARANTINE_NAME in listing.directories and not self.storage.facts.atomic_rename:
            for box in boxes.boxes_of(self.storage, root, boxes.find_boxes(self.storage, boxes.default_base(root))):
                sentences += boxes.end_moves(self.storage, root, box)
        return (list_location(self.storage, root) if sentences else listing), tuple(sentences)

    def _tidy(self, root: str, kept: Iterable[Entry]) -> None:
        """Take away the lock of a dead run where there is nothing else to do; one that lives is none of ours."""
        if any(entry.name.startswith(LOCK_NAME) for entry in kept):
            with suppress(AcidctlError), self._lock(root) as lock:
                self._recovered(root, lock)

    def _each(self, plan: CleanPlan, act: Act, progress: Progress) -> list[CleanedLocation]:
        """Each location in turn; none is begun when the time is over."""
        done = []
        for index, part in enumerate(plan.locations):
            progress(index, len(plan.locations))
            late = part.victims and self.limit is not None and self.limit.over
            done.append(CleanedLocation.left(part) if part.postponed or late else self._carry_out(part, act))
        return done

    def _carry_out(self, part: LocationPlan, act: Act) -> CleanedLocation:
        """Deal with the victims of one location; what goes wrong is in the answer."""
        answer = CleanedLocation.planned(part)
        root = part.path
        if answer.outcome is not Outcome.PLANNED:
            self._tidy(root, part.kept)
            return answer
        try:
            with self._lock(root) as lock:
                listing, sentences = self._recovered(root, lock)
                fresh = self._judge(listing, part.partition, root, again=part)
                if not fresh.holds:
                    return replace(CleanedLocation.planned(fresh), notes=sentences)
                lock.check()
                done = act(root, lock, fresh)
                # What a dead run had left is gone by now, and was promised.
                dead = (v for v in part.victims if v.reason_code == "work_dead" and v.name not in listing.directories)
                return replace(done, victims=(*done.victims, *dead), notes=(*done.notes, *sentences))
        except AcidctlError as error:
            kept = (*part.kept, *_left(part.victims))
            return replace(answer, outcome=Outcome.FAILED, victims=(), kept=kept, problem=Problem.of(error))

    def _delete(self, root: str, lock: Lock, fresh: LocationPlan) -> CleanedLocation:
        answer = replace(CleanedLocation.planned(fresh), outcome=Outcome.DELETED)
        if not fresh.victims:
            return answer
        if self.trash:
            return _one_by_one(answer, fresh.victims, lambda name: self._discard(join(root, name)))
        if not self.storage.facts.atomic_rename:
            # Nothing can be taken out of sight first. What is covered is covered whole or in part, and goes in an order
            # in which what an interrupted run leaves means the same as all of it.
            return _one_by_one(answer, fresh.victims, lambda name: self._remove(join(root, name)))
        work = self._open_work(root, lock)
        answer = _one_by_one(
            answer, fresh.victims, lambda name: move(self.storage, join(root, name), join(work, f"{REMOVED}/{name}"))
        )
        try:
            remove_work(self.storage, work)
        except AcidctlError as error:
            # Out of every reader's sight it is; the space comes back with the next run.
            return replace(answer, outcome=Outcome.FAILED, problem=answer.problem or Problem.of(error))
        return answer

    def _discard(self, path: str) -> None:
        """Into the trash by one rename, so that no reader sees half of it."""
        try:
            until_done(lambda: self.storage.discard(path), lambda: self.storage.stat(path) is None)
        except StorageError as error:
            error.hint = "With --skip-trash it is deleted for good." if error.hint == error.advice else error.hint
            raise

    def _remove(self, path: str) -> None:
        found = self.storage.stat(path)
        if found is not None:
            (remove_directory if found.is_directory else remove_file)(self.storage, path)

    def _open_work(self, root: str, lock: Lock) -> str:
        """A work directory with its owner file, as those of compactions; nothing is left when the storage refuses."""
        work = join(root, WORK_PREFIX + lock.id)
        try:
            make_directory(self.storage, work, root)
            owner = to_bytes(lock.owner, WORK_TYPE, {"kind": "clean", "outputs": []})
            write_file(self.storage, join(work, OWNER_NAME), owner, root)
            make_directory(self.storage, join(work, REMOVED), root)
        except BaseException:
            with suppress(AcidctlError):
                remove_directory(self.storage, work)
            raise
        return work

    def _box(self, root: str, lock: Lock, fresh: LocationPlan, base: str | None) -> CleanedLocation:
        """Move the victims into a new box below `base` (None: within the location)."""
        answer = replace(CleanedLocation.planned(fresh), outcome=Outcome.QUARANTINED)
        if not fresh.victims:
            return answer
        base, place = base or boxes.default_base(root), canonical(self.storage, root)
        manifest = boxes.Manifest(
            id=lock.id,
            created=datetime.fromtimestamp(self.rules.now, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            location=place,
            partition=fresh.partition,
            write_ids=self._write_ids,
            txns=self._txns,
            entries=fresh.victims,
            within=canonical(self.storage, base) == boxes.default_base(place),
        )
        box = boxes.make_box(self.storage, base, manifest, like=root)
        answer = _one_by_one(
            answer, fresh.victims, lambda name: move(self.storage, join(root, name), box.content(name))
        )
        if answer.problem is not None and not answer.victims:
            with suppress(AcidctlError):
                boxes.close_box(self.storage, box)
            if self.storage.stat(box.path) is None:
                hint = answer.problem.hint or "Name a directory on the table's own file system, or leave the name out."
                return replace(answer, problem=replace(answer.problem, hint=hint))
        return replace(answer, quarantine=self.storage.display(box.path))

    # --- bringing back

    def _undo(self, location: Location, base: str | None) -> CleanedLocation:
        """Put back what boxes below `base` (None: within the location) hold of one location, where that is harmless.

        Only what a directory covers that is still there, and only to a place that is free; aborted writes never. Boxes
        of other tables stay as they are and are named; where there are only such, that is a problem of exit code 3.
        """
        root = location.listing.root
        nothing = LocationPlan(location.partition, root, (), (), ())
        answer = CleanedLocation.planned(nothing)
        try:
            every = boxes.find_boxes(self.storage, base or boxes.default_base(root))
            found = boxes.boxes_of(self.storage, root, every)
            own = {canonical(self.storage, place) for place in self._elsewhere}
            others = boxes.boxes_of_others(self.storage, self.root, every)
            others = [box for box in others if box.owner(self.storage) not in own]
            alike = [box for box in others if box.manifest.partition == location.partition]
            notes = (boxes.describe_others(self.storage, alike),) if alike else ()
            if not found:
                self._tidy(root, untouched(location.listing, "", "").kept)
                if every and len(others) == len(every):
                    raise _OthersOnlyError(boxes.describe_others(self.storage, alike or every), hint=_OTHERS_HINT)
                return replace(answer, notes=notes)
            with self._lock(root) as lock:
                listing = self._recovered(root, lock)[0]
                if base is not None:
                    ended = [line for box in found for line in boxes.end_moves(self.storage, root, box)]
                    listing = list_location(self.storage, root) if ended else listing
                answer = replace(answer, outcome=Outcome.RESTORED)
                for box in found:
                    one = self._restore(listing, nothing, box)
                    answer = replace(
                        one,
                        guards=answer.guards or one.guards,
                        victims=(*answer.victims, *one.victims),
                        kept=(*answer.kept, *one.kept),
                        notes=notes,
                    )
                    if one.outcome is not Outcome.RESTORED:
                        break
                    listing = list_location(self.storage, root)
                return answer
        except AcidctlError as error:
            nothing_done = CleanedLocation.planned(nothing)
            return replace(nothing_done, outcome=Outcome.FAILED, problem=Problem.of(error))

    def _restore(self, listing: Listing, place: LocationPlan, box: boxes.Box) -> CleanedLocation:
        """Judge the location as if everything were back in it; what would go again may come back."""
        content = boxes.held(self.storage, box)
        there, inside = _tops(listing), _tops(content)
        wanted: list[Entry] = []
        kept: list[Entry] = []
        for entry in reversed(box.manifest.entries):
            paths = tuple(path for path in entry.paths if path in inside)
            if not paths:
                continue  # it never left its place, or is back already
            refusal = _refusal(entry, paths, there)
            if refusal is None:
                wanted.append(replace(entry, paths=paths))
            else:
                kept.append(replace(entry, reason=refusal, reason_code="not_restored"))
        merged = listing.with_entries_of(content, {path for entry in wanted for path in entry.paths})
        rules = replace(self.rules, older_than=None)
        seen = survey(merged, self.common, self.kind, rules, any_name=True)
        # What would be back lies in the box yet.
        boxed = dict.fromkeys((path for entry in wanted for path in entry.paths), content.root)
        evidence = look_into_restored(self.storage, seen, boxed)
        plan = plan_location(seen, evidence, partition=place.partition, path=place.path)
        if not plan.holds:
            return CleanedLocation(place.partition, Outcome.GUARDED, plan.guards, (), (*kept, *_left(wanted)))
        harmless = {victim.name for victim in plan.victims if victim.because_of}
        why = "nothing that is there covers it, so readers would read it"
        kept += [replace(e, reason=why, reason_code="not_restored") for e in wanted if e.name not in harmless]
        answer = CleanedLocation(place.partition, Outcome.RESTORED, plan.guards, (), tuple(kept))
        chosen = [entry for entry in wanted if entry.name in harmless]
        answer = _one_by_one(
            answer, chosen, lambda name: move(self.storage, box.content(name), join(listing.root, name))
        )
        if answer.problem is None and not kept:
            boxes.close_box(self.storage, box)
        return replace(answer, quarantine=None if not kept else self.storage.display(box.path))


def _one_by_one(answer: CleanedLocation, victims: Sequence[Entry], away: Callable[[str], None]) -> CleanedLocation:
    """Deal with each victim; the first failure ends it, and the rest stays where it is."""
    for index, victim in enumerate(victims):
        try:
            for path in victim.paths:
                away(path)
        except AcidctlError as error:
            kept = (*answer.kept, *_left(victims[index:]))
            done = tuple(victims[:index])
            return replace(answer, outcome=Outcome.FAILED, victims=done, kept=kept, problem=Problem.of(error))
    return replace(answer, victims=tuple(victims))


def _difference(planned: LocationPlan, fresh: LocationPlan) -> str | None:
    """What is not as it was planned; victims that are gone by themselves do not matter."""
    now = {entry.name: entry for entry in (*fresh.kept, *fresh.victims)}
    victims = {entry.name: entry.fingerprint for entry in fresh.victims}
    covers = dict(fresh.covers)
    for victim in planned.victims:
        if victim.name not in now:
            continue
        if victim.name not in victims:
            return f"{victim.name} was to go and may not any more: {now[victim.name].reason}"
        if victims[victim.name] != victim.fingerprint:
            return f"{victim.name} has changed since it was planned to go"
    for name, before in planned.covers:
        if covers.get(name, before) != before:
            return f"{name}, which covers what was to go, has changed since"
    return None


def _left(entries: Iterable[Entry]) -> tuple[Entry, ...]:
    return tuple(spared(entry, "left", ", but was left in place") for entry in entries)


def _refusal(entry: Entry, paths: Iterable[str], there: frozenset[str]) -> str | None:
    """Why an entry must not come back, whatever covers it."""
    if entry.reason_code in _ABORTED:
        return "what was aborted is never restored: once Hive has forgotten the abort, it would look committed"
    if entry.reason_code not in _RESTORABLE:
        return "is not data of the table"
    taken = next((path for path in paths if path in there), None)
    return None if taken is None else f"{taken} exists already"


def _tops(listing: Listing) -> frozenset[str]:
    paths = (*listing.directories, *(info.path for info in listing.files))
    return frozenset(path.partition("/")[0] for path in paths)


def prepare(
    storage: Storage,
    root: str,
    request: CleanOptions,
    *,
    locations: Sequence[Location] | None = None,
    now: float | None = None,
) -> CleanRun:
    """Make a run of a request over a table as it is now; `now` is in seconds since 1970.

    `locations` are those that were listed already; they may lie outside of `root`, on the same storage.

    UsageError without a write-id list, for the list of another table, and without a transaction list where names
    carry transactions.
    """
    now = wall_clock() if now is None else checked_time(now)
    limit = None if request.max_runtime is None else TimeLimit(request.max_runtime)
    locations = list_table(storage, root, request.partitions) if locations is None else locations
    shown, path = storage.display(root), whole_path(storage, root)
    schema = schema_of(request.schema)
    lists = recognise_many(
        request.validtxns, table=request.table, list_format=request.list_format, as_of=request.as_of, complete=True
    )
    known = _common(lists.write_ids, lists.txns)
    kind = decide_kind(locations, schema, known, table_type=request.table_type, list_format=request.list_format)
    common = _common_snapshot(lists, request, kind, locations, shown)
    listed = common.effective_write_ids.table
    named = own_table_warnings(path, schema, listed=listed, stated=request.table, shown=shown, changes=True)
    ddl = schema if schema is not None and schema.from_ddl else None
    rules = Rules(
        now=now,
        older_than=request.older_than,
        highest_write_id=request.highest_write_id,
        leftovers=request.leftovers,
        no_cleanup=None if ddl is None else (ddl.table_property("no_cleanup") or "").lower() == "true",
        table=known_table(path, schema),
    )
    trash = storage.facts.trash and not request.skip_trash
    notes = kind_notes(kind)
    if kind.type is TableType.EMPTY:
        notes.append("Nothing here holds rows: an empty table.")
    if request.older_than is None:
        notes.append("Retention is off: queries that started before the last compaction may fail.")
    if trash:
        notes.append("What is deleted goes into the trash of this user, which frees no space until it is emptied.")
    return CleanRun(
        storage=storage,
        root=root,
        shown=shown,
        locations=tuple(locations),
        common=common,
        kind=kind,
        rules=rules,
        notes=tuple(notes),
        warnings=(*lists.notes, *named),
        limit=limit,
        break_locks=request.unsafe_break_lock,
        trash=trash,
        schema=schema,
    )


def _common(write_ids: Sequence[ValidWriteIds], txns: Sequence[ValidTxns]) -> Reader:
    """The lists of a reader who sees what all of them see."""
    return Reader(common_write_ids(write_ids) if write_ids else None, common_txns(txns) if txns else None)


def _common_snapshot(
    lists: ManyLists, request: CleanOptions, kind: TableGuess, locations: Sequence[Location], shown: str
) -> Reader:
    write_ids, txns = lists.write_ids, lists.txns
    if request.as_of is not None and not request.assume_exclusive:
        raise UsageError(
            "--as-of does not cover other readers, whose files must be kept",
            path=shown,
            hint="Add --assume-exclusive when nobody else reads or writes this table now, or give --validtxns.",
        )
    # In Hive 2's form the second of two ids may be open, and what is aborted goes.
    mixed = next((item for item in txns if len(item.open) == len(item.aborted) == 1), None)
    if kind.acid_v1 and not write_ids and mixed is not None and request.list_format is None:
        raise UsageError(
            f"the transaction list {mixed.format()} means one thing in Hive 2 and another in Hive 3 and 4",
            path=shown,
            hint="Say which Hive printed it with --list-format hive2, hive3 or hive4.",
        )
    if not write_ids and kind.acid_v1:
        write_ids = tuple(ValidWriteIds.from_txns(item) for item in txns)
    if not write_ids:
        raise UsageError(
            "clean needs a write-id list to know what no reader can still see",
            path=shown,
            hint=(_UNNAMED_HINT if lists.txns else "") + _LISTS_HINT,
        )
    named = next((join(part.listing.root, name) for part in locations for name in _with_txn(part)), None)
    if named is not None and not txns:
        raise UsageError(
            f"{named} was written by a compaction; a transaction list is needed to tell whether it is visible",
            path=shown,
            hint="Give the transaction list of each reader with --validtxns too, beside its write ids.",
        )
    return _common(write_ids, txns)


def _with_txn(part: Location) -> list[str]:
    """Names of a location that carry a transaction."""
    if part.stray:
        return []
    tops = ((name, parse_directory(name)) for name in part.listing.directories if "/" not in name)
    return [name for name, d in tops if isinstance(d, BaseDir | DeltaDir) and d.visibility_txn_id is not None]
