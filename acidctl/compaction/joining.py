"""The finished parts of a large bucket as one file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import BinaryIO

from acidctl.compaction.attempts import Attempt
from acidctl.compaction.spec import TaskResult, TaskSpec
from acidctl.compaction.verify import Expected
from acidctl.errors import DamagedDataError, VerificationError
from acidctl.format.events import EventBatch, Operation, keys_of
from acidctl.format.names import BASE_PREFIX, DELETE_DELTA_PREFIX
from acidctl.orc.acidmeta import TARGET
from acidctl.orc.reader import OrcFile, open_orc
from acidctl.orc.stitch import StripeRun, mismatch, stitch
from acidctl.orc.writer import Backend, WrittenFile, write_orc
from acidctl.storage.port import Storage, join
from acidctl.types.hive_types import StructType
from acidctl.types.schema import parse_type
from acidctl.types.stored_digest import combined


def join_parts(spec: TaskSpec, storage: Storage, root: str, *, threads: bool = True) -> TaskResult:
    """A task with role JOIN: stripes are copied as they are, the tail is made anew; see `compaction.task.run_task`.

    Parts that two ORC libraries wrote do not fit together and are written once more. Counts of what was read stay with
    the parts.
    """
    parts = [part for part in spec.parts if part.rows]
    if not parts:
        return TaskResult(spec.task.output, None, 0, 0)
    if len(parts) == 1:
        # It was verified, and its name is as unique as any.
        return replace(
            parts[0],
            output=spec.task.output,
            rows_in=0,
            hidden=0,
            deletes_applied=0,
            read=(),
            committed=(),
            hidden_ids=(),
        )
    counts: Counter[tuple[int, int]] = Counter()
    for part in parts:
        for write_id, bucket, rows in part.counts:
            counts[write_id, bucket] += rows
    columns = parse_type(spec.table.columns)
    assert isinstance(columns, StructType)
    metadata = {TARGET: spec.table.dialect.encode()}
    attempt = Attempt(storage, root, spec)
    with attempt.create() as sink, ExitStack() as stack:
        opened = [_opened(stack, storage, join(root, f"{spec.work}/{part.path}")) for part in parts]
        files = [orc for _, orc in opened]
        written: WrittenFile
        if any(mismatch(files[0].tail, orc.tail) for orc in files):
            settings = spec.table.writer
            written = write_orc(
                sink, _events(files), columns, settings, acid=True, metadata=metadata, backend=Backend.EXACT
            )
        else:
            written = stitch(sink, [StripeRun(stream, orc.tail) for stream, orc in opened])
    expected = Expected(
        rows=sum(part.rows for part in parts),
        digest=combined(part.digest for part in parts),
        columns=str(columns),
        counts=tuple((write_id, bucket, rows) for (write_id, bucket), rows in sorted(counts.items())),
        operation=Operation.DELETE if spec.task.output.startswith(DELETE_DELTA_PREFIX) else Operation.INSERT,
        collapsed=spec.task.output.startswith(BASE_PREFIX),
        bucket_id=spec.task.bucket_id,
        metadata=metadata,
    )
    return attempt.verified(written, expected, threads=threads)


def _opened(stack: ExitStack, storage: Storage, place: str) -> tuple[BinaryIO, OrcFile]:
    """A finished part, open for as long as the stack."""
    stream = stack.enter_context(storage.open(place))
    try:
        return stream, open_orc(stream, name=storage.display(place))
    except DamagedDataError as error:
        raise VerificationError(
            f"a part that had been verified has changed: {error.message}",
            path=storage.display(place),
            hint="Nothing of it is published; the table is as it was. Run compact again.",
        ) from error


def _events(files: Sequence[OrcFile]) -> Iterator[EventBatch]:
    """The events of the parts, in their order."""
    for orc in files:
        for batch in orc.scan():
            keys = keys_of(batch, name=orc.name)
            row = batch.column("row")
            deletes = keys.operation is not None
            columns = () if deletes else tuple(row.field(i) for i in range(row.type.num_fields))
            yield EventBatch(keys, columns)
