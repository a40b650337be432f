"""A listing that somebody made elsewhere, as text: names, one a line, or what `hdfs dfs -ls -R` prints.

It stands in for a storage where acidctl cannot reach one. Nothing can be opened, so markers count as unread.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass

from acidctl.errors import UsageError
from acidctl.format.listing import FileInfo
from acidctl.format.names import ACID_PREFIXES
from acidctl.storage.locations import is_partition_folder
from acidctl.storage.port import Walk

# permissions, replication, owner, group, size, date, time, path; a path may hold blanks.
_HDFS_LINE = re.compile(
    r"([-dl])[-rwxsStT]{9}[+.]?\s+(?:-|\d+)\s+\S+\s+\S+\s+(\d+)\s+(\d{4}-\d\d-\d\d \d\d:\d\d)\s(.*)"
)
_HDFS_COUNT = re.compile(r"Found \d+ items?")
_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]*://[^/]*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class PreparedListing:
    """The root that the names are relative to, what was listed, and whether the text told sizes."""

    root: str
    found: Walk
    sizes: bool


@dataclass(frozen=True, slots=True)
class _Line:
    path: str
    is_directory: bool
    size: int = 0
    modified: float | None = None


def parse_listing(text: str, root: str | None = None) -> PreparedListing:
    """Read the text; without `root`, absolute paths are cut before the first partition or ACID directory."""
    lines: list[_Line] = []
    sizes = False
    for raw in text.split("\n"):
        if not raw.strip() or _HDFS_COUNT.fullmatch(raw.strip()):
            continue
        match = _HDFS_LINE.fullmatch(raw.rstrip("\r"))
        if match is None:
            lines.append(_plain(raw.rstrip("\r")))
            continue
        kind, size, modified, path = match.groups()
        sizes = True
        lines.append(_Line(_ADDRESS.sub("", path, count=1), kind == "d", int(size), _seconds(modified)))
    if not lines:
        raise UsageError("the listing given with --names is empty", hint="An empty table has no names to give.")
    base = _ADDRESS.sub("", root.rstrip("/") or "/", count=1) if root is not None else _common_root(lines)
    files: dict[str, FileInfo] = {}
    directories: set[str] = set()
    for line in lines:
        path = _relative(line.path, base)
        if line.is_directory:
            directories.add(path)
        else:
            # A name without a size is taken as a file with content: readers pass over empty ones.
            files[path] = FileInfo(path, line.size if sizes else 1, line.modified)
        parent = path.rpartition("/")[0]
        while parent:
            directories.add(parent)
            parent = parent.rpartition("/")[0]
    directories.discard("")
    found = Walk(tuple(files[path] for path in sorted(files)), tuple(sorted(directories)))
    return PreparedListing(root if root is not None else base, found, sizes)


def _seconds(local_time: str) -> float | None:
    """The client prints its local time, and this is most likely the same machine; None for what is no time."""
    try:
        return time.mktime(time.strptime(local_time, "%Y-%m-%d %H:%M"))
    except (ValueError, OverflowError):
        return None


def _plain(text: str) -> _Line:
    """A trailing slash, an ACID prefix or `key=value` makes a directory of a name."""
    path = _ADDRESS.sub("", text, count=1).removeprefix("./")
    last = path.rstrip("/").rpartition("/")[2]
    is_directory = path.endswith("/") or last.startswith(ACID_PREFIXES) or is_partition_folder(last)
    return _Line(path.rstrip("/"), is_directory)


def _common_root(lines: list[_Line]) -> str:
    """The directory that all absolute paths share, ending before the first partition or ACID directory."""
    if not lines[0].path.startswith("/"):
        return ""
    shared: list[str] | None = None
    for line in lines:
        parts = line.path.split("/")
        for index, part in enumerate(parts):
            if part.startswith(ACID_PREFIXES) or is_partition_folder(part):
                parts = parts[:index]
                break
        else:
            parts = parts[:-1]
        if shared is None:
            shared = parts
        else:
            same = [first == second for first, second in zip(shared, parts, strict=False)]
            shared = shared[: same.index(False) if False in same else len(same)]
    return "/".join(shared or []) or "/"


def _relative(path: str, base: str) -> str:
    if base and path == base:
        return ""
    inside = base if base.endswith("/") else f"{base}/"
    if base and path.startswith(inside):
        return path[len(inside) :]
    if path.startswith("/"):
        raise UsageError(
            f"{path} in the listing does not lie below {base or 'one common directory'}",
            hint="Give the table's directory as TABLE, exactly as the listing has it.",
        )
    return path
