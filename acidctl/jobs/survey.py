"""Look at a table as a compaction has to: which files hold what, by their tails alone, and a plan made of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from acidctl.plan import CompactionPlan
from acidctl.plan_request import CompactionRequest, TableView
from acidctl.storage.gather import Location
from acidctl.storage.port import Storage


def _unwatched(done: int, total: int | None) -> None:
    """No progress is shown."""


def make_plan(
    storage: Storage,
    root: str,
    locations: Sequence[Location],
    view: TableView,
    request: CompactionRequest,
    *,
    progress: Callable[[int, int | None], None] = _unwatched,
) -> CompactionPlan:
    """The plan of a whole run over the locations of the table at `root`; opens each file that it concerns once.

    Partitions come in the order of `locations`, stray ones are left out. `progress` is told how many files are
    done of how many. What is wrong with one of several partitions makes that one REFUSED; with a single location it
    is raised: NotEnoughHistoryError, DamagedDataError, StorageError. UsageError: no lists and nothing assumed, or
    options that contradict each other or the table.
    """
    raise NotImplementedError
