"""What an export may take the place of: an export of ours and nothing else, wherever a target lies and leads to."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import socket
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import acidctl
from acidctl.errors import AcidctlError, ExistsError, StorageError, UsageError
from acidctl.exporting.run import Chosen, export
from acidctl.exporting.target import _OWNER_TYPE
from acidctl.maintenance.lock import new_owner, to_bytes
from acidctl.options import ExportOptions
from acidctl.rows.snapshot import Snapshot
from acidctl.storage.local import LocalStorage
from acidctl.storage.resolve import resolve
from tests import ROOT
from tests.cli.runner import acidctl as command
from tests.support.faulty import Fault, FaultyStorage

FIXTURES = ROOT / "fixtures/tables/hive4"
PARTITIONED = FIXTURES / "partitioned/03-one-compacted/table"
DDL = "create table orders (id int, v string) stored as textfile tblproperties ('transactional'='true', "
DDL += "'transactional_properties'='insert_only')"
LISTED = {"type": "acidctl_export", "schema_version": 1, "files": [{"path": "part-00000.parquet", "bytes": 4}]}


class World:
    """A warehouse with a table of its own, and everything else that a disk has."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.table = root / "w/db/orders"
        self.put("w/db/orders/delta_0000001_0000001_0000/000000_0.gz", gzip.compress(b"1\x01a\n2\x01b\n"))
        self.named = self.table

    def put(self, name: str, content: bytes = b"mine") -> Path:
        """A file, and the directories above it."""
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        return path

    def make(self, name: str) -> None:
        """An empty directory."""
        (self.root / name).mkdir(parents=True)

    def link(self, name: str, to: Path | str) -> None:
        """A symbolic link."""
        (self.root / name).parent.mkdir(parents=True, exist_ok=True)
        (self.root / name).symlink_to(to)

    def export(self, name: str, **how: Any) -> Path:
        """An export of ours."""
        (self.root / name).parent.mkdir(parents=True, exist_ok=True)
        self.seen.export(f"{self.root}/{name}", **how)
        return self.root / name

    def old_export(self, name: str) -> Path:
        """One of an earlier version, which left no list."""
        path = self.export(name)
        (path / "_acidctl_export.json").unlink()
        return path

    def dead(self, name: str, ends: str = "part") -> str:
        """The hidden name beside a target of a run that is known to be dead."""
        owner = new_owner(0.0)
        folder, _, last = name.rpartition("/")
        gone = json.loads(to_bytes(owner, _OWNER_TYPE)) | {"pid_started": "1"}
        self.put(f"{folder}/.{last}.{owner.id}.owner", json.dumps(gone).encode())
        return f"{folder}/.{last}.{owner.id}.{ends}"

    @property
    def seen(self) -> Snapshot:
        """What is exported."""
        text = os.path.realpath(self.named) == str(self.table)
        return acidctl.open_table(str(self.named)).snapshot(schema=DDL if text else None)

    def all(self) -> dict[str, object]:
        """Everything there is, with its content."""
        return {
            str(path.relative_to(self.root)): os.readlink(path)
            if path.is_symlink()
            else path.read_bytes()
            if path.is_file()
            else path.is_dir()
            for path in self.root.rglob("*")
        }


Make = Callable[[World], object]


def _nothing(world: World) -> None:
    pass


def _through_links(world: World) -> None:
    world.link("links/orders", world.table)
    world.named = world.root / "links/orders"


def _through_two_links(world: World) -> None:
    world.link("two/orders", world.table)
    world.link("one/orders", "../two/orders")
    world.named = world.root / "one/orders"


def _linked_partition(world: World) -> None:
    world.put("elsewhere/folder/delta_0000002_0000002_0000/000000_0", b"3\x01c\n")
    world.link("w/db/orders/delta_0000002_0000002_0000", world.root / "elsewhere/folder/delta_0000002_0000002_0000")


def _linked_folder(world: World) -> None:
    """Of a partitioned table; the place to which the link leads is empty but for files that look like an export's."""
    shutil.copytree(PARTITIONED, world.root / "w/db/parts")
    folder = world.root / "w/db/parts/ds=2026-01-02"
    shutil.rmtree(folder)
    world.export("elsewhere/day/")
    folder.symlink_to(world.root / "elsewhere")
    world.named = world.root / "w/db/parts"


