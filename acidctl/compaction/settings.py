"""The physical form of outputs: what the options say, else the table's properties, else the files that are there."""

from __future__ import annotations

import math
from collections.abc import Callable

from acidctl.compaction.plan import Target, WriterSettings
from acidctl.errors import UsageError
from acidctl.types.hive_types import StructType
from acidctl.types.schema import TableSchema

CODECS = ("none", "zlib", "snappy", "lz4", "zstd")
# ORC 1.5, which Hive 3 carries, was there before zstd.
_HIVE3_CODECS = ("none", "zlib", "snappy", "lz4")
# A chunk's header has 23 bits for its length; a row group of less than 1000 rows is refused by ORC itself.
_MAX_BLOCK = (1 << 23) - 1
_MAX_STRIPE = 1 << 40
_MIN_STRIDE, _MAX_STRIDE = 1000, 1 << 30
# Writers hold a filter for a whole row group of each column, however few rows there are.
_MAX_BLOOM_BYTES = 64 << 20


def writer_settings(
    asked: str | None, schema: TableSchema | None, found: str, columns: StructType
) -> tuple[WriterSettings, tuple[str, ...]]:
    """Settings and notes; `asked` is the option, `found` the codec of the newest input.

    Raises UsageError for an unknown codec and for properties with which Hive could not write either.
    """
    default = WriterSettings()
    if schema is None:
        codec = _codec(asked, "--compression") if asked is not None else _known(found)
        return WriterSettings(compression=codec), ()
    stated = schema.table_property("orc.compress")
    if asked is not None:
        codec = _codec(asked, "--compression")
    elif stated is not None:
        codec = _codec(stated, "orc.compress")
    else:
        codec = _known(found)
    blooms = [name.strip() for name in (schema.table_property("orc.bloom.filter.columns") or "").split(",")]
    names = {field.name.lower(): field.name for field in columns.fields}
    known = tuple(names[name.lower()] for name in blooms if name.lower() in names)
    missing = [name for name in blooms if name and name.lower() not in names]
    notes = tuple(f"orc.bloom.filter.columns names {name}, which is no column." for name in missing)
    settings = WriterSettings(
        compression=codec,
        stripe_size=_number(schema, "orc.stripe.size", default.stripe_size, 1, _MAX_STRIPE),
        block_size=_number(schema, "orc.compress.size", default.block_size, 1, _MAX_BLOCK),
        row_index_stride=_stride(schema, default.row_index_stride),
        bloom_columns=known,
        bloom_fpp=_fraction(schema, "orc.bloom.filter.fpp", default.bloom_fpp),
    )
    if _bloom_bytes(settings) > _MAX_BLOOM_BYTES:
        raise UsageError(
            f"the Bloom filters of one row group would take {_bloom_bytes(settings)} bytes",
            hint="Lower orc.row.index.stride, or raise orc.bloom.filter.fpp, in the text of --schema.",
        )
    return settings, notes


def _bloom_bytes(settings: WriterSettings) -> int:
    """What the filters of a row group take: n * -ln(p) / ln(2)^2 bits a column."""
    bits = settings.row_index_stride * -math.log(settings.bloom_fpp) / math.log(2) ** 2
    return round(bits / 8) * len(settings.bloom_columns)


def problem_of_settings(settings: WriterSettings, columns: StructType, target: Target) -> str | None:
    """Which of the settings cannot be, as the beginning of a sentence; None where all can."""
    stride = settings.row_index_stride
    known = {field.name for field in columns.fields}
    codecs = _HIVE3_CODECS if target is Target.HIVE3 else CODECS
    rules: tuple[tuple[str, Callable[[], bool], str], ...] = (
        ("compression", lambda: settings.compression in codecs, f"one of {', '.join(codecs)}"),
        ("stripe_size", lambda: 1 <= settings.stripe_size <= _MAX_STRIPE, f"a number from 1 to {_MAX_STRIPE}"),
        ("block_size", lambda: 1 <= settings.block_size <= _MAX_BLOCK, f"a number from 1 to {_MAX_BLOCK}"),
        (
            "row_index_stride",
            lambda: not stride or _MIN_STRIDE <= stride <= _MAX_STRIDE,
            f"0 or at least {_MIN_STRIDE}",
        ),
        ("bloom_columns", lambda: known.issuperset(settings.bloom_columns), "names of columns"),
        ("bloom_fpp", lambda: 0.0 < settings.bloom_fpp < 1.0, "a number between 0 and 1"),
        ("bloom_columns", lambda: _bloom_bytes(settings) <= _MAX_BLOOM_BYTES, "fewer, for so large row groups"),
    )
    return next((f"{name} must be {wanted}" for name, holds, wanted in rules if not holds()), None)


def unreadable_codec(asked: str | None, settings: WriterSettings, target: Target) -> tuple[str, str] | None:
    """Code and reason where the target cannot read the codec that the table states; UsageError for the option."""
    if target is not Target.HIVE3 or settings.compression in _HIVE3_CODECS:
        return None
    why = f"Hive 3 cannot read ORC files compressed with {settings.compression}"
    if asked is not None:
        raise UsageError(f"--compression {asked}: {why}", hint=f"Known to it are {', '.join(_HIVE3_CODECS)}.")
    return "unreadable_codec", f"{why}; choose another with --compression, zlib for one"


def _codec(text: str, where: str) -> str:
    name = text.strip().lower()
    if name not in CODECS:
        raise UsageError(f"{where} is {text!r}, which acidctl does not write", hint=f"Known are {', '.join(CODECS)}.")
    return name


def _known(found: str) -> str:
    return found if found in CODECS else WriterSettings().compression


def _number(schema: TableSchema, key: str, default: int, low: int, high: int) -> int:
    text = schema.table_property(key)
    if text is None:
        return default
    digits = text.strip()
    if not (digits.isascii() and digits.isdigit()) or len(digits) > 15 or not low <= int(digits) <= high:
        raise UsageError(f"the table property {key} is {text!r}, it must be a number from {low} to {high}")
    return int(digits)


def _stride(schema: TableSchema, default: int) -> int:
    stride = _number(schema, "orc.row.index.stride", default, 0, _MAX_STRIDE)
    if not stride or (schema.table_property("orc.create.index") or "").strip().lower() == "false":
        return 0
    if stride < _MIN_STRIDE:
        raise UsageError(f"the table property orc.row.index.stride is {stride}, ORC allows {_MIN_STRIDE} or more")
    return stride


def _fraction(schema: TableSchema, key: str, default: float) -> float:
    text = schema.table_property(key)
    if text is None:
        return default
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0.0 < value < 1.0:
        raise UsageError(f"the table property {key} is {text!r}, it must be a number between 0 and 1")
    return value
