"""Files that contradict themselves in a field, with lengths that fit: an answer or one of our errors, never a crash."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from acidctl.errors import ExitCode
from acidctl.orc import reader
from acidctl.orc.codec import Compression
from acidctl.orc.protobuf import block, encode_varint, number
from acidctl.orc.stripe import EncodingKind, StreamKind
from tests import ROOT
from tests.cli.runner import acidctl
from tests.support.orc_mutations import (
    FOOTER,
    Field,
    Parts,
    StoredStripe,
    encoded,
    mutations,
    parsed,
    put_together,
    taken_apart,
)

TABLES = ROOT / "fixtures/tables"
NESTED = "hive3/types_nested/01-inserted/table/delta_0000001_0000001_0000/bucket_00000"
NUMBERS = "hive4/types_numbers/01-written/table/delta_0000001_0000001_0000/bucket_00000_0"
DEMO = "hive4/demo_orders/03-demo/table/delta_0000001_0000004_v0000009/bucket_00000"
TIMES = "hive2/v1_types_time/01-inserted/table/delta_0000903_0000903_0000/bucket_00000"
PLAIN = "hive4/insert_only/04-overwritten/table/base_0000005_v0764811/000000_0"
_EXPECTED = {ExitCode.DONE, ExitCode.FINDINGS, ExitCode.NOT_ACID, ExitCode.DAMAGED}


def _table(tmp_path: Path, data: bytes, name: str) -> tuple[Path, Path]:
    """A table of one delta with this file, and the file."""
    shutil.rmtree(tmp_path / "t", ignore_errors=True)
    file = tmp_path / "t" / "delta_0000001_0000001_0000" / name
    file.parent.mkdir(parents=True)
    if name.startswith("bucket"):
        (file.parent / "_orc_acid_version").write_bytes(b"2")
    file.write_bytes(data)
    return tmp_path / "t", file


def _every_command(tmp_path: Path, data: bytes, name: str) -> dict[str, int]:
    """The exit codes of all commands that read the file."""
    table, file = _table(tmp_path, data, name)
    codes = {}
    for command in (
        ["dump", "-r", "*", str(file)],
        ["dump", "-d", str(file)],
        ["snapshot", "-o", "jsonl", str(table)],
        ["ls", "--rows", str(table)],
        ["compact", "major", "--assume-committed", str(table)],
    ):
        result = acidctl(*command)
        assert "unexpected" not in result.stderr, result
        codes[command[0] if command[1] != "-d" else "rows"] = result.code
    return codes


@pytest.mark.slow
@pytest.mark.parametrize("inflated", [False, True])
@pytest.mark.parametrize("path", [NESTED, NUMBERS, DEMO, TIMES, PLAIN])
def test_any_field_may_be_wrong(path: str, inflated: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A few random ones; `make fuzz` has the many. Stripes of more rows are `inflated` before Arrow sees them."""
    rng = Random(14 + inflated)
    if inflated:
        monkeypatch.setattr(reader, "FEW_VALUES", 0)
    made = mutations((TABLES / path).read_bytes(), rng)
    for _ in range(15):
        said, data = next(made)
        codes = _every_command(tmp_path, data, path.rpartition("/")[2])
        assert set(codes.values()) <= _EXPECTED, (said, codes)


@pytest.mark.parametrize(
    "values",
    [
        block(6, block(1, b"1") + block(2, b"9E+999999999") + block(3, b"12.5")),
        block(3, b"\x19" + bytes(6) + b"\xf8\x7f"),
        block(7, number(1, 1 << 63) + number(2, (1 << 64) - 1)),
        block(9, number(1, (1 << 64) - 1) + number(2, (1 << 64) - 2)),
        block(8, number(1, 1)),
        block(4, number(3, (1 << 64) - 1)),
    ],
    ids=["decimal", "NaN", "date", "timestamp", "negative length", "negative text length"],
)
def test_statistics_of_another_kind(values: bytes, tmp_path: Path) -> None:
    """They say nothing about a column; no command stumbles over them."""
    for path in (DEMO, PLAIN):
        data = (TABLES / path).read_bytes()

        def swap(footer: bytes) -> bytes:
            fields = parsed(footer, {})
            rows = next(field.value for field in fields if field.number == 6)
            return encoded([Field(7, 2, number(1, rows) + values) if field.number == 7 else field for field in fields])

        mutated = put_together(replace(taken_apart(data), on_footer=swap))
        codes = _every_command(tmp_path, mutated, path.rpartition("/")[2])
        assert set(codes.values()) <= _EXPECTED


