"""One walk over a table, cut into the listings of its locations.

A location is what Hive calls `getAcidState` on: the table directory, or one partition directory. Partitions
are the `key=value` folders at the top of the tree, at any depth; below the first folder that is none,
everything belongs to the location (so list-bucketing folders inside a delta stay there). Data beside
partition folders is a *stray* location: Hive reads registered partitions only, so it is shown and never read.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from itertools import takewhile
from typing import NamedTuple

from acidctl.errors import AcidctlError, NoSuchTableError, NotAcidTableError, StorageError, UsageError
from acidctl.format.listing import FileInfo, Listing
from acidctl.format.names import (
    ACID_PREFIXES,
    JOURNAL_NAME,
    LOCK_NAME,
    METADATA_MARKER,
    VERSION_MARKER,
    WORK_PREFIX,
    BaseDir,
    BucketFile,
    DeltaDir,
    OriginalFile,
    is_hidden,
    is_hidden_to_hive,
    is_journal,
    is_marker,
    parse_directory,
    parse_file,
    parse_partition,
)
from acidctl.storage.local import LocalStorage, whole_path
from acidctl.storage.port import Storage, Walk, join

# Both markers are a few bytes; a larger file of that name is read in part and then refused by whoever parses
# it.
_MARKER_LIMIT = 4096
# Journals name every input file; one that is larger is none of ours.
_JOURNAL_LIMIT = 64 << 20
# How many markers are read at a time from a storage on which each costs a request.
_READERS = 16
# How often a location is listed where a compaction or a cleaner changed it meanwhile.
_LISTINGS = 3


class Location(NamedTuple):
    """A place that holds an ACID state; `partition` is the on-disk text (`ds=1/hr=2`), "" for a table."""

    partition: str
    listing: Listing
    stray: bool = False

    @property
    def prefix(self) -> str:
        """What a sentence about this place begins with: `ds=1/hr=2: `, "" for a table."""
        return f"{self.partition}: " if self.partition else ""


class PartitionFilter(NamedTuple):
    """Conditions on partition keys, all of which have to hold; the case of keys does not matter."""

    text: str
    conditions: Mapping[str, re.Pattern[str]]

    def allows(self, pairs: Sequence[tuple[str, str | None, str]]) -> bool:
        """False when one of these (key, value, on-disk value) contradicts a condition."""
        return all(
            any(text is not None and self.conditions[key].fullmatch(text) for text in (on_disk, value))
            for key, value, on_disk in pairs
            if key in self.conditions
        )

    def selects(self, pairs: Sequence[tuple[str, str | None, str]]) -> bool:
        """True when every condition is met by one of the pairs."""
        return self.conditions.keys() <= {key for key, _, _ in pairs} and self.allows(pairs)

    def selects_text(self, partition: str) -> bool:
        """The same of the text on disk, `ds=1/hr=2`."""
        return self.selects(_pairs(partition))


def parse_filter(text: str) -> PartitionFilter:
    """`ds=2026-01-*/hr=7`: values as users or as Hive writes them; only `*` and `?` are special."""
    conditions: dict[str, re.Pattern[str]] = {}
    for part in text.strip("/").split("/"):
        key, equals, value = part.partition("=")
        if not key or not equals:
            raise UsageError(f"--partition {text!r} is not of the form key=value[/key=value]")
        pattern = re.escape(value).replace(r"\*", ".*").replace(r"\?", ".")
        conditions[key.lower()] = re.compile(pattern, re.DOTALL)
    return PartitionFilter(text, conditions)


def is_partition_folder(name: str) -> bool:
    """True for `key=value`; hidden names and Hive's temporary prefixes never are."""
    return name.find("=") > 0 and not is_hidden(name)


def own_partition(root: str) -> str:
    """The partition text that a path ends with: `ds=1/hr=2` for `/w/t/ds=1/hr=2`, "" for a table."""
    partition: list[str] = []
    for part in takewhile(is_partition_folder, reversed(root.rstrip("/").split("/"))):
        partition.insert(0, part)
    return "/".join(partition)