def _partition(world: World) -> None:
    shutil.copytree(PARTITIONED, world.root / "w/db/parts")
    world.named = world.root / "w/db/parts/ds=2026-01-01/hr=1"


def _acid(world: World) -> None:
    shutil.copytree(FIXTURES / "demo_orders/03-demo/table", world.root / "w/db2/acid")


def _text(world: World) -> None:
    shutil.copytree(world.table, world.root / "w/db2/text")


def _parquet(world: World) -> None:
    world.make("w/db2/parquet/base_0000001")
    pq.write_table(pa.table({"id": [1]}), world.root / "w/db2/parquet/base_0000001/000000_0")
    world.put("w/db2/parquet/base_0000001/_metadata_acid", b"{}")


def _with_list(make: Make, place: str, *, whole: bool = True) -> Make:
    """And somebody has put a list of ours there, which does not make it an export."""

    def made(world: World) -> None:
        make(world)
        world.put(f"{place}/part-00000.parquet")
        content = dict(LISTED)
        if whole:
            names = [path for path in (world.root / place).rglob("*") if path.is_file()]
            content["files"] = [
                {"path": str(path.relative_to(world.root / place)), "bytes": path.stat().st_size} for path in names
            ]
        world.put(f"{place}/_acidctl_export.json", json.dumps(content).encode())

    return made


def _files(*names: str) -> Make:
    def made(world: World) -> None:
        for name in names:
            (world.make if name.endswith("/") else world.put)(f"out/{name}")

    return made


def _export_and(*names: str, old: bool = False) -> Make:
    def made(world: World) -> None:
        (world.old_export if old else world.export)("out/lake/")
        for name in names:
            (world.make if name.endswith("/") else world.put)(f"out/lake/{name}")

    return made


def _changed(world: World) -> None:
    world.export("out/lake/")
    world.put("out/lake/part-00000.parquet", b"changed")


def _export_and_link(world: World) -> None:
    world.export("out/lake/")
    world.put("precious/part-00000.parquet")
    world.link("out/lake/part-00001.parquet", world.root / "precious/part-00000.parquet")


def _export_and_pipe(world: World) -> None:
    world.export("out/lake/")
    os.mkfifo(world.root / "out/lake/part-00001.parquet")


def _without_success(world: World) -> None:
    (world.old_export("out/lake/") / "_SUCCESS").unlink()


def _linked_away(world: World) -> None:
    world.put("precious/part-00000.parquet")
    world.put("precious/_SUCCESS", b"")
    world.link("out/lake", world.root / "precious")


def _moved_away(content: Make) -> Make:
    def made(world: World) -> None:
        world.export("out/lake/")
        content(world)

    return made


def _old_link(world: World) -> None:
    world.export("precious/lake/")
    world.link("out/.lake.acidctl-old", world.root / "precious/lake")


