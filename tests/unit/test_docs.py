"""The documents say what the code does: generated blocks, command lines, exit codes, fields, links, the Makefile."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import reduce
from importlib import import_module
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import Any

import click
import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from acidctl.cleaning.plan import GUARDS
from acidctl.cli.main import COMMANDS, Session, cli
from acidctl.cli.options import EXIT_MEANINGS
from acidctl.cli.output import Terminal
from acidctl.errors import AcidctlError, ExitCode
from acidctl.options import is_safety_option
from acidctl.state.entries import EntryState
from tests import ROOT
from tests.bench import results
from tests.cli.runner import acidctl
from tests.support.reference import DOCS, PAGES, README, SECTIONS, described, stale
from tests.unit.test_architecture import MODULES, ROWS

DEMO = ROOT / "fixtures/tables/hive4/demo_orders/03-demo/table"
TEXTS = {str(path.relative_to(ROOT)): path.read_text() for path in (README, *sorted(DOCS.rglob("*.md")))}
EXIT_CODES, COMMANDS_PAGE = TEXTS["docs/reference/exit-codes.md"], TEXTS["docs/reference/commands.md"]


def _command(name: str) -> click.Command:
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    return command


@pytest.mark.slow
def test_generated_blocks_are_current() -> None:
    """`make docs` would change nothing, and every page with generated blocks is checked."""
    assert stale() == []
    assert {name for name, text in TEXTS.items() if "<!-- begin: " in text} == {f"docs/{page}" for page in PAGES}


def test_the_chart_is_of_the_figures() -> None:
    """The chart is drawn from the JSON file that lies beside it."""
    drawn = results.chart(results.shown(results.load(results.DEFAULT)))
    assert results.DEFAULT.with_suffix(".svg").read_text() == drawn


def test_exit_codes_have_one_meaning_each() -> None:
    """The enum, the meanings in every help, and the table of the reference are one list."""
    assert set(EXIT_MEANINGS) == set(ExitCode)
    table = EXIT_CODES.partition("<!-- begin: exit codes -->")[2].partition("<!-- end")[0]
    rows = re.findall(r"^\| (\d+) \| (.+) \|$", table, re.MULTILINE)
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
        for word in re.findall(r"(?<=\s)--?[a-z][a-z0-9-]*", own):
            assert word in known, f"{line.strip()}: {word}"


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_and_option_is_documented(name: str) -> None:
    """The command in a sentence of the README, all of its options in the reference."""
    assert f"`acidctl {name}" in README.read_text()
    reference = COMMANDS_PAGE.partition(f"\n## acidctl {name}\n")[2].partition("\n## ")[0]
    options = {opt for param in _command(name).params if isinstance(param, click.Option) for opt in param.opts}
    assert options - set(re.findall(r"(?<![\w-])--?[a-z][a-z0-9-]*", reference)) == set()


def _shell_lines(text: str) -> Iterator[str]:
    """The lines of all shell blocks, continued ones joined, without comments."""
    for block in re.findall(r"```sh\n(.*?)```", text, re.DOTALL):
        yield from (re.sub(r"(^|\s)#.*", "", line) for line in block.replace("\\\n", " ").splitlines())


def _command_lines(line: str) -> Iterator[list[str]]:
    """The arguments of each call of acidctl in a line of shell."""
    words: list[str] | None = None
    if not re.search(r"(^|\s)acidctl(_main.py)? ", line):
        return
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split, lexer.commenters = True, ""
    for word in lexer:
        if word in ("acidctl", "acidctl_main.py"):
            words = []
        elif words is not None and set(word) <= set("();<>|&"):
            yield words
            words = None
        elif words is not None:
            words.append(word)
    if words is not None:
        yield words


@pytest.mark.parametrize("page", TEXTS)
def test_command_lines_parse(page: str) -> None:
    """Every call of acidctl in a shell block is one that acidctl takes; in a sentence, one whose options exist."""
    for line in _shell_lines(TEXTS[page]):
        for name, *args in _command_lines(line):
            session = Session(Terminal(BytesIO(), BytesIO()), args)
            with cli.make_context("acidctl", [name, "--help"], obj=session, resilient_parsing=True) as group:
                _command(name).make_context(name, args, parent=group)
    for name, rest in re.findall(r"`acidctl ([a-z-]+)([^`\n]*)`", TEXTS[page]):
        known = {opt for param in _command(name).params for opt in param.opts} | {"-h", "--help"}
        assert set(re.findall(r"(?<=\s)--?[a-z][a-z0-9-]*", rest)) <= known, f"acidctl {name}{rest}"


# What stands in the documents and is not here; tests/live runs compactions on real HDFS, S3 and Spark.
_NOT_HERE = {"--master": "a cluster", "--spark-conf": "a cluster"}
# tests/live runs what needs a metastore: these commands, and tables of `sales` by name.
_OF_A_METASTORE = ("worker", "lists", "txns", "locks", "compactions")
# `ls --names -` reads what `hdfs dfs -ls -R` prints.
_NAMES = "drwxr-xr-x   - hive hive          0 2026-01-01 00:00 {}/delta_0000001_0000001_0000\n"


def needs_a_metastore(words: list[str]) -> bool:
    """Whether a call of acidctl asks one."""
    return words[0] in _OF_A_METASTORE or any(word.startswith("sales.") for word in words)


def _stories() -> Iterator[tuple[str, list[str]]]:
    """The shell blocks of all documents, and the examples of each command, with the calls of acidctl in each."""
    for page, text in TEXTS.items():
        for number, block in enumerate(re.findall(r"```sh\n.*?```", text, re.DOTALL), 1):
            yield f"{page} {number}", list(_shell_lines(block))
    for name in COMMANDS:
        yield f"{name} --help", (_command(name).epilog or "").partition("Examples:")[2].split("\n")


STORIES = {name: calls for name, lines in _stories() if (calls := [c for line in lines for c in _command_lines(line)])}


@pytest.mark.parametrize(
    "story",
    [name if "README" in name else pytest.param(name, marks=pytest.mark.slow) for name in STORIES],
)
def test_command_lines_run(story: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One after the other as they stand there, on copies of tables that real Hive has written."""
    step = DEMO.parent if "ds=" not in str(STORIES[story]) else DEMO.parents[2] / "partitioned/02-changed"
    table = shutil.copytree(step / "table", tmp_path / "warehouse/orders")
    lists = json.loads((step / "step.json").read_text())
    write_ids = lists["valid_write_ids"].replace(lists["table"], "default.orders")
    for name, text in {"write_ids": write_ids, "txns": lists["valid_txns"]}.items():
        (tmp_path / f"{name}.txt").write_text(text)
    (tmp_path / "condition.sql").write_text("status = 'new'\n")
    (tmp_path / "lists.txt").write_text(f"{write_ids}\n{lists['valid_txns']}\n")
    monkeypatch.chdir(tmp_path)
    for words in STORIES[story]:
        if needs_a_metastore(words):
            continue
        args: list[str] = []
        for word in words:
            if args and args[-1] in _NOT_HERE:
                args.pop()
                continue
            word = re.sub(r"^(hdfs://nn/|s3://|/)warehouse/", f"{tmp_path}/warehouse/", word)
            word = word.replace("s3://lake/", f"{tmp_path}/")
            args.append({"TABLE": str(table)}.get(word, word).replace("/var/log/acidctl", str(tmp_path)))
        if "--delete" in args and "--yes" not in args:
            args.append("--yes")  # the operator would be asked
        monkeypatch.setattr(sys, "stdin", TextIOWrapper(BytesIO(_NAMES.format(table).encode())))
        result = acidctl(*args)
        assert result.code in (ExitCode.DONE, ExitCode.FINDINGS), (args, result)