def gather(
    storage: Storage, root: str, partitions: Sequence[str] = (), *, locked: bool = False
) -> tuple[Location, ...]:
    """List a table or partition directory: its locations in path order, narrowed to those a filter selects.

    Without filters at least one location comes back: an empty directory is an empty table. Filters that
    select nothing are a `NoSuchTableError` that names what there is. `locked` says that the caller holds the lock, so
    that no compaction but its own can end while the listing is made.
    """
    filters = [parse_filter(text) for text in partitions]
    whole = whole_path(storage, root)
    _require_no_part(whole, storage.display(root))
    prefix = own_partition(whole)
    descend = _descend(prefix, filters) if filters else None
    for tries_left in reversed(range(_LISTINGS)):
        walk = storage.walk(root, descend)
        try:
            locations = _with_markers(storage, locate(walk, root, filters, prefix=prefix))
        except _MarkerGoneError as error:
            if tries_left:
                continue
            raise error.args[0] from error
        if locked:
            break
        if not storage.facts.atomic_rename and any(_went_on(storage, location.listing) for location in locations):
            if tries_left:
                continue
            raise StorageError(
                f"{storage.display(root)} keeps changing while it is listed",
                path=storage.display(root),
                hint="A compaction is running; run the command again.",
            )
        if not any(_ended_meanwhile(location.listing) for location in locations):
            break
    if not locations:
        raise no_partition(storage.display(root), filters)
    return locations


def no_partition(shown: str, filters: Sequence[PartitionFilter]) -> NoSuchTableError:
    """None of a table's partitions matches."""
    given = " or ".join(repr(item.text) for item in filters)
    hint = "`acidctl ls --by-partition` lists the partitions."
    return NoSuchTableError(f"{shown} has no partition that matches {given}", path=shown, hint=hint)


def locate(
    walk: Walk, root: str, filters: Sequence[PartitionFilter] = (), *, prefix: str | None = None
) -> tuple[Location, ...]:
    """Cut a finished walk into locations, whose markers count as unread.

    `prefix` is the partition that `root` itself is, where its path does not show it.
    """
    prefix = own_partition(root) if prefix is None else prefix
    tops = _split(walk)
    parents = {_parent(top) for top in tops if top}
    locations: list[Location] = []
    for top, (files, directories, links, special) in sorted(tops.items()):
        stray = top in parents
        # A folder that only holds partitions is not a location; a leaf is one even when it is empty.
        if stray and (filters or not (files or directories)):
            continue
        partition = f"{prefix}/{top}" if prefix and top else prefix or top
        if filters and not any(item.selects_text(partition) for item in filters):
            continue
        listing = Listing(join(root, top), tuple(files), tuple(directories), links=links, special=special)
        locations.append(Location(partition, listing, stray))
    return tuple(locations)


def _require_no_part(whole: str, shown: str) -> None:
    """Refuse what lies inside a base or delta: there deletes would be missing, and row ids be wrong."""
    parts = whole.rstrip("/").split("/")
    for i, part in enumerate(parts):
        # Hive's own folders for databases end so, and below them any name may be a table's.
        if isinstance(parse_directory(part), BaseDir | DeltaDir) and not parts[i - 1].endswith(".db"):
            table = "/".join(parts[:i]) or "/"
            where = "is inside" if i + 1 < len(parts) else "is"
            raise NotAcidTableError(
                f"{shown} is not a table: it {where} the directory {part} of one",
                path=shown,
                hint=f"Give the table or partition, such as {table}; `acidctl dump` looks into single directories.",
            )


def _descend(prefix: str, filters: Sequence[PartitionFilter]) -> Callable[[str], bool]:
    """Do not enter partitions that every filter excludes: on a large table that is most of the walk."""

    def wanted(relative: str) -> bool:
        top, rest = _cut(relative)
        if rest:
            return True
        pairs = _pairs(f"{prefix}/{top}" if prefix else top)
        return any(item.allows(pairs) for item in filters)

    return wanted


