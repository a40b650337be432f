"""What a dead run left in a location is completed, undone or removed, before the next one begins there.

A publication that was interrupted is settled only where that is proved to be right: its journal is believed
(`state.journal.disbelief`), its files are those that the journal describes, and its owner has ended. Anyone who may
write into a table can put a journal there; what is not proved stays as it is, and the location is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from acidctl.compaction.plan import InputEntry
from acidctl.compaction.publish import Present, copy_files, digest_on_storage, remove_copies, rename_dir
from acidctl.errors import AcidctlError, ExitCode, NoSuchTableError, StalePlanError, StorageError
from acidctl.format.listing import FileInfo, Listing, obstacle
from acidctl.format.names import (
    FAILED_NAME,
    JOURNAL_NAME,
    LOCK_NAME,
    OWNER_NAME,
    WORK_PREFIX,
    DeltaDir,
    parse_directory,
)
from acidctl.format.write_ids import ValidTxns, ValidWriteIds
from acidctl.maintenance.lock import (
    LOCK_TYPE,
    NEW_PREFIX,
    TAKEN_PREFIX,
    TORN_LOCK_SECONDS,
    Life,
    Lock,
    Owner,
    from_bytes,
    has_ended,
    is_id,
    life_of,
)
from acidctl.maintenance.work_dir import (
    OUT,
    WORK_TYPE,
    WorkDir,
    list_location,
    make_directory,
    remove_file,
    remove_work,
)
from acidctl.state.entries import ORIGINALS_NAME
from acidctl.state.journal import (
    Journal,
    Standing,
    disbelief,
    is_of_another_version,
    is_unowned,
    journals_of,
    standing_of,
)
from acidctl.storage.port import Storage, join

_LIMIT = 1 << 16
# In a work directory, what was taken back of files that had been copied: `out` holds other files of the same names.
UNDONE = "undone"


class UnprovedJournalError(AcidctlError):
    """A work directory says that a compaction was interrupted, and cannot prove it; nothing was changed."""

    exit_code = ExitCode.FINDINGS
    code = "unproved_journal"


def has_leftovers(listing: Listing) -> bool:
    """Whether a location holds locks or work directories of any run; `recover` then has something to look at.

    Where nothing may be changed, nothing is recovered.
    """
    if obstacle(listing) is not None:
        return False
    names = (*listing.directories, *listing.foreign, *(info.path for info in listing.files))
    ours = (LOCK_NAME, TAKEN_PREFIX, WORK_PREFIX)
    return any("/" not in name and name.startswith(ours) for name in names)


def recover(
    storage: Storage,
    root: str,
    listing: Listing,
    *,
    lock: Lock,
    txns: ValidTxns | None = None,
    ids: ValidWriteIds | None = None,
) -> list[str]:
    """Deal with what dead runs left; sentences of what was done, empty when there was nothing to do.

    `listing` was made while `lock` was held, `ids` are the write ids of whoever asks. A journal of which a part is
    published (one of two directories, or some of the files that are copied) is completed when the rest is whole and the
    inputs are as they were, or when inputs are gone already (Hive has cleaned up after the published part, and the rest
    holds what it cannot); else, and when `txns` says that its visibility transaction was aborted, it is undone.
    UnprovedJournalError when it is not proved that this journal tells the truth and that its owner has ended,
    StalePlanError when neither can be done, or when a run that lost its lock still lives.
    """
    if not has_leftovers(listing):
        return []
    sentences: list[str] = [
        f"Left {path} as it is: it is a symbolic link, which acidctl neither follows nor removes."
        for path in listing.foreign
        if "/" not in path
    ]
    # Locks that were taken over: `_acidctl_lock_<id of the dead>`.
    locks = {info.path: info.path.removeprefix(TAKEN_PREFIX) for info in listing.files if not info.directory}
    taken = {path: id_ for path, id_ in locks.items() if path.startswith(TAKEN_PREFIX) and is_id(id_)}
    owners = {id_: _owner_of(storage, root, path, LOCK_TYPE, id_) for path, id_ in taken.items()}
    ended = {id_ for id_, owner in owners.items() if owner is not None and (lock.unsafe or has_ended(owner))}
    works = {path: path.removeprefix(WORK_PREFIX) for path in sorted(listing.directories) if "/" not in path}
    needed = set()
    for name, id_ in works.items():
        if name.startswith(WORK_PREFIX) and is_id(id_) and id_ != lock.id:
            done, stays = _settle_work(_Location(storage, root, listing, lock, txns, ids), name, id_, id_ in ended)
            sentences += done
            needed |= {id_} if stays else set()
    proofs = [path for path, id_ in taken.items() if id_ not in needed or id_ in ended]
    for name in (*proofs, *_unfinished(storage, root, listing, lock)):
        remove_file(storage, join(root, name))
    return sentences


class _Location(NamedTuple):
    """A location in which something is settled, and what is known for that."""

    storage: Storage
    root: str
    listing: Listing
    lock: Lock
    txns: ValidTxns | None
    ids: ValidWriteIds | None


def _owner_of(storage: Storage, root: str, path: str, kind: str, id_: str) -> Owner | None:
    """What another owner says under such a name proves nothing."""
    with storage.open(join(root, path)) as stream:
        owner = from_bytes(stream.read(_LIMIT), kind)
    return owner if owner is not None and owner.id == id_ else None


def _settle_work(at: _Location, name: str, id_: str, ended: bool) -> tuple[list[str], bool]:
    """Deal with one work directory; what was done, and whether it stays. `ended`: a lock proves that its owner has."""
    storage, root, listing = at.storage, at.root, at.listing
    if name in listing.linked_entries:
        return [f"Left {name} as it is: it holds a symbolic link, and acidctl makes none."], True
    infos = [info for info in listing.files if info.path.startswith(f"{name}/")]
    files = {info.path[len(name) + 1 :] for info in infos}
    owner = _owner_of(storage, root, f"{name}/{OWNER_NAME}", WORK_TYPE, id_) if OWNER_NAME in files else None
    dead = ended or (owner is not None and _is_over(owner, at.lock))
    sentences: list[str] = []
    journal = next((journal for journal in journals_of(listing) if journal.work == name), None)
    if journal is not None:
        sentences, keep = _Publication(at, owner, journal, dead).settle()
        if keep:
            return sentences, True
    elif is_of_another_version(listing.markers.get(f"{name}/{JOURNAL_NAME}", b"")):
        return [f"Left {name} as it is: its journal has a form that this version of acidctl does not know."], True
    if FAILED_NAME in files:
        return sentences, True
    if dead and (owner is not None or files <= {OWNER_NAME}):
        at.lock.check()
        remove_work(storage, join(root, name))
        return [*sentences, f"Removed {name}, which a run that died had left."], False
    if owner is not None:
        why = f"cannot tell whether {owner.described} has ended"
        return [*sentences, f"Left {name} as it is: {why}."], True
    advice = (
        "`acidctl clean --leftovers` removes it by age."
        if is_unowned(name, infos)
        else "No command removes it; remove it by hand once no run of acidctl can need it."
    )
    return [*sentences, f"Did not recover {name}: its owner is unknown. {advice}"], True


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
        if old if owner is None else has_ended(owner):
            found.append(info.path)
    return found


def _is_over(owner: Owner, lock: Lock) -> bool:
    """Whether a work directory's run is over: it is proved, or whoever broke the lock answers for it."""
    return has_ended(owner) or (lock.unsafe and life_of(owner) is Life.UNKNOWN)


