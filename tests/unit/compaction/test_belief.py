"""Stripes are copied only as far as what is said of them may be believed; nothing is published that cannot be read."""

from __future__ import annotations

import io
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

import acidctl
from acidctl.compaction import stripes
from acidctl.compaction.cross_check import InputSample
from acidctl.compaction.report import PartitionReport
from acidctl.compaction.stripes import CopiedStripe
from acidctl.errors import ExitCode
from acidctl.orc.protobuf import encoded
from acidctl.orc.stripe import StreamKind
from acidctl.types.schema import parse_schema
from tests.cli.runner import acidctl as command
from tests.support import copied_lies
from tests.support.copied_lies import (
    BASE,
    DDL,
    LATER,
    STRIPE_ROWS,
    digest_of,
    judged,
    with_file,
    with_statistics,
    write_mixed,
)
from tests.support.extent import amount
from tests.support.orc_events import EventBatch, keys, written
from tests.support.orc_mutations import Parts, put_together, taken_apart

FILE = f"{BASE}/bucket_00000"
GIVEN: dict[str, Any] = {"assume_committed": True, "schema": DDL}
# Columns of the files: keys, the row, its first columns.
CURRENT, ROW_ID, ID, NUM, NAME, MOMENT, AMOUNT = 5, 4, 7, 8, 10, 14, 15


