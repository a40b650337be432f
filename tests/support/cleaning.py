"""Locations for tests of `clean`: names with files of any age, lists as texts, evidence that finds no fault."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from acidctl.cleaning.decisions import Rules, Survey, survey
from acidctl.cleaning.plan import Compared, Evidence, LocationPlan, plan_location
from acidctl.format.listing import FileInfo, Listing
from acidctl.format.write_ids import Reader, ValidTxns, ValidWriteIds
from acidctl.state.resolve import TableGuess, guess_table_type

NOW = 1_000_000.0
HOUR = 3600.0
COMPACTED = b'{"thisFileVersion":"0","dataFormat":"compacted"}'
ALL_TXNS = "100:9223372036854775807::"
NOTHING_OPEN = "9223372036854775807"


def listing(names: Iterable[str], *, ages: Mapping[str, float] | None = None, compacted: Iterable[str] = ()) -> Listing:
    """A location of these directories (a bucket file and the version marker each) and files, 100 hours old.

    A name with a `/` is one file as it is. `ages` are in hours, by top-level name; `compacted` bases get the marker.
    """
    files: dict[str, FileInfo] = {}
    directories: set[str] = set()
    markers: dict[str, bytes] = {}
    marked = set(compacted)
    for name in names:
        top = name.partition("/")[0]
        time = NOW - (ages or {}).get(top, 100.0) * HOUR
        is_file = "/" in name or top[:1].isdigit()
        paths = [name] if is_file else [f"{name}/bucket_00000", f"{name}/_orc_acid_version"]
        if name in marked:
            paths.append(f"{name}/_metadata_acid")
            markers[f"{name}/_metadata_acid"] = COMPACTED
        for path in paths:
            parts = path.split("/")
            directories.update("/".join(parts[:end]) for end in range(1, len(parts)))
            files[path] = FileInfo(path, 10, time)
    return Listing("/w/t", tuple(files[path] for path in sorted(files)), tuple(sorted(directories)), markers)


def judged(
    place: Listing,
    write_ids: str,
    txns: str | None = ALL_TXNS,
    *,
    kind: TableGuess | None = None,
    times: Mapping[str, float | None] | None = None,
    **rules: Any,
) -> Survey:
    """The survey of a location for readers of one write-id and one transaction list."""
    common = Reader(ValidWriteIds.parse(write_ids), None if txns is None else ValidTxns.parse(txns))
    known = guess_table_type([place]) if kind is None else kind
    return survey(place, common, known, Rules(**{"now": NOW, **rules}), time_of=(times or {}).get)


def sound(seen: Survey) -> Evidence:
    """Evidence that every cover is complete and holds all rows, and nothing one-sided holds anything."""
    return Evidence(
        dict.fromkeys(cover.name for cover in seen.covers),
        {candidate.name: True for candidate in seen.one_sided},
        rows=Compared(None, "all rows"),
    )


def planned(place: Listing, write_ids: str, txns: str | None = ALL_TXNS, **more: Any) -> LocationPlan:
    """The plan of a location whose files are in order."""
    seen = judged(place, write_ids, txns, **more)
    return plan_location(seen, sound(seen))


def gone(plan: LocationPlan) -> list[str]:
    """Names of the victims."""
    return [victim.name for victim in plan.victims]


def ids(watermark: int, *, open: Iterable[int] = (), aborted: Iterable[int] = ()) -> str:
    """The text of a write-id list."""
    lowest = min(open, default=None)
    first = NOTHING_OPEN if lowest is None else str(lowest)
    return f"default.t:{watermark}:{first}:{','.join(map(str, open))}:{','.join(map(str, aborted))}"
