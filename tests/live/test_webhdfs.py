"""WebHDFS and HttpFS before a real HDFS: the conformance suite by both, and what is special about them."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

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
from acidctl.storage.hadoop import Status
from acidctl.storage.port import Storage, join
from acidctl.storage.prefetch import RangedFile
from acidctl.storage.webhdfs import WebHdfsStorage, connect
from tests import ROOT
from tests.cli.runner import acidctl
from tests.services.hdfs import Hdfs
from tests.services.httpfs import HttpFs
from tests.support.relay import Lost, Relay, Reply, Request, java
from tests.support.storage_conformance import Make, WritingStorage

pytestmark = pytest.mark.hdfs

_numbers = itertools.count()
MIB = 1 << 20
TABLE = ROOT / "fixtures/tables/hive4/bucketed/02-changed/table"


def _open(url: str, **options: Any) -> tuple[WebHdfsStorage, str]:
    storage, path = connect(url, url.partition(":")[0], options)
    return cast(WebHdfsStorage, storage), path


@pytest.fixture
def root(hdfs_cluster: Hdfs) -> Iterator[str]:
    """An empty directory of the superuser's, as a plain path; removed afterwards."""
    path = f"/webhdfs-{next(_numbers)}"
    hdfs_cluster.mkdir(path)
    yield path
    hdfs_cluster.remove(path)


@pytest.fixture
def storage(hdfs_cluster: Hdfs) -> WebHdfsStorage:
    """The superuser's."""
    return _open(hdfs_cluster.webhdfs)[0]


def _as(cluster: Hdfs, user: str) -> WebHdfsStorage:
    return _open(cluster.webhdfs, user=user)[0]


def _write(storage: Storage, path: str, data: bytes) -> None:
    with storage.create(path) as stream:
        stream.write(data)


def _planting(cluster: Hdfs, url: str, folder: Path) -> Make:
    """Puts trees into place by Hadoop's own client."""

    def make(files: Mapping[str, bytes]) -> tuple[Storage, str]:
        for name, data in files.items():
            path = folder / name
            (path if name.endswith("/") else path.parent).mkdir(parents=True, exist_ok=True)
            if not name.endswith("/"):
                path.write_bytes(data)
        root = f"/webhdfs-{next(_numbers)}"
        cluster.put_tree(folder, root)
        return _open(url + root)

    return make


class TestWebHdfs(WritingStorage):
    """A NameNode and its DataNode."""

    @pytest.fixture
    def make(self, hdfs_cluster: Hdfs, tmp_path: Path) -> Make:
        """A tree on the test HDFS."""
        return _planting(hdfs_cluster, hdfs_cluster.webhdfs, tmp_path / "tree")


class TestHttpFs(WritingStorage):
    """A gateway, whose `rename` goes into directories that exist."""

    @pytest.fixture
    def make(self, hdfs_cluster: Hdfs, httpfs: HttpFs, tmp_path: Path) -> Make:
        """A tree on the test HDFS."""
        return _planting(hdfs_cluster, httpfs.url, tmp_path / "tree")


