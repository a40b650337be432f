"""What may be wrong is never compacted away: what makes `snapshot` exit with 3 makes `compact` refuse the partition."""

from __future__ import annotations

import json
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from acidctl.errors import ExitCode
from acidctl.findings import CATALOGUE, DoubtError, Finding, Level, acceptance
from tests import ROOT
from tests.cli.runner import Result, acidctl
from tests.support.orc_files import EVENT, by_pyorc

FIXTURES = ROOT / "fixtures/tables"
DEMO = FIXTURES / "hive4/demo_orders/03-demo/table"
V1 = FIXTURES / "hive2/v1_bucketed/06-changed-base/table"
ROWS = "row:struct<id:int,customer:string,amount:decimal(8,2),status:string>"

Damage = Callable[[Path], None]


def half_of_minor(table: Path) -> None:
    shutil.rmtree(table / "delta_0000001_0000004_v0000009")


def other_half_of_minor(table: Path) -> None:
    shutil.rmtree(table / "delete_delta_0000001_0000004_v0000009")


def nested(table: Path) -> None:
    shutil.copytree(
        table / "delta_0000006_0000006_0000", table / "delta_0000005_0000005_0000/delta_0000006_0000006_0000"
    )


def overlap(table: Path) -> None:
    (table / "delta_0000005_0000005_0000").rename(table / "delta_0000004_0000006")


def crossing(table: Path) -> None:
    first, second, *_ = sorted(table.glob("delta_*"))
    second.rename(table / "delta_0000001_0000002")
    first.rename(table / "delta_0000002_0000003")


def unpadded_copy(table: Path) -> None:
    shutil.copytree(table / "delta_0000005_0000005_0000", table / "delta_5_5_0000")


def unknown_directory(table: Path) -> None:
    (table / "delta_0000005_0000005_0000").rename(table / "delta_0000005_")


def unknown_file(table: Path) -> None:
    place = table / "delta_0000005_0000005_0000"
    (place / "bucket_00001_0").rename(place / "xyz")


def second_attempt(table: Path) -> None:
    place = table / "delta_0000005_0000005_0000"
    shutil.copy(place / "bucket_00001_0", place / "bucket_00001_1")


def renamed_bucket(table: Path) -> None:
    place = table / "delta_0000005_0000005_0000"
    (place / "bucket_00001_0").rename(place / "bucket_00000_0")


def copied_bucket(table: Path) -> None:
    place = table / "delta_0000005_0000005_0000"
    shutil.copy(place / "bucket_00001_0", place / "bucket_00005_0")


def copy_of_directory(table: Path) -> None:
    shutil.copytree(table / "delta_0000005_0000005_0000", table / "delta_0000009_0000009_0000")


def moved_directory(table: Path) -> None:
    (table / "delta_0000005_0000005_0000").rename(table / "delta_0000009_0000009_0000")


def copy_of_statement(table: Path) -> None:
    shutil.copytree(table / "delta_0000005_0000005_0000", table / "delta_0000005_0000005_0001")


def disorder(table: Path) -> None:
    place = table / "delta_0000009_0000009_0000/bucket_00000_0"
    place.parent.mkdir()
    rows = [(0, 9, 536870912, row, 9, (row, "x", None, "y")) for row in (2, 1, 3)]
    place.write_bytes(by_pyorc(f"struct<{EVENT},{ROWS}>", rows))


def base_file_renamed(table: Path) -> None:
    place = table / "base_0000107"
    (place / "bucket_00000").rename(place / "xyz")


def base_file_copied(table: Path) -> None:
    place = table / "base_0000107"
    shutil.copy(place / "bucket_00000", place / "bucket_00004")


