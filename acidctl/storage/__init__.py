"""Where tables lie: one port, its adapters, and the walk that makes listings."""

from __future__ import annotations
