"""Which columns of a file a scan reads, and how its batches are put together from what Arrow delivers.

Arrow can leave out top-level columns only, and the columns of an ACID file all lie in one, the struct `row`.
Where no stripe has a NULL `row` the gate offers its fields as top-level columns, so that a scan reads just
the fields asked for; the struct is put together again here, without copying. Delete events have NULL rows:
there `row` is read whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from acidctl.format.arrays import flat
from acidctl.orc.postprocess import Finisher, finisher
from acidctl.orc.streams import Beside
from acidctl.orc.stripe import StreamKind, StripeFooter
from acidctl.orc.tail import Tail
from acidctl.orc.tail_edit import offered_name
from acidctl.types.hive_types import StructType


@dataclass(frozen=True, slots=True)
class Part:
    """A column that Arrow reads: its id, which is also its name behind the gate, and what is done with its arrays."""

    column: int
    finish: Finisher | None

    @property
    def offered(self) -> str:
        return offered_name(self.column)


@dataclass(frozen=True, slots=True)
class Output:
    """A column of the delivered batches: one part as it is, or a struct of parts, or some fields of a part."""

    name: str
    part: int | None = None
    struct_of: tuple[tuple[str, int], ...] = ()
    keep: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class Projection:
    """What one scan reads and delivers; `flat` says that the gate offers the fields of `row` at the top."""

    parts: tuple[Part, ...]
    outputs: tuple[Output, ...]
    flat: bool

    def offered(self) -> list[str]:
        """The names to ask Arrow for, each once."""
        return list(dict.fromkeys(part.offered for part in self.parts))

    def columns(self, tail: Tail) -> frozenset[int]:
        """The ids of all columns that are decoded."""
        return frozenset(column for part in self.parts for column in columns_below(tail, part.column))

    def assemble(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The delivered form of one batch."""
        arrays = []
        for part in self.parts:
            array = batch.column(part.offered)
            arrays.append(array if part.finish is None else part.finish(array, None))
        outputs = [_output(output, arrays, len(batch)) for output in self.outputs]
        return pa.RecordBatch.from_arrays(outputs, names=[output.name for output in self.outputs])


def columns_below(tail: Tail, column: int) -> Iterator[int]:
    """The ids of a column and of all below it."""
    yield column
    for child in tail.types[column].subtypes:
        yield from columns_below(tail, child)


def can_flatten(row: int, footers: Sequence[StripeFooter]) -> bool:
    """Whether the struct `row` is never NULL: no stripe has a PRESENT stream for it."""
    return all(footer.stream(StreamKind.PRESENT, row) is None for footer in footers)


def selected(tail: Tail, indexes: Sequence[int], fields: Sequence[int] | None, *, flatten: bool) -> tuple[int, ...]:
    """The ids of the columns that Arrow has to read for a projection."""
    roots = tail.types[0].subtypes
    row = len(roots) - 1 if flatten and fields is not None else None
    tops = [roots[index] for index in indexes if index != row]
    if row in indexes and fields is not None:
        tops += [tail.types[roots[-1]].subtypes[i] for i in fields]
    return tuple(tops)


def project(
    tail: Tail,
    names: Sequence[str],
    indexes: Sequence[int],
    beside: Beside,
    *,
    row: StructType | None,
    fields: Sequence[int] | None,
    flatten: bool,
) -> Projection:
    """Project the top-level columns at `indexes`; `fields` are the wanted fields of `row`, the last column."""
    roots = tail.types[0].subtypes
    parts: list[Part] = []
    outputs: list[Output] = []

    def add(column: int) -> int:
        parts.append(Part(column, finisher(tail, column, beside)))
        return len(parts) - 1

    for index in indexes:
        name = names[index]
        if row is None or fields is None or index != len(roots) - 1:
            outputs.append(Output(name, add(roots[index])))
        elif flatten:
            children = tail.types[roots[index]].subtypes
            struct_of = tuple((row.names[i], add(children[i])) for i in fields)
            outputs.append(Output(name, struct_of=struct_of))
        else:
            outputs.append(Output(name, add(roots[index]), keep=tuple(fields)))
    return Projection(tuple(parts), tuple(outputs), flatten)


def _output(output: Output, arrays: list[pa.Array], rows: int) -> pa.Array:
    if output.part is None:
        children = [arrays[part] for _, part in output.struct_of]
        kind = pa.struct([(name, arrays[part].type) for name, part in output.struct_of])
        return pa.Array.from_buffers(kind, rows, [None], children=children)
    array = arrays[output.part]
    if output.keep is None:
        return array
    array = flat(array)
    kind = pa.struct([array.type.field(i) for i in output.keep])
    children = [array.field(i) for i in output.keep]
    return pa.Array.from_buffers(kind, len(array), array.buffers()[:1], array.null_count, children=children)
