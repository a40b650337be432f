"""What an unlucky night or an attacker hands to the commands: one sentence, the right exit code, no crash, no hang."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.orc
import pytest

from acidctl.cli import compact, options
from tests import ROOT
from tests.cli.runner import acidctl, heed_interrupts

TABLES = ROOT / "fixtures/tables/hive4"
DEMO = TABLES / "demo_orders/03-demo/table"
STREAMING = TABLES / "streaming/02-aborted/table"
BUCKET = "delta_0000005_0000005_0000/bucket_00001_0"
STREAMED = "delta_0000002_0000007/bucket_00000"
SIDE = f"{STREAMED}_flush_length"
ALL = "9223372036854775807"
FAR = f":{ALL}::"
COMMAND = [sys.executable, "-m", "acidctl"]


def _expect_failure(args: list[str], code: int, name: str, said: str) -> None:
    """In text and in JSON: one error that says it, and nothing on stdout."""
    text = acidctl(*args)
    assert (text.code, text.stdout) == (code, ""), text
    errors = [line for line in text.stderr.splitlines() if not line.startswith(("note: ", "warning: ", "  hint: "))]
    assert len(errors) == 1, text.stderr
    assert errors[0].startswith("error: ")
    assert said in errors[0]
    machine = acidctl(*args, "-o", "json")
    assert (machine.code, machine.stdout) == (code, ""), machine
    error = machine.error()
    assert (error["code"], set(error)) == (name, {"code", "message", "path", "hint"})
    assert said in error["message"]


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A copy of Hive's demo table."""
    return Path(shutil.copytree(DEMO, tmp_path / "table"))


@pytest.fixture
def streaming(tmp_path: Path) -> Path:
    """A copy of a table that streaming ingest has written, with side files."""
    return Path(shutil.copytree(STREAMING, tmp_path / "streaming"))


# --- paths ------------------------------------------------------------------------------------------------------------

PATHS = {
    "missing": ("none", 10, "no_such_table", "does not exist"),
    "missing, with brackets": ("[a]", 10, "no_such_table", "[a] does not exist"),
    "missing, with a line break": ("a\nerror: b", 10, "no_such_table", "does not exist"),
    "missing, with an escape sequence": ("\x1b[2Ja", 10, "no_such_table", "does not exist"),
    "missing, with a byte that is not UTF-8": ("a\udcffb", 10, "no_such_table", "does not exist"),
    "a name that is too long": ("a" * 5000, 14, "storage", "name too long"),
    "a chain of URLs": ("../simplecache::s3://x/y", 10, "no_such_table", "does not exist"),
    "a link to itself": ("loop", 14, "storage", "Too many levels of symbolic links"),
}


@pytest.mark.parametrize("case", PATHS)
@pytest.mark.parametrize("command", ["ls", "snapshot", "dump"])
def test_a_path_that_leads_nowhere(command: str, case: str, tmp_path: Path) -> None:
    """Whatever the path holds, the message about it stays one line."""
    name, code, error, said = PATHS[case]
    (tmp_path / "loop").symlink_to("loop")
    result = acidctl(command, f"{tmp_path}/{name}")
    assert (result.code, result.stdout) == (code, "")
    assert said.lower() in result.stderr.lower()
    assert len([line for line in result.stderr.splitlines() if not line.startswith("  hint: ")]) == 1
    assert "\x1b" not in result.stderr
    assert acidctl(command, f"{tmp_path}/{name}", "-o", "json").error()["code"] == error


@pytest.mark.parametrize("command", ["ls", "snapshot"])
def test_links_that_lead_round(command: str, table: Path) -> None:
    """Also by way of another table, where walking all ways would never end; and the link is named."""
    other = table.parent / "other"
    other.mkdir()
    for i in range(4):
        (table / f"x{i}").symlink_to("../other")
        (other / f"y{i}").symlink_to("../table")
    _expect_failure([command, str(table)], 14, "storage", "is a symbolic link to one of its own parent directories")


def test_a_link_to_itself_in_a_table(table: Path) -> None:
    """The link is named, not the table."""
    (table / "self").symlink_to("self")
    _expect_failure(["ls", str(table)], 14, "storage", f"{table}/self")


