"""The shape of the code: who may import whom, what is loaded when, where anything may be printed."""

from __future__ import annotations

import ast
import re
import resource
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests import ROOT

PACKAGE = ROOT / "acidctl"

# Packages in the order of their imports: a module imports its own package and what stands in an earlier row. Packages
# of one row know nothing of each other; `errors` is everybody's.
ROWS = (
    ("values",),
    ("errors",),
    ("options",),
    ("findings",),
    ("phases",),
    ("format",),
    ("types",),
    ("state", "orc"),
    ("storage", "fileformats"),
    ("rows",),
    ("maintenance", "engine", "metastore"),
    ("compaction", "exporting"),
    ("cleaning",),
    ("config",),
    ("api",),
    ("worker",),
    ("by_name",),
    ("spark",),
    ("cli",),
    ("__init__", "__main__"),
)
RANK = {package: rank for rank, row in enumerate(ROWS) for package in row}

# What only one place may know: packages, or modules of one.
ONLY_IN = {
    "numpy": ("format", "types", "orc", "fileformats", "rows", "compaction"),
    "pyarrow": ("format", "types", "orc", "fileformats", "rows", "compaction", "exporting", "cli"),
    "pyarrow.orc": ("orc",),
    "pyorc": ("orc",),
    "isal": ("orc.codec",),
    "pyspark": ("engine", "spark"),
    "pandas": ("rows.snapshot",),
    "click": ("cli",),
    "rich": ("cli",),
    "fsspec": ("storage.objects",),
    "s3fs": ("storage.s3",),
    "botocore": ("storage.s3",),
    "requests": ("storage.webhdfs",),
    "requests_kerberos": ("storage.webhdfs",),
    "urllib3": ("storage.webhdfs",),
    "hdfs_native": ("storage.hdfs_native",),
    "thriftpy2": ("metastore.client",),
    "gssapi": ("metastore.client",),
}

# What decides takes values and gives values: no clock, no chance, no file. Packages, or modules of one.
PURE = (
    "format",
    "types",
    "state",
    *(f"compaction.{name}" for name in ("plan", "planner", "columns", "decision")),
    *(f"compaction.{name}" for name in ("report", "tasks")),
    *(f"cleaning.{name}" for name in ("plan", "decisions", "report")),
)
IMPURE = (
    *("io", "os", "pathlib", "random", "secrets", "shutil", "socket", "subprocess", "tempfile", "threading", "time"),
    *("pyarrow.csv", "pyarrow.dataset", "pyarrow.feather", "pyarrow.fs", "pyarrow.json", "pyarrow.orc"),
    *("pyarrow.parquet",),
)
# The exceptions, and why.
IMPURE_BUT = {("types.format_scalars", "threading"): "a counter of replaced bytes that threads of an export share"}

HEAVY = (
    "pyarrow",
    "numpy",
    "pyorc",
    "isal",
    "pyspark",
    "hdfs_native",
    "requests",
    "fsspec",
    "rich",
    "google",
    "thriftpy2",
)

# A file of more lines has two subjects; a function of more is two.
MOST_LINES, MOST_LINES_OF_A_FUNCTION, MOST_PARAMETERS = 700, 60, 8

# Why a package imports something inside of functions: what a command does not need it does not load.
LOADED_LATE = {
    ("api", "acidctl"): "`import acidctl` and `ls` know neither snapshots nor compaction and cleaning",
    ("cli", "acidctl.by_name"): "most commands name a path",
    ("cli", "acidctl.exporting"): "`snapshot --count` and `--files` show no rows",
    ("cli", "acidctl.metastore"): "most configurations name no metastore",
    ("cli", "acidctl.rows"): "`snapshot --count` and `--files` show no rows",
    ("cli", "acidctl.types"): "`snapshot --count` and `--files` show no rows",
    ("cli", "rich"): "progress is shown on terminals only",
    ("cli", "traceback"): "only --debug shows it",
    ("config", "tomllib"): "most runs have no configuration file",
    ("engine", "acidctl.engine"): "one engine runs",
    ("fileformats", "pyarrow.parquet"): "most tables are ORC",
    ("fileformats", "acidctl.fileformats"): "most tables are ORC, of which a file tells by itself",
    ("orc", "acidctl.orc.pyorc_files"): "only values that pyarrow would change are written by pyorc",
    ("orc", "isal"): "a package that need not be installed",
    ("orc", "pyarrow"): "tails are read without it",
    ("rows", "acidctl.fileformats"): "`ls` opens files only for --rows",
    ("rows", "acidctl.orc"): "`ls` opens files only for --rows and side files",
    ("rows", "acidctl.types"): "`ls` needs no types",
    ("rows", "concurrent"): "`ls` opens several files at once only where half of a compaction may be missing",
    ("rows", "pandas"): "only `to_pandas` needs it, and it need not be installed",
    ("spark", "acidctl.by_name"): "most tables are named by a path, and each query of Spark's loads this anew",
    ("storage", "concurrent"): "a single location needs no threads",
}