class TestReading:
    """What it costs, and what is read."""

    def test_connections_are_kept_and_blocks_asked_for_once(
        self,
        hdfs_cluster: Hdfs,
        storage: WebHdfsStorage,
        root: str,
    ) -> None:
        """A walk makes one listing per directory; 50 reads of one block ask the NameNode once, by one connection."""
        data = bytes(range(256)) * 4096
        _write(storage, f"{root}/f", data)
        for name in "abc":
            storage.mkdir(f"{root}/{name}")
        with Relay(target=hdfs_cluster.http) as relay:
            through, path = _open(f"webhdfs://127.0.0.1:{relay.port}{root}")
            with through.open(f"{path}/f") as stream:
                read_at = cast(RangedFile, stream)._read_at
                for offset in range(0, 50_000, 1000):
                    assert read_at(offset, 10) == data[offset : offset + 10]
                assert read_at(len(data) - 5, 5) == data[-5:]
            assert [request.operation for request in relay.requests] == ["GETFILESTATUS", "OPEN"]
            assert relay.connections == 1
            relay.requests.clear()
            assert through.walk(path).directories == ("a", "b", "c")
            assert relay.count("LISTSTATUS_BATCH") == len(relay.requests) == 4

    def test_large_directories_come_in_pages(self, hdfs_cluster: Hdfs, root: str) -> None:
        """HDFS gives a thousand entries at a time."""
        names = sorted(f"p={number:05}%3A#" for number in range(1001))
        with Relay(target=hdfs_cluster.http) as relay:
            through, path = _open(f"webhdfs://127.0.0.1:{relay.port}{root}")
            with ThreadPoolExecutor(16) as pool:
                list(pool.map(lambda name: through._true("PUT", "MKDIRS", f"{path}/{name}"), names))
            relay.requests.clear()
            assert [found.name for found in through._list(path)] == names
            assert [request.query.get("startAfter") for request in relay.requests] == [None, names[999]]

    def test_what_is_removed_meanwhile_is_told(self, storage: WebHdfsStorage, root: str) -> None:
        """A cleaner took the file while it was open."""
        _write(storage, f"{root}/f", b"x" * 1000)
        with storage.open(f"{root}/f") as stream:
            storage.remove_file(f"{root}/f")
            with pytest.raises(StorageError, match="/f is not there any more") as caught:
                stream.read(10)
        assert "run the command again" in str(caught.value.hint)
        _write(storage, f"{root}/g", b"")
        with pytest.raises(StorageError, match="is not a directory"):
            storage.walk(f"{root}/g")
        with pytest.raises(NoSuchTableError, match="/none does not exist"):
            storage.walk(f"{root}/none")

    def test_who_holds_a_file_is_known(self, hdfs_cluster: Hdfs, httpfs: HttpFs, root: str) -> None:
        """From both kinds of server; nobody holds an empty file."""
        for url in (hdfs_cluster.webhdfs, httpfs.url):
            storage, path = _open(url + root)
            _write(storage, f"{path}/{url[-5:]}", b"x")
            _write(storage, f"{path}/{url[-5:]}.empty", b"")
            assert storage.hosts(f"{path}/{url[-5:]}") == ("127.0.0.1",)
            assert storage.hosts(f"{path}/{url[-5:]}.empty") == ()

    def test_names_go_to_and_fro_as_they_are(self, hdfs_cluster: Hdfs, httpfs: HttpFs, root: str) -> None:
        """Also those that the servers compose, strip or decode on their way."""
        names = [
            "e\u0301",
            "blank ",
            "a+b",
            "a;b",
            "back\\slash",
            "%2F",
            "#LATEST",
            "...",
            "\U0001f600",
            "tab\t",
            "a&b=c",
        ]
        for url in (hdfs_cluster.webhdfs, httpfs.url):
            storage, path = _open(f"{url}{root}/{url[-5:]}")
            storage.mkdir(path)
            for name in names:
                storage.mkdir(f"{path}/{name}")
                storage.create_exclusive(f"{path}/{name}/{name}", b"data")
                storage.move(f"{path}/{name}/{name}", f"{path}/{name}/2{name}")
                storage.rename_dir(f"{path}/{name}", f"{path}/{name}2")
                storage.rename_dir(f"{path}/{name}2", f"{path}/{name}")
                with storage.open(f"{path}/{name}/2{name}") as stream:
                    assert stream.read() == b"data"
            found = storage.walk(path)
            assert found.directories == tuple(sorted(names))
            assert [info.path for info in found.files] == sorted(f"{name}/2{name}" for name in names)

    def test_names_that_hdfs_does_not_have_are_refused(self, storage: WebHdfsStorage, root: str) -> None:
        """No colons, no other encodings, none of 300 letters."""
        for name, said in (
            ("a:b", "Invalid path name"),
            ("caf\udce9", "not UTF-8"),
            ("n" * 300, "component name limit"),
        ):
            with pytest.raises(StorageError, match=said):
                storage.create_exclusive(f"{root}/{name}", b"")
        assert storage.walk(root).files == ()


