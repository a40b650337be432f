"""What the tail of an input file says, for planning; rows are read only where no statistics tell their buckets."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import BinaryIO

import pyarrow.compute as pc

from acidctl.compaction.plan import KeyCut
from acidctl.compaction.planner import PartitionDraft
from acidctl.compaction.stripes import is_small
from acidctl.errors import DamagedDataError
from acidctl.fileformats.parquet import opened, readable
from acidctl.format.bucket_codec import BucketCodecError, decode
from acidctl.format.events import Operation, RowId
from acidctl.format.names import BucketFile, OriginalFile, parse_file
from acidctl.orc.acidmeta import KEY_INDEX, parse_key_index
from acidctl.orc.reader import OrcFile, open_orc
from acidctl.orc.stats import ColumnStatistics
from acidctl.orc.tail import Tail
from acidctl.rows.source import DataSource, live_sources
from acidctl.state.entries import EntryKind, StateEntry
from acidctl.state.inventory import data_files
from acidctl.storage.port import Storage, join
from acidctl.types.hive_types import Dialect, StructType
from acidctl.values import dataclass

ReadTail = Callable[[], "InputFile"]

NO_COLUMNS = StructType(())
_TEXT_FORMATS = ("text", "gzip")
# Column ids of an event's fields in the flattened type tree.
_WRITE_ID, _BUCKET, _ROW_ID = 2, 3, 4
_MAGIC_BYTES = 8
# How much of a text file is looked at, and how much of its first line is kept.
_HEAD_OF_TEXT = 64 << 10
_LINE = 4 << 10
# What a window size of zlib needs to be added to read gzip.
_GZIP_WINDOW = 16 + zlib.MAX_WBITS
_MAGICS = (
    (b"ORC", "orc"),
    (b"PAR1", "parquet"),
    (b"Obj\x01", "avro"),
    (b"SEQ", "sequencefile"),
    (b"RCF", "rcfile"),
    (b"\x1f\x8b", "gzip"),
)
# What Hadoop decompresses by the ending of the name; of these only gzip may be put one behind the other everywhere.
_COMPRESSED = (".bz2", ".deflate", ".snappy", ".lz4", ".lzo", ".lzo_deflate", ".zst")


@dataclass(frozen=True, slots=True)
class StripeStart:
    """A key at or before the first row of a stripe, and the bytes of the file before that stripe."""

    key: KeyCut
    offset: int


@dataclass(frozen=True, slots=True)
class InputFile:
    """What the tail of an input file says, and where the file belongs.

    `size` is its logical length in bytes. `buckets` are the bucket ids that its rows have, decoded; of an insert-only
    table the one of its name, or none. `write_ids` bounds the original write ids of its rows where that is known.
    `updates` says that events other than inserts are known to lie among the rows, as in ACID v1. `raw` is (write id,
    bucket property) of the rows of a file without ACID columns, whose row numbers go on from those of `before`, the
    path of the file before it. `newest` is the largest write id of its directory's name. `shape` tells schemas apart
    where `columns` cannot (Parquet). `first_line` is that of a text file, expanded, as far as it was looked at.
    `span` bounds the keys of a file of events, both inclusive; `tail` is there where stripes may be worth copying.
    """

    path: str
    entry: str
    size: int
    rows: int
    newest: int
    deletes: bool = False
    is_acid: bool = True
    columns: StructType = NO_COLUMNS
    dialect: Dialect = Dialect.HIVE4
    codec: str = "none"
    file_format: str = "orc"
    buckets: tuple[int, ...] = ()
    write_ids: tuple[int, int] | None = None
    updates: bool = False
    stripes: tuple[StripeStart, ...] = ()
    raw: tuple[int, int | None] | None = None
    before: str | None = None
    apart: bool = False
    shape: str = ""
    first_line: bytes = b""
    span: tuple[RowId, RowId] | None = None
    tail: Tail | None = None

    @property
    def table_format(self) -> str:
        """The format of a table with this file: compressed text is text."""
        return "text" if self.file_format in _TEXT_FORMATS else self.file_format


def tail_readers(storage: Storage, draft: PartitionDraft, stripe_size: int) -> tuple[ReadTail, ...]:
    """One call per input file that has bytes, in the order of directories and paths; each opens its file once.

    Tails are kept of files that are not small beside stripes of `stripe_size`.
    """
    assert draft.state is not None
    entries = {
        storage.display(join(draft.root, file.info.path)): (entry, file.info.path)
        for entry in draft.consumed
        for file in data_files(entry, insert_only=draft.state.insert_only)
        if file.has_rows
    }
    if draft.state.insert_only:
        return tuple(partial(_plain, storage, draft.root, *found, stripe_size) for found in entries.values())
    inserts, deletes = live_sources(storage, draft.root, draft.state)
    found = [source for source in (*inserts, *deletes) if source.name in entries]
    paths = {id(source): entries[source.name][1] for source in found}
    return tuple(partial(_acid, source, *entries[source.name], paths, stripe_size) for source in found)


def _acid(source: DataSource, entry: StateEntry, path: str, paths: dict[int, str], stripe_size: int) -> InputFile:
    deletes = entry.kind is EntryKind.DELETE_DELTA
    before = None if source.before is None else paths.get(id(source.before))
    with source.open() as orc:
        if orc is None:
            return InputFile(path, entry.name, 0, 0, source.max_write_id, deletes=deletes, before=before)
        assert isinstance(orc, OrcFile), "full ACID tables are ORC"
        acid = orc.is_acid
        bounds = orc.key_range()
        # Rows of a file without a bucket number in its name, or with an invalid one, are refused later, by name.
        number = None if source.apart else source.raw_bucket
        raw = None if acid else (source.raw_write_id, number)
        write_ids = (source.raw_write_id, source.raw_write_id) if not acid else None
        if bounds is not None:
            write_ids = bounds[0].write_id, bounds[1].write_id
        return InputFile(
            path=path,
            entry=entry.name,
            size=orc.tail.file_length,
            rows=orc.rows,
            newest=source.max_write_id,
            deletes=deletes,
            is_acid=acid,
            columns=orc.columns,
            dialect=orc.dialect,
            codec=orc.tail.postscript.compression.name.lower(),
            buckets=_buckets(orc) if acid else _decoded((number,), source.name),
            write_ids=write_ids,
            updates=not deletes and bool((orc.operations() or frozenset()) - {Operation.INSERT}),
            stripes=_event_stripes(orc) if acid else _raw_stripes(orc, source),
            raw=raw,
            before=before,
            apart=source.apart,
            span=bounds,
            tail=None if deletes or is_small(orc.tail.file_length, orc.rows, stripe_size=stripe_size) else orc.tail,
        )


def _plain(storage: Storage, root: str, entry: StateEntry, path: str, stripe_size: int) -> InputFile:
    """A file of an insert-only table, in whatever format."""
    place = join(root, path)
    name = storage.display(place)
    with storage.open(place) as stream:
        file_format = _format(stream.read(_MAGIC_BYTES), path)
        size = stream.seek(0, 2)
        # The number in front of the name, by which bucketed tables find their buckets.
        parsed = parse_file(path.rpartition("/")[2].removesuffix(".gz"))
        known = InputFile(
            path,
            entry.name,
            size,
            0,
            entry.max_write_id or 0,
            is_acid=False,
            file_format=file_format,
            buckets=(parsed.bucket_id,) if isinstance(parsed, OriginalFile | BucketFile) else (),
        )
        if file_format == "parquet":
            return _parquet(stream, name, known)
        stream.seek(0)
        if known.table_format == "text":
            return replace(known, first_line=_first_line(stream.read(_HEAD_OF_TEXT), file_format))
        if file_format != "orc":
            return known
        orc = open_orc(stream, name=name)
        return replace(
            known,
            rows=orc.rows,
            is_acid=orc.is_acid,
            columns=orc.schema,
            dialect=orc.dialect,
            codec=orc.tail.postscript.compression.name.lower(),
            tail=None if is_small(orc.tail.file_length, 0, stripe_size=stripe_size) else orc.tail,
        )


def _first_line(head: bytes, file_format: str) -> bytes:
    """Nothing where it cannot be expanded: whoever puts the files together says so."""
    try:
        text = zlib.decompressobj(_GZIP_WINDOW).decompress(head, _LINE) if file_format == "gzip" else head[:_LINE]
    except zlib.error:
        return b""
    return text.partition(b"\n")[0]


def _parquet(stream: BinaryIO, name: str, known: InputFile) -> InputFile:
    file = opened(stream, name)
    with readable(name):
        shape = str(file.schema_arrow.remove_metadata())
    return replace(known, rows=file.metadata.num_rows, shape=shape)


def _format(head: bytes, path: str) -> str:
    name = path.rpartition("/")[2].lower()
    found = next((word for magic, word in _MAGICS if head.startswith(magic)), "text")
    zipped = name.endswith(".gz")
    if found == "gzip" or (zipped and found == "text"):
        # Hive goes by the name: what is compressed without saying so is no text to it either.
        return "gzip" if zipped and found == "gzip" else "gzip under another name"
    ending = next((ending for ending in _COMPRESSED if name.endswith(ending)), None)
    return f"text compressed as {ending}" if found == "text" and ending else found


def _buckets(orc: OrcFile) -> tuple[int, ...]:
    """The bucket ids of a file's events, decoded: from its statistics, else from those of its stripes, else read."""
    if not orc.rows:
        return ()
    bounds = orc.key_range()
    if bounds is not None:
        known = _between(bounds[0].bucket_property, bounds[1].bucket_property, orc.name)
        if known is not None:
            return known
        found: set[int] = set()
        for statistics in orc.stripe_statistics():
            span = _span(statistics, _BUCKET)
            ids = None if span is None else _between(*span, orc.name)
            if ids is None:
                break
            found.update(ids)
        else:
            if found:
                return tuple(sorted(found))
    values: set[int] = set()
    for batch in orc.scan(["bucket"]):
        values.update(pc.unique(batch.column(0)).to_pylist())
    return _decoded(values, orc.name)


