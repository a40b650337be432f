"""What a page about JSON objects is made of."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Described:
    """One kind of object; a field is (name, type, meaning)."""

    title: str
    where: str
    fields: tuple[tuple[str, str, str], ...]


TYPE = ("type", "string", "what the object is; with a new meaning it would get a new type")
VERSION = ("schema_version", "number", "1; fields are only ever added")
LOCATION = ("location", "string", "the table as it was named, without secrets")
ASSUMED = ("assumed", "list", "lists that were not given and count as everything committed: `write_ids`, `txns`")
