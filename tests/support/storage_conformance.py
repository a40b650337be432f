"""What every storage has to promise; an adapter's test inherits these and supplies `make`.

`make(files)` puts a tree in place (a path that ends with `/` is an empty directory) and returns the storage
and the path of its root.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from acidctl.errors import NoSuchTableError, StorageError
from acidctl.storage.port import Storage, join

Make = Callable[[Mapping[str, bytes]], tuple[Storage, str]]

WEIRD = ("[a]*?", "with blank", "line\nbreak", "per%3Acent", "ümläut", "hash#mark", "q?uestion")


class ReadingStorage:
    """The reading verbs: stat, walk, open."""

    # What an object store cannot show, because there a directory is only a prefix of names.
    has_empty_directories = True
    # Nor does anything need a parent there, which comes with what is put below it.
    needs_parents = True
    # Names that a server cannot be asked for.
    unknown_names: tuple[str, ...] = ()

    def test_walk_finds_every_file_and_directory_once(self, make: Make) -> None:
        """Files with sizes and directories at any depth come back sorted and relative."""
        storage, root = make({"b/c/f2": b"22", "a": b"1", "b/f1": b"", "d/e/f": b"x"})
        found = storage.walk(root)
        assert [(info.path, info.size) for info in found.files] == [
            ("a", 1),
            ("b/c/f2", 2),
            ("b/f1", 0),
            ("d/e/f", 1),
        ]
        assert found.directories == ("b", "b/c", "d", "d/e")

    def test_walk_shows_empty_directories(self, make: Make) -> None:
        """An empty directory is an entry where the storage has directories."""
        if self.has_empty_directories:
            storage, root = make({"empty/": b"", "full/f": b"x"})
            assert storage.walk(root).directories == ("empty", "full")

    def test_walk_does_not_enter_what_descend_refuses(self, make: Make) -> None:
        """A refused directory is neither listed nor entered."""
        storage, root = make({"no/deep/f": b"1", "yes/no/f": b"2", "yes/f": b"3"})
        asked: list[str] = []

        def descend(path: str) -> bool:
            asked.append(path)
            return not path.endswith("no")

        found = storage.walk(root, descend)
        assert [info.path for info in found.files] == ["yes/f"]
        assert found.directories == ("yes",)
        assert sorted(asked) == ["no", "yes", "yes/no"]

    def test_walk_of_a_missing_root_is_no_such_table(self, make: Make) -> None:
        """The one error that a mistyped path gives."""
        storage, root = make({"f": b"1"})
        with pytest.raises(NoSuchTableError):
            storage.walk(join(root, "missing"))

    @pytest.mark.parametrize("name", WEIRD)
    def test_names_are_taken_as_they_are(self, make: Make, name: str) -> None:
        """No verb globs, decodes or strips a name."""
        if name in self.unknown_names:
            pytest.skip("the server knows no such path")
        storage, root = make({f"{name}/{name}": b"content", "axx/axx": b"other"})
        below = join(root, name)
        assert [info.path for info in storage.walk(below).files] == [name]
        assert storage.walk(root).directories == tuple(sorted(("axx", name)))
        with storage.open(join(below, name)) as stream:
            assert stream.read() == b"content"

    def test_stat_tells_files_directories_and_nothing(self, make: Make) -> None:
        """None is the answer for what does not exist, also below a file."""
        storage, root = make({"d/f": b"123"})
        directory, file = storage.stat(join(root, "d")), storage.stat(join(root, "d/f"))
        assert directory is not None
        assert file is not None
        assert (directory.is_directory, file.is_directory, file.size) == (True, False, 3)
        assert storage.stat(join(root, "d/g")) is None
        assert storage.stat(join(root, "d/f/x")) is None

    def test_open_seeks_and_reads_ranges(self, make: Make) -> None:
        """Ranges can be read in any order, past the end there is nothing."""
        storage, root = make({"f": bytes(range(100))})
        with storage.open(join(root, "f")) as stream:
            stream.seek(-3, 2)
            assert stream.read() == b"abc"
            stream.seek(10)
            assert stream.read(2) == b"\x0a\x0b"
            assert stream.tell() == 12
            stream.seek(200)
            assert stream.read(1) == b""

    def test_open_of_a_missing_file_is_one_of_our_errors(self, make: Make) -> None:
        """A file that a cleaner removed since the listing."""
        storage, root = make({"d/f": b"1"})
        with pytest.raises((StorageError, NoSuchTableError)):
            storage.open(join(root, "d/g"))


class WritingStorage(ReadingStorage):
    """The verbs that change a table."""

    def test_create_exclusive_has_one_winner(self, make: Make) -> None:
        """A second writer is refused and changes nothing."""
        storage, root = make({"d/f": b"1"})
        storage.create_exclusive(join(root, "new"), b"first")
        with pytest.raises(StorageError):
            storage.create_exclusive(join(root, "new"), b"second")
        with storage.open(join(root, "new")) as stream:
            assert stream.read() == b"first"

    def test_mkdir_refuses_what_exists_and_missing_parents(self, make: Make) -> None:
        """A directory is made once, below one that is there."""
        storage, root = make({"d/f": b"1"})
        storage.mkdir(join(root, "new"))
        refused = ("new", "d/f", "missing/new") if self.needs_parents else ("d", "d/f")
        for path in refused:
            with pytest.raises(StorageError):
                storage.mkdir(join(root, path))

    @pytest.mark.parametrize("target", ["full", "empty", "file", "missing/x"])
    def test_rename_dir_never_goes_into_or_onto_anything(self, make: Make, target: str) -> None:
        """Hadoop's WebHDFS moves into an existing directory; that would publish a base inside a base."""
        storage, root = make({"work/f": b"new", "full/f": b"old", "empty/": b"", "file": b"old"})
        before = storage.walk(root)
        if not self.needs_parents and target in ("empty", "missing/x"):
            return
        with pytest.raises(StorageError):
            storage.rename_dir(join(root, "work"), join(root, target))
        assert storage.walk(root) == before

    def test_rename_dir_moves_everything(self, make: Make) -> None:
        """The old name is gone, all below it has the new one."""
        storage, root = make({"work/sub/f": b"1", "work/g": b"2", "workshop/f": b"3"})
        storage.rename_dir(join(root, "work"), join(root, "base_5"))
        assert [info.path for info in storage.walk(root).files] == ["base_5/g", "base_5/sub/f", "workshop/f"]

    def test_remove_tree_removes_only_the_tree(self, make: Make) -> None:
        """A neighbour whose name begins the same stays."""
        storage, root = make({"d/sub/f": b"1", "d/g": b"2", "d2/f": b"3"})
        storage.remove_tree(join(root, "d"))
        assert [info.path for info in storage.walk(root).files] == ["d2/f"]
        with pytest.raises(StorageError):
            storage.remove_tree(join(root, "d"))

    def test_rmdir_removes_only_what_is_empty(self, make: Make) -> None:
        """A directory with anything in it stays, and so does a file."""
        storage, root = make({"empty/": b"", "full/f": b"1", "full/sub/g": b"2", "file": b"3"})
        before = storage.walk(root).files
        for name in ("full", "full/sub"):
            with pytest.raises(StorageError):
                storage.rmdir(join(root, name))
        assert storage.walk(root).files == before
        storage.remove_files([join(root, "full/sub/g"), join(root, "full/f")])
        # Some stores keep a mark for an empty directory.
        for name in ("full/sub", "full", *(("empty",) if storage.stat(join(root, "empty")) else ())):
            storage.rmdir(join(root, name))
        assert [info.path for info in storage.walk(root).files] == ["file"]
        assert storage.walk(root).directories == ()

    def test_move_takes_files_and_refuses_targets_that_exist(self, make: Make) -> None:
        """Quarantine and back, without overwriting."""
        storage, root = make({"f": b"1", "g": b"2"})
        storage.move(join(root, "f"), join(root, "h"))
        with pytest.raises(StorageError):
            storage.move(join(root, "h"), join(root, "g"))
        assert [info.path for info in storage.walk(root).files] == ["g", "h"]

    def test_create_writes_from_beginning_to_end(self, make: Make) -> None:
        """The content of all writes is there when the file is closed, and a second writer is refused."""
        storage, root = make({"d/f": b"1"})
        path = join(root, "d/new")
        with storage.create(path) as stream:
            assert not stream.seekable()
            for number in range(300):
                stream.write(bytes([number % 256]) * 10_000)
            assert stream.tell() == 3_000_000
        stream.close()
        with pytest.raises(StorageError):
            storage.create(path)
        found = storage.stat(path)
        assert found is not None
        assert found.size == 3_000_000
        with storage.open(path) as written:
            written.seek(2_999_999)
            assert written.read() == bytes([299 % 256])

    def test_create_leaves_nothing_after_an_exception(self, make: Make) -> None:
        """Half a file must not pass for a whole one."""
        storage, root = make({"d/f": b"1"})
        path = join(root, "d/new")

        def fail_halfway() -> None:
            with storage.create(path) as stream:
                stream.write(b"half")
                raise KeyError

        with pytest.raises(KeyError):
            fail_halfway()
        assert storage.stat(path) is None
        with storage.create(path) as stream:
            stream.write(b"whole")
        assert [(info.path, info.size) for info in storage.walk(root).files] == [("d/f", 1), ("d/new", 5)]

    def test_create_needs_the_parent(self, make: Make) -> None:
        """A missing parent means that the work directory is gone."""
        storage, root = make({"d/f": b"1"})
        if self.needs_parents:
            with pytest.raises(StorageError):
                storage.create(join(root, "missing/new"))
        with pytest.raises(StorageError):
            storage.create(join(root, "d"))

    def test_remove_file_removes_files_only(self, make: Make) -> None:
        """Neither directories nor what is gone already."""
        storage, root = make({"d/f": b"1", "d/g": b"2"})
        storage.remove_file(join(root, "d/f"))
        for path in ("d/f", "d", "missing"):
            with pytest.raises(StorageError):
                storage.remove_file(join(root, path))
        assert [info.path for info in storage.walk(root).files] == ["d/g"]

    def test_inherit_changes_no_content(self, make: Make) -> None:
        """Where owners and modes exist they follow; everywhere else nothing happens."""
        storage, root = make({"d/f": b"1", "e/g": b"2"})
        before = storage.walk(root)
        storage.inherit(join(root, "e"), join(root, "d"))
        storage.inherit(join(root, "e/g"), join(root, "d"))
        assert storage.walk(root) == before
        if self.needs_parents:
            with pytest.raises(StorageError):
                storage.inherit(join(root, "missing"), join(root, "d"))

    def test_copy_file_never_overwrites(self, make: Make) -> None:
        """What is published by copies must not replace anything."""
        storage, root = make({"d/f": b"1", "g": b"2"})
        storage.copy_file(join(root, "d/f"), join(root, "d/copy"))
        with pytest.raises(StorageError):
            storage.copy_file(join(root, "d/f"), join(root, "g"))
        with pytest.raises((StorageError, NoSuchTableError)):
            storage.copy_file(join(root, "missing"), join(root, "new"))
        assert [(info.path, info.size) for info in storage.walk(root).files] == [("d/copy", 1), ("d/f", 1), ("g", 1)]
        with storage.open(join(root, "g")) as stream:
            assert stream.read() == b"2"

    def test_discard_takes_away_or_is_refused(self, make: Make) -> None:
        """Where there is no trash nothing happens, and where there is one the name is free."""
        storage, root = make({"d/f": b"1", "e/g": b"2"})
        if storage.facts.trash:
            storage.discard(join(root, "d"))
        with pytest.raises(StorageError):
            storage.discard(join(root, "missing" if storage.facts.trash else "d"))
        kept = ["e/g"] if storage.facts.trash else ["d/f", "e/g"]
        assert [info.path for info in storage.walk(root).files] == kept

    def test_rename_dir_refuses_files(self, make: Make) -> None:
        """What is published is a directory."""
        storage, root = make({"f": b"1"})
        with pytest.raises(StorageError):
            storage.rename_dir(join(root, "f"), join(root, "g"))
        assert [info.path for info in storage.walk(root).files] == ["f"]
