"""Text files of insert-only tables: how they are cut and expanded, and what the DDL must say."""

from __future__ import annotations

import bz2
import gzip
import zlib
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from acidctl.errors import ExitCode
from acidctl.types.schema import parse_schema
from tests.cli.runner import Result, acidctl

INSERT_ONLY = "'transactional'='true', 'transactional_properties'='insert_only'"
LAZY = "org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe"


def _delta(root: Path, name: str = "000000_0") -> Path:
    folder = root / "delta_0000001_0000001_0000"
    folder.mkdir(parents=True, exist_ok=True)
    return folder / name


def _ddl(columns: str = "id int, v string", form: str = "stored as textfile", more: str = "") -> str:
    return f"create table t ({columns}) {form} tblproperties ({INSERT_ONLY}{more})"


def _read(root: Path, ddl: str, *options: str) -> Result:
    return acidctl("snapshot", str(root), "--schema", ddl, *(options or ("-o", "csv", "--no-header")))


def _snappy(text: bytes) -> bytes:
    packed = bytes(pa.compress(text, codec="snappy", asbytes=True))
    return len(text).to_bytes(4, "big") + len(packed).to_bytes(4, "big") + packed


PACKED: dict[str, Callable[[bytes], bytes]] = {
    "": lambda text: text,
    ".gz": lambda text: gzip.compress(text[:7]) + gzip.compress(text[7:]),
    ".bz2": lambda text: bz2.compress(text[:7]) + bz2.compress(text[7:]),
    ".deflate": zlib.compress,
    ".snappy": lambda text: _snappy(text[:7]) + _snappy(text[7:]),
    ".zst": lambda text: bytes(pa.compress(text, codec="zstd", asbytes=True)),
}


@pytest.mark.parametrize("ending", PACKED)
def test_endings_say_how_a_file_is_compressed(tmp_path: Path, ending: str) -> None:
    """Rows and count are the same, and a file that is cut short is damaged."""
    text = b"1\x01a\n2\x01b\r\n3\x01c"
    path = _delta(tmp_path, f"000000_0{ending}")
    path.write_bytes(PACKED[ending](text))
    assert _read(tmp_path, _ddl()).stdout == "1,a\n2,b\n3,c\n"
    assert _read(tmp_path, _ddl(), "--count", "-o", "json").json()["rows"] == 3
    if ending:
        path.write_bytes(path.read_bytes()[:-3])
        assert _read(tmp_path, _ddl()).code == ExitCode.DAMAGED


def test_lines_end_as_hadoop_ends_them(tmp_path: Path) -> None:
    """CR, LF or both, also where the file is read in several pieces; a byte order mark belongs to no value."""
    ends = ["\n", "\r", "\r\n"]
    lines = [f"{number}\x01{'x' * (number % 977)}{ends[number % 3]}" for number in range(5000)]
    _delta(tmp_path).write_text("\ufeff" + "".join(lines), newline="")
    rows = _read(tmp_path, _ddl()).stdout.split("\n")
    assert [row.partition(",")[0] for row in rows] == [*map(str, range(5000)), ""]


def test_headers_and_footers_are_left_out(tmp_path: Path) -> None:
    """Of each file, and no more than there is."""
    _delta(tmp_path).write_text("head\n1\x01a\n2\x01b\nfoot\nfoot\n")
    _delta(tmp_path, "000001_0").write_text("head\nfoot\n")
    ddl = _ddl(more=", 'skip.header.line.count'='1', 'skip.footer.line.count'='2'")
    assert _read(tmp_path, ddl).stdout == "1,a\n2,b\n"
    assert _read(tmp_path, ddl, "--count", "-o", "json").json()["rows"] == 2


def test_the_last_column_takes_the_rest_where_it_is_asked_to(tmp_path: Path) -> None:
    """Fields beyond the last column are dropped otherwise."""
    _delta(tmp_path).write_text("1\x01a\x01b\x01c\n")
    rest = f"row format serde '{LAZY}' with serdeproperties ('serialization.last.column.takes.rest'='true')"
    assert _read(tmp_path, _ddl()).stdout == "1,a\n"
    assert _read(tmp_path, _ddl(form=f"{rest} stored as textfile")).stdout == "1,a\x01b\x01c\n"


@pytest.mark.parametrize(
    ("ddl", "named"),
    [
        ("id int, v string", "--schema"),
        (_ddl(form="row format serde 'org.apache.hadoop.hive.serde2.JsonSerDe' stored as textfile"), "JsonSerDe"),
        (_ddl(form="row format serde 'x.y.RegexSerDe' stored as textfile"), "RegexSerDe"),
        (_ddl(form="stored as parquet"), "the DDL says that the table is Parquet"),
        (_ddl(form="stored as avro"), "Avro"),
        (_ddl(columns="id uniontype<int,string>"), "uniontype"),
        (_ddl(more=", 'serialization.encoding'='GBK'"), "GBK"),
        (_ddl(more=", 'timestamp.formats'='dd.MM.yyyy'"), "timestamp.formats"),
    ],
)
def test_what_is_not_read_is_one_sentence(tmp_path: Path, ddl: str, named: str) -> None:
    """Exit code 11, what it is, and nothing of damage."""
    _delta(tmp_path).write_text("1\x01a\n")
    result = _read(tmp_path, ddl, "--table-type", "insert-only", "-o", "json")
    assert result.code == ExitCode.NOT_ACID
    assert named in result.stderr
    assert "damaged" not in result.stderr


def test_a_ddl_keeps_how_its_files_are_written() -> None:
    """ROW FORMAT DELIMITED becomes the SerDe's properties; escapes in texts are Hive's."""
    schema = parse_schema(
        r"create table t (id int) row format delimited fields terminated by '\t' escaped by '\\' collection items "
        r"terminated by '\u0002' map keys terminated by '\003' null defined as '' stored as textfile"
    )
    assert schema.stored_as == "textfile"
    stated = {key: schema.serde_property(key) for key, _ in schema.serde_properties}
    assert stated == {
        "field.delim": "\t",
        "serialization.format": "\t",
        "escape.delim": "\\",
        "collection.delim": "\x02",
        "mapkey.delim": "\x03",
        "serialization.null.format": "",
    }
