"""Profile hive4: what Hive 4.0 itself makes of a location (AcidUtils.getAcidState), faults included.

Sees the location as Hive lists it, so that empty directories, nested deltas and temporary directories fare as
they do there. Where Hive's own result depends on the order of a hash map, directories come in ascending path
order.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from acidctl.format.listing import FileInfo, Listing
from acidctl.format.names import (
    ACID_PREFIXES,
    BASE_PREFIX,
    METADATA_MARKER,
    VERSION_MARKER,
    BaseDir,
    DeltaDir,
    is_hidden_to_hive,
    parse_directory,
    path_order_key,
)
from acidctl.format.write_ids import RangeAnswer, Reader
from acidctl.state.entries import (
    Directory,
    EntryState,
    HistoryGap,
    HiveFailureError,
    HiveFault,
    ListingMode,
    MarkerContent,
    MissingTxnListError,
    Verdict,
    aborted_base,
    aborted_delta,
    covered_by_base,
    judge_compacted,
    judge_overwrite,
    judge_visibility,
    live_base,
    same_ids_as_base,
    unseen_delta,
    unusable_base,
)
from acidctl.state.inventory import read_marker
from acidctl.state.strict import Selection, choose_deltas


@dataclass(slots=True)
class HiveSelection(Selection):
    """Hive's result: its lists, and verdicts for the directories that it considered."""

    considered: dict[str, Directory] = field(default_factory=dict)
    originals: list[FileInfo] = field(default_factory=list)
    original_directories: list[str] = field(default_factory=list)
    obsolete: set[str] = field(default_factory=set)
    aborted: set[str] = field(default_factory=set)
    aborted_write_ids: set[int] = field(default_factory=set)
    uncompacted_aborts: bool = False
    failures: list[HiveFailureError | MissingTxnListError] = field(default_factory=list)


@dataclass(slots=True)
class _Listed:
    """One directory of Hive's listing; the location itself has the empty path."""

    path: str
    files: list[FileInfo] = field(default_factory=list)
    metadata: FileInfo | None = None

    @property
    def is_acid(self) -> bool:
        return self.path.rpartition("/")[2].startswith(ACID_PREFIXES)


def select_hive4(
    listing: Listing, reader: Reader, *, mode: ListingMode, ignore_empty_files: bool, tolerant: bool
) -> HiveSelection:
    """Run Hive's algorithm; with `tolerant` a failure is noted and the directory passed over, else raised."""
    run = _Run(listing, reader, mode, tolerant)
    answer = run.answer
    for directory in _list_as_hive(listing, mode):
        if not directory.path:
            answer.originals += [f for f in directory.files if f.size or not ignore_empty_files]
        elif not directory.is_acid:
            answer.original_directories.append(directory.path)
            if mode is not ListingMode.LISTING:
                answer.originals += [f for f in directory.files if f.size or not ignore_empty_files]
        else:
            run.consider(directory)
    if answer.base is not None:
        answer.obsolete.update(f.path for f in answer.originals)
        answer.obsolete.update(answer.original_directories)
        answer.originals = []
    elif mode is ListingMode.LISTING:
        below = tuple(f"{path}/" for path in answer.original_directories)
        answer.originals += _files_below(listing, below)
    run.finish()
    answer.originals.sort(key=lambda f: path_order_key(f.path))
    return answer


