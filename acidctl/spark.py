"""Tables as a data source of Spark: format `acidctl` (PySpark 4), and `read` for PySpark 3.5.

    acidctl.spark.register(spark)
    spark.read.format("acidctl").option("validtxns", f"{write_ids}\\n{txns}").load("hdfs://nn/warehouse/orders")

The driver judges the table when the DataFrame is made: lists, directories, splits. Executors read splits, and nothing
else; so a DataFrame has the same rows however often it is asked. Spark's filters are not taken: what one query of a
DataFrame has pushed down Spark uses for the next one too, which then misses rows. The options `where`, `partitions` and
`columns` narrow what is read.
"""

from __future__ import annotations

import gc
import importlib
import logging
import os
import pickle
import sys
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark.sql import types as spark_types

from acidctl.api import Table, open_table
from acidctl.engine.cluster import explain
from acidctl.engine.spark import SparkEngine
from acidctl.errors import AcidctlError, MissingDependencyError, UsageError
from acidctl.rows.export import ROW_ID
from acidctl.rows.snapshot import ROW_ID_STRUCT, Snapshot
from acidctl.rows.splits import SPLIT_BYTES
from acidctl.types.hive_types import Field, HiveType, ListType, MapType, Primitive, StructType, TypeKind

try:
    from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
except ImportError:  # PySpark 3.5 has none
    DataSource = DataSourceReader = InputPartition = object  # type: ignore[assignment,misc]

if TYPE_CHECKING:
    from acidctl.by_name import Metastore

FORMAT = "acidctl"
# Applications and their Pythons that have been looked at; and by how many tasks.
_READY: set[tuple[str, str]] = set()
_LOOKED_AT = 16
_STORAGE, _METASTORE = "storage.", "metastore."
# Spark shows what its Python processes log on stderr, and has no other way for a source to say something.
_LOG = logging.getLogger("acidctl")
_VIEW = ("schema", "table", "list_format", "profile", "table_type")
_OPTIONS = (
    *("path", "metastore", "validtxns", "as_of", "assume_committed", *_VIEW),
    *("partitions", "columns", "where", "row_id", "timestamps", "split_bytes", "strict"),
)
_PLAIN: Mapping[TypeKind, spark_types.DataType] = {
    TypeKind.BOOLEAN: spark_types.BooleanType(),
    TypeKind.TINYINT: spark_types.ByteType(),
    TypeKind.SMALLINT: spark_types.ShortType(),
    TypeKind.INT: spark_types.IntegerType(),
    TypeKind.BIGINT: spark_types.LongType(),
    TypeKind.FLOAT: spark_types.FloatType(),
    TypeKind.DOUBLE: spark_types.DoubleType(),
    TypeKind.DATE: spark_types.DateType(),
    TypeKind.BINARY: spark_types.BinaryType(),
    TypeKind.STRING: spark_types.StringType(),
    # The Python data source API has no type for them.
    TypeKind.CHAR: spark_types.StringType(),
    TypeKind.VARCHAR: spark_types.StringType(),
}
_EXACT = spark_types.StructType().add("seconds", "long").add("nanos", "integer")
_MOMENTS: Mapping[TypeKind, spark_types.DataType] = {
    TypeKind.TIMESTAMP: spark_types.TimestampNTZType(),
    TypeKind.TIMESTAMP_LOCAL: spark_types.TimestampType(),
}


class Planned(NamedTuple):
    """What executors are to read: the schema of it, and the splits as pickles.

    `strict` makes an error of rows that may come twice, as soon as one is read.
    """

    schema: spark_types.StructType
    splits: tuple[bytes, ...]
    strict: bool = False


class AcidTable(DataSource):
    """The data source; Spark makes it of the options of a DataFrame, see docs/spark.md."""

    _known: Planned | None = None

    @classmethod
    def name(cls) -> str:
        """What stands in `format(...)` and `USING`."""
        return FORMAT

    def schema(self) -> spark_types.StructType:
        """The columns that were asked for; the table is judged now, once."""
        return self._planned().schema

    def reader(self, schema: spark_types.StructType) -> DataSourceReader:
        """What executors read with; UsageError for a schema of Spark's that is not the table's own."""
        reader: DataSourceReader = _source(self._planned()).reader(schema)
        return reader

    def __reduce__(self) -> Any:
        """Once it is planned what travels is the plan: the process in which Spark asks for the reader starts anew for
        each query, and need not load acidctl.
        """
        if self._known is None:
            return super().__reduce__()
        return type(_source(self._known)), tuple(self._known)

    def _planned(self) -> Planned:
        if self._known is None:
            self._known = plan(self.options)
        return self._known


