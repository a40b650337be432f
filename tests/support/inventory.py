"""What acidctl promises to scripts, as one JSON text: two of them, of two checkouts, show what a change lost.

    python tests/support/inventory.py CHECKOUT > before.json         # this interpreter needs acidctl's packages
    python tests/support/inventory.py --compare before.json after.json

Asked is the program itself, not its source: click for commands and options, the answers over fixture tables for fields
and codes, the storages for schemes. Only codes that no fixture shows are taken from the source: every constant that
looks like one.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests import ROOT

FIXTURES = ROOT / "fixtures" / "tables"
STEPS = (
    "hive4/demo_orders/03-demo",
    "hive4/partitioned/02-changed",
    "hive4/insert_only/02-aborted",
    "hive3/open_aborted/01-open",
    "hive2/v1_bucketed/02-changed",
    "hive4/types_nested/01-written",
)
URLS = (
    *("/t", "file:///t", "hdfs://127.0.0.1:1/t", "webhdfs://127.0.0.1:1/t", "swebhdfs://127.0.0.1:1/t"),
    "s3://b/t",
    "s3a://b/t",
    "gs://b/t",
    "abfs://c@a/t",
    "memory://t",
    "http://127.0.0.1:1/t",
    "ftp://127.0.0.1:1/t",
)
_CODE = re.compile(r"[a-z][a-z0-9]*(?:_[a-z0-9]+)+")


def commands() -> dict[str, Any]:
    """Every command with its options as click knows them, and the exit codes that its help lists."""
    import click

    from acidctl.cli.main import cli

    found: dict[str, Any] = {}
    group = click.Context(cli, info_name="acidctl", terminal_width=100, help_option_names=["-h", "--help"])
    for name in ("", *cli.list_commands(group)):
        command = cli if not name else cli.get_command(group, name)
        assert command is not None
        context = click.Context(command, info_name=name, parent=group)
        text = command.get_help(context)
        options = {}
        for option in command.to_info_dict(context)["params"]:
            kept = ("opts", "secondary_opts", "required", "multiple", "nargs", "is_flag", "hidden", "envvar")
            options[option["name"]] = {
                **{key: option.get(key) for key in kept},
                "type": option["type"].get("choices") or option["type"]["param_type"],
                "default": repr(option.get("default")),
            }
        codes = sorted(set(re.findall(r"^\s+(\d{1,3})\s{2,}", text, re.MULTILINE)), key=int)
        found[name or "acidctl"] = {"options": options, "exit_codes": codes}
    return found


def answers() -> dict[str, list[str]]:
    """Paths of the fields of every JSON answer, columns of every CSV one, and the codes that stood in them."""
    fields: dict[str, set[str]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for number, step in enumerate(STEPS):
            path = next(iter(sorted(FIXTURES.glob(step))), None) or sorted(FIXTURES.glob(f"{Path(step).parent}/*"))[0]
            table = Path(folder) / str(number)
            shutil.copytree(path / "table", table)
            facts = json.loads((path / "step.json").read_text())
            lists = [o for key in ("valid_write_ids", "valid_txns") if facts[key] for o in ("--validtxns", facts[key])]
            lists += ["--table", facts["table"]] if facts["valid_write_ids"] else []
            lists += ["--list-format", "hive2"] if facts["engine"] == "hive2" else []
            _ask(fields, table, lists)
    return {key: sorted(value) for key, value in sorted(fields.items())}


def _ask(fields: dict[str, set[str]], table: Path, lists: list[str]) -> None:
    file = next(path for path in sorted(table.rglob("[b0]*_0*")) if path.is_file() and not path.suffix)
    compact = ["compact", "major", str(table), *lists, "--assume-exclusive", "--engine", "local"]
    ways = [
        ["ls", str(table), *lists, "--rows", "-l"],
        ["ls", str(table), *lists, "--by-partition"],
        ["snapshot", str(table), *lists, "--files"],
        ["snapshot", str(table), *lists, "--count", "--digest"],
        ["snapshot", str(table), *lists, "--count", "--by-partition"],
        ["dump", str(file)],
        ["decode-bucket", "536870912", "base_0000005_v12", "bucket_00001_0", "_acidctl_lock"],
        [*compact, "-n"],
        compact,
        ["clean", str(table), *lists, "--older-than", "0s", "--unsafe-no-retention"],
        ["clean", str(table), *lists, "--unsafe-no-retention", "--delete", "--yes"],
        ["snapshot", str(table.parent / "none")],
    ]
    for way in ways:
        name = " ".join([way[0], *(word for word in way[1:] if word.isalpha() or word.startswith("-"))])
        name = re.sub(r" ?--(validtxns|list-format)| hive2", "", name)
        result = subprocess.run(
            [sys.executable, "-m", "acidctl", *way, "-o", "json"], capture_output=True, text=True, check=False
        )
        kept = fields.setdefault(f"{name} -o json", set())
        kept.add(f"exit {result.returncode}")
        for text in (result.stdout, result.stderr.strip().split("\n")[-1]):
            try:
                _walk(json.loads(text), "", kept)
            except ValueError:
                continue
        if "--delete" in way or way is compact:
            continue
        result = subprocess.run(
            [sys.executable, "-m", "acidctl", *way, "-o", "csv"], capture_output=True, text=True, check=False
        )
        fields.setdefault(f"{name} -o csv", set()).update(result.stdout.split("\n", 1)[0].split(","))


def _walk(value: Any, path: str, found: set[str]) -> None:
    if isinstance(value, dict):
        for key, inner in value.items():
            _walk(inner, f"{path}.{key}" if path else key, found)
    elif isinstance(value, list):
        for inner in value:
            _walk(inner, f"{path}[]", found)
    else:
        found.add(f"{path}: {type(value).__name__}")
        if path.rpartition(".")[2] in ("reason_code", "code", "outcome", "state", "kind", "type", "guard"):
            found.add(f"{path} = {value}")


def storages() -> dict[str, str]:
    """What answers for each scheme: the class that was chosen, or the error."""
    from acidctl.storage.resolve import resolve

    found = {}
    for url in URLS:
        try:
            found[url.partition(":")[0]] = "opens" if resolve(url, None) else ""
        except Exception as error:
            found[url.partition(":")[0]] = type(error).__name__
    return found


def constants(package: Path) -> list[str]:
    """Every text in the source that has the form of a code: `write_open`, `max_runtime`, also names of fields."""
    found = set()
    for file in package.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and _CODE.fullmatch(node.value):
                found.add(node.value)
    return sorted(found)


def inventory(checkout: Path) -> dict[str, Any]:
    """All of it, of the package in `checkout`."""
    from acidctl import errors

    return {
        "commands": commands(),
        "exit_codes": {code.name: int(code) for code in errors.ExitCode},
        "error_codes": sorted({getattr(kind, "code", "") for kind in _errors(errors.AcidctlError)} - {""}),
        "public": sorted(__import__("acidctl").__all__),
        "answers": answers(),
        "storages": storages(),
        "constants": constants(checkout / "acidctl"),
    }


def _errors(kind: type[BaseException]) -> list[type[BaseException]]:
    return [kind, *(found for sub in kind.__subclasses__() for found in _errors(sub))]


def compare(before: Any, after: Any, path: str = "") -> list[str]:
    """A line for each thing that is gone, new or other."""
    if isinstance(before, dict) and isinstance(after, dict):
        lines = []
        for key in sorted({*before, *after}):
            where = f"{path}/{key}"
            if key not in after:
                lines.append(f"- {where}")
            elif key not in before:
                lines.append(f"+ {where}")
            else:
                lines += compare(before[key], after[key], where)
        return lines
    if isinstance(before, list) and isinstance(after, list):
        gone, new = ([x for x in one if x not in other] for one, other in ((before, after), (after, before)))
        return [*(f"- {path}: {x}" for x in gone), *(f"+ {path}: {x}" for x in new)]
    return [] if before == after else [f"! {path}: {before!r} -> {after!r}"]


def main() -> None:
    """Print an inventory, or what differs between two."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("checkout", nargs="?", type=Path, default=Path())
    parser.add_argument("--compare", nargs=2, type=Path, metavar=("BEFORE", "AFTER"))
    args = parser.parse_args()
    if args.compare:
        print("\n".join(compare(*(json.loads(path.read_text()) for path in args.compare))))
        return
    checkout = args.checkout.resolve()
    sys.path.insert(0, str(checkout))
    os.environ["PYTHONPATH"] = str(checkout)
    json.dump(inventory(checkout), sys.stdout, indent=1, sort_keys=True)


if __name__ == "__main__":
    main()
