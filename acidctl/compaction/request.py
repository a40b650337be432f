"""What a user asks of `compact`, and what is known of the table when it is asked: values only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from acidctl.compaction.plan import CompactionKind, Target, decode, encode
from acidctl.errors import UsageError
from acidctl.format.write_ids import MAX_ID, ReaderLists, TxnListFormat
from acidctl.options import ReadView
from acidctl.state.resolve import Profile, TableGuess
from acidctl.types.schema import TableSchema

DEFAULT_SPLIT_BYTES = 1 << 30


@dataclass(frozen=True, slots=True)
class CompactionRequest:
    """The options of a run; None means that the table decides.

    `as_of` only records that the write ids come from `--as-of`. `split_bytes` is the size from which a bucket is
    divided. `max_bytes` bounds the inputs of the whole run and `max_partitions` the number of partitions; what goes
    beyond is left for a later one. With `only_if_needed` a partition whose deltas are below `delta_num` and `delta_pct`
    (None: as the table or Hive has it, see `thresholds`) is left alone. `drop_columns` names columns of files whose
    values the user's schema may cost.
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
    drop_columns: tuple[str, ...] = ()

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


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """All that a user asked for when a plan was made, as the plan records it."""

    request: CompactionRequest
    view: ReadView = ReadView()
    partitions: tuple[str, ...] = ()


def to_options(request: CompactionRequest, view: ReadView, partitions: Sequence[str]) -> dict[str, Any]:
    """The options of a plan as JSON values."""
    values: dict[str, Any] = encode(PlanOptions(request, view, tuple(partitions)))
    return values


def from_options(values: Mapping[str, Any]) -> PlanOptions:
    """The options that a plan records; UsageError for what none can be."""
    options = decode(PlanOptions, values, "plan.options")
    view = options.view
    formats = [None, *(form.value for form in TxnListFormat)]
    if view.profile not in [profile.value for profile in Profile] or view.list_format not in formats:
        raise UsageError("the plan is damaged at plan.options.view", hint="Make it anew with --plan-out.")
    return options


def check_options(request: CompactionRequest, view: TableView) -> None:
    """UsageError for values that cannot be, and options that exclude or need each other."""
    if request.drop_columns and view.schema is None:
        raise UsageError(
            "--drop-columns names columns that --schema does not keep, and there is no --schema",
            hint="Give the columns that the table has today with --schema; without it every column is kept.",
        )
    txn = request.visibility_txn
    if txn is not None and txn < 1:
        raise UsageError(f"--visibility-txn {txn}: transaction ids begin at 1")
    if txn is not None and txn >= MAX_ID:
        raise UsageError(
            f"--visibility-txn {txn} is no transaction id: they are 64 bit numbers, and the largest stands for none",
            hint="Give the id of the transaction that was opened for the compaction.",
        )
    if txn is not None and request.target is Target.HIVE3:
        raise UsageError(
            "--visibility-txn and --target hive3 exclude each other: Hive 3 cannot read names with _v",
            hint="Leave one of them out.",
        )
    if request.split_bytes < 1:
        raise UsageError(f"the size from which buckets are divided is {request.split_bytes}, it must be positive")
    if request.max_bytes is not None and request.max_bytes < 1:
        raise UsageError(f"--max-bytes {request.max_bytes}: it must be positive")
    if request.max_partitions is not None and request.max_partitions < 1:
        raise UsageError(f"--max-partitions {request.max_partitions}: it must be positive")


def window_missing(request: CompactionRequest, renames: bool, locks: bool) -> tuple[str, str] | None:
    """Code and reason where nothing keeps readers or other runs away, and the storage does not help."""
    if request.assume_exclusive:
        return None
    if not locks:
        return (
            "needs_exclusive_window",
            "this storage offers no way to lock the table against another run; use --assume-exclusive while nobody "
            "else uses the table",
        )
    if renames or request.visibility_txn is not None:
        return None
    return (
        "needs_exclusive_window",
        "this storage cannot rename, so the result comes file by file, and Hive reads it from the first one on; "
        "publish it under a transaction that is committed only afterwards (--visibility-txn), or with "
        "--assume-exclusive while nobody uses the table",
    )
