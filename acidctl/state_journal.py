"""Journals of compactions that publish two directories: what they promise, and what a half-kept promise means.

A minor compaction has two results, `delta_x_y` and `delete_delta_x_y`, and no storage renames two directories at once.
One without the other covers what it does not hold. So the journal is written before the first rename, and a reader that
finds it beside one of the two takes that one for not yet published: the inputs are all still there. Hive knows no
journals; it is kept away by a visibility transaction, or because nobody else uses the table.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from acidctl.listing import FileInfo, Listing
from acidctl.names import WORK_PREFIX, BaseDir, DeltaDir, is_journal, parse_directory
from acidctl.state_types import ORIGINALS_NAME, EntryState, Stock, Verdict

JOURNAL_TYPE = "acidctl_journal"
JOURNAL_VERSION = 1


@dataclass(frozen=True, slots=True)
class Journal:
    """Names that are published together; `inputs` are what they replace, `input_files` as the plan saw them."""

    id: str
    outputs: tuple[str, ...]
    visibility_txn: int | None
    inputs: tuple[str, ...]
    input_files: tuple[FileInfo, ...] = ()

    @property
    def work(self) -> str:
        """Name of the work directory that holds the journal."""
        return WORK_PREFIX + self.id

    def to_bytes(self) -> bytes:
        """The content of the file; `parse_journal` reads it back unchanged."""
        values = {
            "type": JOURNAL_TYPE,
            "schema_version": JOURNAL_VERSION,
            "id": self.id,
            "outputs": list(self.outputs),
            "visibility_txn": self.visibility_txn,
            "inputs": list(self.inputs),
            "input_files": [[info.path, info.size, info.modified] for info in self.input_files],
        }
        return json.dumps(values).encode("ascii")


@dataclass(frozen=True, slots=True)
class HalfPublished:
    """What the journals of a location say: verdicts on outputs that do not count, and notes for the operator."""

    verdicts: dict[str, Verdict]
    notes: tuple[str, ...] = ()


def parse_journal(content: bytes, work: str) -> Journal | None:
    """The journal of a work directory; None for what was not written whole or not by acidctl."""
    try:
        values = json.loads(content.decode("utf-8"))
        journal = Journal(
            id=str(values["id"]),
            outputs=tuple(str(name) for name in values["outputs"]),
            visibility_txn=None if values["visibility_txn"] is None else int(values["visibility_txn"]),
            inputs=tuple(str(name) for name in values["inputs"]),
            input_files=tuple(
                FileInfo(str(path), int(size), None if modified is None else float(modified))
                for path, size, modified in values["input_files"]
            ),
        )
        known = values["type"] == JOURNAL_TYPE and values["schema_version"] == JOURNAL_VERSION
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return None
    fits = journal.work == work and all(
        isinstance(parse_directory(name), BaseDir | DeltaDir) for name in journal.outputs
    )
    return journal if known and fits else None


def journals_of(listing: Listing) -> tuple[Journal, ...]:
    """Every journal that was read along with the listing."""
    found = (
        parse_journal(content, path.partition("/")[0])
        for path, content in sorted(listing.markers.items())
        if is_journal(path)
    )
    return tuple(journal for journal in found if journal is not None)


def missing_inputs(journal: Journal, listing: Listing, *, has_originals: bool) -> tuple[str, ...]:
    """Inputs that somebody has removed since the journal was written."""
    present = set(listing.directories)
    return tuple(name for name in journal.inputs if not (has_originals if name == ORIGINALS_NAME else name in present))


def judge_half_published(listing: Listing, stock: Stock) -> HalfPublished:
    """Find outputs that stand alone although they were to be published together."""
    verdicts: dict[str, Verdict] = {}
    notes: list[str] = []
    for journal in journals_of(listing):
        present = set(listing.directories)
        published = [name for name in journal.outputs if name in present]
        absent = [name for name in journal.outputs if name not in present]
        if not published or not absent:
            continue
        gone = missing_inputs(journal, listing, has_originals=bool(stock.original_files))
        if gone:
            notes.append(
                f"{published[0]} is half of an interrupted compaction: {absent[0]} was never published, and of their "
                f"inputs {gone[0]} is gone. Rows may be wrong; run `acidctl compact` to complete it."
            )
            continue
        for name in published:
            verdicts[name] = Verdict(
                EntryState.NOT_VISIBLE,
                "half_published",
                f"half of an interrupted compaction: {absent[0]} is not published yet, so their inputs are read; "
                "`acidctl compact` completes or undoes it",
                (journal.work,),
            )
        notes.append(
            f"A compaction was interrupted between {published[0]} and {absent[0]}; acidctl reads its inputs, "
            "Hive would not. Run `acidctl compact` again to complete or undo it."
        )
    return HalfPublished(verdicts, tuple(notes))