def test_a_partition_behind_a_link_is_read(table: Path, tmp_path: Path) -> None:
    """Hadoop's local file system follows links."""
    (tmp_path / "p").mkdir()
    (tmp_path / "p" / "ds=1").symlink_to(table)
    assert acidctl("snapshot", f"{tmp_path}/p", "--count", "-o", "json").json()["rows"] == 10


@pytest.fixture
def unprivileged() -> Iterator[Path]:
    """A copy of the table as a user sees it whom file modes bind."""
    place = Path(tempfile.mkdtemp())
    shutil.copytree(DEMO, place / "table")
    place.chmod(0o755)
    acidctl("snapshot", str(place / "table"))  # imports everything while the interpreter's files can be read
    try:
        yield place / "table"
    finally:
        for path in (place, *place.rglob("*")):
            path.chmod(0o755)
        shutil.rmtree(place)


@pytest.mark.parametrize(
    ("closed", "command"),
    [
        ("", ["ls"]),
        ("delta_0000005_0000005_0000", ["ls"]),
        ("delta_0000005_0000005_0000", ["snapshot"]),
        (BUCKET, ["snapshot", "--count"]),
        (BUCKET, ["dump"]),
    ],
)
def test_what_may_not_be_read(closed: str, command: list[str], unprivileged: Path) -> None:
    """Exit 14, the path and the remedy."""
    (unprivileged / closed).chmod(0)
    path = f"{unprivileged}/{BUCKET}" if command == ["dump"] else str(unprivileged)
    was = os.geteuid()
    try:
        if was == 0:
            os.seteuid(65534)
        _expect_failure([*command, path], 14, "denied", "Permission denied")
    finally:
        os.seteuid(was)


def test_a_configuration_of_another_user_is_left_alone(monkeypatch: pytest.MonkeyPatch, unprivileged: Path) -> None:
    """`sudo -u hive` may keep HOME; a file named with --config has to be readable."""
    config = unprivileged / "acidctl"
    config.mkdir()
    (config / "config.toml").write_text("[options]\nprofile = 'hive4'\n")
    (config / "config.toml").chmod(0)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(unprivileged))
    was = os.geteuid()
    try:
        if was == 0:
            os.seteuid(65534)
        result = acidctl("decode-bucket", "3", "-o", "json")
        named = acidctl("decode-bucket", "3", "--config", str(config / "config.toml"))
    finally:
        os.seteuid(was)
    assert (result.code, "no configuration is used" in result.stderr) == (0, True)
    assert (named.code, "cannot be read: Permission denied" in named.stderr) == (2, True)


# --- lists ------------------------------------------------------------------------------------------------------------

MALFORMED = [
    "nonsense", ":", "5:", "t:", "t:20", "t:x:15::", "t:20:15:0x10:", "t:20:1e3::", "t:2_0:15::", "t: 20:15::",
    "t:20:15:15;17:", "t:20:15:15:3,,4", "t:20:15:1:2:3", f"t:{ALL}0:15::", "11:4:8-4:", "11:4:4-", "11:4:4--8:",
    "11:4:4-999999999999:", "\uff11:\uff11:", "$", "17$", "17$$", "x$t:5:4:4:2", "{}", "[]",
    "null", "\x1b[31mred", "\ufeff",
]  # fmt: skip


@pytest.mark.parametrize("text", MALFORMED)
def test_a_malformed_list(text: str) -> None:
    """Exit 2, and what was given cannot colour or clear the terminal."""
    result = acidctl("ls", str(DEMO), "--validtxns", text)
    assert (result.code, result.stdout) == (2, "")
    assert result.stderr.startswith("error: ")
    assert "\x1b" not in result.stderr
    assert acidctl("ls", str(DEMO), "--validtxns", text, "-o", "json").error()["code"] == "usage"


