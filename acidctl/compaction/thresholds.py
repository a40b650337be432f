"""Whether a compaction is due, by the thresholds of Hive's initiator (`Initiator.determineCompactionType`).

Hive compares sizes first: deltas of more than a tenth of the base ask for a major compaction. Then it counts: more than
ten delta and delete delta directories ask for a minor one, or for a major one where there is no base yet.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from acidctl.compaction.plan import CompactionKind
from acidctl.errors import UsageError
from acidctl.format.listing import FileInfo
from acidctl.state.resolve import AcidState
from acidctl.types.schema import TableSchema

#: Hive's `hive.compactor.delta.num.threshold`, of `HiveConf` in Hive 3.1 and 4.
DELTA_NUM = 10
#: Hive's `hive.compactor.delta.pct.threshold`, a fraction in spite of its name.
DELTA_PCT = 0.1

_NUM_KEY = "compactorthreshold.hive.compactor.delta.num.threshold"
_PCT_KEY = "compactorthreshold.hive.compactor.delta.pct.threshold"


@dataclass(frozen=True, slots=True)
class Thresholds:
    """What has to be exceeded: a number of directories, and a fraction of the base's size."""

    delta_num: int = DELTA_NUM
    delta_pct: float = DELTA_PCT


def thresholds(delta_num: int | None, delta_pct: float | None, schema: TableSchema | None) -> Thresholds:
    """What was asked for, else what the table's properties say (as Hive reads them), else Hive's defaults."""
    number = delta_num if delta_num is not None else _property(schema, _NUM_KEY, DELTA_NUM)
    fraction = delta_pct if delta_pct is not None else _property(schema, _PCT_KEY, DELTA_PCT)
    if number < 0 or fraction < 0:
        raise UsageError("the thresholds of --only-if-needed cannot be negative")
    return Thresholds(int(number), fraction)


def not_needed(state: AcidState, kind: CompactionKind, limits: Thresholds) -> str | None:
    """Why no compaction is due, None when one is; `state` is what the compactor sees.

    The base's size is that of its files, or of the original files where there is none (Hive 4; Hive 3.1 adds both). A
    minor compaction shrinks nothing, so for it only the number counts; a major one is due by either.
    """
    base = _size(state.base.files) if state.base is not None else _size(state.originals)
    deltas = sum(_size(entry.files) for entry in state.deltas)
    count = len(state.deltas)
    large = kind is CompactionKind.MAJOR and base > 0 and deltas / base > limits.delta_pct
    if large or count > limits.delta_num:
        return None
    said = f"{count} of them, and more than {limits.delta_num} are asked for"
    if base > 0:
        said += f"; their size is {deltas / base:.1%} of the base's"
        if kind is CompactionKind.MAJOR:
            said += f", and more than {limits.delta_pct:.1%} is asked for"
    return f"the deltas are below the thresholds of --only-if-needed: {said}"


def _size(files: tuple[FileInfo, ...]) -> int:
    return sum(info.size for info in files)


def _property(schema: TableSchema | None, key: str, default: float) -> float:
    """A number of a table property; what is no number counts as not set."""
    text = None if schema is None else schema.table_property(key)
    try:
        number = default if text is None else float(text)
    except ValueError:
        return default
    return number if math.isfinite(number) else default
