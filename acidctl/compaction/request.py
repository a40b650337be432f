"""What a user asks of `compact`, and what is known of the table when it is asked: values only."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from acidctl.compaction.plan import CompactionKind, Target, WriterSettings, decode, encode
from acidctl.errors import UsageError
from acidctl.format.listing import FileInfo
from acidctl.format.write_ids import MAX_ID, Reader, TxnListFormat
from acidctl.options import ReadView
from acidctl.state.resolve import AcidState, Profile, TableGuess
from acidctl.types.hive_types import StructType
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

    lists: Reader
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


# --- Whether a compaction is due, by the thresholds of Hive's initiator (`Initiator.determineCompactionType`).
#
# Hive compares sizes first: deltas of more than a tenth of the base ask for a major compaction. Then it counts: more
# than ten delta and delete delta directories ask for a minor one, or for a major one where there is no base yet.


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


# --- The physical form of outputs: what the options say, else the table's properties, else the files that are there.


CODECS = ("none", "zlib", "snappy", "lz4", "zstd")
# ORC 1.5, which Hive 3 carries, was there before zstd.
_HIVE3_CODECS = ("none", "zlib", "snappy", "lz4")
# A chunk's header has 23 bits for its length; a row group of less than 1000 rows is refused by ORC itself.
_MAX_BLOCK = (1 << 23) - 1
_MAX_STRIPE = 1 << 40
_MIN_STRIDE, _MAX_STRIDE = 1000, 1 << 30
# Writers hold a filter for a whole row group of each column, however few rows there are.
_MAX_BLOOM_BYTES = 64 << 20


def writer_settings(
    asked: str | None, schema: TableSchema | None, found: str, columns: StructType
) -> tuple[WriterSettings, tuple[str, ...]]:
    """Settings and notes; `asked` is the option, `found` the codec of the newest input.

    Raises UsageError for an unknown codec and for properties with which Hive could not write either.
    """
    default = WriterSettings()
    if schema is None:
        codec = _codec(asked, "--compression") if asked is not None else _known(found)
        return WriterSettings(compression=codec), ()
    stated = schema.table_property("orc.compress")
    if asked is not None:
        codec = _codec(asked, "--compression")
    elif stated is not None:
        codec = _codec(stated, "orc.compress")
    else:
        codec = _known(found)
    blooms = [name.strip() for name in (schema.table_property("orc.bloom.filter.columns") or "").split(",")]
    names = {field.name.lower(): field.name for field in columns.fields}
    known = tuple(names[name.lower()] for name in blooms if name.lower() in names)
    missing = [name for name in blooms if name and name.lower() not in names]
    notes = tuple(f"orc.bloom.filter.columns names {name}, which is no column." for name in missing)
    settings = WriterSettings(
        compression=codec,
        stripe_size=_number(schema, "orc.stripe.size", default.stripe_size, 1, _MAX_STRIPE),
        block_size=_number(schema, "orc.compress.size", default.block_size, 1, _MAX_BLOCK),
        row_index_stride=_stride(schema, default.row_index_stride),
        bloom_columns=known,
        bloom_fpp=_fraction(schema, "orc.bloom.filter.fpp", default.bloom_fpp),
    )
    if _bloom_bytes(settings) > _MAX_BLOOM_BYTES:
        raise UsageError(
            f"the Bloom filters of one row group would take {_bloom_bytes(settings)} bytes",
            hint="Lower orc.row.index.stride, or raise orc.bloom.filter.fpp, in the text of --schema.",
        )
    return settings, notes


def _bloom_bytes(settings: WriterSettings) -> int:
    """What the filters of a row group take: n * -ln(p) / ln(2)^2 bits a column."""
    bits = settings.row_index_stride * -math.log(settings.bloom_fpp) / math.log(2) ** 2
    return round(bits / 8) * len(settings.bloom_columns)


def problem_of_settings(settings: WriterSettings, columns: StructType, target: Target) -> str | None:
    """Which of the settings cannot be, as the beginning of a sentence; None where all can."""
    stride = settings.row_index_stride
    known = {field.name for field in columns.fields}
    codecs = _HIVE3_CODECS if target is Target.HIVE3 else CODECS
    rules: tuple[tuple[str, Callable[[], bool], str], ...] = (
        ("compression", lambda: settings.compression in codecs, f"one of {', '.join(codecs)}"),
        ("stripe_size", lambda: 1 <= settings.stripe_size <= _MAX_STRIPE, f"a number from 1 to {_MAX_STRIPE}"),
        ("block_size", lambda: 1 <= settings.block_size <= _MAX_BLOCK, f"a number from 1 to {_MAX_BLOCK}"),
        (
            "row_index_stride",
            lambda: not stride or _MIN_STRIDE <= stride <= _MAX_STRIDE,
            f"0 or at least {_MIN_STRIDE}",
        ),
        ("bloom_columns", lambda: known.issuperset(settings.bloom_columns), "names of columns"),
        ("bloom_fpp", lambda: 0.0 < settings.bloom_fpp < 1.0, "a number between 0 and 1"),
        ("bloom_columns", lambda: _bloom_bytes(settings) <= _MAX_BLOOM_BYTES, "fewer, for so large row groups"),
    )
    return next((f"{name} must be {wanted}" for name, holds, wanted in rules if not holds()), None)


def unreadable_codec(asked: str | None, settings: WriterSettings, target: Target) -> tuple[str, str] | None:
    """Code and reason where the target cannot read the codec that the table states; UsageError for the option."""
    if target is not Target.HIVE3 or settings.compression in _HIVE3_CODECS:
        return None
    why = f"Hive 3 cannot read ORC files compressed with {settings.compression}"
    if asked is not None:
        raise UsageError(f"--compression {asked}: {why}", hint=f"Known to it are {', '.join(_HIVE3_CODECS)}.")
    return "unreadable_codec", f"{why}; choose another with --compression, zlib for one"


def _codec(text: str, where: str) -> str:
    name = text.strip().lower()
    if name not in CODECS:
        raise UsageError(f"{where} is {text!r}, which acidctl does not write", hint=f"Known are {', '.join(CODECS)}.")
    return name


def _known(found: str) -> str:
    return found if found in CODECS else WriterSettings().compression


def _number(schema: TableSchema, key: str, default: int, low: int, high: int) -> int:
    text = schema.table_property(key)
    if text is None:
        return default
    digits = text.strip()
    if not (digits.isascii() and digits.isdigit()) or len(digits) > 15 or not low <= int(digits) <= high:
        raise UsageError(f"the table property {key} is {text!r}, it must be a number from {low} to {high}")
    return int(digits)


def _stride(schema: TableSchema, default: int) -> int:
    stride = _number(schema, "orc.row.index.stride", default, 0, _MAX_STRIDE)
    if not stride or (schema.table_property("orc.create.index") or "").strip().lower() == "false":
        return 0
    if stride < _MIN_STRIDE:
        raise UsageError(f"the table property orc.row.index.stride is {stride}, ORC allows {_MIN_STRIDE} or more")
    return stride


def _fraction(schema: TableSchema, key: str, default: float) -> float:
    text = schema.table_property(key)
    if text is None:
        return default
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0.0 < value < 1.0:
        raise UsageError(f"the table property {key} is {text!r}, it must be a number between 0 and 1")
    return value
