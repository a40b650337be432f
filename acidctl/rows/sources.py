"""The live data files of a location as sources that can be opened: where paths, names and side files become streams."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from acidctl.format.bucket_codec import BucketCodecError, encode
from acidctl.format.names import MIN_LONG, OriginalFile, must_hold_events, must_not_hold_events
from acidctl.orc.acidmeta import check_shape
from acidctl.orc.input_file import read_logical_length
from acidctl.orc.reader import OrcFile, open_orc
from acidctl.orc.tail import Tail
from acidctl.rows.scan import DataSource
from acidctl.state.resolve import (
    AcidState,
    DataFile,
    EntryKind,
    StateEntry,
    SyntheticGroup,
    data_files,
    live_entries,
    synthetic_layout,
)
from acidctl.storage.port import Storage, join

# A file is opened for what its tail says, and again for its rows: so many tails are kept meanwhile.
_TAILS = 64


class _Tails:
    """The last few tails of a location's files by path and logical length, for any thread."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[str, int | None], Tail] = OrderedDict()
        self._turn = threading.Lock()

    def get(self, path: str, length: int | None) -> Tail | None:
        with self._turn:
            return self._known.get((path, length))

    def keep(self, path: str, length: int | None, tail: Tail) -> None:
        with self._turn:
            self._known[path, length] = tail
            if len(self._known) > _TAILS:
                self._known.popitem(last=False)


def live_sources(
    storage: Storage, root: str, state: AcidState
) -> tuple[tuple[DataSource, ...], tuple[DataSource, ...]]:
    """The files with rows and those with deletes that a reader opens; empty ones without a side file hold neither."""
    inserts: list[DataSource] = []
    deletes: list[DataSource] = []
    tails = _Tails()
    for entry in live_entries(state):
        target = deletes if entry.kind is EntryKind.DELETE_DELTA else inserts
        target += _sources(storage, root, state, entry, tails)
    return tuple(inserts), tuple(deletes)


def _sources(storage: Storage, root: str, state: AcidState, entry: StateEntry, tails: _Tails) -> Iterator[DataSource]:
    """The sources of one directory; files that number their rows together know those before them."""
    files = {file.info.path: file for file in data_files(entry, insert_only=state.insert_only) if file.has_rows}
    for group in synthetic_layout(entry, (file.info for file in files.values())):
        bucket = None if state.insert_only else _bucket_property(group, state.acid_v1)
        before: DataSource | None = None
        numbered = False
        for info in group.files:
            file = files[info.path]
            place = None if state.insert_only else info.path
            # Hive 2 knows no bucket of a copy, so that no event can name its rows (HIVE-16177 came later).
            strange = state.acid_v1 and isinstance(file.parsed, OriginalFile) and file.parsed.copy_number is not None
            source = DataSource(
                name=storage.display(join(root, info.path)),
                open=partial(_opened, storage, root, file, place, tails),
                bucket_id=group.bucket_id,
                min_write_id=entry.min_write_id,
                max_write_id=MIN_LONG if entry.max_write_id is None else entry.max_write_id,
                statement_id=group.statement_id,
                raw_write_id=group.write_id,
                raw_bucket=-1 if strange else bucket,
                # Hive 2 numbers the rows of a bucket's second file as those of the first: no row may hide another.
                apart=strange or (state.acid_v1 and numbered and file.named_original),
                before=before,
            )
            numbered |= file.named_original and not strange
            # Hive 2 counts the rows of each file from 0.
            before = None if state.acid_v1 else source
            yield source


def _bucket_property(group: SyntheticGroup, acid_v1: bool) -> int | None:
    """The packed bucket of rows in original files, plain in Hive 2; None where the name tells none that fits."""
    if group.bucket_id is None:
        return None
    try:
        return encode(group.bucket_id, group.statement_id, version=0 if acid_v1 else 1)
    except BucketCodecError:
        return None


@contextmanager
def _opened(storage: Storage, root: str, file: DataFile, place: str | None, tails: _Tails) -> Iterator[OrcFile | None]:
    """The file, open up to its logical end and closed with the block; None when that end is 0.

    `place` is its path in the location where that tells whether it may hold events.
    """
    path = join(root, file.info.path)
    length = None
    if file.side_file is not None:
        side_path = join(root, file.side_file.path)
        with storage.open(side_path) as side:
            length = read_logical_length(side, name=storage.display(side_path))
        if not length:
            yield None
            return
    with storage.open(path) as stream:
        known = tails.get(path, length)
        if known is not None:
            orc = OrcFile(stream, known)
        else:
            events = place is not None and must_hold_events(place)
            orc = open_orc(stream, name=storage.display(path), length=length, events=events)
            check_shape(orc.tail, rows=place is not None and must_not_hold_events(place))
            tails.keep(path, length, orc.tail)
        yield orc