@pytest.fixture(autouse=True)
def _every_size_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """No stripe is too small to be copied."""
    monkeypatch.setattr(stripes, "SMALL_SHARE", 1 << 40)


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table of which six of seven stripes are copied."""
    return copied_lies.table(tmp_path_factory.mktemp("sound"))


def parts_of(table: Path, name: str = FILE) -> Parts:
    """A file of it, taken apart."""
    return taken_apart((table / name).read_bytes())


def compacted(table: Path, **options: Any) -> PartitionReport:
    """The report of the one partition."""
    (part,) = acidctl.open_table(str(table)).compact("major", **GIVEN, **options).partitions
    return part


def changed_stream(parts: Parts, stripe: int, column: int, change: Callable[[bytes], bytes]) -> bytes:
    """The file with other bytes in the DATA of a column of a stripe."""
    one = parts.stripes[stripe]
    streams = tuple(
        (kind, of, change(plain) if (kind, of) == (StreamKind.DATA, column) else plain)
        for kind, of, plain in one.streams
    )
    assert streams != one.streams
    return put_together(
        replace(parts, stripes=(*parts.stripes[:stripe], replace(one, streams=streams), *parts.stripes[stripe + 1 :]))
    )


# --- Statistics.


@pytest.mark.parametrize(
    ("levels", "column", "field", "anew"),
    [
        # Within the bounds of the file only row groups tell; beyond them the stripes do not add up to the file.
        (("stripe",), ID, 2, 1),
        (("stripe",), CURRENT, 2, 5),
        (("stripe",), NAME, 1, 1),
        (("stripe",), MOMENT, 4, 1),
        (("stripe",), AMOUNT, 3, 5),
        (("stripe",), ID, "count", 5),
        (("groups",), ID, 2, 1),
        (("groups",), NAME, 3, 1),
        (("groups",), MOMENT, 4, 1),
        (("groups",), AMOUNT, 3, 1),
    ],
)
def test_a_stripe_that_lies_is_written_anew(
    levels: tuple[str, ...], column: int, field: int | str, anew: int, sound: Path, tmp_path: Path
) -> None:
    """The same rows come out, with statistics that are right."""
    how = -1000 if field in (1, 3) else 1000
    data = with_statistics(parts_of(sound), levels, column, field, how, stripe=1, group=2)
    table = with_file(sound, tmp_path / "t", FILE, data)
    part = compacted(table)
    assert part.stripes_encoded is not None, part
    assert part.stripes_encoded["statistics"] == anew
    assert digest_of(table) == digest_of(sound)
    # Now all of it agrees, and the next compaction copies what this one has written.
    assert compacted(with_later(table)).stripes_encoded == {}


@pytest.mark.parametrize("levels", [("stripe", "file"), ("stripe", "file", "groups")])
def test_what_readers_refuse_is_refused(levels: tuple[str, ...], sound: Path, tmp_path: Path) -> None:
    """The file says of all its rows what its values are not; what is above the stripes may agree with them."""
    data = with_statistics(parts_of(sound), levels, ID, 2, 1 << 40, stripe=1, group=2)
    table = with_file(sound, tmp_path / "t", FILE, data)
    assert digest_of(table) == "damaged"
    part = compacted(table)
    assert (part.outcome.value, part.exit_code) == ("failed", ExitCode.DAMAGED)
    assert not (table / "base_0000003").exists()


def with_later(table: Path) -> Path:
    """The table with another delta, so that there is something to compact."""
    shutil.copytree(table / LATER, table / "delta_0000004_0000004_0000")
    place = table / "delta_0000004_0000004_0000" / "bucket_00000"
    copied_lies.write_rows(place, 4, range(STRIPE_ROWS))
    return table


def test_stripes_have_to_add_up_to_their_file(sound: Path, tmp_path: Path) -> None:
    """Of a file that says something else than its stripes nothing is copied; readers do not look at times."""
    table = with_file(sound, tmp_path / "t", FILE, with_statistics(parts_of(sound), ("file",), MOMENT, 4, 1 << 40))
    assert digest_of(table) == digest_of(sound)
    part = compacted(table)
    assert part.stripes_encoded == {"statistics": 5}
    assert part.stripes_copied == 2
    assert digest_of(table) == digest_of(sound)


def test_values_of_stripes_have_to_add_up_to_their_file(sound: Path, tmp_path: Path) -> None:
    """A value that is decoded because its stripe is written anew: whoever reads all of the file refuses it."""
    data = changed_stream(parts_of(sound), 2, NUM, lambda plain: plain[:40] + bytes([plain[40] ^ 4]) + plain[41:])
    table = with_file(sound, tmp_path / "t", FILE, data)
    assert digest_of(table) == "damaged"
    part = compacted(table)
    assert (part.outcome.value, part.exit_code) == ("failed", ExitCode.DAMAGED), part
    assert "contradicts itself" in part.reason


def test_keys_are_held_against_their_statistics(sound: Path, tmp_path: Path) -> None:
    """Bounds of row numbers that are too wide, as stripe and row groups say in agreement."""
    data = with_statistics(parts_of(sound), ("stripe", "groups"), ROW_ID, 1, -7, stripe=1)
    table = with_file(sound, tmp_path / "t", FILE, data)
    assert digest_of(table) == digest_of(sound)
    part = compacted(table)
    assert part.stripes_encoded == {"deleted": 1, "statistics": 1}
    assert digest_of(table) == digest_of(sound)


def test_the_sound_table_is_copied(sound: Path, tmp_path: Path) -> None:
    """With several row groups in a stripe; and once more, when acidctl has put it together."""
    table = Path(shutil.copytree(sound, tmp_path / "t"))
    part = compacted(table)
    assert (part.stripes_copied, part.stripes_encoded) == (6, {"deleted": 1})
    assert compacted(with_later(table)).stripes_encoded == {}


@pytest.mark.parametrize("kind", ["major", "minor"])
def test_all_ways_to_copy(kind: str, sound: Path, tmp_path: Path) -> None:
    """A delta with a stripe that lies, in a minor compaction, and in one whose bucket is divided."""
    data = with_statistics(parts_of(sound, f"{LATER}/bucket_00000"), ("stripe",), ID, 1, 100, stripe=1)
    table = with_file(sound, tmp_path / "t", f"{LATER}/bucket_00000", data)
    with_later(table)
    before = digest_of(table)
    more = {"assume_exclusive": True} if kind == "minor" else {"split_bytes": 1}
    (part,) = acidctl.open_table(str(table)).compact(kind, **GIVEN, **more).partitions
    assert part.outcome.value == "compacted", part
    assert part.stripes_encoded is not None
    assert part.stripes_encoded["statistics"] == 1
    assert part.stripes_copied
    assert digest_of(table) == before


# --- Damage, and what is decoded.


def spoiled(parts: Parts, how: str) -> bytes:
    """A file with a stripe that nothing touches and that cannot be read."""
    if how == "emptied":
        return changed_stream(parts, 1, NAME, lambda plain: b"")
    if how == "another's":
        other = next(plain for kind, of, plain in parts.stripes[0].streams if (kind, of) == (StreamKind.DATA, AMOUNT))
        return changed_stream(parts, 4, AMOUNT, lambda plain: other)
    return changed_stream(parts, 1, ID, lambda plain: plain[:-9])


@pytest.mark.parametrize("how", ["emptied", "cut short", "another's"])
@pytest.mark.parametrize("many", [False, True])
def test_what_cannot_be_read_is_not_published(
    how: str, many: bool, sound: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a small table all is decoded before; of a large one where that is asked for."""
    if many:
        monkeypatch.setattr(stripes, "MOST_DECODED", 0)
    table = with_file(sound, tmp_path / "t", FILE, spoiled(parts_of(sound), how))
    assert digest_of(table) == "damaged"
    part = compacted(table, decode_copied=many)
    assert (part.outcome.value, part.exit_code) == ("failed", ExitCode.DAMAGED), part
    assert sorted(path.name for path in table.iterdir()) == sorted(path.name for path in sound.iterdir())


