"""Inspect and maintain Hive ACID table directories, without Hive."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from acidctl.errors import AcidctlError, ExitCode

if TYPE_CHECKING:
    from acidctl.api import CleanArguments, CompactArguments, Table, compact, ls_names
    from acidctl.by_name import Metastore, NamedTable
    from acidctl.cleaning.plan import CleanPlan
    from acidctl.cleaning.report import CleanedEntry, CleanedLocation, CleanReport
    from acidctl.cleaning.run import CleanRun
    from acidctl.compaction.plan import CompactionPlan
    from acidctl.compaction.report import CompactionReport, PartitionReport
    from acidctl.compaction.run import Prepared
    from acidctl.exporting.run import ExportReport
    from acidctl.findings import AcidctlWarning, Finding
    from acidctl.metastore.catalog import Lists, TableInfo
    from acidctl.metastore.settings import MetastoreSettings
    from acidctl.options import (
        ChangeOptions,
        CleanOptions,
        CompactOptions,
        ExportOptions,
        LsOptions,
        ReadView,
        SnapshotOptions,
    )
    from acidctl.rows.file_report import DataFile, read_file
    from acidctl.rows.snapshot import Snapshot
    from acidctl.state.report import LsEntry, LsReport

__version__ = "0.1.0"

__all__ = [
    "AcidctlError",
    "AcidctlWarning",
    "ChangeOptions",
    "CleanArguments",
    "CleanOptions",
    "CleanPlan",
    "CleanReport",
    "CleanRun",
    "CleanedEntry",
    "CleanedLocation",
    "CompactArguments",
    "CompactOptions",
    "CompactionPlan",
    "CompactionReport",
    "DataFile",
    "ExitCode",
    "ExportOptions",
    "ExportReport",
    "Finding",
    "Lists",
    "LsEntry",
    "LsOptions",
    "LsReport",
    "Metastore",
    "MetastoreSettings",
    "NamedTable",
    "PartitionReport",
    "Prepared",
    "ReadView",
    "Snapshot",
    "SnapshotOptions",
    "Table",
    "TableInfo",
    "__version__",
    "compact",
    "ls_names",
    "open_table",
    "read_file",
]

# Where each of them is; its module is loaded on first use, so that `import acidctl` stays quick.
_MODULES = {
    "acidctl.api": "CleanArguments CompactArguments Table compact ls_names",
    "acidctl.by_name": "Metastore NamedTable",
    "acidctl.cleaning.plan": "CleanPlan",
    "acidctl.cleaning.report": "CleanReport CleanedEntry CleanedLocation",
    "acidctl.cleaning.run": "CleanRun",
    "acidctl.compaction.plan": "CompactionPlan",
    "acidctl.compaction.report": "CompactionReport PartitionReport",
    "acidctl.compaction.run": "Prepared",
    "acidctl.findings": "AcidctlWarning Finding",
    "acidctl.metastore.catalog": "Lists TableInfo",
    "acidctl.metastore.settings": "MetastoreSettings",
    "acidctl.exporting.run": "ExportReport",
    "acidctl.options": "ChangeOptions CleanOptions CompactOptions ExportOptions LsOptions ReadView SnapshotOptions",
    "acidctl.rows.file_report": "DataFile read_file",
    "acidctl.rows.snapshot": "Snapshot",
    "acidctl.state.report": "LsEntry LsReport",
}


def open_table(url: str, *, storage_options: Mapping[str, Any] | None = None) -> Table:
    """A table or partition directory by path or URL; nothing is listed yet.

    `thrift://host:9083/db.table` is a table of a metastore, which is asked for it; see `Metastore.table`.
    """
    module = importlib.import_module("acidctl.by_name" if url.startswith("thrift://") else "acidctl.api")
    table: Table = module.open_table(url, storage_options=storage_options)
    return table


def __getattr__(name: str) -> object:
    """A public name of another module."""
    for module, names in _MODULES.items():
        if name in names.split():
            return getattr(importlib.import_module(module), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
