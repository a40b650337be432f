"""`acidctl decode-bucket`: what a bucket number, a file name or a directory name says."""

from __future__ import annotations

import re
from typing import Annotated, TypedDict

import click

from acidctl.cli.options import command as make_command
from acidctl.cli.output import Cell, Column, Output, Paint, shown
from acidctl.config import Config
from acidctl.errors import AcidctlError, ExitCode, UsageError
from acidctl.format.bucket_codec import MAX_BUCKET_ID, bits, decode, encode
from acidctl.format.names import (
    VERSION_MARKER,
    BaseDir,
    BucketFile,
    DeltaDir,
    DeltaKind,
    HiddenName,
    Marker,
    OriginalFile,
    SideFile,
    Unrecognised,
    parse_directory,
    parse_file,
)
from acidctl.options import option
from acidctl.values import dataclass

_NUMBER = re.compile(r"[+-]?(?:0[xX][0-9a-fA-F]+|[0-9]+)")
# Python refuses to convert very long numbers.
_MAX_DIGITS = 1000
_TYPE = {"type": "decode_bucket", "schema_version": 1}


class DecodedFields(TypedDict, total=False):
    """What a number or a name says; there are the fields that go with it."""

    value: Annotated[int, "of a number: signed, as in the column"]
    hex: Annotated[str, "of a number: its 32 bits"]
    version: Annotated[int, "of a number: codec version, 0 or 1"]
    bucket_id: Annotated[int | None, "of a number or a file name"]
    statement_id: Annotated[int | None, "of a number or a delta"]
    name: Annotated[str, "of a name"]
    kind: Annotated[str, "of a name: base, delta, delete_delta, bucket, original, side_file, marker, hidden"]
    min_write_id: Annotated[int | None, "first write id in the name; null for a base (it starts at the first write)"]
    max_write_id: Annotated[int | None, "last write id in the name, inclusive"]
    visibility_txn_id: Annotated[int | None, "transaction of the compaction that wrote the directory"]
    attempt_id: Annotated[int | None, "of a file name"]
    copy_number: Annotated[int | None, "of an original file"]
    data_file: Annotated[str, "of a side file: the file it belongs to"]
    reason: Annotated[str, "of a hidden name: what it is"]


# The JSON fields of an answer, and for eyes its form and its meaning.
Decoded = tuple[DecodedFields, str, str]


@dataclass(frozen=True, slots=True)
class Encoding:
    """A number to be made, and the form of the answer."""

    to_number: bool = option(False, "Make the number of --bucket and --statement.", "--encode", param="to_number")
    bucket: int | None = option(None, "Bucket id to encode.", metavar="N", form="integer")
    statement: int = option(0, "Statement id to encode.", metavar="N", form="integer")
    max_statement: int | None = option(
        None,
        "Largest statement id of the transaction; bucket ids above 4095 need it.",
        metavar="N",
        form="integer",
    )
    codec_version: int = option(1, "Codec to encode with: 1 is Hive 3 and 4, 0 is Hive 1 and 2.", minimum=0, maximum=1)


@make_command(
    "decode-bucket",
    Encoding,
    exits=(ExitCode.DONE, ExitCode.FAILED, ExitCode.USAGE),
    examples=(
        "acidctl decode-bucket 536936449 0x20010001",
        "acidctl decode-bucket bucket_00003_1 delete_delta_0000002_0000002_0000",
        "acidctl decode-bucket --encode --bucket 3 --statement 1",
    ),
    settings={"ignore_unknown_options": True},
    arguments=[click.argument("values", metavar="VALUE...", nargs=-1, type=click.UNPROCESSED)],
)
def command(out: Output, config: Config, asked: Encoding, *, values: tuple[str, ...]) -> ExitCode:
    """Decode the `bucket` column of ACID rows, and the names of files and directories.

    VALUE is an integer (decimal, hexadecimal, negative as it is) or a name. Each one that is refused is
    reported on stderr; the others are answered.
    """
    answers: list[Decoded] = []
    code = ExitCode.DONE
    if asked.to_number:
        if values or asked.bucket is None:
            raise UsageError("--encode takes --bucket N and --statement N, and no VALUE")
        answers.append(_encoded(out, asked.bucket, asked))
    elif asked.bucket is not None:
        raise UsageError("--bucket is for --encode", hint="Add --encode, or give the number as VALUE.")
    elif not values:
        raise UsageError("no VALUE is given", hint="Give a bucket number or a name, or --encode --bucket N.")
    for value in values:
        # Negative numbers are given as they are, so click hands over whatever begins with a dash.
        if value.startswith("-") and not value.startswith(("-tmp.", "-ext-")) and not _NUMBER.fullmatch(value):
            raise UsageError(f"no such option: {value}")
    for value in values:
        try:
            answers.append(decode_value(value))
        except AcidctlError as error:
            out.error(error)
            code = ExitCode.FAILED
    items = [{**_TYPE, **found} for found, _, _ in answers]
    answer = {**_TYPE, "values": [found for found, _, _ in answers]}
    if not out.machine(lambda: answer, items, tuple(DecodedFields.__annotations__)) and answers:
        columns = (Column("VALUE"), Column("AS"), Column("MEANING", below=True))
        rows = [
            [found.get("name", found.get("value")), Cell(form, Paint.DIM), meaning] for found, form, meaning in answers
        ]
        out.table(columns, rows)
    return code


