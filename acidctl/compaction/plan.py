"""Compaction plans as data: what is read, what is written, under which names, and what must still be so at the end.

A plan is the only way to change a table by `compact`. It is made by `planner` from a state, travels as JSON
(`--plan-out`, `--plan`), and is carried out by `jobs`, which refuses it when the inputs are not what they were. Values
only: no storage, no clock, no decision.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, fields
from enum import Enum
from types import UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin, get_type_hints

from acidctl.errors import ExitCode, StalePlanError, UsageError
from acidctl.findings import Finding, acceptance
from acidctl.format.listing import FileInfo
from acidctl.format.write_ids import Reader
from acidctl.options import CompactOptions
from acidctl.state.report import ASSUMED
from acidctl.state.resolve import TableGuess
from acidctl.types.schema import TableSchema
from acidctl.values import dataclass

PLAN_TYPE = "compaction_plan"
SCHEMA_VERSION = 1

Value = TypeVar("Value")


class CompactionKind(Enum):
    """What a compaction makes: wider deltas, or a base."""

    MINOR = "minor"
    MAJOR = "major"


class Target(Enum):
    """Which Hive has to read the result; it decides names, markers and codecs."""

    HIVE3 = "hive3"
    HIVE4 = "hive4"


class Action(Enum):
    """What a plan does with a partition."""

    COMPACT = "compact"
    NOTHING_TO_DO = "nothing_to_do"
    REFUSED = "refused"


# The note of a plan whose results are named after transactions that nobody has opened yet.
THROUGH_QUEUE = (
    "Through Hive's queue each partition gets a transaction of its own: the one in these names is an example, and "
    "--plan does not take this plan."
)


class NotPlannedError(Exception):
    """Why a location is not compacted: a stable code, a sentence, and whether it is refused or has nothing to do."""

    findings: tuple[Finding, ...] = ()

    def __init__(self, code: str, reason: str, action: Action = Action.REFUSED) -> None:
        super().__init__(reason)
        self.code, self.reason, self.action = code, reason, action

    @classmethod
    def of_findings(cls, findings: tuple[Finding, ...]) -> NotPlannedError:
        """Why what may not be believed is not compacted; there is one at least."""
        error = cls(findings[0].code, findings[0].sentence)
        error.findings = findings
        return error

    @property
    def hint(self) -> str | None:
        """What to do about doubts."""
        if not self.findings:
            return None
        return f"{self.findings[0].remedy} {acceptance(self.findings)}".rstrip()


class Role(Enum):
    """What a task writes.

    SURVIVING: rows with deletes applied (major). INSERTS, DELETES: events of one kind, nothing netted out (minor).
    ROWS: rows without row ids (insert-only ORC or Parquet). BYTES: files one after the other (insert-only text).
    JOIN: the parts of one output, stripe by stripe.
    """

    SURVIVING = "surviving"
    INSERTS = "inserts"
    DELETES = "deletes"
    ROWS = "rows"
    BYTES = "bytes"
    JOIN = "join"


@dataclass(frozen=True, slots=True, order=True)
class KeyCut:
    """A row id between two parts of a bucket: the part before it ends before this key, the next begins with it."""

    write_id: int
    bucket_property: int
    row_id: int


@dataclass(frozen=True, slots=True)
class InputEntry:
    """A live directory (or all original files together, `state.ORIGINALS_NAME`) whose content the output replaces.

    `files` are all its visible data and side files, paths relative to the location; `min_write_id` and `max_write_id`
    are those of its name, None for originals.
    """

    name: str
    kind: str
    min_write_id: int | None
    max_write_id: int | None
    files: tuple[FileInfo, ...]


@dataclass(frozen=True, slots=True)
class OutputDir:
    """A directory to be published; `markers` are (file name, content) and are written before the rename.

    `rows_in` is the number of stored events that its tasks have to read, delete events that are applied left out.
    """

    name: str
    kind: str
    markers: tuple[tuple[str, str], ...] = ()
    rows_in: int = 0


class Fate(Enum):
    """What is known of stripes before a task runs; UNDECIDED: their key columns decide when it does."""

    COPY = "copy"
    ENCODE = "encode"
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True)
class StripeChoice:
    """`count` adjacent stripes of a file, from number `first` on, of so many stored bytes, and what becomes of them.

    Of what is written anew `reason` says why (`compaction.stripes`, `orc.stitch.Obstacle`). Without a `file` they are
    those of all small files of a task together.
    """

    file: str
    first: int
    count: int
    bytes: int
    choice: Fate
    reason: str = ""


@dataclass(frozen=True, slots=True)
class PlannedTask:
    """One output file: `output` is `<directory>/<file>` below the location.

    `files` hold the rows, `delete_files` the delete events that may concern them (SURVIVING only); both are paths
    relative to the location. `cuts` divide the bucket into `len(cuts) + 1` parts. `rows_in` counts stored events of
    `files` by footers, `bytes_in` the bytes of all files. `stripes` is what is known of those of `files`; the task
    decides by itself.
    """

    role: Role
    output: str
    bucket_id: int | None
    files: tuple[str, ...]
    delete_files: tuple[str, ...] = ()
    rows_in: int = 0
    bytes_in: int = 0
    cuts: tuple[KeyCut, ...] = ()
    stripes: tuple[StripeChoice, ...] = ()


@dataclass(frozen=True, slots=True)
class PartitionPlan:
    """What happens to one location; of COMPACT the reason may be empty. `fingerprint`: see `fingerprint_of`."""

    partition: Annotated[str, "on-disk text"]
    path: Annotated[str, "place below the table, empty for the table itself"]
    action: Annotated[Action, "compact, nothing_to_do, refused"]
    reason_code: Annotated[str, "why, stable; as in the report"] = ""
    reason: Annotated[str, "why, in a sentence"] = ""
    inputs: Annotated[
        tuple[InputEntry, ...],
        "`name`, `kind`, `min_write_id`, `max_write_id` and `files` of what would be replaced",
    ] = ()
    outputs: Annotated[tuple[OutputDir, ...], "`name`, `kind` and `markers` of what would be published"] = ()
    tasks: Annotated[
        tuple[PlannedTask, ...], "one a file: role, files, delete files, rows, bytes, and what becomes of stripes"
    ] = ()
    rows_in: Annotated[int, "stored rows by the footers"] = 0
    bytes_in: Annotated[int, "bytes that would be read"] = 0
    fingerprint: Annotated[str, "over names, sizes and times of the inputs"] = ""
    notes: Annotated[tuple[str, ...], "sentences for the operator"] = ()
    failed: Annotated[bool, "refused because looking into it failed, with an error of that code"] = False
    hint: Annotated[str | None, "what to do about its findings"] = None
    findings: Annotated[
        tuple[Finding, ...], "why rows may be missing or come twice, as far as names and ends of files tell"
    ] = ()

    def left(self, why: NotPlannedError) -> PartitionPlan:
        """The plan as one that is not carried out."""
        others = (one.sentence for one in why.findings[1:])
        return PartitionPlan(
            self.partition,
            self.path,
            why.action,
            why.code,
            why.reason,
            notes=tuple(dict.fromkeys(note for note in (*self.notes, *others) if note != why.reason)),
            hint=why.hint,
            findings=why.findings,
        )


@dataclass(frozen=True, slots=True)
class WriterSettings:
    """Physical form of ORC outputs; sizes in bytes, `row_index_stride` in rows, `bloom_columns` names of columns.

    Stripes are a quarter of Hive's, because the next compaction copies those that nothing has touched.
    """

    compression: str = "zlib"
    stripe_size: int = 16 << 20
    block_size: int = 256 << 10
    row_index_stride: int = 10_000
    bloom_columns: tuple[str, ...] = ()
    bloom_fpp: float = 0.05


@dataclass(frozen=True, slots=True)
class TableFacts:
    """What every task of a plan has to know of the table.

    `write_ids` is the text of the list of which the compactor's is made (see `ValidWriteIds.compactor`), empty where
    everything counts as committed; `columns` is the text of a `struct<...>`; `dialect` is a `hive_types.Dialect` value;
    `file_format` is orc, parquet or text.
    """

    table_type: str
    acid_v1: bool
    write_ids: str
    columns: str
    dialect: str
    file_format: str = "orc"
    writer: WriterSettings = WriterSettings()


@dataclass(frozen=True, slots=True)
class CompactionPlan:
    """A whole run; `options` are made by `request.to_options`."""

    location: Annotated[str, "the table as it was named, without secrets"]
    kind: Annotated[CompactionKind, "minor or major"]
    target: Annotated[Target, "which Hive has to read the result: `hive3` or `hive4`"]
    visibility_txn: Annotated[int | None, "the transaction with which the result becomes visible"]
    table: Annotated[TableFacts, "what every task has to know: kind of table, columns, codec"]
    partitions: Annotated[tuple[PartitionPlan, ...], "all of them, also those without work"]
    write_ids: Annotated[str, "the reader's list; empty when everything counts as committed"] = ""
    txns: Annotated[str, "the same for transactions"] = ""
    assumed: Annotated[tuple[str, ...], ASSUMED] = ()
    assume_exclusive: Annotated[bool, "whether two renames are allowed, because nobody else uses the table"] = False
    notes: Annotated[tuple[str, ...], "sentences for the operator"] = ()
    not_looked_at: Annotated[
        tuple[str, ...], "codes of findings that only the run can find, for it reads the keys of all rows"
    ] = ()
    options: Annotated[
        Mapping[str, Any], "what was asked for: `request`, `view` (lists, schema, kind of table), `partitions`"
    ] = field(default_factory=dict)

    @property
    def exit_code(self) -> ExitCode:
        """What making the plan ends with, as a run would: 3 where something is refused, or went wrong."""
        refused = any(part.action is Action.REFUSED for part in self.partitions)
        return ExitCode.FINDINGS if refused else ExitCode.DONE


def is_within(plan: PartitionPlan, decided: PartitionPlan) -> bool:
    """Whether a plan of a location does no more than one that was decided before.

    Outputs have names that were decided; inputs were inputs, or lie within what those held together, as what a
    compaction has made of some of them.
    """
    known = {entry.name for entry in decided.inputs}
    ids = [i for entry in decided.inputs for i in (entry.min_write_id, entry.max_write_id) if i is not None]

    def held(entry: InputEntry) -> bool:
        if entry.name in known:
            return True
        low, high = entry.min_write_id, entry.max_write_id
        return bool(ids) and high is not None and high <= max(ids) and (low is None or min(ids) <= low)

    names = {output.name for output in decided.outputs}
    same_place = (plan.partition, plan.path) == (decided.partition, decided.path)
    return same_place and all(output.name in names for output in plan.outputs) and all(map(held, plan.inputs))


def fingerprint_of(entries: Iterable[InputEntry]) -> str:
    """A hash over names, paths, sizes and times of the inputs; what else appears in the location does not matter."""
    digest = hashlib.sha256()
    for entry in sorted(entries, key=lambda e: e.name):
        digest.update(f"{entry.name}\0{entry.kind}\n".encode("utf-8", "surrogateescape"))
        for info in sorted(entry.files, key=lambda f: f.path):
            line = f"{info.path}\0{info.size}\0{info.modified!r}\n"
            digest.update(line.encode("utf-8", "surrogateescape"))
    return digest.hexdigest()


def to_json(plan: CompactionPlan) -> dict[str, Any]:
    """The plan as JSON values, `type` and `schema_version` first; `from_json` reads it back unchanged.

    `hash` is over all the others, so that a plan that was changed on its way is known.
    """
    values = {"type": PLAN_TYPE, "schema_version": SCHEMA_VERSION, "hash": "", **encode(plan)}
    return {**values, "hash": hash_of(values)}


def hash_of(values: Mapping[str, Any]) -> str:
    """A hash over everything in a plan's JSON values but the hash itself, whatever the order of names."""
    others = {name: value for name, value in values.items() if name != "hash"}
    return "sha256:" + hashlib.sha256(json.dumps(others, sort_keys=True).encode("ascii")).hexdigest()


