"""What a metastore says of tables: names, places, columns, kinds, and the lists of this moment."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field
from difflib import get_close_matches
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Any

from acidctl.errors import NoSuchTableError, NotAcidTableError, StorageError, UsageError
from acidctl.format.names import DEFAULT_PARTITION, parse_partition
from acidctl.format.write_ids import MAX_ID, ValidTxns, ValidWriteIds
from acidctl.metastore.client import Client, RefusedError, UnknownCallError
from acidctl.options import either
from acidctl.values import dataclass

# Partitions are asked for by their names: a thousand at a time is as fast as more, and no answer is too large.
BATCH = 1000
# Of the properties of a table those that say how it is read, written or compacted.
_PROPERTIES = (
    *("transactional", "orc.", "compactor", "no_auto_compaction", "no_cleanup", "bucketing_version"),
    # How text and Parquet are read.
    *("skip.", "serialization.", "parquet.", "timestamp."),
)
_NAME = re.compile(r"`(?P<quoted>(?:[^`]|``)+)`|(?P<plain>[^`./\\\s*?'\"]+)")


@dataclass(frozen=True, slots=True)
class TableName:
    """`database.table`, in lower case as Hive keeps names."""

    database: str
    table: str

    def __str__(self) -> str:
        return f"{self.database}.{self.table}"

    @classmethod
    def parse(cls, text: str) -> TableName | None:
        """`table`, `database.table`, each perhaps in backticks; None for what is no such name."""
        parts, at = [], 0
        while match := _NAME.match(text, at):
            parts.append((match["quoted"] or "").replace("``", "`") or match["plain"])
            at = match.end()
            if at == len(text):
                return cls(*(["default"] * (2 - len(parts)) + parts)).lower() if len(parts) <= 2 else None
            if text[at] != ".":
                return None
            at += 1
        return None

    def lower(self) -> TableName:
        """Mixed case would be another table to the metastore's list calls, one without any write."""
        return TableName(self.database.lower(), self.table.lower())


@dataclass(frozen=True, slots=True)
class TableInfo:
    """A transactional table as the metastore has it; locations are as stored.

    `columns` and `partition_keys` are names and types.
    """

    name: TableName
    location: str
    insert_only: bool
    columns: tuple[tuple[str, str], ...]
    partition_keys: tuple[tuple[str, str], ...]
    properties: Mapping[str, str]
    buckets: int
    sorted_by: tuple[str, ...]
    owner: str
    input_format: str = ""
    serde: str = ""
    serde_properties: Mapping[str, str] = field(default_factory=dict)

    @property
    def ddl(self) -> str:
        """The table as text that `--schema` takes: columns, format, what decides about reading and compaction."""
        kept = {key: value for key, value in self.properties.items() if key.lower().startswith(_PROPERTIES)}
        parts = [f"CREATE TABLE `{_ticks(self.name.database)}`.`{_ticks(self.name.table)}` ({_list(self.columns)})"]
        if self.partition_keys:
            parts.append(f"PARTITIONED BY ({_list(self.partition_keys)})")
        if self.sorted_by:
            parts.append(f"SORTED BY ({', '.join(f'`{_ticks(name)}`' for name in self.sorted_by)})")
        if self.buckets > 0:
            parts.append(f"INTO {self.buckets} BUCKETS")
        if self.serde:
            parts.append(f"ROW FORMAT SERDE {_text(self.serde)}")
        if self.serde and self.serde_properties:
            parts.append(f"WITH SERDEPROPERTIES ({_pairs(self.serde_properties)})")
        if self.input_format:
            parts.append(f"STORED AS INPUTFORMAT {_text(self.input_format)}")
        parts.append(f"TBLPROPERTIES ({_pairs(kept)})")
        return "\n".join(parts)


