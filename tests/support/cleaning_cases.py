"""Tables for tests of the cleaner: copies of what Hive left behind, and what a reader opens in them."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

from acidctl import open_table
from acidctl.cleaning.report import CleanReport
from acidctl.cleaning.run import CleanRun, prepare
from acidctl.format.write_ids import Profile, Reader, ValidTxns, ValidWriteIds
from acidctl.options import CleanOptions
from acidctl.state.resolve import resolve
from acidctl.storage.local import LocalStorage
from acidctl.storage.locations import gather
from acidctl.storage.port import Storage
from tests.support import steps

FIXTURES = steps.TABLES
# When everything in a copy was written, and two days later, when it is old.
MADE = 1_700_000_000.0
LATER = MADE + 2 * 86400.0


def age(root: Path) -> None:
    """Make everything below as old as a copy is."""
    for path in (root, *root.rglob("*")):
        os.utime(path, (MADE, MADE))


class Step(steps.Step):
    """A recorded step whose copies are cleaned."""

    def copy(self, target: Path) -> Path:
        """A copy of the table; empty directories are restored."""
        if target.exists():
            shutil.rmtree(target)
        shutil.copytree(self.folder / "table", target)
        for name in self.facts.get("empty_directories", []):
            (target / name).mkdir(parents=True, exist_ok=True)
        age(target)
        return target

    def request(self, **more: Any) -> CleanOptions:
        """What a user with these lists asks."""
        return CleanOptions(validtxns=self.lists, schema=self.facts["ddl"], list_format=self.list_format, **more)

    def run(self, storage: Storage, root: Path, **more: Any) -> CleanRun:
        """A run over the copy, two days after it was made."""
        return prepare(storage, str(root), self.request(**more), now=LATER)

    def delete(self, root: Path, storage: Storage | None = None, **more: Any) -> CleanReport:
        """Plan and delete."""
        run = self.run(storage or LocalStorage(), root, **more)
        return run.delete(run.plan())

    def quarantine(
        self, root: Path, storage: Storage | None = None, base: str | None = None, **more: Any
    ) -> CleanReport:
        """Plan and move away."""
        run = self.run(storage or LocalStorage(), root, **more)
        return run.quarantine(run.plan(), base)

    def undo(self, root: Path, storage: Storage | None = None, base: str | None = None) -> CleanReport:
        """Bring back."""
        return self.run(storage or LocalStorage(), root).undo(base)

    def reads(self, root: Path) -> object:
        """What the reader of the lists opens, by both profiles, with sizes: the same files hold the same rows."""
        found = []
        for location in gather(LocalStorage(), str(root)):
            sizes = {info.path: info.size for info in location.listing.files}
            for profile in Profile:
                state = resolve(location.listing, Reader(*self._ids(), profile=profile), raise_on_history=False)
                base = None if state.base is None else state.base.name
                deltas, originals = [d.name for d in state.deltas], [f.path for f in state.originals]
                answer = (base, deltas, originals, state.history_gap is not None)
                names = {str(base), *deltas, *originals}
                inside = {p: s for p, s in sizes.items() if p in names or p.partition("/")[0] in names}
                found.append((location.partition, profile.value, answer, inside))
        return found

    def rows(self, root: Path) -> object:
        """Count and digest of what the reader sees."""
        return open_table(str(root)).snapshot(**self.view).count_and_digest()

    def _ids(self) -> tuple[ValidWriteIds, ValidTxns]:
        return ValidWriteIds.parse(self.lists[0]), ValidTxns.parse(self.lists[1])


def step(path: str) -> Step:
    """A step by `engine/scenario/step`."""
    return Step(FIXTURES / path)


def tree(root: Path) -> dict[str, int]:
    """Every file below, with its size."""
    return {str(p.relative_to(root)): p.stat().st_size for p in sorted(root.rglob("*")) if p.is_file()}


def tops(root: Path) -> set[str]:
    """Names directly below."""
    return {p.name for p in root.iterdir()}


def visible_whole(root: Path, before: dict[str, int]) -> None:
    """Nothing that a reader could see has lost a part: each name is as it was, or gone."""
    now = tree(root)
    for top in {path.partition("/")[0] for path in before}:
        was = {path: size for path, size in before.items() if path.partition("/")[0] == top}
        found = {path: size for path, size in now.items() if path.partition("/")[0] == top}
        assert found in ({}, was), top
