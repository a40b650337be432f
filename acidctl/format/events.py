"""Events of ACID files: what one stored row change is, as columns in memory.

An `EventBatch` is a slice of one event stream: the five key columns as numpy arrays and the user's columns as Arrow
arrays, all of one length. It knows no file and no storage. Field names follow Hive's `OrcRecordUpdater`; the words
"original" and "current" transaction survive in the file format only, the values are write ids.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from acidctl.errors import DamagedDataError
from acidctl.format.names import KEY_FIELDS
from acidctl.format.names import Operation as Operation
from acidctl.format.names import RowId as RowId
from acidctl.values import dataclass

Int64Array = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

# Joining saves the cost of small batches; from here on there is nothing to save, only memory to hold.
_JOINED_BYTES = 16 << 20


def bitmap(valid: BoolArray | None) -> pa.Buffer | None:
    """Truth values as the bits that Arrow marks values with which are not NULL; None for none."""
    return None if valid is None else pa.py_buffer(np.packbits(valid, bitorder="little"))


def as_arrow(values: npt.NDArray[Any], valid: BoolArray | None = None) -> pa.Array:
    """Numbers or truth values as an Arrow array, numbers without a copy; NULL where `valid` is false.

    `pa.array` loads `numpy.ma` for the first array of numpy: some 10 ms of each command.
    """
    data = bitmap(values) if values.dtype == np.bool_ else pa.py_buffer(np.ascontiguousarray(values))
    return pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), len(values), [bitmap(valid), data])


def floor_and_rest(numbers: Int64Array, unit: int) -> tuple[Int64Array, Int64Array]:
    """As `np.divmod`, which takes several times as long."""
    floor = numbers // unit
    return floor, numbers - floor * unit


def run_heads(*columns: Int64Array) -> Int64Array:
    """Positions at which one of the columns, which are of one length, has another value than before, 0 included."""
    first, *others = columns
    changed = np.ones(len(first), dtype=np.bool_)
    np.not_equal(first[1:], first[:-1], out=changed[1:])
    for column in others:
        changed[1:] |= column[1:] != column[:-1]
    return np.flatnonzero(changed)


@dataclass(frozen=True, slots=True)
class EventKeys:
    """The key columns of a batch, each of one length; `operation` is None when every event is an INSERT."""

    write_id: Int64Array
    bucket: Int64Array
    row_id: Int64Array
    current: Int64Array
    operation: Int64Array | None = None

    def __len__(self) -> int:
        return len(self.row_id)

    def at(self, index: int) -> RowId:
        """The row id at a position; negative counts from the end."""
        return RowId(int(self.write_id[index]), int(self.bucket[index]), int(self.row_id[index]))

    def select(self, selector: BoolArray | Int64Array | slice) -> EventKeys:
        """The keys at a slice, a mask or positions."""
        operation = None if self.operation is None else self.operation[selector]
        return EventKeys(
            self.write_id[selector],
            self.bucket[selector],
            self.row_id[selector],
            self.current[selector],
            operation,
        )

    def at_or_after(self, other: EventKeys | RowId) -> BoolArray:
        """Per key, whether it sorts at or after `other` (a key, or keys of the same length)."""
        bucket = other.bucket_property if isinstance(other, RowId) else other.bucket
        later_row = (self.bucket == bucket) & (self.row_id >= other.row_id)
        later: BoolArray = (self.write_id > other.write_id) | (
            (self.write_id == other.write_id) & ((self.bucket > bucket) | later_row)
        )
        return later

    def not_after(self, limit: RowId) -> int:
        """How many leading keys sort at or before `limit`."""
        following = RowId(limit.write_id, limit.bucket_property, limit.row_id + 1)
        beyond = self.at_or_after(following)
        return int(np.argmax(beyond)) if beyond.any() else len(self)

    def same_as_previous(self) -> BoolArray:
        """Per key, whether it equals the one before it; the first is never."""
        same = np.zeros(len(self), dtype=np.bool_)
        same[1:] = (
            (self.row_id[1:] == self.row_id[:-1])
            & (self.bucket[1:] == self.bucket[:-1])
            & (self.write_id[1:] == self.write_id[:-1])
        )
        return same

    def run_heads(self) -> Int64Array:
        """Positions at which the (write id, bucket) pair changes, 0 included."""
        return run_heads(self.write_id, self.bucket) if len(self) else np.zeros(1, dtype=np.int64)

    def counts(self) -> Counter[tuple[int, int]]:
        """How many there are of each write id and bucket property."""
        heads, found = self.run_heads(), Counter[tuple[int, int]]()
        for head, rows in zip(heads, np.diff(heads, append=len(self)), strict=True):
            found[int(self.write_id[head]), int(self.bucket[head])] += int(rows)
        return found

    @staticmethod
    def concat(parts: Sequence[EventKeys]) -> EventKeys:
        """The keys of all parts, one after the other."""
        operation = None
        if any(part.operation is not None for part in parts):
            inserts = [np.zeros(len(p), dtype=np.int64) if p.operation is None else p.operation for p in parts]
            operation = np.concatenate(inserts)
        return EventKeys(
            np.concatenate([p.write_id for p in parts]),
            np.concatenate([p.bucket for p in parts]),
            np.concatenate([p.row_id for p in parts]),
            np.concatenate([p.current for p in parts]),
            operation,
        )


@dataclass(frozen=True, slots=True)
class KeySpan:
    """A stretch of row ids: `lower` belongs to it, `upper` does not; None is no bound."""

    lower: RowId | None = None
    upper: RowId | None = None

    def may_hold(self, low: RowId | None, high: RowId | None) -> bool:
        """Whether keys between `low` and `high`, both inclusive, may lie in it; None is an unknown bound."""
        below = self.lower is not None and high is not None and high < self.lower
        above = self.upper is not None and low is not None and low >= self.upper
        return not (below or above)

    def mask(self, keys: EventKeys) -> BoolArray | None:
        """Which of the keys lie in it; None means all of them."""
        inside: BoolArray | None = None
        if self.lower is not None:
            inside = keys.at_or_after(self.lower)
        if self.upper is not None:
            before = ~keys.at_or_after(self.upper)
            inside = before if inside is None else inside & before
        return None if inside is None or inside.all() else inside


@dataclass(frozen=True, slots=True)
class EventBatch:
    """Events and their rows: `columns` are the reader's columns, or empty when only keys were asked for."""

    keys: EventKeys
    columns: tuple[pa.Array, ...] = ()

    def __len__(self) -> int:
        return len(self.keys)

    def filter(self, mask: BoolArray) -> EventBatch:
        """The events where `mask` is true."""
        arrow_mask = as_arrow(mask)
        return EventBatch(self.keys.select(mask), tuple(column.filter(arrow_mask) for column in self.columns))

    def slice(self, start: int, stop: int) -> EventBatch:
        """Events `start` (inclusive) to `stop` (exclusive), without a copy."""
        columns = tuple(column.slice(start, stop - start) for column in self.columns)
        return EventBatch(self.keys.select(slice(start, stop)), columns)

    def take(self, positions: Int64Array) -> EventBatch:
        """The events at `positions`, in that order."""
        indices = as_arrow(positions)
        return EventBatch(self.keys.select(positions), tuple(column.take(indices) for column in self.columns))

    @staticmethod
    def concat(parts: Sequence[EventBatch]) -> EventBatch:
        """All parts, one after the other; they have equal columns."""
        if len(parts) == 1:
            return parts[0]
        columns = tuple(concat(arrays) for arrays in zip(*(p.columns for p in parts), strict=True))
        return EventBatch(EventKeys.concat([p.keys for p in parts]), columns)


