"""How Hive 4 lists a location where it does not take a snapshot of it: child by child, and in its cleaner.

acidctl reads as Hive's readers do, from a snapshot (`state.selection.list_as_hive`); the state vectors hold cases of
all three, and what Hive decides about what it has listed is the same.
"""

from __future__ import annotations

from acidctl.format.listing import Listing
from acidctl.format.names import ACID_PREFIXES, METADATA_MARKER, is_hidden_to_hive, path_order_key
from acidctl.format.write_ids import RangeAnswer, ValidWriteIds
from acidctl.state.selection import Listed, list_as_hive


def list_in_mode(listing: Listing, mode: str) -> list[Listed]:
    """The directories that Hive lists in mode snapshot, listing or cleaner."""
    if mode == "snapshot":
        return list_as_hive(listing)
    found = _children(listing) if mode == "listing" else _cleaner_snapshot(listing)
    return [found[path] for path in sorted(found, key=path_order_key)]


def _children(listing: Listing) -> dict[str, Listed]:
    """The direct children, with all visible files below them."""
    tops = {path.partition("/")[0] for path in listing.directories}
    found = {name: Listed(name) for name in ("", *tops) if _shown(name)}
    for file in listing.files:
        top = file.path.partition("/")[0] if "/" in file.path else ""
        if top in found and file.path == f"{top}/{METADATA_MARKER}":
            found[top].metadata = file
        elif _shown(file.path):
            found[top].files.append(file)
    return found


def _cleaner_snapshot(listing: Listing) -> dict[str, Listed]:
    """getHdfsDirSnapshotsForCleaner: base and delta directories by name, without looking inside."""
    found: dict[str, Listed] = {}
    for path in listing.directories:
        _add_acid_ancestor(path, found)
    for file in listing.files:
        if not _add_acid_ancestor(file.directory, found) and _shown(file.path):
            found.setdefault(file.directory, Listed(file.directory)).files.append(file)
    return found


def _add_acid_ancestor(path: str, found: dict[str, Listed]) -> bool:
    """Record the first base or delta on the way to `path`; whether there is one."""
    parts = path.split("/")
    for index, part in enumerate(parts):
        if is_hidden_to_hive(part):
            return False
        if part.startswith(ACID_PREFIXES):
            name = "/".join(parts[: index + 1])
            found.setdefault(name, Listed(name))
            return True
    return False


def _shown(path: str) -> bool:
    return not any(is_hidden_to_hive(part) for part in path.split("/"))


class CleanerWriteIds(ValidWriteIds):
    """The list of Hive's cleaner (HIVE-27526): a range that reaches above the watermark is not seen at all."""

    def is_range_valid(self, min_id: int, max_id: int) -> RangeAnswer:
        """Hive's isWriteIdRangeValid."""
        return RangeAnswer.NONE if max_id > self.high_watermark else ValidWriteIds.is_range_valid(self, min_id, max_id)


def write_ids_of(kind: str, text: str) -> ValidWriteIds:
    """The list of a reader, compactor or cleaner."""
    kind_of_list = CleanerWriteIds if kind == "cleaner" else ValidWriteIds
    return kind_of_list.parse(text, compacting=kind == "compactor")