@pytest.mark.parametrize("by_kernel", [False, True])
def test_chunks_have_to_fill_their_streams(
    by_kernel: bool, sound: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The header of a compressed chunk says more bytes than there are; nothing of that stripe is decoded."""
    monkeypatch.setattr(stripes, "MOST_DECODED", 0)
    monkeypatch.setattr("acidctl.storage.local.TAKEN_BYTES", 0 if by_kernel else 1 << 40)
    data = bytearray((sound / FILE).read_bytes())
    orc = acidctl_file(bytes(data))
    stream = orc.stripe_footers()[1].stream(StreamKind.DATA, NAME)
    assert stream is not None
    data[stream.offset + 1] ^= 0x40
    part = compacted(with_file(sound, tmp_path / "t", FILE, bytes(data)))
    assert (part.outcome.value, part.exit_code) == ("failed", ExitCode.DAMAGED), part
    assert f"{FILE} has a damaged stripe 1" in part.reason
    assert f"DATA of column {NAME}" in part.reason


def acidctl_file(data: bytes) -> Any:
    """An open file."""
    from acidctl.orc.reader import open_orc

    return open_orc(io.BytesIO(data), name="f")


def test_the_report_says_what_was_decoded(sound: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of how many rows that were copied the values are not known, as figures and in the text."""
    rows = 4 * STRIPE_ROWS + 2 * STRIPE_ROWS - 300
    for decoded, options, left, said in (
        (1 << 40, (), 0, "all decoded before"),
        (0, (), rows, f"{rows:,} of them not decoded"),
        (STRIPE_ROWS * 18, (), rows - STRIPE_ROWS, f"{rows - STRIPE_ROWS:,} of them not decoded"),
        (0, ("--decode-copied",), 0, "all decoded before"),
    ):
        monkeypatch.setattr(stripes, "MOST_DECODED", decoded)
        place = tmp_path / f"t{decoded}{len(options)}"
        given = ("compact", "major", str(shutil.copytree(sound, place)), "--assume-committed", "--schema", DDL)
        text = " ".join(command(*given, *options).stdout.split())
        assert f"copied rows: {rows:,} rows, {said}" in text
        shutil.rmtree(place)
        shutil.copytree(sound, place)
        (part,) = command(*given, *options, "-o", "json").json()["partitions"]
        verified = part["verified"]
        assert (verified["rows_by_copy"], verified["rows_not_decoded"]) == (rows, left)


def insert_only(table: Path) -> Path:
    """Two files of rows."""
    for write_id in (1, 2):
        batch = EventBatch(keys(3000), (pa.array(range(3000), pa.int32()),))
        place = table / f"delta_{write_id:07}_{write_id:07}_0000"
        place.mkdir(parents=True)
        (place / "000000_0").write_bytes(
            written([batch], parse_schema("a int").columns, acid=False, row_index_stride=1000)[0]
        )
    return table


ROWS: dict[str, Any] = {
    "table_type": "insert-only",
    "assume_committed": True,
    "schema": "CREATE TABLE t (a int) STORED AS ORC TBLPROPERTIES ('orc.row.index.stride'='1000')",
}


@pytest.mark.parametrize("level", ["stripe", "groups", "file"])
def test_a_file_of_rows_that_lies_is_written_anew(level: str, tmp_path: Path) -> None:
    """Of an insert-only table; where the file lies about all of its rows it cannot be read at all."""
    table = insert_only(tmp_path / "t")
    name = table / "delta_0000001_0000001_0000" / "000000_0"
    name.write_bytes(with_statistics(taken_apart(name.read_bytes()), (level,), 1, 2, 1 << 40))
    (part,) = acidctl.open_table(str(table)).compact("major", **ROWS).partitions
    if level == "file":
        assert (part.outcome.value, part.exit_code) == ("failed", ExitCode.DAMAGED)
        return
    assert (part.stripes_copied, part.stripes_encoded) == (1, {"statistics": 1})
    assert part.verified is not None
    assert part.verified.rows_not_decoded == 0
    assert acidctl.open_table(str(table)).snapshot(table_type="insert-only").count() == 6000


def test_a_damaged_file_of_rows_is_not_published(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Small ones are decoded, large ones where that is asked for."""
    table = insert_only(tmp_path / "t")
    name = table / "delta_0000001_0000001_0000" / "000000_0"
    name.write_bytes(changed_stream(taken_apart(name.read_bytes()), 0, 1, lambda plain: plain[:-5]))
    for decoded, asked in ((1 << 18, False), (0, True)):
        monkeypatch.setattr(stripes, "MOST_DECODED", decoded)
        (part,) = acidctl.open_table(str(table)).compact("major", **ROWS, decode_copied=asked).partitions
        assert (part.outcome.value, part.exit_code) == ("failed", ExitCode.DAMAGED), part


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda one: replace(one, last=one.first), "does not end with its last key"),
        (lambda one: replace(one, last=replace(one.last, row_id=one.last.row_id - 1)), "does not end with"),
        (lambda one: replace(one, statistics=encoded({1: [b""] * 18})), "are not those of its row groups"),
    ],
)
def test_what_goes_with_a_stripe_is_its_own(
    change: Callable[[CopiedStripe], CopiedStripe],
    why: str,
    sound: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A last key that is not the last, and other statistics, would stand in the key index and in the tail."""
    made: list[CopiedStripe] = []

    def spoilt(*given: Any) -> CopiedStripe:
        made.append(CopiedStripe(*given))
        return change(made[-1]) if len(made) == 2 else made[-1]

    monkeypatch.setattr(stripes, "CopiedStripe", spoilt)
    part = compacted(Path(shutil.copytree(sound, tmp_path / "t")))
    assert (part.outcome.value, part.reason_code, part.exit_code) == ("failed", "verification_failed", 13), part
    assert why in part.reason


def test_the_last_key_of_a_stripe_of_several_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its last row group tells which it is."""
    write_mixed(tmp_path / "t" / "delta_0000003_0000005" / "bucket_00000", (3, 1700), (4, 500))
    write_mixed(tmp_path / "t" / "delta_0000006_0000006_0000" / "bucket_00000", (6, 1500))
    whole = digest_of(Path(shutil.copytree(tmp_path / "t", tmp_path / "u")))
    assert compacted(tmp_path / "u").stripes_copied == 2
    assert digest_of(tmp_path / "u") == whole

    def spoilt(*given: Any) -> CopiedStripe:
        one = CopiedStripe(*given)
        assert one.last is not None
        return replace(one, last=replace(one.last, row_id=one.last.row_id - 1))

    monkeypatch.setattr(stripes, "CopiedStripe", spoilt)
    part = compacted(tmp_path / "t")
    assert part.reason_code == "verification_failed"
    assert "does not end with its last key" in part.reason


# --- What the second library reads.


def test_samples_are_of_what_is_written_anew(sound: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The stripe with deleted rows, and a file beside those of which stripes are copied."""
    table = Path(shutil.copytree(sound, tmp_path / "t"))
    copied_lies.write_rows(table / "delta_0000004_0000004_0000" / "bucket_00000", 4, range(80))
    seen: list[tuple[str, int]] = []
    read = InputSample.read

    def noted(self: InputSample, *given: Any) -> None:
        read(self, *given)
        seen.extend((Path(window.name).parent.name, window.stripe) for window in self._windows)

    monkeypatch.setattr(InputSample, "read", noted)
    # So that just the small file is small.
    monkeypatch.setattr(stripes, "SMALL_SHARE", 512)
    part = compacted(table)
    assert part.stripes_copied
    inserts = {place for place in seen if not place[0].startswith("delete")}
    assert (BASE, 2) in inserts
    assert inserts - {(BASE, 2)} == {("delta_0000004_0000004_0000", 0)}


# --- Many.


@pytest.mark.slow
def test_many_lies(sound: Path, tmp_path: Path) -> None:
    """Refused, or the same rows, and what is published can be read: in many more kinds than anyone thinks of."""
    before, rng = digest_of(sound), Random(3200)
    told = {name: copied_lies.lies((sound / name / "bucket_00000").read_bytes(), rng) for name in (BASE, LATER)}
    copied = 0
    for number in range(amount(24, swept=700)):
        name = LATER if number % 4 == 3 else BASE
        said, data = next(told[name])
        found = judged(with_file(sound, tmp_path / "t", f"{name}/bucket_00000", data), before)
        assert found.kind in ("refused", "published"), (number, name, said, found)
        copied += found.copied > 0
    assert copied >= amount(6, swept=300)
