"""The shape of the code: who may import whom, what is loaded when, where anything may be printed."""

from __future__ import annotations

import ast
import resource
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "acidctl"

# Each row: modules (a trailing dot means the package and all below it), what they may import of acidctl, and
# of others. Everything may import `errors` and its own row. The order is the reading order; nothing imports a
# row below its own.
LAYERS: tuple[tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]], ...] = (
    (("errors",), (), ()),
    (("names", "bucketcodec", "eventfields", "idtext", "idlists", "writeids", "listtexts", "listing"), (), ()),
    (("state", "state_"), ("names", "writeids", "listing"), ()),
    (("hivetypes", "schema"), (), ()),
    (
        ("plan", "plan_"),
        ("names", "bucketcodec", "writeids", "listing", "state", "state_", "hivetypes", "schema"),
        (),
    ),
    (("arrays", "javatext", "leaves", "values", "digest", "rowhash"), ("hivetypes", "schema"), ("pyarrow", "numpy")),
    (("events", "merge"), ("bucketcodec", "eventfields", "writeids", "arrays"), ("pyarrow", "numpy")),
    (("pipeline",), (), ()),
    (("storage.",), ("listing", "names"), ("fsspec", "s3fs", "botocore", "hdfs", "hdfs_native", "requests", "urllib3")),
    (
        ("orc.",),
        ("events", "bucketcodec", "eventfields", "javatext", "hivetypes", "schema", "arrays", "leaves", "values"),
        ("pyarrow", "numpy", "pyorc", "isal"),
    ),
    (("readings",), ("names", "writeids", "listtexts", "listing", "state", "state_", "schema", "storage."), ()),
    (
        ("findings", "scan", "sources", "snapshot", "export", "datafiles", "filereport"),
        (
            *(
                "names",
                "bucketcodec",
                "eventfields",
                "writeids",
                "listing",
                "state",
                "state_",
                "hivetypes",
                "schema",
                "events",
                "merge",
            ),
            *("arrays", "values", "digest", "pipeline", "storage.", "orc."),
        ),
        ("pyarrow", "numpy"),
    ),
    (("compactreport", "cleanreport"), ("plan", "plan_"), ()),
    (
        ("jobs.",),
        (
            *("names", "bucketcodec", "writeids", "listing", "state", "state_", "plan", "plan_", "hivetypes", "schema"),
            *("events", "merge", "arrays", "values", "digest", "rowhash", "pipeline", "storage.", "orc."),
            *(
                "readings",
                "listtexts",
                "findings",
                "scan",
                "sources",
                "snapshot",
                "datafiles",
                "compactreport",
                "cleanreport",
            ),
        ),
        ("pyarrow", "numpy", "pyspark"),
    ),
    (
        ("lsreport",),
        ("names", "listing", "state", "state_", "plan", "plan_", "jobs."),
        (),
    ),
    (("config",), (), ()),
    (
        ("table",),
        (
            *("names", "writeids", "listing", "state", "state_", "plan", "plan_", "schema", "storage.", "orc."),
            *("listtexts", "readings", "snapshot", "jobs.", "lsreport", "compactreport", "cleanreport"),
        ),
        (),
    ),
    (("cli.", "__init__", "__main__"), ("*",), ("click", "rich", "pyarrow", "numpy")),
)

# What only one place may know.
ONLY_IN = {
    "fsspec": ("storage.fsspec",),
    "s3fs": ("storage.fsspec",),
    "botocore": ("storage.s3fault",),
    "click": ("cli.",),
    "rich": ("cli.",),
    "pyspark": ("jobs.spark", "jobs.spark_job"),
    "pyorc": ("orc.pyorcwriter", "orc.secondread"),
    "isal": ("orc.deflate",),
    "hdfs": ("storage.webapi",),
    "requests": ("storage.webapi", "storage.webfault"),
    "urllib3": ("storage.webapi", "storage.webfault"),
    "hdfs_native": ("storage.hdfsclient", "storage.hdfsstorage"),
}

# Modules that must be importable without the heavy packages, because `ls` and `--help` load them.
LIGHT_COMMANDS = (
    "cli.main",
    "cli.options",
    "cli.output",
    "cli.ls",
    "cli.decode_bucket",
    "table",
    "storage.local",
    "storage.gather",
)
HEAVY = ("pyarrow", "numpy", "pyorc", "isal", "pyspark", "hdfs", "hdfs_native", "requests", "fsspec", "rich", "google")

# Files past 500 lines, each with its reason.
LONG_FILES: dict[str, str] = {}


# Names of modules below `acidctl`; what they hold is read only by the tests that run.
MODULES = {".".join(path.relative_to(PACKAGE).with_suffix("").parts): path for path in sorted(PACKAGE.rglob("*.py"))}


@cache
def _tree(module: str) -> ast.Module:
    return ast.parse(MODULES[module].read_text())


def _imports(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Line and full name of everything imported, at any depth."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            if node.module in ("acidctl", "acidctl.orc", "acidctl.storage", "acidctl.cli"):
                yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)
            else:
                yield node.lineno, node.module
        elif isinstance(node, ast.ImportFrom):
            yield node.lineno, "." * node.level