# Table, damage, and the code of what is found.
CASES: tuple[tuple[Path, Damage, str], ...] = (
    (DEMO, half_of_minor, "half_of_minor"),
    (DEMO, other_half_of_minor, "half_of_minor"),
    (DEMO, nested, "nested_directory"),
    (DEMO, overlap, "overlapping_ranges"),
    (FIXTURES / "hive4/unbucketed/01-inserted/table", crossing, "overlapping_ranges"),
    (DEMO, unpadded_copy, "same_range"),
    (DEMO, unknown_directory, "unknown_name"),
    (DEMO, unknown_file, "unknown_name"),
    (DEMO, second_attempt, "bucket_twice"),
    (DEMO, renamed_bucket, "foreign_bucket"),
    (DEMO, copied_bucket, "foreign_bucket"),
    (DEMO, copy_of_directory, "foreign_write_id"),
    (DEMO, moved_directory, "foreign_write_id"),
    (DEMO, copy_of_statement, "duplicate_row_id"),
    (DEMO, disorder, "unsorted_rows"),
    (V1, base_file_renamed, "foreign_bucket"),
    (V1, base_file_copied, "foreign_bucket"),
)
NAMES = [damage.__name__ for _, damage, _ in CASES]


def damaged(tmp_path: Path, case: tuple[Path, Damage, str]) -> Path:
    """A copy of the table with that damage."""
    table: Path = shutil.copytree(case[0], tmp_path / "t")
    case[1](table)
    return table


def run(command: str, table: Path, *more: str) -> Result:
    """A command on a table of which everything is committed and nobody else uses it."""
    view = ("--table-type", "full", "-o", "json", *more)
    if command == "compact":
        return acidctl("compact", "major", str(table), "--assume-committed", "--assume-exclusive", *view)
    return acidctl(command, str(table), *view)


def below(table: Path) -> dict[str, bytes]:
    """All files."""
    return {str(path.relative_to(table)): path.read_bytes() for path in table.rglob("*") if path.is_file()}


@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_what_snapshot_doubts_is_refused(case: tuple[Path, Damage, str], tmp_path: Path) -> None:
    """By the plan or by the run, with the same code and sentence; nothing is published."""
    table, code = damaged(tmp_path, case), case[2]
    level = CATALOGUE[code].level
    before = below(table)
    seen = run("snapshot", table, "--digest")
    assert seen.code == ExitCode.FINDINGS, seen
    sentences = [one["sentence"] for one in seen.json()["findings"] if one["code"] == code]
    assert sentences
    planned = run("compact", table, "--dry-run")
    if level is Level.KEYS:
        assert planned.code == ExitCode.DONE
        assert code in planned.json()["not_looked_at"]
        assert "keys were not read" in planned.stderr
    else:
        (part,) = planned.json()["partitions"]
        assert (planned.code, part["action"], part["reason_code"]) == (ExitCode.FINDINGS, "refused", code), part
        assert part["reason"] == sentences[0]
        assert f"--accept-doubts {code}" in part["hint"]
    done = run("compact", table)
    (part,) = done.json()["partitions"]
    assert (done.code, part["outcome"], part["reason_code"]) == (ExitCode.FINDINGS, "refused", code), part
    assert part["reason"] == sentences[0]
    assert part["hint"]
    assert below(table) == before


@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_ls_says_what_listing_and_tails_tell(case: tuple[Path, Damage, str], tmp_path: Path) -> None:
    """Names at once, tails with --rows or --long; half of a compaction at once too."""
    table, code = damaged(tmp_path, case), case[2]
    level = CATALOGUE[code].level
    for more, told in (
        ((), level is Level.NAMES or code == "half_of_minor"),
        (("--rows",), level is not Level.KEYS),
        (("--long",), level is not Level.KEYS),
    ):
        answer = run("ls", table, *more)
        found = [one["code"] for one in answer.json()["findings"]]
        assert (code in found) is told, (more, found)
        assert len(answer.json()["doubts"]) == len(found)
        if told:
            assert answer.code == ExitCode.FINDINGS
            assert all(sentence in answer.stderr for sentence in answer.json()["doubts"])


