"""What runs that died or failed have left in a location: no data, hidden from every reader, and in the way.

A work directory of acidctl goes when it is marked as failed, or when its owner is known to have ended. What Hive's
queries left (`_tmp_*`, `.hive-staging*`) cannot be told from what a running one needs, so it goes only on request.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from acidctl.plan_clean_rules import Label, Mark
from acidctl.state_types import Stock

WORK_PREFIX = "_acidctl_work_"
JOURNAL = "journal.json"
FAILED = "failed"
# A Hive worker that has not reported for a day is dead (hive.compactor.worker.timeout).
HIVE_TIMEOUT = 24 * 3600.0
_HIVE_PREFIXES = ("_tmp_", ".hive-staging", "_tmp.", "_task_tmp.")


@dataclass(frozen=True, slots=True)
class Leftover:
    """A hidden entry that may go by its age; `at_least` is the lowest age in seconds, None for those that stay."""

    name: str
    reason_code: str
    reason: str
    at_least: float | None = 0.0

    def mark(self, modified: float | None, now: float, older_than: float | None) -> Mark:
        """What becomes of it."""
        if self.at_least is None:
            return Mark(Label.IGNORE, self.reason_code, self.reason)
        if older_than is None:
            return Mark(Label.DELETE, self.reason_code, self.reason)
        if modified is None or now - modified < max(older_than, self.at_least):
            code = "too_young" if modified is not None else "age_unknown"
            return Mark(Label.IGNORE, code, f"{self.reason}, but younger than the retention")
        return Mark(Label.DELETE, self.reason_code, self.reason)


def find_leftovers(stock: Stock, dead: frozenset[str], *, leftovers: bool) -> Iterator[Leftover]:
    """Every hidden entry that a dead or failed run may have left; `dead` are work directories without a live owner."""
    for entry in stock.settled:
        files = {info.path for info in entry.files}
        if entry.name.startswith(WORK_PREFIX):
            yield _work(entry.name, files, entry.name in dead)
        elif entry.name.startswith(_HIVE_PREFIXES):
            reason = f"{entry.reason}, left behind"
            if leftovers:
                yield Leftover(entry.name, "temporary", reason, HIVE_TIMEOUT)
            else:
                yield Leftover(entry.name, "temporary", f"{entry.reason}; --leftovers removes old ones", None)


def half_published(stock: Stock) -> tuple[str, ...]:
    """Work directories with a journal: one half of a minor compaction may be in place without the other."""
    return tuple(
        entry.name
        for entry in stock.settled
        if entry.name.startswith(WORK_PREFIX) and any(i.path == f"{entry.name}/{JOURNAL}" for i in entry.files)
    )


def _work(name: str, files: set[str], dead: bool) -> Leftover:
    if f"{name}/{JOURNAL}" in files:
        return Leftover(name, "half_published", "a compaction by acidctl that `acidctl compact` has to complete", None)
    if f"{name}/{FAILED}" in files:
        return Leftover(name, "work_failed", "work directory of a compaction that failed; kept as evidence")
    if dead:
        return Leftover(name, "work_dead", "work directory of an acidctl run that has ended")
    return Leftover(name, "work", "work directory of an acidctl run that may still be working", None)
