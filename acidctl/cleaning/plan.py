"""What `clean` may remove, as data: victims with reason and cover, everything kept, and the guards that were held up.

Made of a survey and of what opened files have told (`Evidence`); carried out by `cleaning.removal`, which makes it
again right before it removes anything. Values only: no clock, no storage.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from acidctl.cleaning.candidates import Survey
from acidctl.cleaning.guards import Evidence, GuardResult, failing, judge
from acidctl.cleaning.rules import Label, Mark
from acidctl.compaction.plan import InputEntry, decode, encode, fingerprint_of
from acidctl.format.listing import FileInfo, Listing
from acidctl.format.names import BaseDir, DeltaDir, DeltaKind
from acidctl.state.inventory import take_inventory
from acidctl.state.resolve import ORIGINALS_NAME, EntryKind

PLAN_TYPE = "clean_plan"
SCHEMA_VERSION = 1


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry with what becomes of it; `label` is a `Label` value, `age_seconds` None where no time is known.

    `paths` are what has to be moved away to remove it, relative to the location, and `fingerprint` covers its files:
    both of victims only.
    """

    name: str
    kind: str
    label: str
    reason_code: str
    reason: str
    because_of: tuple[str, ...]
    files: int
    bytes: int
    age_seconds: float | None
    paths: tuple[str, ...] = ()
    fingerprint: str = ""


@dataclass(frozen=True, slots=True)
class LocationPlan:
    """What happens at one location; `path` is its place below the table ("" for the table itself).

    `victims` are in the order in which they go, and empty when a guard fails: then they stand among `kept`.
    `covers` are names and fingerprints of the directories because of which they go.
    """

    partition: str
    path: str
    guards: tuple[GuardResult, ...]
    victims: tuple[Entry, ...]
    kept: tuple[Entry, ...]
    covers: tuple[tuple[str, str], ...] = ()

    @property
    def holds(self) -> bool:
        """Whether every guard holds."""
        return all(guard.holds for guard in self.guards)

    @property
    def postponed(self) -> bool:
        """Whether there was no time to judge it."""
        return any(entry.reason_code == "max_runtime" for entry in self.kept)

    @property
    def fingerprint(self) -> str:
        """A hash over all victims and their covers; whatever else appears at the location does not matter."""
        named = (*((v.name, v.fingerprint) for v in self.victims), *self.covers)
        return fingerprint_of(InputEntry(name, text, None, None, ()) for name, text in named)


@dataclass(frozen=True, slots=True)
class CleanPlan:
    """A whole run; the lists are texts, `txns` empty where none was given, `retention_seconds` None for none."""

    location: str
    table_type: str
    write_ids: str
    txns: str
    retention_seconds: float | None
    locations: tuple[LocationPlan, ...]
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def victims(self) -> int:
        """How many entries may go."""
        return sum(len(part.victims) for part in self.locations)

    @property
    def bytes(self) -> int:
        """How much that frees."""
        return sum(victim.bytes for part in self.locations for victim in part.victims)

    @property
    def holds(self) -> bool:
        """Whether every guard holds everywhere."""
        return all(part.holds for part in self.locations)


def plan_location(seen: Survey, evidence: Evidence, *, partition: str = "", path: str = "") -> LocationPlan:
    """The plan of one location: victims only when every guard holds there."""
    entries = _entries(seen)
    results = judge(seen, evidence)
    victims = [entry for entry in entries if entry.label == Label.DELETE.value]
    kept = [entry for entry in entries if entry.label != Label.DELETE.value]
    failed = tuple(failing(results))
    if failed:
        kept += [_spared(entry, failed) for entry in victims]
        return LocationPlan(partition, path, results, (), tuple(kept))
    covers = tuple((c.name, _fingerprint(c.name, c.files)) for c in seen.covers)
    ranks = _ranks(seen)
    victims.sort(key=lambda entry: ranks.get(entry.name, (5, 0, entry.name)))
    return LocationPlan(partition, path, results, tuple(victims), tuple(kept), covers)