def _between(low: int, high: int, name: str) -> tuple[int, ...] | None:
    """The bucket ids of events whose properties have these bounds; None where more may lie between."""
    ids = _decoded((low, high), name)
    # Both bounds are values that occur, and properties order by version before bucket.
    same_version = len(ids) == 1 or decode(low).version == decode(high).version
    return ids if same_version and ids[-1] - ids[0] <= 1 else None


def _decoded(values: Iterable[int | None], name: str) -> tuple[int, ...]:
    try:
        return tuple(sorted({decode(value).bucket_id for value in values if value is not None}))
    except BucketCodecError as error:
        raise DamagedDataError(
            f"{name} contains an invalid bucket value: {error.message}",
            path=name,
            hint="Restore the file from a copy.",
        ) from error


def _span(statistics: Sequence[ColumnStatistics], column: int) -> tuple[int, int] | None:
    return statistics[column].span() if len(statistics) > column else None


def _event_stripes(orc: OrcFile) -> tuple[StripeStart, ...]:
    """Where the second and later stripes begin: right behind the last key before, else at the least parts of their own.

    A key that is not exact makes parts uneven and nothing else.
    """
    stripes = orc.tail.stripes
    if len(stripes) < 2:
        return ()
    try:
        index = parse_key_index(orc.tail.metadata_value(KEY_INDEX) or b"")
    except (ValueError, UnicodeDecodeError):
        index = ()
    if len(index) == len(stripes):
        lasts = [(key, stripe.offset) for key, stripe in zip(index, stripes[1:], strict=False) if key is not None]
        return tuple(StripeStart(KeyCut(k.write_id, k.bucket_property, k.row_id + 1), at) for k, at in lasts)
    if not orc.tail.row_index_stride:
        return ()
    found = []
    for statistics, stripe in list(zip(orc.stripe_statistics(), stripes, strict=False))[1:]:
        spans = [_span(statistics, column) for column in (_WRITE_ID, _BUCKET, _ROW_ID)]
        known = [span[0] for span in spans if span is not None]
        if len(known) == len(spans):
            found.append(StripeStart(KeyCut(*known), stripe.offset))
    return tuple(found)


def _raw_stripes(orc: OrcFile, source: DataSource) -> tuple[StripeStart, ...]:
    """The same for a file without ACID columns, counted from its own first row."""
    if source.raw_bucket is None:
        return ()
    found, rows = [], 0
    for before, stripe in zip(orc.tail.stripes, orc.tail.stripes[1:], strict=False):
        rows += before.rows
        found.append(StripeStart(KeyCut(source.raw_write_id, source.raw_bucket, rows), stripe.offset))
    return tuple(found)
