"""What a path stands for: a table or a partition, whatever way it is named, and nothing inside of one."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from acidctl import open_table
from acidctl.errors import ExitCode, UsageError
from tests.cli.runner import acidctl
from tests.support.cleaning_cases import age, step, tree

ORDERS = "hive4/demo_orders/03-demo"
PARTED = "hive4/partitioned/01-inserted"
LOADED = "hive4/load_data/01-loaded"
FAR = ":9223372036854775807::"

COMMANDS = [
    ("ls",),
    ("snapshot", "--count"),
    ("compact", "major", "--assume-committed", "--table-type", "full"),
    ("clean", "--as-of", "9", "--assume-exclusive"),
]


def _within(args: tuple[str, ...], path: str) -> tuple[str, ...]:
    return (*args[: 2 if args[0] == "compact" else 1], path, *args[2 if args[0] == "compact" else 1 :])


@pytest.mark.parametrize("args", COMMANDS, ids=lambda args: args[0])
@pytest.mark.parametrize("deeper", ["", "/inside"])
def test_a_delta_is_no_table(
    args: tuple[str, ...], deeper: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its rows would be shown without the deletes, and a base in it would be read by Hive."""
    table = step(LOADED).copy(tmp_path / "t")
    delta = next(path for path in sorted(table.iterdir()) if path.name.startswith("delta_"))
    (delta / "inside").mkdir()
    before = tree(table)
    named = acidctl(*_within(args, f"{delta}{deeper}"))
    monkeypatch.chdir(f"{delta}{deeper}")
    here = acidctl(*_within(args, "."))
    assert (named.code, here.code) == (ExitCode.NOT_ACID, ExitCode.NOT_ACID)
    assert delta.name in named.stderr
    assert f"such as {table};" in here.stderr
    assert tree(table) == before


@pytest.mark.parametrize("name", ["base_tables/t", "w.db/delta_1_1", "delta_x/t"])
def test_other_folders_may_be_called_so(name: str, tmp_path: Path) -> None:
    """Names that no reader takes for a base or delta, and tables in Hive's folder of a database."""
    step(ORDERS).copy(tmp_path / name)
    assert acidctl("snapshot", str(tmp_path / name), "--count").stdout == "10 rows\n"


