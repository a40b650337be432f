"""Codec and other physical settings: options before table properties before what the files show."""

from __future__ import annotations

import pytest

from acidctl.compaction.columns import writer_settings
from acidctl.compaction.plan import NotPlannedError, Target, WriterSettings
from acidctl.errors import UsageError
from acidctl.types.hive_types import StructType
from acidctl.types.schema import TableSchema, parse_schema

COLUMNS = parse_schema("id int, Name string").columns


def ddl(**properties: str) -> TableSchema:
    """A schema with table properties; `__` in a name stands for a dot."""
    pairs = tuple((key.replace("__", "."), value) for key, value in properties.items())
    return TableSchema(COLUMNS, properties=pairs, from_ddl=True)


@pytest.mark.parametrize(
    ("asked", "schema", "found", "expected"),
    [
        (None, None, "snappy", "snappy"),
        (None, None, "none", "none"),
        (None, None, "lzo", "zlib"),
        (None, ddl(orc__compress="ZSTD"), "snappy", "zstd"),
        (None, ddl(), "snappy", "snappy"),
        ("LZ4", ddl(orc__compress="ZSTD"), "snappy", "lz4"),
        ("none", None, "snappy", "none"),
        ("zlib", ddl(orc__compress="LZO"), "snappy", "zlib"),
    ],
)
def test_codec(asked: str | None, schema: TableSchema | None, found: str, expected: str) -> None:
    """The option, else the table's property, else the newest file's."""
    assert writer_settings(asked, schema, found, COLUMNS, Target.HIVE4)[0].compression == expected


def test_table_properties() -> None:
    """As Hive reads them; a bloom filter on no column is left out and said."""
    schema = ddl(
        orc__stripe__size="1048576",
        orc__compress__size="65536",
        orc__row__index__stride="5000",
        orc__bloom__filter__columns="NAME, x",
        orc__bloom__filter__fpp="0.01",
    )
    settings, notes = writer_settings(None, schema, "zlib", COLUMNS, Target.HIVE4)
    assert settings == WriterSettings("zlib", 1048576, 65536, 5000, ("Name",), 0.01)
    assert notes == ("orc.bloom.filter.columns names x, which is not a column.",)
    assert (
        writer_settings(None, ddl(orc__create__index="false"), "zlib", COLUMNS, Target.HIVE4)[0].row_index_stride == 0
    )
    assert writer_settings(None, ddl(), "zlib", StructType(()), Target.HIVE4)[0] == WriterSettings()


@pytest.mark.parametrize(
    "schema",
    [
        ddl(orc__compress="fast"),
        ddl(orc__compress="LZO"),
        ddl(orc__stripe__size="64MB"),
        ddl(orc__stripe__size="0"),
        ddl(orc__compress__size="8388608"),
        ddl(orc__row__index__stride="999"),
        ddl(orc__row__index__stride="-1"),
        ddl(orc__row__index__stride="9" * 5000),
        ddl(orc__bloom__filter__fpp="1"),
        ddl(orc__bloom__filter__fpp="nan"),
        ddl(orc__bloom__filter__fpp="much"),
    ],
)
def test_properties_that_cannot_be(schema: TableSchema) -> None:
    """A sentence that names the property."""
    with pytest.raises(UsageError, match=r"orc[.]"):
        writer_settings(None, schema, "zlib", COLUMNS, Target.HIVE4)


def test_hive3_has_no_zstd() -> None:
    """The option contradicts the target; the table's property makes a refusal with the remedy."""
    table = ddl(orc__compress="ZSTD")
    assert writer_settings(None, table, "zlib", COLUMNS, Target.HIVE4)[0].compression == "zstd"
    assert writer_settings("lz4", table, "zlib", COLUMNS, Target.HIVE3)[0].compression == "lz4"
    assert writer_settings(None, None, "zstd", COLUMNS, Target.HIVE3)[0].compression == "zlib"
    with pytest.raises(NotPlannedError, match="--compression") as refusal:
        writer_settings(None, table, "zlib", COLUMNS, Target.HIVE3)
    assert refusal.value.code == "unreadable_codec"
    with pytest.raises(UsageError, match="--compression zstd"):
        writer_settings("zstd", None, "zlib", COLUMNS, Target.HIVE3)
    with pytest.raises(UsageError, match="--compression"):
        writer_settings("gzip", None, "zlib", COLUMNS, Target.HIVE4)
