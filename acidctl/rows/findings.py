"""Why rows of an answer may be missing or come twice: what is noticed while files are read, at no cost worth a name.

The rows stay as they are, and whoever asked decides; `compact` refuses most of this. Noticed is what tails say (a
bucket other than in the file's name) and what the merge finds (two rows of one ROW__ID, rows that are not in order).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from acidctl.format.bucket_codec import BucketCodecError, decode
from acidctl.format.events import RowId
from acidctl.rows.merge import Notice, Oddity

if TYPE_CHECKING:
    from acidctl.rows.scan import DataSource


class Findings:
    """Sentences, each once, in the order in which they were found."""

    def __init__(self, known: Sequence[str] = ()) -> None:
        self._texts = dict.fromkeys(known)

    def __iter__(self) -> Iterator[str]:
        return iter(tuple(self._texts))

    def add(self, text: str) -> None:
        """Take in one sentence."""
        self._texts[text] = None

    def watch(self, sources: Sequence[DataSource]) -> Notice:
        """What to tell of the merge of these sources; their tails are looked at now."""
        self._check_buckets(sources)

        def notice(oddity: Oddity, row: RowId) -> None:
            where = " and ".join(_holders(sources, row)[:2])
            shown = f"{row.write_id},{row.bucket_property},{row.row_id}"
            if oddity is Oddity.DOUBLE:
                self.add(f"{where}: two rows have the ROW__ID {shown}; a directory or a file may have been copied.")
            else:
                self.add(f"{where}: rows are not in the order of their ROW__IDs, first at {shown}.")

        return notice

    def overlap(self, sources: Sequence[DataSource]) -> bool:
        """Whether the row ids of two files may be the same, as far as their tails tell."""
        self._check_buckets(sources)
        bounds = [source.bounds(updates=False) for source in sources]
        known = sorted((low, high) for low, high in bounds if low is not None and high is not None)
        return any(low <= before for (_, before), (low, _) in pairwise(known))

    def _check_buckets(self, sources: Sequence[DataSource]) -> None:
        for source in sources:
            if source.bucket_id is None or source.buckets is None or not source.facts.is_acid:
                continue
            try:
                bucket_id = decode(source.buckets[0]).bucket_id
            except BucketCodecError:
                continue
            if bucket_id != source.bucket_id:
                self.add(
                    f"{source.name} is called bucket {source.bucket_id}, and holds rows of bucket {bucket_id}; "
                    "it may have been renamed or copied."
                )


def _holders(sources: Sequence[DataSource], row: RowId) -> list[str]:
    """The files that may hold a row, as far as their tails tell."""
    found = []
    for source in sources:
        low, high = source.bounds(updates=False)
        if (low is None or low <= row) and (high is None or row <= high):
            found.append(source.name)
    return found or [sources[0].name]