class _Publication(NamedTuple):
    """A publication that takes several steps and was interrupted; `dead`: its owner is proved to have ended."""

    at: _Location
    owner: Owner | None
    journal: Journal
    dead: bool

    def settle(self) -> tuple[list[str], bool]:
        """Complete or undo it; what was done, and whether its work directory has to stay as evidence."""
        storage, root, journal, txns = self.at.storage, self.at.root, self.journal, self.at.txns
        # Earlier recoveries may have moved something since.
        listing = list_location(storage, root)
        standing = standing_of(journal, listing)
        if not standing.half:
            return [], False
        first, absent = standing.shown[0], standing.missing
        self._require_proved(listing, standing)
        aborted = journal.visibility_txn is not None and txns is not None and txns.is_aborted(journal.visibility_txn)
        here = {info.path for info in listing.files}
        gone = sum(info.path not in here for info in journal.input_files)
        self.at.lock.check()
        if not aborted and (gone or not self._inputs_changed(listing)) and self._is_ready(listing, absent):
            self._complete(absent)
            names = " and ".join(journal.outputs)
            whole = f"{names} are both" if len(journal.outputs) > 1 else f"{names} is"
            return [f"Completed an interrupted compaction: {whole} published now."], False
        if gone and not aborted:
            raise StalePlanError(
                f"{first} is half of an interrupted compaction; it cannot be taken back, because {gone} files of "
                f"its inputs are gone, nor can {absent[0]} be published with it",
                path=storage.display(join(root, first)),
                hint=f"Do not let anything write to this table. What is left of {absent[0]} lies in {journal.work}.",
            )
        return self._undo(standing)

    def _require_proved(self, listing: Listing, standing: Standing) -> None:
        """Raise unless the journal is believed, its owner has ended, and what is in place is what it describes."""
        storage, root, journal, owner = self.at.storage, self.at.root, self.journal, self.owner
        first = standing.shown[0]
        if not self.dead and owner is not None and life_of(owner) is Life.ALIVE:
            raise StalePlanError(
                f"{first} is being published by {owner.described}, whose lock was broken",
                path=storage.display(root),
                hint="End that process, then run the command again.",
            )
        hint = (
            f"Nothing was changed. Compare {first} with the inputs that {journal.work}/{JOURNAL_NAME} names: if it "
            f"holds rows of its own, remove {journal.work}; if it is half of a compaction of these, move {first} out "
            "of the table."
        )
        why = disbelief(journal, listing, self.at.ids)
        if why is None and not self.dead:
            why = "its owner is unknown" if owner is None else f"it is not known whether {owner.described} has ended"
            if owner is not None:
                hint = "Make sure that it has ended, then run the command again with --unsafe-break-lock."
        if why is None:
            in_place = set(standing.there)
            for path, size, digest in journal.proofs:
                ours = path in in_place or path.partition("/")[0] in in_place
                if ours and digest_on_storage(storage, join(root, path), size) != digest:
                    why = f"{path} is not the file that the journal describes"
                    break
        if why is not None:
            raise UnprovedJournalError(
                f"{journal.work} says that {first} is half of an interrupted compaction, which is not proved: {why}",
                path=storage.display(join(root, first)),
                hint=hint,
            )

    def _inputs_changed(self, listing: Listing) -> bool:
        inputs: dict[str, list[FileInfo]] = {name: [] for name in self.journal.inputs}
        for info in self.journal.input_files:
            name = info.path.partition("/")[0]
            inputs.setdefault(name if name in inputs else ORIGINALS_NAME, []).append(info)
        present = Present(listing)
        planned = (InputEntry(name, "", None, None, tuple(inputs[name])) for name in self.journal.inputs)
        return any(present.changed(entry) is not None for entry in planned)

    def _is_ready(self, listing: Listing, absent: Sequence[str]) -> bool:
        """Whether all that is missing lies in the work directory, as it was written, and its place is free."""
        journal, storage, root = self.journal, self.at.storage, self.at.root
        if _has_twin(listing, list(journal.outputs) if journal.output_files else list(absent)):
            return False
        sizes = {info.path: info.size for info in listing.files}
        if journal.output_files:
            files = [file for file in journal.output_files if file.path in absent]
            sources = {file.path: f"{journal.work}/{file.source}" for file in files}
            if any(file.path in sizes or sizes.get(sources[file.path]) != file.size for file in files):
                return False
        else:
            if not all(f"{journal.work}/{OUT}/{name}" in listing.directories for name in absent):
                return False
            wanted = [proof.path for proof in journal.proofs if proof.path.partition("/")[0] in absent]
            sources = {path: f"{journal.work}/{OUT}/{path}" for path in wanted}
            places = tuple(f"{journal.work}/{OUT}/{name}/" for name in absent)
            if wanted and {path for path in sizes if path.startswith(places)} != set(sources.values()):
                return False
        return all(
            sizes.get(sources[path]) == size and digest_on_storage(storage, join(root, sources[path]), size) == digest
            for path, size, digest in journal.proofs
            if path in sources
        )

    def _complete(self, absent: Sequence[str]) -> None:
        storage, root, journal = self.at.storage, self.at.root, self.journal
        work = join(root, journal.work)
        if journal.output_files:
            if storage.facts.empty_directories:
                # What was begun on an object store is ended where the table has been copied to.
                for name in journal.outputs:
                    if storage.stat(join(root, name)) is None:
                        make_directory(storage, join(root, name), root)
            copy_files(storage, root, work, [file for file in journal.output_files if file.path in absent], [])
            return
        for name in absent:
            rename_dir(storage, join(work, f"{OUT}/{name}"), join(root, name))

    def _undo(self, standing: Standing) -> tuple[list[str], bool]:
        """Take back what is in place. Nothing of an older journal is deleted: that cannot prove what its files are."""
        storage, root, journal = self.at.storage, self.at.root, self.journal
        work = join(root, journal.work)
        alone = " and ".join(standing.shown)
        sentence = f"Undid an interrupted compaction: {alone} alone would have shown wrong rows."
        if not journal.proofs:
            sentence += f" What an older acidctl had written is kept in {journal.work}, which `acidctl clean` removes."
            WorkDir(storage, root, journal.id).fail(f"half published by an older acidctl: {alone}")
        if not storage.facts.empty_directories:
            there = set(standing.there)
            remove_copies(storage, root, [file for file in journal.output_files if file.path in there])
        else:
            # An output without files would still stand for its write ids.
            place = join(work, UNDONE if journal.output_files else OUT)
            if storage.stat(place) is None:
                make_directory(storage, place, root)
            for name in standing.shown:
                rename_dir(storage, join(root, name), join(place, name))
        return [sentence], not journal.proofs


def _has_twin(listing: Listing, names: list[str]) -> bool:
    """Whether another directory of one kind and range would be read beside one of these, and rows come twice."""
    wanted = {_span(name) for name in names} - {None}
    return any(_span(name) in wanted for name in listing.directories if "/" not in name and name not in names)


def _span(name: str) -> tuple[object, ...] | None:
    parsed = parse_directory(name)
    if not isinstance(parsed, DeltaDir) or parsed.statement_id is not None:
        return None
    return parsed.kind, parsed.range
