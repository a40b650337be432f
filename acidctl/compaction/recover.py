"""What a dead run left in a location is completed, undone or removed, before the next one begins there.

Only what is known to be left behind by a dead run of acidctl is touched: its owner file names a process that has ended,
or its lock was taken over. Work directories that are marked `failed` are evidence and stay. A run may die in here as
well; whatever it had done by then, the next one starts from what it finds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from acidctl.compaction.plan import InputEntry
from acidctl.compaction.publish import Present, copy_files, remove_copies, rename_dir
from acidctl.errors import NoSuchTableError, StalePlanError, StorageError
from acidctl.format.listing import FileInfo, Listing, obstacle
from acidctl.format.names import FAILED_NAME, LOCK_NAME, OWNER_NAME, WORK_PREFIX, DeltaDir, parse_directory
from acidctl.format.write_ids import ValidTxns
from acidctl.maintenance.lock import LOCK_TYPE, NEW_PREFIX, TAKEN_PREFIX, TORN_LOCK_SECONDS, Lock
from acidctl.maintenance.owner import Life, Owner, from_bytes, is_id, life_of
from acidctl.maintenance.work_dir import (
    OUT,
    WORK_TYPE,
    list_location,
    remove_file,
    remove_work,
)
from acidctl.state.journal import Journal, is_unowned, journals_of, standing_of
from acidctl.state.resolve import ORIGINALS_NAME
from acidctl.storage.port import Storage, join

_LIMIT = 1 << 16


@dataclass(frozen=True, slots=True)
class _Left:
    """A work directory of another run; `owner` is None where nothing valid says whose it is.

    `unowned`: a cleaner may let it go by its age. `linked`: it is a symbolic link or holds some.
    """

    name: str
    owner: Owner | None
    failed: bool
    bare: bool
    unowned: bool
    linked: bool

    @property
    def id(self) -> str:
        """What its name says."""
        return self.name.removeprefix(WORK_PREFIX)


def has_leftovers(listing: Listing) -> bool:
    """Whether a location holds locks or work directories of any run; `recover` then has something to look at.

    Where nothing may be changed, nothing is recovered.
    """
    return obstacle(listing) is None and any(_is_ours(name) for name in _top_names(listing))


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
    said: list[str] = [
        f"Left {path} as it is: it is a symbolic link, which acidctl neither follows nor removes."
        for path in listing.foreign
        if "/" not in path
    ]
    taken = _taken_locks(storage, root, listing)
    works = [left for left in _works(storage, root, listing) if left.id != lock.id]
    journals = {journal.work: journal for journal in journals_of(listing)}
    for left in works:
        dead = left.id in taken or (left.owner is not None and _is_dead(left.owner))
        journal = None if left.linked else journals.get(left.name)
        if journal is not None:
            said += _settle(storage, root, left, journal, dead, lock, txns)
        if left.linked:
            said.append(f"Left {left.name} as it is: it holds a symbolic link, and acidctl makes none.")
            continue
        if left.failed:
            continue
        if not dead or (left.owner is None and not left.bare):
            said.append(_kept(left))
            continue
        lock.check()
        remove_work(storage, join(root, left.name))
        said.append(f"Removed {left.name}, which a run that died had left.")
    for name in (*_taken_names(listing), *_unfinished(storage, root, listing, lock)):
        remove_file(storage, join(root, name))
    return said


def _is_ours(name: str) -> bool:
    return name == LOCK_NAME or name.startswith((TAKEN_PREFIX, WORK_PREFIX))


def _top_names(listing: Listing) -> list[str]:
    return [
        *(path for path in listing.directories if "/" not in path),
        *(i.path for i in listing.files if not i.directory),
        *(path for path in listing.foreign if "/" not in path),
    ]


def _taken_names(listing: Listing) -> list[str]:
    """Locks that were taken over: `_acidctl_lock_<id of the dead>`."""
    names = (info.path for info in listing.files if not info.directory)
    return [name for name in names if name.startswith(TAKEN_PREFIX) and is_id(name.removeprefix(TAKEN_PREFIX))]


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


def _taken_locks(storage: Storage, root: str, listing: Listing) -> set[str]:
    """Ids of runs whose lock was taken over; a lock of somebody else under such a name proves nothing."""
    ids = set()
    for name in _taken_names(listing):
        with storage.open(join(root, name)) as stream:
            owner = from_bytes(stream.read(_LIMIT), LOCK_TYPE)
        if owner is not None and owner.id == name.removeprefix(TAKEN_PREFIX):
            ids.add(owner.id)
    return ids


def _works(storage: Storage, root: str, listing: Listing) -> list[_Left]:
    """Work directories whose names are acidctl's, by name."""
    found = []
    for name in listing.directories:
        if "/" in name or not name.startswith(WORK_PREFIX) or not is_id(name.removeprefix(WORK_PREFIX)):
            continue
        infos = [info for info in listing.files if info.path.startswith(f"{name}/")]
        files = {info.path[len(name) + 1 :] for info in infos}
        owner = None
        if OWNER_NAME in files:
            with storage.open(join(root, f"{name}/{OWNER_NAME}")) as stream:
                owner = from_bytes(stream.read(_LIMIT), WORK_TYPE)
        if owner is not None and owner.id != name.removeprefix(WORK_PREFIX):
            owner = None
        bare, linked = files <= {OWNER_NAME}, name in listing.linked_entries
        found.append(_Left(name, owner, FAILED_NAME in files, bare, is_unowned(name, infos), linked))
    return sorted(found, key=lambda left: left.name)


