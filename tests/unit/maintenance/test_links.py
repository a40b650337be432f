"""Symbolic links in and around a table: nothing outside of it is created, changed or removed, whatever is asked."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import socket
import stat
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from acidctl.errors import StorageError
from acidctl.maintenance.lock import LOCK_TYPE, new_owner, to_bytes
from acidctl.maintenance.work_dir import WORK_TYPE, remove_work
from acidctl.storage.local import LocalStorage
from acidctl.storage.locations import gather
from tests.cli.runner import Result, acidctl
from tests.support.cleaning_cases import FIXTURES, age

DEMO = FIXTURES / "hive4/demo_orders/03-demo/table"
PARTS = FIXTURES / "hive4/insert_only_partitioned/01-converted/table"
ID = "a" * 12
WORK = f"_acidctl_work_{ID}"
LISTS = ("--validtxns", "default.orders:9:8:8:6", "--validtxns", "21:17:17:15", "--table", "default.orders")
PARTED = ("--table-type", "insert-only")
PARTED_LISTS = (*PARTED, "--as-of", "9", "--assume-exclusive", "--validtxns", "99:9223372036854775807::")
CLEAN = ("--unsafe-no-retention", "--leftovers")


def _dead(kind: str) -> bytes:
    """What a run wrote whose process has ended."""
    values = json.loads(to_bytes(new_owner(1e9), kind, {"kind": "major", "outputs": []}))
    return json.dumps({**values, "id": ID, "pid": 2**22 - 1, "pid_started": "1"}).encode()


def _victim(outside: Path) -> Path:
    """A directory that looks like the work of a dead run, and is somebody else's."""
    victim = outside / "victim"
    for name in ("attempts/precious", "out/base_0000009/precious", "removed/precious", "data/precious"):
        (victim / name).parent.mkdir(parents=True, exist_ok=True)
        (victim / name).write_bytes(b"precious")
    (victim / "owner.json").write_bytes(_dead(WORK_TYPE))
    (victim / "lock").write_bytes(_dead(LOCK_TYPE))
    (victim / "journal.json").write_bytes(b"{}")
    return victim


def _work(root: Path) -> Path:
    """A work directory that a dead run has left."""
    work = root / WORK
    work.mkdir()
    (work / "owner.json").write_bytes(_dead(WORK_TYPE))
    return work


def _moved(path: Path, outside: Path) -> None:
    """Put a link in the place of something, which goes outside."""
    target = outside / path.name
    path.rename(target)
    path.symlink_to(target)


def _first(root: Path, pattern: str) -> Path:
    return sorted(root.glob(pattern))[0]


def _box(root: Path) -> Path:
    return _first(root, "_acidctl_quarantine/*")


def _boxed(name: str) -> Callable[[Path, Path], None]:
    """A layout of the quarantine; where none was made, of an empty one."""

    def lay(root: Path, outside: Path) -> None:
        if not (root / "_acidctl_quarantine").is_dir():
            (root / "_acidctl_quarantine" / ID / "data").mkdir(parents=True)
            (root / "_acidctl_quarantine" / ID / "manifest.json").write_text("{}")
        place = {"quarantine": root / "_acidctl_quarantine", "box": _box(root)}.get(name, _box(root) / name)
        _moved(place, outside)

    return lay


def _in_work(name: str) -> Callable[[Path, Path], None]:
    return lambda root, outside: (_work(root) / name).symlink_to(_victim(outside) / name)


def _owner_elsewhere(root: Path, outside: Path) -> None:
    (root / WORK).mkdir()
    (root / WORK / "attempts").mkdir()
    (root / WORK / "owner.json").symlink_to(_victim(outside) / "owner.json")