@pytest.mark.parametrize("inside", ["ds=2026-01-01", "ds=2026-01-01/hr=1"])
def test_a_partition_is_the_same_from_within(inside: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its folders are columns, also where the path does not spell them."""
    table = step(PARTED).copy(tmp_path / "t")
    named = acidctl("snapshot", str(table / inside), "-o", "jsonl", "-q")
    monkeypatch.chdir(table / inside)
    assert '"ds":"2026-01-01"' in named.stdout
    for path in (".", "./", "./.", f"../{Path(inside).name}"):
        assert acidctl("snapshot", path, "-o", "jsonl", "-q") == named, path
    chosen = acidctl("snapshot", ".", "--count", "--partition", "ds=2026-01-01/hr=1", "-o", "json")
    assert chosen.json()["rows"] == 3


def test_the_list_of_another_table_is_refused_from_within(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ids of one table mean nothing in another, wherever the user stands."""
    table = step(ORDERS).copy(tmp_path / "sales.db" / "orders")
    lists = ("--validtxns", f"other.t:20{FAR}", "--validtxns", f"100{FAR}")
    listing = tmp_path / "names.txt"
    listing.write_text("".join(f"{path}\n" for path in tree(table)))
    monkeypatch.chdir(table)
    for args in (
        ("clean", "."),
        ("snapshot", ".", "--count"),
        ("ls", "."),
        ("ls", "--names", str(listing), str(table)),
    ):
        result = acidctl(*args, *lists)
        assert result.code == ExitCode.USAGE, args
        assert "the write-id list is of table other.t" in result.stderr
        stated = acidctl(*args, *lists, "--table", "other.t")
        assert (stated.code, stated.stdout) == (ExitCode.USAGE, ""), args
        ddl = acidctl(*args, *lists, "--schema", "CREATE TABLE `other.t`(`id` int)")
        assert ddl.code in (ExitCode.DONE, ExitCode.FINDINGS), ddl.stderr
        assert "The DDL is of other.t, and this directory is that of sales.orders." in ddl.stderr


def test_a_list_has_to_be_of_the_table(tmp_path: Path) -> None:
    """Refused where the folder or the DDL says which table this is; where only the name differs, who reads is warned,
    and who changes data has to name the table.
    """
    inside = step(ORDERS).copy(tmp_path / "default.db" / "orders")
    plain = step(ORDERS).copy(tmp_path / "orders")
    lists = ("--validtxns", f"default.other:20{FAR}", "--validtxns", f"100{FAR}")
    ddl = ("--schema", "CREATE TABLE `default.orders`(`id` int)")
    for args in (("ls",), ("snapshot", "--count"), ("clean",), ("compact", "major", "-n")):
        for asked in (lists, (*lists, "--table", "default.other"), ("--as-of", "9", *lists[2:], "--table", "other")):
            result = acidctl(*args, str(inside), *asked, *(["--assume-exclusive"] if args[0] == "clean" else []))
            assert (result.code, result.stdout) == (ExitCode.USAGE, ""), (args, asked)
            assert "default.orders" in result.stderr
        stated = acidctl(*args, str(plain), *lists, *ddl)
        assert (stated.code, stated.stdout) == (ExitCode.USAGE, ""), args
        differs = acidctl(*args, str(plain), *lists)
        if args[0] in ("ls", "snapshot"):
            assert "The list is of default.other, and this directory is called orders." in differs.stderr, args
            assert differs.stdout, args
        else:
            assert (differs.code, differs.stdout) == (ExitCode.USAGE, ""), args
            what = f"the write-id list is of table default.other, and the directory {plain} is called orders"
            assert what in differs.stderr, args
            assert "If the table here is default.other, add --table default.other;" in differs.stderr, args
        for vouched in (("--table", "default.other"), ("--schema", "CREATE TABLE default.other (id int)")):
            agreed = acidctl(*args, str(plain), *lists, *vouched)
            assert agreed.code in (ExitCode.DONE, ExitCode.FINDINGS), (args, vouched, agreed.stderr)
            assert "is called" not in agreed.stderr, (args, vouched)
        other = acidctl(*args, str(plain), *lists, "--table", "default.orders")
        assert (other.code, other.stdout) == (ExitCode.USAGE, ""), args
        assert "the write-id list is of table default.other, not of default.orders" in other.stderr


CHANGES = [("clean",), ("compact", "major", "-n")]


@pytest.mark.parametrize("args", CHANGES, ids=lambda args: args[0])
def test_whose_directory_it_is_by_name(args: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder of the table counts, however its path is spelled; what lies above or below is none of its name."""
    table = step(PARTED).copy(tmp_path / "Orders")
    lists = ("--validtxns", f"sales.orders:20{FAR}", "--validtxns", f"200000{FAR}")
    (tmp_path / "link").symlink_to(tmp_path)
    inside = table / "ds=2026-01-01"
    monkeypatch.chdir(inside)
    for path in (table, f"{table}/", f"file:{table}", inside, f"{inside}/hr=1/", ".", "..", tmp_path / "link/Orders"):
        result = acidctl(*args, str(path), *lists)
        assert "is called" not in result.stderr, path
        assert result.code in (ExitCode.DONE, ExitCode.FINDINGS), (path, result.stderr)
    for name in ("orders_old", "orders/2026", "customers", "orders.v2", "v2.orders", "ds=1/customers"):
        elsewhere = step(ORDERS).copy(tmp_path / "lake" / name)
        result = acidctl(*args, str(elsewhere), *lists)
        assert (result.code, result.stdout) == (ExitCode.USAGE, ""), name
        assert "add --table sales.orders;" in result.stderr
        assert acidctl(*args, str(elsewhere), *lists, "--table", "orders").code in (ExitCode.DONE, ExitCode.FINDINGS)


def test_clean_deletes_nothing_by_the_list_of_another_table(tmp_path: Path) -> None:
    """One list of several is enough to name the table, and -q hides nothing of it."""
    table = step(ORDERS).copy(tmp_path / "orders")
    before = tree(table)
    foreign = ("--validtxns", "default.customers:9:9223372036854775807::", "--validtxns", f"100{FAR}")
    more_lists = ("--as-of", "9", "--assume-exclusive")
    for more in (("--delete",), ("--delete", *more_lists), ("--undo",), ("--quarantine", str(tmp_path / "box"))):
        result = acidctl("clean", str(table), *foreign, "-q", "--yes", *more)
        assert (result.code, result.stdout) == (ExitCode.USAGE, ""), more
        assert tree(table) == before, more
    result = acidctl("compact", "major", str(table), *foreign, "-q")
    assert (result.code, result.stdout, tree(table)) == (ExitCode.USAGE, "", before)


def test_python_asks_whose_list_it_is_too(tmp_path: Path) -> None:
    """`table=` is what --table is."""
    table = open_table(str(step(ORDERS).copy(tmp_path / "orders")))
    lists = [f"default.customers:9{FAR}", f"100{FAR}"]
    for change in (table.clean, table.plan_clean, lambda **given: table.plan_compaction("major", **given)):
        with pytest.raises(UsageError, match=r"is of table default\.customers, and the directory .* is called orders"):
            change(validtxns=lists)
        change(validtxns=lists, table="default.customers")
        with pytest.raises(UsageError, match=r"not of default\.orders"):
            change(validtxns=lists, table="default.orders")


def test_a_plan_by_the_list_of_another_table_is_not_carried_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such plans were made with a warning by older versions; who knows better names the table."""
    table = step(ORDERS).copy(tmp_path / "orders")
    saved = tmp_path / "plan.json"
    lists = ("--validtxns", f"default.customers:9{FAR}", "--validtxns", f"100{FAR}")
    with monkeypatch.context() as patched:
        patched.setattr("acidctl.rows.table_view.own_table_warnings", lambda *args, **more: ())
        made = acidctl("compact", "major", str(table), *lists, "--plan-out", str(saved))
    assert made.code == ExitCode.DONE, made.stderr
    before = tree(table)
    for more in ((), ("--table", "default.orders")):
        result = acidctl("compact", "major", str(table), "--plan", str(saved), *more)
        assert (result.code, result.stdout) == (ExitCode.USAGE, ""), result.stderr
        assert "default.customers" in result.stderr
        assert tree(table) == before
    done = acidctl("compact", "major", str(table), "--plan", str(saved), "--table", "default.customers")
    assert done.code == ExitCode.DONE, done.stderr


def test_a_wrapped_list_is_refused_by_every_command(tmp_path: Path) -> None:
    """Taken for two lists, the writes that it calls aborted and open would count as committed."""
    table = step(ORDERS).copy(tmp_path / "orders")
    before = tree(table)
    wrapped = ["--validtxns", "default.orders:9:8:\n8:6"]
    for command in (["ls"], ["snapshot"], ["clean", "--delete", "--yes"], ["compact", "major"]):
        for text in (wrapped, [*wrapped, "--validtxns", f"100{FAR}"], ["--validtxns", "default.orders:9:8:"]):
            result = acidctl(*command, str(table), *text)
            assert (result.code, result.stdout) == (ExitCode.USAGE, ""), (command, text)
            assert "Paste the whole line that Hive printed" in result.stderr
    for command in (["clean", "--delete", "--yes"], ["compact", "major"]):
        result = acidctl(*command, str(table), "--validtxns", f"default.orders:20:{2**63 - 1}:")
        assert result.code == ExitCode.USAGE
    assert tree(table) == before


def test_the_current_directory_may_be_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is in it, and nothing tells what it is called."""
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert (acidctl("ls", ".").code, acidctl("snapshot", ".", "--count", "-q").stdout) == (ExitCode.DONE, "0 rows\n")


def test_hidden_things_beside_partitions_are_no_partition(tmp_path: Path) -> None:
    """Staging folders, markers of jobs and checksums lie about in tables; rows beside partitions are another thing."""
    table = step(PARTED).copy(tmp_path / "t")
    (table / ".hive-staging_hive_2026" / "-ext-10000").mkdir(parents=True)
    for name in ("_SUCCESS", ".x.crc", "ds=2026-01-01/._SUCCESS.crc"):
        (table / name).touch()
    counted = acidctl("snapshot", str(table), "--count")
    assert "beside" not in counted.stderr
    listed = acidctl("ls", str(table), "-o", "json")
    assert (listed.code, listed.json()["summary"]["partitions"]) == (ExitCode.DONE, 3)
    parts = acidctl("ls", str(table), "--by-partition", "-o", "json").json()["partitions"]
    assert [part["partition"] for part in parts if not part["partition"]] == []
    shutil.copy(next(table.rglob("bucket_0*")), table / "000000_0")
    listed = acidctl("ls", str(table), "--by-partition", "-o", "json")
    assert "data lies beside partition folders" in listed.stderr
    assert (listed.code, listed.json()["summary"]["partitions"]) == (ExitCode.FINDINGS, 3)
    assert sorted(part["partition"] for part in listed.json()["partitions"])[0] == ""


def test_a_partition_folder_need_not_be_utf8(tmp_path: Path) -> None:
    """As strings in files: shown with replacement characters, and counted."""
    table = tmp_path / "t"
    step(PARTED).copy(tmp_path / "source")
    table.mkdir()
    os.rename(os.fsencode(tmp_path / "source/ds=2026-01-01/hr=1"), os.fsencode(table) + b"/ds=\xff")
    age(table)
    for form in ("jsonl", "csv", "json", "text"):
        result = acidctl("snapshot", str(table), "-o", form, "-q")
        assert result.code == ExitCode.DONE, result
        assert "\ufffd" in result.stdout, form
    assert "3 string values not valid UTF-8" in acidctl("snapshot", str(table), "-o", "csv").stderr
    typed = acidctl("snapshot", str(table), "-o", "jsonl", "-q", "--schema", "id int, v string, ds int")
    assert typed.code == ExitCode.DONE, typed
    assert '"ds":null' in typed.stdout
    digest = acidctl("snapshot", str(table), "--digest", "-o", "json")
    assert digest.json()["rows"] == 3
