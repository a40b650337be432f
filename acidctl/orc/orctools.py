"""Rows exactly as `orc-tools data` 2.1.2 prints them on Java 17 in UTC, so that `dump --data` can stand in for it.

What differs from our own JSON: floating-point numbers take Java's form and a float is widened to a double
first, NaN and infinities are bare words, decimals lose trailing zeros, timestamps always have a fraction,
dates and timestamps are those of `java.sql` (hybrid calendar, no years before 1), and of a union only the
value is shown. Source: `PrintData` of orc-tools, and the Gson `JsonWriter` (not HTML-safe) and Hive writables
that it uses.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from acidctl import javatext, leaves
from acidctl.leaves import Damage
from acidctl.schema import HiveType
from acidctl.values import Style, lines

#: What `orc-tools` prints after the rows of a file: a rule and an empty line.
SEPARATOR = b"_" * 120 + b"\n\n"


def data_lines(
    columns: Sequence[pa.Array],
    names: Sequence[str],
    types: Sequence[HiveType],
    *,
    damage: Damage | None = None,
) -> pa.Buffer:
    """The rows of a batch of whatever the file's top-level columns are."""
    return lines(columns, names, types, ORC_TOOLS_STYLE, damage or Damage())


def _floats(array: pa.Array) -> pa.Array:
    return javatext.doubles(pc.cast(array, pa.float64()))


def _decimals(array: pa.Array) -> pa.Array:
    text = leaves.decimals(array)
    return text if array.type.scale == 0 else pc.ascii_rtrim(pc.ascii_rtrim(text, "0"), ".")


def _timestamps(array: pa.Array, local: bool) -> pa.Array:
    return pc.replace_substring_regex(leaves.timestamps(array, False), r"^([^.]*)$", r"\1.0")


ORC_TOOLS_STYLE = Style(
    floats=_floats,
    decimals=_decimals,
    dates=leaves.dates,
    timestamps=_timestamps,
    decode=leaves.plain_decode,
    tagged_unions=False,
)