# Words that were ours alone; in names, messages and comments stands what a Hive administrator would say.
PRIVATE_WORDS = (
    *("aside", "books", "census", "gate", "ground", "grounds", "harvest", "harvested", "hazy", "meet", "meets"),
    *("said", "sieve", "somebody", "stock", "stocks", "surely", "told"),
)

# Names of modules below `acidctl`; what they hold is read only by the tests that run.
MODULES = {".".join(path.relative_to(PACKAGE).with_suffix("").parts): path for path in sorted(PACKAGE.rglob("*.py"))}


@cache
def _tree(module: str) -> ast.Module:
    return ast.parse(MODULES[module].read_text())


def _is_package(name: str) -> bool:
    return (ROOT / name.replace(".", "/")).is_dir()


def _imports(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Line and full name of everything imported, at any depth."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            if node.module.partition(".")[0] == "acidctl" and _is_package(node.module):
                yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)
            else:
                yield node.lineno, node.module
        elif isinstance(node, ast.ImportFrom):
            yield node.lineno, "." * node.level


def _targets(module: str) -> set[str]:
    """The modules that a module imports, or from which it imports something."""
    names = [name.removeprefix("acidctl.") for _, name in _imports_of(module) if name.startswith("acidctl.")]
    return {target for name in names for target in (name, name.rpartition(".")[0]) if target in MODULES} - {module}


@cache
def _imports_of(module: str) -> tuple[tuple[int, str], ...]:
    return tuple(_imports(_tree(module)))


def _package(module: str) -> str:
    return module.partition(".")[0]


def _within(module: str, places: tuple[str, ...]) -> bool:
    return module in places or _package(module) in places


def _outer(name: str) -> Iterator[str]:
    """The name itself and all packages around it."""
    while name:
        yield name
        name = name.rpartition(".")[0]


def package_imports() -> dict[str, set[str]]:
    """Which packages each package imports, at any depth; itself not counted."""
    found: dict[str, set[str]] = {_package(module): set() for module in MODULES}
    for module in MODULES:
        for _, name in _imports_of(module):
            target = _package(name.removeprefix("acidctl."))
            if name.startswith("acidctl.") and target in found and target != _package(module):
                found[_package(module)].add(target)
    return found


def test_imports_point_one_way() -> None:
    """A module imports its own package and those of earlier rows; a new package has to be given a row."""
    for module in MODULES:
        for line, name in _imports_of(module):
            assert not name.startswith("."), f"{module}:{line} uses a relative import"
            if not name.startswith("acidctl."):
                continue
            own, target = _package(module), _package(name.removeprefix("acidctl."))
            if target not in ("errors", own, "__version__"):
                assert RANK[target] < RANK[own], f"{module}:{line} imports {name}"
    assert set(RANK) == set(map(_package, MODULES))


def test_nothing_imports_itself_by_a_detour() -> None:
    """No circles between modules, not even inside of functions."""
    known = {module: _targets(module) for module in MODULES}
    done: set[str] = set()

    def visit(module: str, way: tuple[str, ...]) -> None:
        assert module not in way, " -> ".join([*way[way.index(module) :], module])
        if module not in done:
            for target in sorted(known[module]):
                visit(target, (*way, module))
            done.add(module)

    for module in MODULES:
        visit(module, ())


def test_libraries_stay_in_their_places() -> None:
    """Each library is known where it is needed, and nowhere else."""
    for module in MODULES:
        for line, name in _imports_of(module):
            if name.partition(".")[0] in (*sys.stdlib_module_names, "acidctl"):
                continue
            assert name.partition(".")[0] in ONLY_IN, f"{module}:{line} imports {name}"
            for outer in _outer(name):
                assert outer not in ONLY_IN or _within(module, ONLY_IN[outer]), f"{module}:{line} imports {name}"


