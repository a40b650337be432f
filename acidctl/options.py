"""What a user may ask for, stated once: commands, plans and the library take options from here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Self


@dataclass(frozen=True, slots=True)
class ReadView:
    """Whose view of a table is asked for: which lists, whose rules, and what is known of the table.

    `validtxns` are lists in any form that `--validtxns` takes; `as_of` stands for "write ids up to N", inclusive;
    `table` chooses out of a list of several tables; `list_format` is hive2, hive3 or None. `profile` is strict or
    hive4; `schema` a schema or the text of SHOW CREATE TABLE; `table_type` full, insert-only or auto.
    """

    validtxns: tuple[str, ...] = ()
    as_of: int | None = None
    table: str | None = None
    list_format: str | None = None
    profile: str = "strict"
    schema: str | None = None
    table_type: str = "auto"

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Self:
        """From keyword arguments; one text stands for a list of one. TypeError names the arguments that there are."""
        known = [one.name for one in fields(cls)]
        for name in given:
            if name not in known:
                raise TypeError(f"unknown argument {name!r}; expected one of {', '.join(known)}")
        values = dict(given)
        texts = values.get("validtxns", ())
        values["profile"] = str(getattr(values.get("profile"), "value", values.get("profile", "strict")))
        values["validtxns"] = (texts,) if isinstance(texts, str) else tuple(texts)
        return cls(**values)
