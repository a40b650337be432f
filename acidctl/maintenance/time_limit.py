"""How long a run may take: when it begins nothing more, and when it gives up what it has begun."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from acidctl.errors import UsageError

#: Seconds that what has begun gets to end, where nothing else was asked for.
GRACE = 300.0
#: Why a partition was left for a later run, in `reason_code`: `MAX_RUNTIME` for want of time, `UNREACHABLE` because the
#: storage has stopped answering.
BOUNDS = ("max_bytes", "max_partitions", "max_runtime", "storage_unreachable")
MAX_RUNTIME, UNREACHABLE = BOUNDS[2:]


class TimeUpError(BaseException):
    """The grace is over. No `Exception`: like an interrupt it has to get through whatever is at work."""


@dataclass(frozen=True, slots=True)
class TimeLimit:
    """`seconds` from `started` on nothing new is begun, `grace` seconds later nothing is waited for any more.

    `clock` counts seconds from anywhere, as `time.monotonic` does.
    """

    seconds: float
    grace: float
    started: float
    clock: Callable[[], float] = time.monotonic

    @classmethod
    def of(cls, seconds: float, grace: float = GRACE, *, clock: Callable[[], float] = time.monotonic) -> TimeLimit:
        """The limit of a run that starts now; UsageError for one that is over before it starts."""
        if seconds <= 0 or grace < 0:
            raise UsageError("--max-runtime has to be positive, and --grace not negative")
        return cls(seconds, grace, clock(), clock)

    @property
    def over(self) -> bool:
        """Whether nothing new is to be begun."""
        return self.clock() - self.started >= self.seconds

    def planning(self) -> Callable[[], bool]:
        """Says from now on when planning has to end: at half of what is left, or a run would only plan."""
        now = self.clock()
        until = now + max(0.0, self.started + self.seconds - now) / 2
        return lambda: self.clock() >= until

    @property
    def left(self) -> float:
        """Seconds until the grace is over; 0 when it is."""
        return max(0.0, self.started + self.seconds + self.grace - self.clock())