def _split(walk: Walk) -> dict[str, tuple[list[FileInfo], list[str], dict[str, str], dict[str, str]]]:
    """Partition path -> files, directories, links and special files in it, by paths relative to it.

    The root is always there. Links and special files are rare.
    """
    tops: dict[str, tuple[list[FileInfo], list[str], dict[str, str], dict[str, str]]] = {"": ([], [], {}, {})}
    for directory in walk.directories:
        top, rest = _cut(directory)
        if top not in tops:
            tops[top] = ([], [], {}, {})
        if rest:
            tops[top][1].append(rest)
    for info in walk.files:
        top, rest = _cut_file(info.path)
        tops[top][0].append(FileInfo(rest, info.size, info.modified) if top else info)
    for path, kind in walk.special.items():
        top, rest = _cut_file(path)
        tops[top][3][rest] = kind
    directories = set(walk.directories) if walk.links else set()
    for path, target in walk.links.items():
        top, rest = _cut(path) if path in directories else _cut_file(path)
        if rest:
            tops[top][2][rest] = target
            continue
        # A link in the place of a partition folder: all partitions below it are reached by it.
        for below in tops:
            if below == top or below.startswith(top + "/"):
                tops[below][2][""] = target + below[len(top) :]
    return tops


def _cut_file(path: str) -> tuple[str, str]:
    """A file's path cut after its leading partition folders."""
    top = _cut(_parent(path))[0]
    return top, path[len(top) + 1 :] if top else path


@lru_cache(maxsize=4096)
def _cut(directory: str) -> tuple[str, str]:
    """A directory's path cut after its leading partition folders."""
    start = 0
    while start < len(directory):
        end = directory.find("/", start)
        end = len(directory) if end < 0 else end
        if not is_partition_folder(directory[start:end]):
            break
        start = end + 1
    return directory[: max(start - 1, 0)], directory[start:]


def _parent(path: str) -> str:
    return path.rpartition("/")[0]


def _pairs(partition: str) -> list[tuple[str, str | None, str]]:
    on_disk = [part.partition("=")[2] for part in partition.split("/")] if partition else []
    return [(key.lower(), value, text) for (key, value), text in zip(parse_partition(partition), on_disk, strict=True)]


class _MarkerGoneError(Exception):
    """A marker or journal that was listed is not there any more; its argument is what reading it raised."""


def _ended_meanwhile(listing: Listing) -> bool:
    """Whether a compaction may have published and left while the listing was made, so that it shows half of it.

    Then the lock was there first and the work directory, which loses `attempts` before its journal, was not there
    later. It also looks so for a moment when a run begins, and after a run that was killed then.
    """
    if not any(info.path == LOCK_NAME for info in listing.files):
        return False
    return not any(path.startswith(WORK_PREFIX) and path.endswith("/attempts") for path in listing.directories)


def _went_on(storage: Storage, listing: Listing) -> bool:
    """Whether a compaction began to publish, or has ended, between two pages of one listing.

    Pages are in the order of names: that of the lock and the work directories may be older than those of what is
    published, and lack the journal that lists what of it counts.
    """
    paths = {info.path for info in listing.files}
    if LOCK_NAME not in paths:
        return False
    if storage.stat(join(listing.root, LOCK_NAME)) is None:
        return True
    works = {path.partition("/")[0] for path in paths if path.startswith(WORK_PREFIX)}
    for work in sorted(works):
        journal = f"{work}/{JOURNAL_NAME}"
        if journal not in paths and storage.stat(join(listing.root, journal)) is not None:
            return True
    return False


def _with_markers(storage: Storage, locations: tuple[Location, ...]) -> tuple[Location, ...]:
    """The locations with the contents of the files that decide something, many read at once where that saves time.

    Every `_metadata_acid` that is not below a hidden name, and every journal of a compaction that publishes two
    directories; of `_orc_acid_version` only one that lies in the location itself (it marks ACID v1), because no reader
    decides anything by those inside deltas and there may be a hundred thousand.
    """
    wanted = [(place.listing, info) for place in locations for info in place.listing.files if _decides(info)]
    if not wanted:
        return locations
    markers: dict[str, dict[str, bytes]] = {}
    for (listing, info), content in zip(wanted, _contents(storage, wanted), strict=True):
        markers.setdefault(listing.root, {})[info.path] = content
    return tuple(
        place._replace(listing=replace(place.listing, markers=markers[place.listing.root]))
        if place.listing.root in markers
        else place
        for place in locations
    )


