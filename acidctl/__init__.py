"""Inspect and maintain Hive ACID table directories, without Hive."""

from __future__ import annotations

__version__ = "0.1.0"
