"""The files of an export, written from one stream of rows: when one is begun, ended, and read back."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing
from typing import BinaryIO

from acidctl.exporting.forms import Content, FileForm, FileWriter, Rendered, Renderer, require_same
from acidctl.exporting.target import Target, WorkPlace
from acidctl.rows.pipeline import ordered_map, read_ahead
from acidctl.rows.snapshot import Rows

#: A directory without partitions has files of about this size.
FILE_BYTES = 512 << 20
# Files that are encoded, sent and read back at a time; each is small, or it would have been written while it was read.
_FINISHING = 4
# Rows of a file that is not begun yet.
_HELD_BYTES = 16 << 20


class Parts:
    """The files of an export, written from one stream of rows."""

    def __init__(self, target: Target, renderer: Renderer, *, by_partition: bool) -> None:
        self._target = target
        self._renderer = renderer
        self._by_partition = by_partition
        self._number = 0

    def write(self, stream: Iterator[Rows]) -> list[Content]:
        """Reading, rendering and writing go on side by side; what is in each file, after it was read back."""

        def render(rows: Rows) -> tuple[str, Rendered]:
            return rows.partition, self._renderer.render(rows)

        written: list[Content] = []
        pending: deque[Future[Content]] = deque()
        current: PartFile | None = None
        with ThreadPoolExecutor(_FINISHING, "acidctl-export") as pool, ExitStack() as opened:
            ahead = opened.enter_context(closing(read_ahead(stream)))
            rendered = opened.enter_context(closing(ordered_map(render, ahead, size=lambda rows: rows.bytes)))
            try:
                for partition, some in rendered:
                    if current is not None and self._is_complete(current, partition):
                        pending.append(pool.submit(current.finish))
                        current = None
                    current = current or self._next_file(partition)
                    current.add(some)
                    while len(pending) > _FINISHING or (pending and pending[0].done()):
                        written.append(pending.popleft().result())
                if current is None and not self._by_partition:
                    current = self._next_file("")
                if current is not None:
                    pending.append(pool.submit(current.finish))
                    current = None
                written += [future.result() for future in pending]
            except BaseException as error:
                pool.shutdown(wait=True, cancel_futures=True)
                if current is not None:
                    current.abandon(error)
                raise
        return written

    def _is_complete(self, current: PartFile, partition: str) -> bool:
        if self._by_partition:
            return current.partition != partition
        return self._target.folder and current.bytes >= FILE_BYTES

    def _next_file(self, partition: str) -> PartFile:
        relative = ""
        if self._target.folder:
            name = f"part-{0 if self._by_partition else self._number:05}{self._renderer.form.suffix}"
            relative = f"{partition}/{name}" if self._by_partition else name
            self._number += 1
            self._target.make_folders(relative)
        return PartFile(self._target, self._renderer, relative, partition)


class PartFile:
    """One file, begun when there is enough for it or when it is finished."""

    def __init__(self, target: WorkPlace, renderer: Renderer, relative: str, partition: str) -> None:
        self.partition = partition
        self._target = target
        self._renderer = renderer
        self._relative = relative
        self._held: list[Rendered] = []
        self._held_bytes = 0
        self._opened = ExitStack()
        self._writer: FileWriter | None = None

    @property
    def bytes(self) -> int:
        """What is written so far."""
        return 0 if self._writer is None else self._writer.bytes

    def add(self, rendered: Rendered) -> None:
        """Add rows."""
        if self._writer is not None:
            self._writer.add(rendered)
            return
        self._held.append(rendered)
        self._held_bytes += rendered.bytes
        if self._held_bytes > _HELD_BYTES:
            self._begin()

    def _begin(self, *, small: bool = False) -> FileWriter:
        stream: BinaryIO = self._opened.enter_context(self._target.create(self._relative))
        self._writer = FileWriter(stream, self._renderer, small=small)
        for rendered in self._held:
            self._writer.add(rendered)
        self._held = []
        return self._writer

    def finish(self) -> Content:
        """End the file and read it back."""
        with self._opened:
            writer = self._writer or self._begin(small=True)
            content = writer.finish()
        if not self._target.is_special:
            path = self._target.place(self._relative)
            with self._target.storage.open(path) as stream:
                require_same(stream, content, self._form, self._target.storage.display(path), writer.table)
        return content

    @property
    def _form(self) -> FileForm:
        return self._renderer.form

    def abandon(self, error: BaseException) -> None:
        """Leave nothing of it, because of an error."""
        self._opened.__exit__(type(error), error, error.__traceback__)
