"""The commit: from finished task attempts to directories that readers see.

    winners -> out/<directory>/, markers beside them     in the work directory, invisible
    list the location                                    inputs as planned? outputs free, complete, read as meant?
    lock still ours?
    journal                                              only where it takes more than one step
    rename out/<directory> -> <location>/<directory>     the moment at which the table is compacted

Until the first rename nothing that a reader looks at has changed. A major compaction has one rename. A minor one with
both sides has two: an error between them is undone at once, a crash by `recovery.recover`.

Object stores rename nothing. There the winners stay where they are, markers alone go to out/, and the last step is

    copy each file to <location>/<directory>/            by the server, never onto anything, data first, markers last

which is as many steps as there are files. Hive takes a directory for whole as soon as it lists one file of it, so this
is done under a visibility transaction that is still open, or while nobody else uses the table, and not otherwise.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace

from acidctl.compaction.coverage import verify_selection
from acidctl.compaction.plan import CompactionPlan, InputEntry, PartitionPlan, TaskResult
from acidctl.errors import (
    AcidctlError,
    ExistsError,
    ExitCode,
    InternalError,
    StalePlanError,
    StorageError,
    VerificationError,
)
from acidctl.format.listing import FileInfo, Listing
from acidctl.format.names import (
    JOURNAL_NAME,
    SIDE_FILE_SUFFIX,
    BucketFile,
    OriginalFile,
    is_hidden,
    parse_file,
)
from acidctl.maintenance.lock import (
    Lock,
    until_done,
)
from acidctl.maintenance.work_dir import (
    OUT,
    WorkDir,
    list_location,
    make_directory,
    move,
    moved,
    remove_file,
    write_file,
)
from acidctl.state.entries import ORIGINALS_NAME, EntryKind
from acidctl.state.inventory import take_inventory
from acidctl.state.journal import Journal, OutputFile, Proof, standing_of
from acidctl.storage.local import together
from acidctl.storage.port import Storage, join
from acidctl.storage.remote import for_each

# A copy is made by the server: one costs next to nothing here.
COPIES = 8
# So much of a file's end tells it from others of its name and size.
DIGESTED = 1 << 16


class NothingToDoError(AcidctlError):
    """Nothing was published because nothing had to be; `code` says why: `output_exists` or `no_rows`."""

    exit_code = ExitCode.DONE
    code = "output_exists"


class NoRowsError(NothingToDoError):
    """No event is left of what should have been compacted."""

    code = "no_rows"


def publish(
    storage: Storage,
    root: str,
    work: WorkDir,
    plan: PartitionPlan,
    whole: CompactionPlan,
    results: Sequence[TaskResult],
    lock: Lock,
) -> tuple[str, ...]:
    """Publish the outputs of a location and give their names; removing the work directory is left to the caller.

    `results` are those of the plan's tasks, of joins instead of their parts. A delta without events is left out.
    NothingToDoError: its directory exists already, or no event is left. StalePlanError: inputs changed, or the lock was
    broken. VerificationError: what was written is not complete, or would not be read as meant. StorageError. Nothing
    is published then; only when the second of two renames fails and the first cannot be undone, `work.half_published`
    is set, and the next run's `recovery.recover` completes it.
    """
    copies = not storage.facts.atomic_rename
    if copies and whole.visibility_txn is None and not whole.assume_exclusive:
        # A reader could see it half-done.
        raise StalePlanError(
            f"{storage.display(root)} is on a storage that cannot rename, and the plan was made for one that can",
            path=storage.display(root),
            hint="Plan anew with --visibility-txn, or with --assume-exclusive while nobody uses the table.",
        )
    kept = _outputs_with_rows(storage, root, plan, results)
    try:
        # A single one is made durable when it is renamed, and until then nothing else is of use.
        with together(root, lasting=len(kept.outputs) > 1):
            _stage(storage, root, work, kept, results, copies=copies)
    except AcidctlError:
        # What owner and mode are taken from may be gone: then that is what is wrong.
        _require_unchanged(storage, root, kept)
        raise
    listing = _require_unchanged(storage, root, kept)
    files = _files(kept, results, copies=copies)
    _require_complete(listing, work, files)
    verify_selection(listing, kept, whole)
    names = tuple(output.name for output in kept.outputs)
    lock.check()
    journal = Journal(
        id=work.id,
        outputs=names,
        visibility_txn=whole.visibility_txn,
        inputs=tuple(entry.name for entry in kept.inputs),
        input_files=tuple(info for entry in kept.inputs for info in entry.files),
        output_files=files if copies else (),
        proofs=_proofs(storage, work, kept, files) if copies or len(names) > 1 else (),
    )
    if copies or len(names) > 1:
        write_file(storage, join(work.path, JOURNAL_NAME), journal.to_bytes(), root)
    if copies:
        _copy(storage, root, work, journal)
    else:
        _rename(storage, root, work, names)
    return names


def _require_unchanged(storage: Storage, root: str, plan: PartitionPlan) -> Listing:
    """List the location; StalePlanError or NothingToDoError where it is not as the plan needs it."""
    listing = list_location(storage, root)
    require_free(storage, root, listing, plan)
    require_inputs(listing, plan)
    return listing


def require_inputs(listing: Listing, plan: PartitionPlan) -> None:
    """Raise StalePlanError unless every input is what the plan saw: its files, their sizes and times, and no more."""
    present = Present(listing, nested=any(one.code == "nested_directory" for one in plan.findings))
    for entry in plan.inputs:
        why = present.changed(entry)
        if why is not None:
            raise StalePlanError(
                f"{why} since the compaction was planned",
                path=join(listing.root, entry.name) if entry.name != ORIGINALS_NAME else listing.root,
                hint="Run the command again; it plans anew.",
            )


class Present:
    """What lies in a location, by its directories: an input is looked up among thousands, not searched for.

    `nested` says that bases and deltas inside of inputs are known, which are no part of these.
    """

    def __init__(self, listing: Listing, *, nested: bool = False) -> None:
        self._listing = listing
        decided = take_inventory(listing).decided if nested else ()
        self._apart = tuple(f"{entry.name}/" for entry in decided if entry.reason_code == "nested")
        self._files: dict[str, dict[str, FileInfo]] = {path: {} for path in listing.directories}
        for info in listing.files:
            self._files.setdefault(info.path.partition("/")[0], {})[info.path] = info

    def changed(self, entry: InputEntry) -> str | None:
        """What is not as planned with an input, as the beginning of a sentence; None when all is."""
        if entry.name == ORIGINALS_NAME:
            present = {info.path: info for info in take_inventory(self._listing).original_files}
        elif entry.name in self._files:
            present = self._files[entry.name]
        else:
            return f"{entry.name} was removed"
        planned = {info.path: info for info in entry.files}
        for path, info in planned.items():
            found = present.get(path)
            if found is None:
                return f"{path} was removed"
            if (found.size, found.modified) != (info.size, info.modified):
                return f"{path} was changed"
        for path, info in present.items():
            known = path in planned or path.startswith(self._apart)
            if not known and info.size and _holds_data(path, planned):
                return f"{path} was added"
        return None


def _holds_data(path: str, planned: Mapping[str, FileInfo]) -> bool:
    """Whether a file that the plan does not know would be read, or would say how much of a planned one is read."""
    if any(is_hidden(part) for part in path.split("/")):
        return False
    if path.endswith(SIDE_FILE_SUFFIX):
        return path.removesuffix(SIDE_FILE_SUFFIX) in planned
    return isinstance(parse_file(path.rpartition("/")[2]), BucketFile | OriginalFile)


def _outputs_with_rows(
    storage: Storage, root: str, plan: PartitionPlan, results: Sequence[TaskResult]
) -> PartitionPlan:
    """The plan without the deltas that turned out empty; an empty base has to be there, and holds its markers."""
    known = {output.name for output in plan.outputs}
    files = [result.output for result in results if result.path is not None]
    strange = [output for output in files if output.partition("/")[0] not in known]
    if strange or len(set(files)) != len(files):
        raise InternalError(f"the tasks answered twice or for directories that were not planned: {sorted(files)}")
    filled = {output.partition("/")[0] for output in files}
    kept = tuple(output for output in plan.outputs if output.kind == EntryKind.BASE.value or output.name in filled)
    if not kept:
        raise NoRowsError(
            f"{storage.display(root)}: no event is left of {len(plan.inputs)} directories, so nothing was published",
            path=storage.display(root),
            hint="`acidctl compact major` writes a base without them; `acidctl clean` removes aborted ones.",
        )
    return replace(plan, outputs=kept)


def _stage(
    storage: Storage, root: str, work: WorkDir, plan: PartitionPlan, results: Sequence[TaskResult], *, copies: bool
) -> None:
    """Put the directories together as they will be published, with owner and mode of the first input.

    What will be copied stays where it is, and only markers are written.
    """
    like_file = root
    if not copies:
        names = [entry.name for entry in plan.inputs if entry.name != ORIGINALS_NAME]
        paths = [info.path for entry in plan.inputs for info in entry.files]
        like_dir = join(root, names[0]) if names else root
        like_file = join(root, paths[0]) if paths else like_dir
        make_directory(storage, join(work.path, OUT), root)
        for output in plan.outputs:
            make_directory(storage, work.out_dir(output.name), like_dir)
        for result in results:
            if result.path is not None:
                target = join(work.path, f"{OUT}/{result.output}")
                move(storage, join(work.path, result.path), target)
                storage.inherit(target, like_file)
    for output in plan.outputs:
        for name, content in output.markers:
            write_file(storage, join(work.out_dir(output.name), name), content.encode("utf-8"), like_file)


def _files(plan: PartitionPlan, results: Sequence[TaskResult], *, copies: bool) -> tuple[OutputFile, ...]:
    """All files of the outputs and where they lie now: data before markers."""
    files = [
        OutputFile(result.output, result.bytes, result.path if copies else f"{OUT}/{result.output}")
        for result in sorted(results, key=lambda result: result.output)
        if result.path is not None
    ]
    for output in plan.outputs:
        for name, content in output.markers:
            path = f"{output.name}/{name}"
            files.append(OutputFile(path, len(content.encode("utf-8")), f"{OUT}/{path}"))
    return tuple(files)


def digest_of(content: bytes) -> str:
    """What a journal says of the content of a file: SHA-256 of its last `DIGESTED` bytes.

    In an ORC file these hold the statistics and the place of every stripe. That it is complete was verified before;
    here a file is only distinguished from another one of its name and size, which must not cost reading it once more.
    """
    return hashlib.sha256(content[-DIGESTED:]).hexdigest()


def digest_on_storage(storage: Storage, path: str, size: int) -> str:
    """`digest_of` a file of so many bytes."""
    with storage.open(path) as stream:
        stream.seek(max(0, size - DIGESTED))
        return digest_of(stream.read(DIGESTED))


def _proofs(storage: Storage, work: WorkDir, plan: PartitionPlan, files: Sequence[OutputFile]) -> tuple[Proof, ...]:
    """By what each file of the outputs will be known again."""
    found = {
        f"{output.name}/{name}": digest_of(content.encode("utf-8"))
        for output in plan.outputs
        for name, content in output.markers
    }

    def look(file: OutputFile) -> None:
        found[file.path] = digest_on_storage(storage, join(work.path, file.source), file.size)

    for_each(look, [file for file in files if file.path not in found], threads=COPIES, name="acidctl-digest")
    return tuple(Proof(file.path, file.size, found[file.path]) for file in files)


def require_free(storage: Storage, root: str, listing: Listing, plan: PartitionPlan) -> None:
    """Raise when an output exists: NothingToDoError if all do, StalePlanError if one of two does."""
    present = set(listing.directories) | {info.path for info in listing.files}
    there = [output.name for output in plan.outputs if output.name in present]
    if not there:
        return
    shown = storage.display(join(root, there[0]))
    if len(there) == len(plan.outputs):
        raise NothingToDoError(f"{shown} exists already", path=shown)
    raise StalePlanError(
        f"{shown} exists already, without the directory that was to be published along with it",
        path=shown,
        hint="Another compaction works on this table, or has left half of its result. See `acidctl ls`.",
    )


def _require_complete(listing: Listing, work: WorkDir, files: Sequence[OutputFile]) -> None:
    """Raise VerificationError unless the work directory holds the winners and the markers, whole, and `out` no more.

    Sizes tell a file that was cut short or is another one. Bytes are not compared once more: the file was read back
    after it was closed, nobody else knows the hidden directory, and storage that changes bytes on its own may
    do so a moment later just as well.
    """
    expected = {file.source: file.size for file in files}
    prefix = f"{work.name}/"
    inside = {info.path[len(prefix) :]: info.size for info in listing.files if info.path.startswith(prefix)}
    found = {path: size for path, size in inside.items() if path in expected or path.startswith(f"{OUT}/")}
    for path in sorted(expected.keys() | found.keys()):
        want, have = expected.get(path), found.get(path)
        if want != have:
            what = (
                "is missing" if have is None else "was not planned" if want is None else f"has {have} bytes, not {want}"
            )
            raise VerificationError(
                f"{path.removeprefix(f'{OUT}/')} {what} in {work.name}",
                path=join(listing.root, prefix + path),
                hint="Nothing was published. Run the command again; if it happens again, report it.",
            )


def _rename(storage: Storage, root: str, work: WorkDir, names: Sequence[str]) -> None:
    try:
        for name in names:
            rename_dir(storage, work.out_dir(name), join(root, name))
    except BaseException as error:
        if len(names) == 1:
            raise
        half = _take_back(storage, root, work, names)
        if half is None:
            raise
        what = "is published without the directory that belongs to it"
        raise _half_published_error(storage, join(root, half), work, what, error) from error


def _take_back(storage: Storage, root: str, work: WorkDir, names: Sequence[str]) -> str | None:
    """Undo renames; the name that may still be published, None when all is as before."""
    for name in names:
        try:
            if storage.stat(work.out_dir(name)) is None:
                rename_dir(storage, join(root, name), work.out_dir(name))
        except AcidctlError:
            return name
    return None


def rename_dir(storage: Storage, source: str, target: str) -> None:
    """Rename a directory to a name that is free."""
    until_done(lambda: storage.rename_dir(source, target), lambda: moved(storage, source, target))


def _copy(storage: Storage, root: str, work: WorkDir, journal: Journal) -> None:
    """Copy all files to their places; when something goes wrong, what was copied is removed again."""
    copied: list[OutputFile] = []
    try:
        copy_files(storage, root, work.path, journal.output_files, copied)
        missing = standing_of(journal, list_location(storage, root)).missing
        if missing:
            what = f"{missing[0]} is not there, or not whole, although it was copied"
            raise VerificationError(what, path=storage.display(join(root, missing[0])), hint="Run the command again.")
    except BaseException as error:
        try:
            remove_copies(storage, root, copied)
        except AcidctlError:
            place = join(root, journal.outputs[0])
            raise _half_published_error(storage, place, work, "is published in part", error) from error
        if isinstance(error, StalePlanError) and not storage.facts.knows_own:
            # What was there already may be ours: then only the journal keeps readers from taking it for whole.
            raise _half_published_error(
                storage, join(root, journal.outputs[0]), work, "may be published in part", error
            ) from error
        raise


def copy_files(storage: Storage, root: str, work: str, files: Sequence[OutputFile], copied: list[OutputFile]) -> None:
    """Copy data files, several at once, then markers; `copied` gets all that may be in place then, also after an error.

    StalePlanError where something else stands in the place of one.
    """

    def copy(file: OutputFile) -> None:
        target = join(root, file.path)

        def change() -> None:
            try:
                storage.copy_file(join(work, file.source), target)
            except ExistsError as error:
                copied.remove(file)
                shown = storage.display(target)
                hint = "Another compaction works on this table. See `acidctl ls`."
                raise StalePlanError(f"{shown} exists already", path=shown, hint=hint) from error

        def done() -> bool:
            found = storage.stat(target)
            return found is not None and not found.is_directory and found.size == file.size

        copied.append(file)
        until_done(change, done)

    data = [file for file in files if not is_hidden(file.path.rpartition("/")[2])]
    markers = [file for file in files if file not in data]
    for group in (data, markers):
        for_each(copy, group, threads=COPIES, name="acidctl-copy")


def remove_copies(storage: Storage, root: str, files: Sequence[OutputFile]) -> None:
    """Remove what was copied, markers first, where it has the size that it should have: anything else is not ours."""
    for file in reversed(files):
        path = join(root, file.path)
        found = storage.stat(path)
        if found is not None and not found.is_directory and found.size == file.size:
            remove_file(storage, path)


def _half_published_error(storage: Storage, place: str, work: WorkDir, what: str, error: BaseException) -> StorageError:
    """The error for what is neither published nor could be taken back; the work directory is kept by it."""
    work.half_published = True
    shown = storage.display(place)
    why = error.message if isinstance(error, AcidctlError) else "interrupted"
    return StorageError(
        f"{shown} {what}, and could not be removed again: {why}",
        path=shown,
        hint="Run `acidctl compact` again: it completes or undoes this. acidctl reads the table as before until "
        "then. Do not let Hive read it, and do not abort the transaction of --visibility-txn.",
    )
