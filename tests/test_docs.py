"""The documents say what the code does: generated blocks, exit codes, field names, links, the Makefile."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import click
import pytest

from acidctl.cli import fields
from acidctl.cli import fields as fields_maintenance
from acidctl.cli.fields import Described
from acidctl.cli.main import COMMANDS, cli
from acidctl.cli.options import EXIT_MEANINGS
from acidctl.errors import AcidctlError, ExitCode
from tests.cli.runner import acidctl
from tests.reference import README, ROOT, stale
from tests.test_architecture import ROWS

DEMO = ROOT / "fixtures/tables/hive4/demo_orders/03-demo/table"


def _command(name: str) -> click.Command:
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    return command


def test_generated_blocks_are_current() -> None:
    """`make docs` would change nothing."""
    assert stale() == []


def test_exit_codes_have_one_meaning_each() -> None:
    """The enum, the meanings in every help, and the README table are one list."""
    assert set(EXIT_MEANINGS) == set(ExitCode)
    rows = re.findall(r"^\| (\d+) \| (.+) \|$", README.read_text(), re.MULTILINE)
    assert [(int(code), meaning) for code, meaning in rows] == [
        (int(code), meaning) for code, meaning in EXIT_MEANINGS.items()
    ]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_help_explains_and_ends_with_lines_to_paste(name: str) -> None:
    """What it does, what it returns, two or three examples at the end; every option explains itself."""
    command = _command(name)
    assert all(param.help for param in command.params if isinstance(param, click.Option))
    text = command.get_help(click.Context(command, info_name=f"acidctl {name}", terminal_width=100))
    codes, _, examples = text.partition("Exit codes:")[2].partition("Examples:")
    assert all(int(line.split()[0]) in list(ExitCode) for line in codes.strip().splitlines())
    lines = examples.strip().splitlines()
    assert 2 <= len(lines) <= 3
    assert all("acidctl " + name in line for line in lines)


@pytest.mark.parametrize("name", COMMANDS)
def test_examples_parse(name: str) -> None:
    """Every option in an example exists."""
    command = _command(name)
    known = {opt for param in command.params for opt in param.opts} | {"-h", "--help"}
    text = (command.epilog or "").partition("Examples:")[2]
    for line in text.splitlines():
        own = line.partition(f"acidctl {name}")[2]
        for word in re.findall(r"(?<=\s)--?[a-z][a-z-]*", own):
            assert word in known, f"{line.strip()}: {word}"


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_stands_in_the_readme(name: str) -> None:
    """With its reference, and in a sentence before it."""
    text = README.read_text()
    assert f"### acidctl {name}\n" in text
    assert f"`acidctl {name}" in text


def test_commands_that_do_not_exist_are_not_offered() -> None:
    """A name that is no command is wrong usage."""
    for name in ("check", "vacuum"):
        assert name not in COMMANDS
        assert acidctl(name, "x").code == 2


def test_errors_have_codes_of_their_own() -> None:
    """Every class has a stable word and an exit code of the table."""

    def family(base: type[AcidctlError]) -> list[type[AcidctlError]]:
        return [base, *(found for child in base.__subclasses__() for found in family(child))]

    for error in family(AcidctlError):
        assert error.exit_code in ExitCode
        assert re.fullmatch(r"[a-z][a-z0-9_]*", error.code)


def test_make_help_lists_every_target() -> None:
    """`make` alone is the table of contents."""
    text = (ROOT / "Makefile").read_text()
    phony = re.search(r"^\.PHONY: (.*)$", text, re.MULTILINE)
    assert phony is not None
    shown = subprocess.run(["make", "-s", "-C", str(ROOT)], capture_output=True, text=True, check=True).stdout
    assert {line.split()[1] for line in shown.splitlines()} == set(phony[1].split())


def test_markers_are_run_by_make() -> None:
    """No marked test is left out of both `make test` and `make test-hive3`."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    markers = {line.partition(":")[0] for line in project["tool"]["pytest"]["ini_options"]["markers"]}
    makefile = (ROOT / "Makefile").read_text()
    services = re.search(r"^SERVICES := (.*)$", makefile, re.MULTILINE)
    assert services is not None
    assert {*services[1].split(" or "), "slow"} == markers
    assert 'pytest -q -n auto --dist worksteal -m "slow and not ($(SERVICES))"' in makefile


def test_links_and_paths_in_the_readme_exist() -> None:
    """Relative links, and the files that the listing names."""
    text = README.read_text()
    for link in re.findall(r"\]\(([^)#]+)\)", text):
        assert link.startswith("http") or (ROOT / link).exists(), link
    listing = text.partition("```text\nacidctl/\n")[2].partition("```")[0]
    for pattern in re.findall(r"[a-z_*]+\.py", listing):
        assert list((ROOT / "acidctl").rglob(pattern)), pattern