class _Run:
    """One pass over the directories, as Hive's processing of base and delta directories keeps its state."""

    def __init__(self, listing: Listing, reader: Reader, mode: ListingMode, tolerant: bool) -> None:
        self._listing = listing
        self._ids = reader.effective_write_ids
        self._reader = reader
        self._mode = mode
        self._tolerant = tolerant
        self._oldest: Directory | None = None
        self._current: list[Directory] = []
        self.answer = HiveSelection()

    def consider(self, listed: _Listed) -> None:
        """Hive's on_base or on_delta for one directory."""
        parsed = parse_directory(listed.path.rpartition("/")[2])
        if not isinstance(parsed, BaseDir | DeltaDir):
            self._fail(
                HiveFailureError(
                    f"Hive 4 fails here with {_exception(listed.path)} on the name {listed.path}",
                    HiveFault.BAD_DIR_NAME,
                    path=self._listing.root or None,
                )
            )
            return
        marker, problem = self._marker(listed)
        directory = Directory(listed.path, parsed, tuple(listed.files), marker, problem)
        self.answer.considered[directory.name] = directory
        if self._reader.txns is None:
            self._fail(
                MissingTxnListError(
                    f"Hive 4 does not read {listed.path} without a list of valid transactions",
                    hint="Give one with --validtxns.",
                )
            )
        unseen = judge_visibility(parsed, self._reader.effective_txns)
        if unseen is not None:
            self.answer.verdicts[directory.name] = unseen
            if unseen.state is EntryState.ABORTED:
                self.answer.aborted.add(directory.name)
        elif isinstance(parsed, BaseDir):
            self._on_base(directory, parsed)
        else:
            self._on_delta(directory, parsed)

    def finish(self) -> None:
        """Choose among the deltas, and look whether history is missing."""
        answer, base = self.answer, self.answer.base
        choices = choose_deltas(self._current, base, self._ids)
        for choice in choices:
            answer.verdicts[choice.directory.name] = choice.verdict(base, self._ids)
            if choice.covered:
                answer.obsolete.add(choice.directory.name)
        answer.deltas = [choice.directory for choice in choices if choice.taken]
        if base is not None:
            answer.verdicts[base.name] = live_base(base, self._compacted(base))
        elif self._oldest is not None and self._compacted(self._oldest):
            answer.history_gap = HistoryGap.of(self._oldest, self._ids)

    def _on_base(self, base: Directory, parsed: BaseDir) -> None:
        answer, ids, best = self.answer, self._ids, self.answer.base
        if self._oldest is None or parsed.write_id < self._oldest.base.write_id:
            self._oldest = base
        if ids.is_aborted(parsed.write_id) and not self._compacted(base):
            answer.aborted.add(base.name)
            answer.aborted_write_ids.add(parsed.write_id)
            answer.verdicts[base.name] = aborted_base(parsed)
            return
        newer = best is None or best.base.write_id < parsed.write_id
        if newer or (best is not None and best.base.write_id == parsed.write_id and self._compacted(base)):
            if not self._usable(base, parsed):
                answer.verdicts[base.name] = self._unusable(base, parsed)
                return
            if best is not None:
                self._obsolete(best, base)
            answer.base = base
        elif best is not None:
            self._obsolete(base, best)

    def _obsolete(self, base: Directory, by: Directory) -> None:
        self.answer.obsolete.add(base.name)
        equal = base.base.write_id == by.base.write_id
        self.answer.verdicts[base.name] = same_ids_as_base(by) if equal else covered_by_base("", by)

    def _usable(self, base: Directory, parsed: BaseDir) -> bool:
        ids = self._ids
        if base.is_first_compaction:
            return True
        # HIVE-22754: also lets an uncommitted overwrite through whose id is the lowest open one.
        if ids.min_open is not None and parsed.write_id <= ids.min_open:
            return True
        return ids.is_valid_base(parsed.write_id) if self._compacted(base) else ids.is_valid(parsed.write_id)

    def _unusable(self, base: Directory, parsed: BaseDir) -> Verdict:
        judge = judge_compacted if self._compacted(base) else judge_overwrite
        return judge(parsed, self._ids) or unusable_base(parsed)

    def _on_delta(self, directory: Directory, delta: DeltaDir) -> None:
        answer, ids = self.answer, self._ids
        aborted = ids.is_range_aborted(delta.min_write_id, delta.max_write_id)
        if aborted is RangeAnswer.ALL:
            answer.aborted.add(directory.name)
            answer.aborted_write_ids.update(ids.aborted_in(delta.min_write_id, delta.max_write_id))
            answer.verdicts[directory.name] = aborted_delta(delta)
            return
        if aborted is RangeAnswer.SOME:
            answer.uncompacted_aborts = True
        if ids.is_range_valid(delta.min_write_id, delta.max_write_id) is RangeAnswer.NONE:
            answer.verdicts[directory.name] = unseen_delta(delta, ids)
        else:
            self._current.append(directory)

    def _marker(self, listed: _Listed) -> tuple[MarkerContent, str | None]:
        if listed.metadata is None or self._mode is ListingMode.CLEANER:
            return MarkerContent.ABSENT, None
        content = self._listing.markers.get(listed.metadata.path)
        return (MarkerContent.UNREAD, None) if content is None else read_marker(content)

    def _compacted(self, base: Directory) -> bool:
        """Hive asks for the marker only where it matters, so a bad one fails only there."""
        if base.visibility_txn_id is not None:
            return True
        if base.marker is MarkerContent.BAD:
            self._fail(
                HiveFailureError(
                    f"Hive 4 fails here: {base.name}/_metadata_acid {base.marker_problem}",
                    HiveFault.BAD_ACID_METADATA,
                    path=self._listing.root or None,
                )
            )
        return base.marker is MarkerContent.COMPACTED or base.guessed_compacted

    def _fail(self, error: HiveFailureError | MissingTxnListError) -> None:
        if not self._tolerant:
            raise error
        if not any(known.message == error.message for known in self.answer.failures):
            self.answer.failures.append(error)


