"""The columns of an ACID file by name, apart from `events` so that counting rows needs no Arrow."""

from __future__ import annotations

#: Top-level field names of an ACID file, in file order (Hive: `OrcRecordUpdater.ALL_ACID_ROW_NAMES`).
EVENT_FIELDS = ("operation", "originalTransaction", "bucket", "rowId", "currentTransaction", "row")
#: The fields that say which row an event concerns and who wrote it.
KEY_FIELDS = EVENT_FIELDS[:5]