def test_packages_stand_in_the_readme() -> None:
    """Every package and every module at the top has its line in the listing, in the order of imports."""
    listing = README.read_text().partition("```text\nacidctl/\n")[2].partition("```")[0]
    named = [line.split()[0] for line in listing.splitlines() if line.startswith("  ")]
    assert named == [
        f"{name}.py" if (ROOT / "acidctl" / f"{name}.py").exists() else f"{name}/"
        for row in ROWS
        for name in row
        if not name.startswith("__")
    ]


def _keys(described: Described) -> set[str]:
    return {name for name, _, _ in described.fields}


def _dump(*args: str) -> Any:
    result = acidctl(*args)
    assert result.code in (0, 3), result.stderr
    return result.json()


def test_fields_of_ls_are_described() -> None:
    """Every key of a real answer, at every level, and none more."""
    answer = _dump("ls", str(DEMO), "-l", "--rows", "--by-partition", "-o", "json")
    assert set(answer) == _keys(fields.LS)
    assert set(answer["summary"]) == _keys(fields.LS_SUMMARY)
    assert set(answer["entries"][0]) == _keys(fields.LS_ENTRY)
    assert set(answer["entries"][0]["file_list"][0]) == _keys(fields.LS_FILE)
    assert set(answer["partitions"][0]) == _keys(fields.LS_PARTITION)


def test_fields_of_snapshot_are_described() -> None:
    """The plan and the numbers."""
    plan = _dump("snapshot", str(DEMO), "--files", "-o", "json")
    assert set(plan) == _keys(fields.SNAPSHOT_FILES)
    assert set(plan["partitions"][0]) == _keys(fields.SNAPSHOT_PARTITION)
    assert set(_dump("snapshot", str(DEMO), "--count", "--digest", "--by-partition", "-o", "json")) == _keys(
        fields.SNAPSHOT_COUNT
    )


def test_fields_of_decode_bucket_are_described() -> None:
    """The union over numbers and all kinds of names."""
    values = ["1", "bucket_00001_2", "000000_0_copy_1", "delta_1_2_3_v4", ".x", "bucket_0_flush_length"]
    found = {key for line in acidctl("decode-bucket", *values, "-o", "jsonl").json_lines() for key in line}
    assert found == _keys(fields.DECODE_BUCKET)


def test_fields_of_compact_are_described(tmp_path: Path) -> None:
    """Report, partition, proof, plan, and the lines of the run log."""
    table = tmp_path / "table"
    shutil.copytree(DEMO, table)
    args = ("compact", "major", str(table), "--assume-committed", "-o", "json")
    plan = _dump(*args, "-n")
    assert set(plan) == _keys(fields_maintenance.COMPACT_PLAN)
    assert set(plan["partitions"][0]) == _keys(fields_maintenance.COMPACT_PLAN_PARTITION)
    report = _dump(*args, "--run-log", str(tmp_path / "log"))
    partition, run = (json.loads(line) for line in (tmp_path / "log").read_text().splitlines())
    assert set(partition) == _keys(fields_maintenance.COMPACT_LOG)
    assert set(run) == _keys(fields_maintenance.COMPACT_RUN_LOG)
    assert set(report) == _keys(fields_maintenance.COMPACT)
    assert set(report["summary"]) == _keys(fields_maintenance.COMPACT_SUMMARY)
    assert set(report["partitions"][0]) == _keys(fields_maintenance.COMPACT_PARTITION)
    assert set(report["partitions"][0]["verified"]) == _keys(fields_maintenance.COMPACT_VERIFIED)


def test_fields_of_errors_are_described() -> None:
    """The object on stderr."""
    assert set(acidctl("ls", "/no/such", "-o", "json").error()) == _keys(fields.ERROR)


def test_answers_carry_type_and_version() -> None:
    """Every JSON document of a command can be told from those of others."""
    for args in (["ls", str(DEMO)], ["snapshot", "--files", str(DEMO)], ["snapshot", "--count", str(DEMO)]):
        answer = _dump(*args, "-o", "json")
        assert answer["type"] == args[0]
        assert answer["schema_version"] == 1


def test_the_package_has_no_unused_dependency() -> None:
    """Every dependency of the package is imported by it."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    code = "\n".join(path.read_text() for path in (ROOT / "acidctl").rglob("*.py"))
    for dependency in project["dependencies"]:
        name = re.split(r"[>=<\[]", dependency)[0]
        assert re.search(rf"^\s*(import|from) {name}\b", code, re.MULTILINE), name


@pytest.mark.slow
def test_the_demo_tells_its_story() -> None:
    """`make demo` shows every state that its table has, and the rows."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.demo", str(DEMO.parent)], capture_output=True, text=True, cwd=ROOT, check=True
    )
    assert done.stderr == ""
    for said in (
        "obsolete",
        "write id 6 was aborted",
        "write id 8 is still open",
        "7 rows",
        "Grace",
        "base_0000007",
        "Equal.",
    ):
        assert said in done.stdout