def untouched(listing: Listing, code: str, why: str, *, partition: str = "", path: str = "") -> LocationPlan:
    """The plan of a place where nothing is judged, and everything stays."""
    inventory = take_inventory(listing)
    mark = Mark(Label.IGNORE, code, why)
    found = [(c.name, c.kind, c.files) for c in (*inventory.bases, *inventory.deltas)]
    found += [(entry.name, entry.kind, entry.files) for entry in inventory.decided]
    if inventory.group_files:
        found.append((ORIGINALS_NAME, EntryKind.ORIGINAL, inventory.group_files))
    return LocationPlan(partition, path, (), (), tuple(_entry(*item, mark, None) for item in found))


def to_json(plan: CleanPlan) -> dict[str, Any]:
    """The plan as JSON values, `type` and `schema_version` first; `from_json` reads it back unchanged."""
    return {"type": PLAN_TYPE, "schema_version": SCHEMA_VERSION, **encode(plan)}


def from_json(values: Mapping[str, object]) -> CleanPlan:
    """The reverse of `to_json`; UsageError for what that does not make."""
    return decode(CleanPlan, values, "plan")


def _entries(seen: Survey) -> list[Entry]:
    """Every entry of the location exactly once."""
    found: list[Entry] = []
    judged = [(c.name, c.kind, c.files) for c in (*seen.inventory.bases, *seen.inventory.deltas)]
    if seen.inventory.group_files:
        judged.append((ORIGINALS_NAME, EntryKind.ORIGINAL, seen.inventory.group_files))
    now = seen.rules.now
    for name, kind, files in judged:
        modified = seen.modified(name, files)
        found.append(_entry(name, kind, files, seen.mark(name, modified), None if modified is None else now - modified))
    for item in seen.inventory.decided:
        modified = seen.modified(item.name, item.files)
        mark = Mark(Label.IGNORE, item.reason_code, item.reason, item.because_of)
        leftover = seen.leftovers.get(item.name)
        if leftover is not None:
            mark = leftover.mark(modified, now, seen.rules.older_than)
        age = None if modified is None else now - modified
        found.append(_entry(item.name, item.kind, item.files, mark, age))
    return found


def _entry(name: str, kind: EntryKind, files: tuple[FileInfo, ...], mark: Mark, age: float | None) -> Entry:
    going = mark.label is Label.DELETE
    paths: tuple[str, ...] = ()
    if going:
        originals = name == ORIGINALS_NAME
        paths = tuple(sorted({info.path.partition("/")[0] for info in files})) if originals else (name,)
    return Entry(
        name=name,
        kind=kind.value,
        label=mark.label.value,
        reason_code=mark.reason_code,
        reason=mark.reason,
        because_of=mark.because_of,
        files=len(files),
        bytes=sum(info.size for info in files),
        age_seconds=age,
        paths=paths,
        fingerprint=_fingerprint(name, files) if going else "",
    )


def _spared(entry: Entry, failed: tuple[str, ...]) -> Entry:
    verb = "does" if len(failed) == 1 else "do"
    reason = f"{entry.reason}, but {' and '.join(failed)} {verb} not hold here"
    return replace(entry, label=Label.IGNORE.value, reason_code="guard_failed", reason=reason, paths=(), fingerprint="")


def _fingerprint(name: str, files: Iterable[FileInfo]) -> str:
    return fingerprint_of([InputEntry(name, "", None, None, tuple(files))])


def _ranks(seen: Survey) -> dict[str, tuple[int, int, str]]:
    """What is aborted goes first, then bases from the oldest on, then originals, then deltas, then leftovers.

    A reader older than the meet, which needs them all, then fails for want of a base ("not enough history") at
    every point between; deltas first would let it read an old base and miss their rows in silence. Deletes go after
    inserts, so that what an interrupted run leaves never has rows without their deletes.
    """
    ranks = {ORIGINALS_NAME: (2, 0, ORIGINALS_NAME)}
    for candidate in (*seen.inventory.bases, *seen.inventory.deltas):
        name, parsed = candidate.name, candidate.parsed
        covered = bool(seen.sight.marks[name].because_of)
        if isinstance(parsed, BaseDir):
            ranks[name] = (1 if covered else 0, parsed.write_id, name)
        elif isinstance(parsed, DeltaDir):
            inserts = parsed.kind is DeltaKind.INSERT
            ranks[name] = ((3 if inserts else 4) if covered else 0, parsed.min_write_id, name)
    return ranks
