"""What is written locally is on its way to the disk before it is whole, and whole when it is closed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from acidctl.storage import local
from acidctl.storage.local import LocalStorage

_MIB = 1 << 20


@pytest.mark.parametrize("offered", [True, False])
def test_the_disk_begins_to_write_while_a_file_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, offered: bool
) -> None:
    """Each byte once and in order, in pieces that are worth a call; where the system has none, all at the end."""
    begun: list[tuple[int, int]] = []
    usual = local.sync_file_range()

    def begin(number: int, start: int, length: int, flags: int) -> int:
        assert os.fstat(number).st_size == start + length
        begun.append((start, length))
        return -1 if usual is None else usual(number, start, length, flags)

    monkeypatch.setattr(local, "sync_file_range", lambda: begin if offered else None)
    content = os.urandom(_MIB) * 20
    with LocalStorage().create(str(tmp_path / "file")) as sink:
        for start in range(0, len(content), 3 * _MIB):
            sink.write(content[start : start + 3 * _MIB])
    assert (tmp_path / "file").read_bytes() == content
    assert begun == ([(0, 9 * _MIB), (9 * _MIB, 9 * _MIB)] if offered else [])


def test_linux_has_the_call(tmp_path: Path) -> None:
    """Offsets beyond 32 bits are taken as they are."""
    begin = local.sync_file_range()
    if begin is None:
        pytest.skip("not Linux")
    with (tmp_path / "file").open("wb") as file:
        file.truncate(6 << 30)
        assert begin(file.fileno(), 5 << 30, 1 << 30, local._BEGIN_WRITING) == 0
