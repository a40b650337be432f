"""Journals of compactions that cannot be published in one step: what they promise, and what a half-kept promise means.

A minor compaction has two results, `delta_x_y` and `delete_delta_x_y`, and no storage renames two directories at once.
One without the other covers what it does not hold. Object stores rename nothing at all: there even a single directory
comes into being file by file, and counts for whoever lists it as soon as it has one. So the journal is written before
the first rename or copy, and a reader that finds it beside a part of what it names takes that for not yet published:
the inputs are all still there. Hive knows no journals; it is kept away by a visibility transaction, or because nobody
else uses the table.

A journal hides directories, so it is not taken at its word: `disbelief` holds it against the listing. What it calls
outputs must have the names that a compactor gives, must stand for no more write ids than the inputs that are still
there, and must hold the files that it lists and no others.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import NamedTuple

from acidctl.format.listing import FileInfo, Listing
from acidctl.format.names import (
    JOURNAL_NAME,
    OWNER_NAME,
    WORK_PREFIX,
    BaseDir,
    DeltaDir,
    WriteIdRange,
    is_journal,
    parse_directory,
)
from acidctl.format.write_ids import RangeAnswer, ValidWriteIds
from acidctl.state.entries import ORIGINALS_NAME, join_names
from acidctl.values import dataclass

JOURNAL_TYPE = "acidctl_journal"
JOURNAL_VERSION = 1


class OutputFile(NamedTuple):
    """A file that is copied to its place: its path below the location, its bytes, its source in the work directory."""

    path: str
    size: int
    source: str


class Proof(NamedTuple):
    """By what a file of an output is known again: its path below the location, its bytes, a digest of its content.

    The digest is that of `compaction.publish`; state compares paths and bytes only.
    """

    path: str
    size: int
    digest: str


@dataclass(frozen=True, slots=True)
class Journal:
    """Names that are published together; `inputs` are what they replace, `input_files` as the plan saw them.

    `output_files` are all files of the outputs, in the order in which they are copied; empty where directories are
    renamed. `proofs` has an item for each file of the outputs; those of earlier versions have none.
    """

    id: str
    outputs: tuple[str, ...]
    visibility_txn: int | None
    inputs: tuple[str, ...]
    input_files: tuple[FileInfo, ...] = ()
    output_files: tuple[OutputFile, ...] = ()
    proofs: tuple[Proof, ...] = ()

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
            "proofs": [list(proof) for proof in self.proofs],
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
            proofs=tuple(Proof(str(path), int(size), str(digest)) for path, size, digest in values.get("proofs", ())),
        )
        known = values["type"] == JOURNAL_TYPE and values["schema_version"] == JOURNAL_VERSION
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return None
    fits = journal.work == work and all(
        isinstance(parse_directory(name), BaseDir | DeltaDir) for name in journal.outputs
    )
    lists: tuple[tuple[OutputFile | Proof, ...], ...] = (journal.output_files, journal.proofs)
    for files in lists:
        once = len({file.path for file in files}) == len(files)
        fits = fits and once and all(_is_below(file.path, journal.outputs) for file in files)
    return journal if known and fits else None


def is_of_another_version(content: bytes) -> bool:
    """Whether a journal was written whole, but in a form that `parse_journal` does not know.

    What a later acidctl promises is for that to keep. A journal that was cut off promises nothing yet.
    """
    try:
        values = json.loads(content.decode("utf-8"))
    except (ValueError, RecursionError):
        return False
    return isinstance(values, dict) and values.get("type") == JOURNAL_TYPE


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


# --- whether a journal may be believed


def disbelief(journal: Journal, listing: Listing, ids: ValidWriteIds | None = None) -> str | None:
    """Why a journal is not believed, as the rest of a sentence that begins with `because`; None when it is.

    What names and sizes tell, in a listing in which a part of the outputs is in place. `ids` are those of whoever
    asks: a compactor widens its outputs over aborted writes beside the inputs, which only such a list explains. Inputs
    that are gone are another matter, see `missing_inputs`.
    """
    return (
        disbelief_in_names(journal)
        or _disbelief_in_files(journal, listing)
        or _disbelief_in_inputs(journal, listing)
        or _disbelief_in_range(journal, listing, ids)
    )


def missing_inputs(journal: Journal, listing: Listing) -> tuple[str, ...]:
    """Files of the inputs that are not there any more, and inputs of which no directory is."""
    here, present = {info.path for info in listing.files}, set(listing.directories)
    names = [name for name in journal.inputs if name != ORIGINALS_NAME and name not in present]
    return (*names, *(info.path for info in journal.input_files if info.path not in here))


def disbelief_in_names(journal: Journal) -> str | None:
    """What is not so in a journal that a compaction writes, whatever the location holds."""
    outputs = [parse_directory(name) for name in journal.outputs]
    for name, parsed in zip(journal.outputs, outputs, strict=True):
        statement = isinstance(parsed, DeltaDir) and parsed.statement_id is not None
        if statement or not isinstance(parsed, BaseDir | DeltaDir) or parsed.range.is_empty:
            return f"{name} is no name that a compaction gives to its result"
        if parsed.visibility_txn_id != journal.visibility_txn:
            return f"{name} does not bear the transaction that the journal names"
    kinds = [parsed.kind if isinstance(parsed, DeltaDir) else None for parsed in outputs]
    together = len(set(kinds)) == len(kinds) and (None not in kinds or len(kinds) == 1)
    if not outputs or not together or len({parsed.range for parsed in _deltas(outputs)}) > 1:
        return f"{join_names(journal.outputs) or 'nothing'} cannot be the result of one compaction"
    inputs = [parse_directory(name) for name in journal.inputs if name != ORIGINALS_NAME]
    minor = None not in kinds
    readable = all(isinstance(parsed, DeltaDir if minor else BaseDir | DeltaDir) for parsed in inputs)
    if not readable or not journal.inputs or set(journal.inputs) & set(journal.outputs):
        return f"{join_names(journal.outputs)} cannot be made of {join_names(journal.inputs) or 'nothing'}"
    if ORIGINALS_NAME in journal.inputs and (minor or not journal.input_files):
        return f"{join_names(journal.outputs)} cannot be made of original files"
    stray = next((info.path for info in journal.input_files if _input_of(info.path) not in journal.inputs), None)
    return None if stray is None else f"{stray} belongs to none of its inputs"


def _deltas(parsed: Iterable[object]) -> list[DeltaDir]:
    return [one for one in parsed if isinstance(one, DeltaDir)]


def _input_of(path: str) -> str:
    """The input to which a file belongs; a file in no base or delta is an original one."""
    top = path.partition("/")[0]
    return top if top != path and isinstance(parse_directory(top), BaseDir | DeltaDir) else ORIGINALS_NAME


def _disbelief_in_files(journal: Journal, listing: Listing) -> str | None:
    """Outputs hold what the journal lists, as far as they are in place, and nothing else."""
    named: tuple[OutputFile | Proof, ...] = (*journal.output_files, *journal.proofs)
    known = {file.path: file.size for file in named}
    if not known:
        return None
    here = {info.path: info.size for info in listing.files if info.path.partition("/")[0] in journal.outputs}
    for path, size in here.items():
        if known.get(path) != size:
            what = "is not listed in it" if path not in known else f"has {size} bytes, and it says {known[path]}"
            return f"{path} {what}"
    if journal.output_files:
        return None
    # A directory is renamed as a whole.
    there = set(listing.directories).intersection(journal.outputs)
    lost = next((path for path in known if path.partition("/")[0] in there and path not in here), None)
    return None if lost is None else f"{lost} is missing"


def _disbelief_in_inputs(journal: Journal, listing: Listing) -> str | None:
    sizes = {info.path: info.size for info in listing.files}
    for info in journal.input_files:
        if sizes.get(info.path, info.size) != info.size:
            return f"{info.path} has {sizes[info.path]} bytes, and it says {info.size}"
    return None


def _disbelief_in_range(journal: Journal, listing: Listing, ids: ValidWriteIds | None) -> str | None:
    """Outputs stand for the write ids of the inputs, and of aborted writes beside these."""
    ranges = [parsed.range for parsed in map(parse_directory, journal.inputs) if isinstance(parsed, BaseDir | DeltaDir)]
    if not ranges:
        return None  # a base of original files alone may have any number
    inputs, output = WriteIdRange.around(ranges), parse_directory(journal.outputs[0])
    assert isinstance(output, BaseDir | DeltaDir)
    reach = output.range
    why = f"{output.name} stands for other write ids than its inputs, {inputs}"
    if isinstance(output, BaseDir):
        inputs = WriteIdRange(reach.min, inputs.max)
        why = f"{output.name} stands for other write ids than its inputs, which end with {inputs.max}"
    if not reach.covers(inputs):
        return why
    above = reach.max > inputs.max and not _ends_aborted(output, inputs.max, ids)
    below = reach.min < inputs.min and not _begins_aborted(reach.min, listing, ids)
    return why if above or below else None


def _ends_aborted(output: BaseDir | DeltaDir, newest: int, ids: ValidWriteIds | None) -> bool:
    """Whether the ids above the inputs end with one that is not visible; a base ends with the next one after it."""
    if ids is None:
        return False
    end = output.range.max
    after = isinstance(output, BaseDir) and end - 1 > newest and not ids.is_valid(end - 1)
    return after or not ids.is_valid(end)


def _begins_aborted(begin: int, listing: Listing, ids: ValidWriteIds | None) -> bool:
    """Whether a delta on disk that is not visible begins where an output does."""
    deltas = _deltas(parse_directory(name) for name in listing.directories)
    there = [delta.range for delta in deltas if delta.min_write_id == begin]
    return ids is not None and any(ids.is_range_valid(*one) is RangeAnswer.NONE for one in there)


def is_unowned(name: str, files: Iterable[FileInfo]) -> bool:
    """Whether a work directory has neither an owner nor a journal.

    A journal tells what readers may count, and what it names may lie beside it: such a directory is never let go
    without its owner, be the journal readable or not.
    """
    sizes = {info.path: info.size for info in files}
    return not sizes.get(f"{name}/{OWNER_NAME}") and f"{name}/{JOURNAL_NAME}" not in sizes