@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_doubts_are_accepted_by_their_codes(case: tuple[Path, Damage, str], tmp_path: Path) -> None:
    """For that run: the rows are those that a reader sees. What only keys tell cannot be accepted."""
    table, code = damaged(tmp_path, case), case[2]
    seen = run("snapshot", table, "--digest").json()
    # One damage may be seen in several ways.
    seen_too = {one["code"] for one in seen["findings"] if CATALOGUE[one["code"]].level is not Level.KEYS}
    answer = run("compact", table, "--accept-doubts", ",".join(sorted({code, *seen_too})))
    if CATALOGUE[code].level is Level.KEYS:
        assert answer.code == ExitCode.USAGE
        assert "cannot accept" in answer.error()["message"]
        return
    (part,) = answer.json()["partitions"]
    if part["outcome"] == "refused":
        # Rows that are twice on disk, and what Hive 1 and 2 read by names, no compaction can write.
        assert part["reason_code"] in ("duplicate_row_id", "v1_buckets"), part
        return
    assert (answer.code, part["outcome"]) == (ExitCode.DONE, "compacted"), part
    after = run("snapshot", table, "--digest").json()
    assert (after["rows"], after["digest"]) == (seen["rows"], seen["digest"])


def test_unknown_codes_are_named(tmp_path: Path) -> None:
    """A misspelt code accepts nothing in silence."""
    answer = run("compact", DEMO, "--accept-doubts", "half_of_minor,half", "--dry-run")
    assert answer.code == ExitCode.USAGE
    assert "names half," in answer.error()["message"]
    assert "foreign_bucket" in answer.error()["hint"]


