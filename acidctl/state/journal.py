"""Journals of compactions that cannot be published in one step: what they promise, and what a half-kept promise means.

A minor compaction has two results, `delta_x_y` and `delete_delta_x_y`, and no storage renames two directories at once.
One without the other covers what it does not hold. Object stores rename nothing at all: there even a single directory
comes into being file by file, and counts for whoever lists it as soon as it has one. So the journal is written before
the first rename or copy, and a reader that finds it beside a part of what it names takes that for not yet published:
the inputs are all still there. Hive knows no journals; it is kept away by a visibility transaction, or because nobody
else uses the table.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import NamedTuple

from acidctl.format.listing import FileInfo, Listing
from acidctl.format.names import JOURNAL_NAME, OWNER_NAME, WORK_PREFIX, BaseDir, DeltaDir, is_journal, parse_directory
from acidctl.values import dataclass

JOURNAL_TYPE = "acidctl_journal"
JOURNAL_VERSION = 1


class OutputFile(NamedTuple):
    """A file that is copied to its place: its path below the location, its bytes, its source in the work directory."""

    path: str
    size: int
    source: str


@dataclass(frozen=True, slots=True)
class Journal:
    """Names that are published together; `inputs` are what they replace, `input_files` as the plan saw them.

    `output_files` are all files of the outputs, in the order in which they are copied; empty where directories are
    renamed.
    """

    id: str
    outputs: tuple[str, ...]
    visibility_txn: int | None
    inputs: tuple[str, ...]
    input_files: tuple[FileInfo, ...] = ()
    output_files: tuple[OutputFile, ...] = ()

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
            "output_files": [[file.path, file.size, file.source] for file in self.output_files],
        }
        return json.dumps(values).encode("ascii")


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
            output_files=tuple(
                OutputFile(str(path), int(size), str(source)) for path, size, source in values.get("output_files", ())
            ),
        )
        known = values["type"] == JOURNAL_TYPE and values["schema_version"] == JOURNAL_VERSION
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return None
    fits = journal.work == work and all(
        isinstance(parse_directory(name), BaseDir | DeltaDir) for name in journal.outputs
    )
    fits = fits and all(_is_below(file.path, journal.outputs) for file in journal.output_files)
    return journal if known and fits else None


def _is_below(path: str, outputs: tuple[str, ...]) -> bool:
    """Whether this is a file of an output: whoever undoes a journal removes what it names."""
    parts = path.split("/")
    return len(parts) > 1 and parts[0] in outputs and not {"", ".", ".."}.intersection(parts)


def journals_of(listing: Listing) -> tuple[Journal, ...]:
    """Every journal that was read along with the listing."""
    found = (
        parse_journal(content, path.partition("/")[0])
        for path, content in sorted(listing.markers.items())
        if is_journal(path)
    )
    return tuple(journal for journal in found if journal is not None)


class Standing(NamedTuple):
    """How far a publication has come: what of the outputs is in place, and what is not.

    Names of directories where those are renamed, paths of files where files are copied.
    """

    there: tuple[str, ...]
    missing: tuple[str, ...]

    @property
    def half(self) -> bool:
        """Whether it was interrupted in the middle."""
        return bool(self.there) and bool(self.missing)

    @property
    def shown(self) -> tuple[str, ...]:
        """Names of the outputs of which something is in place."""
        return tuple(dict.fromkeys(path.partition("/")[0] for path in self.there))


def standing_of(journal: Journal, listing: Listing) -> Standing:
    """Compare a journal with what a listing of its location shows."""
    if journal.output_files:
        sizes = {info.path: info.size for info in listing.files}
        found = [(file.path, sizes.get(file.path) == file.size) for file in journal.output_files]
    else:
        present = set(listing.directories)
        found = [(name, name in present) for name in journal.outputs]
    return Standing(tuple(path for path, there in found if there), tuple(path for path, there in found if not there))


def is_unowned(name: str, files: Iterable[FileInfo]) -> bool:
    """Whether a work directory has neither an owner nor a journal.

    A journal tells what readers may count, and what it names may lie beside it: such a directory is never let go
    without its owner, be the journal readable or not.
    """
    sizes = {info.path: info.size for info in files}
    return not sizes.get(f"{name}/{OWNER_NAME}") and f"{name}/{JOURNAL_NAME}" not in sizes
