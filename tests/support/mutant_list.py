"""One-line faults as data: a fragment that is in its file exactly once, and what stands there instead."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Mutant:
    """A fault in `file`, below the package; `why` says for one that is published why nothing notices it."""

    file: str
    old: str
    new: str
    note: str
    why: str = ""


_FINISH = "    inner = [finisher(tail, child, extra) for child in entry.subtypes]\n"
_CHILD = "null_array(kind, rows) if fit is None else fit_array(read[fit[0]], fit[1])"
_KEYS = "        events = EventBatch(keys_of(batch, name=self.name), columns)"
_V1 = (
    "refused but in tables of Hive 1 and 2, where rows are updated in place: there no sum of keys tells which events "
    "of a row have to be left"
)
_CONVERTED = "refused but in columns whose type was changed: values that were converted are not compared"


def _finishing(condition: str, form: str) -> str:
    return f"    if {condition}:\n        return lambda array, held: {form}\n{_FINISH}"


PLAN = (
    Mutant(
        "compaction/tasks.py",
        "delete_files=tuple(file.path for file in own_deletes),",
        "",
        "delete files left out of a task",
    ),
    Mutant(
        "compaction/tasks.py",
        "return bucket_id in delete.buckets or named is None or bucket_id == named",
        "return bucket_id == 0",
        "delete files only for bucket 0",
    ),
    Mutant(
        "compaction/tasks.py",
        "for bucket_id in sorted(groups):",
        "for bucket_id in sorted(groups)[1:]:",
        "a task dropped",
    ),
    Mutant(
        "compaction/tasks.py",
        "for file in files:\n        for bucket_id",
        "for file in files[1:]:\n        for bucket_id",
        "the first input file is read by no task",
    ),
    Mutant(
        "compaction/tasks.py",
        'output=f"{output}/{format_bucket_file(bucket_id)}",\n            bucket_id=bucket_id,',
        'output=f"{output}/{format_bucket_file(bucket_id)}",\n            bucket_id=bucket_id ^ 1,',
        "tasks for the wrong bucket",
    ),
    Mutant(
        "compaction/tasks.py",
        'format_bucket_file(bucket_id)}",',
        'format_bucket_file(bucket_id + 1)}",',
        "rows in the file of another bucket",
    ),
    Mutant("compaction/tasks.py", "role=role,", "role=Role.INSERTS,", "every task writes inserts"),
    Mutant(
        "compaction/foresight.py",
        "return tuple(found[: parts - 1])",
        "return tuple(found[: parts - 1][::-1])",
        "cuts out of order",
    ),
    Mutant(
        "compaction/planner.py",
        "consumed = state.deltas if minor else live_entries(state)",
        "consumed = state.deltas",
        "a major compaction leaves the base out",
    ),
    Mutant(
        "compaction/planner.py",
        "consumed = state.deltas if minor else live_entries(state)",
        "consumed = state.deltas[:-1] if minor else live_entries(state)[:-1]",
        "the last delta is no input",
    ),
    Mutant(
        "compaction/planner.py",
        "        return max(known)",
        "        return max(known) + 1",
        "a base named one too high",
        "refused but up to the high watermark of a list that was given, where no directory lies between: a base may be "
        "named after that, and no reader of Hive sees other rows",
    ),
    Mutant(
        "compaction/planner.py",
        "        return max(known)",
        "        return max(known) - 1",
        "a base named one too low",
    ),
    Mutant(
        "compaction/planner.py",
        "    low, high = reach.min, reach.max\n",
        "    low, high = reach.min, reach.max + (context.request.kind == CompactionKind.MINOR.value)\n",
        "a delta named too wide",
    ),
    Mutant(
        "compaction/planner.py",
        "for file in data_files(entry, insert_only=state.insert_only):\n        files +=",
        "for file in data_files(entry, insert_only=state.insert_only)[:1]:\n        files +=",
        "only one file of each input is named in the plan",
    ),
    Mutant(
        "compaction/tasks.py",
        "return {plan.outputs[0].name: (Role.SURVIVING, inserts, deletes)}",
        "return {plan.outputs[0].name: (Role.SURVIVING, inserts, ())}",
        "a major compaction without deletes",
    ),
    Mutant(
        "compaction/tasks.py",
        "own = deletes if of_deletes else inserts",
        "own = inserts",
        "a minor compaction writes inserts on both sides",
    ),
    Mutant(
        "compaction/decision.py",
        "write_ids=context.write_ids.format(),",
        'write_ids=context.write_ids.format().rpartition(":")[0] + ":",',
        "aborted write ids are kept from the tasks",
    ),
    Mutant(
        "compaction/columns.py",
        "return tuple(range(len(fit.target.fields)))",
        "return tuple(range(1, len(fit.target.fields)))",
        "places of columns shifted in planning",
    ),
)

LISTS = (
    Mutant(
        "format/write_ids.py",
        '("exceptions", open_ids | aborted)',
        '("exceptions", sorted(open_ids | aborted)[:1])',
        "only the first exception heeded",
    ),
    Mutant(
        "format/write_ids.py",
        '("exceptions", open_ids | aborted)',
        '("exceptions", open_ids)',
        "aborted write ids count as valid",
    ),
    Mutant("rows/merge.py", "    if excepted:\n", "    if False:\n", "aborted events are visible"),
    Mutant(
        "rows/merge.py",
        "exceptions[first:], dtype",
        "exceptions[first : first + 1], dtype",
        "only the first exception of a batch is heeded",
    ),
    Mutant(
        "rows/merge.py",
        "    mask: BoolArray = current <= write_ids.high_watermark",
        "    mask: BoolArray = current < write_ids.high_watermark",
        "the watermark itself is not read",
    ),
    Mutant(
        "rows/merge.py",
        "mask &= ~np.isin(current, np.asarray(exceptions[first:], dtype=np.int64))",
        "mask &= current != exceptions[first] + 1",
        "a committed write is hidden instead of an aborted one",
    ),
    Mutant(
        "format/write_ids.py",
        "min(self.high_watermark, limit - 1)",
        "min(self.high_watermark, limit)",
        "the lowest open id is read too",
    ),
    Mutant(
        "format/write_ids.py",
        "aborted = tuple(id_ for id_ in self.aborted if id_ <= watermark)",
        "aborted = ()",
        "the compactor's list has no aborted ids",
    ),
    Mutant(
        "state/selection.py",
        "if ids.is_range_aborted(delta.min_write_id, delta.max_write_id) is RangeAnswer.ALL:",
        "if False:",
        "aborted deltas are live",
    ),
    Mutant(
        "state/selection.py",
        "if ids.is_range_valid(delta.min_write_id, delta.max_write_id) is RangeAnswer.NONE:",
        "if False:",
        "open deltas are live",
    ),
    Mutant(
        "state/selection.py",
        "sibling = delta.max_write_id == current and last_statement is not None",
        "sibling = False",
        "later statements of a transaction are covered",
    ),
    Mutant(
        "state/selection.py",
        "if delta.max_write_id > current:",
        "if delta.max_write_id > current + 1:",
        "a delta right behind the base is covered",
    ),
    Mutant(
        "state/inventory.py",
        "return tuple(sorted(files, key=lambda file: path_order_key(file.info.path)))",
        "return tuple(sorted(files, key=lambda file: path_order_key(file.info.path)))[:1]",
        "one file of each directory is read",
    ),
)

_TEXT_BOUND = "value, field = choose(bounds, key=itemgetter(0))"
_BOUND = '(min if name == "minimum" else max)(values, key=order)'

READING = (
    Mutant("orc/postprocess.py", _FINISH, _finishing("entry.kind is OrcKind.INT", "array.fill_null(0)"), "NULL as 0"),
    Mutant(
        "orc/postprocess.py",
        "return _hybrid_dates if tail.is_hybrid and may_be_old else None",
        "return lambda array, held: pc.add(array.cast(pa.int32()), 1).cast(pa.date32())",
        "dates moved by a day",
    ),
    Mutant(
        "orc/postprocess.py",
        _FINISH,
        _finishing("entry.kind is OrcKind.LONG and column > 6", "array.take(pa.array(np.arange(len(array))[::-1]))"),
        "whole numbers in the reverse order",
    ),
    Mutant(
        "orc/postprocess.py",
        _FINISH,
        _finishing("entry.kind is OrcKind.DOUBLE", "pc.negate(array)"),
        "the sign of doubles changed",
    ),
    Mutant(
        "orc/postprocess.py",
        _FINISH,
        _finishing("entry.kind is OrcKind.STRING", "pc.utf8_upper(array)"),
        "strings in upper case",
    ),
    Mutant(
        "orc/postprocess.py",
        _FINISH,
        _finishing("entry.kind is OrcKind.BOOLEAN", "pc.invert(array)"),
        "booleans inverted",
    ),
    Mutant(
        "orc/postprocess.py",
        _FINISH,
        _finishing("entry.kind is OrcKind.TIMESTAMP", "pc.add(array.cast(pa.int64()), 10**9).cast(array.type)"),
        "timestamps a second late",
    ),
    Mutant("orc/postprocess.py", 'pc.ascii_rtrim(array, characters=" ")', "array", "char not trimmed", _CONVERTED),
    Mutant(
        "rows/projection.py", _CHILD, _CHILD.replace("fit[0]]", "fit[0] ^ (fit[0] == 14)]"), "a column read as another"
    ),
    Mutant(
        "rows/projection.py",
        _CHILD,
        "null_array(kind, rows)",
        "all values read as NULL",
    ),
    Mutant(
        "rows/source.py",
        "inside = None if span is None else span.mask(events.keys)",
        "inside = None",
        "the bounds of parts are not heeded",
    ),
    Mutant(
        "orc/postprocess.py",
        "tuple(children[i] for i in fields)",
        "tuple(children[-i - 1] for i in fields)",
        "ints crosswise",
    ),
    Mutant(
        "format/events.py",
        'arrays["rowId"],\n        arrays["currentTransaction"],',
        'arrays["rowId"] + 1,\n        arrays["currentTransaction"],',
        "row ids one too high",
    ),
    Mutant(
        "format/events.py",
        'arrays["rowId"],\n        arrays["currentTransaction"],',
        'arrays["rowId"],\n        arrays["originalTransaction"],',
        "the current write id is the original one",
        _V1,
    ),
    Mutant(
        "format/events.py",
        "tuple(column.filter(arrow_mask) for column in self.columns))",
        "tuple(column.slice(0, int(mask.sum())) for column in self.columns))",
        "columns shifted against keys when events are filtered",
    ),
    Mutant(
        "format/events.py",
        "tuple(column.take(indices) for column in self.columns))",
        "self.columns)",
        "columns stay when keys are sorted",
        _V1,
    ),
    Mutant(
        "rows/source.py",
        "write_id = entry.max_write_id if entry.min_write_id is None else entry.min_write_id",
        "write_id = entry.max_write_id if entry.min_write_id is None else entry.min_write_id + 1",
        "loaded files with the write id of another delta",
    ),
    Mutant(
        "format/bucket_codec.py",
        "BucketProperty(1, bits_ >> _BUCKET_SHIFT & _FIELD, bits_ & _FIELD)",
        "BucketProperty(1, (bits_ >> _BUCKET_SHIFT & _FIELD) ^ 1, bits_ & _FIELD)",
        "a bit of the bucket codec flipped",
    ),
    Mutant(
        "compaction/inputs.py",
        "return np.where(packed, properties >> _BUCKET_SHIFT & _BUCKET_BITS, properties)",
        "return np.where(packed, properties >> _BUCKET_SHIFT & 0, properties)",
        "all rows of mixed files in bucket 0",
    ),
)

MERGING = (
    Mutant("rows/merge.py", "yield batch.filter(~deleted)", "yield batch", "deleted rows stay"),
    Mutant(
        "rows/merge.py", "yield batch.filter(~deleted)", "yield batch.filter(deleted)", "deleted rows stay, others go"
    ),
    Mutant(
        "rows/merge.py",
        "deletes &= mask\n            # Which",
        "deletes |= ~mask\n            # Which",
        "deletes of aborted writes apply",
    ),
    Mutant("rows/merge.py", "deleted[hits] = True", "deleted[hits - 1] = True", "the row before a deleted one goes"),
    Mutant(
        "rows/merge.py",
        "keys.row_id, keys.bucket, keys.write_id))",
        "keys.bucket, keys.row_id, keys.write_id))",
        "rows ordered by row id before bucket",
    ),
    Mutant(
        "rows/merge.py",
        "if bool((order[1:] > order[:-1]).all()):",
        "if True:",
        "overlapping files are put together unsorted",
    ),
    Mutant(
        "rows/merge.py",
        "count = len(self.batch) if whole else self.batch.keys.not_after(limit)",
        "count = len(self.batch)",
        "batches of overlapping files are taken whole",
    ),
    Mutant(
        "rows/merge.py",
        "self.batch = self.batch.slice(count, len(self.batch)) if",
        "self.batch = self.batch.slice(count + 1, len(self.batch)) if",
        "a row is lost where files overlap",
    ),
    Mutant(
        "rows/merge.py",
        "if len(kept):\n                yield kept",
        "if len(kept) > 100:\n                yield kept",
        "small batches are lost",
        _V1,
    ),
    Mutant(
        "rows/scan.py",
        "apart = span and buckets and (buckets[1] < span[0] or buckets[0] > span[1])",
        "apart = span and buckets",
        "deletes are left out by statistics",
    ),
    Mutant(
        "compaction/inputs.py",
        "current = keys.write_id if collapse else keys.current",
        "current = keys.current + 1",
        "rows with another current write id",
    ),
    Mutant(
        "compaction/inputs.py",
        "yield EventBatch(batch.keys)",
        "yield EventBatch(batch.keys.select(slice(1, None)))",
        "the first delete event is lost",
    ),
    Mutant(
        "compaction/inputs.py",
        "kept = batch if own is None or own.all() else batch.filter(own)",
        "kept = batch",
        "events of other buckets and of aborted writes go on",
    ),
    Mutant(
        "format/events.py",
        "later_row = (self.bucket == bucket) & (self.row_id >= other.row_id)",
        "later_row = (self.bucket == bucket) & (self.row_id > other.row_id)",
        "a key is not at itself",
    ),
)

WRITING = (
    Mutant(
        "orc/arrow_writer.py",
        "bucket, as_arrow(keys.row_id), as_arrow(keys.current), row]",
        "bucket, as_arrow(keys.row_id), as_arrow(keys.write_id), row]",
        "the original write id written as the current one",
    ),
    Mutant(
        "orc/arrow_writer.py",
        "bucket = as_arrow(keys.bucket.astype(np.int32))",
        "bucket = as_arrow((keys.bucket | 1).astype(np.int32))",
        "another statement in the bucket property",
    ),
    Mutant(
        "orc/arrow_writer.py",
        "return [form(column) for form, column in zip(self._formers, columns, strict=True)]",
        "return [form(column) for form, column in zip(self._formers, (columns[0], *columns[:-1]), strict=True)]",
        "columns written one place later",
    ),
    Mutant(
        "orc/writer.py",
        "keys.add(piece.keys, ends)",
        "keys.add(piece.keys, [end - 1 for end in ends])",
        "keys before the ends of stripes in the key index",
    ),
    Mutant(
        "orc/writer.py",
        "            keys.append(key)",
        "            keys.append(replace(key, row_id=key.row_id + 1))",
        "a wrong key index",
    ),
    Mutant(
        "orc/writer.py", 'return ",".join(map(str, self._operations)).encode()', 'return b"0,0,0"', "ACID statistics 0"
    ),
    Mutant("orc/writer.py", 'ACID_VERSION: b"2"', 'ACID_VERSION: b"1"', "another ACID version"),
    Mutant(
        "orc/writer.py",
        "CALENDAR: Calendar.PROLEPTIC_GREGORIAN,",
        "CALENDAR: Calendar.JULIAN_GREGORIAN,",
        "dates marked as of another calendar",
    ),
    Mutant(
        "orc/writer.py",
        "STRIDE: settings.row_index_stride,",
        "STRIDE: 2 * settings.row_index_stride,",
        "row groups called twice as large",
        "refused where a stripe has several row groups; in stripes of one it changes nothing for readers",
    ),
    Mutant(
        "orc/arrow_writer.py",
        "numbers = seconds * 1_000_000 + thousands if",
        "numbers = seconds * 1_000_000 if",
        "fractions of seconds are not written",
    ),
    Mutant(
        "orc/arrow_writer.py",
        "return array.flatten() if array.null_count else",
        "return",
        "values below NULL structs written",
    ),
    Mutant(
        "orc/tail_edit.py",
        '3: [name.encode("utf-8", "replace") for name in entry.names]',
        '3: [name.encode("utf-8", "replace") for name in entry.names[::-1]]',
        "columns under the names of others",
    ),
    Mutant(
        "orc/stripe.py",
        "        result += positions[at + 1 : at + 1 + rest]",
        "        result += positions[at + 1 : at + 1 + rest][:0] + (0,) * rest",
        "positions within runs are 0",
    ),
    Mutant(
        "orc/stripe.py",
        "moved = _moved(positions, streams, places)",
        "moved = _moved(positions, streams, places) if len(entries) != 3 else [0] * "
        "sum(2 + rest for _, rest in streams)",
        "positions of a middle entry are those of the first",
    ),
    Mutant(
        "orc/stripe.py",
        "moved = _moved(positions, streams, places)",
        "entry = next(Message(next(Message(index).blobs(_ENTRY))).blobs(0), entry)\n"
        "        moved = _moved(positions, streams, places)[:-1]",
        "a position is missing",
    ),
    Mutant(
        "orc/arrow_writer.py",
        "return self.places[i] - self.places[first], target - self.plain[i]",
        "return self.places[i] - self.places[first], max(target - self.plain[i] - (offset > 2000), 0)",
        "positions of later row groups a byte early",
    ),
    Mutant(
        "orc/stripe.py",
        "        (entry,) = Message(field).blobs(_ENTRY)\n",
        "        (entry,) = Message(field).blobs(_ENTRY)\n"
        "        entry = rewritten(entry, {2: next(Message(next(Message(index).blobs(1))).blobs(2))})\n",
        "statistics of row group 0 everywhere",
    ),
    Mutant(
        "orc/stats.py",
        _TEXT_BOUND,
        _TEXT_BOUND.replace("choose(", "bounds[-1] if choose is min else choose("),
        "the least string of the last part is that of the file",
    ),
    Mutant(
        "orc/stats.py",
        _TEXT_BOUND,
        _TEXT_BOUND.replace("choose(", "bounds[-1] if choose is max else choose("),
        "the greatest string of the last part is that of the file",
    ),
    Mutant("orc/stats.py", _BOUND, _BOUND.replace('== "minimum"', '== "minimum" and kind != 2'), "least numbers"),
    Mutant("orc/stats.py", _BOUND, _BOUND.replace("else max", "else (min if kind == 3 else max)"), "greatest doubles"),
    Mutant("orc/stats.py", _BOUND, _BOUND.replace('== "minimum"', '== "minimum" and not order'), "least decimals"),
    Mutant("orc/stats.py", "None if nulls is None else any(nulls)", "False", "NULLs denied"),
    Mutant("orc/stats.py", "None if counts is None else sum(counts)", "max(counts or [0])", "too small a count"),
    Mutant(
        "orc/stats.py",
        "packed(sum(column) for column",
        "packed(max(column) for column",
        "too few true values",
    ),
    Mutant(
        "orc/stitch.py",
        "entry = encoded({1: self._at, **lengths",
        "entry = encoded({1: stripe.offset, **lengths",
        "places",
    ),
    Mutant("orc/stitch.py", "values[ACID_STATS] = _acid_stats(runs)", "pass", "ACID statistics of the first part"),
    Mutant(
        "orc/stitch.py",
        "section = encoded({1: [one.statistics for one in self._placed]})",
        "section = encoded({1: [self._placed[0].statistics for one in self._placed]})",
        "statistics of stripe 0 for all stripes",
    ),
    Mutant(
        "compaction/joining.py",
        "for part in parts:\n        for write_id",
        "for part in parts[:1]:\n        for write_id",
        "counts of one part",
    ),
    Mutant(
        "compaction/joining.py",
        "parts = [part for part in spec.parts if part.rows]",
        "parts = [part for part in spec.parts if part.rows][1:]",
        "the first part is left out",
    ),
    Mutant(
        "compaction/joining.py",
        "parts = [part for part in spec.parts if part.rows]",
        "parts = [part for part in spec.parts if part.rows][::-1]",
        "parts in the reverse order",
    ),
)

PUBLISHING = (
    Mutant(
        "compaction/partition_run.py", "edges[part + 1])", "edges[min(part + 2, len(edges) - 1)])", "parts that overlap"
    ),
    Mutant(
        "compaction/partition_run.py",
        "lower=edges[part],",
        "lower=edges[min(part + 1, len(edges) - 2)],",
        "parts with gaps",
    ),
    Mutant(
        "compaction/partition_run.py",
        "for path in dict.fromkeys((*task.files, *task.delete_files)):",
        "for path in dict.fromkeys(task.files):",
        "tasks do not get their delete files",
    ),
    Mutant(
        "compaction/inputs.py",
        "        for source in sources:\n            if copied := self",
        "        for source in sources[:1]:\n            if copied := self",
        "only the first file of an insert-only table",
    ),
    Mutant(
        "compaction/publish.py",
        "        for result in results:\n            if result.path is not None:\n                target",
        "        for result in results[1:]:\n            if result.path is not None:\n                target",
        "a file is not published",
    ),
    Mutant(
        "compaction/publish.py",
        'target = join(work.path, f"{OUT}/{result.output}")',
        'target = join(work.path, f"{OUT}/{results[-1].output if result is results[0] else results[0].output}")',
        "files under each other's names",
    ),
)

COPYING = (
    Mutant(
        "rows/merge.py",
        "return self._not_after(last) - self._not_after(before)",
        "return 0",
        "deletes that fall into copied stripes",
    ),
    Mutant(
        "compaction/stripes.py",
        "file.taken = copied.index + 1",
        "file.taken = copied.index",
        "a copied stripe is written anew as well",
    ),
    Mutant(
        "compaction/stripes.py",
        "                    yield from self._stretch(KeySpan(lower, copied.first), place, copied.index)\n",
        "                    list(self._stretch(KeySpan(lower, copied.first), place, copied.index))\n",
        "rows between copied stripes left out",
    ),
    Mutant(
        "orc/stitch.py",
        "        stripe, fingerprint = one.tail.stripes[one.index], None\n",
        "        one = replace(one, index=max(one.index - 1, 0))\n"
        "        stripe, fingerprint = one.tail.stripes[one.index], None\n",
        "the stripe before is copied instead",
    ),
    Mutant(
        "compaction/inputs.py",
        "EventKeys(keys.write_id, keys.bucket, keys.row_id, keys.write_id), batch.columns)\n        self._applied +=",
        "EventKeys(keys.write_id, keys.bucket, keys.row_id, keys.write_id), "
        "batch.take(np.arange(len(batch))[::-1].copy()).columns)\n        self._applied +=",
        "values turned round against their keys between two copied stripes",
    ),
    Mutant(
        "compaction/inputs.py",
        "valid_mask(keys.current, self._write_ids)",
        "None",
        "rows of aborted writes are let through",
    ),
    Mutant(
        "compaction/stripes.py",
        "CopiedStripe(file.source, tail, index, file.statistics[index], first, last, counts)",
        "CopiedStripe(file.source, tail, index, file.statistics[index - 1], first, last, counts)",
        "statistics of another stripe go with a copied one",
    ),
    Mutant(
        "compaction/stripes.py",
        "CopiedStripe(file.source, tail, index, file.statistics[index], first, last, counts)",
        "CopiedStripe(file.source, tail, index, file.statistics[index], first, first, counts)",
        "the last key of a copied stripe is its first",
    ),
    Mutant(
        "compaction/stripes.py",
        "        if self.deleted.between(first, last):\n            return DELETED\n",
        "",
        "deletes that only keys show are overlooked",
    ),
    Mutant(
        "compaction/stripes.py",
        "if first is None or last is None or counts.total() != tail.stripes[index].rows:",
        "if first is None or last is None:",
        "stripes with rows of aborted writes are copied",
    ),
    Mutant(
        "compaction/stripes.py",
        "                ranges[one.source] = range(one.taken, stop)\n",
        "                ranges[one.source] = range(one.taken + 1, stop)\n",
        "the first stripe of a stretch is not written",
    ),
    Mutant(
        "compaction/stripes.py",
        "if some and span.may_hold(*source.bounds(updates=False))]",
        "if some and span.may_hold(*source.bounds(updates=False))][1:]",
        "a file beside copied stripes is left out",
    ),
    Mutant(
        "compaction/inputs.py",
        "merge = MergeReader(streams, write_ids=self._write_ids, deleted=deleted, notice=notice)",
        "merge = MergeReader(streams, write_ids=self._write_ids, notice=notice, "
        "deleted=DeletedRows(EventKeys(*[np.zeros(0, dtype=np.int64)] * 4)))",
        "nothing is deleted between copied stripes",
    ),
    Mutant(
        "compaction/inputs.py",
        "source, self._projection, BATCH_ROWS, span=stretch.span if part is None else self._span, stripes=part",
        "source, self._projection, BATCH_ROWS, span=self._span, stripes=part",
        "files beside copied stripes are read whole in each stretch",
    ),
    Mutant(
        "orc/stitch.py",
        "entry = encoded({1: self._at, **lengths, 5: stripe.rows})",
        "entry = encoded({1: self._at, **lengths, 5: stripe.rows - 1})",
        "a copied stripe has a row less",
    ),
    Mutant(
        "orc/stitch.py",
        "self._placed.append(_Placed(rewritten(entry, {1: offset}), statistics, end, rows))",
        "self._placed.append(_Placed(rewritten(entry, {1: offset}), parts and new.statistics[0], end, rows))",
        "all stripes written between copied ones have the statistics of the first",
    ),
)

MUTANTS: tuple[Mutant, ...] = (*PLAN, *LISTS, *READING, *MERGING, *WRITING, *PUBLISHING, *COPYING)
