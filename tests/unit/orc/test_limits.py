"""The page of limits says what the code does."""

from __future__ import annotations

from acidctl.compaction import recovery as recover
from acidctl.orc import (
    acidmeta,
    codec,
    input_file,
    postprocess,
    protobuf,
    reader,
    rle,
    stripe,
    tail,
)
from acidctl.storage import locations
from tests import ROOT

PAGE = (ROOT / "docs/limits.md").read_text()


def test_the_page_of_limits_is_true() -> None:
    """Every number in it is a constant of the code."""
    for name, number in {
        "fields of a section": f"{protobuf.FREE_FIELDS:,} and {protobuf.FIELDS_OF_A_BYTE} more",
        "| footer, expanded": f"{tail._MAX_FOOTER >> 20} MiB",
        "statistics of stripes, expanded": f"{stripe.MAX_METADATA >> 20} MiB",
        "row index or bloom": f"{stripe._MAX_INDEX >> 20} MiB",
        "| stripes |": f"{tail._MAX_STRIPES:,}, each",
        "| types |": f"{tail._MAX_TYPES:,}, nested {tail._MAX_NESTING} deep",
        "| user metadata |": f"{tail._MAX_USER_KEYS:,} keys, {tail._MAX_USER_METADATA >> 20} MiB",
        "key.index": f"{acidmeta._MAX_KEYS:,}",
        "footer of a stripe": f"{stripe._FOOTER_BYTES >> 10} KiB and {stripe._COLUMN_BYTES >> 10} KiB",
        "streams of a stripe": f"{stripe._MOST_STREAMS} for each",
        "time zone": f"{stripe._MAX_ZONE} bytes",
        "entries of a dictionary": f"{stripe._MAX_DICTIONARY:,}",
        "streams of lengths": f"{rle._FREE_BYTES >> 20} MiB and {rle._BYTES_OF_A_BYTE} more",
        "runs of lengths and": f"{rle._FREE_RUNS:,} and one more for every {rle._BYTES_OF_A_RUN} bytes",
        "streams of nanoseconds": f"{postprocess._FREE_BYTES >> 20} MiB and {postprocess._BYTES_OF_A_BYTE} more",
        "a row, and": f"{rle._FREE_HELD >> 20} MiB, or {rle._HELD_OF_A_BYTE:,} times",
        "**Memory.**": f"batches of {rle._BATCH_BYTES >> 20} MiB",
        "**Time.**": f"that holds more than {reader._VAST_BATCHES} batches, no more than the first"
        f" {reader._FIRST_BATCHES}",
        "side file": f"{input_file._MAX_SIDE_FILE >> 20} MiB",
        "_metadata_acid": f"{locations._MARKER_LIMIT >> 10} KiB",
        "journal.json": f"{locations._JOURNAL_LIMIT >> 20} MiB",
        "owner.json": f"{recover._LIMIT >> 10} KiB",
        "elements of one": f"{rle._MAX_ELEMENTS:,}",
        "compressed chunk": f"{codec.MAX_BLOCK_SIZE >> 20} MiB",
    }.items():
        (line,) = [line for line in PAGE.splitlines() if name in line]
        assert number in line
