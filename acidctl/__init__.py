"""Inspect and maintain Hive ACID table directories, without Hive."""

from __future__ import annotations

from typing import TYPE_CHECKING

from acidctl.errors import AcidctlError, ExitCode

if TYPE_CHECKING:
    from acidctl.table import LsReport, Table, compact, open_table

__version__ = "0.1.0"
__all__ = ["AcidctlError", "ExitCode", "LsReport", "Table", "__version__", "compact", "open_table"]

_LAZY = frozenset({"LsReport", "Table", "compact", "open_table"})


def __getattr__(name: str) -> object:
    """Load the table module on first use, so that `import acidctl` stays quick."""
    if name in _LAZY:
        from acidctl import table

        return getattr(table, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
