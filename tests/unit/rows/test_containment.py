"""Keys of one stream looked for in another, however both are cut into batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pytest

from acidctl.errors import DamagedDataError
from acidctl.format.bucket_codec import encode
from acidctl.format.events import EventBatch, EventKeys, Operation, RowId
from acidctl.format.listing import FileInfo
from acidctl.format.names import BaseDir, DeltaDir, parse_directory
from acidctl.format.write_ids import ValidWriteIds
from acidctl.rows.containment import (
    Contained,
    Files,
    contained,
    events_contained,
    is_renumbered,
    missing_key,
    read_whole,
)
from acidctl.rows.source import DataSource, live_sources
from acidctl.state.entries import AcidState, Directory, EntryState, StateEntry, TableType, Verdict
from acidctl.storage.local import LocalStorage
from acidctl.types.schema import parse_schema
from tests.support.orc_events import written

Key = tuple[int, int, int]


def batches(keys: Sequence[Key], random: Random, versions: dict[Key, int] | None = None) -> Iterator[EventBatch]:
    """The keys as batches of any size, some of them empty; `versions` are their current write ids."""
    at = 0
    while at < len(keys) or random.random() < 0.2:
        end = at + random.randint(0, 4)
        columns = np.array(keys[at:end], dtype=np.int64).reshape(-1, 3)
        current = np.array([(versions or {}).get(key, key[0]) for key in keys[at:end]], dtype=np.int64)
        yield EventBatch(EventKeys(columns[:, 0], columns[:, 1], columns[:, 2], current))
        at = end


def some(random: Random, most: int) -> list[Key]:
    """Keys in their order; few different ones, so that runs of one write and gaps are common."""
    return sorted(
        (random.randint(1, 3), random.randint(0, 1), random.randint(0, 6)) for _ in range(random.randint(0, most))
    )


@pytest.mark.parametrize("seed", range(300))
def test_the_first_key_that_is_not_there_is_found(seed: int) -> None:
    """As a set would say; keys may be wanted more than once."""
    random = Random(seed)
    wanted = some(random, 12)
    held = sorted({*some(random, 30), *(wanted if seed % 2 else ())} - {(1, 0, 3)})
    missing = [key for key in wanted if key not in held]
    looked_for, found = missing_key(batches(wanted, random), batches(held, random))
    assert found == (RowId(*missing[0]) if missing else None)
    if not missing:
        assert looked_for == len(wanted)


@pytest.mark.parametrize("seed", range(100))
def test_an_older_version_of_a_row_is_missing(seed: int) -> None:
    """A later one is not."""
    random = Random(seed)
    wanted = sorted({*some(random, 12)})
    held = sorted({*some(random, 12), *wanted})
    versions = {key: random.randint(1, 3) for key in held}
    changes = {key: random.choice([0, 0, 0, 1, 1, -1]) for key in wanted}
    newer = {key: version + changes.get(key, 0) for key, version in versions.items()}
    older = next((key for key in wanted if changes[key] < 0), None)
    found = missing_key(batches(wanted, random, versions), batches(held, random, newer), versions=True)[1]
    assert found == (None if older is None else RowId(*older))
    assert missing_key(batches(wanted, random, versions), batches(held, random, newer))[1] is None


def test_no_more_than_a_batch_of_each_side_is_held() -> None:
    """Few keys, looked for among many: batches are let go as they are passed."""
    alive = 0

    class Counted(EventKeys):
        """Keys that say when they are let go."""

        def __del__(self) -> None:
            nonlocal alive
            alive -= 1

    most = 0

    def held() -> Iterator[EventBatch]:
        nonlocal alive, most
        for start in range(0, 1_000_000, 1000):
            rows = np.arange(start, start + 1000, dtype=np.int64)
            one = np.ones(1000, dtype=np.int64)
            batch = EventBatch(Counted(one, one, rows, one))
            alive += 1
            most = max(most, alive)
            yield batch
            del batch

    wanted = np.array([3, 999_999], dtype=np.int64)
    one = np.ones(2, dtype=np.int64)
    assert missing_key([EventBatch(EventKeys(one, one, wanted, one))], held()) == (2, None)
    assert most <= 4


# --- files


LIST = ValidWriteIds.everything()


def file(root: Path, path: str, rows: Sequence[Key], *, deletes: bool = False) -> DataSource:
    """A file of these keys, as the one file of a directory: write id, bucket number, row number."""
    numbers = np.array(rows, dtype=np.int64).reshape(-1, 3)
    buckets = np.array([encode(bucket) for bucket in numbers[:, 1]], dtype=np.int64)
    operation = np.full(len(numbers), int(Operation.DELETE)) if deletes else None
    keys = EventKeys(numbers[:, 0], buckets, numbers[:, 2], numbers[:, 0] + deletes, operation)
    batch = EventBatch(keys, () if deletes else (pa.array(numbers[:, 2]),))
    place = root / path
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(written([batch], parse_schema("n bigint").columns)[0])
    info = FileInfo(path, place.stat().st_size)
    parsed = parse_directory(path.partition("/")[0])
    assert isinstance(parsed, BaseDir | DeltaDir)
    directory = Directory(path.partition("/")[0], parsed, (info,))
    entry = StateEntry.of(directory, Verdict(EntryState.LIVE, "", ""))
    state = AcidState(None, (entry,), (), (entry,), TableType.FULL)
    (source,) = (one for some in live_sources(LocalStorage(), str(root), state) for one in some)
    return source


def test_rows_of_every_bucket_are_looked_for(tmp_path: Path) -> None:
    """Also where one side has no file of a bucket; they are counted together."""
    wanted = [
        file(tmp_path, "delta_1_1/bucket_00001", [(1, 1, 0), (1, 1, 1)]),
        file(tmp_path, "delta_2_2/bucket_00008", [(2, 8, 0)]),
    ]
    held = [
        file(tmp_path, "base_2/bucket_00001", [(1, 1, 0), (1, 1, 1), (1, 1, 2)]),
        file(tmp_path, "base_2/bucket_00008", [(1, 8, 5), (2, 8, 0)]),
    ]
    assert contained(Files(wanted), Files(held), LIST) == Contained(3)
    missing = RowId(2, encode(8), 0)
    assert contained(Files(wanted), Files(held[:1]), LIST) == Contained(3, missing, wanted[1].name)
    assert contained(Files(wanted), Files([]), LIST).missing == RowId(1, encode(1), 0)
    deletes = [file(tmp_path, "delete_delta_3_3/bucket_00000", [(2, 8, 0)], deletes=True)]
    assert contained(Files(wanted, deletes), Files(held[:1]), LIST) == Contained(2)


def test_files_that_tell_no_bucket_are_compared_with_all_others(tmp_path: Path) -> None:
    """On either side."""
    rows = [(1, 0, 0), (1, 0, 1)]
    named, nameless = file(tmp_path, "delta_1_1/bucket_00000", rows), file(tmp_path, "base_1/bucket_x", rows)
    assert nameless.bucket_id is None
    for one, other in ((named, nameless), (nameless, named)):
        assert contained(Files([one]), Files([other]), LIST) == Contained(2)
    assert not is_renumbered(Files([named]), [nameless], LIST)


def test_a_row_twice(tmp_path: Path) -> None:
    """It may be wanted twice, and deleted twice; a cover that holds it twice is none."""
    once = file(tmp_path, "delta_1_1/bucket_00000", [(1, 0, 0), (1, 0, 1)])
    again = file(tmp_path, "delta_1_2/bucket_00000", [(1, 0, 1), (1, 0, 2)])
    whole = file(tmp_path, "base_2/bucket_00000", [(1, 0, 0), (1, 0, 1), (1, 0, 2)])
    assert contained(Files([once, again]), Files([whole]), LIST) == Contained(4)
    with pytest.raises(DamagedDataError, match="two rows have the ROW__ID 1,536870912,1"):
        contained(Files([once]), Files([once, again]), LIST)
    deletes = [file(tmp_path, f"delete_delta_{n}_{n}/bucket_00000", [(1, 0, 1)], deletes=True) for n in (3, 4)]
    assert events_contained(deletes, deletes, LIST) == Contained(1)
    assert events_contained(deletes[:1], [], LIST) == Contained(1, RowId(1, encode(0), 1), deletes[0].name)


def test_rows_out_of_order(tmp_path: Path) -> None:
    """On either side: what comes later would not be found."""
    odd = file(tmp_path, "delta_1_1/bucket_00000", [(1, 0, 1), (1, 0, 0)])
    whole = file(tmp_path, "base_1/bucket_00000", [(1, 0, 0), (1, 0, 1)])
    for wanted, held in ((odd, whole), (whole, odd)):
        with pytest.raises(DamagedDataError, match="not in the order"):
            contained(Files([wanted]), Files([held]), LIST)


def test_what_a_rebalancing_compaction_numbers(tmp_path: Path) -> None:
    """From 0 on through all buckets; the rows of its inputs are counted once each."""
    inputs = [
        file(tmp_path, "delta_1_1/bucket_00000", [(1, 0, 4), (1, 0, 5)]),
        file(tmp_path, "delta_1_2/bucket_00000", [(1, 0, 5), (2, 0, 0)]),
        file(tmp_path, "base_1/bucket_x", [(2, 0, 1)]),
    ]
    base = [
        file(tmp_path, "base_2/bucket_00001", [(1, 1, 0), (1, 1, 1)]),
        file(tmp_path, "base_2/bucket_00008", [(2, 8, 2)]),
    ]
    assert is_renumbered(Files(inputs[:2]), base, LIST)
    assert is_renumbered(Files(inputs[:1]), base, LIST)
    assert not is_renumbered(Files(inputs), base, LIST)
    assert not is_renumbered(Files(inputs[:2]), base[:1], LIST)
    for rows in ([(2, 8, 3)], [(2, 8, 2), (2, 8, 4)], [(2, 8, 0)]):
        assert not is_renumbered(Files(inputs[:1]), [base[0], file(tmp_path, "base_3/bucket_00008", rows)], LIST)
    assert not is_renumbered(Files([]), [], LIST)


def test_files_are_decoded_whole(tmp_path: Path) -> None:
    """Each row of each; keys alone would not tell of a damaged column."""
    sources = [file(tmp_path, f"delta_{n}_{n}/bucket_00000", [(n, 0, row) for row in range(n)]) for n in (1, 2, 3)]
    assert read_whole(sources) == (6, sum(source.bytes for source in sources))
    assert read_whole([]) == (0, 0)