def _decides(info: FileInfo) -> bool:
    name = info.name
    if name == METADATA_MARKER:
        return info.path == name or not is_hidden_to_hive(info.path)
    return info.path == VERSION_MARKER or (name == JOURNAL_NAME and is_journal(info.path))


def _contents(storage: Storage, wanted: Sequence[tuple[Listing, FileInfo]]) -> list[bytes]:
    def content(pair: tuple[Listing, FileInfo]) -> bytes:
        path = join(pair[0].root, pair[1].path)
        try:
            with storage.open(path) as stream:
                return stream.read(_JOURNAL_LIMIT if pair[1].name == JOURNAL_NAME else _MARKER_LIMIT)
        except (StorageError, NoSuchTableError) as error:
            with suppress(AcidctlError):
                if storage.stat(path) is None:
                    raise _MarkerGoneError(error) from error
            raise

    if isinstance(storage, LocalStorage) or len(wanted) == 1:
        return [content(pair) for pair in wanted]
    # Imported here because a local `ls` does without.
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(_READERS, "acidctl-markers") as pool:
        return list(pool.map(content, wanted))


# --- A listing that was made elsewhere, as text: names, one a line, or what `hdfs dfs -ls -R` prints.
#
# It stands in for a storage where acidctl cannot reach one. Nothing can be opened, so markers count as unread.


# permissions, replication, owner, group, size, date, time, path; a path may hold blanks.
_HDFS_LINE = re.compile(
    r"([-dl])[-rwxsStT]{9}[+.]?\s+(?:-|\d+)\s+\S+\s+\S+\s+(\d+)\s+(\d{4}-\d\d-\d\d \d\d:\d\d)\s(.*)"
)
_HDFS_COUNT = re.compile(r"Found \d+ items?")
_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]*://[^/]*", re.IGNORECASE)
_SLASHES = re.compile("//+")


class PreparedListing(NamedTuple):
    """The root that the names are relative to, what was listed, and whether the text has sizes."""

    root: str
    found: Walk
    sizes: bool


def parse_listing(text: str, root: str | None = None) -> PreparedListing:
    """Read the text; without `root`, absolute paths are cut before the first partition or ACID directory."""
    lines: list[tuple[str, bool, int, float | None]] = []
    sizes = False
    for raw in text.split("\n"):
        raw = raw.rstrip("\r")
        if not raw.strip() or _HDFS_COUNT.fullmatch(raw.strip()):
            continue
        match = _HDFS_LINE.fullmatch(raw)
        if match is not None:
            sizes = True
            kind, size, modified, path = match.groups()
            lines.append((_path_of(path), kind == "d", int(size), _seconds(modified)))
        else:
            # A trailing slash, an ACID prefix or `key=value` makes a directory of a name.
            path = _path_of(raw).removeprefix("./")
            last = path.rstrip("/").rpartition("/")[2]
            lines.append((path.rstrip("/"), path.endswith("/") or _is_inside(last), 0, None))
    if not lines:
        raise UsageError("the listing given with --names is empty", hint="An empty table has no names to give.")
    base = _common_root([path for path, *_ in lines]) if root is None else _path_of(root.rstrip("/") or "/")
    files: dict[str, FileInfo] = {}
    directories: set[str] = set()
    for whole, is_directory, length, moment in lines:
        path = _relative(whole, base)
        if is_directory:
            directories.add(path)
        else:
            # A name without a size is taken as a file with content: readers pass over empty ones.
            files[path] = FileInfo(path, length if sizes else 1, moment)
        while path := _parent(path):
            directories.add(path)
    return PreparedListing(root if root is not None else base, Walk.of(files.values(), directories - {""}), sizes)


def _path_of(text: str) -> str:
    """Without scheme and host, and with one slash where there are several, as Hadoop's `Path` has it."""
    return _SLASHES.sub("/", _ADDRESS.sub("", text, count=1))


def _is_inside(name: str) -> bool:
    """Whether a directory of this name lies in a table."""
    return name.startswith(ACID_PREFIXES) or is_partition_folder(name)


def _seconds(local_time: str) -> float | None:
    """The client prints its local time, and this is most likely the same machine; None for what is not a time."""
    try:
        return time.mktime(time.strptime(local_time, "%Y-%m-%d %H:%M"))
    except (ValueError, OverflowError):
        return None


