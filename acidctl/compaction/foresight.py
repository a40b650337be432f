"""Which stripes a compaction will copy, as far as the tails of its inputs tell before it runs.

The tasks decide anew, by statistics and key columns (`compaction.stripes`); nothing is read here. Whatever lies where
deletes may fall, and rows that may be of aborted writes, stays undecided. A bucket is divided between tasks by what is
to be written anew: what is copied goes over in one pass, and parts would be copied twice.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby, pairwise

from acidctl.compaction.footers import InputFile
from acidctl.compaction.plan import Fate, KeyCut, PlannedTask, StripeChoice, WriterSettings
from acidctl.compaction.stripes import (
    OVERLAP,
    SMALL,
    Bounds,
    any_between,
    is_small,
    united,
)
from acidctl.format.events import RowId
from acidctl.format.write_ids import RangeAnswer, ValidWriteIds
from acidctl.orc.arrow_writer import Physical
from acidctl.orc.stitch import Obstacle, obstacle_of_file
from acidctl.orc.tail import OrcType, Tail
from acidctl.values import dataclass

_MOST = 2**63 - 1
_EVERYWHERE = RowId(-_MOST, -_MOST, -_MOST), RowId(_MOST, _MOST, _MOST)
# What a byte that is copied costs beside one that is written anew.
_COPY_SHARE = 16
# A bucket is divided into no smaller parts than these, and not into more than a partition needs to keep cores busy.
_LEAST_PART = 64 << 20
_PARTS = 16


def part_bytes(total: int, asked: int) -> int:
    """From how many bytes on buckets are divided, in a partition of so many: its largest must not be alone at last."""
    return min(asked, max(_LEAST_PART, total // _PARTS))


@dataclass(frozen=True, slots=True)
class Asked:
    """What is known of the form of an output before its files have been read: the codec that was asked for, and the
    size of a stripe.
    """

    codec: str | None = None
    stripe_size: int = WriterSettings().stripe_size


def foreseen(
    output: str, files: Sequence[InputFile], deletes: Sequence[InputFile], ids: ValidWriteIds, form: Asked
) -> tuple[StripeChoice, ...]:
    """What becomes of the stripes of the `files` of an output in this form, adjacent ones of one fate together.

    Files that are small are counted together, under an empty name. What the table wants beside is not known yet: see
    `with_form`.
    """
    large, small = list[InputFile](), list[InputFile]()
    for file in files:
        if file.rows:
            tiny = file.tail is None or is_small(file.size, file.rows, output, form.stripe_size)
            (small if tiny else large).append(file)
    touched = united([bounds for file in deletes if file.rows for bounds in _stretches(file)])
    others, accepted = [_span(file) for file in small], list[Bounds]()
    for file in sorted(large, key=lambda one: -one.size):
        if any_between(accepted, *_span(file)):
            others.append(_span(file))
        else:
            insort(accepted, _span(file))
    around = united(others)
    found = [choice for file in large for choice in _of_file(file, output, around, touched, ids, form)]
    return (*found, *_small(small))


def foreseen_rows(output: str, files: Sequence[InputFile], form: Asked) -> tuple[StripeChoice, ...]:
    """The same of files of an insert-only table, whose stripes are copied all or none."""
    found = []
    for file in files:
        if file.tail is None or not file.rows:
            continue
        stripes, obstacle = file.tail.stripes, _in_any_case(file.tail, form.codec)
        size = sum(stripe.end - stripe.offset for stripe in stripes)
        why = None if obstacle is None else obstacle.value
        if is_small(size / len(stripes), file.rows / len(stripes), output, form.stripe_size):
            why = SMALL
        fate = Fate.COPY if why is None else Fate.ENCODE
        found.append(StripeChoice(file.path, 0, len(stripes), size, fate, why or ""))
    return (*found, *_small([file for file in files if file.rows and file.tail is None]))


def _small(files: Sequence[InputFile]) -> tuple[StripeChoice, ...]:
    if not files:
        return ()
    count, size = sum(len(file.stripes) + 1 for file in files), sum(file.size for file in files)
    return (StripeChoice("", 0, count, size, Fate.ENCODE, SMALL),)


def _of_file(
    file: InputFile,
    output: str,
    around: Sequence[Bounds],
    touched: Sequence[Bounds],
    ids: ValidWriteIds,
    form: Asked,
) -> list[StripeChoice]:
    assert file.tail is not None
    obstacle = _in_any_case(file.tail, form.codec) if file.is_acid and not file.apart else Obstacle.SCHEMA
    stripes, known = file.tail.stripes, _stretches(file)
    sizes = [stripe.end - stripe.offset for stripe in stripes]
    if len(known) != len(stripes):
        known = [_span(file)] * len(stripes)
    hidden = file.write_ids is None or ids.is_range_aborted(*file.write_ids) is not RangeAnswer.NONE
    fates: list[tuple[Fate, str]] = []
    for low, high in known:
        if obstacle is not None:
            fates.append((Fate.ENCODE, obstacle.value))
        elif any_between(around, low, high):
            fates.append((Fate.ENCODE, OVERLAP))
        elif hidden or any_between(touched, low, high):
            fates.append((Fate.UNDECIDED, ""))
        else:
            fates.append((Fate.COPY, ""))
    parts = zip(sizes, stripes, strict=True)
    tiny = [is_small(size, stripe.rows, output, form.stripe_size) for size, stripe in parts]
    for order in (range(len(fates)), range(len(fates) - 1, -1, -1)):
        before = True
        for place in order:
            if tiny[place] and before and fates[place][0] is Fate.COPY:
                fates[place] = Fate.ENCODE, SMALL
            before = tiny[place] or fates[place][0] is not Fate.COPY
    result, at = [], 0
    for (fate, reason), group in groupby(fates):
        count = len(list(group))
        result.append(StripeChoice(file.path, at, count, sum(sizes[at : at + count]), fate, reason))
        at += count
    return result


def _in_any_case(tail: Tail, codec: str | None) -> Obstacle | None:
    """Why no stripe of a file can be copied, whatever else the table wants."""
    post = tail.postscript
    if codec is not None and codec.lower() != post.compression.name.lower():
        return Obstacle.COMPRESSION
    own = Physical(post.compression, 0, post.block_size, tail.row_index_stride, frozenset(), 0.0)
    return obstacle_of_file(tail, tail.types, own)


def _span(file: InputFile) -> Bounds:
    return file.span or _EVERYWHERE


def _stretches(file: InputFile) -> list[Bounds]:
    """Between which keys those of each stripe lie, or all of the file together where its index does not tell."""
    low, high = _span(file)
    starts = [RowId(one.key.write_id, one.key.bucket_property, one.key.row_id) for one in file.stripes]
    ends = [RowId(start.write_id, start.bucket_property, start.row_id - 1) for start in starts]
    if any(one >= other for one, other in zip([low, *starts], starts, strict=False)):
        return [(low, high)]
    return list(zip([low, *starts], [*ends, high], strict=True))


def with_form(task: PlannedTask, forms: dict[str, Tail], types: Sequence[OrcType], physical: Physical) -> PlannedTask:
    """The task, where the form of some files keeps their stripes from being copied after all; `forms` by path."""
    choices = []
    for choice in task.stripes:
        tail = forms.get(choice.file)
        obstacle = None if tail is None else obstacle_of_file(tail, types, physical)
        if obstacle is not None and choice.choice is not Fate.ENCODE:
            choice = replace(choice, choice=Fate.ENCODE, reason=obstacle.value)
        choices.append(choice)
    return replace(task, stripes=tuple(choices))


def cuts(
    files: Sequence[InputFile], choices: Sequence[StripeChoice], shifts: dict[str, int], size: int, part: int, most: int
) -> tuple[KeyCut, ...]:
    """Keys that divide a bucket of `size` bytes, deletes included, into parts of about `part` bytes of work, fewer than
    `most`: at stripes of its largest file, whose row numbers `shifts` move where it has no ACID columns.
    """
    copied = {
        (one.file, i) for one in choices if one.choice is Fate.COPY for i in range(one.first, one.first + one.count)
    }
    saved = sum(one.bytes for one in choices if one.choice is Fate.COPY)
    work = size - saved + saved // _COPY_SHARE
    if work <= part:
        return ()
    largest = max(files, key=lambda file: (len(file.stripes) > 0, file.size))
    parts = min(-(-work // part), most)
    shift = 0 if largest.is_acid else shifts.get(largest.path, 0)
    starts = [0, *(stripe.offset for stripe in largest.stripes), largest.size]
    costs = [
        (end - start) // (_COPY_SHARE if (largest.path, i) in copied else 1)
        for i, (start, end) in enumerate(pairwise(starts))
    ]
    total, before = sum(costs), 0
    found: list[KeyCut] = []
    for stripe, cost in zip(largest.stripes, costs, strict=False):
        before += cost
        key = replace(stripe.key, row_id=stripe.key.row_id + shift)
        if before * parts >= (len(found) + 1) * total and (not found or found[-1] < key):
            found.append(key)
    return tuple(found[: parts - 1])