SPARK = "part-00000-2f7c1a52-5b1e-4a8e-9c64-58f2f4a0d111-c000.snappy.parquet"
AGREED: dict[str, Any] = {"unsafe_overwrite_unlisted": True}
REFUSED: dict[str, tuple[Make, str, dict[str, Any]]] = {
    # Above the table, or above what leads to it.
    "parent": (_nothing, "w/db/", {}),
    "parent, agreed": (_nothing, "w/db/", AGREED),
    "grandparent": (_nothing, "w/", {}),
    "parent with a list": (_with_list(_nothing, "w/db"), "w/db/", {}),
    "parent with a list of part of it": (_with_list(_nothing, "w/db", whole=False), "w/db/", AGREED),
    "parent by format": (_nothing, "w/db", {"format": "csv"}),
    "above a link to it": (_through_links, "links/", {}),
    "above it, opened by a link": (_through_links, "w/db/", {}),
    "above a link to a link": (_through_two_links, "two/", {}),
    "above what it has a link to": (_linked_partition, "elsewhere/", {}),
    "above a folder that it has a link to": (_linked_folder, "elsewhere/", AGREED),
    "a link to its parent": (lambda world: world.link("out/up", world.root / "w/db"), "out/up/", AGREED),
    # The table itself, and inside of it.
    "table": (_nothing, "w/db/orders/", {}),
    "table, agreed": (_nothing, "w/db/orders/", AGREED),
    "table with a list": (_with_list(_nothing, "w/db/orders"), "w/db/orders/", {}),
    "its delta": (_nothing, "w/db/orders/delta_0000001_0000001_0000/", AGREED),
    "inside": (_nothing, "w/db/orders/x.parquet", {}),
    "inside, hidden": (_nothing, "w/db/orders/_acidctl_lock/", {}),
    "inside by dots": (_nothing, "w/db/other/../orders/x/", {}),
    "a link into it": (lambda world: world.link("out/in", world.table / "x"), "out/in/", {}),
    "inside what it has a link to": (_linked_folder, "elsewhere/day/", {}),
    "another partition": (_partition, "w/db/parts/ds=2026-01-01/hr=2/", {}),
    "above a partition": (_partition, "w/db/parts/", {}),
    # Other tables.
    "ACID": (_acid, "w/db2/acid/", AGREED),
    "ACID with a list": (_with_list(_acid, "w/db2/acid"), "w/db2/acid/", AGREED),
    "text": (_text, "w/db2/text/", AGREED),
    "Parquet": (_parquet, "w/db2/parquet/", AGREED),
    "their parent": (_text, "w/db2/", AGREED),
    "into one": (_text, "w/db2/text/x.parquet", {}),
    "into one as a directory": (_text, "w/db2/text/some/where/", {}),
    "a data file": (
        lambda world: world.put("w/db2/t/delta_0000001_0000001/000000_0.csv.gz"),
        "w/db2/t/delta_0000001_0000001/000000_0.csv.gz",
        {},
    ),
    "only a marker": (lambda world: world.put("w/db2/empty/_orc_acid_version"), "w/db2/empty/", AGREED),
    "only directories of one": (lambda world: world.make("w/db2/empty/base_0000001"), "w/db2/empty/", AGREED),
    # What others have.
    "dot files": (_files("lake/.bashrc", "lake/.env"), "out/lake/", AGREED),
    "hidden": (_files("lake/_keep"), "out/lake/", AGREED),
    "empty": (_files("lake/"), "out/lake/", AGREED),
    "empty folders": (_files("lake/a/", "lake/b/ds=1/"), "out/lake/", AGREED),
    "documents": (_files("lake/tax.csv", "lake/_SUCCESS"), "out/lake/", AGREED),
    "Spark, half": (_files(f"lake/{SPARK}"), "out/lake/", AGREED),
    "Spark": (_files(f"lake/{SPARK}", "lake/_SUCCESS"), "out/lake/", AGREED),
    "another list": (_files("lake/_acidctl_export.json", "lake/part-00000.parquet"), "out/lake/", {}),
    "a file": (_files("lake"), "out/lake/", AGREED),
    "a directory": (_files("x.parquet/y"), "out/x.parquet", AGREED),
    "a link to others'": (_linked_away, "out/lake/", {}),
    # Exports, and what was put there since.
    "and a file": (_export_and("part-00001.parquet"), "out/lake/", AGREED),
    "and a log": (_export_and("_delta_log/00000000000000000000.json"), "out/lake/", {}),
    "and an empty directory": (_export_and("ds=1/"), "out/lake/", {}),
    "and a table": (_export_and("ds=1/delta_0000001_0000001/bucket_00000"), "out/lake/", AGREED),
    "changed": (_changed, "out/lake/", AGREED),
    "and a link": (_export_and_link, "out/lake/", {}),
    "and a pipe": (_export_and_pipe, "out/lake/", {}),
    # Exports without a list.
    "old": (lambda world: world.old_export("out/lake/"), "out/lake/", {}),
    "old and a note": (_export_and("notes.txt", old=True), "out/lake/", AGREED),
    "old and another form": (_export_and("part-00001.csv", old=True), "out/lake/", AGREED),
    "old and a folder": (_export_and("ds=1/", old=True), "out/lake/", AGREED),
    "old and no end": (_without_success, "out/lake/", AGREED),
    # Hidden names beside the target.
    "moved away by others": (_moved_away(_files(".lake.acidctl-old/precious.txt")), "out/lake/", AGREED),
    "moved away, and gone": (_files(".lake.acidctl-old/precious.txt"), "out/lake/", AGREED),
    "moved away, a link": (_moved_away(_old_link), "out/lake/", AGREED),
    "moved away, a file": (_files(".x.csv.acidctl-old", "x.csv"), "out/x.csv", {}),
    "another list of it": (_files(".x.csv.acidctl-old.json", "x.csv"), "out/x.csv", {}),
}