LISTS = {
    "a directory": (["--validtxns", "@/"], "cannot be read: Is a directory"),
    "stdin twice": (["--validtxns", "@-", "--validtxns", "@-"], "can be given once"),
    "several tables": (["--validtxns", f"17$d.a:5:{ALL}::$d.b:9:{ALL}::"], "2 tables (d.a, d.b)"),
    "other tables only": (["--validtxns", f"17$d.a:5:{ALL}::", "--table", "d.c"], "no write ids of table d.c"),
    "another table": (["--validtxns", f"d.a:5:{ALL}::", "--table", "d.c"], "d.a"),
    "no number": (["--as-of", "x"], "is not a valid integer"),
    "a negative number": (["--as-of", "-1"], "not in the range"),
}


@pytest.mark.parametrize("case", LISTS)
def test_lists_that_do_not_fit(case: str) -> None:
    """Exit 2, never "everything valid"."""
    args, said = LISTS[case]
    _expect_failure(["snapshot", "--count", str(DEMO), *args], 2, "usage", said)


def _file_arguments(path: object) -> list[list[str]]:
    return [
        ["ls", str(DEMO), "--validtxns", f"@{path}"],
        ["ls", str(DEMO), "--schema", f"@{path}"],
        ["ls", str(DEMO), "--names", f"{path}"],
        ["ls", str(DEMO), "--config", f"{path}"],
        ["compact", "major", str(DEMO), "--plan", f"{path}"],
    ]


def test_what_is_no_regular_file_is_refused_at_once(tmp_path: Path) -> None:
    """Nobody may ever write to a named pipe, and a device may have no end."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(tmp_path / "pipe")
    for path, said in (
        (tmp_path / "pipe", "it is a named pipe and no regular file"),
        (tmp_path / "link", "it is a named pipe and no regular file"),
        ("/dev/zero", "it is a device and no regular file"),
        ("/dev/null", "it is a device and no regular file"),
        (tmp_path, "Is a directory"),
    ):
        for args in _file_arguments(path):
            _expect_failure(args, 2, "usage", said)


@pytest.mark.parametrize("command", range(5))
def test_a_text_without_end(command: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a shell has opened (`<(...)`, stdin) is read up to a bound."""
    for module, name in ((options, "MAX_TEXT"), (compact, "MAX_PLAN")):
        monkeypatch.setattr(module, name, 1 << 20)
    with open("/dev/zero", "rb") as zero:
        for path in (f"/dev/fd/{zero.fileno()}", f"/proc/self/fd/{zero.fileno()}"):
            args = _file_arguments(path)[command]
            said = "no regular file" if "--config" in args else "holds more than 1 MiB of text"
            _expect_failure(args, 2, "usage", said)


def test_a_file_that_is_too_long_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """300 MB of zeros as a plan, or as a configuration."""
    path = tmp_path / "zeros"
    with path.open("wb") as stream:
        stream.truncate(300 << 20)
    tracemalloc.start()
    try:
        _expect_failure(["compact", "major", str(DEMO), "--plan", str(path)], 2, "usage", "holds more than 128 MiB")
        _expect_failure(["ls", str(DEMO), "--config", str(path)], 2, "usage", "is larger than 1 MiB")
        assert tracemalloc.get_traced_memory()[1] < 16 << 20
    finally:
        tracemalloc.stop()


def test_lists_from_what_a_shell_opens(tmp_path: Path) -> None:
    """`--validtxns @<(beeline ...)`: a pipe, whose writer may take its time; and `@/dev/stdin`."""
    reading, writing = os.pipe()
    late = os.fdopen(writing, "w")

    def write() -> None:
        with late:
            late.write(f"default.orders:9{FAR}")

    writer = threading.Timer(0.2, write)
    writer.start()
    try:
        result = acidctl("ls", str(DEMO), "--validtxns", f"@/dev/fd/{reading}", "-o", "json")
    finally:
        writer.join()
        os.close(reading)
    assert result.json()["assumed"] == ["txns"], result.stderr
    line = [sys.executable, "-m", "acidctl", "ls", str(DEMO), "-o", "json", "--validtxns"]
    for name in ("@/dev/stdin", "@-"):
        done = subprocess.run([*line, name], input=f"default.orders:9{FAR}".encode(), capture_output=True, check=True)
        assert json.loads(done.stdout)["assumed"] == ["txns"]