def _common_root(paths: list[str]) -> str:
    """The directory that all absolute paths share, ending before the first partition or ACID directory."""
    if not paths[0].startswith("/"):
        return ""
    places = []
    for parts in (path.split("/") for path in paths if path.startswith("/")):
        first_inside = next((i for i, part in enumerate(parts) if _is_inside(part)), len(parts) - 1)
        places.append("/".join(parts[:first_inside]) or "/")
    return os.path.commonpath(places)


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


# --- Where a place lies that a user named beside a table: in the table, for readers to see, or not.
#
# Places are judged by what they are and not by what they are called: a link into the table leads into the table.


def canonical(storage: Storage, path: str) -> str:
    """A place by the one name that depends neither on links nor on where the command is run."""
    return real_name(storage, storage.display(path))


def real_name(storage: Storage, shown: str) -> str:
    """The same of a name as the storage shows it."""
    return os.path.realpath(shown) if isinstance(storage, LocalStorage) else shown.rstrip("/")


def shows_in_table(storage: Storage, root: str, place: str) -> bool:
    """Whether readers of the table at `root` would find what is put at `place`.

    A partition is part of a table, and beside it there are others.
    """
    top = canonical(storage, root)
    partition = own_partition(top)
    table = top[: len(top) - len(partition)].rstrip("/") if partition else top.rstrip("/")
    target = canonical(storage, place)
    if target != table and not target.startswith(table + "/"):
        return False
    parts = target[len(table) + 1 :].split("/") if target != table else []
    # Below a partition folder the first name that is none decides.
    own = next((part for part in parts if "=" not in part or is_hidden(part)), "")
    return not is_hidden(own)


def require_no_table(storage: Storage, place: str, own: Sequence[str]) -> None:
    """UsageError where a directory, or one above it, belongs to a table; those that are in `own` are not asked.

    A directory above may hold anything but bases, deltas, their markers and bucket files; the directory itself, if it
    is there, no file at all that readers see.
    """
    known = {canonical(storage, root) for root in own}
    inner = path = canonical(storage, place)
    while path and path not in known:
        try:
            found = storage.walk(path, lambda name: "/" not in name and name.startswith(ACID_PREFIXES))
        except AcidctlError:
            # It is not there yet, or may be entered but not listed.
            found = Walk((), ())
        names = [info.path for info in found.files if _is_of_table(info, alone=path == inner)]
        names += [name for name in found.directories if isinstance(parse_directory(name), BaseDir | DeltaDir)]
        if names:
            raise UsageError(
                f"the quarantine {place} lies inside a table: {storage.display(path)} holds {min(names)}",
                path=place,
                hint="Name a directory beside the tables that holds nothing else, or leave the name out.",
            )
        above = path.rpartition("/")[0]
        path = above or ("/" if path.startswith("/") and path != "/" else "")


def _is_of_table(info: FileInfo, *, alone: bool) -> bool:
    if "/" in info.path:
        return False
    data = isinstance(parse_file(info.path), BucketFile | OriginalFile)
    return data or is_marker(info.path) or (alone and not is_hidden(info.path))


def require_no_way_in(storage: Storage, root: str, place: str) -> None:
    """UsageError where the way to a place, as it was named, leads through a link inside the table."""
    if not isinstance(storage, LocalStorage):
        return
    top, named = os.path.abspath(root), os.path.abspath(place)
    if not named.startswith(top.rstrip("/") + "/"):
        return
    inside = named[len(top.rstrip("/")) + 1 :]
    if os.path.realpath(place) != join(os.path.realpath(root), inside):
        raise UsageError(
            f"{place} leads through a symbolic link inside the table, and nothing is changed through one",
            path=place,
            hint=f"Name the place itself: {os.path.realpath(place)}.",
        )


def require_outside(storage: Storage, root: str, path: str, option: str) -> None:
    """UsageError where a file of this machine would be written into the table, for readers to take it for data."""
    if isinstance(storage, LocalStorage) and shows_in_table(storage, root, path):
        raise UsageError(
            f"{option} {path} lies inside the table, where readers would read it as data",
            path=path,
            hint="Name a file outside of the table.",
        )