def register(spark: Any) -> None:
    """Make the format `acidctl` known to a session, and send this package to its executors.

    MissingDependencyError where their Python lacks what it takes. `spark.dataSource.register(acidctl.spark.AcidTable)`
    is enough where every node has acidctl.
    """
    _ready(spark)
    spark.dataSource.register(AcidTable)


def _ready(spark: Any) -> Any:
    """The context of a session whose executors have what it takes, as far as a small job tells; looked at once."""
    context = SparkEngine(session=spark).start()
    known = (context.applicationId, context.pythonExec)
    if known not in _READY:
        count = min(context.defaultParallelism, _LOOKED_AT)
        try:
            found = context.parallelize(range(count), count).map(lacking()).collect()
        except Exception as error:
            raise explain(error, ())[0] from error
        for python, names in found:
            if names:
                raise MissingDependencyError(
                    f"Spark's Python {python} has no {' and no '.join(names)}. Install it there on every node, or name "
                    "another Python by spark.pyspark.python or PYSPARK_PYTHON"
                )
        _READY.add(known)
    return context


def read(spark: Any, table: str | os.PathLike[str], **options: Any) -> Any:
    """The DataFrame of a table, by the options of the data source as keywords; also for PySpark 3.5.

    `validtxns`, `partitions` and `columns` may be lists; `storage_options` is a mapping; None is an option not given.
    """
    storage = options.pop("storage_options", None) or {}
    joined = {
        name: (", " if name == "columns" else "\n").join(value) if isinstance(value, list | tuple) else str(value)
        for name, value in options.items()
        if value is not None
    }
    planned = plan({"path": str(table), **joined, **{f"{_STORAGE}{name}": value for name, value in storage.items()}})
    context = _ready(spark)
    rows = [(bytearray(split),) for split in planned.splits]
    # An RDD, since the plan of a DataFrame shows its values, and these may hold secrets.
    splits = spark.createDataFrame(context.parallelize(rows, max(1, len(rows))), "split binary")
    return splits.mapInArrow(mapped(planned.strict), planned.schema)


def plan(options: Mapping[str, Any]) -> Planned:
    """Judge the table that these options name, and divide what a reader sees of it; errors are one sentence.

    Warnings of the answer, and why its rows may be missing or come twice, are logged; with `strict` the latter raise.
    """
    try:
        known = {name.lower(): value for name, value in options.items()}
        snapshot = _snapshot(known)
        columns = _words(known, "columns", ",") or None
        if len({name.lower() for name in columns or ()}) < len(columns or ()):
            raise UsageError("option columns names a column twice, which Spark cannot tell apart")
        row_id, form = _flag(known, "row_id"), known.get("timestamps", "us")
        if form not in ("us", "exact"):
            raise UsageError(f"option timestamps={form}: expected us or exact")
        splits = snapshot.splits(
            columns,
            where=known.get("where"),
            row_id=row_id,
            timestamps=form,
            split_bytes=_number(known, "split_bytes", SPLIT_BYTES),
        )
        places = {field.name.lower(): field for field in reversed(snapshot.fields)}
        if strict := _flag(known, "strict"):
            snapshot.require_certain()
        for sentence in dict.fromkeys((*snapshot.warnings, *map(str, snapshot.findings))):
            _LOG.warning("%s: %s", snapshot.location, sentence)
        if snapshot.findings:
            _LOG.warning("%s: rows may be missing or come twice, for the reasons above", snapshot.location)
        fields = [Field(ROW_ID, ROW_ID_STRUCT)] if row_id else []
        fields += [places[name.lower()] for name in snapshot.column_names(columns)]
        schema = spark_types.StructType(
            [spark_types.StructField(one.name, spark_type(one.type, one.name, form == "exact")) for one in fields]
        )
        return Planned(schema, tuple(pickle.dumps(split, pickle.HIGHEST_PROTOCOL) for split in splits), strict)
    except AcidctlError as error:
        # Spark shows the text of an error, and the hint is no part of it.
        end = "" if error.message.endswith("?") else "."
        raise type(error)(f"{error.message}{end} {error.hint}" if error.hint else error.message) from None


