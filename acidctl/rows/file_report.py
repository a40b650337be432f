"""The report of `dump` on one file: what orc-tools would tell, and under `acid` what only the ACID layer knows."""

from __future__ import annotations

from typing import Any

from acidctl.errors import AcidctlError
from acidctl.format.events import RowId
from acidctl.format.names import BucketFile, OriginalFile, parse_file
from acidctl.orc.acidview import AcidFacts, acid_facts
from acidctl.orc.describe import ReportOptions, failed_report, file_report, parse_columns
from acidctl.orc.postprocess import is_hybrid
from acidctl.orc.tail import Calendar
from acidctl.rows.dump_inputs import DataFile, SideFileFacts

Json = dict[str, Any]


def report_of(file: DataFile, *, row_index: str | None, time_zone: bool) -> Json:
    """Everything about one file; `row_index` names columns whose row indexes are wanted.

    Raises DamagedDataError where the tail cannot be trusted, also when nothing of the file was ever committed;
    damage in the rows themselves, and columns that cannot be the file's, are told in the report.
    """
    side = file.side_file()
    with file.open(side) as opened:
        orc = opened.orc
        columns = () if row_index is None else parse_columns(row_index, orc.tail)
        options = ReportOptions(columns, time_zone)
        report = file_report(orc, opened.stream, name=file.name, size=file.size, options=options)
        acid: Json = {
            "is_acid": orc.is_acid,
            "file_name": _file_name(file),
            "calendar": "hybrid" if is_hybrid(orc.tail) else "proleptic",
            "calendar_marked": orc.tail.calendar is not Calendar.UNKNOWN,
            "side_file": _side_file(side, file.size),
        }
        if orc.is_acid:
            acid |= _facts(acid_facts(orc))
        elif opened.shape_damage is not None:
            acid["damage"] = opened.shape_damage.message
    return report | {"acid": acid}


def failure(file: DataFile, error: AcidctlError) -> Json:
    """The report of a file that cannot be read."""
    fields = {"code": error.code, "message": error.message, "path": error.path, "hint": error.hint}
    return failed_report(file.name, fields)


def _file_name(file: DataFile) -> Json:
    """What the name says; `kind` is bucket, original or unrecognised."""
    parsed = parse_file(file.path.rpartition("/")[2])
    if isinstance(parsed, BucketFile):
        return {"kind": "bucket", "bucket_id": parsed.bucket_id, "attempt_id": parsed.attempt_id}
    if isinstance(parsed, OriginalFile):
        return {
            "kind": "original",
            "bucket_id": parsed.bucket_id,
            "attempt_id": parsed.attempt_id,
            "copy_number": parsed.copy_number,
        }
    return {"kind": "unrecognised"}


def _side_file(side: SideFileFacts | None, size: int) -> Json | None:
    if side is None:
        return None
    beyond = size - side.logical_length
    return {"name": side.name, "length": side.length, "logical_length": side.logical_length, "bytes_beyond": beyond}


def _facts(facts: AcidFacts) -> Json:
    stats = facts.stats
    return {
        "version": facts.version,
        "events": dict(facts.operations),
        "stats": None if stats is None else {"insert": stats.inserts, "update": stats.updates, "delete": stats.deletes},
        "write_ids": _range(facts.write_ids),
        "current_write_ids": _range(facts.current_write_ids),
        "buckets": [
            {
                "bucket_property": bucket.bucket_property,
                "version": bucket.version,
                "bucket_id": bucket.bucket_id,
                "statement_id": bucket.statement_id,
                "events": bucket.events,
            }
            for bucket in facts.buckets
        ],
        "ordered": facts.ordered,
        "key_index": {"state": facts.key_index.value, "reason": facts.key_index_reason},
        "stripes": [
            {
                "stripe": number,
                "events": stripe.rows,
                "first_key": _key(stripe.first),
                "last_key": _key(stripe.last),
                "index_key": _key(stripe.index),
            }
            for number, stripe in enumerate(facts.stripes, 1)
        ],
        "damage": facts.damage,
    }


def _range(ends: tuple[int, int] | None) -> Json | None:
    return None if ends is None else {"min": ends[0], "max": ends[1]}


def _key(key: RowId | None) -> Json | None:
    if key is None:
        return None
    return {"write_id": key.write_id, "bucket_property": key.bucket_property, "row_id": key.row_id}
