"""An export in tasks for an engine: each writes the files of one part of the answer, wherever it runs.

Every attempt writes under a name of its own and reads its file back; the first that is finished counts. Who publishes
removes the files of all others.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

import pyarrow as pa

from acidctl.engine import TaskOutcome
from acidctl.errors import AcidctlError
from acidctl.exporting.forms import Content, FileForm, Renderer
from acidctl.exporting.parts import PartFile
from acidctl.exporting.target import WorkPlace
from acidctl.findings import Finding
from acidctl.rows.scan import Findings
from acidctl.rows.snapshot import Rows
from acidctl.rows.splits import Split
from acidctl.storage.resolve import resolve
from acidctl.types.hive_types import Field
from acidctl.values import dataclass


@dataclass(frozen=True, slots=True)
class ExportTask:
    """A split, whose moments are exact and whose rows have ids, and where its file goes.

    `work` is the hidden directory of the export, `url` and `options` are how its storage is opened where the task runs.
    `name` is the file's, below `work`, without what the attempt and the form add.
    """

    split: Split = field(repr=False)
    partition: str
    fields: Sequence[Field]
    form: FileForm
    url: str
    options: Mapping[str, Any] = field(repr=False)
    work: str
    name: str
    hosts: tuple[str, ...] = ()

    @property
    def output(self) -> str:
        """What messages call it."""
        return f"{self.name}{self.form.suffix}"

    @property
    def bytes_in(self) -> int:
        """What is read."""
        return self.split.bytes


@dataclass(frozen=True, slots=True)
class Written:
    """A file of the export by its path below the work directory; None where the part had no rows.

    `findings` is why its rows may come twice.
    """

    relative: str | None
    content: Content | None
    replaced: int = 0
    findings: tuple[Finding, ...] = ()


def outcome_of(index: int, task: Any, threads: bool) -> TaskOutcome:
    """Carry out a task; a failure is in the outcome."""
    try:
        return TaskOutcome(index, run_task(task))
    except AcidctlError as error:
        return TaskOutcome(index, error=error)


def run_task(task: ExportTask) -> Written:
    """Write the file of a task and read it back; see `export` for what it raises."""
    storage, _ = resolve(task.url, task.options)
    renderer = Renderer(task.form, task.fields)
    relative = f"{task.name}-{secrets.token_hex(4)}{task.form.suffix}"
    part: PartFile | None = None
    findings = Findings()
    try:
        for batch in task.split.to_batches(findings=findings):
            if len(batch):
                part = part or PartFile(WorkPlace(storage, task.work), renderer, relative, task.partition)
                part.add(renderer.render(_rows_of(batch, task)))
        if part is None:
            return Written(None, None, findings=tuple(findings))
        return Written(relative, part.finish(), renderer.damage.count, tuple(findings))
    except BaseException as error:
        if part is not None:
            part.abandon(error)
        raise


def _rows_of(batch: pa.RecordBatch, task: ExportTask) -> Rows:
    """A batch of a split as the rows that it was made of."""
    ids = batch.column(0)
    own = None if ids.null_count == len(ids) else tuple(ids.flatten())
    names, types = zip(*((one.name, one.type) for one in task.fields), strict=True)
    return Rows(task.partition, names, types, tuple(batch.columns[1:]), len(batch), own)
