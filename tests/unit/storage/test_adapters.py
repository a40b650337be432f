"""The conformance suite, over every adapter, and what is special about each."""

from __future__ import annotations

import errno
import os
import resource
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import fsspec
import pytest

from acidctl.errors import DeniedError, ExitCode, NoSuchTableError, QuotaError, SafeModeError, StorageError, UsageError
from acidctl.storage import local as local_module
from acidctl.storage.local import LocalStorage, together
from acidctl.storage.objects import FsspecStorage
from acidctl.storage.port import Storage
from acidctl.storage.resolve import resolve
from tests.support.memory import MemoryStorage
from tests.support.storage_conformance import Make, WritingStorage


def _plant(root: Path, files: Mapping[str, bytes]) -> None:
    for name, data in files.items():
        path = root / name
        if name.endswith("/"):
            path.mkdir(parents=True)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)


class TestLocal(WritingStorage):
    """The local file system."""

    @pytest.fixture
    def make(self, tmp_path: Path) -> Make:
        """A tree in a temporary directory."""

        def make(files: Mapping[str, bytes]) -> tuple[Storage, str]:
            _plant(tmp_path, files)
            return LocalStorage(), str(tmp_path)

        return make

    def test_names_that_are_not_utf8_travel_as_surrogates(self, tmp_path: Path) -> None:
        """A name from another encoding can be listed and opened."""
        path = os.fsencode(tmp_path) + b"/caf\xe9"
        with open(path, "wb") as stream:
            stream.write(b"x")
        (info,) = LocalStorage().walk(str(tmp_path)).files
        assert info.path == "caf\udce9"
        with LocalStorage().open(f"{tmp_path}/{info.path}") as stream:
            assert stream.read() == b"x"

    def test_links_are_followed_and_loops_refused(self, tmp_path: Path) -> None:
        """A link to a directory is a directory; one to a parent would never end."""
        _plant(tmp_path, {"real/f": b"1"})
        (tmp_path / "table").mkdir()
        (tmp_path / "table/delta_1_1").symlink_to(tmp_path / "real")
        assert [info.path for info in LocalStorage().walk(f"{tmp_path}/table").files] == ["delta_1_1/f"]
        (tmp_path / "table/loop").symlink_to(tmp_path)
        with pytest.raises(StorageError, match="link to one of its own parent"):
            LocalStorage().walk(f"{tmp_path}/table")

    def test_a_link_without_target_is_an_error(self, tmp_path: Path) -> None:
        """A bucket file that is missing must not look like a table without it."""
        (tmp_path / "bucket_00000").symlink_to(tmp_path / "gone")
        with pytest.raises(StorageError, match="target does not exist"):
            LocalStorage().walk(str(tmp_path))

    def test_refusals_of_the_system_name_the_path(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """A closed directory is an error, because it would mislead; hidden ones may be closed, and what is in them.

        Not so the work of a compaction, which decides what counts.
        """
        work = "_acidctl_work_0123456789ab/attempts/f"
        _plant(tmp_path, {"delta_1_1/f": b"1", ".staging/-ext-10000/f": b"1", work: b"1"})
        scandir = os.scandir

        def refuse(path: str) -> object:
            if path.endswith(closed):
                raise PermissionError(13, "Permission denied", path)
            return scandir(path)

        monkeypatch.setattr(os, "scandir", refuse)
        for closed in (".staging", "-ext-10000"):
            assert "delta_1_1/f" in [info.path for info in LocalStorage().walk(str(tmp_path)).files], closed
        for closed in ("_acidctl_work_0123456789ab", "attempts"):
            with pytest.raises(DeniedError, match=f"{closed} cannot be used: Permission denied"):
                LocalStorage().walk(str(tmp_path))
        closed = "delta_1_1"
        with pytest.raises(DeniedError, match="delta_1_1 cannot be used: Permission denied") as caught:
            LocalStorage().walk(str(tmp_path))
        assert "may read" in (caught.value.hint or "")

    def test_a_directory_that_vanishes_during_the_walk_counts_as_never_seen(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A cleaner at work is no error."""
        _plant(tmp_path, {"delta_1_1/f": b"1", "delta_2_2/f": b"1"})
        scandir = os.scandir

        def vanish(path: str) -> object:
            if path.endswith("delta_1_1"):
                raise FileNotFoundError(2, "No such file or directory", path)
            return scandir(path)

        monkeypatch.setattr(os, "scandir", vanish)
        found = LocalStorage().walk(str(tmp_path))
        assert (found.directories, [info.path for info in found.files]) == (("delta_2_2",), ["delta_2_2/f"])

    def test_only_regular_files_are_opened(self, tmp_path: Path) -> None:
        """Opening a pipe would hang."""
        os.mkfifo(tmp_path / "bucket_00000")
        with pytest.raises(StorageError, match="not a regular file"):
            LocalStorage().open(f"{tmp_path}/bucket_00000")

    def test_modes_are_inherited(self, tmp_path: Path) -> None:
        """Directories as they are, with the bit that hands the group down; files without execution bits."""
        _plant(tmp_path, {"old/f": b"1", "new/f": b"2"})
        (tmp_path / "old").chmod(0o2775)
        (tmp_path / "old/f").chmod(0o640)
        storage = LocalStorage()
        storage.inherit(f"{tmp_path}/new", f"{tmp_path}/old")
        storage.inherit(f"{tmp_path}/new/f", f"{tmp_path}/old")
        assert [oct((tmp_path / name).stat().st_mode)[-4:] for name in ("new", "new/f")] == ["2775", "0664"]
        storage.inherit(f"{tmp_path}/new/f", f"{tmp_path}/old/f")
        assert oct((tmp_path / "new/f").stat().st_mode)[-4:] == "0640"

    def test_who_may_not_give_files_away_keeps_them(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """The group follows alone where the owner cannot, and neither is an error."""
        _plant(tmp_path, {"old/f": b"1", "new/f": b"2"})
        model, asked = os.stat(tmp_path / "old"), []

        def chown(number: int, owner: int, group: int) -> None:
            asked.append((owner, group))
            raise PermissionError(1, "Operation not permitted")

        real = os.stat

        def stat(path: str, **more: Any) -> os.stat_result:
            found = list(real(path, **more))
            return os.stat_result([*found[:4], 12, 34, *found[6:]]) if path.endswith("old") else real(path, **more)

        with monkeypatch.context() as patched:
            patched.setattr(os, "fchown", chown)
            patched.setattr(os, "stat", stat)
            LocalStorage().inherit(f"{tmp_path}/new", f"{tmp_path}/old")
        assert asked == [(12, 34), (-1, 34)]
        assert model.st_uid != 12

    @pytest.mark.parametrize(
        ("number", "kind", "advice"),
        [
            (errno.ENOSPC, QuotaError, "Free space"),
            (errno.EDQUOT, QuotaError, "Raise the quota"),
            (errno.EROFS, SafeModeError, "mounted read-only"),
            (errno.EACCES, DeniedError, "may write"),
            (errno.EPERM, DeniedError, "may write"),
            (errno.EXDEV, StorageError, "on one file system"),
        ],
    )
    def test_what_the_system_refuses_to_write_says_what_to_do(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, kind: type[StorageError], advice: str
    ) -> None:
        """One sentence and one piece of advice, of the kind that all storages have for it; no half file stays."""

        def refuse(*args: object, **more: object) -> None:
            raise OSError(number, os.strerror(number))

        storage = LocalStorage()
        for name in ("fsync", "mkdir"):
            monkeypatch.setattr(os, name, refuse)
        monkeypatch.setattr(local_module, "rename_new", refuse)
        changes: tuple[Callable[[], None], ...] = (
            lambda: storage.create_exclusive(f"{tmp_path}/f", b"1"),
            lambda: storage.mkdir(f"{tmp_path}/d"),
            lambda: storage.move(f"{tmp_path}/g", f"{tmp_path}/h"),
        )
        for change in changes:
            with pytest.raises(StorageError, match=f" cannot be written: {os.strerror(number)}$") as caught:
                change()
            assert advice in (caught.value.hint or "")
            assert (type(caught.value), caught.value.exit_code) == (kind, ExitCode.STORAGE)
        assert storage.walk(str(tmp_path)).files == ()

    def test_names_that_are_changed_together_become_durable_once(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Each directory that still is there at the end, after all files in it."""
        synced: list[int] = []
        monkeypatch.setattr(os, "fsync", lambda number: synced.append(os.fstat(number).st_ino))
        storage, root = LocalStorage(), tmp_path.stat().st_ino
        storage.mkdir(f"{tmp_path}/kept")
        assert synced == [root]
        with together(str(tmp_path)):
            synced.clear()
            storage.create_exclusive(f"{tmp_path}/kept/f", b"1")
            storage.mkdir(f"{tmp_path}/gone")
            storage.create_exclusive(f"{tmp_path}/gone/f", b"1")
            storage.move(f"{tmp_path}/gone/f", f"{tmp_path}/kept/g")
            storage.remove_tree(f"{tmp_path}/gone")
            files = [(tmp_path / "kept" / name).stat().st_ino for name in "fg"]
            assert synced == files
        assert sorted(synced[2:]) == sorted([root, (tmp_path / "kept").stat().st_ino])
        synced.clear()
        with together(str(tmp_path), lasting=False):
            storage.mkdir(f"{tmp_path}/other")
        assert synced == []
        storage.remove_tree(f"{tmp_path}/other")
        assert synced == [root]

    def test_a_refusal_at_the_end_is_one_of_the_storage(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """What could not be made durable was not done."""

        def refuse(number: int) -> None:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

        monkeypatch.setattr(os, "fsync", refuse)
        with pytest.raises(StorageError, match=f"{tmp_path} cannot be written"), together(str(tmp_path)):
            LocalStorage().mkdir(f"{tmp_path}/d")

    def test_a_directory_is_durable_before_it_is_renamed(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """After a crash no reader finds one without its files."""
        storage, calls = LocalStorage(), list[object]()
        rename = local_module.rename_new

        def renamed(*args: Any) -> None:
            calls.append("renamed")
            rename(*args)

        storage.mkdir(f"{tmp_path}/d")
        monkeypatch.setattr(os, "fsync", lambda number: calls.append(os.fstat(number).st_ino))
        monkeypatch.setattr(local_module, "rename_new", renamed)
        with together(str(tmp_path)):
            storage.rename_dir(f"{tmp_path}/d", f"{tmp_path}/e")
        assert calls[:3] == [(tmp_path / "e").stat().st_ino, "renamed", tmp_path.stat().st_ino]

    @pytest.mark.parametrize("size", [2_000, 3_000_000], ids=["at the end", "at once"])
    def test_a_limit_met_while_writing_leaves_no_file(self, tmp_path: Path, size: int) -> None:
        """The system refuses in the middle of a file, as it does when the disk is full."""
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        storage = LocalStorage()
        resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, hard))
        try:
            with pytest.raises(StorageError, match="File too large"), storage.create(f"{tmp_path}/f") as stream:
                stream.write(b"x" * size)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert storage.walk(str(tmp_path)).files == ()


class TestMemory(WritingStorage):
    """The reference in memory."""

    @pytest.fixture
    def make(self) -> Make:
        """A tree in a dictionary."""

        def make(files: Mapping[str, bytes]) -> tuple[Storage, str]:
            return MemoryStorage({f"t/{name}": data for name, data in files.items()}), "t"

        return make


class TestFsspecMemory(WritingStorage):
    """Object stores by fsspec's own verbs, over its memory file system."""

    has_empty_directories = False
    needs_parents = False

    @pytest.fixture
    def make(self) -> Make:
        """A tree in fsspec's process-wide memory, reached by URL as users do."""
        memory = fsspec.filesystem("memory", skip_instance_cache=True)
        memory.store.clear()
        memory.pseudo_dirs[:] = [""]

        def make(files: Mapping[str, bytes]) -> tuple[Storage, str]:
            for name, data in files.items():
                if name.endswith("/"):
                    memory.makedirs(f"/t/{name.rstrip('/')}", exist_ok=True)
                else:
                    memory.pipe_file(f"/t/{name}", data)
            return resolve("memory://t")

        return make

    def test_other_file_systems_are_not_written_to(self, tmp_path: Path) -> None:
        """Not of all that fsspec knows is it known what a write does to a name that is taken."""
        storage = FsspecStorage(fsspec.filesystem("local"))
        (tmp_path / "x").mkdir()
        (tmp_path / "f").touch()
        changes = (storage.mkdir, storage.create, storage.remove_tree, storage.remove_file, storage.discard)
        pairs = (storage.rename_dir, storage.move, storage.inherit)
        for change in changes:
            with pytest.raises(StorageError, match=r"only reads from this kind|has none"):
                change(f"{tmp_path}/x")
        for change_both in pairs:
            with pytest.raises(StorageError, match=r"only reads from this kind|has none"):
                change_both(f"{tmp_path}/x", f"{tmp_path}/y")
        with pytest.raises(StorageError, match=r"only reads from this kind|has none"):
            storage.create_exclusive(f"{tmp_path}/new", b"")
        with pytest.raises(StorageError, match=r"only reads from this kind"):
            storage.copy_file(f"{tmp_path}/f", f"{tmp_path}/new")
        assert sorted(path.name for path in tmp_path.iterdir()) == ["f", "x"]

    def test_odd_exceptions_become_one_sentence(self) -> None:
        """Whatever an implementation raises, the user reads a path and a reason."""

        class Broken:
            def ls(self, path: str, detail: bool) -> list[object]:
                raise RuntimeError("no\n  credentials")

            def unstrip_protocol(self, path: str) -> str:
                return f"x://user:secret@{path}"

        with pytest.raises(StorageError, match=r"^x://bucket cannot be used: no credentials$"):
            FsspecStorage(Broken()).walk("bucket")


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("/a/b/", "/a/b"),
        ("a/[b]", "a/[b]"),
        ("ds=10:30/x", "ds=10:30/x"),
        ("file:/a/b%20c", "/a/b%20c"),
        ("file:///a/b//", "/a/b"),
        ("file://localhost/a", "/a"),
        ("file:rel", "rel"),
        ("/", "/"),
        ("./", "."),
    ],
)
def test_local_addresses(url: str, path: str) -> None:
    """Plain paths and `file:` URLs are taken literally, without their trailing slashes."""
    storage, found = resolve(url)
    assert isinstance(storage, LocalStorage)
    assert found == path


def test_addresses_that_cannot_be_served_say_so() -> None:
    """One sentence each, with the right class and thus exit code."""
    with pytest.raises(UsageError, match="empty"):
        resolve("")
    with pytest.raises(UsageError, match="another machine"):
        resolve("file://host/a")
    with pytest.raises(UsageError, match="nosuch: is not a storage"):
        resolve("nosuch://a/b")
    for url in ("webhdfs://u:p@nn:1/t", "hdfs://u:p/x@nn/t", "s3://key@bucket/t"):
        with pytest.raises(UsageError, match="user or a password") as caught:
            resolve(url)
        assert "@" not in f"{caught.value.message} {caught.value.path}"


def test_a_missing_memory_url_is_no_such_table() -> None:
    """The message carries the whole URL."""
    storage, path = resolve("memory://nowhere/at/all")
    with pytest.raises(NoSuchTableError, match="memory://"):
        storage.walk(path)
