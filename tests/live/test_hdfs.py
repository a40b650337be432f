"""`hdfs://` through hdfs-native, against a real HDFS."""

from __future__ import annotations

import gc
import itertools
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

import hdfs_native
import pytest

from acidctl.errors import (
    DeniedError,
    ExistsError,
    NoSuchTableError,
    QuotaError,
    SafeModeError,
    StorageError,
    UnreachableError,
)
from acidctl.maintenance.lock import acquire
from acidctl.storage.hdfs_native import GRACE, connect
from acidctl.storage.port import Storage
from acidctl.storage.resolve import resolve
from acidctl.storage.webhdfs import connect as connect_web
from tests.services.hdfs import Hdfs, write_sites
from tests.services.hdfs_pair import HdfsPair
from tests.support.faulty import KILLED, in_child
from tests.support.storage_conformance import Make, WritingStorage

pytestmark = pytest.mark.hdfs

_NUMBERS = itertools.count(1)


@pytest.fixture(autouse=True)
def _no_panics(capfd: pytest.CaptureFixture[str]) -> Iterator[None]:
    """Whatever a test does to HDFS, hdfs-native prints nothing past us."""
    yield
    assert "panicked" not in capfd.readouterr().err


def _folder() -> str:
    return f"/storage-{next(_NUMBERS)}"


def _storage(hdfs: Hdfs, **options: object) -> Storage:
    """The adapter without the layer that asks again."""
    return connect(f"{hdfs.url}/", "hdfs", options)[0]


def _fill(storage: Storage, root: str, files: Mapping[str, bytes]) -> None:
    """A tree in a folder of its own, made by the adapter's own verbs, parents first."""
    storage.mkdir(root)
    made = {""}
    for name, data in files.items():
        parts = name.split("/")[:-1]
        for depth in range(len(parts)):
            parent = "/".join(parts[: depth + 1])
            if parent not in made:
                storage.mkdir(f"{root}/{parent}")
                made.add(parent)
        if not name.endswith("/"):
            storage.create_exclusive(f"{root}/{name}", data)


class TestHdfs(WritingStorage):
    """Every promise of the port."""

    @pytest.fixture
    def make(self, hdfs_cluster: Hdfs) -> Make:
        """A tree in a new folder, by URL as users give it."""

        def make(files: Mapping[str, bytes]) -> tuple[Storage, str]:
            storage, root = resolve(hdfs_cluster.url + _folder())
            _fill(storage, root, files)
            return storage, root

        return make


@pytest.fixture
def root(hdfs_cluster: Hdfs) -> str:
    """A folder with `d/f` of 5 bytes that only the superuser may change."""
    root = _folder()
    _fill(_storage(hdfs_cluster), root, {"d/f": b"hello", "e/g": b"2"})
    return root


@pytest.fixture(scope="module")
def own_hdfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hdfs]:
    """A NameNode for this module, to stop and to start as it likes; no DataNodes, so files are empty. With a trash."""
    with Hdfs(tmp_path_factory.mktemp("own-hdfs"), datanodes=0, trash_minutes=60) as hdfs:
        # Its pages are there before it answers clients; this waits.
        hdfs.run("dfs", "-test", "-e", "/")
        yield hdfs


def _changes(storage: Storage, root: str) -> tuple[Callable[[], object], ...]:
    """Each verb that changes something, used so that only what is tested can refuse it."""
    return (
        lambda: storage.mkdir(f"{root}/new"),
        lambda: storage.create(f"{root}/new"),
        lambda: storage.create_exclusive(f"{root}/new", b"1"),
        lambda: storage.rename_dir(f"{root}/d", f"{root}/new"),
        lambda: storage.move(f"{root}/d", f"{root}/new"),
        lambda: storage.remove_tree(f"{root}/d"),
        lambda: storage.remove_file(f"{root}/d/f"),
        lambda: storage.copy_file(f"{root}/d/f", f"{root}/new"),
    )


