"""What kind of table the files belong to, as far as names can tell."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from acidctl.format.listing import Listing
from acidctl.format.names import (
    METADATA_MARKER,
    UNION_SUBDIRECTORY,
    VERSION_MARKER,
    BaseDir,
    BucketFile,
    DeltaDir,
    DeltaKind,
    OriginalFile,
    parse_directory,
    parse_file,
)
from acidctl.format.write_ids import ReaderLists
from acidctl.state.entries import Candidate, EntryState, Stock, TableType
from acidctl.state.inventory import take_stock
from acidctl.state.journal import judge_half_published
from acidctl.state.strict import select_strict

# What ACID v1 (Hive 1 and 2) writes once per location: the version as a big-endian integer.
_V1_MARKER = b"\0\0\0\0"


@dataclass(frozen=True, slots=True)
class TableGuess:
    """The kind of a table with one sentence why; `ambiguous` where another kind looks the same.

    `acid_v1`: written by Hive 1 or 2, where write ids are transaction ids and every base is a compacted one.
    """

    type: TableType
    ambiguous: bool
    why: str
    acid_v1: bool = False


def guess_table_type(listings: Iterable[Listing], lists: ReaderLists | None = None) -> TableGuess:
    """Guess the kind of a table from the listings of all its locations, for a reader with these lists."""
    return guess_from_stocks([(listing, take_stock(listing)) for listing in listings], lists or ReaderLists())


def guess_from_stocks(stocks: Sequence[tuple[Listing, Stock]], lists: ReaderLists) -> TableGuess:
    """`guess_table_type` over listings that are sorted already.

    What is obsolete or aborted for the reader does not count, for a cleaner may remove it. What that is depends on
    the kind again: a table counts as one of ACID v1 if what is left under the rules of ACID v1 looks so.
    """
    as_v1 = lists.for_acid_v1()
    everything = _Signs()
    for listing, stock in stocks:
        everything.add(listing, stock)
    if everything.may_be_v1 and as_v1.effective_write_ids.table is None:
        guess = _guess_from_left(stocks, as_v1, acid_v1=True)
        if guess.acid_v1:
            return guess
    return replace(_guess_from_left(stocks, lists, acid_v1=False), acid_v1=False)


def _guess_from_left(stocks: Sequence[tuple[Listing, Stock]], lists: ReaderLists, *, acid_v1: bool) -> TableGuess:
    signs = _Signs()
    for listing, stock in stocks:
        signs.add(listing, _without_removable(listing, stock, lists, acid_v1=acid_v1))
    return signs.guess()


def _without_removable(listing: Listing, stock: Stock, lists: ReaderLists, *, acid_v1: bool) -> Stock:
    """A stock less the bases and deltas that are obsolete or aborted for the reader."""
    # As of a full table: an insert-only one differs in not knowing delete deltas, and they show that it is none.
    kept = judge_half_published(listing, stock).verdicts
    counting = replace(
        stock,
        bases=tuple(c for c in stock.bases if c.name not in kept),
        deltas=tuple(c for c in stock.deltas if c.name not in kept),
    )
    ids, txns = lists.effective_write_ids, lists.effective_txns
    verdicts = select_strict(counting, ids, txns, insert_only=False, acid_v1=acid_v1).verdicts
    gone = {name for name, verdict in verdicts.items() if verdict.state in (EntryState.OBSOLETE, EntryState.ABORTED)}
    if not gone:
        return stock
    return replace(
        stock,
        bases=tuple(c for c in stock.bases if c.name not in gone),
        deltas=tuple(c for c in stock.deltas if c.name not in gone),
    )


class _Signs:
    """What was seen in the locations of one table."""

    def __init__(self) -> None:
        self.full: str | None = None
        self.v1_marker = False
        self.not_v1 = False
        self.plain_buckets = False
        self.data_in_acid = False
        self.acid = False
        self.originals = False
        self.union = False

    def add(self, listing: Listing, stock: Stock) -> None:
        """Take in one location."""
        self.originals |= bool(stock.original_files)
        if any(file.path == VERSION_MARKER for file in listing.files):
            self.full = self.full or f"{VERSION_MARKER} stands in the location"
            self.v1_marker |= listing.markers.get(VERSION_MARKER) == _V1_MARKER
        for candidate in (*stock.bases, *stock.deltas):
            self.acid = True
            self._add_directory(candidate)

    @property
    def may_be_v1(self) -> bool:
        """Whether anything here is called as Hive 1 and 2 call it."""
        return self.v1_marker or self.plain_buckets

    def guess(self) -> TableGuess:
        """The verdict over everything taken in."""
        if self.full is not None:
            acid_v1 = not self.not_v1 and self.may_be_v1
            return TableGuess(TableType.FULL, False, self.full, acid_v1)
        if not self.acid:
            if self.originals:
                return TableGuess(
                    TableType.ORIGINALS, True, "there are data files but no base and no delta that counts"
                )
            return TableGuess(TableType.EMPTY, True, "there are no data files")
        if self.union:
            return TableGuess(
                TableType.INSERT_ONLY,
                False,
                f"its deltas hold {UNION_SUBDIRECTORY}* directories and no bucket file",
            )
        if self.originals:
            return TableGuess(
                TableType.FULL,
                True,
                "original files stand beside its deltas, which insert-only tables do not read",
            )
        if not self.data_in_acid:
            return TableGuess(TableType.FULL, True, "those of its bases and deltas that count hold no data files")
        return TableGuess(
            TableType.INSERT_ONLY,
            True,
            f"those of its bases and deltas that count hold no bucket file and no {VERSION_MARKER}; a full ACID table "
            "filled by LOAD DATA alone looks the same",
        )

    def _add_directory(self, candidate: Candidate) -> None:
        if self.full is not None and self.not_v1:
            return
        parsed = candidate.parsed
        if isinstance(parsed, DeltaDir) and parsed.kind is DeltaKind.DELETE:
            self.full = self.full or f"there are delete deltas, {candidate.name} for one"
        self.not_v1 |= parsed.visibility_txn_id is not None
        for file in candidate.files:
            name = file.name
            if name == VERSION_MARKER:
                self.full = self.full or f"{candidate.name} holds {VERSION_MARKER}"
                self.not_v1 = True
            elif name == METADATA_MARKER:
                self.not_v1 = True
            elif not name.startswith(("_", ".")):
                self._add_file(candidate, file.path)

    def _add_file(self, candidate: Candidate, path: str) -> None:
        inside, _, name = path[len(candidate.name) + 1 :].rpartition("/")
        file = parse_file(name)
        self.data_in_acid = True
        if isinstance(file, BucketFile):
            self.full = self.full or f"{candidate.name} holds bucket files"
            self.plain_buckets |= file.attempt_id is None
            self.not_v1 |= file.attempt_id is not None
        elif isinstance(file, OriginalFile):
            # LOAD DATA into deltas came with Hive 3.
            self.not_v1 = True
        if inside.startswith(UNION_SUBDIRECTORY):
            self.union = True


def looks_like_acid(listing: Listing) -> bool:
    """Whether a location holds any base or delta directory, readable or not."""
    names = {path.split("/", 1)[0] for path in listing.directories}
    names |= {file.path.split("/", 1)[0] for file in listing.files if "/" in file.path}
    return any(isinstance(parse_directory(name), BaseDir | DeltaDir) for name in names)