def _impurities(module: str, tree: ast.Module) -> Iterator[str]:
    for line, name in _imports(tree):
        for outer in _outer(name):
            if outer in IMPURE and (module, outer) not in IMPURE_BUT:
                yield f"{module}:{line} imports {name}"


def test_what_decides_touches_nothing() -> None:
    """Formats, types, states and plans know no clock, no chance and no file."""
    assert [said for module in MODULES if _within(module, PURE) for said in _impurities(module, _tree(module))] == []
    assert {name for name in PURE if "." in name} <= set(MODULES)
    planted = ast.parse("def now() -> float:\n    import time\n    return time.time()")
    assert list(_impurities("state.resolve", planted)) == ["state.resolve:2 imports time"]


def test_only_the_command_line_prints() -> None:
    """No print at all: even the command line writes through its injected streams."""
    for module in MODULES:
        for node in ast.walk(_tree(module)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                assert node.func.id != "print", f"{module}:{node.lineno} prints"
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "sys":
                own = module in ("cli.output", "cli.process")
                assert node.attr not in ("stdout", "stderr") or own, f"{module}:{node.lineno}"


def test_files_stay_short() -> None:
    """One subject to a file, one thing to a function."""
    for name, path in MODULES.items():
        lines = path.read_text().count("\n")
        assert lines <= MOST_LINES, f"{name} has {lines} lines"
        for node in ast.walk(_tree(name)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                assert node.end_lineno is not None
                assert node.end_lineno - node.lineno < MOST_LINES_OF_A_FUNCTION, (
                    f"{name}:{node.lineno} {node.name} is long"
                )
                count = (
                    len(node.args.args)
                    + len(node.args.kwonlyargs)
                    - (node.args.args[:1] != [] and node.args.args[0].arg in ("self", "cls"))
                )
                assert count <= MOST_PARAMETERS, f"{name}:{node.lineno} {node.name} has {count} parameters"


def _late_imports(module: str) -> set[tuple[int, str]]:
    """Line and full name of what functions import, those within functions too."""
    functions = (node for node in ast.walk(_tree(module)) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return {found for function in functions for found in _imports(ast.Module(function.body, []))}


def test_a_module_shows_at_its_top_what_it_needs() -> None:
    """Imports inside functions have a reason each."""
    late = {(module, line, name) for module in MODULES for line, name in _late_imports(module)}
    for module, line, name in late:
        found = {(_package(module), outer) for outer in _outer(name)} & LOADED_LATE.keys()
        assert found, f"{module}:{line} imports {name}"


def test_tests_replace_no_private_name() -> None:
    """What a test has to set is an argument, or a name for all."""
    private = re.compile(r"""setattr\(\s*([\w.]+,\s*"_[a-zA-Z]\w*"|"[\w.]+\._[a-zA-Z]\w*")""")
    found = []
    for path in sorted((ROOT / "tests").rglob("*.py")):
        found += [f"{path.relative_to(ROOT)}: {match[1]}" for match in private.finditer(path.read_text())]
    assert found == []


def _words(text: str) -> list[str]:
    """All words in lower case, those within names too."""
    return re.findall(r"[a-z]+", re.sub(r"([a-z])([A-Z])", r"\1 \2", text).lower())


def test_names_and_messages_are_plain_english() -> None:
    """No private vocabulary."""
    for module, path in MODULES.items():
        assert set(PRIVATE_WORDS).isdisjoint(_words(path.read_text())), module


def _loaded(code: str, *args: str) -> set[str]:
    """Top-level names of the packages that a fresh interpreter has loaded after `code`."""
    script = (
        "import sys\nsys.argv = ['acidctl', *sys.argv[1:]]\n"
        f"try:\n    {code}\nexcept SystemExit:\n    pass\n"
        "sys.stderr.write('LOADED ' + ' '.join(sorted({name.partition('.')[0] for name in sys.modules})))"
    )
    done = subprocess.run([sys.executable, "-c", script, *args], capture_output=True, text=True, timeout=60, check=True)
    return set(done.stderr.rpartition("LOADED ")[2].split())


RUN = "from acidctl.cli.main import run; run(sys.argv[1:])"


@pytest.mark.slow
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
        (RUN, ("ls", "TABLE", "--rows")),
        (RUN, ("ls", "/no/such/table")),
        (RUN, ("snapshot", "TABLE", "--files")),
        (RUN, ("snapshot", str(ROOT / "fixtures/tables/hive4/unbucketed/01-inserted/table"), "--count")),
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
