"""The commit: from finished task attempts to directories that readers see.

    winners -> out/<directory>/, markers beside them     in the work directory, invisible
    list the location                                    inputs as planned? outputs free, complete, read as meant?
    lock still ours?
    journal                                              only where it takes more than one step
    rename out/<directory> -> <location>/<directory>     the moment at which the table is compacted

Until the first rename nothing that a reader looks at has changed. A major compaction has one rename. A minor one with
both sides has two: an error between them is undone at once, a crash by `recover`.

Object stores rename nothing. There the winners stay where they are, markers alone go to out/, and the last step is

    copy each file to <location>/<directory>/            by the server, never onto anything, data first, markers last

which is as many steps as there are files. Hive takes a directory for whole as soon as it lists one file of it, so this
is done under a visibility transaction that is still open, or while nobody else uses the table, and not otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from acidctl.compaction.coverage import verify_selection
from acidctl.compaction.plan import CompactionPlan, InputEntry, PartitionPlan, TaskResult
from acidctl.errors import (
    AcidctlError,
    ExistsError,
    ExitCode,
    InternalError,
    NoSuchTableError,
    StalePlanError,
    StorageError,
    VerificationError,
)
from acidctl.format.listing import FileInfo, Listing, obstacle
from acidctl.format.names import (
    FAILED_NAME,
    JOURNAL_NAME,
    LOCK_NAME,
    OWNER_NAME,
    SIDE_FILE_SUFFIX,
    WORK_PREFIX,
    BucketFile,
    DeltaDir,
    OriginalFile,
    is_hidden,
    parse_directory,
    parse_file,
)
from acidctl.format.write_ids import ValidTxns
from acidctl.maintenance.lock import (
    LOCK_TYPE,
    NEW_PREFIX,
    TAKEN_PREFIX,
    TORN_LOCK_SECONDS,
    Life,
    Lock,
    Owner,
    from_bytes,
    is_id,
    life_of,
    until_done,
)
from acidctl.maintenance.work_dir import (
    OUT,
    WORK_TYPE,
    WorkDir,
    list_location,
    make_directory,
    move,
    moved,
    remove_file,
    remove_work,
    write_file,
)
from acidctl.state.entries import ORIGINALS_NAME, EntryKind
from acidctl.state.inventory import take_inventory
from acidctl.state.journal import Journal, OutputFile, is_unowned, journals_of, standing_of
from acidctl.storage.local import together
from acidctl.storage.port import Storage, join
from acidctl.storage.remote import for_each

# A copy is made by the server: one costs next to nothing here.
COPIES = 8


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


# --- What a dead run left in a location is completed, undone or removed, before the next one begins there.

_LIMIT = 1 << 16


def has_leftovers(listing: Listing) -> bool:
    """Whether a location holds locks or work directories of any run; `recover` then has something to look at.

    Where nothing may be changed, nothing is recovered.
    """
    if obstacle(listing) is not None:
        return False
    names = (*listing.directories, *listing.foreign, *(info.path for info in listing.files))
    ours = (LOCK_NAME, TAKEN_PREFIX, WORK_PREFIX)
    return any("/" not in name and name.startswith(ours) for name in names)


def recover(storage: Storage, root: str, listing: Listing, *, lock: Lock, txns: ValidTxns | None = None) -> list[str]:
    """Deal with what dead runs left; sentences of what was done, empty when there was nothing to do.

    `listing` was made while `lock` was held. A journal of which a part is published (one of two directories, or some of
    the files that are copied) is completed when the rest is whole and the inputs are as they were, or when inputs are
    gone already (Hive has cleaned up after the published part, and the rest holds what it cannot); else, and when
    `txns` says that its visibility transaction was aborted, it is undone. StalePlanError when neither can be done, or
    when a run that lost its lock still lives.
    """
    if not has_leftovers(listing):
        return []
    sentences: list[str] = [
        f"Left {path} as it is: it is a symbolic link, which acidctl neither follows nor removes."
        for path in listing.foreign
        if "/" not in path
    ]

    def owner_of(path: str, kind: str, id_: str) -> Owner | None:
        """What another owner says under such a name proves nothing."""
        with storage.open(join(root, path)) as stream:
            owner = from_bytes(stream.read(_LIMIT), kind)
        return owner if owner is not None and owner.id == id_ else None

    # Locks that were taken over: `_acidctl_lock_<id of the dead>`.
    locks = {info.path: info.path.removeprefix(TAKEN_PREFIX) for info in listing.files if not info.directory}
    taken = {path: id_ for path, id_ in locks.items() if path.startswith(TAKEN_PREFIX) and is_id(id_)}
    ended = {id_ for path, id_ in taken.items() if owner_of(path, LOCK_TYPE, id_) is not None}
    works = {path: path.removeprefix(WORK_PREFIX) for path in sorted(listing.directories) if "/" not in path}
    journals = {journal.work: journal for journal in journals_of(listing)}
    for name, id_ in works.items():
        if not name.startswith(WORK_PREFIX) or not is_id(id_) or id_ == lock.id:
            continue
        infos = [info for info in listing.files if info.path.startswith(f"{name}/")]
        files = {info.path[len(name) + 1 :] for info in infos}
        owner = owner_of(f"{name}/{OWNER_NAME}", WORK_TYPE, id_) if OWNER_NAME in files else None
        dead = id_ in ended or (owner is not None and _is_dead(owner))
        linked = name in listing.linked_entries
        journal = None if linked else journals.get(name)
        if journal is not None:
            sentences += _finish_or_undo(storage, root, owner, journal, dead, lock, txns)
        if linked:
            sentences.append(f"Left {name} as it is: it holds a symbolic link, and acidctl makes none.")
        elif FAILED_NAME in files:
            continue
        elif dead and (owner is not None or files <= {OWNER_NAME}):
            lock.check()
            remove_work(storage, join(root, name))
            sentences.append(f"Removed {name}, which a run that died had left.")
        elif owner is not None:
            sentences.append(f"Left {name} as it is: cannot tell whether {owner.described} has ended.")
        else:
            advice = (
                "`acidctl clean --leftovers` removes it by age."
                if is_unowned(name, infos)
                else "No command removes it; remove it by hand once no run of acidctl can need it."
            )
            sentences.append(f"Did not recover {name}: its owner is unknown. {advice}")
    for name in (*taken, *_unfinished(storage, root, listing, lock)):
        remove_file(storage, join(root, name))
    return sentences


def _unfinished(storage: Storage, root: str, listing: Listing, lock: Lock) -> list[str]:
    """Locks that a run that is dead has not got as far as to take: `_acidctl_lock_new_<id>`.

    One that is being written this very moment is missed by its writer, who begins again.
    """
    found = []
    for info in listing.files:
        if not info.path.startswith(NEW_PREFIX) or not is_id(info.path.removeprefix(NEW_PREFIX)):
            continue
        try:
            with storage.open(join(root, info.path)) as stream:
                owner = from_bytes(stream.read(_LIMIT), LOCK_TYPE)
        except (StorageError, NoSuchTableError):
            continue  # its writer has just ended
        old = info.modified is not None and lock.now - info.modified > TORN_LOCK_SECONDS
        if old if owner is None else _is_dead(owner):
            found.append(info.path)
    return found


def _is_dead(owner: Owner) -> bool:
    """Whether a work directory's run is over; our own process holds another lock now, so it has given this one up."""
    return life_of(owner) in (Life.DEAD, Life.OURSELVES)


