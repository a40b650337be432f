"""What ends a run early: its time is over, or the storage has stopped answering."""

from __future__ import annotations

import time
from collections.abc import Callable

from acidctl.errors import AcidctlError, UnreachableError, UsageError
from acidctl.storage.port import Storage

#: Seconds that what has begun gets to end, where nothing else was asked for.
GRACE = 300.0
#: Why a partition was left for a later run, in `reason_code`: `MAX_RUNTIME` for want of time, `UNREACHABLE` because the
#: storage has stopped answering.
BOUNDS = ("max_bytes", "max_partitions", "max_runtime", "storage_unreachable")
MAX_RUNTIME, UNREACHABLE = BOUNDS[2:]
# One silent machine of several takes some partitions with it, seldom so many in a row; each costs minutes of waiting.
IN_A_ROW = 5
# The last second whose year has four digits, as texts and names have it.
_LAST_SECOND = 253402300799


def wall_clock() -> float:
    """Seconds since 1970; AcidctlError while the clock of this machine shows a time that Python cannot hold."""
    try:
        now = time.time()
    except OverflowError:
        now = -1.0
    return checked_time(now)


def checked_time(now: float) -> float:
    """The time, if it can be written as a date; AcidctlError otherwise."""
    if 0 <= now <= _LAST_SECOND:
        return now
    raise AcidctlError(
        "the clock of this machine shows a time outside of the years 1970 to 9999, so no age can be computed",
        hint="Set the clock; `date` shows it.",
    )


class TimeLimit:
    """`seconds` from now on nothing new is begun, `grace` seconds later nothing is waited for any more.

    `clock` counts seconds from anywhere, as `time.monotonic` does.
    """

    def __init__(self, seconds: float, grace: float = GRACE, *, clock: Callable[[], float] = time.monotonic) -> None:
        """UsageError for a limit that is over before it starts."""
        if seconds <= 0 or grace < 0:
            raise UsageError("--max-runtime has to be positive, and --grace not negative")
        self._clock = clock
        self._until = clock() + seconds
        self._last = self._until + grace

    @property
    def over(self) -> bool:
        """Whether nothing new is to be begun."""
        return self._clock() >= self._until

    def planning(self) -> Callable[[], bool]:
        """Says from now on when planning has to end: at half of what is left, or a run would only plan."""
        now = self._clock()
        until = now + max(0.0, self._until - now) / 2
        return lambda: self._clock() >= until

    @property
    def left(self) -> float:
        """Seconds until the grace is over; 0 when it is."""
        return max(0.0, self._last - self._clock())


class Reach:
    """Whether it is worth asking a storage for one more partition; its methods may be called by several threads.

    `gone`: it does not answer for the table itself. `stopped`: besides, `IN_A_ROW` partitions in a row found it silent,
    as where the NameNode is well and no DataNode gives data: what has not begun by then would only wait for the same.
    `heard`: it has given the data of some partition.
    """

    def __init__(self, storage: Storage, root: str) -> None:
        self._storage = storage
        self._root = root
        self._silent: set[str] = set()
        self.gone = False
        self.heard = False

    @property
    def stopped(self) -> bool:
        return self.gone or len(self._silent) >= IN_A_ROW

    def heed(self, partition: str, error: AcidctlError) -> None:
        """An error that became of a partition, by its path: silence counts, a refusal says nothing of others.

        One machine of many that is down takes some files with it, and the storage still answers for the table; a
        refusal is an answer, and so is "not found".
        """
        # An error of a worker need not have its type any more.
        if error.code != UnreachableError.code or self.stopped:
            return
        try:
            self._storage.stat(self._root)
        except AcidctlError as second:
            self.gone = second.code == UnreachableError.code
        self._silent.add(partition)

    def answered(self) -> None:
        """Data of some partition was read."""
        self.heard = True
        if not self.stopped:
            self._silent.clear()