class TestRefusals:
    """What HDFS refuses is one sentence of ours, and changes nothing."""

    def test_what_a_user_may_not_change(self, hdfs_cluster: Hdfs, root: str) -> None:
        """By every verb; the sentence names the user, and holds nothing of Java."""
        alice = _storage(hdfs_cluster, user="alice")
        for change in _changes(alice, root):
            with pytest.raises(
                DeniedError, match=r"cannot be changed: Permission denied: user=alice, access="
            ) as caught:
                change()
            assert "\n" not in caught.value.message
            assert "org.apache" not in caught.value.message
            assert "may write" in (caught.value.hint or "")
        assert [info.path for info in alice.walk(root).files] == ["d/f", "e/g"]

    def test_what_a_user_may_not_read(self, hdfs_cluster: Hdfs, root: str) -> None:
        """A closed directory is an error, unless it has a hidden name."""
        hdfs_cluster.run("dfs", "-chmod", "700", f"{root}/d")
        alice = _storage(hdfs_cluster, user="alice")
        for look in (lambda: alice.walk(root), lambda: alice.stat(f"{root}/d/f"), lambda: alice.open(f"{root}/d/f")):
            with pytest.raises(DeniedError, match=r"/d.* cannot be read: Permission denied: user=alice") as caught:
                look()
            assert "may read" in (caught.value.hint or "")
        _storage(hdfs_cluster).move(f"{root}/d", f"{root}/_staging")
        assert [info.path for info in alice.walk(root).files] == ["e/g"]

    def test_one_closed_directory_of_many(self, hdfs_cluster: Hdfs, root: str) -> None:
        """Many are listed in one call, and a closed one among them is told of, or passed over, as ever."""
        client = hdfs_native.Client(hdfs_cluster.url)
        for number in range(200):
            client.mkdirs(f"{root}/d/{number:03}/{number % 7}", 0o755, True)
        client.mkdirs(f"{root}/d/150/_tmp.x/y", 0o755, True)
        hdfs_cluster.run("dfs", "-chmod", "700", f"{root}/d/150/_tmp.x", f"{root}/d/100")
        alice = _storage(hdfs_cluster, user="alice")
        with pytest.raises(DeniedError, match="/d/100 cannot be read: Permission denied"):
            alice.walk(root)
        client.delete(f"{root}/d/100", True)
        found = alice.walk(root)
        wanted = [
            name for number in range(200) if number != 100 for name in (f"{number:03}", f"{number:03}/{number % 7}")
        ]
        assert sorted([*(f"d/{name}" for name in wanted), "d", "e", "d/150/_tmp.x"]) == list(found.directories)

    def test_safe_mode(self, hdfs_cluster: Hdfs, root: str) -> None:
        """Nothing can be changed, everything can be read."""
        storage = _storage(hdfs_cluster)
        hdfs_cluster.safemode(True)
        try:
            for change in _changes(storage, root):
                with pytest.raises(SafeModeError, match=r"cannot be changed: the NameNode is in safe mode$"):
                    change()
            with storage.open(f"{root}/d/f") as stream:
                assert stream.read() == b"hello"
        finally:
            hdfs_cluster.safemode(False)
        assert [info.path for info in storage.walk(root).files] == ["d/f", "e/g"]

    def test_quotas(self, hdfs_cluster: Hdfs, root: str) -> None:
        """Of names and of bytes; a file that finds no room leaves nothing."""
        storage = _storage(hdfs_cluster)
        hdfs_cluster.set_quota(root, names=5)
        for change in (lambda: storage.mkdir(f"{root}/new"), lambda: storage.create(f"{root}/new")):
            with pytest.raises(QuotaError, match="NameSpace quota"):
                change()
        hdfs_cluster.set_quota(root, space=1_000_000)
        with pytest.raises(QuotaError, match="DiskSpace quota"):
            storage.create_exclusive(f"{root}/new", b"1")
        assert [info.path for info in storage.walk(root).files] == ["d/f", "e/g"]

    def test_names_that_hdfs_does_not_have(self, hdfs_cluster: Hdfs, root: str) -> None:
        """A colon, and bytes that are not UTF-8."""
        storage = _storage(hdfs_cluster)
        with pytest.raises(StorageError, match="Invalid path name"):
            storage.mkdir(f"{root}/ds=10:30")
        with pytest.raises(StorageError, match="only names in UTF-8"):
            storage.mkdir(f"{root}/caf\udce9")

    def test_directories_and_missing_files_cannot_be_opened(self, hdfs_cluster: Hdfs, root: str) -> None:
        """Each with its own reason."""
        storage = _storage(hdfs_cluster)
        with pytest.raises(StorageError, match="/d is not a regular file"):
            storage.open(f"{root}/d")
        with pytest.raises(StorageError, match="/d/none is not there any more"):
            storage.open(f"{root}/d/none")
        with pytest.raises(StorageError, match="/d/f is not a directory"):
            storage.walk(f"{root}/d/f")


