"""Carry out a cleaning: under the lock, after one more look, and in an order in which a crash harms nobody.

    lock -> what dead runs left -> list and judge again: the same? -> move victims away, one by one -> remove them

A victim leaves the location by one rename, into the hidden work directory of this run (or a quarantine box), so that no
reader ever meets half of one. Every victim by itself is out of every reader's reach, so whatever a run that dies has
moved by then, the table reads as before; the next run removes what lies in the work directory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from acidctl.cleaning import quarantine as boxes
from acidctl.cleaning.candidates import Rules, survey
from acidctl.cleaning.inspect import look_around, look_into
from acidctl.cleaning.leftovers import half_published
from acidctl.cleaning.plan import Entry, LocationPlan, plan_location, untouched
from acidctl.cleaning.report import CleanedLocation, Outcome
from acidctl.cleaning.rules import Meet
from acidctl.compaction.recover import recover
from acidctl.errors import AcidctlError, ExitCode, StorageError
from acidctl.format.listing import Listing, is_foreign
from acidctl.format.names import LOCK_NAME, OWNER_NAME, QUARANTINE_NAME, WORK_PREFIX
from acidctl.maintenance.limits import MAX_RUNTIME
from acidctl.maintenance.lock import Lock, acquire
from acidctl.maintenance.owner import to_bytes
from acidctl.maintenance.work_dir import (
    REMOVED,
    WORK_TYPE,
    list_location,
    make_directory,
    move,
    remove_directory,
    remove_file,
    remove_work,
    until_done,
    write_file,
)
from acidctl.state.report import Problem
from acidctl.state.resolve import TableGuess
from acidctl.storage.locations import Location, canonical
from acidctl.storage.port import Storage, join

# Why an entry may come back: something still there covers it. Aborted ones would look committed one day.
_RESTORABLE = frozenset({"covered_by_base", "same_ids_as_base", "originals_covered_by_base", "covered_by_delta"})
_ABORTED = frozenset({"write_aborted", "compaction_aborted"})
# How many owners of boxes that are not this table's are told by name.
_TOLD = 5
_OTHERS_HINT = "Run --undo on that place; for a table that was renamed since, give it that name again until it is done."


class _OthersOnlyError(AcidctlError):
    """Where this table's boxes were looked for there are only those of others."""

    exit_code = ExitCode.FINDINGS
    code = "others_only"


def _unwatched(done: int, total: int | None) -> None:
    """No progress is shown."""


def _never() -> bool:
    """There is time."""
    return False