def from_json(values: object, *, accept_edited: bool = False) -> CompactionPlan:
    """A plan from JSON values; UsageError for everything that `to_json` does not make.

    StalePlanError where it is not as it was written, unless `accept_edited`: then it must not be carried out as it is
    (see `edited_plan`).
    """
    if isinstance(values, dict) and "hash" in values and not accept_edited and values["hash"] != hash_of(values):
        raise StalePlanError("the plan was changed after it was made", hint=_EDITED_HINT)
    if not isinstance(values, dict) or values.get("type") != PLAN_TYPE:
        kind = values.get("type") if isinstance(values, dict) else None
        what = f"is a {kind}" if isinstance(kind, str) else "is something else"
        raise UsageError(
            f"the plan {what}, not a {PLAN_TYPE}", hint="Make one with `acidctl compact ... --plan-out FILE`."
        )
    if values.get("schema_version") != SCHEMA_VERSION:
        raise UsageError(
            f"the plan has schema version {values.get('schema_version')!r}, this acidctl knows {SCHEMA_VERSION}",
            hint="Make a new plan with this version.",
        )
    if "hash" not in values and not accept_edited:
        raise StalePlanError("the plan has no hash: it was made by an older acidctl, or edited", hint=_EDITED_HINT)
    plan = decode(CompactionPlan, values, "plan")
    stray = next((path for part in plan.partitions for path in _paths(part) if not _is_inside(path)), None)
    if stray is not None:
        raise UsageError(
            f"the plan names {stray!r}, which does not lie inside the table",
            hint="Make one with `acidctl compact ... --plan-out FILE`, and leave it as it is.",
        )
    return plan


