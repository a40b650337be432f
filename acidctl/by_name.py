"""Tables by name: a live metastore says where they lie, what they are, and what a reader of this moment sees.

metastore = acidctl.Metastore("thrift://metastore:9083")
table = metastore.table("sales.orders")
for batch in table.snapshot().to_batches():
    ...
"""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar, cast

from acidctl.api import CleanArguments, CompactArguments, Table, asks, ignore
from acidctl.cleaning.report import CleanReport
from acidctl.cleaning.run import CleanRun
from acidctl.compaction.plan import THROUGH_QUEUE, Action, CompactionPlan
from acidctl.compaction.report import CompactionReport, untouched
from acidctl.compaction.run import Compaction, Prepared
from acidctl.engine.local import usable_cores
from acidctl.errors import AcidctlError, NoSuchTableError, NotAcidTableError, UsageError
from acidctl.format.listing import Listing
from acidctl.metastore import activity
from acidctl.metastore.catalog import Catalog, Lists, TableInfo, require_name
from acidctl.metastore.client import Client
from acidctl.metastore.settings import MetastoreSettings, find_metastore, make_settings
from acidctl.options import Progress, ReadView, unwatched
from acidctl.rows.table_view import TableState, read
from acidctl.state.report import LsTable, Problem
from acidctl.storage.locations import Location, gather, own_partition, parse_filter
from acidctl.storage.port import join
from acidctl.storage.resolve import resolve as resolve_url
from acidctl.worker.queue import Queue
from acidctl.worker.service import Requests, Worker

__all__ = ["Metastore", "NamedTable", "find_metastore"]

StorageOptions = Callable[[str], Mapping[str, Any]] | Mapping[str, Any] | None
Viewed = TypeVar("Viewed", bound=ReadView)
# How often a table is listed whose compactions and cleaners go on meanwhile.
_TRIES = 3
# How many requests of one table are worked on at a time.
_AT_ONCE = 4
_SOME = 3
# Tables that are listed meanwhile: their storages keep one waiting.
_TABLES_AT_A_TIME = 4