def test_command_lines_are_found() -> None:
    """The check above sees calls behind pipes and before redirections, and none of the other programs."""
    block = "```sh\nhdfs dfs -ls -R /t | acidctl ls --names \\\n  a#b /t > names.txt || code=$?  # why\n```"
    assert [list(_command_lines(line)) for line in _shell_lines(block)] == [[["ls", "--names", "a#b", "/t"]]]
    assert list(_command_lines("jq -c . /var/log/acidctl/orders.jsonl")) == []


@pytest.mark.parametrize("page", TEXTS)
def test_examples_in_python_and_configuration_are_well_formed(page: str) -> None:
    """Python compiles, and TOML is a configuration."""
    for block in re.findall(r"```python\n(.*?)```", TEXTS[page].partition("<!-- begin: python -->")[0], re.DOTALL):
        compile(block, page, "exec")
    for block in re.findall(r"```toml\n(.*?)```", TEXTS[page], re.DOTALL):
        assert set(tomllib.loads(block)) <= {"options", "storage", "spark", "metastore"}


def test_the_python_of_the_readme_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As it stands there, on a copy of the table that the demo shows."""
    shutil.copytree(DEMO, tmp_path / "orders")
    (block,) = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    exec(block.replace("/warehouse/orders", str(tmp_path / "orders")), {})
    assert "base_0000007" in capsys.readouterr().out
    assert (tmp_path / "orders" / "base_0000007").is_dir()


def test_the_python_page_prints_what_it_shows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its blocks one after the other; what a block prints stands below it, and what it writes has the rows."""
    shutil.copytree(DEMO, tmp_path / "warehouse/orders")
    names: dict[str, Any] = {}
    blocks = re.findall(r"```python\n(.*?)```(?:\n\n```text\n(.*?)```)?", TEXTS["docs/python.md"], re.DOTALL)
    assert len(blocks) > 4
    for code, printed in blocks:
        exec(re.sub('"/(warehouse|lake)/', rf'"{tmp_path}/\1/', code), names)
        assert capsys.readouterr().out.strip() == printed.strip(), code
    # Not by `to_pyarrow_table`: with its threads the interpreter may not end (deltalake 1.6, pyarrow 26).
    written = pa.concat_tables(map(pq.read_table, deltalake.DeltaTable(str(tmp_path / "lake/orders")).file_uris()))
    assert sorted(written.to_pylist(), key=str) == sorted(names["orders"].to_table().to_pylist(), key=str)


