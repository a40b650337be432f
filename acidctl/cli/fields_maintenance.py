"""What the JSON objects of `compact` and `clean` hold; see `fields`."""

from __future__ import annotations

from acidctl.cli.described import ASSUMED, LOCATION, TYPE, VERSION, Described

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
        ("notes", "list", "what was said on stderr about the plan"),
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
        ("rows_in", "number or null", "sums over what was compacted"),
        ("rows_out", "number or null", "likewise"),
        ("bytes_in", "number or null", "likewise"),
        ("bytes_out", "number or null", "likewise"),
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
        ("dry_run", "boolean", "whether nothing was changed because nobody asked for it"),
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
        ("notes", "list", "what was said on stderr as notes"),
        ("warnings", "list", "what was said on stderr as warnings"),
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
        ("age_seconds", "number or null", "since anything in it last changed; null when nobody knows"),
    ),
)
