"""One location as `clean` judges it, before anything is opened: marks, ages, and what has to be looked at.

An entry younger than the retention is neither victim nor cover (guard G6); everything else about it still counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from acidctl.cleaning.leftovers import Leftover, find_leftovers, half_published
from acidctl.cleaning.rules import Classification, Label, Mark, Meet, classify, contains
from acidctl.format.listing import FileInfo, Listing
from acidctl.format.names import DeltaDir, DeltaKind, WriteIdRange
from acidctl.state.entries import Directory, Inventory
from acidctl.state.inventory import take_inventory
from acidctl.state.resolve import ORIGINALS_NAME, TableGuess

DEFAULT_RETENTION = 24 * 3600.0


@dataclass(frozen=True, slots=True)
class Rules:
    """What the user decides. `older_than` is in seconds, None for no retention at all; `now` in seconds since 1970.

    `highest_write_id` bounds the snapshot (guard G9). `leftovers` also removes what Hive's queries left behind.
    `no_cleanup` is what the DDL says, None when there was none; `table` is the table's name where it is known.
    """

    now: float
    older_than: float | None = DEFAULT_RETENTION
    highest_write_id: int | None = None
    leftovers: bool = False
    no_cleanup: bool | None = None
    table: str | None = None

    def is_young(self, modified: float | None) -> bool:
        """Whether something of that time is withheld; an unknown age is no age."""
        return self.older_than is not None and (modified is None or self.now - modified < self.older_than)


@dataclass(frozen=True, slots=True)
class Survey:
    """The judgement. `bare` is the classification without retention, `sight` the one that counts.

    `covers` are the directories because of which something goes; `one_sided` are deltas under a minor compaction of
    which only the half of the other kind is there, so that they may go only if they hold nothing.
    """

    listing: Listing
    inventory: Inventory
    meet: Meet
    kind: TableGuess
    rules: Rules
    times: Mapping[str, float | None]
    sight: Classification
    bare: Classification
    leftovers: Mapping[str, Leftover]
    covers: tuple[Directory, ...]
    one_sided: tuple[Directory, ...]

    @property
    def wanted_times(self) -> tuple[str, ...]:
        """Directories of victims and covers whose own time is not known yet."""
        names = {*self.bare.victims, *self.sight.victims, *self.leftovers}
        for seen in (self.bare, self.sight):
            names.update(n for mark in seen.marks.values() for n in mark.because_of)
        directories = {path for path in self.listing.directories if "/" not in path}
        return tuple(sorted((names & directories) - self.times.keys()))

    def modified(self, name: str, files: Iterable[FileInfo]) -> float | None:
        """When something last changed in an entry; None when that cannot be told."""
        times = [info.modified for info in files]
        if any(time is None for time in times):
            return None
        # A rename into place leaves the times of the files alone, so the directory's own counts as well.
        return max((t for t in (*times, self.times.get(name)) if t is not None), default=None)

    def mark(self, name: str, modified: float | None) -> Mark:
        """The mark that counts, in words that say so where only the retention keeps an entry."""
        mark, bare = self.sight.marks[name], self.bare.marks[name]
        if mark.label is Label.DELETE:
            return mark
        if bare.label is not Label.DELETE:
            return bare
        if not self.rules.is_young(modified):
            why = f"{bare.reason}, but that is younger than the retention"
            return Mark(Label.IGNORE, "cover_too_young", why, bare.because_of)
        if modified is None:
            return Mark(Label.IGNORE, "age_unknown", f"{bare.reason}, but its age is not known", bare.because_of)
        return Mark(Label.IGNORE, "too_young", f"{bare.reason}, but younger than the retention", bare.because_of)


def survey(
    listing: Listing,
    meet: Meet,
    kind: TableGuess,
    rules: Rules,
    *,
    times: Mapping[str, float | None] | None = None,
    dead: Iterable[str] = (),
) -> Survey:
    """Judge a listing; `times` are modification times of directories themselves, by name.

    `dead` names work directories whose owner is known to have ended. The caller adds `wanted_times` and calls
    again until there are none.
    """
    inventory = take_inventory(listing)
    capped = _capped(meet, rules.highest_write_id)
    bare = classify(inventory, capped, kind)
    halves = half_published(listing)
    lying = find_leftovers(inventory, halves, frozenset(dead), listing.linked_entries, leftovers=rules.leftovers)
    leftovers = {item.name: item for item in lying}
    first = Survey(listing, inventory, capped, kind, rules, dict(times or {}), bare, bare, leftovers, (), ())
    young = frozenset(name for name, files in _candidates(inventory) if rules.is_young(first.modified(name, files)))
    sight = classify(inventory, capped, kind, young) if young else bare
    by_name = {c.name: c for c in (*inventory.bases, *inventory.deltas)}
    because = {cause for name in sight.victims for cause in sight.marks[name].because_of}
    covers = tuple(by_name[name] for name in sorted(because))
    return replace(first, sight=sight, covers=covers, one_sided=tuple(_one_sided(covers, sight.settled)))


def _candidates(inventory: Inventory) -> Iterator[tuple[str, tuple[FileInfo, ...]]]:
    yield from ((c.name, c.files) for c in (*inventory.bases, *inventory.deltas))
    yield ORIGINALS_NAME, inventory.group_files


def _capped(meet: Meet, highest: int | None) -> Meet:
    ids = meet.write_ids
    if highest is None or highest >= ids.high_watermark:
        return meet
    open_ids = tuple(i for i in ids.open if i <= highest)
    aborted = tuple(i for i in ids.aborted if i <= highest)
    return replace(meet, write_ids=replace(ids, high_watermark=highest, open=open_ids, aborted=aborted))


def _one_sided(covers: Iterable[Directory], settled: Iterable[Directory]) -> Iterator[Directory]:
    """Deltas inside a covering delta that has no twin of their kind."""
    wide = [c.delta for c in covers if isinstance(c.parsed, DeltaDir)]
    held: dict[WriteIdRange, set[DeltaKind]] = {}
    deltas = [(candidate, candidate.delta) for candidate in settled]
    for _, delta in deltas:
        if delta.statement_id is None:
            held.setdefault(delta.range, set()).add(delta.kind)
    lacking = [(c, held.get(c.range, set())) for c in wide]
    lacking = [(c, kinds) for c, kinds in lacking if len(kinds) < len(DeltaKind)]
    for candidate, delta in deltas:
        if any(delta.kind not in kinds and contains(c, delta) for c, kinds in lacking):
            yield candidate