def _matches(module: str, patterns: tuple[str, ...]) -> bool:
    return any(
        pattern == "*" or module == pattern or (pattern.endswith((".", "_")) and (module + ".").startswith(pattern))
        for pattern in patterns
    )


def _layer(module: str) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    for layer in LAYERS:
        if _matches(module, layer[0]):
            return layer
    raise AssertionError(f"{module} has no place in the table of layers")


@pytest.mark.parametrize("module", MODULES)
def test_imports_follow_the_table(module: str) -> None:
    """Dependencies point one way; a new module has to be given a place."""
    own, allowed, outside = _layer(module)
    for line, name in _imports(_tree(module)):
        assert not name.startswith("."), f"{module}:{line} uses a relative import"
        top, _, rest = name.partition(".")
        if top == "acidctl":
            target = rest or "__init__"
            if target.startswith("__"):
                continue  # the version
            assert target == "errors" or _matches(target, (*own, *allowed)), f"{module}:{line} imports {name}"
        elif top not in sys.stdlib_module_names:
            assert top in outside, f"{module}:{line} imports {name}"
            assert top not in ONLY_IN or _matches(module, ONLY_IN[top]), f"{module}:{line} imports {name}"


def test_every_row_of_the_table_is_used() -> None:
    """A row for modules that are gone would hide the next mistake."""
    for own, _, _ in LAYERS:
        assert any(_matches(module, own) for module in MODULES), f"no module for {own}"


def test_layers_import_upwards_only() -> None:
    """The table itself has no row that may import a later one."""
    rank = {pattern: index for index, (own, _, _) in enumerate(LAYERS) for pattern in own}
    for index, (own, allowed, _) in enumerate(LAYERS):
        for pattern in allowed:
            assert pattern == "*" or rank[pattern] < index, f"{own} may import {pattern}"


@pytest.mark.parametrize("module", MODULES)
def test_only_the_command_line_prints(module: str) -> None:
    """No print at all: even the command line writes through its injected streams."""
    for node in ast.walk(_tree(module)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            assert node.func.id != "print", f"{module}:{node.lineno} prints"
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "sys":
            own = module in ("cli.output", "cli.stderr")
            assert node.attr not in ("stdout", "stderr") or own, f"{module}:{node.lineno}"


def test_files_stay_short() -> None:
    """A file past 500 lines needs a reason beside its name, and a function past 60 is two."""
    for name, path in MODULES.items():
        lines = path.read_text().count("\n")
        assert lines <= 500 or name in LONG_FILES, f"{name} has {lines} lines"
        for node in ast.walk(_tree(name)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                assert node.end_lineno is not None
                assert node.end_lineno - node.lineno < 60, f"{name}:{node.lineno} {node.name} is long"
                count = (
                    len(node.args.args)
                    + len(node.args.kwonlyargs)
                    - (node.args.args[:1] != [] and node.args.args[0].arg in ("self", "cls"))
                )
                assert count <= 8, f"{name}:{node.lineno} {node.name} has {count} parameters"


def _loaded(code: str, *args: str) -> set[str]:
    """Top-level names of the packages that a fresh interpreter has loaded after `code`."""
    script = (
        "import sys\nsys.argv = ['acidctl', *sys.argv[1:]]\n"
        f"try:\n    {code}\nexcept SystemExit:\n    pass\n"
        "sys.stderr.write('LOADED ' + ' '.join(sorted({name.partition('.')[0] for name in sys.modules})))"
    )
    done = subprocess.run([sys.executable, "-c", script, *args], capture_output=True, text=True, timeout=60, check=True)
    return set(done.stderr.rpartition("LOADED ")[2].split())


RUN = "from acidctl.cli.main import main; main()"


@pytest.mark.parametrize(
    ("code", "args"),
    [
        ("import acidctl", ()),
        (RUN, ("--help",)),
        (RUN, ("--version",)),
        (RUN, ("decode-bucket", "1")),
        (RUN, ("decode-bucket", "--help")),
        (RUN, ("ls", "--help")),
        (RUN, ("ls", "TABLE")),
        (RUN, ("ls", "TABLE", "-o", "json", "-l", "--validtxns", "1:9223372036854775807::")),
        (RUN, ("ls", "/no/such/table")),
    ],
)
def test_light_commands_load_nothing_heavy(code: str, args: tuple[str, ...], tmp_path: Path) -> None:
    """A quick look costs no second of imports."""
    (tmp_path / "delta_0000001_0000001_0000").mkdir()
    (tmp_path / "delta_0000001_0000001_0000" / "bucket_00000").write_bytes(b"ORC")
    loaded = _loaded(code, *(str(tmp_path) if word == "TABLE" else word for word in args))
    assert not loaded.intersection(HEAVY)


def test_import_acidctl_does_not_load_the_command_line() -> None:
    """The library works without click."""
    assert "click" not in _loaded("import acidctl; acidctl.open_table")


@pytest.mark.slow
def test_help_is_as_quick_as_its_framework() -> None:
    """`acidctl --help` takes at most twice the CPU of `import click`; the best of several runs counts."""

    def once(*command: str) -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, *command], capture_output=True, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    # In turns, so that whatever else the machine does meets both.
    pairs = [(once("-m", "acidctl", "--help"), once("-c", "import click")) for _ in range(10)]
    assert min(ours for ours, _ in pairs) <= 2 * min(theirs for _, theirs in pairs)