class Metastore:
    """A live metastore. Connects with the first question; one connection, which threads share."""

    def __init__(
        self,
        uris: str | Sequence[str] | MetastoreSettings,
        *,
        storage_options: StorageOptions = None,
        **settings: Any,
    ) -> None:
        """`uris` are `thrift://host:9083`, several in the order to try; `settings` are those of `MetastoreSettings`.

        `storage_options` are those of all storages, or are asked for with the URL of each table.
        """
        known = uris if isinstance(uris, MetastoreSettings) else make_settings({"uris": uris, **settings})
        self.client = Client(known)
        # For who keeps a table alone, as `open_table` gives it.
        weakref.finalize(self, self.client.close)
        self.catalog = Catalog(self.client)
        self._storage_options = storage_options

    def table(self, name: str) -> NamedTable:
        """A transactional table by `database.table` or `table`.

        NoSuchTableError with names that are near; NotAcidTableError for views and tables without transactions.
        """
        return NamedTable(self, self.catalog.table(require_name(name)))

    def tables(self, pattern: str = "*.*") -> tuple[str, ...]:
        """Names of transactional tables, `*` and `?` allowed in both parts."""
        return tuple(map(str, self.catalog.names(pattern)))

    def ls(self, pattern: str = "*.*", *, profile: str = "strict", progress: Progress = unwatched) -> Iterator[LsTable]:
        """A line for each transactional table that matches, with what helps to choose which to compact.

        NoSuchTableError where none does; what cannot be listed has its `problem`.
        """
        names = self.tables(pattern)
        if not names:
            databases = self.catalog.databases()
            some = ", ".join(databases[:_SOME]) + (", ..." if len(databases) > _SOME else "")
            raise NoSuchTableError(
                f"no transactional table of the metastore {self.client} matches {pattern!r}",
                path=pattern,
                hint=f"A pattern is `database.table` with `*` and `?`; the databases are {some}.",
            )
        with ThreadPoolExecutor(_TABLES_AT_A_TIME) as pool:
            for done, line in enumerate(pool.map(partial(self._line, profile), names), 1):
                progress(done, len(names))
                yield line

    def _line(self, profile: str, name: str) -> LsTable:
        try:
            return LsTable.of(name, self.table(name).ls(profile=profile))
        except AcidctlError as error:
            return LsTable(name, readable=False, findings=True, problem=Problem.of(error))

    def lists(self, name: str, *, txn: int = 0, compacting: bool = False) -> Lists:
        """The lists of this moment for a reader, of transaction `txn` if any, or for a compaction of the table."""
        known = require_name(name)
        self.catalog.table(known)  # for a name that there is not the metastore answers with an empty list
        return self.catalog.lists(known, txn, compacting=compacting)

    # --- what goes on

    def transactions(self, *, blocking: str | None = None) -> tuple[activity.Transaction, ...]:
        """All open and aborted ones; with `blocking` those that keep Hive's Cleaner from cleaning up in that table."""
        found = activity.transactions(self.client)
        if blocking is None:
            return found
        return activity.blockers(found, self.compactions(blocking))[0]

    def locks(self, name: str | None = None) -> tuple[activity.Lock, ...]:
        """All locks, or those of a table and of its database; what waits comes first."""
        known = None if name is None else require_name(name)
        found = activity.locks(self.client, known)
        if known is not None and not found:
            with suppress(NotAcidTableError):  # such tables are locked too
                self.catalog.table(known)
        return found

    def compactions(self, name: str | None = None, *, states: Sequence[str] = ()) -> tuple[activity.Compaction, ...]:
        """The compaction queue and its history, of one table if it is named; what is at work comes first."""
        known = None if name is None else require_name(name)
        found = activity.compactions(self.client, known, states)
        if known is not None and not found:
            self.catalog.table(known)  # a table that is gone may have entries, but a name that never was has none
        return found

    def options_of(self, url: str) -> Mapping[str, Any]:
        """The storage options of a URL."""
        given = self._storage_options
        return given(url) if callable(given) else given or {}

    def close(self) -> None:
        """End the connection."""
        self.client.close()

    def __enter__(self) -> Metastore:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def split_url(url: str) -> tuple[str, str]:
    """`thrift://host:9083` and `db.table` of `thrift://host:9083/db.table`; the name is empty where there is none."""
    address, _, name = url.removeprefix("thrift://").partition("/")
    return f"thrift://{address}", name


def open_table(url: str, *, storage_options: StorageOptions = None) -> NamedTable:
    """The table of a metastore by `thrift://host:9083/db.table`; see `Metastore.table`."""
    address, name = split_url(url)
    return Metastore(address, storage_options=storage_options).table(name)


