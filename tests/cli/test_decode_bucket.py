"""`acidctl decode-bucket`."""

from __future__ import annotations

import pytest

from tests.cli.runner import acidctl

NUMBER = {
    "type": "decode_bucket",
    "schema_version": 1,
    "value": 536936449,
    "hex": "0x20010001",
    "version": 1,
    "bucket_id": 1,
    "statement_id": 1,
}


@pytest.mark.parametrize("value", ["536936449", "0x20010001", "+536936449", "0X20010001"])
def test_a_number_in_any_notation(value: str) -> None:
    """Decimal and hexadecimal are the same number."""
    result = acidctl("decode-bucket", "-o", "jsonl", value)
    assert (result.code, result.json_lines()) == (0, [NUMBER])


def test_text_shows_value_bits_and_meaning() -> None:
    """The bits are grouped as the codec reads them."""
    line = acidctl("decode-bucket", "536936449").stdout.splitlines()[1]
    assert "0x20010001" in line
    assert "001 0 000000000001 0000 000000000001" in line
    assert "bucket 1, statement 1" in line


def test_refused_values_are_reported_and_the_others_answered() -> None:
    """Negative numbers need no `--`; the exit code says that one was refused."""
    result = acidctl("decode-bucket", "-1", "3", "0x40000000", "-o", "jsonl")
    assert result.code == 1
    assert [answer["value"] for answer in result.json_lines()] == [3]
    assert result.stderr.count('"bucket_codec"') == 2
    assert "111 1 111111111111 1111 111111111111" in result.stderr


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("bucket_00003", {"kind": "bucket", "bucket_id": 3, "attempt_id": None}),
        ("bucket_00003_1", {"kind": "bucket", "bucket_id": 3, "attempt_id": 1}),
        ("000012_0_copy_3", {"kind": "original", "bucket_id": 12, "attempt_id": 0, "copy_number": 3}),
        ("bucket_00000_flush_length", {"kind": "side_file", "data_file": "bucket_00000"}),
        ("_orc_acid_version", {"kind": "marker"}),
        (
            "base_0000005_v0000010",
            {
                "kind": "base",
                "min_write_id": None,
                "max_write_id": 5,
                "statement_id": None,
                "visibility_txn_id": 10,
            },
        ),
        (
            "delete_delta_0000002_0000004_0001",
            {
                "kind": "delete_delta",
                "min_write_id": 2,
                "max_write_id": 4,
                "statement_id": 1,
                "visibility_txn_id": None,
            },
        ),
    ],
)
def test_names_say_what_they_mean(name: str, fields: dict[str, object]) -> None:
    """File and directory names, with the field names of `ls`."""
    answer = acidctl("decode-bucket", name, "-o", "json").json()["values"][0]
    assert answer == {"name": name, **fields}


@pytest.mark.parametrize("name", ["base_x", "delta_5", "foo", "bucket_3x", "9" * 500, "a\nb"])
def test_names_that_are_not_understood_are_refused(name: str) -> None:
    """One sentence on stderr, nothing on stdout, exit code 1."""
    result = acidctl("decode-bucket", name)
    assert (result.code, result.stdout) == (1, "")
    assert result.stderr.startswith("error: ")
    assert len(result.stderr.splitlines()) == 1


def test_encoding_goes_the_other_way() -> None:
    """The number of a bucket and a statement, and what does not fit."""
    assert acidctl("decode-bucket", "--encode", "--bucket", "1", "--statement", "1", "-o", "jsonl").json_lines() == [
        NUMBER
    ]
    assert acidctl("decode-bucket", "--encode", "--bucket", "4096").code == 1
    assert acidctl("decode-bucket", "--encode", "--bucket", "-1").code == 1
    version0 = acidctl("decode-bucket", "--encode", "--bucket", "7", "--codec-version", "0", "-o", "csv")
    assert version0.csv()[1][:5] == ["7", "0x00000007", "0", "7", "0"]


def test_a_large_bucket_id_is_said_to_be_lossy() -> None:
    """Above 4095 the decoded numbers are others, and Hive names files after those."""
    result = acidctl("decode-bucket", "--encode", "--bucket", "5000", "--statement", "12", "--max-statement", "100")
    assert result.code == 0
    assert "bucket 904, statement 140" in result.stdout
    assert "does not decode back" in result.stderr


@pytest.mark.parametrize(
    "args",
    [
        [],
        ["--encode"],
        ["--bucket", "3"],
        ["--encode", "--bucket", "1", "5"],
        ["--nosuch"],
        ["--bucket", "x", "--encode"],
    ],
)
def test_wrong_usage(args: list[str]) -> None:
    """Exit code 2 and one sentence."""
    result = acidctl("decode-bucket", *args)
    assert (result.code, result.stdout) == (2, "")
    assert result.stderr.startswith("error: ")
