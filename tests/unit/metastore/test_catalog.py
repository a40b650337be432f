"""Names, schemas and lists from what a metastore answers, without one."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from acidctl.metastore.catalog import Catalog, TableInfo, TableName
from acidctl.metastore.client import Client
from acidctl.types.schema import parse_schema


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("orders", "default.orders"),
        ("Sales.ORDERS", "sales.orders"),
        ("`my sales`.`a``b`", "my sales.a`b"),
        ("`with.dot`", "default.with.dot"),
        ("bestellungen_ä", "default.bestellungen_ä"),
    ],
)
def test_names(text: str, expected: str) -> None:
    """Lower case, backticks as in SQL, the default database."""
    assert str(TableName.parse(text)) == expected


@pytest.mark.parametrize("text", ["", ".", "a.", ".a", "a.b.c", "a b", "`a", "a`b`", "sales.*", "a/b", "'a'"])
def test_no_names(text: str) -> None:
    """Paths, patterns, catalogs and half names are none."""
    assert TableName.parse(text) is None


def test_a_table_as_text_is_read_back() -> None:
    """Odd names, quotes in properties, nested types, keys and buckets come through `parse_schema` unharmed."""
    info = TableInfo(
        name=TableName("my sales", "a`b"),
        location="hdfs://nn/w/t",
        insert_only=False,
        columns=(("id", "int"), ("od`d", "struct<a:int,b:array<decimal(10,2)>>"), ("select", "varchar(5)")),
        partition_keys=(("ds", "string"), ("n", "int")),
        properties={"transactional": "true", "orc.x": "it's a \\ slash", "owner.note": "left out"},
        buckets=4,
        sorted_by=("id",),
        owner="hive",
    )
    schema = parse_schema(info.ddl)
    assert [field.name for field in schema.columns.fields] == ["id", "od`d", "select"]
    assert [field.name for field in schema.partition_columns] == ["ds", "n"]
    assert (schema.bucket_count, schema.sort_columns, schema.table) == (4, ("id",), "my sales.a`b")
    assert schema.table_property("orc.x") == "it's a \\ slash"
    assert schema.table_property("owner.note") is None
    assert (schema.transactional, schema.insert_only) == (True, False)


def lists(open_txns: list[int], txn_bits: bytes, ids: list[int], id_bits: bytes, lowest: int | None, **how: Any) -> Any:
    """What a catalog makes of these answers."""
    answers = {
        "get_open_txns_req": SimpleNamespace(txn_high_water_mark=30, open_txns=open_txns, abortedBits=txn_bits),
        "get_valid_write_ids": SimpleNamespace(
            tblValidWriteIds=[
                SimpleNamespace(
                    writeIdHighWaterMark=20, invalidWriteIds=ids, minOpenWriteId=lowest, abortedBits=id_bits
                )
            ]
        ),
    }
    types = SimpleNamespace(
        GetOpenTxnsRequest=SimpleNamespace,
        GetValidWriteIdsRequest=SimpleNamespace,
        TxnType=SimpleNamespace(READ_ONLY=2),
    )
    client = SimpleNamespace(types=types, call=lambda name, *arguments: answers[name])
    return Catalog(cast(Client, client)).lists(TableName("default", "t"), **how)


def test_lists_are_written_as_hive_does() -> None:
    """Runs as ranges, aborted ones by bits whose last zero bytes are cut off, the lowest open one only where needed."""
    found = lists([3, 10, 11, 12, 13, 14, 25], b"\x01", [5, 7, 9], b"\x05", 7)
    assert found.texts == ("default.t:20:7:7:5,9", "30:10:10-14,25:3")
    found = lists([3, 25], b"\x01", [], b"", None)
    assert found.texts == ("default.t:20:9223372036854775807::", "30:25:25:3")


def test_own_older_and_compacting_lists() -> None:
    """A transaction does not see itself or later ones; compactions see nothing from the lowest open write on."""
    assert lists([3, 10, 25], b"\x01", [], b"", None, own=25).texts[1] == "25:10:10:3"
    assert lists([3, 10, 25], b"\x01", [], b"", None, below=10).texts[1] == "9:9223372036854775807::3"
    assert lists([], b"", [5, 7, 9], b"\x05", 7, compacting=True).texts[0] == "default.t:6:7::5"
