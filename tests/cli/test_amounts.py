"""Sizes and durations as people write them, and how large they may be."""

from __future__ import annotations

import pytest

from acidctl.cli.options import seconds_of, size
from tests.cli.runner import acidctl


def test_amounts_up_to_their_bounds() -> None:
    """Exactly the largest counts still."""
    assert [size(text) for text in ("512M", "1.5k", "8388607T")] == [512 << 20, 1536, 8388607 << 40]
    assert [seconds_of(text) for text in ("90m", "36500d")] == [5400, 36500 * 86400]
    with pytest.raises(ValueError, match="'soon' is not a duration"):
        seconds_of("soon")


@pytest.mark.parametrize("value", ["8388608T", "9" * 30, "9" * 400, "9" * 400 + "T", "9" * 5000])
@pytest.mark.parametrize("option", ["--max-bytes", "--memory"])
def test_a_size_has_a_bound(option: str, value: str) -> None:
    """One sentence that names it, short for any value."""
    result = acidctl("compact", "major", "/no/such/table", "--assume-committed", "-n", option, value)
    assert (result.code, result.stdout) == (2, "")
    assert option in result.stderr
    assert "a size is at most 8388607T" in result.stderr
    assert len(result.stderr) < 300


@pytest.mark.parametrize("value", ["36501d", "99999999999w", "9" * 400 + "w", "9" * 5000 + "s"])
@pytest.mark.parametrize(
    ("command", "option"),
    [
        (("compact", "major"), "--max-runtime"),
        (("compact", "major"), "--grace"),
        (("clean",), "--max-runtime"),
        (("clean",), "--older-than"),
    ],
)
def test_a_duration_has_a_bound(command: tuple[str, ...], option: str, value: str) -> None:
    """No timer takes more, and no retention needs it."""
    result = acidctl(*command, "/no/such/table", option, value)
    assert (result.code, result.stdout) == (2, "")
    assert option in result.stderr
    assert "a duration is at most 36500d" in result.stderr
    assert len(result.stderr) < 300
