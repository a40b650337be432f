"""Files that were put together of verified stripes: these stripes, in this order, under a tail that fits them."""

from __future__ import annotations

import io
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest

from acidctl.compaction.verify import verify_file, verify_joined
from acidctl.errors import VerificationError
from acidctl.format.events import EventBatch
from acidctl.format.names import RowId
from acidctl.orc.acidmeta import parse_key_index
from acidctl.orc.reader import open_orc
from tests.unit.compaction.test_verify import NAME, ROWS, Case, changed_tail, make, some_keys


@pytest.fixture(scope="module")
def case() -> Case:
    """Several stripes without a checksum, in which bytes can be found."""
    events = EventBatch(some_keys(ROWS), (pa.array(np.arange(ROWS) * 7919 % ROWS),))
    return make(events, "struct<id:bigint>", metadata={"acidctl.target": b"hive4"})


def _index(data: bytes) -> bytes:
    index = open_orc(io.BytesIO(data), name=NAME).tail.metadata_value("hive.acid.key.index")
    assert index is not None
    return index


def _fingerprints(case: Case) -> Sequence[str]:
    found = verify_file(lambda: io.BytesIO(case.data), NAME, case.expected, fingerprints=True)
    assert len(found) > 2
    return found


def _check(case: Case, data: bytes | None = None, fingerprints: Sequence[str] | None = None) -> None:
    """As after joining: the fingerprints are those of the parts, the ends those of their key indexes."""
    content = case.data if data is None else data
    ends = [key for key in parse_key_index(_index(case.data)) if isinstance(key, RowId)]
    known = _fingerprints(case) if fingerprints is None else fingerprints
    verify_joined(lambda: io.BytesIO(content), NAME, case.expected, known, ends)


def test_a_right_file_passes(case: Case) -> None:
    """Nothing of it is decoded."""
    _check(case)


def test_other_stripes_are_refused(case: Case) -> None:
    """A changed byte in the data of any, another order, one too few."""
    tail = open_orc(io.BytesIO(case.data), name=NAME).tail
    for stripe in tail.stripes:
        data = bytearray(case.data)
        data[stripe.offset + stripe.index_length + stripe.data_length // 2] ^= 1
        with pytest.raises(VerificationError, match="its stripes are not those that it was put together of"):
            _check(case, bytes(data))
    found = list(_fingerprints(case))
    for other in (found[::-1], found[1:], [*found, found[-1]]):
        with pytest.raises(VerificationError, match="its stripes are not those"):
            _check(case, fingerprints=other)


def test_the_key_index_is_spelled_as_hive_spells_it(case: Case) -> None:
    """Old readers split the text themselves; the same numbers in other characters are no index for them."""
    index = _index(case.data)
    other = b"0" + index[:-1]
    assert parse_key_index(other) == parse_key_index(index)
    data = changed_tail(case.data, index, other)
    for check in (_check, Case.check):
        with pytest.raises(VerificationError, match="is not spelled as Hive spells it"):
            check(case, data)