class TestWriting:
    """Files come whole or not at all, and once."""

    def test_of_many_who_create_one_name_one_wins(self, hdfs_cluster: Hdfs, httpfs: HttpFs, root: str) -> None:
        """By WebHDFS, by HttpFS, and the content is the winner's."""
        winners: list[bytes] = []

        def attempt(number: int) -> None:
            contender, path = _open((hdfs_cluster.webhdfs, httpfs.url)[number % 2] + root)
            try:
                contender.create_exclusive(f"{path}/lock", b"%d" % number)
                winners.append(b"%d" % number)
            except ExistsError:
                pass

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(attempt, range(8)))
        with _open(hdfs_cluster.webhdfs)[0].open(f"{root}/lock") as stream:
            assert [stream.read()] == winners

    def test_of_many_who_rename_to_one_name_one_wins(self, hdfs_cluster: Hdfs, httpfs: HttpFs, root: str) -> None:
        """Nobody lands inside the other's directory."""
        storage = _open(hdfs_cluster.webhdfs)[0]
        for number in range(8):
            storage.mkdir(f"{root}/work{number}")
            storage.mkdir(f"{root}/work{number}/base_5")
            storage.create_exclusive(f"{root}/work{number}/base_5/f", b"")
        winners: list[int] = []

        def attempt(number: int) -> None:
            contender, path = _open((hdfs_cluster.webhdfs, httpfs.url)[number % 2] + root)
            try:
                contender.rename_dir(f"{path}/work{number}/base_5", f"{path}/base_5")
                winners.append(number)
            except ExistsError:
                pass

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(attempt, range(8)))
        found = storage.walk(root)
        assert len(winners) == 1
        assert [info.path for info in found.files] == ["base_5/f"] + [
            f"work{number}/base_5/f" for number in range(8) if number not in winners
        ]

    def test_a_gateway_renames_to_other_names_without_remains(
        self, httpfs: HttpFs, root: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """In two steps through a directory of its own, which is gone afterwards, also when the target is taken."""
        storage, path = _open(httpfs.url + root)
        storage.mkdir(f"{path}/begun")
        _write(storage, f"{path}/begun/f", b"1")
        storage.rename_dir(f"{path}/begun", f"{path}/done")
        storage.move(f"{path}/done/f", f"{path}/g")
        storage.mkdir(f"{path}/begun")
        real, taken = storage.status, iter([True])

        def too_early(asked: str) -> Status | None:
            return None if asked == f"{path}/done" and next(taken, False) else real(asked)

        monkeypatch.setattr(storage, "status", too_early)
        with pytest.raises(ExistsError, match="/done exists already"):
            storage.rename_dir(f"{path}/begun", f"{path}/done")
        found = storage.walk(path)
        assert (found.directories, [info.path for info in found.files]) == (("begun", "done"), ["g"])

    def test_large_files_are_streamed_and_taken_back(self, hdfs_cluster: Hdfs, httpfs: HttpFs, root: str) -> None:
        """While they are written; one that fails half way leaves nothing, and nothing comes to life afterwards."""
        part = bytes(range(256)) * 4096
        for url in (hdfs_cluster.webhdfs, httpfs.url):
            storage, path = _open(url + root)
            name = f"{path}/{url[-5:]}"
            with storage.create(name) as stream:
                for _ in range(20):
                    stream.write(part)
                assert storage.stat(name) is not None
            with storage.open(name) as stream:
                assert stream.read() == part * 20

            def fail(storage: WebHdfsStorage = storage, name: str = name) -> None:
                with storage.create(name + ".half") as stream:
                    for _ in range(20):
                        stream.write(part)
                    raise KeyError

            with pytest.raises(KeyError):
                fail()
            time.sleep(0.2)
            assert storage.stat(name + ".half") is None

    def test_another_writers_file_is_not_taken_away(self, storage: WebHdfsStorage, root: str) -> None:
        """It came after we had looked: we fail, and the file stays, be ours small or large."""
        for size in (10, 20 * MIB):
            stream = storage.create(f"{root}/f")
            storage.create_exclusive(f"{root}/f", b"the other's")
            with pytest.raises(ExistsError, match="/f exists already"), stream:
                stream.write(b"x" * size)
            with storage.open(f"{root}/f") as found:
                assert found.read() == b"the other's"
            storage.remove_file(f"{root}/f")

    def test_what_was_abandoned_is_no_file(self, storage: WebHdfsStorage, root: str) -> None:
        """A writer that nobody closes publishes nothing, whether it has begun to send or not."""
        for size, begun in ((10, False), (9 * MIB, True)):
            stream = storage.create(f"{root}/f")
            stream.write(b"x" * size)
            while begun and storage.stat(f"{root}/f") is None:
                time.sleep(0.01)
            del stream
            assert storage.stat(f"{root}/f") is None

    def test_a_lost_answer_says_that_the_outcome_is_unknown(
        self,
        hdfs_cluster: Hdfs,
        storage: WebHdfsStorage,
        root: str,
    ) -> None:
        """The rename did happen; who publishes has to look."""
        storage.mkdir(f"{root}/a")

        def lost(request: Request) -> Reply | None:
            if request.operation == "RENAME":
                raise Lost(carried_out=True)
            return None

        with Relay(lost, target=hdfs_cluster.http) as relay:
            through, path = _open(f"webhdfs://127.0.0.1:{relay.port}{root}")
            with pytest.raises(UnreachableError, match="closed the connection"):
                through.rename_dir(f"{path}/a", f"{path}/b")
        assert storage.walk(root).directories == ("b",)


class TestFaults:
    """Each says what is wrong and what to do."""

    def test_permissions(self, hdfs_cluster: Hdfs, storage: WebHdfsStorage, root: str) -> None:
        """Who may not is told who may; hidden directories of others may stay closed."""
        _write(storage, f"{root}/f", b"1")
        for name in ("delta_1_1", ".staging"):
            storage.mkdir(f"{root}/{name}")
            storage._ask("PUT", "SETPERMISSION", f"{root}/{name}", permission="700")
        bob = _as(hdfs_cluster, "bob")
        refused: list[Callable[[], object]] = [
            lambda: bob.create_exclusive(f"{root}/g", b""),
            lambda: bob.mkdir(f"{root}/g"),
            lambda: bob.rename_dir(f"{root}/delta_1_1", f"{root}/delta_2_2"),
            lambda: bob.move(f"{root}/f", f"{root}/g"),
            lambda: bob.remove_file(f"{root}/f"),
            lambda: bob.remove_tree(f"{root}/delta_1_1"),
        ]
        for attempt in refused:
            with pytest.raises(DeniedError, match="cannot be changed: Permission denied: user=bob") as caught:
                attempt()
            assert "may write to the table" in str(caught.value.hint)
        with pytest.raises(DeniedError, match="/delta_1_1 cannot be read: Permission denied: user=bob"):
            bob.walk(root)
        storage.remove_tree(f"{root}/delta_1_1")
        assert bob.walk(root).directories == (".staging",)

    def test_safe_mode_and_quotas(self, hdfs_cluster: Hdfs, storage: WebHdfsStorage, root: str) -> None:
        """Reading goes on, writing is refused for a reason."""
        _write(storage, f"{root}/f", b"1")
        hdfs_cluster.safemode(True)
        try:
            for attempt in (storage.mkdir, storage.remove_file, lambda path: storage.create_exclusive(path, b"")):
                with pytest.raises(SafeModeError, match="the NameNode is in safe mode"):
                    attempt(f"{root}/f" if attempt == storage.remove_file else f"{root}/g")
            with storage.open(f"{root}/f") as stream:
                assert stream.read() == b"1"
        finally:
            hdfs_cluster.safemode(False)
        hdfs_cluster.set_quota(root, names=2)
        with pytest.raises(QuotaError, match=r"quota .* is exceeded"):
            storage.create_exclusive(f"{root}/g", b"")
        hdfs_cluster.set_quota(root, space=MIB)
        with pytest.raises(QuotaError, match=r"quota .* is exceeded"):
            storage.create_exclusive(f"{root}/g", b"data")
        assert [info.path for info in storage.walk(root).files if info.size] == ["f"]

    def test_servers_that_are_slow_or_gone(self, hdfs_cluster: Hdfs, storage: WebHdfsStorage, root: str) -> None:
        """Nothing waits for ever, and all goes on when they are back."""
        _write(storage, f"{root}/f", b"1")
        hasty = _open(hdfs_cluster.webhdfs, timeout=1)[0]
        for namenode in (True, False):
            hdfs_cluster.pause(namenode=namenode, datanodes=not namenode)
            try:
                started = time.monotonic()
                with (
                    pytest.raises(UnreachableError, match="did not answer within 1 s"),
                    hasty.open(f"{root}/f") as stream,
                ):
                    stream.read()
                assert time.monotonic() - started < 5
            finally:
                hdfs_cluster.resume()
        hdfs_cluster.kill_datanode()
        try:
            with pytest.raises(UnreachableError, match="cannot be reached: "), hasty.open(f"{root}/f") as stream:
                stream.read()
        finally:
            hdfs_cluster.start_datanode()
        hdfs_cluster.kill_namenode()
        try:
            with pytest.raises(UnreachableError, match=f"http://127.0.0.1:{hdfs_cluster.http} accepts no connections"):
                hasty.stat(root)
        finally:
            hdfs_cluster.start_namenode()
        with _open(hdfs_cluster.webhdfs)[0].open(f"{root}/f") as stream:
            assert stream.read() == b"1"

    def test_damage_on_the_only_disk(self, hdfs_cluster: Hdfs, storage: WebHdfsStorage, root: str) -> None:
        """HDFS notices; the sentence says whose fault it is, and never wrong bytes."""
        _write(storage, f"{root}/f", b"x" * 100_000)
        hdfs_cluster.corrupt(f"{root}/f", offset=50_000)
        with storage.open(f"{root}/f") as stream, pytest.raises(StorageError):
            stream.read()


class TestIdentity:
    """Owners, groups, the trash, users who act for others."""

    def test_owner_group_and_mode_follow_the_table(
        self, hdfs_cluster: Hdfs, storage: WebHdfsStorage, root: str
    ) -> None:
        """The superuser gives away; an owner gives to his groups only, and what is refused is no error."""
        hdfs_cluster.mkdir(f"{root}/t", owner="alice:analysts", mode="1770")
        hdfs_cluster.mkdir(f"{root}/bob", owner="bob:analysts", mode="755")
        storage.mkdir(f"{root}/t/base_1")
        _write(storage, f"{root}/t/f", b"1")
        storage.inherit(f"{root}/t/base_1", f"{root}/t")
        storage.inherit(f"{root}/t/f", f"{root}/t")
        _write(_as(hdfs_cluster, "bob"), f"{root}/bob/f", b"1")
        hdfs_cluster.run("dfs", "-chgrp", "others", f"{root}/bob/f")
        _as(hdfs_cluster, "bob").inherit(f"{root}/bob/f", f"{root}/t")
        shown = {}
        for name in ("t/base_1", "t/f", "bob/f"):
            status = storage._existing(f"{root}/{name}")
            shown[name] = (status.owner, status.group, oct(status.mode))
        assert shown == {
            "t/base_1": ("alice", "analysts", "0o1770"),
            "t/f": ("alice", "analysts", "0o660"),
            "bob/f": ("bob", "analysts", "0o660"),
        }

    @pytest.mark.parametrize("kind", ["webhdfs", "httpfs"])
    def test_the_trash_is_the_users_and_keeps_every_copy(
        self, kind: str, hdfs_cluster: Hdfs, httpfs: HttpFs, root: str
    ) -> None:
        """At the path it had; the server's interval counts, and else the client's."""
        hdfs_cluster.mkdir(f"{root}/t", owner="alice")
        url = httpfs.url if kind == "httpfs" else hdfs_cluster.webhdfs
        assert not _open(url, user="alice")[0].facts.trash
        alice = _open(url, user="alice", config={"fs.trash.interval": "60"})[0]
        assert alice.facts.trash
        hdfs_cluster.mkdir("/user/alice", owner="alice")
        try:
            for data in (b"1", b"22"):
                alice.mkdir(f"{root}/t/d")
                _write(alice, f"{root}/t/d/f", data)
                alice.discard(f"{root}/t/d")
            _write(alice, f"{root}/t/x", b"333")
            alice.discard(f"{root}/t/x")
            alice.mkdir(f"{root}/t/x")
            _write(alice, f"{root}/t/x/y", b"4444")
            alice.discard(f"{root}/t/x/y")
            trash = "/user/alice/.Trash/Current"
            kept = alice.walk(trash)
            assert sorted(info.size for info in kept.files) == [1, 2, 3, 4]
            paths = {info.path for info in kept.files}
            assert {f"{root}/t/d/f"[1:], f"{root}/t/x"[1:]} <= paths
            # Beside the file that is in the way of a parent, as Hadoop does it.
            (aside,) = (path for path in paths if path.endswith("/y"))
            assert aside.removeprefix(f"{root}/t/x"[1:]).removesuffix("/y").isdecimal()
            assert alice.walk(f"{root}/t").directories == ("x",)
        finally:
            hdfs_cluster.remove("/user/alice")

    def test_one_user_acts_for_another(self, hdfs_cluster: Hdfs, httpfs: HttpFs, root: str) -> None:
        """The superuser may; bob may not, and is told what is missing."""
        hdfs_cluster.mkdir(f"{root}/alice", owner="alice")
        for url in (hdfs_cluster.webhdfs, httpfs.url):
            acting = _open(url, proxy_user="alice")[0]
            _write(acting, f"{root}/alice/{url[-5:]}", b"1")
            assert acting._existing(f"{root}/alice/{url[-5:]}").owner == "alice"
            with pytest.raises(DeniedError, match="user=alice"):
                acting.mkdir(f"{root}/new")
        with pytest.raises(DeniedError, match="bob is not allowed to impersonate alice") as caught:
            _open(hdfs_cluster.webhdfs, user="bob", proxy_user="alice")[0].stat(root)
        assert "hadoop.proxyuser" in str(caught.value.hint)

    def test_a_name_service_leads_to_the_active_namenode(
        self, hdfs_cluster: Hdfs, storage: WebHdfsStorage, root: str
    ) -> None:
        """The first in the configuration is in standby, the second is down."""
        _write(storage, f"{root}/f", b"1")
        standby = java(403, "StandbyException", "Operation category READ is not supported in state standby")
        with Relay(lambda request: standby) as first, Relay() as second:
            pass
        with Relay(lambda request: standby) as first:
            config = {
                "dfs.nameservices": "warehouse",
                "dfs.ha.namenodes.warehouse": "a,b,c",
                "dfs.namenode.http-address.warehouse.a": f"127.0.0.1:{first.port}",
                "dfs.namenode.http-address.warehouse.b": f"127.0.0.1:{second.port}",
                "dfs.namenode.http-address.warehouse.c": f"127.0.0.1:{hdfs_cluster.http}",
            }
            found, path = _open(f"webhdfs://warehouse{root}", config=config)
            assert found.display(path) == f"webhdfs://warehouse{root}"
            with found.open(join(path, "f")) as stream:
                assert stream.read() == b"1"
            found.rename_dir(path, path + "-moved")
            found.rename_dir(path + "-moved", path)
            assert len(first.requests) == 1


@pytest.mark.parametrize("kind", ["webhdfs", "httpfs"])
def test_a_table_is_compacted_and_cleaned(
    kind: str, hdfs_cluster: Hdfs, httpfs: HttpFs, root: str, tmp_path: Path
) -> None:
    """Lock, work directory, publication and trash: the rows stay what they were, and nothing of ours is left."""
    hdfs_cluster.put_tree(TABLE, f"{root}/t")
    host = httpfs.url if kind == "httpfs" else hdfs_cluster.webhdfs
    (tmp_path / "config.toml").write_text(f'[storage."{host}/"]\nconfig = {{ "fs.trash.interval" = 60 }}\n')
    home = f"/user/{hdfs_cluster.superuser}"
    hdfs_cluster.mkdir(home)
    trash = f"{home}/.Trash/Current{root}/t"

    def run(*command: str) -> Any:
        done = acidctl(*command, f"{host}{root}/t", "-o", "json", "--config", str(tmp_path / "config.toml"))
        assert done.code == 0, done.stderr
        return done.json()

    before = run("snapshot", "--digest")["digest"]
    assert before == acidctl("snapshot", "--digest", str(TABLE), "-o", "json").json()["digest"]
    run("compact", "major", "--engine", "local", "--assume-committed")
    run("clean", "--as-of", "99", "--assume-exclusive", "--unsafe-no-retention", "--delete", "--yes")
    assert run("snapshot", "--digest")["digest"] == before
    (left,) = {path.removeprefix(f"{root}/t/").split("/")[0] for path in hdfs_cluster.list(f"{root}/t")}
    assert left.startswith("base_")
    assert any("delta_" in path for path in hdfs_cluster.list(trash))
    hdfs_cluster.remove(trash)
