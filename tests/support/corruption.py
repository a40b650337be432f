"""Results that are wrong in one way and right in every other: whole ORC files whose tails fit what they hold.

`corrupted` sits between what was merged and the writer, `corrupting_writer` in the place of the writer itself, and
`corrupt_file` takes a finished file.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from enum import Enum
from typing import Any

import numpy as np
import pyarrow as pa

from acidctl.compaction.plan import WriterSettings
from acidctl.format.events import EventBatch, Operation, keys_of
from acidctl.orc.acidmeta import ACID_STATS, ACID_VERSION, KEY_INDEX
from acidctl.orc.reader import open_orc
from acidctl.orc.writer import Backend, NeedsExactWriter, WrittenFile, write_orc

# The writer lets fewer rows than these wait for more, and ends stripes between pieces.
_PIECE = 1 << 13


class Corruption(Enum):
    """What is done to the events of a result."""

    DROP_ROW = "drop a row"
    DOUBLE_ROW = "double a row"
    CHANGE_VALUE = "change a value"
    BREAK_ORDER = "break the order"
    LOSE_DELETE = "lose a delete"


def corrupted(batches: Iterable[EventBatch], corruption: Corruption) -> Iterator[EventBatch]:
    """The events with one fault, in the middle of them where that is possible; there must be three at least.

    A lost delete is, among delete events, one that is missing, and elsewhere a row that is back.
    """
    whole = EventBatch.concat(list(batches))
    rows = len(whole)
    assert rows > 2, "too few events to be corrupted"
    order = np.arange(rows)
    middle = rows // 2
    deletes = whole.keys.operation is not None and (whole.keys.operation == Operation.DELETE).all()
    if corruption is Corruption.DROP_ROW:
        whole = whole.take(np.delete(order, middle))
    elif corruption is Corruption.DOUBLE_ROW:
        whole = whole.take(np.insert(order, middle, middle))
    elif corruption is Corruption.BREAK_ORDER:
        order[[middle, middle + 1]] = order[[middle + 1, middle]]
        whole = whole.take(order)
    elif corruption is Corruption.CHANGE_VALUE:
        whole = _with_another_value(whole, middle)
    elif deletes:
        whole = whole.take(order[:-1])
    else:
        whole = _with_one_more(whole)
    yield whole


def _with_another_value(events: EventBatch, row: int) -> EventBatch:
    """One value of one row replaced by that of another row; of delete events, who deleted it."""
    order = np.arange(len(events))
    for place, column in enumerate(events.columns):
        different = [i for i in range(len(events)) if not column[i].equals(column[row])]
        if different:
            order[row] = different[0]
            columns = list(events.columns)
            columns[place] = column.take(pa.array(order))
            return replace(events, columns=tuple(columns))
    current = events.keys.current.copy()
    current[row] += 1
    return replace(events, keys=replace(events.keys, current=current))


def _with_one_more(events: EventBatch) -> EventBatch:
    """The last row once more, as the row after it: what a delete event that nobody heeded leaves behind."""
    last = events.slice(len(events) - 1, len(events))
    back = replace(last, keys=replace(last.keys, row_id=last.keys.row_id + 1))
    return EventBatch.concat([events, back])


def corrupting_writer(corruption: Corruption) -> Callable[..., WrittenFile]:
    """To stand in for `write_orc` where a task has imported it (in the process of the test)."""

    def write(sink: Any, batches: Iterable[EventBatch], *args: Any, **options: Any) -> WrittenFile:
        return write_orc(sink, corrupted(batches, corruption), *args, **options)

    return write


def corrupt_file(data: bytes, corruption: Corruption, *, settings: WriterSettings | None = None) -> bytes:
    """A file of events written anew with a fault; its own metadata is that of what it holds now."""
    orc = open_orc(io.BytesIO(data), name="file")
    metadata = {k: v for k, v in orc.tail.user_metadata if k not in (ACID_STATS, ACID_VERSION, KEY_INDEX)}
    events = []
    for batch in orc.scan():
        keys, row = keys_of(batch, name="file"), batch.column("row")
        bare = row.null_count == len(row)
        events.append(EventBatch(keys, () if bare else tuple(row.field(i) for i in range(row.type.num_fields))))
    return rewritten(corrupted(events, corruption), orc.columns, metadata, settings or WriterSettings())


def rewritten(events: Iterable[EventBatch], columns: Any, metadata: Mapping[str, bytes], settings: Any) -> bytes:
    """Events as a file, with the exact writer where the fast one cannot; cut so that small stripes are possible."""
    held = [batch.slice(i, min(i + _PIECE, len(batch))) for batch in events for i in range(0, len(batch), _PIECE)]
    for backend in Backend:
        sink = io.BytesIO()
        try:
            write_orc(sink, held, columns, settings, acid=True, metadata=metadata, backend=backend)
        except NeedsExactWriter:
            if backend is Backend.EXACT:
                raise
            continue
        return sink.getvalue()
    raise AssertionError("no backend")