@pytest.mark.parametrize("case", REFUSED)
def test_nothing_but_an_export_of_ours_goes(case: str, tmp_path: Path) -> None:
    """An error in a sentence, and everything is as it was, to the last byte and link."""
    make, to, how = REFUSED[case]
    world = World(tmp_path)
    make(world)
    before = world.all()
    with pytest.raises((UsageError, ExistsError)) as refused:
        world.seen.export(f"{tmp_path}/{to}", overwrite=True, **how)
    assert world.all() == before
    assert refused.value.hint
    assert os.path.realpath(tmp_path / to) in str(refused.value) or to in str(refused.value), refused.value


def _whole(world: World) -> None:
    _partition(world)
    world.named = world.root / "w/db/parts"
    world.export("out/lake/", partitioned=True)


def _by_link(world: World) -> None:
    world.export("far/lake/")
    world.link("out/lake", "../far/lake")


def _link_to_file(world: World) -> None:
    world.put("far/x")
    world.link("out/x.csv", "../far/x")


REPLACED: dict[str, tuple[Make, str, dict[str, Any]]] = {
    "an export": (lambda world: world.export("out/lake/"), "out/lake/", {}),
    "of a table with partitions": (_whole, "out/lake/", {}),
    "a part of one": (lambda world: (world.export("out/lake/") / "part-00000.parquet").unlink(), "out/lake/", {}),
    "by a link": (_by_link, "out/lake/", {}),
    "an old one, agreed": (lambda world: world.old_export("out/lake/"), "out/lake/", AGREED),
    "a file": (_files("x.csv"), "out/x.csv", {}),
    "a link to a file": (_link_to_file, "out/x.csv", {}),
}


@pytest.mark.parametrize("case", REPLACED)
def test_an_export_of_ours_is_replaced(case: str, tmp_path: Path) -> None:
    """Nothing of the old is left, nothing hidden, and nothing else has changed."""
    make, to, how = REPLACED[case]
    world = World(tmp_path)
    world.make("out")
    world.put("out/.lake.bashrc")
    make(world)
    before = world.all()
    world.seen.export(f"{tmp_path}/{to}", ["id"], overwrite=True, **how)
    place = os.path.relpath(os.path.realpath(tmp_path / to), tmp_path)

    def others(found: dict[str, object]) -> dict[str, object]:
        return {name: what for name, what in found.items() if name != place and not name.startswith(f"{place}/")}

    assert others(world.all()) == others(before)
    made = {name[len(place) + 1 :] for name in world.all() if name.startswith(f"{place}/")}
    assert not made or made == {"_SUCCESS", "_acidctl_export.json", "part-00000.parquet"}
    assert (tmp_path / to).is_dir() == to.endswith("/")


def test_the_list_has_all_files_and_their_sizes(tmp_path: Path) -> None:
    """Of folders of partitions too, and it is written before `_SUCCESS`."""
    world = World(tmp_path)
    _whole(world)
    place = tmp_path / "out/lake"
    stated = json.loads((place / "_acidctl_export.json").read_text())
    there = {str(path.relative_to(place)): path.stat().st_size for path in place.rglob("*.parquet")}
    assert {entry["path"]: entry["bytes"] for entry in stated["files"]} == there
    assert len(there) == 3
    assert (place / "_acidctl_export.json").stat().st_mtime_ns <= (place / "_SUCCESS").stat().st_mtime_ns