@dataclass(frozen=True, slots=True)
class Lists:
    """Which transactions and which of their writes to a table a reader sees; texts as Hive writes them."""

    txns: ValidTxns
    write_ids: ValidWriteIds
    txns_text: str

    @property
    def texts(self) -> tuple[str, str]:
        """For `--validtxns`: the write-id list, then the transaction list."""
        return self.write_ids.format(), self.txns_text


class Catalog:
    """Questions to one metastore about tables and transactions; nothing is changed."""

    def __init__(self, client: Client) -> None:
        self.client = client

    @cached_property
    def has_queue(self) -> bool:
        """Whether others than Hive's own worker may take requests from its compaction queue: from Hive 4 on."""
        try:
            self.client.call("get_open_txns_req", self.client.types.GetOpenTxnsRequest(excludeTxnTypes=[]))
        except UnknownCallError:
            return False
        return True

    # --- names

    def databases(self) -> tuple[str, ...]:
        """All names."""
        return tuple(sorted(self.client.call("get_all_databases")))

    def names(self, pattern: str) -> tuple[TableName, ...]:
        """Transactional tables whose names match `database.pattern` or `pattern`, with `*` and `?`."""
        database, _, table = pattern.lower().replace("[", "[[]").rpartition(".")
        found = []
        for one in self.databases():
            if fnmatchcase(one, database or "default"):
                found += [TableName(one, name) for name in self._transactional(one) if fnmatchcase(name, table)]
        return tuple(sorted(found, key=str))

    def _transactional(self, database: str) -> list[str]:
        # With `=` Derby refuses to compare its long texts.
        wanted = 'hive_filter_field_params__transactional like "true"'
        return [name.lower() for name in self.client.call("get_table_names_by_filter", database, wanted, -1)]

    # --- tables

    def table(self, name: TableName) -> TableInfo:
        """A transactional table. NoSuchTableError with names that are near; NotAcidTableError for anything else."""
        found = self._found(name)
        properties = {str(key): str(value) for key, value in (found.parameters or {}).items()}
        known = {key.lower(): value.lower() for key, value in properties.items()}
        hint = "acidctl reads tables with TBLPROPERTIES ('transactional'='true')."
        if found.tableType == "VIRTUAL_VIEW":
            raise NotAcidTableError(f"{name} is a view", path=str(name), hint="Name a table that it reads.")
        if found.tableType == "MATERIALIZED_VIEW" and known.get("transactional") != "true":
            raise NotAcidTableError(f"{name} is a materialized view without transactions", path=str(name), hint=hint)
        if known.get("table_type") == "iceberg" or "metadata_location" in known:
            raise NotAcidTableError(f"{name} is an Iceberg table, not a Hive ACID table", path=str(name), hint=hint)
        if known.get("transactional") != "true":
            kind = "an external table" if found.tableType == "EXTERNAL_TABLE" else "a table"
            raise NotAcidTableError(f"{name} is {kind} without transactions", path=str(name), hint=hint)
        place = found.sd
        if not place.location:
            raise _odd(self.client, f"no location of the table {name}")
        return TableInfo(
            name=name,
            location=place.location,
            insert_only=known.get("transactional_properties") == "insert_only",
            columns=tuple((one.name, one.type) for one in place.cols or ()),
            partition_keys=tuple((one.name, one.type) for one in found.partitionKeys or ()),
            properties=properties,
            buckets=place.numBuckets or 0,
            sorted_by=tuple(one.col for one in place.sortCols or ()),
            owner=found.owner or "",
            input_format=place.inputFormat or "",
            serde=(place.serdeInfo.serializationLib if place.serdeInfo else None) or "",
            serde_properties=dict((place.serdeInfo.parameters if place.serdeInfo else None) or {}),
        )

    def _found(self, name: TableName) -> Any:
        types = self.client.types
        # Without the capability a metastore keeps insert-only tables from us.
        able = types.ClientCapabilities(values=[types.ClientCapability.INSERT_ONLY_TABLES])
        request = types.GetTableRequest(
            dbName=name.database,
            tblName=name.table,
            capabilities=able,
            processorCapabilities=_CAPABILITIES,
            processorIdentifier="acidctl",
        )
        try:
            return self.client.call("get_table_req", request).table
        except RefusedError as error:
            if error.exception != "NoSuchObjectException":
                raise
        databases = self.databases()
        if name.database not in databases:
            near = get_close_matches(name.database, databases, 3)
            raise NoSuchTableError(
                f"there is no database {name.database} in the metastore {self.client}",
                path=str(name),
                hint=f"Did you mean {either(near)}?" if near else f"The databases are {', '.join(databases[:5])}.",
            )
        tables = [one.lower() for one in self.client.call("get_all_tables", name.database)]
        near = [f"{name.database}.{one}" for one in get_close_matches(name.table, tables, 3)]
        if not near:
            near = [f"{one}.{name.table}" for one in databases if name.table in self.client.call("get_all_tables", one)]
        raise NoSuchTableError(
            f"there is no table {name} in the metastore {self.client}",
            path=str(name),
            hint=f"Did you mean {either(near)}?"
            if near
            else f"`acidctl ls '{name.database}.*' --by-table` lists those there are.",
        )

    # --- partitions

    def partitions(self, table: TableInfo, wanted: Sequence[str] | None = None) -> Iterator[tuple[str, str]]:
        """On-disk texts (`ds=1/hr=2`) with locations as stored, a thousand at a time; all, or those of these names.

        A partition that is dropped meanwhile is left out.
        """
        database, name = table.name.database, table.name.table
        names = list(self.client.call("get_partition_names", database, name, -1) if wanted is None else wanted)
        for start in range(0, len(names), BATCH):
            batch = names[start : start + BATCH]
            # By their values: the answer is in no order, and has no names.
            by_values = {_values(one): one for one in batch}
            for part in self._partitions(database, name, batch):
                named = by_values.get(tuple(part.values))
                if named is None or not part.sd.location:
                    raise _odd(self.client, f"a partition of {table.name} that was not asked for, or without location")
                yield named, part.sd.location

    def _partitions(self, database: str, table: str, names: list[str]) -> list[Any]:
        if len(names) == 1:
            with suppress(RefusedError):  # the metastore answers this much sooner than the call for many
                return [self.client.call("get_partition_by_name", database, table, names[0])]
        request = self.client.types.GetPartitionsByNamesRequest(
            db_name=database,
            tbl_name=table,
            names=names,
            skipColumnSchemaForPartition=True,
            processorCapabilities=_CAPABILITIES,
            processorIdentifier="acidctl",
        )
        try:
            return list(self.client.call("get_partitions_by_names_req", request).partitions)
        except UnknownCallError:
            return list(self.client.call("get_partitions_by_names", database, table, names))

    # --- lists

    def lists(self, name: TableName, own: int = 0, *, compacting: bool = False, below: int | None = None) -> Lists:
        """What a query of transaction `own` (0: of none) would see now, or a compaction (`compacting`).

        `below` leaves out transactions from this id on: what those see who are older. As Hive's
        TxnCommonUtils.createValidReadTxnList and TxnUtils.createValidCompactWriteIdList.
        """
        txns, ranges = self._txns(own, below)
        request = self.client.types.GetValidWriteIdsRequest(
            fullTableNames=[str(name)],
            validTxnList=txns.format(ranges=False),  # Hive 3 ends the connection at a range
        )
        answers = self.client.call("get_valid_write_ids", request).tblValidWriteIds
        if len(answers) != 1:
            raise _odd(self.client, f"{len(answers)} lists of write ids for one table")
        answer = answers[0]
        bits = answer.abortedBits or b""
        watermark, lowest = answer.writeIdHighWaterMark, answer.minOpenWriteId
        invalid = [(id_, _bit(bits, at)) for at, id_ in enumerate(answer.invalidWriteIds)]
        aborted = [id_ for id_, is_aborted in invalid if is_aborted]
        opened = [id_ for id_, is_aborted in invalid if not is_aborted]
        if compacting:
            limit = opened[0] if opened else MAX_ID
            aborted, opened = [id_ for id_ in aborted if id_ < limit], []
            watermark = watermark if lowest is None else lowest - 1
        # Hive leaves the field out of a list without exceptions.
        lowest = lowest if aborted or opened else None
        write_ids = ValidWriteIds(
            table=str(name),
            high_watermark=watermark,
            min_open=None if lowest == MAX_ID else lowest,
            open=tuple(opened),
            aborted=tuple(aborted),
            compacting=compacting,
        )
        return Lists(txns, write_ids, txns.format(ranges=ranges))

    def _txns(self, own: int, below: int | None) -> tuple[ValidTxns, bool]:
        """The transaction list, and whether this Hive writes runs of ids as ranges."""
        types = self.client.types
        try:
            request = types.GetOpenTxnsRequest(excludeTxnTypes=[types.TxnType.READ_ONLY])
            answer, ranges = self.client.call("get_open_txns_req", request), True
        except UnknownCallError:
            answer, ranges = self.client.call("get_open_txns"), False
        if answer.open_txns is None:  # a set of ids, as before Hive 3
            raise UnknownCallError(
                f"the metastore {self.client} has no call get_valid_write_ids, as a metastore has from Hive 3 on"
            )
        bits = answer.abortedBits or b""
        watermark = min(own, answer.txn_high_water_mark) if own else answer.txn_high_water_mark
        if below is not None:
            watermark = min(watermark, below - 1)
        limit = min(own or MAX_ID, MAX_ID if below is None else below)
        listed = [(id_, _bit(bits, at)) for at, id_ in enumerate(answer.open_txns) if id_ < limit]
        opened = tuple(id_ for id_, is_aborted in listed if not is_aborted)
        aborted = tuple(id_ for id_, is_aborted in listed if is_aborted)
        lowest = opened[0] if opened else None
        return ValidTxns(high_watermark=watermark, min_open=lowest, open=opened, aborted=aborted), ranges