class TestRaces:
    """Of many who want one name, one gets it."""

    def test_exclusive_create(self, hdfs_cluster: Hdfs, root: str) -> None:
        """The content is the winner's."""
        storage = _storage(hdfs_cluster)

        def attempt(number: int) -> int | None:
            try:
                storage.create_exclusive(f"{root}/lock", b"%d" % number)
            except ExistsError:
                return None
            return number

        with ThreadPoolExecutor(8) as pool:
            winners = [number for number in pool.map(attempt, range(16)) if number is not None]
        with storage.open(f"{root}/lock") as stream:
            assert [stream.read()] == [b"%d" % number for number in winners]

    def test_rename(self, hdfs_cluster: Hdfs, root: str) -> None:
        """The losers stay where they were, and nothing goes into the winner."""
        storage = _storage(hdfs_cluster)
        for number in range(8):
            storage.mkdir(f"{root}/work{number}")

        def attempt(number: int) -> int:
            try:
                storage.rename_dir(f"{root}/work{number}", f"{root}/base_5")
            except ExistsError:
                return 0
            return 1

        with ThreadPoolExecutor(8) as pool:
            assert sum(pool.map(attempt, range(8))) == 1
        found = storage.walk(root).directories
        assert len([path for path in found if path.startswith("work")]) == 7
        assert [path for path in found if path.startswith("base_5")] == ["base_5"]


def test_forked_children_read_alike(hdfs_cluster: Hdfs, root: str) -> None:
    """With a connection of their own; what they inherit is not freed there: it would wait for its threads for ever."""
    storage, other = _storage(hdfs_cluster), _storage(hdfs_cluster, user="alice")
    before = storage.walk(root)
    assert other.walk(root) == before
    left: list[object] = [other]
    left.append(left)
    # What other tests have left, clients of their own among it, is freed here.
    gc.collect()
    gc.disable()
    # Now only the collector finds it.
    del left, other

    def child() -> None:
        signal.alarm(30)
        gc.enable()
        gc.unfreeze()
        gc.collect()
        assert storage.walk(root) == before

    try:
        assert in_child(child) == 0
    finally:
        gc.enable()
    assert storage.walk(root) == before