def _snapshot(options: Mapping[str, Any]) -> Snapshot:
    unknown = [name for name in options if name not in _OPTIONS and not name.startswith((_STORAGE, _METASTORE))]
    if unknown:
        near = get_close_matches(unknown[0], _OPTIONS, 1)
        meant = f"Did you mean {near[0]}? " if near else ""
        known = f"{', '.join(_OPTIONS)}, storage.NAME, metastore.NAME"
        raise UsageError(f"there is no option '{unknown[0]}'", hint=f"{meant}The options are: {known}.")
    path = options.get("path")
    if not path:
        raise UsageError("no table is named", hint='Give its path or URL: .load("hdfs://nn/warehouse/orders").')
    storage = {name.removeprefix(_STORAGE): value for name, value in options.items() if name.startswith(_STORAGE)}
    view: dict[str, Any] = {name: options[name] for name in _VIEW if name in options}
    view["validtxns"] = _words(options, "validtxns", "\n")
    view["partitions"] = _words(options, "partitions", "\n")
    view["as_of"] = _number(options, "as_of", None)
    address, name = options.get("metastore"), path
    if path.startswith("thrift://"):
        host, _, name = path.removeprefix("thrift://").partition("/")
        address = f"thrift://{host}"
    metastore = _metastore(options, address, storage)
    if metastore is not None:
        if _flag(options, "assume_committed"):
            raise UsageError(
                "assume_committed is about tables by path, and the metastore says what is committed",
                hint="Leave it out, or give the path of the table and leave out the metastore.",
            )
        with metastore:
            return _quiet(metastore.table(name), view)
    if not (view["validtxns"] or view["as_of"] is not None or _flag(options, "assume_committed")):
        raise UsageError(
            "which writes are committed is unknown: there is neither the option validtxns nor as_of",
            hint="Give Hive's lists, one a line, as validtxns; or assume_committed=true if all that is on disk counts.",
        )
    return _quiet(open_table(path, storage_options=storage), view)


def _quiet(table: Table, view: Mapping[str, Any]) -> Snapshot:
    """A snapshot that warns of nothing: what it finds is logged."""
    return table.reader(table.outline(**view))


def _metastore(options: Mapping[str, Any], address: str | None, storage: Mapping[str, str]) -> Metastore | None:
    """The metastore at an address, by options that are called as the keys of `[metastore]`; None without an address."""
    values: dict[str, Any] = {
        name.removeprefix(_METASTORE): value for name, value in options.items() if name.startswith(_METASTORE)
    }
    if not address:
        for name in values:
            raise UsageError(
                f"option metastore.{name} is about a metastore, and none is named",
                hint="Give its address as the option metastore, such as thrift://host:9083.",
            )
        return None
    if "tls" in values:
        values["tls"] = _flag(options, "metastore.tls")
    if "timeout" in values:
        values["timeout"] = _number(options, "metastore.timeout", 0)
    if "headers" in values:
        pairs = (line.partition(":") for line in _words(options, "metastore.headers", "\n"))
        values["headers"] = {key.strip(): value.strip() for key, _, value in pairs}
    from acidctl.by_name import Metastore, find_metastore

    settings = find_metastore(address, values, os.environ)
    return None if settings is None else Metastore(settings, storage_options=storage)


def _words(options: Mapping[str, Any], name: str, separator: str) -> list[str]:
    return [word.strip() for word in str(options.get(name, "")).split(separator) if word.strip()]


def _flag(options: Mapping[str, Any], name: str) -> bool:
    text = str(options.get(name, "false")).lower()
    if text not in ("true", "false"):
        raise UsageError(f"option {name}={text}: expected true or false")
    return text == "true"


def _number(options: Mapping[str, Any], name: str, default: Any) -> Any:
    text = str(options.get(name, "")).strip()
    if text and not text.isdecimal():
        raise UsageError(f"option {name}={text}: expected a whole number")
    return int(text) if text else default


