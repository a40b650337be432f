"""Specs of tasks made straight from what lies in a location: what a plan would say, without its rules."""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from acidctl import open_table
from acidctl.compaction.plan import InputEntry, PlannedTask, Role, TableFacts, TaskSpec, WriterSettings
from acidctl.engine import Task
from acidctl.format.bucket_codec import decode, encode
from acidctl.format.events import EventBatch, EventKeys, Operation
from acidctl.format.names import MIN_LONG, SIDE_FILE_SUFFIX, BaseDir, DeltaDir, DeltaKind, format_base, format_delta
from acidctl.orc.stitch import StripeRun, stitch
from acidctl.orc.writer import write_orc
from acidctl.rows.source import live_sources
from acidctl.state.entries import AcidState
from acidctl.state.inventory import data_files, live_entries
from acidctl.storage.local import LocalStorage
from acidctl.types.schema import parse_schema

COLUMNS = "a bigint, b string"
_SETTINGS = WriterSettings()
STRIPE_ROWS = 50
WORK = "_acidctl_work_0123456789ab"


def inputs_of(state: AcidState) -> tuple[InputEntry, ...]:
    """All live entries of a state."""
    return tuple(
        InputEntry(entry.name, entry.kind.value, entry.min_write_id, entry.max_write_id, entry.files)
        for entry in live_entries(state)
    )


def buckets_of(root: str, state: AcidState) -> dict[str, set[int]]:
    """The bucket ids of the stored events of each file, read from the files."""
    found: dict[str, set[int]] = {}
    inserts, deletes = live_sources(LocalStorage(), root, state)
    for source in (*inserts, *deletes):
        path = source.name.removeprefix(root + "/")
        found[path] = {source.bucket_id or 0} if source.apart else set()
        if source.apart:
            continue
        for batch in source.events(None, 65536):
            found[path] |= {decode(value).bucket_id for value in set(batch.keys.bucket.tolist())}
    return found


def specs_of(
    root: Path | str,
    state: AcidState,
    columns: str,
    roles: Sequence[Role],
    *,
    write_ids: str = "",
    dialect: str = "hive4",
) -> list[TaskSpec]:
    """One spec per bucket and role, over all live files of the state; makes the work directory."""
    (Path(root) / WORK / "attempts").mkdir(parents=True, exist_ok=True)
    table = TableFacts(state.table_type.value, state.acid_v1, write_ids, columns, dialect, writer=_SETTINGS)
    specs: list[TaskSpec] = []
    buckets = buckets_of(str(root), state)
    infos = {file.info.path: file.info for entry in live_entries(state) for file in data_files(entry)}
    for bucket in sorted(set[int]().union(*buckets.values())):
        for role in roles:
            mine = [path for path, found in buckets.items() if bucket in found]
            deletes = tuple(path for path in mine if path.startswith("delete_delta"))
            rows = tuple(
                path
                for path in mine
                if path not in deletes and (role not in (Role.INSERTS,) or path.startswith("delta"))
            )
            if role is Role.DELETES:
                rows, deletes = deletes, ()
            if not rows:
                continue
            output = f"{_output(state, role)}/" + (f"{bucket:06}_0" if role is Role.ROWS else f"bucket_{bucket:05}")
            size = sum(infos[path].size for path in (*rows, *deletes))
            task = PlannedTask(role, output, bucket, rows, deletes, bytes_in=size)
            specs.append(TaskSpec(str(root), WORK, table, task, _own(inputs_of(state), {*rows, *deletes})))
    return specs


def _own(entries: Iterable[InputEntry], paths: set[str]) -> tuple[InputEntry, ...]:
    """The entries with those of these files, and their side files."""
    kept = (
        replace(entry, files=tuple(f for f in entry.files if f.path.removesuffix(SIDE_FILE_SUFFIX) in paths))
        for entry in entries
    )
    return tuple(entry for entry in kept if entry.files)