def _paths(part: PartitionPlan) -> Iterator[str]:
    """Every path of a plan by which something is read or written, all below the table or a location."""
    if part.path:
        yield part.path
    for entry in part.inputs:
        yield from (info.path for info in entry.files)
    for output in part.outputs:
        yield output.name
        yield from (f"{output.name}/{name}" for name, _ in output.markers)
    for task in part.tasks:
        yield from (task.output, *task.files, *task.delete_files)


def _is_inside(path: str) -> bool:
    return not {"", ".", ".."} & set(path.split("/"))


_EDITED_HINT = (
    "Make a new one with `acidctl compact ... --plan-out FILE`, or add --accept-edited if the change is meant: the "
    "plan is then compared with a new one."
)


def parse(text: str, *, accept_edited: bool = False) -> CompactionPlan:
    """A plan from the text of a plan file; UsageError when it is not, and see `from_json`."""
    try:
        return from_json(json.loads(text), accept_edited=accept_edited)
    except (ValueError, RecursionError) as error:
        raise UsageError("the plan is not JSON", hint="Make one with `acidctl compact ... --plan-out FILE`.") from error


def encode(value: Any) -> Any:
    """A value of this module as JSON values: dataclasses as objects, enums by value, tuples as lists."""
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, tuple):
        return [encode(item) for item in value]
    if hasattr(value, "__dataclass_fields__"):
        return {one.name: encode(getattr(value, one.name)) for one in fields(value)}
    return value