def _list_as_hive(listing: Listing, mode: ListingMode) -> list[_Listed]:
    if mode is ListingMode.LISTING:
        found = _children(listing)
    elif mode is ListingMode.CLEANER:
        found = _cleaner_snapshot(listing)
    else:
        found = _snapshot(listing)
    return [found[path] for path in sorted(found, key=path_order_key)]


def _snapshot(listing: Listing) -> dict[str, _Listed]:
    """getHdfsDirSnapshots: a directory exists only if a visible file is in it."""
    found: dict[str, _Listed] = {}
    for file in listing.files:
        parent, _, name = file.path.rpartition("/")
        marker = name.startswith((METADATA_MARKER, VERSION_MARKER))
        if (is_hidden_to_hive(name) and not marker) or not _shown(parent):
            continue
        while _inside_acid(parent):
            parent = parent.rpartition("/")[0]
        directory = found.setdefault(parent, _Listed(parent))
        if METADATA_MARKER in file.path:
            directory.metadata = file
        elif VERSION_MARKER not in file.path:
            directory.files.append(file)
    return found


def _inside_acid(path: str) -> bool:
    """Whether Hive counts the files of this directory to its parent; it looks for the words anywhere in the path."""
    if not path or path.rpartition("/")[2].startswith(ACID_PREFIXES):
        return False
    return any(prefix in path for prefix in ACID_PREFIXES)


def _cleaner_snapshot(listing: Listing) -> dict[str, _Listed]:
    """getHdfsDirSnapshotsForCleaner: base and delta directories by name, without looking inside."""
    found: dict[str, _Listed] = {}
    for path in listing.directories:
        _add_acid_ancestor(path, found)
    for file in listing.files:
        parent, _, name = file.path.rpartition("/")
        if _add_acid_ancestor(parent, found) or not _shown(parent) or is_hidden_to_hive(name):
            continue
        found.setdefault(parent, _Listed(parent)).files.append(file)
    return found


def _add_acid_ancestor(path: str, found: dict[str, _Listed]) -> bool:
    """Record the first base or delta on the way to `path`; whether there is one."""
    parts = path.split("/") if path else []
    for index, part in enumerate(parts):
        if is_hidden_to_hive(part):
            return False
        if part.startswith(ACID_PREFIXES):
            name = "/".join(parts[: index + 1])
            found.setdefault(name, _Listed(name))
            return True
    return False


def _children(listing: Listing) -> dict[str, _Listed]:
    """The direct children; files of base and delta directories are kept for the verdict only."""
    found: dict[str, _Listed] = {"": _Listed("")}
    names = {path.split("/", 1)[0] for path in listing.directories}
    inside: dict[str, list[FileInfo]] = defaultdict(list)
    for file in listing.files:
        top, slash, _ = file.path.partition("/")
        if slash:
            names.add(top)
            inside[top].append(file)
        elif not is_hidden_to_hive(file.path):
            found[""].files.append(file)
    for name in names:
        if is_hidden_to_hive(name):
            continue
        directory = found[name] = _Listed(name)
        for file in inside[name]:
            if file.path == f"{name}/{METADATA_MARKER}":
                directory.metadata = file
            elif _shown(file.path):
                directory.files.append(file)
    return found


def _files_below(listing: Listing, directories: tuple[str, ...]) -> list[FileInfo]:
    """Visible files with bytes in them, anywhere below top-level directories that end in `/`."""
    tops = frozenset(directories)
    return [f for f in listing.files if f.size and f.path[: f.path.find("/") + 1] in tops and _shown(f.path)]


def _shown(path: str) -> bool:
    """Whether no part of the path is hidden to Hive."""
    return not any(is_hidden_to_hive(part) for part in path.split("/") if part)


def _exception(path: str) -> str:
    """The Java exception that a bad name ends in: with a part missing, a substring fails before any number."""
    name = path.rpartition("/")[2].partition("_v")[0]
    prefix = next((p for p in ACID_PREFIXES if name.startswith(p)), None)
    missing = prefix is None or (prefix != BASE_PREFIX and "_" not in name[len(prefix) :])
    return "StringIndexOutOfBoundsException" if missing else "NumberFormatException"