def _is_dead(owner: Owner) -> bool:
    """Whether a work directory's run is over; our own process holds another lock now, so it has given this one up."""
    return life_of(owner) in (Life.DEAD, Life.OURSELVES)


def _kept(left: _Left) -> str:
    if left.owner is None:
        advice = (
            "`acidctl clean --leftovers` removes it by age."
            if left.unowned
            else "No command removes it; do so by hand once no run of acidctl can need it."
        )
        return f"Did not recover {left.name}: nothing says whose it is. {advice}"
    return f"Left {left.name} as it is: whether {left.owner.described} has ended cannot be told."


def _settle(
    storage: Storage, root: str, left: _Left, journal: Journal, dead: bool, lock: Lock, txns: ValidTxns | None
) -> list[str]:
    """Complete or undo a publication that takes several steps."""
    # Earlier recoveries may have moved something since.
    listing = list_location(storage, root)
    standing = standing_of(journal, listing)
    if not standing.half:
        return []
    first, absent = standing.shown[0], standing.missing
    if not dead and left.owner is not None and life_of(left.owner) is Life.ALIVE:
        raise StalePlanError(
            f"{first} is being published by {left.owner.described}, whose lock was broken",
            path=storage.display(root),
            hint="End that process, then run the command again.",
        )
    aborted = journal.visibility_txn is not None and txns is not None and txns.is_aborted(journal.visibility_txn)
    changes = [why for why in map(_Inputs(listing, journal).changed, journal.inputs) if why is not None]
    here = {info.path for info in listing.files}
    gone = sum(info.path not in here for info in journal.input_files)
    twin = _has_twin(listing, list(journal.outputs) if journal.output_files else list(absent))
    lock.check()
    if _is_ready(listing, left, journal, absent) and not aborted and (gone or not changes) and not twin:
        _complete(storage, root, left, journal, absent)
        names = " and ".join(journal.outputs)
        whole = f"{names} are both" if len(journal.outputs) > 1 else f"{names} is"
        return [f"Completed an interrupted compaction: {whole} published now."]
    if gone and not aborted:
        raise StalePlanError(
            f"{first} is half of an interrupted compaction; it cannot be taken back, because {gone} files of "
            f"its inputs are gone, nor can {absent[0]} be published with it",
            path=storage.display(join(root, first)),
            hint=f"Do not let anything write to this table. What is left of {absent[0]} lies in {left.name}.",
        )
    if journal.output_files:
        there = set(standing.there)
        remove_copies(storage, root, [file for file in journal.output_files if file.path in there])
    else:
        for name in standing.there:
            rename_dir(storage, join(root, name), _place(storage, root, join(root, left.name), name))
    alone = " and ".join(standing.shown)
    return [f"Undid an interrupted compaction: {alone} alone would have been misread."]


def _is_ready(listing: Listing, left: _Left, journal: Journal, absent: Sequence[str]) -> bool:
    """Whether all that is missing lies in the work directory, whole, and nothing else is in its place."""
    if not journal.output_files:
        return all(f"{left.name}/{OUT}/{name}" in listing.directories for name in absent)
    sizes = {info.path: info.size for info in listing.files}
    files = [file for file in journal.output_files if file.path in absent]
    return all(file.path not in sizes and sizes.get(f"{left.name}/{file.source}") == file.size for file in files)


def _complete(storage: Storage, root: str, left: _Left, journal: Journal, absent: Sequence[str]) -> None:
    work = join(root, left.name)
    if journal.output_files:
        copy_files(storage, root, work, [file for file in journal.output_files if file.path in absent], [])
        return
    for name in absent:
        rename_dir(storage, join(work, f"{OUT}/{name}"), join(root, name))


def _place(storage: Storage, root: str, work: str, name: str) -> str:
    """Where a directory goes back to."""
    out = join(work, OUT)
    if storage.stat(out) is None:
        storage.mkdir(out, root)
    return join(out, name)


def _has_twin(listing: Listing, names: list[str]) -> bool:
    """Whether another directory of one kind and range would be read beside one of these, and rows come twice."""
    wanted = {_span(name) for name in names} - {None}
    return any(_span(name) in wanted for name in listing.directories if "/" not in name and name not in names)


def _span(name: str) -> tuple[object, ...] | None:
    parsed = parse_directory(name)
    if not isinstance(parsed, DeltaDir) or parsed.statement_id is not None:
        return None
    return parsed.kind, parsed.range


class _Inputs:
    """The inputs of a journal, as its plan saw them."""

    def __init__(self, listing: Listing, journal: Journal) -> None:
        self._present = Present(listing)
        self._files: dict[str, list[FileInfo]] = {name: [] for name in journal.inputs}
        for info in journal.input_files:
            owner = info.path.partition("/")[0]
            self._files.setdefault(owner if owner in self._files else ORIGINALS_NAME, []).append(info)

    def changed(self, name: str) -> str | None:
        """What is not as it was, None when all is."""
        return self._present.changed(InputEntry(name, "", None, None, tuple(self._files[name])))