def decode(kind: type[Value], values: object, where: str) -> Value:
    """The dataclass `kind` from JSON values, unknown names ignored; UsageError names the place that does not fit."""
    if not isinstance(values, Mapping):
        raise _misfit(where)
    hints = get_type_hints(kind)
    given = {}
    for one in fields(kind):  # type: ignore[arg-type]
        if one.name in values:
            given[one.name] = _decode(hints[one.name], values[one.name], f"{where}.{one.name}")
    try:
        return kind(**given)
    except TypeError as error:
        raise _misfit(where) from error


def _decode(kind: Any, value: Any, where: str) -> Any:
    origin = get_origin(kind)
    if origin in (UnionType, Union):
        if value is None and type(None) in get_args(kind):
            return None
        kind = next(option for option in get_args(kind) if option is not type(None))
        return _decode(kind, value, where)
    if origin in (tuple, Sequence):
        if not isinstance(value, list):
            raise _misfit(where)
        kinds = get_args(kind)
        if origin is Sequence or (len(kinds) == 2 and kinds[1] is Ellipsis):
            return tuple(_decode(kinds[0], item, f"{where}[{i}]") for i, item in enumerate(value))
        if len(kinds) != len(value):
            raise _misfit(where)
        return tuple(_decode(one, item, where) for one, item in zip(kinds, value, strict=True))
    if origin is Mapping:
        if not isinstance(value, dict):
            raise _misfit(where)
        return value
    if isinstance(kind, type) and issubclass(kind, Enum):
        try:
            return kind(value)
        except ValueError as error:
            raise _misfit(where) from error
    if hasattr(kind, "__dataclass_fields__"):
        return decode(kind, value, where)
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise _misfit(where)
    return value


