"""An export: rows of a snapshot to files, each read back, and then shown as a whole or not at all."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import field
from itertools import chain
from typing import Annotated, Any, NamedTuple, TypedDict

from acidctl.engine import EngineChoice, early_engine, make_engine
from acidctl.errors import UsageError
from acidctl.exporting.forms import Content, FileForm, Renderer, form_of
from acidctl.exporting.manifest import AGREE
from acidctl.exporting.parts import Parts
from acidctl.exporting.target import Target
from acidctl.exporting.task import ExportTask, Written, outcome_of
from acidctl.options import ExportOptions
from acidctl.rows.pipeline import cores
from acidctl.rows.snapshot import Snapshot
from acidctl.storage.local import LocalStorage, whole_path
from acidctl.storage.port import Storage
from acidctl.storage.resolve import options_elsewhere
from acidctl.types.digest import combined
from acidctl.values import dataclass


class ExportReport(TypedDict):
    """What was exported, after it was read back and published."""

    location: Annotated[str, "the table as it was named, without secrets"]
    to: Annotated[str, "the file or directory, without secrets"]
    format: Annotated[str, "parquet, arrow, csv or jsonl"]
    compression: Annotated[str, "none, gzip, snappy or zstd"]
    rows: Annotated[int, "rows in all files"]
    files: Annotated[int, "files with rows; a file of an empty answer counts too"]
    bytes: Annotated[int, "bytes of all files"]
    digest: Annotated[str, "of what was read back: `r2:` of the values in their order, `sha256:` of the bytes of text"]
    replaced: Annotated[int, "strings that were not UTF-8 and got replacement characters"]
    seconds: Annotated[float, "how long it took"]
    notes: Annotated[list[str], "what killed runs had left, and what became of it"]


@dataclass(frozen=True, slots=True)
class Chosen:
    """Which rows and columns of a snapshot are exported; `strict` refuses where rows may be missing or come twice."""

    columns: Sequence[str] | None = None
    row_id: bool = False
    limit: int | None = None
    strict: bool = False
    more: dict[str, Any] = field(default_factory=dict)


def export(snapshot: Snapshot, asked: ExportOptions, chosen: Chosen, storage: Storage, path: str) -> ExportReport:
    """Write rows of a snapshot to `path`, see `ExportOptions`.

    UsageError and ExistsError before anything is read; DamagedDataError with `strict`; VerificationError where what was
    written is not what is found. Whatever is raised, nothing is left under the target's name, nor beside it.
    """
    started = time.monotonic()
    form, folder = form_of(asked, row_id=chosen.row_id)
    names = snapshot.column_names(chosen.columns)
    if asked.partitioned:
        own = {name.lower() for name in snapshot.partition_names}
        if not own:
            raise UsageError(f"--partitioned needs partitions, and {snapshot.location} has none")
        names = tuple(name for name in names if name.lower() not in own)
    if asked.engine == "spark" and (not folder or chosen.limit is not None):
        raise UsageError(
            "--engine spark writes a directory of files, and all rows",
            hint="End the name of --to in /, and leave out --limit.",
        )
    fields = {one.name: one for one in snapshot.fields}
    renderer = Renderer(form, [fields[name] for name in names])
    if chosen.strict:
        snapshot.require_certain()
    if asked.unsafe_overwrite_unlisted and not asked.overwrite:
        raise UsageError(f"{AGREE} is about what --overwrite replaces, and that is not given")
    target = Target(storage, path, folder=folder, overwrite=asked.overwrite, unlisted=asked.unsafe_overwrite_unlisted)
    with ExitStack() as unfinished:
        unfinished.callback(target.abandon)
        target.begin()
        if asked.engine == "spark":
            files, replaced = _by_tasks(snapshot, asked, chosen, target, Prepared(form, names, renderer))
        else:
            # The other half of the cores renders, packs and reads back; each thread that reads takes some memory.
            threads = max(1, cores() // 2) if chosen.limit is None else 1
            rows = snapshot.rows(names, threads=threads, limit=chosen.limit, **chosen.more)
            files = Parts(target, renderer, by_partition=asked.partitioned).write(rows)
            replaced = renderer.damage.count
        if chosen.strict:
            snapshot.require_certain()
        target.publish()
        unfinished.pop_all()
    return {
        "location": snapshot.location,
        "to": target.shown,
        "format": form.kind,
        "compression": form.compression,
        "rows": sum(content.rows or 0 for content in files),
        "files": len(files),
        "bytes": sum(content.bytes for content in files),
        "digest": combined([content.digest for content in files]),
        "replaced": replaced,
        "seconds": round(time.monotonic() - started, 3),
        "notes": target.notes,
    }


class Prepared(NamedTuple):
    """What all files of an export have in common."""

    form: FileForm
    names: tuple[str, ...]
    renderer: Renderer


def _by_tasks(
    snapshot: Snapshot, asked: ExportOptions, chosen: Chosen, target: Target, prepared: Prepared
) -> tuple[list[Content], int]:
    """The files, written by an engine, in the order of the answer; and how many strings were repaired."""
    choice = EngineChoice(asked.engine, asked.master, asked.conf or {}, asked.spark)
    done: dict[int, Written] = {}
    with early_engine(choice, work=outcome_of) as (early, begin):
        begin()
        tasks = list(_tasks(snapshot, asked, chosen, target, prepared))
        for task in tasks:
            target.make_folders(task.name)
        engine, _ = make_engine(choice, sum(task.bytes_in for task in tasks), work=outcome_of, early=early)
        with closing(engine):
            for outcome in engine.run(tasks) if tasks else ():
                if outcome.error is not None:
                    raise outcome.error
                done[outcome.index] = outcome.result
    written = [done[index] for index in sorted(done)]
    for finding in chain.from_iterable(one.findings for one in written):
        snapshot.add_finding(finding)
    known = {one.relative for one in written}
    if tasks and target.storage.stat(target.work) is not None:
        # Attempts that lost against others, or died, have left theirs.
        for info in target.storage.walk(target.work).files:
            if info.path not in known:
                target.storage.remove_file(target.place(info.path))
    contents = [one.content for one in written if one.content is not None]
    if not contents and not asked.partitioned:
        contents = Parts(target, prepared.renderer, by_partition=False).write(iter(()))
    return contents, sum(one.replaced for one in written)


def _tasks(
    snapshot: Snapshot, asked: ExportOptions, chosen: Chosen, target: Target, prepared: Prepared
) -> Iterator[ExportTask]:
    """A task for each split; those of a partition have its folder."""
    fields = {one.name: one for one in snapshot.fields}
    columns = tuple(fields[name] for name in prepared.names)
    url = whole_path(target.storage, target.path) if isinstance(target.storage, LocalStorage) else asked.to
    options = options_elsewhere(url, asked.storage_options or {}, os.environ)
    work = whole_path(target.storage, target.work)
    number = 0
    for partition in [part.partition for part in snapshot.partitions] if asked.partitioned else [""]:
        narrowed = (partition,) if partition else ()
        how = {"row_id": True, "timestamps": "exact", **chosen.more}
        for split in snapshot.splits(prepared.names, partitions=narrowed, **how):
            name = f"{partition}/part-{number:05}" if partition else f"part-{number:05}"
            number += 1
            yield ExportTask(split, partition, columns, prepared.form, url, options, work, name)