SCHEMAS = [
    "struct<", "struct<>", "struct<a:int", "a int,", "a", "a b c", "a decimal(99,2)", "a decimal(5,6)", "`a int",
    "a varchar(0)", "a map<int>", "a uniontype<>", "a interval", "a int, A int", "CREATE TABLE t (", "SELECT 1",
    "CREATE TABLE t (a int) PARTITIONED BY (a string)", "a " + "array<" * 3000 + "int" + ">" * 3000,
    "CREATE VIEW v AS SELECT 1",
]  # fmt: skip


@pytest.mark.parametrize("text", SCHEMAS)
def test_a_malformed_schema(text: str) -> None:
    """Exit 2."""
    _expect_failure(["snapshot", str(DEMO), "--schema", text], 2, "usage", "schema")


# --- options, environment, configuration ------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", ["0", "9" * 30])
def test_any_limit(limit: str) -> None:
    """No number of rows is too large."""
    for args in (["ls", "--limit"], ["snapshot", "-o", "jsonl", "--limit"], ["dump", "-d", "-n"]):
        result = acidctl(args[0], str(DEMO), *args[1:], limit)
        assert result.code == 0, result.stderr


VARIABLES = {
    "ACIDCTL_PROFILE": "x", "ACIDCTL_OUTPUT": "xml", "ACIDCTL_LIMIT": "abc", "ACIDCTL_QUIET": "maybe",
    "ACIDCTL_AS_OF": "\x01", "ACIDCTL_VALIDTXNS": "garbage", "ACIDCTL_CONFIG": "/no/such", "ACIDCTL_SORT": "zz",
    "ACIDCTL_PARTITION": "a b", "ACIDCTL_LS_PROFILE": "x", "ACIDCTL_LS_LIMIT": "-3",
}  # fmt: skip


