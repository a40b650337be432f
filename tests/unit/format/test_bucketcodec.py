"""The bucket codec against its vectors and its own inverse."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acidctl.format.bucket_codec import BucketCodecError, bits, decode, encode
from tests.support.vectors import load

VECTORS = load("bucket-codec")
# What the message says where Hive has a name for what is wrong.
FAULTS = {
    "BAD_VALUE": "32 bits",
    "BAD_VERSION": "codec version",
    "BAD_BUCKET_ID": "bucket id",
    "BAD_STATEMENT_ID": "statement id",
    "BAD_MAX_STATEMENT_ID": "largest statement id",
}


@pytest.mark.parametrize("case", VECTORS, ids=[case["name"] for case in VECTORS])
def test_vector(case: dict[str, Any]) -> None:
    """Every vector decodes, encodes or is refused as Hive's BucketCodec does."""
    expect = case["expect"]
    if expect["error"]:
        with pytest.raises(BucketCodecError) as caught:
            _run(case)
        assert FAULTS[expect["error"]] in caught.value.message
    else:
        assert _run(case) == {key: value for key, value in expect.items() if key not in ("error", "hex")}


def _run(case: dict[str, Any]) -> dict[str, Any]:
    if case["op"] == "decode":
        found = decode(case["value"])
        return {"version": found.version, "writer_id": found.bucket_id, "statement_id": found.statement_id}
    value = encode(
        case["bucket"],
        case["statement_id"],
        version=case["version"],
        max_statement_id=case["max_statement_id"],
    )
    return {"value": value}


def test_there_are_59_vectors() -> None:
    """No vector is lost on the way."""
    assert len(VECTORS) == 59


@given(st.integers(0, 4095), st.integers(0, 4095))
def test_decode_undoes_encode(bucket_id: int, statement_id: int) -> None:
    """Within 12 bits each, bucket id and statement id come back."""
    found = decode(encode(bucket_id, statement_id))
    assert (found.version, found.bucket_id, found.statement_id) == (1, bucket_id, statement_id)


@given(st.integers(-(1 << 31), (1 << 31) - 1))
def test_every_value_decodes_or_is_refused_by_version(value: int) -> None:
    """A 32-bit value is either decoded or refused for its version, whose bits the message shows."""
    version = (value & 0xFFFFFFFF) >> 29
    if version < 2:
        assert decode(value).version == version
    else:
        with pytest.raises(BucketCodecError, match=f"version {version}"):
            decode(value)


@pytest.mark.parametrize("value", [1 << 32, -(1 << 31) - 1, 10**30])
def test_more_than_32_bits_are_refused(value: int) -> None:
    """A number that no 32-bit field can hold is refused as such."""
    with pytest.raises(BucketCodecError, match="32 bits"):
        decode(value)


def test_overflow_must_not_share_bits_with_the_statement() -> None:
    """A statement id above the stated largest one is refused where the overflow would overwrite it."""
    with pytest.raises(BucketCodecError, match=r"^statement id 101"):
        encode(5000, 101, max_statement_id=1)


def test_bits_are_grouped_as_version_1_reads_them() -> None:
    """536936449 is version 1, bucket 1, statement 1, and the eye can see it."""
    assert bits(536936449) == "001 0 000000000001 0000 000000000001"