def _odd(client: object, what: str) -> StorageError:
    """For an answer of the right form that cannot be."""
    return StorageError(f"the metastore {client} gives {what}", hint="The metastore's own log says more.")


# What a reader of ACID tables says that it can do; else Hive 4 answers as to an old client.
_CAPABILITIES = ["HIVEFULLACIDREAD", "HIVEFULLACIDWRITE", "HIVEMANAGEDINSERTREAD", "HIVEMANAGEDINSERTWRITE", "EXTREAD"]


def _values(partition: str) -> tuple[str, ...]:
    """The values of `ds=1/hr=2` as the metastore has them."""
    return tuple(DEFAULT_PARTITION if value is None else value for _, value in parse_partition(partition))


def _bit(bits: bytes, at: int) -> bool:
    """Bit `at` of a java.util.BitSet, whose last zero bytes are cut off."""
    return at >> 3 < len(bits) and bool(bits[at >> 3] >> (at & 7) & 1)


def _ticks(name: str) -> str:
    return name.replace("`", "``")


def _text(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _pairs(properties: Mapping[str, str]) -> str:
    return ", ".join(f"{_text(key)}={_text(value)}" for key, value in sorted(properties.items()))


def _list(columns: Sequence[tuple[str, str]]) -> str:
    return ", ".join(f"`{_ticks(name)}` {kind}" for name, kind in columns)


def require_name(text: str) -> TableName:
    """The name, or a UsageError that says how one is written."""
    name = TableName.parse(text)
    if name is None:
        raise UsageError(
            f"{text!r} is not the name of a table",
            hint="Write it as database.table, with backticks round a name that has a dot or a blank in it.",
        )
    return name