LAYOUTS: dict[str, Callable[[Path, Path], None]] = {
    "work directory, to outside": lambda root, outside: (root / WORK).symlink_to(_victim(outside)),
    "work directory, to inside": lambda root, _: (root / WORK).symlink_to(_first(root, "delta_*7*").name),
    "work directory, a loop": lambda root, _: (root / WORK).symlink_to("."),
    "work directory, to nothing": lambda root, _: (root / WORK).symlink_to("nothing"),
    "attempts": _in_work("attempts"),
    "out": _in_work("out"),
    "removed": _in_work("removed"),
    "journal": _in_work("journal.json"),
    "owner file": _owner_elsewhere,
    "lock, to outside": lambda root, outside: (root / "_acidctl_lock").symlink_to(_victim(outside) / "lock"),
    "lock, to nothing": lambda root, outside: (root / "_acidctl_lock").symlink_to(outside / "new"),
    "lock that was taken over": lambda root, outside: (root / f"_acidctl_lock_{ID}").symlink_to(
        _victim(outside) / "lock"
    ),
    "quarantine, to outside": _boxed("quarantine"),
    "quarantine, to inside": lambda root, _: (
        None
        if (root / "_acidctl_quarantine").exists()
        else (root / "_acidctl_quarantine").symlink_to(_first(root, "delta_*7*").name)
    ),
    "box": _boxed("box"),
    "manifest of a box": _boxed("manifest.json"),
    "data of a box": _boxed("data"),
    "delta directory": lambda root, outside: _moved(_first(root, "delta_*7*"), outside),
    "base directory": lambda root, outside: _moved(_first(root, "base_*"), outside),
    "obsolete delta directory": lambda root, outside: _moved(_first(root, "*delta_*"), outside),
    "data file": lambda root, outside: _moved(_first(root, "delta_*7*/bucket_*"), outside),
    "marker": lambda root, outside: _moved(_first(root, "delta_*7*/_orc_acid_version"), outside),
    "mark of a base": lambda root, outside: _moved(_first(root, "base_*/_*"), outside),
    "visible loop": lambda root, _: (root / "delta_0000020_0000020").symlink_to("."),
    "another hidden name": lambda root, outside: (root / "_other").symlink_to(_victim(outside)),
    "partition, to outside": lambda root, outside: _moved(_first(root, "*=*"), outside),
    "partition, to inside": lambda root, _: (root / "ds=9").symlink_to(_first(root, "*=*").name),
    "partition, a loop": lambda root, _: (root / "ds=9").symlink_to("."),
    "table": lambda root, outside: None,
}
CHANGES = {
    "compact": ("compact", "major"),
    "delete": ("clean", *CLEAN, "--delete", "--yes"),
    "quarantine": ("clean", *CLEAN, "--quarantine"),
    "undo": ("clean", *CLEAN, "--undo"),
}


def _tree(root: Path) -> dict[str, object]:
    """Everything below: kind, mode, time, and content or target."""
    found: dict[str, object] = {}
    for path in (root, *root.rglob("*")):
        state = path.lstat()
        inside: object = None
        if stat.S_ISLNK(state.st_mode):
            inside = os.readlink(path)
        elif stat.S_ISREG(state.st_mode):
            inside = hashlib.sha256(path.read_bytes()).hexdigest()
        found[str(path.relative_to(root))] = (state.st_mode, state.st_uid, state.st_mtime_ns, inside)
    return found


def _run(layout: str, change: str, root: Path) -> Result:
    command, *more = CHANGES[change]
    kind = [more.pop(0)] if command == "compact" else []
    lists: tuple[str, ...] = PARTED_LISTS if layout.startswith("partition") else LISTS
    if command == "compact" and lists is PARTED_LISTS:
        lists = (*PARTED, "--assume-committed")
    return acidctl(command, *kind, str(root), *lists, *more)


@pytest.mark.slow
@pytest.mark.parametrize("change", CHANGES)
def test_nothing_outside_of_a_table_is_touched(change: str, tmp_path: Path) -> None:
    """In each layout the command answers, or fails with one sentence, and the links are as they were."""
    compacted = tmp_path / "compacted"
    shutil.copytree(DEMO, compacted)
    assert acidctl("compact", "major", str(compacted), *LISTS).code == 0
    for number, (layout, lay) in enumerate(LAYOUTS.items()):
        place = tmp_path / str(number)
        outside, root = place / "outside", place / "tables" / "orders"
        outside.mkdir(parents=True)
        source = PARTS if layout.startswith("partition") else compacted if "base" in layout else DEMO
        shutil.copytree(source, root)
        age(root)
        if change == "undo":
            assert _run(layout, "quarantine", root).code == 0, layout
        lay(root, outside)
        named = root
        if layout == "table":
            named = place / "link"
            named.symlink_to(root)
        before, links = _tree(outside), {p: os.readlink(p) for p in root.rglob("*") if p.is_symlink()}
        result = _run(layout, change, named)
        said = f"{layout}: {result}"
        assert _tree(outside) == before, said
        assert {p: os.readlink(p) for p in root.rglob("*") if p.is_symlink()} == links, said
        assert result.code in (0, 3, 13, 14), said
        assert "unexpected" not in result.stderr, said
        errors = [line for line in result.stderr.splitlines() if line.startswith("error:")]
        assert len(set(errors)) <= 1, said
        assert set(os.listdir(place)) <= {"outside", "tables", "link"}, said