@pytest.mark.parametrize("name", VARIABLES)
def test_a_variable_with_garbage(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Exit 2, as if it stood on the command line."""
    monkeypatch.setenv(name, VARIABLES[name])
    result = acidctl("ls", str(DEMO))
    assert (result.code, result.stdout) == (2, "")
    assert result.stderr.startswith("error: ")


def test_the_version_of_an_image_is_no_option(monkeypatch: pytest.MonkeyPatch) -> None:
    """`ENV ACIDCTL_VERSION=0.1.0` in a container."""
    monkeypatch.setenv("ACIDCTL_VERSION", "0.1.0")
    assert acidctl("decode-bucket", "3").code == 0


CONFIGURATIONS = [
    b"x = " + b"[" * 5000, b"[options]\nprofile = 3",
    b"[options]\nlimit = 'x'", b"[options]\nlimit = [1, 2]", b"[options]\nas-of = 2026-01-01", b"[options]\nlong = []",
    b"[options]\nvalidtxns = [[1]]", b"[options]\nvalidtxns = 5", b"[options.ls]\ndelete = true",
    b"[options.ls]\nlimit = nan", b"[options.ls]\nlimit = inf", b"[options]\nlong = 1.5",
    b"[options]\nquiet = 9223372036854775808",
]  # fmt: skip


@pytest.mark.parametrize("text", CONFIGURATIONS)
def test_a_configuration_with_garbage(text: bytes, tmp_path: Path) -> None:
    """Exit 2."""
    (tmp_path / "config.toml").write_bytes(text)
    _expect_failure(["ls", str(DEMO), "--config", str(tmp_path / "config.toml")], 2, "usage", "")


def test_one_value_may_stand_for_a_list_in_a_configuration(tmp_path: Path) -> None:
    """Of an option that can be given several times."""
    (tmp_path / "config.toml").write_text(f"[options]\nvalidtxns = 't:5:{ALL}::'\n")
    answer = acidctl("ls", str(DEMO), "--config", str(tmp_path / "config.toml"), "-o", "json")
    assert answer.json()["assumed"] == ["txns"]


@pytest.mark.parametrize("value", ["", "/", "9" * 5000, "0x", "1e3", "4294967296", "-1", "a\nb", "delta_x", "\udcff"])
def test_a_value_that_is_no_bucket(value: str) -> None:
    """Exit 1 and one line, however long the value is."""
    result = acidctl("decode-bucket", value)
    assert (result.code, result.stdout, result.stderr.count("\n")) == (1, "", 1)
    assert len(result.stderr) < 300


# --- files ------------------------------------------------------------------------------------------------------------


def _replaced(data: bytes, at: int, part: bytes) -> bytes:
    return data[:at] + part + data[at + len(part) :]


BROKEN: dict[str, Callable[[bytes], bytes]] = {
    "one byte": lambda data: data[:1],
    "the magic only": lambda data: data[:3],
    "half": lambda data: data[: len(data) // 2],
    "all but the last byte": lambda data: data[:-1],
    "junk behind it": lambda data: data + b"junk",
    "zeros": lambda data: bytes(len(data)),
    "ones": lambda data: b"\xff" * len(data),
    "text": lambda data: b"hello world\n" * 20,
    "Parquet": lambda data: b"PAR1" + bytes(100) + b"PAR1",
    "a tail that is longer than the file": lambda data: _replaced(data, len(data) - 1, b"\xff"),
    "a tail without magic": lambda data: _replaced(data, len(data) - 4, b"XYZ"),
    "stripes of something else": lambda data: _replaced(data, 3, b"\xff" * (len(data) // 2)),
}


@pytest.mark.parametrize("case", BROKEN)
@pytest.mark.parametrize(
    "command", [["snapshot", "-o", "jsonl"], ["snapshot", "--digest"], ["dump", "-d"]], ids=" ".join
)
def test_a_broken_file(command: list[str], case: str, table: Path) -> None:
    """Exit 13, the file is named, and no row of it is shown."""
    path = table / BUCKET
    path.write_bytes(BROKEN[case](path.read_bytes()))
    target = path if command[0] == "dump" else table
    result = acidctl(*command, str(target))
    assert result.code == 13, result
    assert str(path) in result.stderr
    assert "Traceback" not in result.stderr
    assert command[-1] == "jsonl" or result.stdout == ""
    assert result.stdout == "" or result.stdout.endswith("}\n")


def test_a_file_of_no_bytes(table: Path) -> None:
    """`dump` of it is damage; a table is read past it as Hive does, and `ls` and `snapshot` say so."""
    (table / BUCKET).write_bytes(b"")
    _expect_failure(["dump", str(table / BUCKET)], 13, "damaged", "is empty (0 bytes)")
    result = acidctl("snapshot", str(table), "--count", "-o", "json")
    assert (result.code, result.json()["rows"]) == (0, 9)
    for answer in (result, acidctl("ls", str(table))):
        assert f"warning: {BUCKET} is empty and ignored, as Hive does" in answer.stderr


SIDE_FILES = {
    "empty": (b"", "holds no length"),
    "cut short": (b"\0\0\0", "holds no length"),
    "negative": (b"\xff" * 8, "impossible length -1"),
    "beyond the end": ((1 << 40).to_bytes(8, "big"), "its side file gives a length of 1099511627776"),
    "text": (b"12345678", "its side file gives a length of"),
    "inside a stripe": ((1000).to_bytes(8, "big"), "is truncated or its footer is damaged"),
}


@pytest.mark.parametrize("case", SIDE_FILES)
def test_a_corrupt_side_file(case: str, streaming: Path) -> None:
    """Exit 13: where the data ends is not guessed."""
    content, said = SIDE_FILES[case]
    (streaming / SIDE).write_bytes(content)
    _expect_failure(["snapshot", str(streaming), "--count"], 13, "damaged", said)
    _expect_failure(["dump", str(streaming / STREAMED)], 13, "damaged", said)


def test_special_files_are_not_opened(table: Path) -> None:
    """A pipe in place of a file must not hang the reader."""
    (table / BUCKET).unlink()
    os.mkfifo(table / BUCKET)
    _expect_failure(["dump", str(table / BUCKET)], 14, "storage", "is not a regular file")
    os.mkfifo(table / "_orc_acid_version")
    _expect_failure(["snapshot", str(table), "--count"], 14, "storage", "is not a regular file")


NAMES = [
    "delta_x", "delta_1_2_3_4_5", "base_x", "base_1_v", "delta_1_1\n",
    f"delta_{'9' * 30}_{'9' * 30}",
]  # fmt: skip


def test_names_that_cannot_be_parsed(table: Path) -> None:
    """Shown with a reason and exit code 3; the rows are those of the rest."""
    for name in NAMES:
        (table / name).mkdir()
    found = acidctl("ls", str(table), "-o", "json")
    assert found.code == 3
    entries = {entry["name"]: entry for entry in found.json()["entries"]}
    assert {entries[name]["state"] for name in NAMES} == {"unrecognised"}
    assert all(entries[name]["reason"] for name in NAMES)
    assert acidctl("snapshot", str(table), "--count", "-o", "json").json()["rows"] == 10


# Reads every truncation of a file, and the file with every byte of its second half changed, in two ways each.
MUTATE = """
import io, resource, sys
resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
from acidctl.errors import DamagedDataError
from acidctl.orc.reader import open_orc
data = open(sys.argv[1], "rb").read()
variants = [data[:end] for end in range(len(data))]
for at in range(len(data) // 2, len(data)):
    for change in (1, 0xFF):
        variants.append(data[:at] + bytes([data[at] ^ change]) + data[at + 1 :])
refused = 0
for variant in variants:
    try:
        for batch in open_orc(io.BytesIO(variant), name="x").scan():
            batch.validate(full=True)
    except DamagedDataError:
        refused += 1
    except Exception as error:
        if "UTF8" not in str(error):
            raise
print(len(variants), refused)
"""
MUTATED = [
    "overwrite_partitioned/02-truncated/table/p=2/delta_0000001_0000001_0000/bucket_00000_0",
    "compression/01-none/table/delta_0000001_0000001_0000/bucket_00000_0",
]


@pytest.mark.slow
@pytest.mark.parametrize("path", MUTATED, ids=lambda path: path.partition("/")[0])
def test_no_damage_ends_the_process(path: str) -> None:
    """In a process of its own: a crash of the C++ reader is a failure here, not the end of the tests."""
    done = subprocess.run(
        [sys.executable, "-c", MUTATE, str(TABLES / path)], capture_output=True, timeout=120, cwd=ROOT, check=False
    )
    assert done.returncode == 0, done.stderr.decode()
    variants, refused = map(int, done.stdout.split())
    assert refused > variants // 2


# --- streams and signals ----------------------------------------------------------------------------------------------


def _shell(command: str) -> subprocess.CompletedProcess[bytes]:
    line = command.replace("acidctl", f"{sys.executable} -m acidctl")
    return subprocess.run(["bash", "-c", line], capture_output=True, timeout=60, check=False)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full on this system")
@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("acidctl --help >/dev/full", 14),
        (f"acidctl ls {DEMO} >/dev/full", 14),
        ("acidctl ls /no/such 2>/dev/full", 10),
        ("acidctl ls /no/such 2>&1 >/dev/null | true; exit ${PIPESTATUS[0]}", 10),
    ],
)
def test_streams_that_take_nothing(command: str, code: int) -> None:
    """The exit code tells what went wrong even when nothing else can."""
    done = _shell(command)
    assert done.returncode == code
    assert b"Traceback" not in done.stderr
    assert b"fault of acidctl" not in done.stderr


def test_too_little_memory_is_no_fault_of_ours() -> None:
    """One sentence, no request for a report."""
    script = (
        "import sys; from acidctl.cli import decode_bucket, main\n"
        "def fail(value): raise MemoryError('Unable to allocate 1 GiB')\n"
        "decode_bucket.decode_value = fail; sys.exit(main.run(['decode-bucket', '1']))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, timeout=60, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith(b"error: there is not enough memory: Unable to allocate 1 GiB\n")
    assert b"report" not in done.stderr


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table whose rows are more text than pipes and buffers take."""
    place = tmp_path_factory.mktemp("large")
    numbers = range(100_000)
    rows = pa.table({"a": pa.array(numbers), "s": pa.array([f"row number {i}" for i in numbers])})
    pyarrow.orc.write_table(rows, str(place / "000000_0"), stripe_size=1 << 16)
    return place


def _reading(path: Path, *args: str) -> subprocess.Popen[bytes]:
    """A command that has begun to answer, and waits for its answer to be read."""
    command = [*COMMAND, "snapshot", str(path), "-q", "-o", "jsonl", *args]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=heed_interrupts)
    assert process.stdout is not None
    assert json.loads(process.stdout.readline())["a"] == 0
    return process


@pytest.mark.slow
def test_an_interrupted_read(large: Path) -> None:
    """Ctrl-C: exit 130 and one error."""
    process = _reading(large)
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == 130
    assert [json.loads(line)["error"]["code"] for line in stderr.splitlines() if line.startswith(b"{")] == [
        "interrupted"
    ]
    assert b"Traceback" not in stderr
    assert stdout.count(b"\n") < 100_000 - 1


@pytest.mark.slow
def test_a_reader_that_has_seen_enough(large: Path) -> None:
    """`| head -1` of a large answer: only what was said before it."""
    process = _reading(large)
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    said = process.stderr.read().decode()
    process.stderr.close()
    assert process.wait(timeout=60) == 141
    assert all(line.startswith("warning: There is no base") for line in said.splitlines())


@pytest.mark.slow
def test_a_file_that_shrinks_while_it_is_read(large: Path, tmp_path: Path) -> None:
    """What was not read before is damage; the rows end at a whole line."""
    shutil.copy(large / "000000_0", tmp_path)
    process = _reading(tmp_path)
    os.truncate(tmp_path / "000000_0", 1000)
    stdout, stderr = process.communicate(timeout=60)
    assert stdout.endswith(b"}\n")
    if process.returncode:  # else the whole file was in memory already
        assert process.returncode == 13
        assert json.loads(stderr.splitlines()[-1])["error"]["code"] == "damaged"
    else:
        assert b'"a":99999,' in stdout.splitlines()[-1]


# --- names of partitions in commands that change tables --------------------------------------------------------------

ODD = (
    b"ds=a b",
    b"ds=it's",
    b'ds="q"',
    b"ds=100%",
    b"ds=new\nline",
    b"ds=\xff\xfe",
    b"ds=\x1b[31m1",
    b"ds=back\\slash",
)
PARTITIONED = TABLES / "partitioned/02-changed"


@pytest.mark.slow
def test_partitions_of_any_name_are_compacted_and_cleaned_by_the_printed_line(tmp_path: Path) -> None:
    """Bytes that are no UTF-8 included: `$'...'` is how a shell takes them."""
    root = tmp_path / "t\n\udcff's"
    for name in ODD:
        shutil.copytree(PARTITIONED / "table/ds=2026-01-01/hr=1", root / os.fsdecode(name))
    facts = json.loads((PARTITIONED / "step.json").read_text())
    lists = ["--validtxns", facts["valid_write_ids"], "--validtxns", facts["valid_txns"], "--table", facts["table"]]
    done = acidctl("compact", "major", str(root), *lists, "--engine", "local", "-o", "json")
    assert done.code == 0, done.stderr
    assert done.json()["summary"]["outcomes"] == {"compacted": len(ODD)}
    chosen = [word for name in ODD for word in ("--partition", os.fsdecode(name))]
    shown = acidctl("clean", str(root), *lists, *chosen, "--unsafe-no-retention")
    line = shown.stdout.rstrip().splitlines()[-1]
    script = f"{sys.executable} -m {line.strip()} --yes -o json"
    left = subprocess.run(["bash", "-c", script], cwd=ROOT, capture_output=True, check=False, timeout=60)
    assert left.returncode == 0, left.stderr
    assert json.loads(left.stdout)["deleted"] > 0
    assert {tuple(sorted(p.name for p in part.iterdir())) for part in root.iterdir()} == {("base_0000004",)}
