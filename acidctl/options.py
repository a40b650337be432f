"""What a user may ask for, each option once: its type, its default, its sentence, its name on the command line.

The click options, environment variables, keys of the configuration file, Python keywords and reference pages are made
of these classes. A field without a flag is for Python only. What stands on the command line alone is with its command.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, field, fields
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from acidctl.errors import UsageError
from acidctl.values import dataclass

# What agrees to a risk is taken from the command line only: neither from a variable nor from the configuration file.
_AGREEMENTS = frozenset(
    (
        *("delete", "quarantine", "undo", "yes", "skip_trash", "accept_edited", "accept_doubts", "drop_columns"),
        "overwrite",
    )
)

RETENTION = 24 * 3600.0
GRACE = 300.0
SPLIT_BYTES = 1 << 30

# Takes how much is done and of how much, None where nobody knows.
Progress = Callable[[int, int | None], None]


def unwatched(done: int, total: int | None) -> None:
    """No progress is shown."""


def is_safety_option(name: str) -> bool:
    """True for options that agree to a risk; `name` is the long form, with dashes or underscores."""
    name = name.strip("-").replace("-", "_")
    return name in _AGREEMENTS or name.startswith(("assume_", "unsafe_"))


class Option(NamedTuple):
    """How a field is asked for: its name on the command line, and what may stand there.

    `flags` are empty where the name is the field's own, with dashes. `form` names how a text is read (`size`,
    `duration`, ...: see `acidctl.cli.options`), `shown` is the default as a person writes it. `param` is the name in
    variables of one command (`ACIDCTL_LS_<PARAM>`), where it is not the flag's; `bare` what the flag alone stands for.
    """

    help: str
    flags: tuple[str, ...] = ()
    metavar: str | None = None
    choices: tuple[str, ...] = ()
    minimum: int | None = None
    maximum: int | None = None
    form: str = ""
    repeat: bool = False
    shown: str | None = None
    param: str | None = None
    bare: str | None = None


def option(default: Any, help: str, *flags: str, **settings: Any) -> Any:
    """A field of an options class; `settings` are those of `Option`."""
    return field(default=default, metadata={"option": Option(help, flags, **settings)})


def same_option(kind: Any, name: str) -> Any:
    """A field that is asked for as that of another options class is."""
    one = next(one for one in fields(kind) if one.name == name)
    return field(default=one.default, metadata=one.metadata)


def option_of(one: Any) -> Option | None:
    """How a dataclass field is asked for, if it is."""
    found: Option | None = one.metadata.get("option")
    return found


def _check(options: Any) -> None:
    for one in fields(options):
        value, asked = getattr(options, one.name), option_of(one)
        if asked is None:
            continue
        if asked.choices and isinstance(value, str | Enum):
            value = value.value if isinstance(value, Enum) else value.lower()
            object.__setattr__(options, one.name, value)
        if (asked.repeat or asked.form == "names") and not isinstance(value, Mapping | None):
            object.__setattr__(options, one.name, (value,) if isinstance(value, str) else tuple(value))
        elif asked.choices and value not in (None, *asked.choices):
            raise UsageError(f"unknown {one.name} {value!r}; expected {either(asked.choices)}")


# Apart from the other settings, so that type checkers know the arguments of each class.
NO_INIT: Any = {"init": False}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False, **NO_INIT)
class ReadView:
    """Whose view of which part of a table is asked for: which lists, whose rules, and what is known of the table."""

    partitions: Sequence[str] = option(
        (),
        "Only partitions with these values (`*` and `?` allowed); repeatable.",
        "--partition",
        metavar="KEY=VALUE[/...]",
        repeat=True,
    )
    validtxns: Sequence[str] = option(
        (),
        "Snapshot to read: Hive's write-id list and/or transaction list. Repeat for each list.",
        metavar="TEXT|@FILE|@-",
        form="texts",
        repeat=True,
    )
    as_of: int | None = option(None, "Short for: write ids up to N, all committed.", metavar="N", minimum=0)
    table: str | None = option(
        None,
        "Which table this is: its list is used, and one of another table is refused, whatever the directory is called.",
        metavar="DB.NAME",
        param="table_name",
    )
    list_format: str | None = option(
        None, "Format of --validtxns, if it is ambiguous.", choices=("hive2", "hive3", "hive4")
    )
    profile: str = option("strict", "Rules: strict (safe) or hive4 (exactly as Hive 4).", choices=("strict", "hive4"))
    schema: str | None = option(
        None, "The columns as Hive knows them, or the text of SHOW CREATE TABLE.", metavar="TEXT|@FILE", form="text"
    )
    table_type: str = option("auto", "What kind of transactional table it is.", choices=("auto", "full", "insert-only"))

    if not TYPE_CHECKING:
        # One for all: each command would spend as long on making one for each class as on its work.
        def __init__(self, *positional: Any, **given: Any) -> None:
            known = {one.name: one for one in fields(self)}
            places = [name for name, one in known.items() if not one.kw_only]
            if len(positional) > len(places) or not given.keys().isdisjoint(places[: len(positional)]):
                raise TypeError("too many arguments without a name")
            given.update(zip(places, positional, strict=False))
            for name in given.keys() - known.keys():
                raise TypeError(f"unknown argument {name!r}; expected one of {', '.join(known)}")
            for name, one in known.items():
                if given.setdefault(name, one.default) is MISSING:
                    raise TypeError(f"argument {name!r} is missing")
                object.__setattr__(self, name, given[name])
            self.__post_init__()

    def __post_init__(self) -> None:
        """One text stands for a list of one, and an enum for its value; UsageError for a choice that there is not."""
        _check(self)

    @classmethod
    def of(cls, *positional: Any, **given: Any) -> Self:
        """The same as the constructor, whatever the class."""
        return cls(*positional, **given)

    def keywords(self) -> dict[str, Any]:
        """The keyword arguments by which a method of `Table` takes them."""
        return {one.name: getattr(self, one.name) for one in fields(self)}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False, **NO_INIT)
class SnapshotOptions(ReadView):
    """Whose view is read, and what becomes of rows that may be missing or come twice."""

    strict: bool = option(False, "An error where rows may be missing or come twice, instead of rows and exit code 3.")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False, **NO_INIT)
class LsOptions(ReadView):
    """What is asked of a listing; `progress` counts directories whose files were opened."""

    long: bool = option(False, "Show the files of every directory.", "-l", "--long")
    rows: bool = option(False, "Count rows; opens the end of every data file.")
    progress: Progress = unwatched


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False, **NO_INIT)
class ChangeOptions(ReadView):
    """What `compact` and `clean` have in common; `progress` counts what was looked into while planning."""

    assume_exclusive: bool = option(False, "Nobody else reads or writes the table during this run.")
    unsafe_break_lock: bool = option(False, "Take over the lock of a run elsewhere that is known to have ended.")
    max_runtime: float | None = option(
        None,
        "Start no new partition after DURATION: 45s, 90m, 2h. What is left is reported, exit code 3.",
        metavar="DURATION",
        form="duration",
    )
    progress: Progress = unwatched


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False, **NO_INIT)
class CompactOptions(ChangeOptions):
    """What is asked of a compaction; sizes are in bytes, times in seconds. None means that the table decides."""

    kind: str = field(
        kw_only=False, metadata={"option": Option("minor or major", choices=("minor", "major"), form="argument")}
    )
    target: str = option(
        "auto",
        "Which Hive has to read the result; auto takes the one that wrote the table.",
        choices=("auto", "hive3", "hive4"),
    )
    visibility_txn: int | None = option(
        None, "Make the result visible with this transaction (`_v` names, Hive 4 only).", metavar="TXN", minimum=1
    )
    assume_committed: bool = option(False, "Everything on disk is committed; needed where no list is given.")
    compression: str | None = option(
        None, "Codec of the result.  [default: that of the table]", choices=("none", "zlib", "snappy", "lz4", "zstd")
    )
    split_bytes: int = SPLIT_BYTES  # from this size on a bucket is divided between tasks
    max_bytes: int | None = option(
        None, "Stop before reading more than SIZE in this run (whole partitions).", metavar="SIZE", form="size"
    )
    max_partitions: int | None = option(
        None, "Compact at most N partitions, those with the most deltas first.", metavar="N", minimum=1
    )
    only_if_needed: bool = option(False, "Leave partitions alone whose deltas are below both thresholds.")
    delta_num: int | None = option(
        None,
        "More deltas than this need a compaction.  [default: the table's property, else Hive's 10]",
        "--delta-num-threshold",
        metavar="N",
        minimum=0,
    )
    delta_pct: float | None = option(
        None,
        "Major: compact when deltas exceed this fraction of the base's size.  [default: the table's, else Hive's 0.1]",
        "--delta-pct-threshold",
        metavar="FRACTION",
        form="fraction",
    )
    drop_columns: Sequence[str] = option(
        (),
        "Columns of the files, separated by commas, whose values --schema may lose for good; others are refused.",
        metavar="NAMES",
        form="names",
    )
    accept_doubts: Sequence[str] = option(
        (),
        "Findings, by their codes, because of which partitions are not to be refused in this run.",
        metavar="CODE,...",
        form="names",
    )
    decode_copied: bool = option(
        False,
        "Decode the rows of stripes that are copied too, and hold them against their statistics, before publishing.",
    )
    grace: float = option(
        GRACE,
        "Extra time for partitions already running when --max-runtime ends.",
        metavar="DURATION",
        form="duration or 0",
        shown="5m",
    )
    engine: str = option(
        "auto",
        "Where the work is done: in processes of this machine, or as a Spark job.",
        choices=("auto", "local", "spark"),
    )
    master: str | None = option(None, "Spark's master: local[N], spark://..., yarn, k8s://...", metavar="URL")
    conf: Mapping[str, str] | None = option(
        None, "A Spark setting; repeatable.", "--spark-conf", metavar="KEY=VALUE", form="settings", repeat=True
    )
    parallelism: int | None = option(None, "Tasks at a time.  [default: one per core]", metavar="N", minimum=1)
    memory: int | None = option(None, "Memory of all workers together, such as 4G.", metavar="SIZE", form="size")

    @property
    def bounded(self) -> bool:
        """Whether something may be left for a later run."""
        return self.max_bytes is not None or self.max_partitions is not None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False, **NO_INIT)
class CleanOptions(ChangeOptions):
    """What is asked of a cleaning; `older_than` in seconds, None for no retention."""

    older_than: float | None = option(
        RETENTION,
        "Leave alone what is younger, and what only something younger covers: 90m, 24h, 7d.",
        metavar="AGE",
        form="age",
        shown="24h",
    )
    highest_write_id: int | None = option(None, "Ignore writes above N.", metavar="N", minimum=0)
    leftovers: bool = option(
        False, "Also old temporary folders of Hive's queries (_tmp_*, .hive-staging*), and old work without an owner."
    )
    unsafe_beside_hive: bool = option(
        False, "Of a table by name: clean although Hive's own Cleaner has compactions of it in hand."
    )
    skip_trash: bool = option(False, "Delete for good where the storage has a trash (HDFS), and free the space now.")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportOptions:
    """What is asked of an export: where to, in which form; `to` is empty where nothing is exported.

    For Python `storage_options` are those of the target, and
    `spark` is an existing session.
    """

    to: str = option(
        "",
        "Write the rows to a file (.parquet, .arrow, .csv, .jsonl; .csv.gz, .jsonl.zst, ...) or to a directory (ends "
        "in /), on any storage.",
        metavar="URL",
        form="URL",
    )
    format: str | None = option(
        None,
        "Form of the files of a directory.  [default: parquet]",
        choices=("parquet", "arrow", "csv", "jsonl"),
    )
    partitioned: bool = option(False, "A directory with a folder per partition, as Hive names them (ds=1/hr=2).")
    timestamps: str | None = option(
        None,
        "Timestamps in Parquet and Arrow: micro- or nanoseconds, or exact (a struct).  [default: us]",
        choices=("us", "ns", "exact"),
    )
    compression: str | None = option(
        None,
        "Codec of the files.  [default: zstd for Parquet, else by name]",
        choices=("none", "gzip", "snappy", "zstd"),
    )
    invalid_utf8: str = option(
        "refuse",
        "Strings that are not UTF-8: an error, replacement characters, or columns of bytes.",
        choices=("refuse", "replace", "binary"),
    )
    overwrite: bool = option(False, "Replace the file, or the directory of an export, that is there.")
    unsafe_overwrite_unlisted: bool = option(
        False, "With --overwrite: replace the directory of an export that has no list of its files (before 0.2)."
    )
    engine: str = option(
        "local",
        "Where a directory is written: by threads of this process, or by tasks of a Spark job.",
        choices=("local", "spark"),
    )
    master: str | None = same_option(CompactOptions, "master")
    conf: Mapping[str, str] | None = same_option(CompactOptions, "conf")
    spark: Any = None
    storage_options: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        """As those of `ReadView`."""
        _check(self)


def either(words: Sequence[str]) -> str:
    """`a, b or c`."""
    return " or ".join(filter(None, (", ".join(words[:-1]), words[-1])))