class TestWriting:
    """New files: whole or not there."""

    def test_a_lost_parent(self, hdfs_cluster: Hdfs, root: str) -> None:
        """Somebody removes the work directory; it does not come back by writing."""
        storage = _storage(hdfs_cluster)
        stream = storage.create(f"{root}/d/new")
        stream.write(b"1" * 100)
        storage.remove_tree(f"{root}/d")
        with pytest.raises(StorageError, match="/d/new"):
            stream.close()
        for change in (lambda: storage.create(f"{root}/d/new"), lambda: storage.mkdir(f"{root}/d/new")):
            with pytest.raises(StorageError, match=r"Parent directory doesn't exist"):
                change()
        assert storage.walk(root).directories == ("e",)

    def test_a_file_that_nobody_closes_is_removed(self, hdfs_cluster: Hdfs, root: str) -> None:
        """As when its writer was forgotten after an error; more than one block of it is written already."""
        storage = _storage(hdfs_cluster, config={"dfs.blocksize": 1 << 20})
        stream = storage.create(f"{root}/new")
        stream.write(b"1" * (3 << 19))
        assert storage.stat(f"{root}/new") is not None
        del stream
        assert storage.stat(f"{root}/new") is None

    def test_settings_of_the_client_count(self, hdfs_cluster: Hdfs, root: str) -> None:
        """Block size and replication as Hadoop's own clients take them from the configuration."""
        config = {"dfs.blocksize": 2 << 20, "dfs.replication": "3"}
        _storage(hdfs_cluster, config=config).create_exclusive(f"{root}/new", b"")
        found = hdfs_native.Client(hdfs_cluster.url).get_file_info(f"{root}/new")
        assert (found.blocksize, found.replication) == (2 << 20, 3)

    def test_small_files_are_closed_at_once(self, hdfs_cluster: Hdfs, root: str) -> None:
        """hdfs-native alone sleeps half a second for nearly each of them; all are whole, and closed for all."""
        storage = _storage(hdfs_cluster)
        storage.mkdir(f"{root}/small")
        times = []
        for number in range(10):
            begin = time.monotonic()
            storage.create_exclusive(f"{root}/small/{number}", b"x" * (number + 1))
            times.append(time.monotonic() - begin)
        assert sorted(times)[4] < 0.45
        found = {info.path: info.size for info in storage.walk(f"{root}/small").files}
        assert found == {str(number): number + 1 for number in range(10)}
        assert "OPENFORWRITE" not in hdfs_cluster.run("fsck", root, "-openforwrite", "-files")

    def test_many_are_written_side_by_side(self, hdfs_cluster: Hdfs, root: str) -> None:
        """Also longer than a block."""
        storage = _storage(hdfs_cluster, config={"dfs.blocksize": 2 << 20})

        def write(number: int) -> None:
            with storage.create(f"{root}/d/{number}") as stream:
                for _ in range(5):
                    stream.write(bytes([number]) * 700_000)

        with ThreadPoolExecutor(6) as pool:
            list(pool.map(write, range(6)))
        for number in range(6):
            with storage.open(f"{root}/d/{number}") as stream:
                assert stream.read() == bytes([number]) * 3_500_000
        assert "OPENFORWRITE" not in hdfs_cluster.run("fsck", root, "-openforwrite", "-files")

    def test_new_files_are_like_another_from_the_beginning(self, hdfs_cluster: Hdfs, root: str) -> None:
        """The mode before the first byte; who is the superuser gives it away as well."""
        hdfs_cluster.mkdir(f"{root}/model", owner="bob:analysts", mode="750")
        client = hdfs_native.Client(hdfs_cluster.url)
        client.set_permission(f"{root}/d/f", 0o600)
        for storage, name in (
            (_storage(hdfs_cluster), "native"),
            (connect_web(f"{hdfs_cluster.webhdfs}/", "webhdfs", {})[0], "web"),
        ):
            with storage.create(f"{root}/{name}", f"{root}/d/f") as stream:
                if name == "native":
                    assert client.get_file_info(f"{root}/{name}").permission == 0o600
                stream.write(b"1")
            storage.create_exclusive(f"{root}/{name}-2", b"1", f"{root}/model")
            storage.mkdir(f"{root}/{name}-3", f"{root}/model")
            found = [client.get_file_info(f"{root}/{name}{end}") for end in ("", "-2", "-3")]
            assert [oct(info.permission) for info in found] == ["0o600", "0o640", "0o750"]
            assert [(info.owner, info.group) for info in found[1:]] == [("bob", "analysts")] * 2

    def test_a_run_that_dies_between_a_lock_and_its_content(
        self, hdfs_cluster: Hdfs, root: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A file is there before what is in it: the next run has the lock at once all the same."""
        storage = _storage(hdfs_cluster)
        real = type(storage).create

        def die(self: Storage, path: str, like: str | None = None) -> BinaryIO:
            stream = real(storage, path) if like is None else real(storage, path, like)
            assert storage.stat(path) is not None
            os._exit(KILLED if stream else 1)

        def child() -> None:
            signal.alarm(30)
            monkeypatch.setattr(type(storage), "create", die)
            acquire(storage, root, now=time.time())

        assert in_child(child) == KILLED
        left = [info for info in storage.walk(root).files if "_acidctl_lock" in info.path]
        assert [info.size for info in left] == [0]
        with acquire(storage, root, now=time.time()):
            pass

    def test_owner_group_and_mode_are_inherited(self, hdfs_cluster: Hdfs, root: str) -> None:
        """By the superuser all of them; by others what HDFS lets them: the mode, and groups that they are in."""
        storage, alice = _storage(hdfs_cluster), _storage(hdfs_cluster, user="alice")
        hdfs_cluster.mkdir(f"{root}/model", owner="bob:analysts", mode="1775")
        storage.inherit(f"{root}/d", f"{root}/model")
        storage.inherit(f"{root}/d/f", f"{root}/model")
        hdfs_cluster.mkdir(f"{root}/mine", owner="alice:others", mode="700")
        alice.inherit(f"{root}/mine", f"{root}/model")
        client = hdfs_native.Client(hdfs_cluster.url)
        found = {name: client.get_file_info(f"{root}/{name}") for name in ("d", "d/f", "mine")}
        assert {name: (info.owner, info.group, oct(info.permission)) for name, info in found.items()} == {
            "d": ("bob", "analysts", "0o1775"),
            "d/f": ("bob", "analysts", "0o664"),
            "mine": ("alice", "analysts", "0o1775"),
        }


class TestReading:
    """Open files, and what becomes of them."""

    def test_nobody_knows_the_hosts(self, hdfs_cluster: Hdfs, root: str) -> None:
        """hdfs-native does not tell where blocks are."""
        assert _storage(hdfs_cluster).hosts(f"{root}/d/f") == ()

    def test_a_file_that_is_gone_or_another(self, hdfs_cluster: Hdfs, root: str) -> None:
        """Its blocks go some seconds later; what is shorter now is never read past its end."""
        storage = _storage(hdfs_cluster)
        gone, shorter = storage.open(f"{root}/d/f"), storage.open(f"{root}/e/g")
        blocks = [*hdfs_cluster.blocks(f"{root}/d/f"), *hdfs_cluster.blocks(f"{root}/e/g")]
        storage.remove_file(f"{root}/d/f")
        storage.remove_file(f"{root}/e/g")
        storage.create_exclusive(f"{root}/e/g", b"")
        until = time.monotonic() + 30
        while any(block.exists() for block in blocks) and time.monotonic() < until:
            time.sleep(0.2)
        with pytest.raises(StorageError, match="/d/f is not there any more"):
            gone.read()
        with pytest.raises(UnreachableError, match="no DataNode gives a block of it"):
            shorter.read()
        with pytest.raises(StorageError, match="was replaced while it was read"):
            shorter.read()

    def test_without_datanodes(self, hdfs_cluster: Hdfs, root: str) -> None:
        """Reading and writing say so, also behind a name service; what was open goes on when they are back."""
        storage = connect(f"hdfs://lake{root}", "hdfs", {"config": _name_service(hdfs_cluster.rpc)})[0]
        stream, new = storage.open(f"{root}/d/f"), f"{root}/new"
        hdfs_cluster.kill_datanode()
        try:
            for verb, attempt in (("gives", stream.read), ("takes", lambda: storage.create_exclusive(new, b"1"))):
                said = f"^hdfs://lake{root}/[a-z/]+ cannot be reached: no DataNode {verb} a block of it$"
                with pytest.raises(UnreachableError, match=said) as caught:
                    attempt()
                assert "dfsadmin -report" in (caught.value.hint or "")
        finally:
            hdfs_cluster.start_datanode()
        assert stream.read() == b"hello"
        assert storage.stat(new) is None


class TestUsers:
    """Who asks."""

    def test_by_the_environment(self, hdfs_cluster: Hdfs, root: str, monkeypatch: pytest.MonkeyPatch) -> None:
        """HADOOP_USER_NAME, which stays as it is when another user is named."""
        monkeypatch.delenv("HADOOP_USER_NAME", raising=False)
        _storage(hdfs_cluster, user="bob").stat(root)
        assert "HADOOP_USER_NAME" not in os.environ
        monkeypatch.setenv("HADOOP_USER_NAME", "alice")
        with pytest.raises(DeniedError, match="user=alice"):
            _storage(hdfs_cluster).mkdir(f"{root}/new")
        with pytest.raises(DeniedError, match="user=carol"):
            _storage(hdfs_cluster, user="carol").mkdir(f"{root}/new")
        assert os.environ["HADOOP_USER_NAME"] == "alice"

    def test_many_at_once(self, hdfs_cluster: Hdfs, root: str) -> None:
        """Each of them stays himself, whenever a connection is made."""
        hdfs_cluster.run("dfs", "-chmod", "777", root)
        names = ["alice", "bob", "carol", "dave"] * 6

        def make(number: int) -> None:
            storage = _storage(hdfs_cluster, user=names[number])
            storage.mkdir(f"{root}/{number}")
            storage.create_exclusive(f"{root}/{number}/f", b"1")

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(make, range(len(names))))
        client = hdfs_native.Client(hdfs_cluster.url)
        paths = [f"{root}/{number}{file}" for number in range(len(names)) for file in ("", "/f")]
        assert [client.get_file_info(path).owner for path in paths] == [name for name in names for _ in range(2)]


class TestTrash:
    """As `hdfs dfs -rm` does it."""

    def test_of_the_server(self, own_hdfs: Hdfs) -> None:
        """At its own path below the user's; a number tells apart what has the same name."""
        storage, root = _storage(own_hdfs, user="alice"), _folder()
        own_hdfs.mkdir(root, owner="alice")
        own_hdfs.mkdir("/user/alice", owner="alice")
        assert storage.facts.trash
        for _ in range(2):
            storage.mkdir(f"{root}/d")
            storage.create_exclusive(f"{root}/d/f", b"")
            storage.discard(f"{root}/d")
        storage.create_exclusive(f"{root}/x", b"")
        storage.discard(f"{root}/x")
        storage.mkdir(f"{root}/x")
        storage.create_exclusive(f"{root}/x/below", b"")
        storage.discard(f"{root}/x/below")
        trash = f"/user/alice/.Trash/Current{root}"
        first, second = sorted(
            path for path in own_hdfs.list(trash) if path.startswith(f"{trash}/d") and path[-2:] != "/f"
        )
        assert (first, second.removeprefix(first).isdecimal()) == (f"{trash}/d", True)
        # What lies in the way of a parent is a file.
        (aside,) = (path for path in own_hdfs.list("/user/alice/.Trash/Current") if path.endswith("/below"))
        assert aside.removeprefix(f"{trash}/x").removesuffix("/below").isdecimal()
        assert storage.walk(root).directories == ("x",)
        with pytest.raises(StorageError, match="does not exist"):
            storage.discard(f"{root}/none")

    def test_of_the_client(self, hdfs_cluster: Hdfs, root: str) -> None:
        """Where the server has none, the client's interval decides."""
        without = _storage(hdfs_cluster)
        assert not without.facts.trash
        with pytest.raises(StorageError, match="this HDFS has none"):
            without.discard(f"{root}/d")
        storage = _storage(hdfs_cluster, config={"fs.trash.interval": 60})
        home = f"/user/{hdfs_cluster.superuser}"
        # What a trash makes is for its user alone, homes of others included.
        hdfs_cluster.mkdir(home)
        storage.discard(f"{root}/d")
        assert storage.walk(root).directories == ("e",)
        trash = f"{home}/.Trash/Current{root}"
        assert [info.path for info in storage.walk(trash).files] == ["d/f"]


@contextmanager
def _black_hole() -> Iterator[int]:
    """A port that neither accepts nor refuses: its queue is full."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen(0)
        callers = [socket.socket() for _ in range(4)]
        for caller in callers:
            caller.setblocking(False)
            caller.connect_ex(server.getsockname())
        try:
            yield server.getsockname()[1]
        finally:
            for caller in callers:
                caller.close()


@contextmanager
def _silence() -> Iterator[int]:
    """A port that accepts, and says nothing."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen(20)
        yield server.getsockname()[1]


def _closed_port() -> int:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return int(server.getsockname()[1])


def _name_service(*ports: int) -> dict[str, str]:
    members = {f"dfs.namenode.rpc-address.lake.n{number}": f"127.0.0.1:{port}" for number, port in enumerate(ports)}
    ids = ",".join(f"n{number}" for number in range(len(ports)))
    return {"dfs.nameservices": "lake", "dfs.ha.namenodes.lake": ids, **members}


class TestReach:
    """Getting there, or saying within seconds why not."""

    def test_a_closed_port(self) -> None:
        """Of one NameNode and of two."""
        one, two = _closed_port(), _closed_port()
        storage, path = connect(f"hdfs://127.0.0.1:{one}/w", "hdfs", {})
        with pytest.raises(UnreachableError, match=f"/w cannot be reached: 127.0.0.1:{one} accepts no connections"):
            storage.stat(path)
        storage, path = connect("hdfs://lake/w", "hdfs", {"config": _name_service(one, two)})
        with pytest.raises(UnreachableError, match=f":{one} and 127.0.0.1:{two} accepts no connections"):
            storage.stat(path)

    def test_a_machine_that_does_not_answer(self) -> None:
        """The system would try for minutes; nor does the layer that asks again."""
        with _black_hole() as port:
            storage, path = resolve(f"hdfs://127.0.0.1:{port}/w")
            begin = time.monotonic()
            with pytest.raises(UnreachableError, match="there is no answer from"):
                storage.stat(path)
            assert time.monotonic() - begin < 8

    def test_a_server_that_says_nothing(self) -> None:
        """The time is the option's."""
        with _silence() as port:
            storage, path = connect(f"hdfs://127.0.0.1:{port}/w", "hdfs", {"timeout": 0.5})
            with pytest.raises(UnreachableError, match=r"HDFS did not answer within 0\.5 s"):
                storage.stat(path)

    def test_a_port_of_something_else(self, hdfs_cluster: Hdfs) -> None:
        """The NameNode's web pages."""
        storage, path = connect(f"hdfs://127.0.0.1:{hdfs_cluster.http}/w", "hdfs", {})
        with pytest.raises(StorageError, match=r"/w cannot be reached: the connection to .* broke"):
            storage.stat(path)

    def test_a_name_that_nobody_knows(self) -> None:
        """A machine or a name service: nobody can tell; asking again is of no use."""
        storage, path = resolve("hdfs://no-such-lake.invalid/w")
        begin = time.monotonic()
        with pytest.raises(UnreachableError, match=r"the host name in no-such-lake.* is unknown") as caught:
            storage.stat(path)
        assert "dfs.ha.namenodes" in (caught.value.hint or "")
        assert (caught.value.transient, time.monotonic() - begin < 5) == (False, True)

    def test_a_name_service_whose_first_namenode_is_dead(self, hdfs_cluster: Hdfs, root: str) -> None:
        """Whether it refuses or is silent for ever; writing goes on with the other too."""
        with _black_hole() as hole:
            for dead in (_closed_port(), hole):
                config = _name_service(dead, hdfs_cluster.rpc)
                storage, path = connect(f"hdfs://lake{root}", "hdfs", {"config": config})
                begin = time.monotonic()
                assert [info.path for info in storage.walk(path).files] == ["d/f", "e/g"]
                assert time.monotonic() - begin < 4
                storage.create_exclusive(f"{path}/new", b"1")
                storage.remove_file(f"{path}/new")
                assert storage.display(path) == f"hdfs://lake{root}"

    def test_a_failover(self, hdfs_pair: HdfsPair) -> None:
        """The other NameNode becomes active, and later the first dies: one storage goes on, open files too."""
        storage, root = resolve(hdfs_pair.url + _folder(), {"config": hdfs_pair.config})
        _fill(storage, root, {"d/f": b"hello"})
        stream = storage.open(f"{root}/d/f")
        hdfs_pair.failover()
        storage.create_exclusive(f"{root}/after", b"1")
        assert stream.read() == b"hello"
        hdfs_pair.kill_namenode()
        try:
            with pytest.raises((SafeModeError, UnreachableError)) as caught:
                storage.mkdir(f"{root}/new")
            assert "Exception" not in caught.value.message
            hdfs_pair.failover()
            storage.mkdir(f"{root}/new")
            assert storage.walk(root).directories == ("d", "new")
        finally:
            hdfs_pair.start_namenode()

    def test_by_the_configuration_of_the_machine(
        self, hdfs_cluster: Hdfs, root: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """HADOOP_CONF_DIR, which options overrule; an address without a host is `fs.defaultFS`."""
        write_sites(tmp_path, {"fs.defaultFS": "hdfs://lake", **_name_service(hdfs_cluster.rpc)})
        monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
        for url in (f"hdfs://lake{root}", f"hdfs:{root}", f"hdfs://{root}"):
            storage, path = resolve(url)
            assert [info.path for info in storage.walk(path).files] == ["d/f", "e/g"]
        closed = _closed_port()
        storage, path = connect(f"hdfs://{root}", "hdfs", {"config": _name_service(closed)})
        with pytest.raises(UnreachableError, match=str(closed)):
            storage.stat(path)

    def test_a_missing_path(self, hdfs_cluster: Hdfs) -> None:
        """The message carries the whole URL."""
        storage, path = resolve(f"{hdfs_cluster.url}/none/at/all")
        with pytest.raises(NoSuchTableError, match=f"{hdfs_cluster.url}/none/at/all does not exist"):
            storage.walk(path)


@contextmanager
def _interrupted() -> Iterator[list[float]]:
    """Ctrl-C, once, as soon as what is inside stands still; the list gets the time of it.

    Not sooner: one that comes just before a wait is noticed after it. Tests that a shell has started in the background
    would ignore it.
    """
    main = threading.main_thread().ident
    assert main is not None
    over = threading.Event()
    sent: list[float] = []

    def interrupt() -> None:
        before: object = None
        while not over.wait(0.1):
            frame = sys._current_frames()[main]
            here = (frame.f_code, frame.f_lasti)
            if here == before:
                sent.append(time.monotonic())
                signal.pthread_kill(main, signal.SIGINT)
                return
            before = here

    known = signal.signal(signal.SIGINT, signal.default_int_handler)
    thread = threading.Thread(target=interrupt, daemon=True)
    thread.start()
    try:
        yield sent
    finally:
        over.set()
        thread.join()
        signal.signal(signal.SIGINT, known)


class TestOutages:
    """A NameNode that stops in its tracks, or restarts."""

    def test_a_namenode_that_hangs(self, own_hdfs: Hdfs) -> None:
        """Time-outs for all verbs, known connections included; afterwards all is well again."""
        storage, root = _storage(own_hdfs, timeout=1), _folder()
        storage.mkdir(root)
        own_hdfs.pause()
        try:
            looks: tuple[Callable[[], object], ...] = (
                lambda: storage.stat(root),
                lambda: storage.create(f"{root}/new"),
                lambda: storage.mkdir(f"{root}/new"),
            )
            for look in looks:
                with pytest.raises(UnreachableError, match="did not answer within 1 s"):
                    look()
        finally:
            own_hdfs.resume()
        assert resolve(own_hdfs.url + root)[0].stat(root) is not None

    def test_ctrl_c_while_it_hangs(self, own_hdfs: Hdfs) -> None:
        """Looking ends at once, a change after a few seconds in which it could end by itself; not by a time-out."""
        storage, root = resolve(own_hdfs.url + _folder())
        storage.mkdir(root)
        own_hdfs.pause()
        try:
            verbs: tuple[tuple[float, Callable[[], object]], ...] = (
                (0, lambda: storage.stat(root)),
                (0, lambda: storage.walk(root)),
                (GRACE, lambda: storage.move(f"{root}/old", f"{root}/new")),
                (GRACE, lambda: storage.create(f"{root}/new")),
            )
            for grace, verb in verbs:
                with pytest.raises(KeyboardInterrupt), _interrupted() as sent:
                    verb()
                assert grace * 0.9 < time.monotonic() - sent[0] < grace + 5
        finally:
            own_hdfs.resume()

    def test_a_restart(self, own_hdfs: Hdfs) -> None:
        """Connections that broke are made anew; meanwhile a sentence."""
        storage, root = resolve(own_hdfs.url + _folder())
        storage.mkdir(root)
        storage.create_exclusive(f"{root}/before", b"")
        begun = storage.create(f"{root}/begun")
        own_hdfs.kill_namenode()
        verbs: tuple[Callable[[], object], ...] = (
            lambda: begun.close(),
            lambda: storage.stat(root),
            lambda: storage.move(f"{root}/before", f"{root}/x"),
        )
        for verb in verbs:
            with pytest.raises(UnreachableError, match=r"accepts no connections|broke"):
                verb()
        own_hdfs.start_namenode()
        until = time.monotonic() + 30
        while not storage.walk(root).directories and time.monotonic() < until:
            # It answers before it is ready, and says so.
            with suppress(UnreachableError):
                storage.mkdir(f"{root}/after")
            time.sleep(0.1)
        found = storage.walk(root)
        assert (found.directories, {info.path for info in found.files} - {"begun"}) == (("after",), {"before"})
