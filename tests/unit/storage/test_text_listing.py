"""Listings that somebody made elsewhere, as text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acidctl.errors import AcidctlError, UsageError
from acidctl.rows.table_view import read, report
from acidctl.storage.locations import locate, parse_listing

LINE = st.one_of(
    st.text(alphabet=st.characters(codec="utf-8"), max_size=40),
    st.from_regex(r"(/w/t/)?(ds=[a-z]{1,2}/)?(base|delta|delete_delta)_[0-9]{1,8}(_[0-9]{1,8})?(/bucket_0000[0-9])?/?"),
    st.from_regex(
        r"[d-]rwxr-xr-x   [-3] hive hadoop [0-9]{1,9} 2026-[01][0-9]-[0-3][0-9] 10:00 /w/t/[a-z_=0-9/ ]{1,20}"
    ),
)


def test_directories_are_told_by_slash_prefix_or_equals() -> None:
    """Everything else is a file; parents appear by themselves."""
    found = parse_listing("delta_1_1\nds=1\nsub/\n000000_0\nds=2/base_5/bucket_00000\n").found
    assert found.directories == ("delta_1_1", "ds=1", "ds=2", "ds=2/base_5", "sub")
    assert [info.path for info in found.files] == ["000000_0", "ds=2/base_5/bucket_00000"]


@pytest.mark.parametrize(
    ("paths", "root"),
    [
        (["/w/t/delta_1_1/bucket_0", "/w/t/delta_2_2/bucket_0"], "/w/t"),
        (["/w/t/delta_1_1/bucket_0"], "/w/t"),
        (["/w/t/ds=1/base_1/bucket_0", "/w/t/ds=2/base_1/bucket_0"], "/w/t"),
        (["/w/t/000000_0", "/w/t/000001_0"], "/w/t"),
        (["hdfs://nn:8020/w/t/base_1/bucket_0"], "/w/t"),
        (["/base_1/bucket_0"], "/"),
        (["/w//t//base_1//bucket_0", "/w/t/000000_0"], "/w/t"),
    ],
)
def test_the_root_is_found_in_absolute_paths(paths: list[str], root: str) -> None:
    """It ends before the first partition or ACID directory."""
    prepared = parse_listing("\n".join(paths))
    assert prepared.root == root
    assert all(not info.path.startswith("/") for info in prepared.found.files)


def test_a_path_outside_the_root_is_refused() -> None:
    """Two tables in one listing would be mixed."""
    with pytest.raises(UsageError, match="does not lie below /w/t"):
        parse_listing("/w/t/base_1/b\n/w/u/base_1/b\n", "/w/t")


@given(st.lists(LINE, max_size=12), st.sampled_from([None, "/w/t", "t"]))
@pytest.mark.slow
def test_any_text_is_a_listing_or_one_of_our_errors(lines: list[str], root: str | None) -> None:
    """Whatever is piped in, every entry gets a state or the user gets a sentence."""
    try:
        prepared = parse_listing("\n".join(lines), root)
        locations = locate(prepared.found, prepared.root)
        answer = report("t", read(locations), long=True, sizes=prepared.sizes)
    except AcidctlError:
        return
    files = sum(entry.files for entry in answer.entries)
    # A slash alone is no name: a listing that a program has written has none such.
    assert files == sum(bool(info.path.strip("/")) for info in prepared.found.files)
