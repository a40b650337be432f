"""Specs of tasks made straight from what lies in a location: what a plan would say, without its rules."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from acidctl.bucketcodec import decode
from acidctl.jobs.spec import TaskSpec
from acidctl.names import BaseDir, DeltaDir
from acidctl.plan import InputEntry, PlannedTask, Role, TableFacts, WriterSettings
from acidctl.sources import live_sources
from acidctl.state import AcidState, EntryKind, data_files, live_entries
from acidctl.storage.local import LocalStorage

WORK = "_acidctl_work_0123456789ab"


def inputs_of(state: AcidState) -> tuple[InputEntry, ...]:
    """All live entries of a state."""
    return tuple(
        InputEntry(entry.name, entry.kind.value, entry.min_write_id, entry.max_write_id, entry.files)
        for entry in live_entries(state)
    )


def buckets_of(root: str, state: AcidState) -> list[int]:
    """The bucket ids of all stored events, read from the files."""
    found: set[int] = set()
    inserts, deletes = live_sources(LocalStorage(), root, state)
    for source in (*inserts, *deletes):
        for batch in source.events(None, 65536):
            found |= {decode(int(value)).bucket_id for value in set(batch.keys.bucket.tolist())}
    return sorted(found)


def specs_of(
    root: Path | str,
    state: AcidState,
    columns: str,
    roles: Sequence[Role],
    *,
    write_ids: str = "",
    dialect: str = "hive4",
    buckets: Sequence[int] | None = None,
    writer: WriterSettings = WriterSettings(),
) -> list[TaskSpec]:
    """One spec per bucket and role, over all live files of the state; makes the work directory."""
    (Path(root) / WORK / "attempts").mkdir(parents=True, exist_ok=True)
    table = TableFacts(state.table_type.value, state.acid_v1, write_ids, columns, dialect, writer=writer)
    specs = []
    for role in roles:
        entries = inputs_of(state)
        if role is not Role.SURVIVING:
            wanted = EntryKind.DELETE_DELTA if role is Role.DELETES else EntryKind.DELTA
            entries = tuple(entry for entry in entries if entry.kind == wanted.value)
        files = tuple(file.info for entry in live_entries(state) for file in data_files(entry))
        mine = tuple(f for f in files if any(f in entry.files for entry in entries))
        rows = tuple(f.path for f in mine if not f.path.startswith("delete_delta") or role is Role.DELETES)
        deletes = tuple(f.path for f in mine if f.path not in rows)
        for bucket in buckets_of(str(root), state) if buckets is None else buckets:
            output = f"{_output(state, role)}/bucket_{bucket:05}"
            task = PlannedTask(role, output, bucket, rows, deletes, bytes_in=sum(f.size for f in mine))
            specs.append(TaskSpec(str(root), WORK, table, task, entries))
    return specs


def _output(state: AcidState, role: Role) -> str:
    ids = [parsed for entry in live_entries(state) if isinstance(parsed := entry.parsed, BaseDir | DeltaDir)]
    highest = max((p.write_id if isinstance(p, BaseDir) else p.max_write_id for p in ids), default=1)
    if role is Role.SURVIVING:
        return f"base_{max(highest, 1):07}"
    lowest = min(p.min_write_id for p in ids if isinstance(p, DeltaDir))
    prefix = "delete_delta" if role is Role.DELETES else "delta"
    return f"{prefix}_{lowest:07}_{highest:07}"
