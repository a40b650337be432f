"""The real orc-tools, fetched through Maven, and small Java programs beside it: the judges of what Java prints."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from tests import ROOT
from tests.services.jvm import cache_folder, cache_lock, fingerprint, resolve

_JAVA = Path(__file__).parent / "java"
#: What orc-tools prints after each file.
SEPARATOR = b"_" * 120 + b"\n\n"
# Quick to start: each run is short.
_LEAN = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")


@cache
def jar() -> Path:
    """The orc-tools uber jar in the local Maven cache."""
    return next(path for path in resolve(_JAVA / "pom.xml") if path.name.endswith("-uber.jar"))


@cache
def classes() -> Path:
    """The compiled test programs; compiled anew when a source changes."""
    sources = sorted(_JAVA.glob("*.java"))
    target = cache_folder() / "classes" / f"orctools-{fingerprint(sources, str(jar()))}"
    with cache_lock("classes-orctools"):
        if not target.exists():
            target.mkdir(parents=True)
            command = ["javac", "-encoding", "UTF-8", "-cp", str(jar()), "-d", str(target), *map(str, sources)]
            subprocess.run(command, check=True, capture_output=True)
    return target


def orc_tools(*arguments: str | Path) -> bytes:
    """What `orc-tools ARGUMENTS` writes to stdout, in UTC."""
    command = ["java", *_LEAN, "-jar", str(jar()), *map(str, arguments)]
    environment = {**os.environ, "TZ": "UTC"}
    return subprocess.run(command, check=True, capture_output=True, env=environment).stdout


def program(name: str, *arguments: str | Path, stdin: bytes = b"") -> bytes:
    """Run one of the test programs in UTC."""
    classpath = os.pathsep.join(map(str, (classes(), jar())))
    command = ["java", *_LEAN, "-cp", classpath, name, *map(str, arguments)]
    environment = {**os.environ, "TZ": "UTC"}
    return subprocess.run(command, check=True, capture_output=True, input=stdin, env=environment).stdout


@cache
def edge_files() -> tuple[Path, ...]:
    """Files with the values that break readers, written by ORC's own Java writer."""
    folder = cache_folder() / "edge-files" / classes().name
    with cache_lock("edge-files"):
        if not folder.exists():
            folder.mkdir(parents=True)
            program("EdgeFiles", folder)
    return tuple(sorted(folder.glob("*.orc")))


def fixture_files() -> tuple[Path, ...]:
    """Every different data file of the recorded tables, one path for each content."""
    tables = ROOT / "fixtures" / "tables"
    found: dict[bytes, Path] = {}
    for path in sorted(tables.glob("*/*/*/table/**/*")):
        if path.name.startswith(("_", ".")) or path.name.endswith("_flush_length") or not path.is_file():
            continue
        content = path.read_bytes()
        side = path.with_name(path.name + "_flush_length")
        if content.startswith(b"ORC"):
            found.setdefault(content + (side.read_bytes() if side.exists() else b""), path)
    return tuple(sorted(found.values()))


def by_width(files: Sequence[Path], width: dict[Path, int]) -> list[list[Path]]:
    """The files in groups of one number of columns: `orc-tools meta -r *` takes that of the first file for all."""
    groups: dict[int, list[Path]] = {}
    for file in files:
        groups.setdefault(width[file], []).append(file)
    return list(groups.values())