@dataclass(frozen=True, slots=True)
class Cleaning:
    """One table, what all its readers see, and the user's rules.

    `root` is the table's path; `break_locks` takes over locks whose owner may still live. With `trash` what is deleted
    goes there.
    """

    storage: Storage
    root: str
    meet: Meet
    kind: TableGuess
    rules: Rules
    break_locks: bool = False
    trash: bool = False

    def plan(
        self,
        locations: Sequence[Location],
        *,
        progress: Callable[[int, int | None], None] = _unwatched,
        stop: Callable[[], bool] = _never,
    ) -> tuple[LocationPlan, ...]:
        """What may go, location by location, until `stop` says so; opens the ends of covers, changes nothing."""
        found = []
        linked = self._linked(locations)
        for done, location in enumerate(locations):
            progress(done, len(locations))
            path = location.listing.root[len(self.root) :].strip("/")
            if location.stray:
                why = "lies beside partition folders, and Hive reads partitions only"
                part = untouched(location.listing, "beside_partitions", why, partition=location.partition, path=path)
            elif done and stop():
                why = "--max-runtime left no time to look into it"
                part = untouched(location.listing, MAX_RUNTIME, why, partition=location.partition, path=path)
            else:
                link = linked.get(location.listing.root)
                part = self._judge(location.listing, location.partition, path, linked=link)
            found.append(part)
        return tuple(found)

    def delete(self, part: LocationPlan) -> CleanedLocation:
        """Remove the victims of one location; what goes wrong is in the answer."""
        return self._carry_out(part, self._delete)

    def quarantine(self, part: LocationPlan, base: str | None) -> CleanedLocation:
        """Move the victims of one location into a new box below `base` (None: within the location)."""

        def act(root: str, lock: Lock, fresh: LocationPlan) -> CleanedLocation:
            return self._box(root, lock, fresh, base)

        return self._carry_out(part, act)

    def undo(self, location: Location, base: str | None) -> CleanedLocation:
        """Put back what boxes below `base` (None: within the location) hold of one location, where that is harmless.

        Only what a directory covers that is still there, and only to a place that is free; aborted writes never. Boxes
        of other tables stay as they are and are told of; where there are only such, that is a problem of exit code 3.
        """
        root = location.listing.root
        path = root[len(self.root) :].strip("/")
        nothing = LocationPlan(location.partition, path, (), (), ())
        try:
            every = boxes.find_boxes(self.storage, base or boxes.default_base(root))
            found = self._own(root, every)
            alike = self._others(box for box in every if box.manifest.partition == location.partition)
            notes = (self._told(alike),) if alike else ()
            if not found:
                here = untouched(location.listing, "", "")
                self._tidy(root, here.kept)
                if every and len(self._others(every)) == len(every):
                    raise _OthersOnlyError(self._told(alike or every), hint=_OTHERS_HINT)
                return replace(CleanedLocation.planned(nothing), notes=notes)
            with self._lock(root) as lock:
                listing = self._recovered(root, lock)[0]
                if base is not None:
                    said = [line for box in found for line in boxes.settle(self.storage, root, box)]
                    listing = list_location(self.storage, root) if said else listing
                return replace(self._restore(listing, nothing, found), notes=notes)
        except AcidctlError as error:
            return replace(CleanedLocation.planned(nothing), outcome=Outcome.FAILED, problem=Problem.of(error))

    def _own(self, root: str, found: Iterable[boxes.Box]) -> tuple[boxes.Box, ...]:
        place = canonical(self.storage, root)
        return tuple(box for box in found if box.owner(self.storage) == place)

    def _others(self, found: Iterable[boxes.Box]) -> list[boxes.Box]:
        return [box for box in found if not self._is_of_table(box)]

    def _is_of_table(self, box: boxes.Box) -> bool:
        """Whether a box belongs to a place of this table that is still there, by its folder or by a link."""
        owner, top = box.owner(self.storage), canonical(self.storage, self.root)
        inside = owner[len(top) + 1 :] if owner.startswith(top + "/") else ""
        for path in (join(self.root, inside), join(self.root, box.manifest.partition)):
            if canonical(self.storage, path) == owner and self.storage.stat(path) is not None:
                return True
        return False

    def _told(self, others: Sequence[boxes.Box]) -> str:
        """Whose the boxes of others are; a directory that serves many tables is not told in full."""
        base = others[0].path.rpartition("/")[0]
        places = list(dict.fromkeys(box.owner(self.storage) for box in others))
        more = f" and {len(places) - _TOLD:,} other places" if len(places) > _TOLD else ""
        return (
            f"{self.storage.display(base)} holds what was taken from {', '.join(places[:_TOLD])}{more}, left as it is"
        )

    # --- judging

    def _linked(self, locations: Sequence[Location]) -> dict[str, str]:
        """Of each location into which a link of another one leads that link, shown with the table.

        A link to a whole partition does not count: who reads by it reads what this command has judged.
        """
        every = [
            (join(location.listing.root, path), target)
            for location in locations
            for path, target in location.listing.links.items()
            if path and not is_foreign(path)
        ]
        if not every:
            return {}
        places = {canonical(self.storage, location.listing.root): location.listing.root for location in locations}
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
        seen = look_around(self.storage, listing, self.meet, self.kind, self.rules)
        evidence = replace(look_into(self.storage, seen), again=again is not None, linked=linked)
        fresh = plan_location(seen, evidence, partition=partition, path=path)
        if again is None or not fresh.holds:
            return fresh
        changed = _difference(again, fresh)
        if changed is not None:
            return plan_location(seen, replace(evidence, changed=changed), partition=partition, path=path)
        planned = {victim.name for victim in again.victims}
        late = tuple(
            replace(v, label="keep", reason_code="not_planned") for v in fresh.victims if v.name not in planned
        )
        victims = tuple(victim for victim in fresh.victims if victim.name in planned)
        return replace(fresh, victims=victims, kept=(*fresh.kept, *late))

    # --- changing

    def _lock(self, root: str) -> Lock:
        return acquire(self.storage, root, now=self.rules.now, unsafe_break_lock=self.break_locks)

    def _recovered(self, root: str, lock: Lock) -> tuple[Listing, tuple[str, ...]]:
        """The location without what dead runs left; a half published compaction is not ours to settle."""
        listing = list_location(self.storage, root)
        if half_published(listing):
            return listing, ()
        said = recover(self.storage, root, listing, lock=lock, txns=self.meet.txns)
        if QUARANTINE_NAME in listing.directories and not self.storage.facts.atomic_rename:
            for box in self._own(root, boxes.find_boxes(self.storage, boxes.default_base(root))):
                said += boxes.settle(self.storage, root, box)
        return (list_location(self.storage, root) if said else listing), tuple(said)

    def _tidy(self, root: str, kept: Iterable[Entry]) -> None:
        """Take away the lock of a dead run where there is nothing else to do; one that lives is none of ours."""
        if any(entry.name.startswith(LOCK_NAME) for entry in kept):
            with suppress(AcidctlError), self._lock(root) as lock:
                self._recovered(root, lock)

    def _carry_out(
        self, part: LocationPlan, act: Callable[[str, Lock, LocationPlan], CleanedLocation]
    ) -> CleanedLocation:
        answer = CleanedLocation.planned(part)
        root = join(self.root, part.path)
        if answer.outcome is not Outcome.PLANNED:
            self._tidy(root, part.kept)
            return answer
        try:
            with self._lock(root) as lock:
                listing, said = self._recovered(root, lock)
                fresh = self._judge(listing, part.partition, part.path, again=part)
                if not fresh.holds:
                    return replace(CleanedLocation.planned(fresh), notes=said)
                lock.check()
                done = act(root, lock, fresh)
                # What a dead run had left is gone by now, and was promised.
                dead = tuple(v for v in part.victims if v.reason_code == "work_dead" and _is_gone(v, listing))
                return replace(done, victims=(*done.victims, *dead), notes=(*done.notes, *said))
        except AcidctlError as error:
            return replace(
                answer,
                outcome=Outcome.FAILED,
                victims=(),
                kept=(*part.kept, *_left(part.victims)),
                problem=Problem.of(error),
            )

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

        def away(name: str) -> None:
            move(self.storage, join(root, name), join(work, f"{REMOVED}/{name}"))

        answer = _one_by_one(answer, fresh.victims, away)
        try:
            remove_work(self.storage, work)
        except AcidctlError as error:
            # Out of every reader's sight it is; the space comes back with the next run.
            problem = answer.problem or Problem.of(error)
            return replace(answer, outcome=Outcome.FAILED, problem=problem)
        return answer

    def _discard(self, path: str) -> None:
        """Into the trash by one rename, so that no reader meets half of it."""
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
        answer = replace(CleanedLocation.planned(fresh), outcome=Outcome.QUARANTINED)
        if not fresh.victims:
            return answer
        base, place = base or boxes.default_base(root), canonical(self.storage, root)
        created = datetime.fromtimestamp(self.rules.now, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        manifest = boxes.Manifest(
            id=lock.id,
            created=created,
            location=place,
            partition=fresh.partition,
            write_ids=self.meet.write_ids.format(),
            txns="" if self.meet.txns is None else self.meet.txns.format(),
            entries=fresh.victims,
            within=canonical(self.storage, base) == boxes.default_base(place),
        )
        box = boxes.make_box(self.storage, base, manifest, like=root)
        answer = _one_by_one(answer, fresh.victims, lambda name: boxes.put(self.storage, root, box, name))
        if answer.problem is not None and not answer.victims:
            with suppress(AcidctlError):
                boxes.close_box(self.storage, box)
            if self.storage.stat(box.path) is None:
                hint = answer.problem.hint or "Name a directory on the table's own file system, or leave the name out."
                return replace(answer, problem=replace(answer.problem, hint=hint))
        return replace(answer, quarantine=self.storage.display(box.path))

    def _restore(self, listing: Listing, place: LocationPlan, found: Sequence[boxes.Box]) -> CleanedLocation:
        done = CleanedLocation(place.partition, Outcome.RESTORED, (), (), ())
        for box in found:
            one = self._restore_box(listing, place, box)
            done = replace(
                one,
                guards=done.guards or one.guards,
                victims=(*done.victims, *one.victims),
                kept=(*done.kept, *one.kept),
                problem=done.problem or one.problem,
            )
            if one.outcome is not Outcome.RESTORED:
                return done
            listing = list_location(self.storage, listing.root)
        return done

    def _restore_box(self, listing: Listing, place: LocationPlan, box: boxes.Box) -> CleanedLocation:
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
        merged = _merged(listing, content, {path for entry in wanted for path in entry.paths})
        seen = survey(merged, self.meet, self.kind, replace(self.rules, older_than=None))
        # What would be back lies in the box yet.
        boxed = dict.fromkeys((path for entry in wanted for path in entry.paths), content.root)
        evidence = look_into(self.storage, seen, boxed)
        plan = plan_location(seen, evidence, partition=place.partition, path=place.path)
        if not plan.holds:
            return CleanedLocation(place.partition, Outcome.GUARDED, plan.guards, (), (*kept, *_left(wanted)))
        harmless = {victim.name for victim in plan.victims if victim.because_of}
        why = "nothing that is there covers it, so readers would read it"
        kept += [replace(e, reason=why, reason_code="not_restored") for e in wanted if e.name not in harmless]
        answer = CleanedLocation(place.partition, Outcome.RESTORED, plan.guards, (), tuple(kept))
        chosen = [entry for entry in wanted if entry.name in harmless]
        root = listing.root
        answer = _one_by_one(answer, chosen, lambda name: boxes.take_back(self.storage, root, box, name))
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
            return replace(
                answer,
                outcome=Outcome.FAILED,
                victims=tuple(victims[:index]),
                kept=(*answer.kept, *_left(victims[index:])),
                problem=Problem.of(error),
            )
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
    for name, fingerprint in planned.covers:
        if covers.get(name, fingerprint) != fingerprint:
            return f"{name}, which covers what was to go, has changed since"
    return None


def _is_gone(victim: Entry, listing: Listing) -> bool:
    return not any(path == victim.name for path in listing.directories)


def _left(entries: Iterable[Entry]) -> tuple[Entry, ...]:
    return tuple(
        replace(entry, reason_code="left", reason=f"{entry.reason}, but was left in place") for entry in entries
    )


def _refusal(entry: Entry, paths: Iterable[str], there: frozenset[str]) -> str | None:
    """Why an entry must not come back, whatever covers it."""
    if entry.reason_code in _ABORTED:
        return "what was aborted is never restored: once Hive has forgotten the abort, it would look committed"
    if entry.reason_code not in _RESTORABLE:
        return "is no data of the table"
    taken = next((path for path in paths if path in there), None)
    return None if taken is None else f"{taken} exists already"


def _tops(listing: Listing) -> frozenset[str]:
    paths = (*listing.directories, *(info.path for info in listing.files))
    return frozenset(path.partition("/")[0] for path in paths)


def _merged(listing: Listing, content: Listing, tops: set[str]) -> Listing:
    """The listing with some top-level names of another beside its own."""

    def chosen(path: str) -> bool:
        return path.partition("/")[0] in tops

    files = (*listing.files, *(info for info in content.files if chosen(info.path)))
    return Listing(
        listing.root,
        tuple(sorted(files, key=lambda info: info.path)),
        tuple(sorted({*listing.directories, *(path for path in content.directories if chosen(path))})),
        {**listing.markers, **{path: text for path, text in content.markers.items() if chosen(path)}},
        {**listing.links, **{path: target for path, target in content.links.items() if chosen(path)}},
        {**listing.special, **{path: kind for path, kind in content.special.items() if chosen(path)}},
    )
