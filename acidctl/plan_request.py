"""What a user asks of `compact`, and what is known of the table when it is asked: values only."""

from __future__ import annotations

from dataclasses import dataclass

from acidctl.plan import CompactionKind, Target
from acidctl.schema import TableSchema
from acidctl.state import TableGuess
from acidctl.writeids import ReaderLists

DEFAULT_SPLIT_BYTES = 1 << 30


@dataclass(frozen=True, slots=True)
class CompactionRequest:
    """The options of a run; None means that the table decides.

    `as_of` only records that the write ids come from `--as-of`. `split_bytes` is the size from which a bucket is
    divided. `max_bytes` bounds the inputs of the whole run and `max_partitions` the number of partitions; what goes
    beyond is left for a later one. With `only_if_needed` a partition whose deltas are below `delta_num` and `delta_pct`
    (None: as the table or Hive has it, see `plan_need`) is left alone.
    """

    kind: CompactionKind
    target: Target | None = None
    visibility_txn: int | None = None
    assume_committed: bool = False
    assume_exclusive: bool = False
    as_of: int | None = None
    compression: str | None = None
    split_bytes: int = DEFAULT_SPLIT_BYTES
    max_bytes: int | None = None
    max_partitions: int | None = None
    only_if_needed: bool = False
    delta_num: int | None = None
    delta_pct: float | None = None

    @property
    def bounded(self) -> bool:
        """Whether something may be left for a later run."""
        return self.max_bytes is not None or self.max_partitions is not None


@dataclass(frozen=True, slots=True)
class TableView:
    """What is known before any file is opened: a reader's lists (already those of ACID v1 where the table is one), the
    kind of table, and its schema where the user gave one.

    `guess.ambiguous` is False where the user stated the kind, by option or by DDL.
    """

    lists: ReaderLists
    guess: TableGuess
    schema: TableSchema | None = None