def test_what_would_go_is_listed_before_it_is_agreed_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The option by its name, and the files; it is for the command line alone, and only beside --overwrite."""
    world = World(tmp_path)
    world.old_export("out/lake/")
    asked = ["snapshot", str(world.table), "--schema", DDL, "--to", f"{tmp_path}/out/lake/", "--overwrite"]
    option = "--unsafe-overwrite-unlisted"
    monkeypatch.setenv("ACIDCTL_SNAPSHOT_UNSAFE_OVERWRITE_UNLISTED", "1")
    refused = command(*asked)
    assert refused.code == 14
    assert option in refused.stderr
    assert "_SUCCESS, part-00000.parquet (" in refused.stderr
    assert command(*asked[:-1], option).code == 2
    done = command(*asked, option)
    assert done.code == 0, done.stderr
    assert "part-00000.parquet" in done.stderr
    assert command(*asked).code == 0


@pytest.mark.parametrize("to", ["lake/", "x.csv"])
def test_what_a_dead_run_has_left_is_removed(to: str, tmp_path: Path) -> None:
    """What is hidden beside the target: of a dead run, if an export made all of it; all else stays and is named."""
    world = World(tmp_path)
    name = to.rstrip("/")
    world.put(f"out/.{name}.0a1b2c3d.part")  # of an earlier version
    ours = world.dead(f"out/{name}")
    foreign = world.dead(f"out/{name}")
    world.dead(f"out/{name}")  # died before it had written anything
    linked = world.dead(f"out/{name}")
    world.put("precious/part-00000.csv")
    world.link(linked, world.root / "precious")
    if to == "lake/":
        world.put(f"{ours}/ds=1/part-00000.parquet")
        world.make(f"{ours}/ds=2")
        world.put(f"{foreign}/part-00000.parquet")
        world.put(f"{foreign}/notes.txt")
    else:
        world.put(ours)
        os.mkfifo(world.root / foreign)
    before = world.all()
    report = world.seen.export(f"{tmp_path}/out/{to}")
    gone = before.keys() - world.all().keys()
    assert {path.partition(".owner")[0].partition(".part")[0] for path in gone} >= {ours.removesuffix(".part")}
    assert not [path for path in gone if path.startswith((foreign, "precious")) or path == linked]
    assert (tmp_path / f"out/.{name}.0a1b2c3d.part").exists()
    assert [note for note in report["notes"] if "removed" in note and ours.rpartition("/")[2] in note]
    assert [note for note in report["notes"] if "2 more like it" in note]


def test_an_owner_that_lives_is_left_alone(tmp_path: Path) -> None:
    """A process of this machine that runs, and one of another machine."""
    world = World(tmp_path)
    for host in (socket.gethostname(), "elsewhere"):
        owner = new_owner(0.0)
        content = json.loads(to_bytes(owner, _OWNER_TYPE)) | {"host": host, "pid": os.getppid(), "pid_started": None}
        world.put(f"out/.x.csv.{owner.id}.owner", json.dumps(content).encode())
        world.put(f"out/.x.csv.{owner.id}.part")
    before = world.all()
    world.seen.export(f"{tmp_path}/out/x.csv", overwrite=True)
    assert world.all().items() > before.items()


def test_what_comes_while_rows_are_written_stays(tmp_path: Path) -> None:
    """The target is looked at again before it is replaced; what was written is given up."""
    world = World(tmp_path)
    world.export("out/lake/")

    class Late(LocalStorage):
        def create_exclusive(self, path: str, data: bytes, like: str | None = None) -> None:
            if path.endswith("_SUCCESS"):
                world.put("out/lake/precious.txt")
            super().create_exclusive(path, data, like)

    class Later(LocalStorage):
        def exchange(self, first: str, second: str) -> bool:
            if not (tmp_path / "seen").exists():
                (tmp_path / "seen").touch()
                (tmp_path / "out/lake/precious").mkdir()
            return super().exchange(first, second)

    for kind in (Late, Later):
        place = str(tmp_path / "out/lake")
        asked = ExportOptions(to=f"{place}/", overwrite=True)
        with pytest.raises(ExistsError, match="precious"):
            export(world.seen, asked, Chosen(("id",)), kind(place), place)
        assert pq.read_schema(tmp_path / "out/lake/part-00000.parquet").names == ["id", "v"]
        assert [path.name for path in (tmp_path / "out").iterdir()] == ["lake"]
        (tmp_path / "out/lake/precious.txt").unlink(missing_ok=True)


@pytest.mark.parametrize("to", ["lake/", "x.csv"])
@pytest.mark.parametrize("steps", [1, 2])
def test_a_disk_that_refuses_leaves_the_old(to: str, steps: int, tmp_path: Path) -> None:
    """Whichever call is refused, as on a full disk: the old is there or the new, both whole, and nothing hidden that
    the next run does not put right.
    """
    world = World(tmp_path)
    world.export(f"out/{to}")
    place = str(tmp_path / "out" / to.rstrip("/"))

    class InSteps(FaultyStorage):
        def exchange(self, first: str, second: str) -> bool:
            return super().exchange(first, second) if steps == 1 else False

    def whole() -> dict[str, object]:
        return {name: what for name, what in world.all().items() if f"{name}/".startswith(f"out/{to.rstrip('/')}/")}

    old = whole()
    world.seen.export(f"{tmp_path}/out/{to}", ["id"], overwrite=True)
    new = whole()
    assert old != new
    for number in range(1, 99):
        world.seen.export(f"{tmp_path}/out/{to}", overwrite=True)
        faulty = InSteps(resolve(place)[0], number, Fault.REFUSED)
        with suppress(StorageError):
            export(world.seen, ExportOptions(to=f"{tmp_path}/out/{to}", overwrite=True), Chosen(("id",)), faulty, place)
        assert whole() in (old, new)
        world.seen.export(f"{tmp_path}/out/{to}", overwrite=True)
        assert whole() == old
        if not faulty.hit:
            return
    pytest.fail("never whole")


IN_STORES = {
    "dot files": ("lake/.bashrc",),
    "documents": ("lake/tax.csv", "lake/_SUCCESS"),
    "Spark": (f"lake/{SPARK}", "lake/_SUCCESS"),
    "old": ("lake/part-00000.parquet", "lake/_SUCCESS"),
    "ACID": ("lake/delta_0000001_0000001_0000/bucket_00000",),
    "a table below": ("lake/orders/base_0000001/000000_0.gz",),
    "inside one": ("base_0000001/bucket_00000",),
    "moved away": (".lake.acidctl-old/precious.txt",),
    "another list": ("lake/_acidctl_export.json", "lake/part-00000.parquet"),
}


@pytest.mark.parametrize("case", IN_STORES)
def test_nothing_else_goes_on_object_stores(case: str, tmp_path: Path) -> None:
    """Names without directories are asked the same."""
    memory = fsspec.filesystem("memory")
    place = f"/bucket{os.urandom(4).hex()}/w"
    for name in IN_STORES[case]:
        memory.pipe_file(f"{place}/{name}", b"mine")
    before = sorted(memory.find(place))
    with pytest.raises((UsageError, ExistsError)):
        World(tmp_path).seen.export(f"memory:/{place}/lake/", overwrite=True)
    assert sorted(memory.find(place)) == before


def test_a_table_in_a_store_is_not_above_nor_below_its_export(tmp_path: Path) -> None:
    """By the names of objects; dots are names there and none of a path."""
    memory = fsspec.filesystem("memory")
    place = f"/bucket{os.urandom(4).hex()}/w/db"
    for path in (p for p in PARTITIONED.rglob("*") if p.is_file()):
        memory.pipe_file(f"{place}/orders/{path.relative_to(PARTITIONED)}", path.read_bytes())
    before = sorted(memory.find(place))
    seen = acidctl.open_table(f"memory:/{place}/orders").snapshot()
    for to in ("", "/orders", "/orders/x", "/other/../orders/x", "/orders/_x"):
        for how in (dict[str, Any](), AGREED):
            with pytest.raises(AcidctlError):
                seen.export(f"memory:/{place}{to}/", overwrite=True, **how)
    assert sorted(memory.find(place)) == before
    for _ in range(2):
        seen.export(f"memory:/{place}/lake/", overwrite=True, partitioned=True)
    assert sorted(name for name in memory.find(place) if "/lake/" not in name) == before
