"""Whether a file holds ACID events: by its columns, and by all else that must agree with them.

One wrong letter in the name of a column would make a file of events one of plain rows, with other values under every
column. So whatever says "events" beside the columns is asked too, and where they differ the file is damaged.
"""

from __future__ import annotations

from acidctl.errors import DamagedDataError
from acidctl.format.event_fields import EVENT_FIELDS
from acidctl.orc.tail import OrcKind, Tail, damaged

_KINDS = (OrcKind.INT, OrcKind.LONG, OrcKind.INT, OrcKind.LONG, OrcKind.LONG, OrcKind.STRUCT)
_NAMES = tuple(name.lower() for name in EVENT_FIELDS)
_METADATA = "hive.acid."
# How many of the columns' names a message shows, and how much of each.
_SHOWN, _SHOWN_LETTERS = 6, 40


def is_acid(tail: Tail) -> bool:
    """Whether the columns are those of an event, ignoring case: query-based compaction writes lower case."""
    return _names(tail) == _NAMES and _kinds(tail) == _KINDS


def shape_damage(tail: Tail, *, events: bool = False, rows: bool = False) -> DamagedDataError | None:
    """What is wrong with a file that is one of events by some signs and not by its columns, or not by its place.

    `events` says that its place allows nothing else (`names.must_hold_events`), `rows` that it allows no events
    (`names.must_not_hold_events`). The types of an event alone prove nothing, a user's table may have the same ones;
    with a name of an event among the columns they do.
    """
    if is_acid(tail):
        if rows and tail.rows:
            what = "holds ACID events under a name by which Hive does not read them in a delta"
            return damaged(tail.name, what, "Give the file back its name, bucket_ and its bucket in five digits.")
        return None
    key = next((key for key, _ in tail.user_metadata if key.startswith(_METADATA)), None)
    names = _names(tail)
    if key is not None:
        sign = f"carries the user metadata '{_shown(key)}'"
    elif names == _NAMES:
        sign = "has columns named as those of an event"
    elif _kinds(tail) == _KINDS and any(a == b for a, b in zip(names, _NAMES, strict=True)):
        sign = "has columns of an event's types"
    elif events and (tail.rows or names):
        sign = "is named as one"
    else:
        return None
    shown = ", ".join(_shown(name) for name in tail.types[0].names[:_SHOWN])
    more = ", ..." if len(names) > _SHOWN else ""
    return damaged(tail.name, f"must be a file of ACID events, for it {sign}, but its columns are ({shown}{more})")


def check_shape(tail: Tail, *, events: bool = False, rows: bool = False) -> Tail:
    """The tail; raises what `shape_damage` finds."""
    error = shape_damage(tail, events=events, rows=rows)
    if error is not None:
        raise error
    return tail


def _names(tail: Tail) -> tuple[str, ...]:
    return tuple(name.lower() for name in tail.types[0].names)


def _kinds(tail: Tail) -> tuple[OrcKind, ...]:
    return tuple(tail.types[child].kind for child in tail.types[0].subtypes)


def _shown(name: str) -> str:
    """A name out of a file for a message: not the whole of a long one, and on one line."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in name[:_SHOWN_LETTERS])
