"""The commit: from finished task attempts to directories that readers see.

    list the location                                    inputs as planned? outputs free?
    winners -> out/<directory>/, markers beside them     in the work directory, invisible
    list the location again                              both once more; outputs complete? read as meant?
    lock still ours?
    journal                                              only where two directories are published
    rename out/<directory> -> <location>/<directory>     the moment at which the table is compacted

Until the first rename nothing that a reader looks at has changed. A major compaction has one rename. A minor one with
both sides has two: an error between them is undone at once, a crash by `recover`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from acidctl.errors import AcidctlError, ExitCode, InternalError, StalePlanError, StorageError, VerificationError
from acidctl.jobs.lock import Lock
from acidctl.jobs.selection import verify_selection
from acidctl.jobs.spec import TaskResult
from acidctl.jobs.workdir import (
    OUT,
    WorkDir,
    list_location,
    make_directory,
    move,
    moved,
    surely,
    write_file,
)
from acidctl.listing import FileInfo, Listing
from acidctl.names import JOURNAL_NAME, SIDE_FILE_SUFFIX, BucketFile, OriginalFile, is_hidden, parse_file
from acidctl.plan import CompactionPlan, InputEntry, PartitionPlan
from acidctl.state import ORIGINALS_NAME, EntryKind
from acidctl.state_journal import Journal
from acidctl.state_stock import take_stock
from acidctl.storage.port import Storage, join


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
    is set, and the next run's `recover` completes it.
    """
    kept = _outputs_with_rows(storage, root, plan, results)
    _require_unchanged(storage, root, kept)
    _assemble(storage, root, work, kept, results)
    listing = _require_unchanged(storage, root, kept)
    _require_complete(listing, work, kept, results)
    verify_selection(listing, kept, whole)
    names = tuple(output.name for output in kept.outputs)
    lock.check()
    if len(names) > 1:
        write_file(storage, join(work.path, JOURNAL_NAME), _journal(work, kept, whole).to_bytes())
    _rename(storage, root, work, names)
    return names


def _require_unchanged(storage: Storage, root: str, plan: PartitionPlan) -> Listing:
    """List the location; StalePlanError or NothingToDoError where it is not as the plan needs it."""
    listing = list_location(storage, root)
    _require_free(storage, root, listing, plan)
    require_inputs(listing, plan)
    return listing


def require_inputs(listing: Listing, plan: PartitionPlan) -> None:
    """Raise StalePlanError unless every input is what the plan saw: its files, their sizes and times, and no more."""
    for entry in plan.inputs:
        why = changed(listing, entry)
        if why is not None:
            raise StalePlanError(
                f"{why} since the compaction was planned",
                path=join(listing.root, entry.name) if entry.name != ORIGINALS_NAME else listing.root,
                hint="Run the command again; it plans anew.",
            )


def changed(listing: Listing, entry: InputEntry) -> str | None:
    """What is not as planned with an input, as the beginning of a sentence; None when all is."""
    if entry.name == ORIGINALS_NAME:
        present = {info.path: info for info in take_stock(listing).original_files}
    else:
        prefix = f"{entry.name}/"
        present = {info.path: info for info in listing.files if info.path.startswith(prefix)}
        if not present and entry.name not in listing.directories:
            return f"{entry.name} was removed"
    planned = {info.path: info for info in entry.files}
    for path, info in planned.items():
        found = present.get(path)
        if found is None:
            return f"{path} was removed"
        if (found.size, found.modified) != (info.size, info.modified):
            return f"{path} was changed"
    for path, info in present.items():
        if path not in planned and info.size and _holds_data(path, planned):
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


def _assemble(storage: Storage, root: str, work: WorkDir, plan: PartitionPlan, results: Sequence[TaskResult]) -> None:
    """Put the directories together as they will be published, with owner and mode of what they replace."""
    like_dir, like_file = _models(root, plan.inputs)
    make_directory(storage, join(work.path, OUT))
    for output in plan.outputs:
        make_directory(storage, work.out_dir(output.name))
    for result in results:
        if result.path is not None:
            target = join(work.path, f"{OUT}/{result.output}")
            move(storage, join(work.path, result.path), target)
            storage.inherit(target, like_file)
    for output in plan.outputs:
        for name, content in output.markers:
            path = join(work.out_dir(output.name), name)
            write_file(storage, path, content.encode("utf-8"))
            storage.inherit(path, like_file)
        storage.inherit(work.out_dir(output.name), like_dir)


def _models(root: str, inputs: Sequence[InputEntry]) -> tuple[str, str]:
    """The directory and the file whose owner and mode the outputs get: those of the first input."""
    directories = [entry.name for entry in inputs if entry.name != ORIGINALS_NAME]
    files = [info.path for entry in inputs for info in entry.files]
    directory = join(root, directories[0]) if directories else root
    return directory, join(root, files[0]) if files else directory


def _require_free(storage: Storage, root: str, listing: Listing, plan: PartitionPlan) -> None:
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


def _require_complete(listing: Listing, work: WorkDir, plan: PartitionPlan, results: Sequence[TaskResult]) -> None:
    """Raise VerificationError unless the directories hold the winners and the markers, whole, and nothing else.

    Sizes tell a file that was cut short or is another one. Bytes are not compared once more: the file was read back
    after it was closed, nobody else knows the hidden directory, and storage that changes bytes without being told may
    do so a moment later just as well.
    """
    expected: dict[str, int] = {}
    for output in plan.outputs:
        for name, content in output.markers:
            expected[f"{output.name}/{name}"] = len(content.encode("utf-8"))
    expected.update({result.output: result.bytes for result in results if result.path is not None})
    prefix = f"{work.name}/{OUT}/"
    found = {info.path[len(prefix) :]: info.size for info in listing.files if info.path.startswith(prefix)}
    for path in sorted(expected.keys() | found.keys()):
        want, have = expected.get(path), found.get(path)
        if want != have:
            what = (
                "is missing" if have is None else "was not planned" if want is None else f"has {have} bytes, not {want}"
            )
            raise VerificationError(
                f"{path} {what} in {work.name}",
                path=join(listing.root, prefix + path),
                hint="Nothing was published. Run the command again; if it happens again, report it.",
            )


def _journal(work: WorkDir, plan: PartitionPlan, whole: CompactionPlan) -> Journal:
    return Journal(
        id=work.id,
        outputs=tuple(output.name for output in plan.outputs),
        visibility_txn=whole.visibility_txn,
        inputs=tuple(entry.name for entry in plan.inputs),
        input_files=tuple(info for entry in plan.inputs for info in entry.files),
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
        work.half_published = True
        shown = storage.display(join(root, half))
        why = error.message if isinstance(error, StorageError) else "interrupted"
        raise StorageError(
            f"{shown} is published without the directory that belongs to it, and could not be taken back: {why}",
            path=shown,
            hint="Run `acidctl compact` again: it completes or undoes this. acidctl reads the table as before until "
            "then; let Hive not read it.",
        ) from error


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
    surely(lambda: storage.rename_dir(source, target), lambda: moved(storage, source, target))
