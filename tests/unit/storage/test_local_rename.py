"""Renaming locally never replaces anything, in one step where the system can."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from acidctl.storage import local as rename
from acidctl.storage.local import rename_new

_OFFERS: dict[str, Callable[[], Callable[[bytes, bytes, int, int, int], int] | None]] = {
    "offered": rename.renameat2,
    "not by the system": lambda: None,
    "not by the file system": lambda: lambda *_: errno.EINVAL,
}


@pytest.fixture(params=_OFFERS)
def offer(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rename, "renameat2", _OFFERS[request.param])


def _make(path: Path, kind: str) -> Path:
    if kind == "file":
        path.write_text(path.name)
    elif kind == "link":
        path.symlink_to("missing")
    else:
        path.mkdir()
    return path


@pytest.mark.usefixtures("offer")
@pytest.mark.parametrize("kind", ["file", "directory", "link"])
@pytest.mark.parametrize("there", ["file", "directory", "link"])
def test_nothing_is_replaced(tmp_path: Path, kind: str, there: str) -> None:
    """Neither a file nor an empty directory nor a dangling link; both stay as they are."""
    source, target = _make(tmp_path / "source", kind), _make(tmp_path / "target", there)
    before = [path.lstat() for path in (source, target)]
    with pytest.raises(FileExistsError):
        rename_new(str(source), str(target))
    assert [path.lstat().st_ino for path in (source, target)] == [found.st_ino for found in before]


@pytest.mark.usefixtures("offer")
@pytest.mark.parametrize("name", ["new", "a b", "caf\udce9"])
def test_a_free_name_is_taken(tmp_path: Path, name: str) -> None:
    """Also one that is not UTF-8."""
    source = _make(tmp_path / "source", "file")
    rename_new(str(source), f"{tmp_path}/{name}")
    assert os.listdir(tmp_path) == [name]


@pytest.mark.usefixtures("offer")
def test_errors_are_those_of_rename(tmp_path: Path) -> None:
    """A missing source, a missing parent, a name that no system has, and a directory into itself."""
    source = _make(tmp_path / "source", "directory")
    for old, new in (("missing", "new"), ("source", "missing/new")):
        with pytest.raises(FileNotFoundError, match=f"{old}' -> '"):
            rename_new(f"{tmp_path}/{old}", f"{tmp_path}/{new}")
    with pytest.raises(ValueError, match="null"):
        rename_new(str(source), f"{tmp_path}/new\0er")
    with pytest.raises(OSError, match="Invalid argument"):
        rename_new(str(source), f"{source}/below")
    assert os.listdir(tmp_path) == ["source"]


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no such call")
def test_what_appears_at_the_last_moment_is_not_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process was faster than any look could be: two that take over one lock, for example."""
    monkeypatch.setattr(os.path, "lexists", lambda path: False)
    source, target = _make(tmp_path / "source", "file"), _make(tmp_path / "target", "file")
    with pytest.raises(FileExistsError):
        rename_new(str(source), str(target))
    assert target.read_text() == "target"
