"""What acidctl makes may never be read by more people than what it is made of, not even for a moment."""

from __future__ import annotations

import os
import shutil
import stat
import threading
from collections.abc import Iterator
from contextlib import suppress
from glob import glob
from pathlib import Path
from typing import Any

import pytest

from acidctl.storage.local import LocalStorage
from tests.cli.runner import acidctl
from tests.support.cleaning_cases import FIXTURES

DEMO = FIXTURES / "hive4/demo_orders/03-demo/table"
LISTS = ("--validtxns", "default.orders:9:8:8:6", "--validtxns", "21:17:17:15")


@pytest.fixture
def open_umask() -> Iterator[None]:
    """A user who lets everybody read and write what he makes."""
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.mark.usefixtures("open_umask")
def test_nobody_else_may_look_into_a_run(tmp_path: Path) -> None:
    """Inputs are for their owner alone: so is all that is seen of the run, while it runs and afterwards."""
    root = tmp_path / "orders"
    shutil.copytree(DEMO, root)
    # The table itself is open: nothing but the modes of the inputs protects them.
    root.chmod(0o755)
    for path in root.rglob("*"):
        path.chmod(0o700 if path.is_dir() else 0o600)
    seen: dict[str, int] = {}
    over = threading.Event()

    def watch() -> None:
        while not over.wait(0.001):
            for pattern in ("attempts/*", "out/*/*"):
                # Not Path.glob, which fails where a directory is renamed meanwhile.
                for place in glob(f"{root}/_acidctl_work_*/{pattern}"):
                    with suppress(FileNotFoundError):
                        seen[place] = seen.get(place, 0) | os.stat(place).st_mode

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        result = acidctl("compact", "major", str(root), *LISTS)
    finally:
        over.set()
        watcher.join()
    assert result.code == 0, result
    assert any("/attempts/" in path for path in seen)
    assert {path: oct(mode) for path, mode in seen.items() if mode & 0o077} == {}
    for path in root.glob("base_*/*"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path


@pytest.mark.usefixtures("open_umask")
def test_a_new_file_begins_with_the_mode_of_its_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Until it has that, it is its maker's alone, whatever his umask is; a directory can be written by its owner."""
    opened, made = os.open, []

    def spy(path: Any, flags: int, mode: int = 0o777, **more: Any) -> int:
        number = opened(path, flags, mode, **more)
        if flags & os.O_CREAT:
            made.append(stat.S_IMODE(os.fstat(number).st_mode))
        return number

    (tmp_path / "model").write_bytes(b"")
    (tmp_path / "place").mkdir()
    for mode, directory_mode in ((0o640, 0o750), (0o600, 0o2775), (0o444, 0o555)):
        os.chmod(tmp_path / "model", mode)
        os.chmod(tmp_path / "place", directory_mode)
        storage, new = LocalStorage(), f"{tmp_path}/new"
        with monkeypatch.context() as patched:
            patched.setattr(os, "open", spy)
            with storage.create(new, f"{tmp_path}/model") as stream:
                assert stat.S_IMODE(os.stat(new).st_mode) == mode
                stream.write(b"1")
        assert made.pop() & 0o077 == 0
        os.unlink(new)
        storage.create_exclusive(new, b"1", f"{tmp_path}/place")
        assert stat.S_IMODE(os.stat(new).st_mode) == directory_mode & 0o666
        storage.mkdir(f"{new}.d", f"{tmp_path}/place")
        assert stat.S_IMODE(os.stat(f"{new}.d").st_mode) == directory_mode | 0o700
        os.unlink(new)
        os.rmdir(f"{new}.d")