def test_what_a_link_means_is_said(tmp_path: Path) -> None:
    """Of a partition: read as Hive reads it, refused by name for changes. Of acidctl's own names: reported, left."""
    root = tmp_path / "t"
    shutil.copytree(PARTS, root)
    part = _first(root, "*=*")
    rows = acidctl("snapshot", str(root), "--count", "-o", "json").json()["rows"]
    _moved(part, tmp_path)
    real = str(tmp_path / part.name)
    (root / part.name / WORK).symlink_to(tmp_path)
    (root / part.name / "_other").symlink_to("nothing")
    counted = acidctl("snapshot", str(root), "--count", "-o", "json")
    assert counted.json()["rows"] == rows
    listed = acidctl("ls", str(root))
    for said in (counted.stderr, listed.stderr):
        assert f"{part.name} is a symbolic link to {real}: it is read, as Hive reads it" in " ".join(said.split())
        assert f"{WORK} is a symbolic link, which acidctl neither follows nor removes" in " ".join(said.split())
    assert "_other" in listed.stdout
    plan = acidctl("compact", "major", str(root), *PARTED, "--assume-committed", "-n", "-o", "json").json()
    refused = {p["partition"]: p for p in plan["partitions"]}[part.name]
    assert (refused["action"], refused["reason_code"]) == ("refused", "symbolic_link")
    assert f"Name the directory itself: {real}" in refused["reason"]
    done = acidctl("compact", "major", str(root), *PARTED, "--assume-committed", "-o", "json")
    assert {p["outcome"] for p in done.json()["partitions"] if p["partition"] != part.name} == {"nothing_to_do"}
    assert (done.code, sorted(os.listdir(real))) == (3, sorted([*os.listdir(PARTS / part.name), WORK, "_other"]))
    cleaned = acidctl("clean", str(root), *PARTED_LISTS, *CLEAN, "-o", "json").json()
    (guard,) = [g for g in cleaned["guards"] if not g["holds"]]
    assert (guard["guard"], guard["partition"]) == ("own_files", part.name)
    # By its own name it is a table like any other.
    assert acidctl("compact", "major", real, *PARTED, "--assume-committed").code == 0
    assert acidctl("snapshot", str(root), "--count", "-o", "json").json()["rows"] == rows


@pytest.mark.parametrize("name", ["base_0000005", "base_0000005/bucket_00000"])
def test_what_another_partition_reads_by_a_link_stays(name: str, tmp_path: Path) -> None:
    """The obsolete base of one partition stands in for that of another: moved away, the whole table would fail."""
    root = tmp_path / "orders"
    for part in ("ds=1", "ds=2"):
        shutil.copytree(FIXTURES / "hive3/unbucketed/04-updated-base/table", root / part)
    assert acidctl("compact", "major", str(root), "--assume-committed", "--partition", "ds=1").code == 0
    link = root / "ds=2" / name
    shutil.rmtree(link) if link.is_dir() else link.unlink()
    link.symlink_to(os.path.relpath(root / "ds=1" / name, link.parent))
    age(root)
    before = _tree(root)
    lists = ("--validtxns", "default.orders:9:9223372036854775807::", "--validtxns", "99:9223372036854775807::")
    for action in (["--quarantine"], ["--delete", "--yes"]):
        result = acidctl("clean", str(root), *lists, *CLEAN, *action, "-o", "json")
        failed = {guard["partition"]: guard["why"] for guard in result.json()["guards"] if not guard["holds"]}
        assert result.code == 3
        assert f"the symbolic link {link} leads in here" in failed["ds=1"]
        assert acidctl("ls", str(root)).code == 0
    assert _tree(root) == before


