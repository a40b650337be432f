"""What the JSON objects of each command hold: the source of the page for those who write scripts.

The tests hold real answers against it, so a field can be neither forgotten here nor dropped there.
"""

from __future__ import annotations

from dataclasses import dataclass

# --- What a page about JSON objects is made of.


@dataclass(frozen=True, slots=True)
class Described:
    """One kind of object; a field is (name, type, meaning)."""

    title: str
    where: str
    fields: tuple[tuple[str, str, str], ...]


TYPE = ("type", "string", "which object this is; an object with another meaning gets another type")
VERSION = ("schema_version", "number", "1; fields are only ever added")
LOCATION = ("location", "string", "the table as it was named, without secrets")
ASSUMED = ("assumed", "list", "lists that were not given and count as everything committed: `write_ids`, `txns`")


# --- What the JSON objects of `compact` and `clean` hold; see `fields`.


COMPACT = Described(
    "`compact -o json`",
    "type `compaction_report`",
    (
        TYPE,
        VERSION,
        LOCATION,
        ("kind", "string", "minor or major"),
        ("target", "string", "which Hive has to read the result: `hive3` or `hive4`"),
        ("engine", "string", "`local` or `spark`; `none` when nothing was to be done"),
        ("visibility_txn", "number or null", "the transaction with which the result becomes visible"),
        ASSUMED,
        ("seconds", "number", "of the whole run, planning not counted"),
        ("notes", "list", "notes about the plan, as on stderr"),
        ("summary", "summary of a compaction", "what all partitions add up to"),
        ("partitions", "list of compacted partitions", "in the order of their paths"),
    ),
)
COMPACT_SUMMARY = Described(
    "Summary of a compaction",
    "`summary` of `compact`; sums over the partitions that were compacted",
    (
        ("partitions", "number", "all partitions of the run"),
        ("outcomes", "object", "how many partitions ended with which outcome"),
        ("directories_in", "number", "directories that were replaced; all original files of a partition count as one"),
        ("directories_out", "number", "directories that were published"),
        ("files_in", "number", "their data files"),
        ("files_out", "number", "data files that were written"),
        ("bytes_in", "number", "size of the files that were read"),
        ("bytes_out", "number", "size of the files that were written"),
        ("rows_in", "number", "stored rows that were read, deleted ones and those of aborted writes included"),
        ("rows_out", "number", "rows or events that were written"),
        ("deletes_applied", "number", "rows that delete events removed"),
        ("hidden", "number", "rows of aborted writes, left out"),
    ),
)
COMPACT_PARTITION = Described(
    "Compacted partition",
    "`partitions` of `compact`; a line of `-o jsonl`; a row of `-o csv`; the figures are null where nothing was read",
    (
        ("partition", "string", "on-disk text; empty for a table without partitions"),
        ("outcome", "string", "compacted, nothing_to_do, refused, failed"),
        (
            "reason_code",
            "string",
            "why it was not compacted, stable; of a failure the code of its error; `not_needed` below the thresholds "
            "of `--only-if-needed`; `max_bytes`, `max_partitions`, `max_runtime`, "
            "`storage_unreachable` where it was left for a later run",
        ),
        ("reason", "string", "the same in a sentence"),
        ("hint", "string or null", "of a failure: what to do now"),
        ("inputs", "list", "names of the directories that were, or would have been, replaced"),
        ("outputs", "list", "names of the directories that were published"),
        ("rows_in", "number or null", "stored rows that were read"),
        ("rows_out", "number or null", "rows or events that were written"),
        ("deletes_applied", "number or null", "rows that delete events removed"),
        ("hidden", "number or null", "rows of aborted writes, left out"),
        ("files_in", "number or null", "data files that were read"),
        ("files_out", "number or null", "data files that were written"),
        ("bytes_in", "number or null", "their size"),
        ("bytes_out", "number or null", "their size"),
        ("seconds", "number", "from lock to release; partitions are worked on at the same time"),
        ("peak_memory", "number or null", "bytes of the largest process that worked on it"),
        ("verified", "object or null", "what was proved before publishing, see below"),
        ("notes", "list", "sentences for the operator"),
    ),
)
COMPACT_VERIFIED = Described(
    "Proof of a compaction",
    "`verified` of a compacted partition",
    (
        ("files", "number", "files that were read back"),
        ("rows", "number", "rows in them"),
        ("groups", "number", "pairs of write id and bucket whose rows were counted"),
        (
            "digest",
            "string",
            "of all rows and row ids as they are stored: of the merged input and of what was written",
        ),
    ),
)
COMPACT_PLAN = Described(
    "Plan of a compaction",
    "`compact -n -o json`, type `compaction_plan`; what `--plan` takes. Other fields are for acidctl itself",
    (
        TYPE,
        VERSION,
        LOCATION,
        ("kind", "string", "minor or major"),
        ("target", "string", "`hive3` or `hive4`"),
        ("visibility_txn", "number or null", "the transaction with which the result becomes visible"),
        ("table", "object", "what every task has to know: kind of table, columns, codec"),
        ("partitions", "list of planned partitions", "all of them, also those without work"),
        ("write_ids", "string", "the reader's list; empty when everything counts as committed"),
        ("txns", "string", "the same for transactions"),
        ASSUMED,
        ("assume_exclusive", "boolean", "whether two renames are allowed, because nobody else uses the table"),
        ("notes", "list", "sentences for the operator"),
        ("options", "object", "what was asked for: `request`, `view` (lists, schema, kind of table), `partitions`"),
        ("hash", "string", "over everything else in the plan; `--plan` refuses one that was changed"),
    ),
)
COMPACT_PLAN_PARTITION = Described(
    "Planned partition",
    "`partitions` of a plan; a line of `compact -n -o jsonl`",
    (
        ("partition", "string", "on-disk text"),
        ("path", "string", "place below the table"),
        ("action", "string", "compact, nothing_to_do, refused"),
        ("reason_code", "string", "why, stable; as in the report"),
        ("reason", "string", "why, in a sentence"),
        ("inputs", "list", "`name`, `kind`, `min_write_id`, `max_write_id` and `files` of what would be replaced"),
        ("outputs", "list", "`name`, `kind` and `markers` of what would be published"),
        ("tasks", "list", "one a file: role, files, delete files, rows, bytes"),
        ("rows_in", "number", "stored rows by the footers"),
        ("bytes_in", "number", "bytes that would be read"),
        ("fingerprint", "string", "over names, sizes and times of the inputs"),
        ("notes", "list", "sentences for the operator"),
        ("failed", "boolean", "refused because looking into it went wrong"),
    ),
)
COMPACT_LOG = Described(
    "Run log, a partition",
    "a line that `compact --run-log` appends as soon as a partition is finished, type `compaction_log`; partitions in "
    "which nothing was to be done, or nothing was begun, have none",
    (
        TYPE,
        VERSION,
        ("run", "string", "the same in all lines of a run"),
        LOCATION,
        ("kind", "string", "minor or major"),
        ("partition", "string", "on-disk text; empty for a table without partitions"),
        ("started", "string", "when it was locked, ISO 8601 in UTC"),
        ("ended", "string", "when it was finished"),
        ("seconds", "number", "between them"),
        ("outcome", "string", "compacted, refused, failed"),
        ("reason_code", "string", "as in the report"),
        ("reason", "string", "as in the report"),
        ("error", "object or null", "of a failure: `code`, `message`, `hint`"),
        ("inputs", "list", "names of the directories that were replaced"),
        ("outputs", "list", "names of the directories that were published"),
        ("rows_in", "number or null", "stored rows that were read"),
        ("rows_out", "number or null", "rows or events that were written"),
        ("deletes_applied", "number or null", "rows that delete events removed"),
        ("hidden", "number or null", "rows of aborted writes, left out"),
        ("bytes_in", "number or null", "bytes that were read"),
        ("bytes_out", "number or null", "bytes that were written"),
        ("notes", "list", "sentences for the operator"),
    ),
)
COMPACT_RUN_LOG = Described(
    "Run log, the run",
    "the last line of each run, type `compaction_run_log`; of a run that was killed there is none",
    (
        TYPE,
        VERSION,
        ("run", "string", "the same in all lines of a run"),
        LOCATION,
        ("kind", "string", "minor or major"),
        ("started", "string", "ISO 8601 in UTC"),
        ("ended", "string", "ISO 8601 in UTC"),
        ("seconds", "number", "between them"),
        ("exit_code", "number", "what the command ended with"),
        ("error", "object or null", "why the whole run failed: `code`, `message`, `hint`"),
        ("partitions", "number or null", "all partitions of the run; null when it failed"),
        ("outcomes", "object", "how many partitions ended with which outcome"),
        ("rows_in", "number or null", "sum over what was compacted"),
        ("rows_out", "number or null", "sum over what was compacted"),
        ("bytes_in", "number or null", "sum over what was compacted"),
        ("bytes_out", "number or null", "sum over what was compacted"),
    ),
)
CLEAN = Described(
    "`clean -o json`",
    "type `clean_report`",
    (
        TYPE,
        VERSION,
        LOCATION,
        ("table_type", "string", "full, insert_only, originals, empty"),
        ("action", "string", "`show` (a dry run), `delete`, `quarantine`, `undo`"),
        ("dry_run", "boolean", "true where nothing was to be changed, only shown"),
        ("write_ids", "string", "what every reader sees: the lists combined"),
        ("txns", "string or null", "the same for transactions; null when no list was given"),
        ("retention_seconds", "number or null", "what is younger stays; null when ages were not looked at"),
        (
            "guards",
            "list of guards",
            "each once where it holds everywhere, else once for each partition where it fails",
        ),
        ("partitions", "list of cleaned partitions", "what became of each location"),
        ("victims", "list of cleaned entries", "what went, or came back; in a dry run what would go"),
        ("kept", "list of cleaned entries", "everything else"),
        ("bytes_freed", "number", "bytes of what was deleted; in a dry run of what would be"),
        ("deleted", "number", "entries that were deleted"),
        ("quarantined", "number", "entries that were moved away"),
        ("restored", "number", "entries that were brought back"),
        ("notes", "list", "the notes, as on stderr"),
        ("warnings", "list", "the warnings, as on stderr"),
    ),
)
CLEAN_GUARD = Described(
    "Guard",
    "`guards` of `clean`",
    (
        ("partition", "string or null", "where it fails; null when it holds everywhere"),
        ("guard", "string", "G1 to G9, `own_files`, `simulation`"),
        ("holds", "boolean", "where false, nothing there was touched"),
        ("why", "string", "in a sentence"),
    ),
)
CLEAN_PARTITION = Described(
    "Cleaned partition",
    "`partitions` of `clean`",
    (
        ("partition", "string", "on-disk text; empty for a table without partitions"),
        (
            "outcome",
            "string",
            "planned, nothing_to_do, guarded, deleted, quarantined, restored, failed, left (no time)",
        ),
        ("quarantine", "string or null", "the folder that holds what was moved away, or could not be brought back"),
        ("problem", "object or null", "of a failure: `code`, `message`, `hint`"),
        ("notes", "list", "what was done beside, such as removing what an interrupted run had left"),
    ),
)
CLEAN_ENTRY = Described(
    "Cleaned entry",
    "`victims` and `kept` of `clean`; a line of `-o jsonl` (`clean_entry`) and a row of `-o csv`, which add `outcome`: "
    "would_go, deleted, quarantined, restored, kept",
    (
        ("partition", "string", "on-disk text"),
        ("name", "string", "directory name; `(original files)` for all original files of a location"),
        ("kind", "string", "base, delta, delete_delta, original, marker, unrecognised"),
        ("reason", "string", "why it goes, or stays, in a sentence"),
        ("reason_code", "string", "the same, stable"),
        ("because_of", "list", "names of the entries that cover it"),
        ("bytes", "number", "size of all its files"),
        ("files", "number", "files below it, markers included"),
        ("age_seconds", "number or null", "since anything in it last changed; null when the storage does not say"),
    ),
)