def test_doubts_are_accepted_on_the_command_line_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither by a variable nor by a file."""
    table = damaged(tmp_path, CASES[0])
    for name in ("ACIDCTL_ACCEPT_DOUBTS", "ACIDCTL_COMPACT_ACCEPT_DOUBTS"):
        monkeypatch.setenv(name, "half_of_minor")
    assert run("compact", table, "--dry-run").code == ExitCode.FINDINGS
    config = tmp_path / "acidctl.toml"
    config.write_text('[options]\naccept_doubts = "half_of_minor"\n')
    assert run("compact", table, "--dry-run", "--config", str(config)).code != ExitCode.DONE


def test_a_saved_plan_needs_them_accepted_again(tmp_path: Path) -> None:
    """What it was made with does not count, and what came since is seen."""
    table, plan = damaged(tmp_path, CASES[0]), tmp_path / "plan.json"
    saved = run("compact", table, "--accept-doubts", "half_of_minor", "--plan-out", str(plan))
    assert saved.code == ExitCode.DONE
    assert [one["code"] for one in json.loads(plan.read_text())["partitions"][0]["findings"]] == ["half_of_minor"] * 3
    asked = ("compact", "major", str(table), "--plan", str(plan), "-o", "json", "--assume-exclusive")
    (part,) = acidctl(*asked).json()["partitions"]
    assert (part["outcome"], part["reason_code"]) == ("refused", "half_of_minor")
    (table / "delta_0000005_").mkdir()
    (table / "delta_0000005_/bucket_00000").write_bytes(b"x")
    answer = acidctl(*asked, "--accept-doubts", "half_of_minor")
    (part,) = answer.json()["partitions"]
    assert (part["outcome"], part["reason_code"]) == ("refused", "unknown_name")
    shutil.rmtree(table / "delta_0000005_")
    assert acidctl(*asked, "--accept-doubts", "half_of_minor").json()["partitions"][0]["outcome"] == "compacted"


def test_a_saved_plan_by_old_lists_is_refused(tmp_path: Path) -> None:
    """Versions that did not ask have made plans too: the output that these lists do not show would be hidden."""
    lists = ("--validtxns", "default.orders:9:8:8:6", "--validtxns", "21:17:17:15", "--table", "orders")
    whole, table = (shutil.copytree(DEMO, tmp_path / name) for name in ("whole", "table"))
    assert acidctl("compact", "major", str(whole), *lists).code == ExitCode.DONE
    for path in list(table.glob("*delta_000000[1-4]_*")):
        shutil.rmtree(path)
    plan = str(tmp_path / "plan.json")
    assert acidctl("compact", "major", str(table), *lists, "--plan-out", plan).code == ExitCode.DONE
    shutil.copytree(whole / "base_0000007", table / "base_0000007_v0000030")
    answer = acidctl("compact", "major", str(table), "--plan", plan, "--table", "orders", "-o", "json")
    (part,) = answer.json()["partitions"]
    assert (answer.code, part["outcome"], part["reason_code"]) == (ExitCode.FINDINGS, "refused", "lists_too_old")
    assert not (table / "base_0000007").exists()


def test_damage_is_listed_where_lists_may_be_old(tmp_path: Path) -> None:
    """One bad file does not hide the others, also where files are asked how old the lists are."""
    lists = ("--validtxns", "default.orders:9:8:8:6", "--validtxns", "21:17:17:15", "--table", "orders")
    whole, table = (shutil.copytree(DEMO, tmp_path / name) for name in ("whole", "table"))
    assert acidctl("compact", "major", str(whole), *lists).code == ExitCode.DONE
    shutil.copytree(whole / "base_0000007", table / "base_0000007_v0000030")
    for path in table.glob("delta_0000005_0000005_0000/bucket_*"):
        path.write_bytes(path.read_bytes()[:-9])
    answer = acidctl("ls", str(table), "--rows", *lists, "-o", "json")
    assert answer.code == ExitCode.DAMAGED, answer
    assert [one["path"].split("/")[0] for one in answer.json()["damaged"]] == ["delta_0000005_0000005_0000"]


def test_text_is_listed_where_lists_may_be_old(tmp_path: Path) -> None:
    """Without its DDL nothing can be compared, and names are shown all the same."""
    table = shutil.copytree(FIXTURES / "hive4/insert_only_text/03-added/table", tmp_path / "t")
    shutil.copytree(table / "delta_0000002_0000002_0000", table / "delta_0000002_0000003_v0000030")
    lists = ("--validtxns", "default.t:3:9223372036854775807::", "--validtxns", "21:9223372036854775807::")
    answer = acidctl("ls", str(table), "--rows", *lists, "--table-type", "insert-only", "-o", "json")
    assert (answer.code, len(answer.json()["entries"])) == (ExitCode.DONE, 4)


@pytest.mark.parametrize("code", ["half_published", "foreign_journal"])
def test_what_is_half_published_cannot_be_accepted(code: str) -> None:
    """A run has to complete or undo it first, and would end there; so no hint offers it."""
    answer = run("compact", DEMO, "--accept-doubts", code, "--dry-run")
    assert answer.code == ExitCode.USAGE
    assert f"cannot accept {code}" in answer.error()["message"]
    assert acceptance([Finding(code, "one."), Finding("unknown_name", "another.")]) == ""


def test_one_doubtful_partition_does_not_stop_the_others(tmp_path: Path) -> None:
    """It is refused, and they are compacted; codes of all of its doubts are named."""
    for name in ("a", "b"):
        shutil.copytree(DEMO, tmp_path / f"t/p={name}")
    half_of_minor(tmp_path / "t/p=a")
    renamed_bucket(tmp_path / "t/p=a")
    answer = run("compact", tmp_path / "t")
    one, other = answer.json()["partitions"]
    assert (answer.code, one["outcome"], other["outcome"]) == (ExitCode.FINDINGS, "refused", "compacted")
    assert "--accept-doubts half_of_minor,foreign_bucket" in one["hint"]
    assert any("is called bucket 0" in note for note in one["notes"])


def test_data_beside_partitions_is_a_doubt(tmp_path: Path) -> None:
    """Nobody reads it; the partitions themselves are compacted, and what lies beside them is kept."""
    shutil.copytree(DEMO, tmp_path / "t/p=a")
    shutil.copytree(DEMO / "delta_0000001_0000001_0000", tmp_path / "t/delta_0000001_0000001_0000")
    for answer in (run("ls", tmp_path / "t"), run("snapshot", tmp_path / "t", "--files")):
        assert answer.code == ExitCode.FINDINGS
        assert [one["code"] for one in answer.json()["findings"]] == ["beside_partitions"]
    assert [part["outcome"] for part in run("compact", tmp_path / "t").json()["partitions"]] == ["compacted"]
    assert (tmp_path / "t/delta_0000001_0000001_0000").is_dir()


def test_a_dry_run_names_what_it_did_not_look_at() -> None:
    """In words and as codes, unless there is nothing that the run would look at."""
    planned = run("compact", DEMO, "--dry-run")
    assert planned.json()["not_looked_at"] == [k.code for k in CATALOGUE.values() if k.level is Level.KEYS]
    assert "keys were not read: duplicate_row_id and unsorted_rows can only be found by the run" in planned.stderr
    idle = run("compact", FIXTURES / "hive4/bucketed/01-inserted/table", "--dry-run", "--max-bytes", "1")
    assert idle.json()["not_looked_at"] == []


def test_every_code_is_made_and_tested() -> None:
    """By some module, and by name in some test; the table in the documents is made of the catalogue."""
    package = [path.read_text() for path in (ROOT / "acidctl").rglob("*.py") if path.name != "findings.py"]
    tests = [path.read_text() for path in (ROOT / "tests").rglob("test_*.py")]
    documented = (ROOT / "docs/concepts.md").read_text()
    for code, kind in CATALOGUE.items():
        assert any(f'"{code}"' in text for text in package), code
        assert any(f'"{code}"' in text for text in tests), code
        assert f"| `{code}` |" in documented, code
        for sentence in (kind.title, kind.remedy):
            assert sentence[0].isupper(), code
            assert sentence.endswith("."), code


V1_FILES = sorted(
    path.relative_to(V1.parents[1])
    for path in V1.parents[1].glob("0[1-7]-*/table/*/bucket_*")
    if path.parent.name.startswith("base") or "_0000106" in path.parent.name or "_0000109" in path.parent.name
)


@pytest.mark.parametrize("name", ["xyz", "bucket_00010"])
@pytest.mark.parametrize("file", V1_FILES, ids=str)
def test_a_renamed_file_of_hive_2_is_refused(file: Path, name: str, tmp_path: Path) -> None:
    """With statistics and without, in bases and deltas: never compacted as far as it is read."""
    step = V1.parents[1] / file.parts[0]
    table = shutil.copytree(step / "table", tmp_path / "t")
    place = tmp_path / "t" / Path(*file.parts[2:])
    place.rename(place.parent / name)
    seen = run("snapshot", table, "--digest")
    before = below(table)
    done = run("compact", table)
    (part,) = done.json()["partitions"]
    codes = [one["code"] for one in seen.json()["findings"]]
    live = {e["name"] for e in run("ls", table).json()["entries"] if e["state"] == "live"}
    assert bool(codes) == (place.parent.name in live)
    if codes and part["outcome"] != "nothing_to_do":
        assert (done.code, part["outcome"], part["reason_code"]) == (ExitCode.FINDINGS, "refused", codes[0]), part
        assert below(table) == before


def test_a_delta_without_data_is_noted(tmp_path: Path) -> None:
    """Hive leaves such a directory where a statement has no rows, so it is no doubt."""
    table = shutil.copytree(DEMO, tmp_path / "t")
    (table / "delta_0000005_0000005_0000/bucket_00001_0").unlink()
    note = "delta_0000005_0000005_0000 has a marker and no data file: the write had no rows, or a file is gone"
    for answer in (run("ls", table), run("snapshot", table, "--count"), run("compact", table, "--dry-run")):
        assert answer.code == ExitCode.DONE
        assert note in answer.stdout + answer.stderr


@pytest.mark.parametrize("code", ["duplicate_row_id", "unsorted_rows"])
def test_what_a_task_doubts_gets_to_the_run_from_any_process(code: str) -> None:
    """Engines send errors as pickles."""
    error = pickle.loads(pickle.dumps(DoubtError(Finding(code, "a: b.", "a"))))
    assert (type(error), error.code, error.message, error.path) == (DoubtError, code, "a: b.", "a")
    assert error.exit_code == ExitCode.FINDINGS
    assert CATALOGUE[code].remedy in error.hint


def test_deletes_of_rows_that_are_not_there_are_counted(tmp_path: Path) -> None:
    """Of a sound table there are none; where a file of inserts is gone, its deletes are what is left of its rows."""
    table = shutil.copytree(DEMO, tmp_path / "sound")
    (part,) = run("compact", table).json()["partitions"]
    assert (part["deletes_unmatched"], part["deletes_applied"] > 0) == (0, True)
    table = shutil.copytree(DEMO, tmp_path / "t")
    applied = part["deletes_applied"]
    (table / "delta_0000005_0000005_0000/bucket_00001_0").unlink()
    (part,) = run("compact", table).json()["partitions"]
    assert (part["outcome"], part["deletes_unmatched"] > 0) == ("compacted", True)
    assert part["deletes_applied"] + part["deletes_unmatched"] == applied
    assert any("that no input holds" in note for note in part["notes"])


# Of the demo table write 8 is open: readers see what is above it, and a compactor does not.
OPEN_BELOW = (
    *("--validtxns", "default.orders:9:8:8:6", "--validtxns", "21:17:17:15"),
    *("--table", "default.orders", "--table-type", "full"),
)


def above_copied(table: Path) -> None:
    shutil.copytree(table / "delta_0000005_0000005_0000", table / "delta_0000009_0000009_0001")


def above_moved(table: Path) -> None:
    (table / "delta_0000005_0000005_0000").rename(table / "delta_0000009_0000009_0001")


def above_twice(table: Path) -> None:
    place = table / "delete_delta_0000009_0000009_0000"
    shutil.copy(place / "bucket_00001_0", place / "bucket_00001_1")


@pytest.mark.parametrize(
    ("damage", "code"),
    [(above_copied, "foreign_write_id"), (above_moved, "foreign_write_id"), (above_twice, "bucket_twice")],
)
def test_doubts_above_an_open_write_count(damage: Damage, code: str, tmp_path: Path) -> None:
    """Deletes below it may be of rows that lie there by mistake: a base applies them to nothing, and they come back."""
    table: Path = shutil.copytree(DEMO, tmp_path / "t")
    saved = tmp_path / "plan.json"
    major = ("compact", "major", str(table), "-o", "json", "--assume-exclusive")
    assert acidctl(*major, *OPEN_BELOW, "--plan-out", str(saved)).code == ExitCode.DONE
    damage(table)
    before = below(table)
    assert acidctl("snapshot", str(table), *OPEN_BELOW, "--count").code == ExitCode.FINDINGS
    for more in (("--dry-run",), ()):
        answer = acidctl(*major, *OPEN_BELOW, *more)
        (part,) = answer.json()["partitions"]
        assert (answer.code, part["reason_code"]) == (ExitCode.FINDINGS, code), part
    if damage is not above_moved:
        # The inputs of the saved plan are all there.
        answer = acidctl(*major, "--plan", str(saved))
        (part,) = answer.json()["partitions"]
        assert (answer.code, part["outcome"], part["reason_code"]) == (ExitCode.FINDINGS, "refused", code), part
    assert below(table) == before
    accepted = acidctl(*major, *OPEN_BELOW, "--accept-doubts", code)
    assert (accepted.code, accepted.json()["partitions"][0]["outcome"]) == (ExitCode.DONE, "compacted"), accepted
