"""Inspect and maintain Hive ACID table directories, without Hive."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from acidctl.errors import AcidctlError, ExitCode

if TYPE_CHECKING:
    from acidctl.api import LsReport, Table, compact, open_table
    from acidctl.compaction.report import CompactionReport

__version__ = "0.1.0"
__all__ = [
    "AcidctlError",
    "CompactionReport",
    "ExitCode",
    "LsReport",
    "Table",
    "__version__",
    "compact",
    "open_table",
]

_LAZY = {
    "CompactionReport": "acidctl.compaction.report",
    "LsReport": "acidctl.api",
    "Table": "acidctl.api",
    "compact": "acidctl.api",
    "open_table": "acidctl.api",
}


def __getattr__(name: str) -> object:
    """Load a module on first use, so that `import acidctl` stays quick."""
    if name in _LAZY:
        return getattr(importlib.import_module(_LAZY[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