def _misfit(where: str) -> UsageError:
    return UsageError(
        f"the plan is damaged at {where}", hint="Make a new one with `acidctl compact ... --plan-out FILE`."
    )


# --- What a user asks of `compact`, and what is known of the table when it is asked: values only.


@dataclass(frozen=True, slots=True)
class TableView:
    """What is known before any file is opened: a reader's lists (already those of ACID v1 where the table is one), the
    kind of table, and its schema where the user gave one.

    `guess.ambiguous` is False where the user stated the kind, by option or by DDL.
    """

    lists: Reader
    guess: TableGuess
    schema: TableSchema | None = None


# What a plan records of the options, by the names that it has had since there are plans.
_REQUEST = (
    *("kind", "target", "visibility_txn", "assume_committed", "assume_exclusive", "as_of", "compression"),
    *("split_bytes", "max_bytes", "max_partitions", "only_if_needed", "delta_num", "delta_pct", "drop_columns"),
)
_VIEW = ("validtxns", "as_of", "table", "list_format", "profile", "schema", "table_type")


def to_options(options: CompactOptions) -> dict[str, Any]:
    """The options of a plan as JSON values."""

    def values(names: Sequence[str]) -> dict[str, Any]:
        return {name: encode(getattr(options, name)) for name in names}

    target = None if options.target == "auto" else options.target
    return {
        "request": {**values(_REQUEST), "target": target},
        "view": values(_VIEW),
        "partitions": encode(options.partitions),
    }


def from_options(values: Mapping[str, Any]) -> CompactOptions:
    """The options that a plan records; UsageError for what they cannot be."""
    hints = get_type_hints(CompactOptions)
    given: dict[str, Any] = {}
    for part, names in (("request", _REQUEST), ("view", _VIEW), ("", ("partitions",))):
        where = f"plan.options.{part}".rstrip(".")
        found = values.get(part) if part else values
        if not isinstance(found, Mapping):
            raise _misfit(where)
        given |= {
            name: _decode(hints[name], found[name], f"{where}.{name}")
            for name in names
            if name in found and (name != "target" or found[name] is not None)
        }
    try:
        return CompactOptions(**given)
    except (TypeError, UsageError) as error:
        raise _misfit("plan.options") from error


# --- The unit of work and what comes back: plain values that travel to worker processes and to Spark executors.

#: What the digest of a file that was put together byte by byte begins with, instead of `digest.VERSION`.
BYTES_DIGEST = "sha256:"


