"""Sizes, durations, fractions and lists of names as people write them: `20G`, `90m`, `10%`, `a,b`."""

from __future__ import annotations

import csv
import re

import click

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?", re.IGNORECASE)
_UNITS = {"": 0, "k": 10, "m": 20, "g": 30, "t": 40}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*([smhdw])", re.IGNORECASE)
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}
# What a 64-bit number of bytes holds; and a hundred years, which every timer takes.
_LARGEST_SIZE, _LARGEST_SIZE_TEXT = 8388607 << 40, "8388607T"
_LONGEST, _LONGEST_TEXT = 36500 * 86400, "36500d"
_FRACTION = re.compile(r"(\d+(?:\.\d+)?|\.\d+)\s*(%?)")


def size(ctx: click.Context, param: click.Parameter, value: str | None) -> int | None:
    """Bytes: a number, or one with K, M, G or T behind it (powers of 1024)."""
    if value is None:
        return None
    found = _SIZE.fullmatch(value.strip())
    if found is None or float(found[1]) <= 0:
        raise click.BadParameter(f"{value!r} is no size; write it as 512M or 20G", ctx, param)
    amount = float(found[1]) * (1 << _UNITS[found[2].lower()])
    if amount > _LARGEST_SIZE:
        raise click.BadParameter(f"{_short(value)} is too large: a size is at most {_LARGEST_SIZE_TEXT}", ctx, param)
    return int(amount)


def parse_duration(text: str) -> float | None:
    """Seconds of `45s`, `90m`, `24h`, `7d`, `2w`; None for what is no duration, BadParameter for too long a one."""
    found = _DURATION.fullmatch(text.strip())
    if found is None:
        return None
    seconds = float(found[1]) * _SECONDS[found[2].lower()]
    if seconds > _LONGEST:
        # Click knows whose callback this is, and adds the option.
        raise click.BadParameter(f"{_short(text)} is too long: a duration is at most {_LONGEST_TEXT}")
    return seconds


def duration(ctx: click.Context, param: click.Parameter, value: str | None) -> float | None:
    """Seconds of a duration that may not be 0."""
    if value is None:
        return None
    seconds = parse_duration(value)
    if not seconds:
        raise click.BadParameter(f"{value!r} is no duration; write it as 45s, 90m or 2h", ctx, param)
    return seconds


def duration_or_none(ctx: click.Context, param: click.Parameter, value: str) -> float:
    """Seconds of a duration; 0 is one."""
    return 0.0 if value.strip() == "0" or parse_duration(value) == 0 else duration(ctx, param, value) or 0.0


def column_names(ctx: click.Context, param: click.Parameter, value: str | None) -> tuple[str, ...]:
    """Names with commas between; backticks around one that holds a comma."""
    if value is None:
        return ()
    # Backticks as in SQL: a doubled one stands for itself.
    (names,) = csv.reader([value.replace("\n", " ")], quotechar="`", skipinitialspace=True)
    found = tuple(name.strip() for name in names)
    if not found or not all(found):
        raise click.BadParameter(f"{_short(value)} leaves a name empty; write it as a,b", ctx, param)
    return found


def fraction(ctx: click.Context, param: click.Parameter, value: str | None) -> float | None:
    """A fraction: `0.1`, or `10%`."""
    if value is None:
        return None
    found = _FRACTION.fullmatch(value.strip())
    if found is None:
        raise click.BadParameter(f"{value!r} is no fraction; write it as 0.1 or 10%", ctx, param)
    return float(found[1]) / (100 if found[2] else 1)


def _short(value: str) -> str:
    """A value as it is quoted: of hundreds of digits the first few."""
    return repr(value if len(value) <= 40 else f"{value[:40]}...")