def _finish_or_undo(
    storage: Storage,
    root: str,
    owner: Owner | None,
    journal: Journal,
    dead: bool,
    lock: Lock,
    txns: ValidTxns | None,
) -> list[str]:
    """Complete or undo a publication that takes several steps."""
    # Earlier recoveries may have moved something since.
    listing = list_location(storage, root)
    standing = standing_of(journal, listing)
    if not standing.half:
        return []
    first, absent, work = standing.shown[0], standing.missing, join(root, journal.work)
    if not dead and owner is not None and life_of(owner) is Life.ALIVE:
        raise StalePlanError(
            f"{first} is being published by {owner.described}, whose lock was broken",
            path=storage.display(root),
            hint="End that process, then run the command again.",
        )
    aborted = journal.visibility_txn is not None and txns is not None and txns.is_aborted(journal.visibility_txn)
    inputs: dict[str, list[FileInfo]] = {name: [] for name in journal.inputs}
    for info in journal.input_files:
        name = info.path.partition("/")[0]
        inputs.setdefault(name if name in inputs else ORIGINALS_NAME, []).append(info)
    present = Present(listing)
    planned = (InputEntry(name, "", None, None, tuple(inputs[name])) for name in journal.inputs)
    changed = any(present.changed(entry) is not None for entry in planned)
    here = {info.path for info in listing.files}
    gone = sum(info.path not in here for info in journal.input_files)
    twin = _has_twin(listing, list(journal.outputs) if journal.output_files else list(absent))
    lock.check()
    if _is_ready(listing, journal, absent) and not aborted and (gone or not changed) and not twin:
        if journal.output_files:
            copy_files(storage, root, work, [file for file in journal.output_files if file.path in absent], [])
        else:
            for name in absent:
                rename_dir(storage, join(work, f"{OUT}/{name}"), join(root, name))
        names = " and ".join(journal.outputs)
        whole = f"{names} are both" if len(journal.outputs) > 1 else f"{names} is"
        return [f"Completed an interrupted compaction: {whole} published now."]
    if gone and not aborted:
        raise StalePlanError(
            f"{first} is half of an interrupted compaction; it cannot be taken back, because {gone} files of "
            f"its inputs are gone, nor can {absent[0]} be published with it",
            path=storage.display(join(root, first)),
            hint=f"Do not let anything write to this table. What is left of {absent[0]} lies in {journal.work}.",
        )
    if journal.output_files:
        there = set(standing.there)
        remove_copies(storage, root, [file for file in journal.output_files if file.path in there])
    else:
        if standing.there and storage.stat(join(work, OUT)) is None:
            storage.mkdir(join(work, OUT), root)
        for name in standing.there:
            rename_dir(storage, join(root, name), join(work, f"{OUT}/{name}"))
    alone = " and ".join(standing.shown)
    return [f"Undid an interrupted compaction: {alone} alone would have shown wrong rows."]


def _is_ready(listing: Listing, journal: Journal, absent: Sequence[str]) -> bool:
    """Whether all that is missing lies in the work directory, whole, and nothing else is in its place."""
    if not journal.output_files:
        return all(f"{journal.work}/{OUT}/{name}" in listing.directories for name in absent)
    sizes = {info.path: info.size for info in listing.files}
    files = [file for file in journal.output_files if file.path in absent]
    return all(file.path not in sizes and sizes.get(f"{journal.work}/{file.source}") == file.size for file in files)


def _has_twin(listing: Listing, names: list[str]) -> bool:
    """Whether another directory of one kind and range would be read beside one of these, and rows come twice."""
    wanted = {_span(name) for name in names} - {None}
    return any(_span(name) in wanted for name in listing.directories if "/" not in name and name not in names)


def _span(name: str) -> tuple[object, ...] | None:
    parsed = parse_directory(name)
    if not isinstance(parsed, DeltaDir) or parsed.statement_id is not None:
        return None
    return parsed.kind, parsed.range
