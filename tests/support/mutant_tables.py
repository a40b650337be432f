"""The tables that faulty copies of acidctl compact, and how what they publish is compared with what it should be."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from tests import ROOT

_FIXTURES = ROOT / "fixtures" / "tables"
_NEVER = 9223372036854775807
LISTS = [f"default.t:12:{_NEVER}::6,8,9,10", f"100:{_NEVER}::"]
# A write below 12 is open: what is at or above it is no input.
OPEN_LISTS = ["default.t:12:12:12:6,8,9,10", f"100:{_NEVER}::"]
TYPES = (
    "id bigint, flag boolean, tiny tinyint, small smallint, num int, weight float, price double, amount decimal(10,2), "
    "big decimal(30,4), name string, city varchar(20), code char(6), raw binary, `day` date, moment timestamp, "
    "tags array<int>, counts map<string,int>, pair struct<a:int,b:string>"
)
DDL = (
    f"CREATE TABLE `default.t` ({TYPES}) STORED AS ORC TBLPROPERTIES ('transactional'='true', "
    "'orc.row.index.stride'='1000', 'orc.stripe.size'='400000')"
)
_ROWS = 20_000


def work(verb: str, *args: str) -> dict[str, Any]:
    """What a process is asked for: `make` tables, `compact` copies of them, `compare` two results."""
    verbs: dict[str, Callable[..., dict[str, Any]]] = {"make": make, "compact": compact, "compare": compare}
    return verbs[verb](*map(Path, args))


# --- tables


def make(folder: Path) -> dict[str, Any]:
    """All tables, and beside each how it is compacted."""
    generated(folder / "generated")
    generated(folder / "hardly_changed", deleted=range(300, 500))
    several_large(folder / "several_large")
    cases: list[dict[str, Any]] = [
        {"name": "major", "table": "generated", "kind": "major", "validtxns": LISTS, "target": "hive4"},
        {"name": "minor", "table": "generated", "kind": "minor", "validtxns": LISTS, "target": "hive3"},
        # Stripes of the base are copied.
        {"name": "copies", "table": "hardly_changed", "kind": "major", "validtxns": LISTS},
        {"name": "copies_of_several", "table": "several_large", "kind": "major", "validtxns": LISTS},
        {"name": "parts", "table": "generated", "kind": "major", "validtxns": OPEN_LISTS, "split_bytes": 500_000},
    ]
    for case in cases:
        case |= {"schema": DDL, "assume_exclusive": True}
    fixtures = [
        ("hive4/demo_orders/03-demo", "minor"),
        ("hive4/overwrite/04-inserted", "major"),
        ("hive3/multi_statement/03-multi-insert", "minor"),
        ("hive4/converted/03-changed", "major"),
        ("hive4/insert_only/02-aborted", "major"),
        ("hive4/evolution/03-widened", "major"),
        ("hive2/v1_bucketed/02-changed", "major"),
        ("hive3/open_aborted/01-open", "minor"),
    ]
    for name, kind in fixtures:
        cases.append(_fixture(folder, name, kind))
    (folder / "cases.json").write_text(json.dumps(cases))
    return {}


def _fixture(folder: Path, name: str, kind: str) -> dict[str, Any]:
    import sys

    sys.path.insert(0, str(ROOT / "fixtures"))
    from restore import restore

    place = _FIXTURES / name
    restore(place / "step.json")
    facts = json.loads((place / "step.json").read_text())
    table = name.replace("/", "-")
    shutil.copytree(place / "table", folder / table)
    lists = [facts[key] for key in ("valid_write_ids", "valid_txns") if facts[key]]
    more = {"list_format": "hive2"} if facts["engine"] == "hive2" else {}
    case = {"name": table, "table": table, "kind": kind, "validtxns": lists, "schema": facts["ddl"]}
    return case | more | {"assume_exclusive": True, "target": "hive4" if facts["engine"] == "hive4" else "hive3"}


def _columns(first: int, count: int) -> tuple[pa.Array, ...]:
    """Values of all types that differ from row to row, every seventh or so NULL."""
    n = np.arange(first, first + count, dtype=np.int64)
    gap = n % 7 == 3
    some: list[int] = n.tolist()

    def each(value: Any, kind: pa.DataType, every: int = 11) -> pa.Array:
        return pa.array([None if i % every == 5 else value(i) for i in some], kind)

    return (
        pa.array(n),
        pa.array(n % 3 == 0, mask=gap),
        pa.array((n % 256 - 128).astype(np.int8), mask=gap),
        pa.array((n * 7 % 65536 - 32768).astype(np.int16), mask=gap),
        pa.array((n * 7919 % 1_000_003 - 500_000).astype(np.int32), mask=n % 13 == 2),
        pa.array((n * 0.25 - 300).astype(np.float32), mask=gap),
        pa.array(np.where(n % 97 == 96, np.nan, n * 1.5 - 7000), mask=gap, from_pandas=False),
        each(lambda i: Decimal(i * 37 - 90_000).scaleb(-2), pa.decimal128(10, 2)),
        each(lambda i: Decimal(i * 10**18 - 10**21).scaleb(-4), pa.decimal128(30, 4)),
        # Wide, so that the writer ends several stripes.
        each(lambda i: f"name {i * 7919 % 99991:05} of {i} " + f"{i * 104729 % 1000003:07}" * 70, pa.string()),
        each(lambda i: f"city {i % 400}", pa.string(), 17),
        each(lambda i: f"c{i % 1000}", pa.string()),
        each(lambda i: bytes([i % 256, 255, i // 256 % 256]) * (1 + i % 3), pa.binary()),
        pa.array((n * 3 - 20_000).astype(np.int32), mask=gap).cast(pa.date32()),
        pa.array(1_500_000_000_123_456_789 + n * 86_400_000_000_001, mask=gap).cast(pa.timestamp("ns")),
        each(lambda i: [i, None, -i][: i % 4], pa.list_(pa.int32())),
        each(lambda i: [(f"k{j}", i + j) for j in range(i % 3)], pa.map_(pa.string(), pa.int32())),
        each(
            lambda i: {"a": None if i % 5 == 0 else i, "b": f"b{i}"},
            pa.struct([("a", pa.int32()), ("b", pa.string())]),
        ),
    )


def generated(table: Path, rows: int = _ROWS, *, deleted: range | None = None) -> None:
    """A table of all types: a base, inserts, deletes and streamed writes, some of them aborted (`LISTS`).

    Deletes are all over the base, or of the rows `deleted`.
    """
    from acidctl.format.bucket_codec import encode

    def keys(write_ids: Any, bucket: int, statement: int, rows: Any) -> Any:
        from acidctl.format.events import EventKeys

        ids = np.broadcast_to(np.asarray(write_ids, dtype=np.int64), len(rows)).copy()
        return EventKeys(ids, np.full(len(rows), encode(bucket, statement)), np.asarray(rows, dtype=np.int64), ids)

    for bucket in range(2):
        name, share = f"bucket_{bucket:05}", rows // (1 + bucket)
        _write(table / "base_0000001" / name, keys(1, bucket, 0, range(share)), bucket * rows)
        for statement in range(2):
            inserted = keys(2, bucket, statement, range(150 + 50 * statement))
            _write(table / f"delta_0000002_0000002_{statement:04}" / f"{name}_0", inserted, 50_000 + 1000 * statement)
        ones = keys(1, bucket, 0, deleted or range(7, share, 40))
        _deletes(table / "delete_delta_0000003_0000003_0000" / f"{name}_0", ones, 3)
        streamed = [keys(write_id, bucket, 0, range(60)) for write_id in (5, 6, 7, 8)]
        _write(table / "delta_0000005_0000008" / name, _joined(streamed), 60_000)
        _write(table / "delta_0000009_0000009_0000" / f"{name}_0", keys(9, bucket, 0, range(80)), 70_000)
        _deletes(
            table / "delete_delta_0000010_0000011" / name, keys(1, bucket, 0, (deleted or range(share))[11::90]), 10
        )
        _deletes(table / "delete_delta_0000011_0000011_0000" / f"{name}_0", keys(2, bucket, 1, range(0, 200, 3)), 11)
        _write(table / "delta_0000012_0000012_0000" / f"{name}_0", keys(12, bucket, 0, range(500)), 80_000)


def several_large(table: Path) -> None:
    """Three large files of which stripes are copied: deletes in the middle of the first, rows of aborted writes in the
    middle of the second, small files between and behind them.
    """
    from acidctl.format.bucket_codec import encode
    from acidctl.format.events import EventKeys

    def keys(write_id: int, rows: Any, bucket: int = 0) -> Any:
        ids = np.full(len(rows), write_id, dtype=np.int64)
        return EventKeys(ids, np.full(len(rows), encode(bucket)), np.asarray(rows, dtype=np.int64), ids)

    name = "bucket_00000"
    _write(table / "base_0000001" / name, keys(1, range(6000)), 0)
    _write(table / "delta_0000002_0000002_0000" / f"{name}_0", keys(2, range(90)), 20_000)
    mixed = [keys(3, range(2500)), keys(6, range(40)), keys(7, range(2500))]
    _write(table / "delta_0000003_0000007" / name, _joined(mixed), 30_000)
    _deletes(table / "delete_delta_0000010_0000011" / name, keys(1, range(2600, 2700, 3)), 10)
    _deletes(table / "delete_delta_0000011_0000011_0000" / f"{name}_0", keys(1, [2650, 2651, 3100]), 11)
    _write(table / "delta_0000012_0000012_0000" / f"{name}_0", keys(12, range(3000)), 60_000)


def _joined(parts: list[Any]) -> Any:
    from acidctl.format.events import EventKeys

    return EventKeys.concat(parts)


def _write(path: Path, keys: Any, first: int, columns: bool = True) -> None:
    from acidctl.compaction.plan import WriterSettings
    from acidctl.format.events import EventBatch
    from acidctl.orc.writer import write_orc
    from acidctl.types.schema import parse_schema

    path.parent.mkdir(parents=True, exist_ok=True)
    (path.parent / "_orc_acid_version").write_bytes(b"2")
    batch = EventBatch(keys, _columns(first, len(keys)) if columns else ())
    settings = WriterSettings(stripe_size=400_000, row_index_stride=1000)
    with path.open("wb") as sink:
        write_orc(sink, [batch], parse_schema(TYPES).columns, settings, acid=True, metadata={})


def _deletes(path: Path, keys: Any, current: int) -> None:
    from dataclasses import replace

    operation = np.full(len(keys), 2, dtype=np.int64)
    # Deletes of the last write of a range too, so that one file has events of two writes.
    whose = np.where(np.arange(len(keys)) % 2, current, current if current != 10 else 11)
    _write(path, replace(keys, current=whose.astype(np.int64), operation=operation), 0, columns=False)


# --- compacting


def compact(tables: Path, out: Path) -> dict[str, Any]:
    """Compact a copy of each table; what became of it."""
    from acidctl import compact as run
    from acidctl.errors import AcidctlError

    found: dict[str, Any] = {}
    for case in json.loads((tables / "cases.json").read_text()):
        name = case.pop("name")
        table = out / name
        shutil.copytree(tables / case.pop("table"), table)
        kind = case.pop("kind")
        try:
            report = run(str(table), kind, engine="local", parallelism=1, **case)
        except AcidctlError as error:
            found[name] = {"outcome": error.code, "why": error.message}
            continue
        except Exception as error:
            found[name] = {"outcome": "crash", "why": f"{type(error).__name__}: {error}"}
            continue
        parts = [part for part in report.partitions if part.outcome.value != "compacted"]
        why = "; ".join(f"{part.outcome.value}: {part.reason}" for part in parts)
        found[name] = {"outcome": "failed" if parts else "done", "why": why}
    return found


# --- comparing


def compare(golden: Path, found: Path) -> dict[str, Any]:
    """Per table what is published and differs from what it should be; empty where nothing is wrong."""
    return {case.name: _difference(case, found / case.name) for case in sorted(golden.iterdir())}


def _difference(golden: Path, found: Path) -> str:
    if not found.exists():
        return ""
    ours, theirs = _files(golden), _files(found)
    published = {name.partition("/")[0] for name in theirs} - {name.partition("/")[0] for name in ours}
    if published:
        return f"published as {sorted(published)[0]}"
    for name, place in sorted(ours.items()):
        directory = name.partition("/")[0]
        if not (found / directory).exists():
            continue  # refused
        if name not in theirs:
            return f"{name} is missing"
        if place.read_bytes() == theirs[name].read_bytes():
            continue
        if name.rpartition("/")[2].startswith("_") or not _is_orc(place):
            return f"{name} has other bytes"
        what = _orc_difference(place, theirs[name])
        if what:
            return f"{name} has {what}"
    extra = sorted(theirs.keys() - ours.keys())
    return f"{extra[0]} is there" if extra else ""


def _files(table: Path) -> dict[str, Path]:
    hidden = "_acidctl"
    places = (path for path in sorted(table.rglob("*")) if path.is_file())
    named = {str(path.relative_to(table)): path for path in places}
    return {name: path for name, path in named.items() if not name.startswith(hidden) and f"/{hidden}" not in name}


def _is_orc(path: Path) -> bool:
    with path.open("rb") as stream:
        return stream.read(3) == b"ORC"


def _orc_difference(golden: Path, found: Path) -> str:
    from acidctl.orc.reader import open_orc

    with golden.open("rb") as one, found.open("rb") as two:
        ours, theirs = open_orc(one, name="a"), open_orc(two, name="b")
        if str(ours.schema) != str(theirs.schema):
            return "other columns"
        if _rows(ours) != _rows(theirs):
            return "other rows"
        if ours.tail.user_metadata != theirs.tail.user_metadata:
            return "other user metadata"
        if [_statistics(item) for item in _levels(one, ours)] != [_statistics(item) for item in _levels(two, theirs)]:
            return "other statistics or indexes"
        if _physical(ours) != _physical(theirs):
            return "another physical form"
    return ""


def _physical(orc: Any) -> Any:
    tail = orc.tail
    return tail.postscript.compression, tail.row_index_stride, tail.calendar, len(tail.stripes)


def _rows(orc: Any) -> str:
    """A digest of all rows and their order."""
    from acidctl.types.digest import RowDigest

    digest = RowDigest()
    for batch in orc.scan():
        digest.update(None, batch.columns)
    return digest.hexdigest()


def _levels(stream: Any, orc: Any) -> Iterator[Any]:
    """All statistics, and the positions of row groups; which bytes a stream takes matters to nobody."""
    from acidctl.orc.stripe import read_column_index

    yield from orc.tail.statistics
    for stripe in orc.stripe_statistics():
        yield from stripe
    for footer in orc.stripe_footers():
        for column in range(len(orc.tail.types)):
            index = read_column_index(stream, orc.tail, footer, column)
            for entry in index.entries or ():
                yield entry.statistics
                yield entry.positions


def _statistics(item: Any) -> Any:
    return repr(item)