class NamedTable(Table):
    """A table of a metastore: its partitions with their own places, and the lists of the moment of each question."""

    def __init__(self, metastore: Metastore, info: TableInfo) -> None:
        options = metastore.options_of(info.location)
        storage, root = resolve_url(info.location, options)
        super().__init__(storage, root, url=info.location, storage_options=options)
        self.metastore = metastore
        self.info = info

    @property
    def name(self) -> str:
        """`database.table`."""
        return str(self.info.name)

    def locations(self, partitions: Sequence[str] = ()) -> tuple[Location, ...]:
        """List the table now, its registered partitions alone, each where the metastore has it."""
        return self._locations(partitions)[0]

    def directories(self, partitions: Sequence[str] = ()) -> tuple[str, ...]:
        """Paths or URLs of the table, or of those of its partitions that have a folder."""
        elsewhere, below = self._outside(partitions)
        paths = [*elsewhere.values(), *(join(self._root, text) if text else self._root for text in below)]
        return tuple(self._storage.display(path) for path in sorted(paths) if self._storage.stat(path))

    def _places(self, partitions: Sequence[str]) -> dict[str, str]:
        """The paths of the registered partitions that these filters choose, by their text on disk."""
        filters = [parse_filter(text) for text in partitions]
        top = self.info.location.rstrip("/")
        places = {}
        for text, place in self.metastore.catalog.partitions(self.info):
            if not filters or any(one.selects_text(text) for one in filters):
                inside = place.rstrip("/") == f"{top}/{text}"
                places[text] = join(self._root, text) if inside else self._place_elsewhere(text, place)
        if filters and not places:
            given = " or ".join(repr(item) for item in partitions)
            raise NoSuchTableError(
                f"{self.name} has no partition that matches {given}",
                path=self.name,
                hint=f"`acidctl ls {self.name} --by-partition` lists the partitions.",
            )
        return places

    def _place_elsewhere(self, partition: str, place: str) -> str:
        """The path of a partition outside of the table's directory. UsageError where it is on another storage."""
        try:
            return self._own_path(place)
        except UsageError as error:
            raise UsageError(
                f"partition {partition} of {self.name} lies on another storage than the table: {error.message}",
                path=error.path,
                hint="Choose other partitions with --partition, and name this one by its path, with the lists of "
                f"`acidctl lists {self.name}`.",
            ) from error

    def _outside(self, partitions: Sequence[str]) -> tuple[dict[str, str], set[str]]:
        """The paths of partitions elsewhere that have a folder, by their text; and those that lie below the table."""
        places = self._places(partitions) if self.info.partition_keys else {}
        below = {text for text, path in places.items() if path == join(self._root, text)}
        elsewhere = {text: path for text, path in places.items() if text not in below and self._storage.stat(path)}
        return elsewhere, below if below or elsewhere else {""}

    def _locations(self, partitions: Sequence[str]) -> tuple[tuple[Location, ...], list[str]]:
        """See `locations`; and folders that look like partitions, but are none to Hive."""
        if not self.info.partition_keys:
            with self._naming_itself():
                return super().locations(partitions), []
        places = self._places(partitions)
        listed: dict[str, Location] = {}
        if not partitions or any(path == join(self._root, text) for text, path in places.items()):
            # Where the table's directory is missing none of them has a folder yet.
            with suppress(NoSuchTableError):
                listed = {one.listing.root: one for one in gather(self._storage, self._root, partitions)}
        found, used = [], set(places.values())
        for text, path in places.items():
            there = listed.get(path) or self._elsewhere(path)
            found.append(Location(text, replace(there.listing, root=path)))
        unknown = [one.partition for path, one in listed.items() if path not in used and one.partition]
        # The table's own directory when it has no partition yet: `ls` has to answer something.
        return tuple(found or [Location("", Listing(self._root, (), ()))]), unknown

    @contextmanager
    def _naming_itself(self) -> Iterator[None]:
        """Whoever asked for a name does not know the path that is missing."""
        try:
            yield
        except NoSuchTableError as error:
            if self._storage.stat(self._root) is not None:
                raise
            raise NoSuchTableError(
                f"{self.name} has the location {self.location}, which does not exist",
                path=error.path,
                hint="See whether this machine reaches that storage, and whether the directory was moved or removed.",
            ) from error

    def _elsewhere(self, path: str) -> Location:
        """A partition outside of its table's directory; an empty one where nothing is there, as Hive reads it."""
        if self._storage.stat(path) is None:
            return Location("", Listing(path, (), ()))
        partition = own_partition(path)
        return next(one for one in gather(self._storage, path) if one.partition == partition)

    def viewed(self, asked: Viewed, lists: Callable[[], Lists] | None = None) -> Viewed:
        """What was asked, with what only a metastore knows filled in: schema, kind, and lists where none is given."""
        known: dict[str, Any] = {}
        if asked.schema is None:
            known["schema"] = self.info.ddl
        else:
            # Columns as the user knows them do not say whose they are.
            known["table"] = self.name
        if not asked.validtxns and asked.as_of is None:
            known["validtxns"] = (lists or partial(self.metastore.catalog.lists, self.info.name))().texts
        if asked.table is not None:
            stated = require_name(asked.table)
            if stated != self.info.name:
                raise UsageError(f"--table says {stated}, but the table is {self.name}")
        return replace(asked, **known)

    @asks(CompactArguments)
    def prepare_compaction(self, asked: CompactArguments) -> Prepared:
        """See `Table.prepare_compaction`; only what lies below the table's own directory and Hive reads."""
        prepared = super().prepare_compaction(**asked.keywords())
        if asked.plan is not None or not self.info.partition_keys:
            return prepared
        _, below = self._outside(asked.partitions)
        parts = tuple(part for part in prepared.plan.partitions if part.partition in below)
        return replace(prepared, plan=replace(prepared.plan, partitions=parts))

    @asks(CompactArguments)
    def plan_compaction(self, asked: CompactArguments) -> CompactionPlan:
        """What `compact` would do; changes nothing. A partition elsewhere has its whole path.

        The transaction in the names of a result is the next one of now, where Hive's queue is to give another to each
        request; such a plan cannot be carried out.
        """
        plan = self._plan(asked)
        through_queue = self._goes_through_queue(asked) and self.metastore.catalog.has_queue
        return replace(plan, notes=(*plan.notes, THROUGH_QUEUE)) if through_queue else plan

    def _plan(self, asked: CompactArguments) -> CompactionPlan:
        lists = self.metastore.catalog.lists(self.info.name, compacting=True)
        chosen = self.viewed(asked, lambda: lists)
        if self._goes_through_queue(asked) and self.metastore.catalog.has_queue:
            chosen = replace(chosen, visibility_txn=lists.txns.high_watermark + 1, target="hive4")
        elsewhere, below = self._outside(asked.partitions)
        plans = [super().prepare_compaction(**chosen.keywords()).plan] if below else []
        parts = [part for plan in plans for part in plan.partitions if part.partition in below]
        for text, path in elsewhere.items():
            table = Table(self._storage, path, storage_options=self._options)
            plans.append(table.plan_compaction(**replace(chosen, partitions=()).keywords()))
            part = next(one for one in plans[-1].partitions if one.partition == own_partition(path))
            parts.append(replace(part, partition=text, path=table.location))
        parts.sort(key=lambda part: part.partition)
        return replace(plans[0], location=self.location, partitions=tuple(parts))

    @asks(CompactArguments)
    def compact(self, asked: CompactArguments) -> CompactionReport:
        """Compact through the metastore's own queue, each partition under a transaction, for Hive's Cleaner to follow.

        With lists, a saved plan or `assume_committed`, and where the metastore is Hive 3's, as for a directory; there
        under a lock.
        """
        if not self._goes_through_queue(asked):
            return super().compact(**self.viewed(asked).keywords())
        queue = Queue(self.metastore.client)
        if not self.metastore.catalog.has_queue:
            return self._compact_under_lock(queue, asked)
        started = time.time()
        for sentence in queue.recover(self.info.name):
            asked.notify(sentence)
        plan = self._plan(asked)
        asked.planned(plan, "")
        todo = {part.partition: part for part in plan.partitions if part.action is Action.COMPACT}
        done = [untouched(part) for part in plan.partitions if part.partition not in todo]
        if asked.finished is not None:
            for report in done:
                asked.finished(report)
        order = sorted(todo.values(), key=lambda part: -len(part.inputs))
        cores = asked.parallelism or usable_cores()
        at_once = max(1, min(_AT_ONCE, len(order), cores))
        each = replace(asked, planned=ignore, finished=None, progress=unwatched)
        if at_once > 1:
            each = replace(each, during=nullcontext, watch=None, parallelism=cores // at_once)
        worker = Worker(queue, self.metastore.options_of, each)
        requests = Requests(worker, self.info, asked)
        with asked.during(cast(Compaction, requests)) if at_once > 1 else nullcontext():
            done += requests.run(order, at_once)
        return CompactionReport(
            location=self.location,
            kind=plan.kind.value,
            target=plan.target.value,
            engine=worker.engine,
            visibility_txn=None,
            assumed=(),
            partitions=tuple(sorted(done, key=lambda report: report.partition)),
            seconds=time.time() - started,
            notes=plan.notes,
        )

    @staticmethod
    def _goes_through_queue(asked: CompactArguments) -> bool:
        """Whether nothing is stated that only a run of its own can heed."""
        own = asked.plan is not None or asked.assume_committed or asked.visibility_txn is not None
        return not (own or asked.validtxns or asked.as_of is not None or asked.target == "hive3")

    def _compact_under_lock(self, queue: Queue, asked: CompactArguments) -> CompactionReport:
        """Hive 3: its queue gives nothing to others, and its names carry no transaction."""
        elsewhere, below = self._outside(asked.partitions)
        with queue.locked(self.info.name, self.metastore.client.user) as txn:
            chosen = self.viewed(asked, partial(self.metastore.catalog.lists, self.info.name, txn, compacting=True))
            reports = [super().compact(**chosen.keywords())] if below else []
            for text, path in elsewhere.items():
                table = Table(self._storage, path, url=self._storage.display(path), storage_options=self._options)
                one = table.compact(**replace(chosen, partitions=(), planned=ignore).keywords())
                parts = tuple(replace(part, partition=text) for part in one.partitions)
                reports.append(replace(one, partitions=parts))
        done = sorted((part for one in reports for part in one.partitions), key=lambda part: part.partition)
        return replace(reports[0], location=self.location, partitions=tuple(done))

    @asks(CleanArguments)
    def prepare_clean(self, asked: CleanArguments) -> CleanRun:
        """A run of `clean` by what the oldest open transaction may still see, whoever's it is.

        Of a table with partitions those are cleaned that Hive reads, each where it lies.
        """
        catalog, oldest = self.metastore.catalog, None
        if not asked.validtxns and asked.as_of is None:
            oldest = next((txn for txn in self.metastore.transactions() if txn.state == "open"), None)
        below = None if oldest is None else oldest.id
        run = super().prepare_clean(
            **self.viewed(asked, partial(catalog.lists, self.info.name, below=below)).keywords()
        )
        notes = list(run.notes)
        if oldest is not None:
            notes.append(
                f"What became obsolete after transaction {oldest.id} began is kept: it is open, of {oldest.user} on "
                f"{oldest.host}{f' ({oldest.agent})' if oldest.agent else ''}, since {oldest.started}."
            )
        return replace(run, notes=tuple(notes))

    @asks(CleanArguments)
    def clean(self, asked: CleanArguments) -> CleanReport:
        """See `Table.clean`. UsageError where Hive's Cleaner is to remove what a compaction left."""
        in_hand = None if asked.action == "undo" or asked.unsafe_beside_hive else self._in_hand()
        if in_hand and asked.action != "show":
            raise UsageError(
                in_hand,
                path=self.name,
                hint=f"It removes what they left; `acidctl txns --blocking {self.name}` says what it waits for. "
                "--unsafe-beside-hive cleans all the same.",
            )
        report = super().clean(**asked.keywords())
        if not in_hand:
            return report
        note = f"{in_hand}: nothing is deleted beside it without --unsafe-beside-hive."
        return replace(report, notes=(*report.notes, note))

    def _in_hand(self) -> str | None:
        """That Hive's Cleaner is to remove what compactions left, None where it has nothing to do."""
        found = activity.compactions(self.metastore.client, self.info.name, ["ready_for_cleaning"])
        if not found:
            return None
        numbers = ", ".join([str(one.id) for one in found[:_SOME]] + ["..."] * (len(found) > _SOME))
        return f"Hive's Cleaner has compactions of {self.name} in hand (SHOW COMPACTIONS: {numbers})"

    def _read(self, view: ReadView, *, whole: bool = False) -> TableState:
        """Lists first, then directories: what is written in between is above the lists and not seen."""
        for tries_left in reversed(range(_TRIES)):
            chosen = self.viewed(view)
            locations, unknown = self._locations(view.partitions)
            readings = read(locations, chosen)
            # What the lists saw may have been compacted and cleaned before the listing; newer lists see that.
            error: AcidctlError | None = None
            if whole:
                error = self._history_error(readings)
            else:
                error = next((e for part in readings.parts if (e := part.state.not_enough_history) is not None), None)
            given = bool(view.validtxns) or view.as_of is not None
            if error is None or given or not tries_left:
                break
        if whole and error is not None:
            raise error
        return replace(readings, warnings=(*readings.warnings, *_unregistered(unknown)))


def _unregistered(partitions: Sequence[str]) -> Iterator[str]:
    if partitions:
        more = f" and {len(partitions) - _SOME:,} more" if len(partitions) > _SOME else ""
        some = ", ".join(partitions[:_SOME])
        yield f"On disk, but no partition of the metastore lies there, so that Hive does not read them: {some}{more}."
