"""Readers of an object store while a compaction publishes: a listing of several pages is not of one moment."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fsspec.implementations.local import LocalFileSystem

from acidctl.api import Table
from acidctl.compaction import publish as publish_module
from acidctl.errors import StorageError
from acidctl.storage.objects import FsspecObjects, Item, ObjectStorage
from acidctl.storage.s3 import FACTS
from tests.support.objects import FolderObjects
from tests.support.publishing import make_case

_SECONDS = 30


class _Writer(FolderObjects):
    """Waits before it writes its journal, and again when it has copied one file."""

    def __init__(self) -> None:
        super().__init__()
        self.at_journal, self.go_on = threading.Event(), threading.Event()
        self.copied, self.finish = threading.Event(), threading.Event()

    def put(self, path: str, data: bytes) -> None:
        if path.endswith("/journal.json"):
            self.at_journal.set()
            assert self.go_on.wait(_SECONDS)
        super().put(path, data)

    def copy(self, source: Item, target: str) -> None:
        super().copy(source, target)
        if not self.copied.is_set():
            self.copied.set()
            assert self.finish.wait(_SECONDS)


class _Paged(FolderObjects):
    """Lists what begins with `_acidctl` first, then lets the writer go on, then lists the rest."""

    def __init__(self, writer: _Writer) -> None:
        super().__init__()
        self._writer = writer

    def below(self, path: str) -> Iterator[Item]:
        start = len(path) + 1
        yield from [item for item in super().below(path) if item.path[start:].startswith("_acidctl")]
        self._writer.go_on.set()
        assert self._writer.copied.wait(_SECONDS)
        yield from [item for item in super().below(path) if not item.path[start:].startswith("_acidctl")]


@pytest.mark.parametrize("kind", ["minor", "major"])
def test_a_journal_written_between_two_pages_is_found(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first page shows a run that has published nothing, the second a part of what it publishes."""
    monkeypatch.setattr(publish_module, "COPIES", 1)
    case = make_case(kind, tmp_path / "cases")
    root = tmp_path / "t"
    case.plant(root)

    def rows(objects: FolderObjects) -> object:
        return Table(ObjectStorage(objects, FACTS), str(root)).snapshot().count_and_digest()

    before = rows(FolderObjects())
    writer = _Writer()
    thread = threading.Thread(target=lambda: case.run(ObjectStorage(writer, FACTS), root), daemon=True)
    thread.start()
    try:
        assert writer.at_journal.wait(_SECONDS)
        assert rows(_Paged(writer)) == before
        assert writer.copied.is_set()
    finally:
        writer.go_on.set()
        writer.finish.set()
        thread.join(_SECONDS)
    assert rows(FolderObjects()) == before


class _Hidden(FolderObjects):
    """A store whose listings never show a journal that is there."""

    def below(self, path: str) -> Iterator[Item]:
        return iter([item for item in super().below(path) if not item.path.endswith("/journal.json")])


def test_what_changes_again_and_again_is_told(tmp_path: Path) -> None:
    """Rather that than an answer from half of it."""
    case = make_case("major", tmp_path / "cases")
    root = tmp_path / "t"
    case.plant(root)
    work = root / "_acidctl_work_0123456789ab"
    work.mkdir()
    for path in (root / "_acidctl_lock", work / "owner.json", work / "journal.json", work / "attempts" / "x"):
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"{}")
    with pytest.raises(StorageError, match="keeps changing while it is listed"):
        Table(ObjectStorage(_Hidden(), FACTS), str(root)).locations()


class _Forgetful(LocalFileSystem):  # type: ignore[misc]
    """Answers a write that it has carried out as if somebody else had been there first, as a second try does."""

    cachable = False
    struck = False

    def put_file(self, lpath: str, rpath: str, **options: Any) -> None:
        super().put_file(lpath, rpath, **options)
        if "/base_0000004/" in rpath and not self.struck:
            self.struck = True
            raise FileExistsError(rpath)


def test_where_nobody_knows_whose_a_file_is_the_journal_stays(tmp_path: Path) -> None:
    """Without it readers would take a part of a base for the whole; the next run settles it."""
    case = make_case("major", tmp_path / "cases")
    root = tmp_path / "t"
    case.plant(root)

    def store() -> ObjectStorage:
        filesystem = _Forgetful(auto_mkdir=True)
        return ObjectStorage(
            FsspecObjects(filesystem, "file", {}), FACTS._replace(conditional_replace=False, knows_own=False)
        )

    def rows() -> object:
        return Table(store(), str(root)).snapshot().count_and_digest()

    before = rows()
    with pytest.raises(StorageError, match="may be published in part"):
        case.run(store(), root)
    assert list(root.glob("base_*/*"))
    assert list(root.glob("_acidctl_work_*/journal.json"))
    assert rows() == before