def test_places_are_judged_by_what_they_are(tmp_path: Path) -> None:
    """A link that leads into the table leads into the table, whatever it is called, and so does a relative path."""
    root, link = tmp_path / "orders", tmp_path / "link"
    shutil.copytree(DEMO, root)
    (root / "seen").mkdir()
    link.symlink_to(root / "seen")
    before = {name for name in _tree(root) if not name.endswith("seen")}
    for options in (
        ("clean", str(root), *LISTS, *CLEAN, "--quarantine", str(link)),
        ("clean", str(root), *LISTS, *CLEAN, "--quarantine", str(link / "box")),
        ("compact", "major", str(root), *LISTS, "--run-log", str(link / "log")),
        ("compact", "major", str(root), *LISTS, "--plan-out", str(link / "plan")),
        ("snapshot", str(root), "--to", str(link / "rows.jsonl")),
    ):
        result = acidctl(*options)
        assert result.code == 2, options
        assert "lies inside the table, where readers would" in result.stderr
    assert {name for name in _tree(root) if not name.endswith("seen")} == before
    # The other way round: a link inside the table to what lies outside.
    (root / "_aside").symlink_to(tmp_path)
    for undo in ((), ("--undo",)):
        result = acidctl("clean", str(root), *LISTS, *CLEAN, *undo, "--quarantine", str(root / "_aside" / "box"))
        assert (result.code, "leads through a symbolic link inside the table" in result.stderr) == (2, True)
    assert sorted(os.listdir(tmp_path)) == ["link", "orders"]


def _changes(storage: LocalStorage, below: str, source: str, target: str) -> list[Callable[[], object]]:
    """Every verb that changes something, in a directory that is a link."""
    return [
        lambda: storage.create_exclusive(f"{below}/new", b"1"),
        lambda: storage.create(f"{below}/new").close(),
        lambda: storage.mkdir(f"{below}/new"),
        lambda: storage.inherit(f"{below}/attempts", source),
        lambda: storage.remove_tree(f"{below}/attempts"),
        lambda: storage.remove_tree(below),
        lambda: storage.remove_file(f"{below}/attempts/precious"),
        lambda: storage.move(f"{below}/attempts", target),
        lambda: storage.rename_dir(f"{below}/attempts", target),
        lambda: storage.move(source, f"{below}/new"),
        lambda: storage.copy_file(source, f"{below}/new"),
    ]


def test_what_becomes_a_link_between_two_steps_is_not_followed(tmp_path: Path) -> None:
    """Each change opens its directory without following links, from the table on, whatever was listed before."""
    root, outside = tmp_path / "t", tmp_path / "outside"
    victim = _victim(outside)
    (root / "ds=1" / WORK / "out").mkdir(parents=True)
    (root / "ds=1" / WORK / "f").write_bytes(b"1")
    before = _tree(outside)
    storage = LocalStorage(str(root))
    for link in (root / "ds=1" / WORK / "out", root / "ds=1" / WORK, root / "ds=1"):
        if link.name == "out":
            link.rmdir()
        else:
            link.rename(tmp_path / f"was {link.name}")
        link.symlink_to(victim)
        below = f"{root}/ds=1/{WORK}/out" if link.name == "out" else str(link)
        changes = _changes(storage, below, f"{victim}/owner.json", f"{root}/attempts")
        if link.name != "ds=1":
            changes.append(partial(remove_work, storage, f"{root}/ds=1/{WORK}"))
        for change in changes:
            with pytest.raises(StorageError, match="is a symbolic link, and acidctl follows none") as caught:
                change()
            assert caught.value.hint
        assert _tree(outside) == before, link


@pytest.mark.parametrize("kind", ["a named pipe", "a socket", "a device"])
def test_what_is_no_file_is_an_error_for_changes(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is never opened, reading says so, and neither compact nor clean touches anything there."""
    root = tmp_path / "orders"
    shutil.copytree(DEMO, root)
    place = _first(root, "delta_*7*") / "bucket_00005"
    if kind == "a named pipe":
        os.mkfifo(place)
    elif kind == "a socket":
        monkeypatch.chdir(place.parent)
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(place.name)
    else:
        place.symlink_to("/dev/zero")
    before = _tree(root)
    for command in ("ls", "snapshot"):
        assert f"{place.parent.name}/{place.name} is {kind} and no regular file" in " ".join(
            acidctl(command, str(root), *LISTS).stderr.split()
        )
    compacted = acidctl("compact", "major", str(root), *LISTS)
    assert (compacted.code, f"is {kind} and no regular file" in compacted.stderr) == (13, True)
    for action in (("--delete", "--yes"), ("--quarantine",), ("--undo",)):
        cleaned = acidctl("clean", str(root), *LISTS, *CLEAN, *action)
        assert cleaned.code in (0, 3), action
    assert _tree(root) == before
    (listing,) = (location.listing for location in gather(LocalStorage(), str(root)))
    assert listing.special == {f"{place.parent.name}/{place.name}": kind}
