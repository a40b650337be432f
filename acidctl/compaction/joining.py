"""Files of stripes that are copied: of inputs that nothing touches, and of the finished parts of a large bucket."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from itertools import pairwise
from typing import Any, BinaryIO

from acidctl.compaction.attempts import Attempt
from acidctl.compaction.cross_check import wrong
from acidctl.compaction.inputs import PlainRows, TaskEvents
from acidctl.compaction.plan import StripeCounts, TaskResult, TaskSpec
from acidctl.compaction.stripes import CopiedStripe, CopyProof
from acidctl.compaction.verify import Expected, verify_joined
from acidctl.errors import DamagedDataError, InternalError, VerificationError
from acidctl.format.events import EventBatch, Operation, keys_of
from acidctl.format.names import BASE_PREFIX, DELETE_DELTA_PREFIX
from acidctl.orc.acidmeta import ACID_STATS, ACID_VERSION, TARGET
from acidctl.orc.reader import OrcFile, open_orc
from acidctl.orc.stitch import Stitcher, StripeRun, ends_of, first_key, like_of, mismatch, postscript_of, stitch
from acidctl.orc.tail import read_tail
from acidctl.orc.writer import Backend, Settings, WrittenFile, divided, write_orc
from acidctl.phases import phase
from acidctl.storage.port import Storage, join
from acidctl.types.digest import RowDigest, combined
from acidctl.types.hive_types import StructType
from acidctl.types.schema import parse_type

Item = EventBatch | CopiedStripe
# What stays with the parts of a joined file.
_OF_READING: dict[str, Any] = {
    **dict.fromkeys(("rows_in", "hidden", "deletes_applied", "deletes_unmatched"), 0),
    **dict.fromkeys(("read", "committed", "hidden_ids"), ()),
    "stripes": StripeCounts(),
}


class Measure:
    """What goes into a file, taken note of as it passes: rows, the digest of those that are written anew, and counts of
    all by write id and bucket property.
    """

    def __init__(self, *, acid: bool) -> None:
        self.acid = acid
        self.rows = 0
        self.digest = RowDigest()
        self._counts = Counter[tuple[int, int]]()

    def passed(self, items: Iterable[Item]) -> Iterator[Item]:
        """The same."""
        for item in items:
            if isinstance(item, CopiedStripe):
                self.rows += item.rows
                self._counts.update(item.counts)
                yield item
                continue
            keys = item.keys if self.acid else None
            with phase("verify"):
                self.digest.update(keys, item.columns)
            self.rows += len(item)
            if keys is not None:
                self._counts.update(keys.counts())
            yield item

    def sorted_counts(self) -> tuple[tuple[int, int, int], ...]:
        """(write id, bucket property, rows), ascending."""
        return _sorted(self._counts)


def rows_only(items: Iterable[Item]) -> Iterator[EventBatch]:
    """The items of a file of which nothing is copied."""
    for item in items:
        if isinstance(item, CopiedStripe):
            raise InternalError("a stripe was to be copied into a file that is written anew")
        yield item


def put_together(
    sink: BinaryIO,
    items: Iterator[Item],
    events: TaskEvents | PlainRows,
    settings: Settings,
    metadata: Mapping[str, bytes],
    backend: Backend,
) -> tuple[WrittenFile, tuple[CopyProof, ...]]:
    """Write rows and stripes into one file, in this order; what was written, and the proofs of what was copied."""
    plan, acid = events.stripes, isinstance(events, TaskEvents)
    assert plan is not None
    assert plan.like is not None
    proofs: list[CopyProof] = []
    with ExitStack() as opened:
        # Of its own: another thread reads keys and rows of the same file.
        file, name = opened.enter_context(events.open(plan.like.name)), plan.like.name
        post = postscript_of(file, plan.like)
        stitcher = Stitcher(sink, plan.like, post, types=plan.types, block_size=plan.physical.block_size)
        rows = 0
        waiting = next(items, None)

        def batches() -> Iterator[EventBatch]:
            """Rows up to the next stripe that is copied."""
            nonlocal waiting, rows
            while isinstance(waiting, EventBatch):
                rows += len(waiting)
                yield waiting
                waiting = next(items, None)

        while waiting is not None:
            if isinstance(waiting, EventBatch):
                if backend is Backend.ARROW:
                    stitcher.write(batches(), events.columns, settings, acid=acid, backend=backend)
                else:
                    _write_divided(stitcher, batches(), events.columns, settings, acid=acid)
                continue
            one = waiting
            if one.source.name != name:
                opened.close()
                file, name = opened.enter_context(events.open(one.source.name)), one.source.name
            fingerprint = stitcher.copy(one.stored(file), one.last)
            proofs.append(CopyProof(stitcher.stripes - 1, fingerprint, one, events.open))
            rows += one.rows
            waiting = next(items, None)
        values = dict(metadata)
        if acid:
            values |= {ACID_VERSION: b"2", ACID_STATS: f"{rows},0,0".encode()}
        return stitcher.finish(values, backend if stitcher.stripes > len(proofs) else Backend.COPY), tuple(proofs)


def write_exactly(
    sink: BinaryIO,
    batches: Iterable[EventBatch],
    columns: StructType,
    settings: Settings,
    metadata: Mapping[str, bytes],
    operation: Operation,
) -> WrittenFile:
    """Write events that Arrow's writer alone cannot write, all of one operation: as little as may be value by value."""
    nothing = io.BytesIO()
    write_orc(nothing, (), columns, settings, acid=True, metadata=metadata)
    like = read_tail(nothing, name="a file without rows")
    stitcher = Stitcher(sink, like, postscript_of(nothing, like))
    rows = _write_divided(stitcher, batches, columns, settings, acid=True)
    counts = [rows if code is operation else 0 for code in Operation]
    return stitcher.finish({**metadata, ACID_STATS: ",".join(map(str, counts)).encode()}, Backend.EXACT)