def test_two_fields_of_one_name(tmp_path: Path) -> None:
    """`dump` shows both, in text and in JSON."""

    def name_alike(footer: bytes) -> bytes:
        fields = parsed(footer, FOOTER)
        for struct in [field.value for field in fields if field.number == 4][6:]:
            for field in struct:
                field.value = b"same" if field.number == 3 else field.value
        return encoded(fields)

    data = put_together(replace(taken_apart((TABLES / NESTED).read_bytes()), on_footer=name_alike))
    _, file = _table(tmp_path, data, "bucket_00000")
    text = acidctl("dump", str(file))
    assert (text.code, text.stdout.count("row.same") > 4) == (0, True), text
    children = acidctl("dump", "-o", "json", str(file)).json()["schema"]["children"]["row"]["children"]
    assert len(children) > 2
    assert all(name.startswith("same") for name in children)
    assert [child["columnId"] for child in children.values()] == sorted(c["columnId"] for c in children.values())


def test_rows_without_columns(tmp_path: Path) -> None:
    """No table of Hive has them; nothing is written of them."""
    footer = block(4, number(1, 12)) + number(6, 5)
    stripe_footer = block(2, number(1, 0))
    postscript = number(2, 0) + number(3, 1 << 18) + block(4, b"".join(map(encode_varint, (0, 12)))) + number(6, 6)
    parts = Parts((StoredStripe((), stripe_footer, 5),), b"", footer, postscript, Compression.NONE, 1 << 18)
    data = put_together(parts)
    codes = _every_command(tmp_path, data, "000000_0")
    assert set(codes.values()) <= _EXPECTED
    assert codes["compact"] in (ExitCode.FINDINGS, ExitCode.DAMAGED)
    table, _ = _table(tmp_path, data, "000000_0")
    shutil.copytree(table / "delta_0000001_0000001_0000", table / "delta_0000002_0000002_0000")
    for options in ([], ["--table-type", "insert-only"], ["--table-type", "full"]):
        assert acidctl("compact", "major", "--assume-committed", *options, str(table)).code != ExitCode.FAILED


def test_an_index_that_is_called_data(tmp_path: Path) -> None:
    """Two streams of one name: whoever takes the first shows the index as values."""
    parts = taken_apart((TABLES / PLAIN).read_bytes())
    (stripe, *others) = parts.stripes
    streams = tuple(
        (StreamKind.DATA if kind is StreamKind.ROW_INDEX and column == 2 else kind, column, data)
        for kind, column, data in ((StreamKind(kind), column, data) for kind, column, data in stripe.streams)
    )
    assert streams != stripe.streams
    data = put_together(replace(parts, stripes=(replace(stripe, streams=streams), *others)))
    codes = _every_command(tmp_path, data, "000000_0")
    assert (codes["rows"], codes["snapshot"]) == (ExitCode.DAMAGED, ExitCode.DAMAGED), codes


@pytest.mark.parametrize("path", [DEMO, NESTED])
def test_runs_of_another_version(path: str, tmp_path: Path) -> None:
    """One column whose encoding is called the old one: its numbers would be others, at any depth."""
    parts = taken_apart((TABLES / path).read_bytes())
    (stripe, *others) = parts.stripes
    fields = parsed(stripe.footer, {})
    encodings = [field for field in fields if field.number == 2]
    last = [field for field in encodings if field.value == number(1, EncodingKind.DIRECT_V2)][-1]
    last.value = number(1, EncodingKind.DIRECT)
    data = put_together(replace(parts, stripes=(replace(stripe, footer=encoded(fields)), *others)))
    codes = _every_command(tmp_path, data, path.rpartition("/")[2])
    assert (codes["rows"], codes["snapshot"]) == (ExitCode.DAMAGED, ExitCode.DAMAGED), codes


def test_fractions_beyond_a_second(tmp_path: Path) -> None:
    """Arrow adds them up, other libraries do not: a compaction ends before it writes either."""
    source = TABLES / "hive3/types_time/01-inserted/table"
    table = Path(shutil.copytree(source, tmp_path / "t"))
    file = table / "delta_0000002_0000002_0000" / "bucket_00000"
    parts = taken_apart(file.read_bytes())
    (stripe,) = parts.stripes

    def too_many(kind: int, data: bytes) -> bytes:
        # Short repeats of eight bytes (RLE version 2); the low three bits of a value count zeros that were cut.
        return (
            bytes([0x38 | 7]) + (136902082561 << 3).to_bytes(8, "big") + data if kind == StreamKind.SECONDARY else data
        )

    streams = tuple((kind, column, too_many(kind, data)) for kind, column, data in stripe.streams)
    assert streams != stripe.streams
    file.write_bytes(put_together(replace(parts, stripes=(replace(stripe, streams=streams),))))
    result = acidctl("compact", "major", "--assume-committed", "--engine", "local", str(table))
    assert result.code == ExitCode.DAMAGED, result
    assert "other values in column 'ts'" in result.stdout
