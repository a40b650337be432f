"""Compactions whose work is done already: tables that Hive wrote, with what Hive's own compactor made of them.

A case copies a fixture table without the compacted directories and takes those as the results of its tasks, so that
lock, work directory, commit and recovery can be tried hundreds of times without merging anything.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from acidctl import open_table
from acidctl.compaction.plan import (
    Action,
    CompactionKind,
    CompactionPlan,
    OutputDir,
    PartitionPlan,
    PlannedTask,
    Role,
    TableFacts,
    Target,
    TaskResult,
    fingerprint_of,
)
from acidctl.compaction.plan import InputEntry as Input
from acidctl.compaction.publish import publish, require_inputs
from acidctl.compaction.recovery import recover
from acidctl.format.names import METADATA_MARKER, VERSION_MARKER
from acidctl.format.write_ids import Reader, ValidTxns, ValidWriteIds
from acidctl.maintenance.lock import acquire
from acidctl.maintenance.work_dir import WorkDir, list_location
from acidctl.state.entries import AcidState, EntryKind
from acidctl.state.inventory import data_files, live_entries
from acidctl.state.resolve import resolve
from acidctl.storage.local import LocalStorage
from acidctl.storage.port import Storage, join
from tests import ROOT

TABLES = ROOT / "fixtures" / "tables" / "hive4"
NOW = 1_800_000_000.0
_COMPACTED = '{"thisFileVersion":"0","dataFormat":"compacted"}'


@dataclass(frozen=True)
class Case:
    """A table, the plan for it, and where the finished output files lie; `lists` are a reader's, as options."""

    template: Path
    plan: PartitionPlan
    whole: CompactionPlan
    sources: dict[str, Path]
    lists: dict[str, Any] = field(default_factory=dict)

    @property
    def outputs(self) -> list[str]:
        """Names of the planned outputs."""
        return [output.name for output in self.plan.outputs]

    def plant(self, root: Path) -> Storage:
        """A fresh copy of the table; times of files are kept."""
        shutil.rmtree(root, ignore_errors=True)
        shutil.copytree(self.template, root)
        return LocalStorage()

    def work(self, storage: Storage, work: WorkDir) -> list[TaskResult]:
        """What the tasks do: attempts that are written as a whole, and one that lost the race."""
        results = []
        for number, (output, source) in enumerate(sorted(self.sources.items())):
            data = source.read_bytes()
            name = output.replace("/", "__")
            for attempt in ("lost", f"{number:012x}"):
                path = f"attempts/{name}.{attempt}"
                with storage.create(join(work.path, path)) as stream:
                    stream.write(data)
            results.append(TaskResult(output, path, 1, len(data)))
        return results

    def run(self, storage: Storage, root: Path) -> tuple[str, ...]:
        """One run of `compact` in this location; empty when there is nothing left to do."""
        place = str(root)
        with acquire(storage, place, now=NOW) as lock:
            recover(storage, place, list_location(storage, place), lock=lock)
            listing = list_location(storage, place)
            if set(self.outputs) <= set(listing.directories):
                return ()
            require_inputs(listing, self.plan)
            work = WorkDir.create(storage, place, "major", self.outputs, lock)
            try:
                return publish(storage, place, work, self.plan, self.whole, self.work(storage, work), lock)
            finally:
                work.remove()

    def rows(self, root: Path, profile: str = "strict") -> tuple[int, str]:
        """Rows and digest that a reader gets; read once for each selection of files."""
        snapshot = open_table(str(root)).snapshot(profile=profile, **self.lists)
        state = snapshot.partitions[0].state
        key = (str(self.template), *((f.path, f.size) for e in live_entries(state) for f in e.files))
        if key not in _known:
            _known[key] = snapshot.count_and_digest()
        return _known[key]


_known: dict[tuple[object, ...], tuple[int, str]] = {}


def leftovers(root: Path) -> list[str]:
    """Names that acidctl left."""
    return sorted(path.name for path in root.iterdir() if path.name.startswith("_acidctl"))


def state_of(root: Path) -> AcidState:
    """The strict state of the location, with nothing excepted."""
    listing = list_location(LocalStorage(), str(root))
    return resolve(listing, Reader(ValidWriteIds.everything(), ValidTxns.everything()), raise_on_history=False)


@cache
def make_case(kind: str, folder: Path) -> Case:
    """`minor`: two outputs, no other reader; `minor_txn`: two under a visibility transaction; `major`: a base."""
    major = kind == "major"
    step, txn = ("04-major", "0077617") if major else ("03-minor", "0077611")
    visible = kind == "minor_txn"
    suffix = f"_v{txn}" if visible else ""
    made = TABLES / "multi_statement" / step / "table"
    range_ = "0000001_0000003"
    names = ["base_0000004"] if major else [f"delta_{range_}", f"delete_delta_{range_}"]
    template = folder / kind
    shutil.copytree(made, template, ignore=lambda _, found: [name for name in found if "_v" in name])
    sources = {
        f"{name}{suffix}/{path.name}": path
        for name in names
        for path in sorted((made / f"{name}_v{txn}").glob("bucket*"))
    }
    markers = ((VERSION_MARKER, "2"), *([(METADATA_MARKER, _COMPACTED)] if major else []))
    kinds = {"base": EntryKind.BASE, "delta": EntryKind.DELTA, "delete": EntryKind.DELETE_DELTA}
    outputs = tuple(OutputDir(name + suffix, kinds[name.partition("_")[0]].value, markers) for name in names)
    state = state_of(template)
    inputs = tuple(
        Input(e.name, e.kind.value, e.min_write_id, e.max_write_id, tuple(f.info for f in data_files(e)))
        for e in live_entries(state)
    )
    plan = PartitionPlan(
        partition="",
        path="",
        action=Action.COMPACT,
        inputs=inputs,
        outputs=outputs,
        tasks=tuple(PlannedTask(Role.INSERTS, output, 0, ()) for output in sources),
        fingerprint=fingerprint_of(inputs),
    )
    opened = f"{int(txn)}:{int(txn)}:{int(txn)}:"
    whole = CompactionPlan(
        location=str(template),
        kind=CompactionKind.MAJOR if major else CompactionKind.MINOR,
        target=Target.HIVE4,
        visibility_txn=int(txn) if visible else None,
        table=TableFacts("full", False, "", "struct<a:int>", "hive4"),
        partitions=(plan,),
        txns=opened if visible else "",
        assume_exclusive=not visible,
    )
    return Case(template, plan, whole, sources, {"validtxns": [opened]} if visible else {})