def spark_type(kind: HiveType, column: str, exact: bool) -> spark_types.DataType:
    """Spark's type for a Hive type; UsageError for a union. `exact` makes moments structs of seconds and nanos."""
    if kind.kind in _MOMENTS:
        return _EXACT if exact else _MOMENTS[kind.kind]
    if kind.kind in _PLAIN:
        return _PLAIN[kind.kind]
    if isinstance(kind, Primitive) and kind.precision is not None and kind.scale is not None:
        return spark_types.DecimalType(kind.precision, kind.scale)
    if isinstance(kind, ListType):
        return spark_types.ArrayType(spark_type(kind.element, column, exact))
    if isinstance(kind, MapType):
        return spark_types.MapType(spark_type(kind.key, column, exact), spark_type(kind.value, column, exact))
    if isinstance(kind, StructType):
        fields = [spark_types.StructField(one.name, spark_type(one.type, column, exact)) for one in kind.fields]
        return spark_types.StructType(fields)
    raise UsageError(
        f"column {column} holds a {kind}, which Spark has no type for", hint="Leave it out: name the others as columns."
    )


# --- What runs on executors. Functions and classes within a function travel by value, so that an executor without
# acidctl can say what it lacks.


def lacking() -> Any:
    """A function for executors: their Python, and which packages it lacks."""

    def look(_: int) -> tuple[str, list[str]]:
        missing = []
        for name in ("numpy", "pyarrow", "acidctl"):
            try:
                importlib.import_module(name)
            except ImportError:
                missing.append(name)
        return sys.executable, missing

    return look


def _batches(strict: bool) -> Any:
    def batches(split: bytes) -> Iterator[Any]:
        try:
            names = ("acidctl.rows.scan", "acidctl.orc.reader", "acidctl.rows.splits")
            scan, reader, _ = map(importlib.import_module, names)
        except ImportError as error:
            raise RuntimeError(
                f"this executor has no package {error.name}: install acidctl with its extras on every node, or call "
                "acidctl.spark.register(spark), which sends acidctl itself"
            ) from None
        reader.INFLATED_BESIDE.set(False)  # each core has a task of its own
        if not gc.get_freeze_count():
            gc.freeze()  # Spark collects garbage after each task, and would look through all that is loaded
        try:
            findings = scan.Findings(strict=strict)
            yield from pickle.loads(split).to_batches(findings=findings)
            for finding in findings:
                logging.getLogger("acidctl").warning(str(finding))
        except Exception as error:
            hint = getattr(error, "hint", None)
            if hint is None:
                raise
            if type(error).__name__ == "UsageError":  # of a timestamp; what Python has for it is no option here
                hint = "Give the option timestamps=exact, which makes structs of them, or leave the column out."
            # Spark shows the text of an error, and the hint is no part of it.
            raise RuntimeError(f"{error}. {hint}") from None

    return batches


def mapped(strict: bool = False) -> Any:
    """What `read` hands to mapInArrow: batches of splits in, batches of rows out."""
    batches = _batches(strict)

    def of_splits(received: Iterator[Any]) -> Iterator[Any]:
        for batch in received:
            for split in batch.column(0).to_pylist():
                yield from batches(split)

    return of_splits


def _source(planned: Planned) -> Any:
    """What is planned as a data source."""
    batches = _batches(planned.strict)

    class Part(InputPartition):
        def __repr__(self) -> str:
            return "a split of acidctl"

    class Reader(DataSourceReader):
        def __init__(self, own: tuple[bytes, ...]) -> None:
            self.splits = own

        def partitions(self) -> list[InputPartition]:
            return [Part(split) for split in self.splits]

        def read(self, partition: InputPartition) -> Iterator[Any]:
            # Of an empty table Spark makes a partition of its own.
            return iter(()) if partition.value is None else batches(partition.value)

        def __getstate__(self) -> dict[str, Any]:
            # Each task gets its own split, and not all of them.
            return {"splits": ()}

    class Source(DataSource):
        def __init__(self, schema: spark_types.StructType, splits: tuple[bytes, ...], strict: bool) -> None:
            super().__init__({})
            self.known, self.splits = schema, splits

        @classmethod
        def name(cls) -> str:
            return FORMAT

        def schema(self) -> spark_types.StructType:
            return self.known

        def reader(self, schema: spark_types.StructType) -> DataSourceReader:
            if schema != self.known:
                errors = importlib.import_module("acidctl.errors")
                raise errors.UsageError(
                    f"the schema given is {schema.simpleString()}, and the table's is {self.known.simpleString()}; "
                    "leave out schema(...), and give the columns as Hive knows them in the option schema"
                )
            return Reader(self.splits)

    return Source(*planned)