def decode_value(value: str) -> Decoded:
    """What a VALUE says: a number or a name, and of a path its last part."""
    if _NUMBER.fullmatch(value):
        digits = value.lstrip("+-").lower()
        if len(digits) > _MAX_DIGITS:
            raise AcidctlError(f"a number of {len(digits)} digits does not fit 32 bits, so it is not a bucket property")
        number = int(digits, 16 if digits.startswith("0x") else 10)
        return _decoded_number(-number if value.startswith("-") else number)
    name = value.rstrip("/").rpartition("/")[2]
    if not name:
        raise AcidctlError(f"{value!r} is neither a number nor a name")
    return _decoded_name(name)


def _decoded_number(value: int) -> Decoded:
    found = decode(value)
    fields: DecodedFields = {
        "value": value - (1 << 32) if value >= 1 << 31 else value,
        "hex": f"0x{value & 0xFFFFFFFF:08X}",
        "version": found.version,
        "bucket_id": found.bucket_id,
        "statement_id": found.statement_id,
    }
    meaning = f"bucket {found.bucket_id}, statement {found.statement_id} (codec version 1)"
    if found.version == 0:
        meaning = f"bucket {found.bucket_id} (codec version 0: Hive 1 and 2)"
    return fields, f"{fields['hex']}  {bits(value)}", meaning


def _encoded(out: Output, bucket: int, asked: Encoding) -> Decoded:
    number = encode(bucket, asked.statement, version=asked.codec_version, max_statement_id=asked.max_statement)
    answer = _decoded_number(number)
    if answer[0]["bucket_id"] != bucket:
        out.warn(
            f"bucket {bucket} does not decode back: above {MAX_BUCKET_ID} Hive moves the high bits into the "
            f"statement id (HIVE-24715), so its rows say bucket {answer[0]['bucket_id']}, "
            f"statement {answer[0]['statement_id']}, and so do its file and directory names"
        )
    return answer


def _decoded_name(name: str) -> Decoded:
    directory = parse_directory(name)
    if isinstance(directory, Unrecognised):
        raise AcidctlError(f"{shown(name)} is not a name that Hive gives: {directory.reason}")
    if not isinstance(directory, BaseDir | DeltaDir):
        kind, more, meaning = _file_meaning(name)
        return {"name": name, "kind": kind, **more}, kind, meaning
    if isinstance(directory, BaseDir):
        kind, low, high, statement = "base", None, directory.write_id, None
        meaning = f"all rows up to write id {high}"
    else:
        low, high, statement = directory.min_write_id, directory.max_write_id, directory.statement_id
        kind = directory.kind.value
        meaning = "deleted rows of write id" if directory.kind is DeltaKind.DELETE else "inserted rows of write id"
        meaning += f" {low}" if low == high else f"s {low} to {high}"
        meaning += "" if statement is None else f", statement {statement}"
    txn = directory.visibility_txn_id
    if txn is not None:
        meaning += f", written by a compaction, visible once transaction {txn} commits"
    fields: DecodedFields = {
        "name": name,
        "kind": kind,
        "min_write_id": low,
        "max_write_id": high,
        "statement_id": statement,
        "visibility_txn_id": txn,
    }
    return fields, kind, meaning


def _file_meaning(name: str) -> tuple[str, DecodedFields, str]:
    """Kind, JSON fields and meaning of a file name."""
    match parse_file(name):
        case BucketFile(_, bucket, attempt):
            meaning = f"file with ACID columns: bucket {bucket}"
            meaning += "" if attempt is None else f", task attempt {attempt}"
            return "bucket", {"bucket_id": bucket, "attempt_id": attempt}, meaning
        case OriginalFile(_, bucket, attempt, copy):
            meaning = f"file without ACID columns: bucket {bucket}, attempt {attempt}"
            meaning += "" if copy is None else f", copy {copy} (a later INSERT)"
            return "original", {"bucket_id": bucket, "attempt_id": attempt, "copy_number": copy}, meaning
        case SideFile(_, data_file):
            meaning = f"side file of streaming ingest: logical lengths of {data_file}"
            return "side_file", {"data_file": data_file}, meaning
        case Marker():
            meaning = "ACID version of a directory" if name == VERSION_MARKER else "what kind of base this is"
            return "marker", {}, f"marker file: {meaning}"
        case HiddenName(_, reason):
            return "hidden", {"reason": reason}, f"hidden from readers: {reason}"
        case Unrecognised(_, reason):
            raise AcidctlError(f"{shown(name)} is neither a number nor a name that Hive gives: {reason}")