@dataclass(frozen=True, slots=True)
class TaskSpec:
    """One task, or one part of one.

    `url` and `storage_options` open the location; `work` is its work directory (a name below the location) in which
    `attempts/` exists. `inputs` are the entries of the task's own files and delete files, with no other files.
    `lower` (inclusive) and `upper` (exclusive) bound the keys of a part. For a JOIN, `parts` are the paths of the
    finished parts below the work directory, in key order. `hosts` are the machines that hold the most of what is read,
    the best first, where that is known. With `decode_copied` rows are decoded also of what is copied.
    `storage_options` may hold secrets, and are no part of any text made of this.
    """

    url: str
    work: str
    table: TableFacts
    task: PlannedTask
    inputs: tuple[InputEntry, ...]
    part: int | None = None
    lower: KeyCut | None = None
    upper: KeyCut | None = None
    parts: tuple[TaskResult, ...] = ()
    hosts: tuple[str, ...] = ()
    decode_copied: bool = False
    storage_options: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def output(self) -> str:
        """The file that it makes, below the location."""
        return self.task.output

    @property
    def bytes_in(self) -> int:
        """Bytes that it reads."""
        return self.task.bytes_in


@dataclass(frozen=True, slots=True)
class FileRead:
    """What a task has read of a file: the events that its tail promises, and those that came by bucket property.

    `path` is relative to the location. A part of a bucket reads a part of the file; the parts together all of it.
    """

    path: str
    rows: int
    buckets: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class StripeCounts:
    """What became of the stripes of a file: those that were copied, and those of its inputs that were written anew.

    Sizes in bytes, as stored. `reasons` counts stripes by why they were written anew, in any order. `decoded_rows` are
    those of `copied_rows` whose values were decoded before.
    """

    copied: int = 0
    copied_bytes: int = 0
    copied_rows: int = 0
    anew: int = 0
    reasons: tuple[tuple[str, int], ...] = ()
    decoded_rows: int = 0

    def __add__(self, other: StripeCounts) -> StripeCounts:
        reasons = Counter(dict(self.reasons)) + Counter(dict(other.reasons))
        return StripeCounts(
            self.copied + other.copied,
            self.copied_bytes + other.copied_bytes,
            self.copied_rows + other.copied_rows,
            self.anew + other.anew,
            tuple(sorted(reasons.items())),
            self.decoded_rows + other.decoded_rows,
        )


@dataclass(frozen=True, slots=True)
class TaskResult:
    """A finished task: what it read and what it wrote.

    `path` is the file below the work directory, unique to the attempt; None when there was nothing to write.
    `rows_in` counts the stored events that were read, `hidden` those of aborted writes, `deletes_applied` the rows that
    delete events removed, `deletes_unmatched` the rows that they name and no input holds. `counts` are (write id,
    bucket property, rows) of the output. `digest` is that of the merged
    input (`digest`), and equals that of the file read back: a task that finds otherwise fails. It is of the rows that
    were written anew, and not of those of stripes that were copied. `peak_memory` is in bytes, of the process that ran
    it, whose number is `process`; `phases` are its seconds (`acidctl.phases`).
    `fingerprints` are those of all stripes, of a part whose stripes are to be put together with those of others. `read`
    are the files of a full ACID table that were read, `committed` and
    `hidden_ids` the write ids whose events were taken or left out.
    """

    output: str
    path: str | None
    rows: int
    bytes: int
    rows_in: int = 0
    hidden: int = 0
    deletes_applied: int = 0
    deletes_unmatched: int = 0
    counts: tuple[tuple[int, int, int], ...] = ()
    digest: str = ""
    writer: str = ""
    seconds: float = 0.0
    peak_memory: int = 0
    process: int = 0
    phases: Mapping[str, float] = field(default_factory=dict)
    read: tuple[FileRead, ...] = ()
    committed: tuple[int, ...] = ()
    hidden_ids: tuple[int, ...] = ()
    fingerprints: tuple[str, ...] = ()
    stripes: StripeCounts = StripeCounts()

    @classmethod
    def nothing(cls, spec: TaskSpec) -> TaskResult:
        """The result of a task whose inputs hold no rows."""
        return cls(spec.output, None, 0, 0)
