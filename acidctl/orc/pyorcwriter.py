"""The exact backend: ORC's C++ writer through pyorc, value by value.

Slower than Arrow's by more than an order of magnitude, and able to write all that ORC can hold: moments before 1970
with fractions, NULL unions. Text goes through it as binary, since Hive's strings may be no UTF-8, and gets its type
back in the tail.
"""

from __future__ import annotations

from acidctl.events import EventBatch
from acidctl.hivetypes import StructType
from acidctl.orc.arrowwriter import Physical
from acidctl.orc.heldsink import HeldSink


class ExactBackend:
    """Writes pieces of any size; see `ArrowBackend` for the methods."""

    def __init__(self, sink: HeldSink, columns: StructType, physical: Physical, *, acid: bool) -> None:
        raise NotImplementedError

    def write(self, piece: EventBatch) -> tuple[int, ...]:
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError

    def abort(self) -> None:
        raise NotImplementedError
