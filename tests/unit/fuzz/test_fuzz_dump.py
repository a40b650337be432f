"""Damaged files under `dump`: whatever the bytes, an answer or one of our errors."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from acidctl.errors import AcidctlError, ExitCode
from acidctl.rows.file_report import data_files
from tests import ROOT
from tests.cli.runner import acidctl
from tests.support.extent import amount

pytestmark = pytest.mark.slow

SAMPLES = [
    path.read_bytes()
    for path in (
        ROOT / "fixtures/tables/hive4/demo_orders/03-demo/table/delta_0000005_0000005_0000/bucket_00001_0",
        ROOT / "fixtures/tables/hive3/streaming/02-aborted-and-open/table/delta_0000002_0000006/bucket_00000",
    )
]


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """A real file with a few bytes changed, most of them in the second half, where the tail is; perhaps cut."""
    content = bytearray(draw(st.sampled_from(SAMPLES)))
    for _ in range(draw(st.integers(1, 4))):
        place = draw(st.integers(0, len(content) // 2) if draw(st.booleans()) else st.integers(1, len(content) // 2))
        content[-place - 1] = draw(st.integers(0, 255))
    cut = draw(st.none() | st.integers(0, len(content)))
    return bytes(content if cut is None else content[:cut])


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the damaged file lies."""
    return tmp_path_factory.mktemp("fuzz") / "bucket_00000"


@settings(
    max_examples=amount(400, swept=400), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(content=damaged())
def test_reports_of_damaged_files(path: Path, content: bytes) -> None:
    """The whole report with all row indexes, or one of our errors."""
    path.write_bytes(content)
    code = ExitCode.DONE
    try:
        data_files(str(path), {})[0].report(row_index="*", time_zone=True)
    except AcidctlError as error:
        code = error.exit_code
    assert code in (ExitCode.DONE, ExitCode.DAMAGED)


@settings(
    max_examples=amount(200, swept=200), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(content=damaged())
def test_text_and_rows_of_damaged_files(path: Path, content: bytes) -> None:
    """Every form ends with an exit code of ours and without a traceback."""
    path.write_bytes(content)
    for options in (["-r", "*"], ["-d"], ["--events"], ["-d", "-o", "csv"]):
        result = acidctl("dump", *options, str(path), width=80)
        assert result.code in (ExitCode.DONE, ExitCode.FINDINGS, ExitCode.NOT_ACID, ExitCode.DAMAGED)
        assert "unexpected" not in result.stderr