def keys_of(batch: pa.RecordBatch, *, name: str) -> EventKeys:
    """The key columns of a batch that has the fields of `KEY_FIELDS`; `name` is the file, for the error.

    A null key cannot be compared: DamagedDataError.
    """
    arrays = {}
    for field in KEY_FIELDS:
        column = batch.column(field)
        if column.null_count:
            raise DamagedDataError(
                f"{name} holds an event whose {field} is NULL, so it names no row.",
                path=name,
                hint="Restore the file from a copy; Hive cannot read it either.",
            )
        arrays[field] = column.to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
    operation = arrays["operation"]
    return EventKeys(
        arrays["originalTransaction"],
        arrays["bucket"],
        arrays["rowId"],
        arrays["currentTransaction"],
        operation if operation.any() else None,
    )


def coalesce(batches: Iterator[EventBatch], size: int, enough: int | None = None) -> Iterator[EventBatch]:
    """The same events in batches of at most `size` rows, small neighbours joined while they are not large in bytes.

    To join copies: a batch of `enough` rows is passed on as it is.
    """
    held: list[EventBatch] = []
    rows = width = 0
    for batch in batches:
        for start in range(0, len(batch), size):
            piece = batch.slice(start, min(start + size, len(batch))) if len(batch) > size else batch
            if held and (rows + len(piece) > size or len(piece) >= (enough or size)):
                yield EventBatch.concat(held)
                held, rows, width = [], 0, 0
            held.append(piece)
            rows += len(piece)
            width += sum(column.nbytes for column in piece.columns)
            if rows >= (enough or size) or width >= _JOINED_BYTES:  # what is whole does not wait for what comes next
                yield EventBatch.concat(held)
                held, rows, width = [], 0, 0
    if held:
        yield EventBatch.concat(held)


