"""A clock that shows the far future or the past before 1970 is named; nothing of it is an internal error."""

from __future__ import annotations

import time

import pytest

from acidctl import open_table
from acidctl.errors import AcidctlError
from tests import ROOT
from tests.cli.runner import acidctl

DEMO = ROOT / "fixtures/tables/hive4/demo_orders/03-demo/table"
LISTS = ("--validtxns", "default.demo_orders:9:9223372036854775807::", "--validtxns", "99:9223372036854775807::")


def test_a_clock_after_2261_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python refuses to tell the time then, and to wait: each command that needs it says so in one sentence."""

    def overflow(*_: object) -> float:
        raise OverflowError("timestamp too large to convert to C _PyTime_t")

    monkeypatch.setattr(time, "time", overflow)
    commands = (
        ("clean", str(DEMO), *LISTS, "--list-format", "hive4"),
        ("clean", str(DEMO), *LISTS, "--list-format", "hive4", "-o", "json"),
        ("ls", str(DEMO)),
    )
    for command in commands:
        result = acidctl(*command)
        assert result.code == 1, result.stderr
        assert "the clock of this machine shows" in result.stderr
        assert "unexpected" not in result.stderr


@pytest.mark.parametrize("now", [-1.0, 253402300800.0, 1e18, float("nan"), float("inf")])
def test_a_time_that_is_no_date_is_refused(now: float) -> None:
    """The library takes the time as an argument."""
    with pytest.raises(AcidctlError, match="the clock of this machine shows a time outside"):
        open_table(str(DEMO)).prepare_clean(validtxns=LISTS[1::2], now=now)