def _write_divided(
    stitcher: Stitcher, batches: Iterable[EventBatch], columns: StructType, settings: Settings, *, acid: bool
) -> int:
    rows = 0

    def counted(run: Iterable[EventBatch]) -> Iterator[EventBatch]:
        nonlocal rows
        for batch in run:
            rows += len(batch)
            yield batch

    for backend, run in divided(batches, columns, settings.stripe_size):
        stitcher.write(counted(run), columns, settings, acid=acid, backend=backend)
    return rows


def _sorted(counts: Counter[tuple[int, int]]) -> tuple[tuple[int, int, int], ...]:
    return tuple((write_id, bucket, rows) for (write_id, bucket), rows in sorted(counts.items()))


# --- The finished parts of a large bucket as one file.


def join_parts(spec: TaskSpec, storage: Storage, root: str, *, threads: bool = True) -> TaskResult:
    """A task with role JOIN: stripes are copied as they are, the tail is made anew; see `compaction.task.run_task`.

    Each part was verified, so that its stripes are compared with what they were then, and nothing is decoded. Parts
    that two ORC libraries wrote do not fit together and are written once more. Counts of what was read stay with the
    parts.
    """
    parts = [part for part in spec.parts if part.rows]
    nothing = TaskResult.nothing(spec)
    if len(parts) < 2:
        # A single one was verified, and its name is as unique as any.
        return replace(parts[0], **_OF_READING) if parts else nothing
    counts: Counter[tuple[int, int]] = Counter()
    for part in parts:
        for write_id, bucket, rows in part.counts:
            counts[write_id, bucket] += rows
    columns = parse_type(spec.table.columns)
    assert isinstance(columns, StructType)
    metadata = {TARGET: spec.table.dialect.encode()}
    attempt = Attempt(storage, root, spec)
    expected = Expected(
        rows=sum(part.rows for part in parts),
        digest=combined([part.digest for part in parts]),
        columns=str(columns),
        counts=_sorted(counts),
        operation=Operation.DELETE if spec.task.output.startswith(DELETE_DELTA_PREFIX) else Operation.INSERT,
        collapsed=spec.task.output.startswith(BASE_PREFIX),
        bucket_id=spec.task.bucket_id,
        metadata=metadata,
    )
    with ExitStack() as stack:
        sink = stack.enter_context(attempt.create())
        opened = [_opened(stack, storage, join(root, f"{spec.work}/{part.path}")) for part in parts]
        files = [orc for _, orc in opened]
        like = files[like_of([orc.tail for orc in files])].tail
        if any(mismatch(like, orc.tail) for orc in files):
            # What was copied into a part is in no digest of it.
            measure = Measure(acid=True)
            events = rows_only(measure.passed(_events(files)))
            written = write_orc(
                sink, events, columns, spec.table.writer, acid=True, metadata=metadata, backend=Backend.EXACT
            )
            stack.close()
            expected = replace(expected, digest=measure.digest.hexdigest())
            return replace(attempt.verified(written, expected, nothing, threads=threads), digest=expected.digest)
        runs = [StripeRun(stream, orc.tail) for stream, orc in opened]
        bounds = [(first_key([run]), ends_of(run)) for run in runs]
        written = stitch(sink, runs)
    for (_, before), (first, _) in pairwise(bounds):
        if first is None or before[-1] >= first:
            raise wrong(attempt.name, "its parts are not in order")
    fingerprints = [one for part in parts for one in part.fingerprints]
    verify_joined(attempt.open, attempt.name, expected, fingerprints, [key for _, ends in bounds for key in ends])
    return attempt.result(written, expected, nothing)


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
