"""What runs that died or failed have left in a location: no data, hidden from every reader, and in the way.

A work directory of acidctl goes when it is marked as failed, or when its owner is known to have ended. One that names
no owner, and what Hive's queries left (`_tmp_*`, `.hive-staging*`), cannot be told from what a running one needs, so
they go only on request, by age.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from acidctl.cleaning.rules import Label, Mark
from acidctl.format.listing import FileInfo, Listing
from acidctl.format.names import FAILED_NAME, WORK_PREFIX, is_journal
from acidctl.state.entries import Inventory
from acidctl.state.journal import is_unowned, journals_of, standing_of

# A Hive worker that has not reported for a day is dead (hive.compactor.worker.timeout).
HIVE_TIMEOUT = 24 * 3600.0
_HIVE_PREFIXES = ("_tmp_", ".hive-staging", "_tmp.", "_task_tmp.")


@dataclass(frozen=True, slots=True)
class Leftover:
    """A hidden entry that may go by its age; `at_least` is the lowest age in seconds, None for those that stay.

    `at_once`: nobody can need it any more, however young it is.
    """

    name: str
    reason_code: str
    reason: str
    at_least: float | None = 0.0
    at_once: bool = False

    def mark(self, modified: float | None, now: float, older_than: float | None) -> Mark:
        """What becomes of it."""
        if self.at_least is None:
            return Mark(Label.IGNORE, self.reason_code, self.reason)
        if older_than is None or self.at_once:
            return Mark(Label.DELETE, self.reason_code, self.reason)
        if modified is None or now - modified < max(older_than, self.at_least):
            code = "too_young" if modified is not None else "age_unknown"
            return Mark(Label.IGNORE, code, f"{self.reason}, but younger than the retention")
        return Mark(Label.DELETE, self.reason_code, self.reason)


def find_leftovers(
    inventory: Inventory, halves: frozenset[str], dead: frozenset[str], linked: frozenset[str], *, leftovers: bool
) -> Iterator[Leftover]:
    """Every hidden entry that a dead or failed run may have left.

    `halves` are the work directories of half published compactions, `dead` those whose owner has ended, `linked` the
    names that are symbolic links or hold some: acidctl makes none, so those are somebody else's.
    """
    for entry in inventory.decided:
        if entry.name in linked:
            if entry.reason_code != "foreign_link":
                yield Leftover(entry.name, "holds_link", f"{entry.reason}; holds a symbolic link, so it stays", None)
        elif entry.name.startswith(WORK_PREFIX):
            yield _work(
                entry.name, entry.files, half=entry.name in halves, dead=entry.name in dead, leftovers=leftovers
            )
        elif entry.name.startswith(_HIVE_PREFIXES) and leftovers:
            yield Leftover(entry.name, "temporary", f"{entry.reason}, left behind", HIVE_TIMEOUT)
        elif entry.name.startswith(_HIVE_PREFIXES):
            yield Leftover(entry.name, "temporary", f"{entry.reason}; --leftovers removes old ones", None)


def half_published(listing: Listing) -> frozenset[str]:
    """Work directories whose journal names outputs that are in place in part; an unread journal counts as such."""
    read = {journal.work for journal in journals_of(listing)}
    found = {journal.work for journal in journals_of(listing) if standing_of(journal, listing).half}
    journals = (info.path for info in listing.files if is_journal(info.path))
    unread = {path.partition("/")[0] for path in journals if path not in listing.markers} - read
    return frozenset(found | unread)


def _work(name: str, files: tuple[FileInfo, ...], *, half: bool, dead: bool, leftovers: bool) -> Leftover:
    if half:
        return Leftover(name, "half_published", "a compaction that `acidctl compact` has to complete or undo", None)
    if any(info.path == f"{name}/{FAILED_NAME}" for info in files):
        return Leftover(name, "work_failed", "work directory of a compaction that failed; kept as evidence")
    if dead:
        return Leftover(name, "work_dead", "left by an acidctl run that has died", at_once=True)
    if is_unowned(name, files):
        # Whoever removes it holds the lock; a run that has lost its own publishes nothing.
        why = "work directory that names no owner"
        if leftovers:
            return Leftover(name, "work_unowned", f"{why}, left behind", HIVE_TIMEOUT)
        return Leftover(name, "work_unowned", f"{why}; --leftovers removes old ones", None)
    return Leftover(name, "work", "work directory of an acidctl run that may still be working", None)