# Arrays of one Hive type may arrive in different forms: a timestamp column is timestamp[ns] where nanoseconds can hold
# it and WIDE elsewhere, file by file; a union is dense or sparse. Joining pieces of several files needs one form.


#: A moment that nanoseconds since 1970 may not hold: seconds since 1970 (floor) and nanoseconds within the second.
WIDE = pa.struct([pa.field("seconds", pa.int64()), pa.field("nanos", pa.int32())])


def concat(arrays: Sequence[pa.Array]) -> pa.Array:
    """The arrays one after the other, in the widest of their forms."""
    if len(arrays) == 1:
        return arrays[0]
    first = arrays[0].type
    if all(array.type.equals(first) for array in arrays):
        return pa.concat_arrays(arrays)
    common = reduce(common_type, (array.type for array in arrays))
    return pa.concat_arrays([conform(array, common) for array in arrays])


def common_type(one: pa.DataType, other: pa.DataType) -> pa.DataType:
    """The form in which arrays of both types can travel: WIDE beats a timestamp, dense beats sparse."""
    if one.equals(other):
        return one
    if pa.types.is_timestamp(one) or pa.types.is_timestamp(other):
        return WIDE
    if pa.types.is_struct(one):
        return pa.struct([(a.name, common_type(a.type, b.type)) for a, b in zip(one, other, strict=True)])
    if pa.types.is_map(one):
        return pa.map_(common_type(one.key_type, other.key_type), common_type(one.item_type, other.item_type))
    if pa.types.is_list(one):
        return pa.list_(common_type(one.value_type, other.value_type))
    if pa.types.is_union(one):
        pairs = zip(one, other, strict=True)
        return pa.dense_union([pa.field(str(i), common_type(a.type, b.type)) for i, (a, b) in enumerate(pairs)])
    return one


def conform(array: pa.Array, target: pa.DataType) -> pa.Array:
    """The same values as an array of `target`, which is `array.type` or a wider form of it."""
    if array.type.equals(target):
        return array
    if pa.types.is_timestamp(array.type):
        return widen(array)
    if pa.types.is_map(target):
        kinds = [target.key_type, target.item_type]
    elif pa.types.is_nested(target):
        kinds = [target.field(i).type for i in range(target.num_fields)]
    else:
        return array.cast(target)
    names = [field.name for field in target] if pa.types.is_struct(target) else ()
    return rebuilt(array, lambda index, child: conform(child, kinds[index]), names)


def rebuilt(array: pa.Array, change: Callable[[int, pa.Array], pa.Array], names: Sequence[str]) -> pa.Array:
    """A nested array of changed children: fields of a struct with these names, values of a list, keys and items of a
    map, alternatives of a union, which becomes dense. What is NULL stays so.
    """
    kind = array.type
    if pa.types.is_union(kind):
        array = flat(array)
        children = [change(i, array.field(i)) for i in range(kind.num_fields)]
        offsets = array.offsets if kind.mode == "dense" else as_arrow(np.arange(len(array), dtype=np.int32))
        return pa.UnionArray.from_dense(array.type_codes, offsets, children, [str(i) for i in range(len(children))])
    mask = array.is_null() if array.null_count else None
    if pa.types.is_struct(kind):
        children = [change(i, array.field(i)) for i in range(kind.num_fields)]
        return pa.StructArray.from_arrays(children, names=names, mask=mask)
    # The offsets as an array without an offset of its own, as the children have none.
    offsets = as_arrow(array.offsets.to_numpy(zero_copy_only=False))
    if pa.types.is_map(kind):
        return pa.MapArray.from_arrays(offsets, change(0, array.keys), change(1, array.items), mask=mask)
    return pa.ListArray.from_arrays(offsets, change(0, array.values), mask=mask)


def flat(array: pa.Array) -> pa.Array:
    """The same values without an offset: the children and type codes of a slice are those of the whole."""
    return pa.concat_arrays([array]) if array.offset else array


def widen(array: pa.TimestampArray) -> pa.StructArray:
    """Timestamps as WIDE; NULL stays NULL."""
    ticks = array.cast(pa.timestamp("ns", tz=array.type.tz)).cast(pa.int64())
    seconds, nanos = floor_and_rest(ticks.fill_null(0).to_numpy(zero_copy_only=False), 10**9)
    children = [as_arrow(seconds), as_arrow(nanos.astype(np.int32))]
    mask = array.is_null() if array.null_count else None
    return pa.StructArray.from_arrays(children, fields=list(WIDE), mask=mask)
