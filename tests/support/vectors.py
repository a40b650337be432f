"""The test vectors under fixtures/states, one dictionary per case, and listings written as lists of paths."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from acidctl.format.listing import FileInfo, Listing
from tests import ROOT

STATES = ROOT / "fixtures" / "states"


def load(name: str) -> list[dict[str, Any]]:
    """All cases of `cases-<name>.jsonl`, in file order."""
    lines = (STATES / f"cases-{name}.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines if line.strip()]


@contextmanager
def named(name: object) -> Iterator[None]:
    """Whatever fails within says for which case: many cases are one test."""
    try:
        yield
    except BaseException as error:
        error.add_note(f"in {name}")
        raise


def listing_of(
    paths: Iterable[str], sizes: Mapping[str, int] | None = None, markers: Mapping[str, bytes] | None = None
) -> Listing:
    """A listing of files of one byte, unless `sizes` says otherwise; a trailing `/` is an empty directory."""
    directories: set[str] = set()
    files = []
    for path in paths:
        parts = path.rstrip("/").split("/")
        depth = len(parts) + 1 if path.endswith("/") else len(parts)
        directories.update("/".join(parts[:end]) for end in range(1, depth))
        if not path.endswith("/"):
            files.append(FileInfo(path, (sizes or {}).get(path, 1)))
    return Listing("/t", tuple(files), tuple(sorted(directories)), dict(markers or {}))


def vector_listing(case: Mapping[str, Any]) -> Listing:
    """The listing a state vector describes."""
    items = [item if isinstance(item, dict) else {"path": item} for item in case["paths"]]
    sizes = {item["path"]: item["size"] for item in items if "size" in item}
    markers = {item["path"]: item["content"].encode() for item in items if "content" in item}
    return listing_of([item["path"] for item in items], sizes, markers)