def _output(state: AcidState, role: Role) -> str:
    ids = [parsed for entry in live_entries(state) if isinstance(parsed := entry.parsed, BaseDir | DeltaDir)]
    highest = max((p.write_id if isinstance(p, BaseDir) else p.max_write_id for p in ids), default=MIN_LONG)
    if role in (Role.SURVIVING, Role.ROWS):
        return format_base(highest)
    lowest = min(p.min_write_id for p in ids if isinstance(p, DeltaDir))
    prefix = "delete_delta" if role is Role.DELETES else "delta"
    return f"{prefix}_{lowest:07}_{highest:07}"


def write_events(
    table: Path,
    directory: str,
    row_ids: Sequence[int],
    *,
    write_id: int,
    current: int | None = None,
    operation: Operation = Operation.INSERT,
) -> None:
    """A bucket file of events of rows of one write; `current` is that of an update or delete."""
    rows = np.asarray(row_ids, dtype=np.int64)
    same = np.full(len(rows), write_id)
    keys = EventKeys(
        same,
        np.full(len(rows), encode(0)),
        rows,
        np.full(len(rows), write_id if current is None else current),
        None if operation is Operation.INSERT else np.full(len(rows), int(operation)),
    )
    columns = pa.array(rows * 1000 + write_id), pa.array([f"row {number} of {write_id}" for number in row_ids])
    batch = EventBatch(keys, () if operation is Operation.DELETE else columns)
    # The writer makes no stripe as small as that.
    stripes = [_file(batch.slice(at, min(at + STRIPE_ROWS, len(batch)))) for at in range(0, len(batch), STRIPE_ROWS)]
    (table / directory).mkdir(parents=True, exist_ok=True)
    (table / directory / "_orc_acid_version").write_bytes(b"2")
    with (table / directory / "bucket_00000").open("wb") as sink:
        stitch(sink, [StripeRun.whole(io.BytesIO(data), name=directory) for data in stripes])


def _file(batch: EventBatch) -> bytes:
    sink = io.BytesIO()
    write_orc(sink, [batch], parse_schema(COLUMNS).columns, _SETTINGS, acid=True, metadata={})
    return sink.getvalue()


def task_specs(tasks: Sequence[Task]) -> list[TaskSpec]:
    """What an engine is given, for one that looks into tasks: the others know no more of them than `Task`."""
    specs = [task for task in tasks if isinstance(task, TaskSpec)]
    assert len(specs) == len(tasks)
    return specs


def small_table(table: Path, rows: int = 200) -> tuple[Path, AcidState, str]:
    """A table of one bucket with a base and three rounds of insert, delete, update (ids 2 to 10): path, state, columns.

    A round inserts a tenth of `rows`, deletes a tenth, and updates a tenth.
    """
    some = rows // 10
    write_events(table, "base_0000001_v0000010", range(rows), write_id=1)
    for turn in range(3):
        insert, delete, update = (2 + 3 * turn + i for i in range(3))
        deleted = range(2 * turn * some, (2 * turn + 1) * some)
        updated = range((2 * turn + 1) * some, (2 * turn + 2) * some)
        write_events(table, delta(insert), range(some), write_id=insert)
        write_events(table, "delete_" + delta(delete), deleted, write_id=1, current=delete, operation=Operation.DELETE)
        write_events(table, "delete_" + delta(update), updated, write_id=1, current=update, operation=Operation.DELETE)
        write_events(table, delta(update), range(some), write_id=update)
    return table, state_of(table), f"struct<{COLUMNS.replace(' ', ':')}>".replace(",:", ",")


def delta(write_id: int) -> str:
    """The name of the delta of one write."""
    return format_delta(DeltaKind.INSERT, write_id, write_id, 0)


def state_of(table: Path) -> AcidState:
    """What a reader of everything sees."""
    return open_table(str(table)).snapshot().partitions[0].state