def test_the_readme_is_short() -> None:
    """A beginning, and links to the rest."""
    assert README.read_text().count("\n") <= 200
    linked = set(re.findall(r"\]\((docs/[a-z/-]+\.md)", README.read_text()))
    assert {name for name in TEXTS if name.startswith("docs/")} - linked == {"docs/index.md"}


def test_words_of_the_code_are_explained() -> None:
    """States, guards, and the options that no file and no variable may set."""
    for state in EntryState:
        assert re.search(rf"^\| {state.value.replace('_', ' ')} \|", TEXTS["docs/concepts.md"], re.MULTILINE), state
    for guard in GUARDS:
        assert re.search(rf"^\| `?{guard}`? \|", TEXTS["docs/cleaning.md"], re.MULTILINE), guard
    page = TEXTS["docs/configuration.md"]
    named = set(re.findall(r"`(--[a-z-]+)`", page.partition("command line only:")[2].partition("\n\n")[0]))
    for name in COMMANDS:
        for opt in (opt for param in _command(name).params for opt in param.opts if opt.startswith("--")):
            stands = opt in named or any(opt.startswith(start) for start in named if start.endswith("-"))
            assert stands == is_safety_option(opt), opt


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


def test_every_test_is_run_by_make() -> None:
    """Whatever markers a test has, a stage of `make check` chooses it; tests with one marker run once."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    markers = [line.partition(":")[0] for line in project["tool"]["pytest"]["ini_options"]["markers"]]
    shown = subprocess.run(["make", "-n", "-C", str(ROOT), "check"], capture_output=True, text=True, check=True).stdout
    stages = {found[1] or found[2] for found in re.finditer(r'-m pytest .*?-m (?:"([^"]+)"|(\w+))', shown)}
    assert len(stages) == 8, stages
    for number in range(1 << len(markers)):
        given = {name: bool(number >> at & 1) for at, name in enumerate(markers)}
        by = [stage for stage in stages if eval(stage, {}, given)]
        assert by, given
        assert len(by) == 1 or number.bit_count() > 1, (given, by)


def _anchors(text: str) -> set[str]:
    """What a link may name behind `#`: headings as GitHub and MkDocs make anchors of them."""
    titles = re.findall(r"^#+ (.+)$", re.sub(r"```.*?```", "", text, flags=re.DOTALL), re.MULTILINE)
    return {re.sub(r"[\s-]+", "-", re.sub(r"[^\w\s-]", "", title).strip().lower()) for title in titles}


@pytest.mark.parametrize("page", [*TEXTS, "CHANGELOG.md"])
def test_links_lead_somewhere(page: str) -> None:
    """Relative links name pages that exist, and headings in them."""
    here = ROOT / page
    for link in re.findall(r"\]\(([^)]+)\)", re.sub(r"```.*?```", "", here.read_text(), flags=re.DOTALL)):
        if link.startswith("http"):
            continue
        path, _, anchor = link.partition("#")
        target = (here.parent / path).resolve() if path else here
        assert target.is_file(), link
        assert not anchor or anchor in _anchors(target.read_text()), link


def test_every_page_stands_in_the_navigation() -> None:
    """mkdocs.yml names each page of docs/ once, and no other."""
    named = re.findall(r"([\w/-]+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)
    assert sorted(f"docs/{page}" for page in named) == sorted(name for name in TEXTS if name != "README.md")


def _build_site(project: Path, site: Path) -> subprocess.CompletedProcess[str]:
    # Not with --quiet: it hides the warnings from --strict.
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(site)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    return subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, timeout=120)


@pytest.mark.slow
def test_the_site_builds_strictly(tmp_path: Path) -> None:
    """mkdocs-material, which `make install` brings, finds no fault with pages, links and diagrams."""
    done = _build_site(ROOT, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    for page in (name.removeprefix("docs/") for name in TEXTS if name.startswith("docs/")):
        html = (tmp_path / page).with_suffix(".html").read_text()
        assert html.count('class="mermaid"') == TEXTS[f"docs/{page}"].count("```mermaid"), page


@pytest.mark.slow
def test_the_site_with_a_broken_link_does_not_build(tmp_path: Path) -> None:
    """A heading that is not there is found, so the check above can fail."""
    shutil.copytree(DOCS, tmp_path / "docs")
    shutil.copy(ROOT / "mkdocs.yml", tmp_path)
    (tmp_path / "docs/index.md").write_text("[a heading](concepts.md#that-is-not-there)")
    done = _build_site(tmp_path, tmp_path / "site")
    assert done.returncode == 1
    assert "#that-is-not-there" in done.stderr


def test_packages_stand_in_the_architecture() -> None:
    """Every package and every module at the top has its line in the listing, in the order of imports."""
    listing = TEXTS["docs/architecture.md"].partition("```text\nacidctl/\n")[2].partition("```")[0]
    named = [line.split()[0] for line in listing.splitlines() if line.startswith("  ")]
    assert named == [
        f"{name}.py" if (ROOT / "acidctl" / f"{name}.py").exists() else f"{name}/"
        for row in ROWS
        for name in row
        if not name.startswith("__")
    ]
    for pattern in re.findall(r"[a-z_*]+\.py", listing):
        assert list((ROOT / "acidctl").rglob(pattern)), pattern
    for module in re.findall(r"`([a-z]+/[a-z_]+\.py)`", TEXTS["docs/architecture.md"]):
        assert (ROOT / "acidctl" / module).is_file() or (ROOT / module).is_file(), module


def _keys(title: str) -> set[str]:
    """The fields that the reference names under a title."""
    (section,) = (section for section in SECTIONS if section.title == title)
    own = {name for kind in section.types for name in described(kind)}
    return own | {"type", "schema_version"} if section.document else own


def _dump(*args: str) -> Any:
    result = acidctl(*args)
    assert result.code in (0, 3), result.stderr
    return result.json()


def test_fields_of_ls_are_described() -> None:
    """Every key of a real answer, at every level, and none more."""
    answer = _dump("ls", str(DEMO), "-l", "--rows", "--by-partition", "-o", "json")
    assert set(answer) == _keys("`ls -o json`")
    assert set(answer["summary"]) == _keys("Summary")
    assert set(answer["entries"][0]) == _keys("Entry")
    assert set(answer["entries"][0]["file_list"][0]) == _keys("File")
    assert set(answer["partitions"][0]) == _keys("Partition")


def test_fields_of_snapshot_are_described() -> None:
    """The plan and the numbers."""
    plan = _dump("snapshot", str(DEMO), "--files", "-o", "json")
    assert set(plan) == _keys("`snapshot --files -o json`")
    assert set(plan["partitions"][0]) == _keys("Partition of a snapshot")
    assert set(_dump("snapshot", str(DEMO), "--count", "--digest", "--by-partition", "-o", "json")) == _keys(
        "`snapshot --count`, `--digest`"
    )


def test_fields_of_decode_bucket_are_described() -> None:
    """The union over numbers and all kinds of names."""
    values = ["1", "bucket_00001_2", "000000_0_copy_1", "delta_1_2_3_v4", ".x", "bucket_0_flush_length"]
    found = {key for line in acidctl("decode-bucket", *values, "-o", "jsonl").json_lines() for key in line}
    assert found == _keys("`decode-bucket`")


def test_fields_of_compact_are_described(tmp_path: Path) -> None:
    """Report, partition, proof, plan, and the lines of the run log."""
    table = tmp_path / "table"
    shutil.copytree(DEMO, table)
    args = ("compact", "major", str(table), "--assume-committed", "-o", "json")
    plan = _dump(*args, "-n")
    assert set(plan) == _keys("Plan of a compaction") | {"hash"}
    assert set(plan["partitions"][0]) == _keys("Planned partition")
    report = _dump(*args, "--run-log", str(tmp_path / "log"))
    partition, run = (json.loads(line) for line in (tmp_path / "log").read_text().splitlines())
    assert set(partition) == _keys("Run log, a partition")
    assert set(run) == _keys("Run log, the run")
    assert set(report) == _keys("`compact -o json`")
    assert set(report["summary"]) == _keys("Summary of a compaction")
    assert set(report["partitions"][0]) == _keys("Compacted partition")
    assert set(report["partitions"][0]["verified"]) == _keys("Verification")


def test_fields_of_errors_are_described() -> None:
    """The object on stderr."""
    assert set(acidctl("ls", "/no/such", "-o", "json").error()) == _keys("An error")


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
        [sys.executable, "-m", "tests.support.demo", str(DEMO.parent)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=True,
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


def _named(text: str) -> Any:
    """What a dotted name below `acidctl` stands for."""
    parts = text.split(".")
    for length in range(len(parts), 0, -1):
        module = ".".join(parts[:length])
        if module in MODULES or f"{module}.__init__" in MODULES:
            return reduce(getattr, parts[length:], import_module(f"acidctl.{module}"))
    raise ImportError(text)


def test_walks_lead_through_functions_that_exist() -> None:
    """Each name can be imported, and no walk has more than 25 stations."""
    walks = TEXTS["docs/architecture.md"].partition("\n## Walks\n")[2].partition("\n## ")[0].split("\n### ")[1:]
    assert [walk.partition("\n")[0] for walk in walks] == [
        "One list",
        "One row through snapshot",
        "One row through compact",
        "One directory through clean",
    ]
    for walk in walks:
        names = re.findall(r"`([a-z_]+(?:\.\w+)+)`", walk)
        assert 5 <= len(names) <= 25, names
        assert all(callable(_named(name)) for name in names)
    with pytest.raises(AttributeError):
        _named("rows.scan.no_such_function")
