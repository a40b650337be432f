"""Drafts of compactions over listings that exist as names only."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from acidctl.compaction.plan import CompactionKind, PartitionPlan, TableView
from acidctl.compaction.planner import PartitionDraft, PlanContext, draft_partition, validate_request
from acidctl.format.listing import Listing
from acidctl.format.write_ids import Reader, ValidTxns, ValidWriteIds
from acidctl.options import CompactOptions
from acidctl.state.entries import TableType
from acidctl.state.resolve import TableGuess
from acidctl.types.schema import TableSchema
from tests.support.vectors import listing_of

MINOR, MAJOR = CompactionKind.MINOR, CompactionKind.MAJOR
FULL = TableGuess(TableType.FULL, False, "it was said")
INSERT_ONLY = TableGuess(TableType.INSERT_ONLY, False, "it was said")
NONE_OPEN = "9223372036854775807"
COMPACTED = b'{"thisFileVersion":"0","dataFormat":"compacted"}'


def listed(names: Iterable[str]) -> Listing:
    """A listing of directories with a file each (`+` in front of a base: compacted by Hive 3), and of files."""
    paths: list[str] = []
    markers = {}
    for name in names:
        bare = name.removeprefix("+")
        if not bare.startswith(("base_", "delta_", "delete_delta_")) or bare.endswith("/") or "/" in bare:
            paths.append(bare)
            continue
        paths.append(f"{bare}/bucket_00000")
        if name.startswith("+"):
            paths.append(f"{bare}/_metadata_acid")
            markers[f"{bare}/_metadata_acid"] = COMPACTED
    return listing_of(paths, markers=markers)


def ground_of(
    listing: Listing,
    kind: CompactionKind,
    write_ids: str | None,
    txns: str | None = None,
    *,
    guess: TableGuess = FULL,
    schema: TableSchema | None = None,
    **options: Any,
) -> PlanContext:
    """What a run over this listing is judged by; lists as texts, None for none."""
    lists = Reader(
        None if write_ids is None else ValidWriteIds.parse(write_ids),
        None if txns is None else ValidTxns.parse(txns),
    )
    return validate_request(TableView(lists, guess, schema), CompactOptions(kind.value, **options), [listing])


def drafted(
    names: Iterable[str] | Listing, kind: CompactionKind, write_ids: str | None, txns: str | None = None, **more: Any
) -> PartitionDraft:
    """The draft for one listing."""
    listing = names if isinstance(names, Listing) else listed(names)
    return draft_partition(ground_of(listing, kind, write_ids, txns, **more), "", "", listing)


def planned(
    names: Sequence[str], kind: CompactionKind, write_ids: str | None, txns: str | None = None, **more: Any
) -> PartitionPlan:
    """The plan as far as names decide it."""
    return drafted(names, kind, write_ids, txns, **more).plan


def ids(high: int, open_: str = "", aborted: str = "") -> str:
    """A write-id list: `ids(9, "5", "3,4")`."""
    lowest = open_.partition(",")[0] or NONE_OPEN
    return f"t:{high}:{lowest}:{open_}:{aborted}"


def txns(high: int, open_: str = "", aborted: str = "") -> str:
    """A transaction list."""
    return f"{high}:{open_.partition(',')[0] or NONE_OPEN}:{open_}:{aborted}"


def inputs(plan: PartitionPlan) -> set[str]:
    """Names of what the outputs replace."""
    return {entry.name for entry in plan.inputs}


def outputs(plan: PartitionPlan) -> list[str]:
    """Names of the outputs."""
    return [output.name for output in plan.outputs]