_IDS = (
    ("min_write_id", "number or null", "first write id in the name; null for a base, which starts at the first write"),
    ("max_write_id", "number or null", "last write id in the name, inclusive"),
    ("statement_id", "number or null", "statement of a multi-statement write"),
    ("visibility_txn_id", "number or null", "transaction of the compaction that wrote the directory"),
)
_JUDGED = (
    ("state", "string", "live, obsolete, aborted, open, above_watermark, not_visible, unusable, hidden, unrecognised"),
    ("reason", "string", "why, in a sentence"),
    ("reason_code", "string", "the same, stable"),
    ("because_of", "list", "names of the entries that cause it"),
)

LS_SUMMARY = Described(
    "Summary",
    "`summary` of `ls` and of each of its partitions",
    (
        ("partitions", "number", "locations: partitions, or 1"),
        ("base", "string or null", "the live base, where there is one location and it has one"),
        ("bases", "number", "locations that have a live base"),
        ("deltas", "number", "live deltas"),
        ("delete_deltas", "number", "live delete deltas"),
        ("original_files", "number", "original files that are read"),
        ("entries", "number", "all entries"),
        ("states", "object", "how many entries are in each state that occurs"),
        ("files_live", "number", "files of live entries, markers included"),
        ("bytes_live", "number or null", "their size; null when the listing has no sizes"),
        ("reclaimable", "number", "obsolete and aborted entries"),
        ("files_reclaimable", "number", "their files"),
        ("bytes_reclaimable", "number or null", "their size"),
    ),
)
LS_ENTRY = Described(
    "Entry",
    "`entries` of `ls -o json`; a line of `ls -o jsonl` (`ls_entry`); a row of `ls -o csv`",
    (
        ("partition", "string", "on-disk text such as `ds=2026-01-01/hr=7`; empty for a table without partitions"),
        ("name", "string", "directory name; `(original files)` for all original files of a location"),
        ("kind", "string", "base, delta, delete_delta, original, marker, unrecognised"),
        *_IDS,
        *_JUDGED,
        ("files", "number", "files below the entry, markers included"),
        ("bytes", "number or null", "their size; null when the listing has no sizes"),
        ("rows", "number or null", "stored rows or delete events, with `--rows`"),
        ("modified", "string or null", "time of the newest file, ISO 8601 in UTC"),
        ("file_list", "list of files", "with `--long`"),
    ),
)
LS_FILE = Described(
    "File",
    "`file_list` of an entry",
    (
        ("path", "string", "relative to the partition"),
        ("kind", "string", "bucket, original, side_file, marker, other"),
        ("bytes", "number or null", "size"),
        ("modified", "string or null", "ISO 8601 in UTC"),
        ("bucket_id", "number or null", "bucket in the name"),
        ("attempt_id", "number or null", "task attempt in the name"),
        ("copy_number", "number or null", "number behind `_copy_`"),
        ("logical_length", "number or null", "how far the file is readable, when a side file says so"),
        ("rows", "number or null", "rows in its footer, with `--rows`"),
    ),
)
LS_PARTITION = Described(
    "Partition",
    "`partitions` of `ls --by-partition -o json`; a line of `-o jsonl` (`ls_partition`)",
    (
        ("partition", "string", "on-disk text"),
        ("summary", "summary", "figures of this partition"),
        ("readable", "boolean", "false when this snapshot cannot be read here (not enough history)"),
    ),
)
LS = Described(
    "`ls -o json`",
    "type `ls`",
    (
        TYPE,
        VERSION,
        LOCATION,
        ("profile", "string", "whose rules decided: `strict` or `hive4`"),
        ("table_type", "string", "full, insert_only, originals, empty"),
        ASSUMED,
        ("summary", "summary", "figures over all entries, shown or not"),
        ("entries", "list of entries", "in the order they were written"),
        ("partitions", "list of partitions", "with `--by-partition`, the worst first"),
        ("disagreements", "list", "`partition` and `message`: where Hive 4 itself would read something else"),
        ("gaps", "list", "`partition`, `message`, `hint`: where there is not enough history for this snapshot"),
        ("damaged", "list", "`partition`, `path`, `message` of files that `--rows` or `--long` found damaged"),
        ("notes", "list", "the notes, as on stderr"),
        ("warnings", "list", "the warnings, as on stderr"),
        (
            "doubts",
            "list",
            "those of the warnings that say why rows may be missing or come twice, and of entries that were not read",
        ),
    ),
)
DUMP = Described(
    "`dump`",
    "a file's report: `dump -o json` (a list when there are several files), a line of `dump -o jsonl`. Beside the "
    "fields below it has those of `orc-tools meta -j` under the same names, in the encoding of this page: null for "
    "what the writer did not note, dates and timestamps as elsewhere, NaN as a string",
    (
        TYPE,
        VERSION,
        ("fileName", "string", "the file as it was named"),
        ("status", "string", "OK, or FAILED for one of several files that cannot be read"),
        ("error", "object", "of a failed file: the fields of an error"),
        ("acid", "object", "what the ACID layer says, see below"),
    ),
)
DUMP_ACID = Described(
    "ACID layer",
    "`acid` of `dump`; the fields from `version` on are there when `is_acid` is true, `damage` also where it should be",
    (
        ("is_acid", "boolean", "whether the file holds ACID events"),
        (
            "file_name",
            "object",
            "what the name says: `kind` (bucket, original, unrecognised), `bucket_id`, ...",
        ),
        ("calendar", "string", "proleptic or hybrid: how days before 1582-10-15 are read, as Hive reads them"),
        ("calendar_marked", "boolean", "whether the file says so itself"),
        ("side_file", "object or null", "`name`, `length`, `logical_length` and `bytes_beyond` it"),
        ("version", "string or null", "`hive.acid.version`"),
        ("events", "object", "how many events of each operation there are"),
        ("stats", "object or null", "`hive.acid.stats`: how many the writer counted"),
        ("write_ids", "object or null", "`min` and `max` of the write ids that made the rows"),
        ("current_write_ids", "object or null", "`min` and `max` of the write ids that wrote the events"),
        (
            "buckets",
            "list",
            "each `bucket_property`, decoded, with its number of `events`",
        ),
        ("ordered", "boolean or null", "whether the events are in key order; null when they cannot be read"),
        ("key_index", "object", "`state`: matches, missing, differs, unreadable or not_checked; and `reason`"),
        ("stripes", "list", "`first_key`, `last_key` and `index_key` of each stripe, `events`"),
        ("damage", "string or null", "why the events cannot be read to the end, or the columns cannot be the file's"),
    ),
)
DUMP_EVENT = Described(
    "Event",
    "a line of `dump --events`",
    (
        ("operation", "string", "insert, update or delete; a number that is none of Hive's stays a number"),
        ("write_id", "number", "the write that made the row"),
        ("bucket_property", "number", "the packed bucket, as it is stored"),
        ("bucket_id", "number or null", "decoded; null when no codec version knows the value"),
        ("statement_id", "number or null", "decoded; null in codec version 0, which has none"),
        ("row_id", "number", "number of the row within its bucket and write"),
        ("current_write_id", "number", "the write that wrote the event"),
        ("row", "object or null", "the row; null in a delete"),
    ),
)
DECODE_BUCKET = Described(
    "`decode-bucket`",
    "a line of `-o jsonl`; with `-o json` they are the list `values`",
    (
        TYPE,
        VERSION,
        ("value", "number", "of a number: signed, as it stands in the column"),
        ("hex", "string", "of a number: its 32 bits"),
        ("version", "number", "of a number: codec version, 0 or 1"),
        ("bucket_id", "number", "of a number or a file name"),
        ("statement_id", "number or null", "of a number or a delta"),
        ("name", "string", "of a name"),
        ("kind", "string", "of a name: base, delta, delete_delta, bucket, original, side_file, marker, hidden"),
        *(item for item in _IDS if item[0] != "statement_id"),
        ("attempt_id", "number or null", "of a file name"),
        ("copy_number", "number or null", "of an original file"),
        ("data_file", "string", "of a side file: the file it belongs to"),
        ("reason", "string", "of a hidden name: what it is"),
    ),
)
SNAPSHOT_FILES = Described(
    "`snapshot --files -o json`",
    "type `snapshot`",
    (
        TYPE,
        VERSION,
        LOCATION,
        ASSUMED,
        ("partitions", "list", "one object a location, below"),
    ),
)
SNAPSHOT_PARTITION = Described(
    "Partition of a plan",
    "`partitions` of `snapshot --files`; a line of `-o jsonl`",
    (
        ("partition", "string", "on-disk text; empty for a table without partitions"),
        ("base", "string or null", "the base that is read"),
        ("deltas", "list", "insert deltas that are read, in order"),
        ("delete_deltas", "list", "delete deltas that apply"),
        ("originals", "list", "original files that are read"),
        ("excluded", "list", "`name`, `state`, `reason_code`, `reason`, `because_of` of everything else"),
    ),
)
SNAPSHOT_COUNT = Described(
    "`snapshot --count`, `--digest`",
    "type `snapshot`",
    (
        TYPE,
        VERSION,
        LOCATION,
        ASSUMED,
        ("rows", "number", "visible rows"),
        ("digest", "string", "`v1:` and 32 hexadecimal digits, with `--digest`"),
        ("partitions", "list", "`partition` and `rows`, with `--by-partition`"),
    ),
)
SNAPSHOT_ROW = Described(
    "A row",
    "a line of `snapshot -o jsonl`, an element of `-o json`, a row of `-o csv`",
    (
        ("ROW__ID", "object or null", "with `--row-id`: `writeid`, `bucketid`, `rowid`; null in insert-only tables"),
        ("(columns)", "any", "the table's columns, then its partition columns; see Values"),
    ),
)
ERROR = Described(
    "An error",
    "`error` of the object on stderr, with any machine form",
    (
        ("code", "string", "stable word"),
        ("message", "string", "one sentence"),
        ("path", "string or null", "what it is about"),
        ("hint", "string or null", "what to do now"),
    ),
)

__all__ = ["ALL"]

ALL = (
    LS,
    LS_SUMMARY,
    LS_ENTRY,
    LS_FILE,
    LS_PARTITION,
    SNAPSHOT_FILES,
    SNAPSHOT_PARTITION,
    SNAPSHOT_COUNT,
    SNAPSHOT_ROW,
    DUMP,
    DUMP_ACID,
    DUMP_EVENT,
    DECODE_BUCKET,
    COMPACT,
    COMPACT_SUMMARY,
    COMPACT_PARTITION,
    COMPACT_VERIFIED,
    COMPACT_LOG,
    COMPACT_RUN_LOG,
    COMPACT_PLAN,
    COMPACT_PLAN_PARTITION,
    CLEAN,
    CLEAN_GUARD,
    CLEAN_PARTITION,
    CLEAN_ENTRY,
    ERROR,
)
