"""A Python with the PySpark that Iceberg's newest runtime is made for: an environment of its own, in the cache."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

from tests import ROOT

from .jvm import cache_folder, cache_lock, jars, resolve
from .processes import ServiceError

PYSPARK = "4.1.4"


def iceberg_jar() -> Path:
    """Iceberg's Spark runtime, by Maven the first time."""
    (jar,) = jars(resolve(Path(__file__).parent / "iceberg" / "pom.xml"))
    return jar


def iceberg_python() -> Path:
    """The interpreter of an environment with that PySpark and what acidctl needs, but not acidctl."""
    folder = cache_folder() / f"pyspark-{PYSPARK}"
    with cache_lock(folder.name):
        if not folder.exists():
            pending = folder.with_name(f"{folder.name}.new")
            shutil.rmtree(pending, ignore_errors=True)
            needed = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
            _run(sys.executable, "-m", "venv", str(pending))
            _run(str(pending / "bin" / "python"), "-m", "pip", "install", "-q", f"pyspark=={PYSPARK}", *needed)
            pending.rename(folder)
    return folder / "bin" / "python"


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ServiceError(f"{' '.join(command)}: {(done.stdout + done.stderr)[-2000:]}")
