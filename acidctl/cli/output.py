"""How answers and remarks reach the user: streams are injected, the terminal is described, nothing is global.

stdout carries the answer, as text for eyes or as JSON, JSON lines or CSV; stderr carries everything else.
Names that come from a storage are shown with control characters escaped, and are never cut or wrapped. What
stderr says holds no user or password of a URL, whoever made the sentence.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import field
from enum import Enum
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, Protocol, TextIO

from acidctl.errors import AcidctlError, StorageError
from acidctl.storage.redact import without_secrets
from acidctl.values import dataclass

if TYPE_CHECKING:
    from acidctl.options import Progress as ReportProgress

# Columns of a terminal for a value of which only the beginning is shown.
TERMINAL_VALUE = 40
# Sentences of a kind on stderr.
MOST_WARNINGS = 10


class Format(Enum):
    """The forms of an answer."""

    TEXT = "text"
    JSON = "json"
    JSONL = "jsonl"
    CSV = "csv"


class Paint(Enum):
    """Colours by meaning; a word always stands beside the colour."""

    GOOD = "32"
    BAD = "31"
    WARN = "33"
    DIM = "2"
    BOLD = "1"


class ByteSink(Protocol):
    """All that is asked of an output stream."""

    def write(self, data: bytes | bytearray | memoryview, /) -> object: ...

    def flush(self) -> object: ...


@dataclass(frozen=True, slots=True)
class Terminal:
    """The streams of this run; `width` is None when stdout is no terminal, and then no line is cut."""

    stdout: ByteSink
    stderr: ByteSink
    width: int | None = None
    stderr_is_terminal: bool = False
    error_width: int | None = None
    color: bool = False
    error_color: bool = False
    # What stderr never says, because it was given as a secret.
    secrets: set[str] = field(default_factory=set)


def system_terminal() -> Terminal:
    """The terminal of this process; colour: NO_COLOR, else FORCE_COLOR, else whether it is a terminal."""
    env = os.environ
    out_tty, err_tty = (_is_terminal(stream) for stream in (sys.stdout, sys.stderr))

    def color(terminal: bool) -> bool:
        return not env.get("NO_COLOR") and bool(env.get("FORCE_COLOR") or (terminal and env.get("TERM") != "dumb"))

    return Terminal(
        stdout=_binary(sys.stdout),
        stderr=_binary(sys.stderr),
        width=terminal_width() if out_tty else None,
        stderr_is_terminal=err_tty,
        error_width=terminal_width() - 2 if err_tty else None,
        color=color(out_tty),
        error_color=color(err_tty),
    )


class Cell(NamedTuple):
    """A piece of text with a colour."""

    text: str
    paint: Paint | None = None


_EMPTY = Cell("")


class Column(NamedTuple):
    """A column of a text table.

    On a terminal that is too narrow, `spare` columns leave when that keeps the sentence beside its row; the
    `below` column is wrapped, or moved below its row when little room is left; then the column with the
    highest `drop` leaves first. Columns without `drop` never leave, and cells other than sentences are never
    cut.
    """

    title: str
    right: bool = False
    drop: int = 0
    spare: bool = False
    below: bool = False


class Output:
    """What a command writes with. Texts are escaped here, so that nothing can deceive a terminal."""

    def __init__(
        self,
        terminal: Terminal,
        form: Format = Format.TEXT,
        *,
        quiet: bool = False,
        verbose: bool = False,
        header: bool = True,
    ) -> None:
        """`header` is whether CSV has one."""
        self.terminal = terminal
        self.form = form
        self.quiet = quiet
        self.verbose = verbose
        self.header = header
        # Columns of the terminal that shows stdout; None when it is none.
        self.width = terminal.width

    @property
    def shows_progress(self) -> bool:
        """Progress is for a person who watches: a terminal, text, and no -q."""
        return self.terminal.stderr_is_terminal and not self.quiet and self.form is Format.TEXT

    # --- the answer

    def data(self, chunk: bytes | bytearray | memoryview) -> None:
        """Write bytes of the answer as they are."""
        self._hand_over(self.terminal.stdout.write, chunk)

    def machine_data(self, chunk: bytes | bytearray | memoryview) -> None:
        """Write whole lines of CSV or JSON: to a program as they are, to a terminal without what could disturb it."""
        if self.width is not None:
            chunk = encode(harmless(bytes(chunk).decode("utf-8", "surrogateescape"), self.form))
        self.data(chunk)

    def flush(self) -> None:
        """Hand over everything written so far."""
        self._hand_over(self.terminal.stdout.flush)

    def _hand_over(self, act: Callable[..., object], *chunk: object) -> None:
        try:
            act(*chunk)
        except BrokenPipeError:
            raise
        except OSError as error:
            raise StorageError(f"the answer cannot be written: {error.strerror or error}") from error

    def text(self, *pieces: str | Cell) -> str:
        """A line of pieces, escaped, and coloured where colours are on."""
        return "".join(
            self._painted(shown(piece.text), piece.paint) if isinstance(piece, Cell) else shown(piece)
            for piece in pieces
        )

    def line(self, *pieces: str | Cell) -> None:
        """Write one line of text."""
        self._lines([self.text(*pieces)])

    def wrapped(self, text: str | Sequence[str], paint: Paint | None = None, *, indent: str = "") -> None:
        """Write a sentence, or pieces that stay whole, on as many lines as the terminal needs."""
        text = shown(text) if isinstance(text, str) else [shown(piece) for piece in text]
        for line in wrap(text, self.width, indent=indent):
            self.line(Cell(line, paint))

    def table(
        self,
        columns: Sequence[Column],
        rows: Sequence[Sequence[object]],
        *,
        before: Mapping[int, Sequence[str]] | None = None,
        after: Mapping[int, Sequence[str]] | None = None,
    ) -> list[str]:
        """Write a table that fits the terminal, or of unlimited width when there is none; a None is an empty cell.

        A sentence column has to be the last one. `before` and `after` are ready lines that stand above and below
        the row with that index. Returned are the titles of columns for which there was no room.
        """
        cells = [[_cell(value) for value in row] for row in rows]
        titles = [Cell(column.title) for column in columns]
        # Of every cell, the title's last.
        taken = [[display_width(cell.text) for cell in row] for row in (*cells, titles)]
        widths = [max(column) for column in zip(*taken, strict=True)]
        kept, below = _layout(columns, widths, self.width)
        chosen = [(index, widths[index], columns[index].right) for index in kept]

        def line(row: Sequence[Cell], number: int) -> str:
            parts = []
            for index, width, right in chosen:
                text, paint = row[index]
                padding = " " * (width - taken[number][index])
                if paint:
                    text = self._painted(text, paint)
                parts.append(padding + text if right else text + padding)
            return "  ".join(parts).rstrip()

        self._lines([self._painted(line(titles, -1), Paint.DIM)])
        indent = "    " if below else " " * sum(widths[index] + 2 for index in kept[:-1])
        for number, row in enumerate(cells):
            self._lines((before or {}).get(number, ()))
            if below:
                first = line(row, number)
                self._lines([*([first] if first else ()), *wrap(row[-1].text, self.width, indent=indent)])
            elif columns[-1].below:
                first, *more = wrap(row[-1].text, widths[-1]) or [""]
                self._lines([line([*row[:-1], Cell(first, row[-1].paint)], number), *(indent + text for text in more)])
            else:
                self._lines([line(row, number)])
            self._lines((after or {}).get(number, ()))
        return [column.title for index, column in enumerate(columns[: -1 if below else None]) if index not in kept]

    def named_table(self, columns: Sequence[Column], rows: Sequence[Sequence[object]]) -> None:
        """A table whose first column are long names; where they leave no room, each stands above its rows."""
        cells = [[_cell(value) for value in row] for row in rows]
        needed = sum(
            2 + max(display_width(text) for text in (column.title, *(row[index].text for row in cells)))
            for index, column in enumerate(columns)
            if not (column.drop or column.below)
        )
        if self.width is None or needed - 2 <= self.width:
            self.table(columns, rows)
            return
        names = [row[0] for row in cells]
        before = {
            number: [self._painted(name.text, name.paint or Paint.BOLD)]
            for number, name in enumerate(names)
            if not number or name.text != names[number - 1].text
        }
        self.table(columns[1:], [row[1:] for row in rows], before=before)

    def _painted(self, text: str, paint: Paint | None) -> str:
        return f"\x1b[{paint.value}m{text}\x1b[0m" if paint and self.terminal.color and text else text

    def _lines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.data(encode(line + "\n"))

    def machine(
        self, document: Callable[[], object], items: Iterable[Mapping[str, Any]], fields: Sequence[str]
    ) -> bool:
        """Write the form that a program has asked for; False, and nothing written, where that is text.

        `document` makes the JSON object, indented on a terminal and on one line for a program; each of `items` is a
        line of JSON; a CSV row are its `fields`, of which `a.b` is one within another.
        """
        lines: Iterable[str] = ()
        if self.form is Format.JSON:
            lines = [dump_json(document(), indent=2 if self.width else None)]
        elif self.form is Format.JSONL:
            lines = map(dump_json, items)
        elif self.form is Format.CSV:
            paths = [name.split(".") for name in fields]
            rows = (",".join(csv_cell(_at(item, path)) for path in paths) for item in items)
            lines = chain([",".join(map(csv_cell, fields))] if self.header else (), rows)
        for line in lines:
            self.machine_data(encode(line + "\n"))
        return self.form is not Format.TEXT

    # --- what else there is to say

    def note(self, *sentences: str) -> None:
        """Say something on stderr that -q silences."""
        for text in () if self.quiet else sentences:
            self._say("note: ", Paint.DIM, text)

    def assumed(self, lists: Sequence[str]) -> None:
        """Say which lists were not given and so count as "everything committed"."""
        if len(lists) > 1:
            self.note("No --validtxns given: treating every write as committed, including open and aborted ones.")
        elif lists:
            what = {"write_ids": "write-id list", "txns": "transaction list"}[lists[0]]
            self.note(f"No {what} given with --validtxns: treating all of them as committed.")

    def warn(self, *sentences: str) -> None:
        """Say something on stderr that the user has to know; of ten thousand sentences JSON holds all, this ten."""
        more = len(sentences) - MOST_WARNINGS
        for text in sentences[:MOST_WARNINGS]:
            self._say("warning: ", Paint.WARN, text)
        if more > 0:
            self._say("warning: ", Paint.WARN, f"... and {more:,} more such; -o json has them all")

    def detail(self, text: str) -> None:
        """Say something on stderr that only -v asks for."""
        if self.verbose:
            self._say("", Paint.DIM, text)

    def error(self, error: AcidctlError) -> None:
        """Show a failure on stderr, as JSON when the answer would have been a machine's."""
        if self.form is Format.TEXT:
            self._say("error: ", Paint.BAD, error.message)
            if error.hint:
                self._say("  hint: ", Paint.DIM, error.hint)
            return
        texts = error.to_json().items()
        fields = {name: text and without_secrets(text, self.terminal.secrets) for name, text in texts}
        text = dump_json({"error": fields})
        self._write_error(text if self.terminal.error_width is None else harmless(text, Format.JSON))

    def _say(self, word: str, paint: Paint, text: str) -> None:
        """A sentence; on a terminal no word of it is broken."""
        width = self.terminal.error_width
        lines = wrap(shown(without_secrets(text, self.terminal.secrets)), width and max(width - len(word), 1))
        if self.terminal.error_color and word:
            word = f"\x1b[{paint.value}m{word}\x1b[0m"
        for number, line in enumerate(lines or [""]):
            self._write_error(("  " if number else word) + line)

    def _write_error(self, text: str) -> None:
        with suppress(OSError):  # whoever flushes at the end says so
            self.terminal.stdout.flush()
        try:
            self.ask(text + "\n")
        except OSError:
            discard(self.terminal.stderr)  # nobody listens; the exit code still tells

    def ask(self, text: str) -> None:
        """Write to stderr as it is."""
        self.terminal.stderr.write(encode(text))
        self.terminal.stderr.flush()


class JsonArray:
    """JSON lines as one JSON array, a row a line; well-formed to the end even when reading fails on the way."""

    def __init__(self, out: Output) -> None:
        self._out = out
        self.started = False

    def data(self, chunk: bytes | bytearray | memoryview) -> None:
        """Add whole lines."""
        text = bytes(chunk)
        if text:
            self._out.data(b",\n" if self.started else b"[\n")
            self.started = True
            self._out.machine_data(text[:-1].replace(b"\n", b",\n"))

    def close(self) -> None:
        """End the array."""
        self._out.data(b"\n]\n" if self.started else b"[]\n")


def discard(stream: ByteSink) -> None:
    """Send what is still buffered nowhere, so that Python's own flush at exit cannot fail and change the exit code."""
    try:
        descriptor = stream.fileno()  # type: ignore[attr-defined]
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, descriptor)
        os.close(nowhere)
    except (AttributeError, OSError, ValueError):
        pass


def end_at_once(code: int) -> NoReturn:
    """End the process when its output is out, without the interpreter's own ending."""
    for stream in (sys.stdout, sys.stderr):
        # AttributeError: there is none.
        with suppress(OSError, ValueError, AttributeError):
            stream.flush()
    os._exit(code)


def dump_json(value: object, *, indent: int | None = None) -> str:
    """JSON text; `encode` makes escaped lone surrogates of bytes that were not UTF-8."""
    return json.dumps(
        value, ensure_ascii=False, indent=indent, allow_nan=False, separators=None if indent else (",", ":")
    )


def encode(text: str) -> bytes:
    """UTF-8; a surrogate escape is written as `\\udcff`, which is its JSON form."""
    return text.encode("utf-8", "backslashreplace")


def csv_cell(value: object) -> str:
    """One CSV field."""
    if value is None:
        return ""
    text = dump_json(value) if isinstance(value, bool | list | tuple | dict) else str(value)
    if not text or any(mark in text for mark in ',"\r\n') or text != text.strip():
        return '"' + text.replace('"', '""') + '"'
    return text


def shown(text: str) -> str:
    """The text with everything escaped that could disturb or deceive a terminal.

    Control and format characters (line breaks, escape sequences, text direction) and bytes that are not
    UTF-8.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(_shown_character(character) for character in text)


def harmless(text: str, form: Format) -> str:
    """Lines of CSV or JSON with everything escaped that `shown` escapes, but their ends; JSON stays JSON, of the same
    values.
    """
    return _UNUSUAL.sub(lambda match: (_shown_character if form is Format.CSV else _json_character)(match[0]), text)


def human_size(size: int) -> str:
    """`720 B`, `1.2 KiB`, `34 MiB`: three digits at most, powers of 1024."""
    if size < 1024:
        return f"{size} B"
    amount = float(size)
    for unit in ("KiB", "MiB", "GiB", "TiB", "PiB"):
        amount /= 1024
        if amount < 999.5 or unit == "PiB":
            break
    return f"{amount:.1f} {unit}" if amount < 9.95 else f"{amount:.0f} {unit}"


def human_age(seconds: float) -> str:
    """`40s`, `12m`, `5h`, `3d`: whole units, cut off."""
    seconds = max(seconds, 0)
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= size:
            return f"{int(seconds // size)}{unit}"
    return f"{int(seconds)}s"


def plural(count: int, one: str, many: str | None = None) -> str:
    """`1 file`, `2 files`, `1,234 files`."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def cut(text: str, width: int) -> str:
    """The beginning of a value that is longer, with an ellipsis."""
    if display_width(text) <= width:
        return text
    text = text[:width]
    while display_width(text) >= width:
        text = text[:-1]
    return text + "…"


def display_width(text: str) -> int:
    """Terminal columns that a text takes: wide East Asian characters take two, combining marks none."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(character) else 2 if unicodedata.east_asian_width(character) in "WF" else 1
        for character in text
    )


def _cell(value: object) -> Cell:
    if value is None:
        return _EMPTY
    if isinstance(value, Cell):
        text = shown(value.text)
        return value if text is value.text else Cell(text, value.paint)
    return Cell(shown(str(value)))


def _at(item: Any, path: Sequence[str]) -> object:
    """The value below an object of JSON, None where there is none."""
    for name in path:
        item = item.get(name) if isinstance(item, Mapping) else None
    return item


# A sentence in less room than this is easier to read below its row.
_SENTENCE_ROOM = 56


def _layout(columns: Sequence[Column], widths: list[int], limit: int | None) -> tuple[list[int], bool]:
    """Which columns are shown, and whether the sentence goes below; narrows the sentence's width in `widths`."""
    everything = list(range(len(columns)))
    if limit is None:
        return everything, False

    def total(chosen: Sequence[int]) -> int:
        return sum(widths[index] for index in chosen) + 2 * (len(chosen) - 1)

    terse = [index for index in everything if not columns[index].spare]
    for chosen in (everything, terse) if columns[-1].below else (everything,):
        room = widths[-1] + limit - total(chosen)
        if room >= widths[-1] or (columns[-1].below and room >= _SENTENCE_ROOM):
            widths[-1] = min(widths[-1], room)
            return chosen, False
    kept = [index for index in everything if not columns[index].below]
    while total(kept) > limit and any(columns[index].drop for index in kept):
        kept.remove(max(kept, key=lambda index: columns[index].drop))
    return kept, columns[-1].below


def wrap(text: str | Sequence[str], width: int | None, *, indent: str = "") -> list[str]:
    """Break a sentence at blanks, or a sequence of pieces between them; a longer word or piece stays whole."""
    words = text.split(" ") if isinstance(text, str) else text
    if not text:
        return []
    lines: list[str] = []
    line = ""
    for word in words:
        longer = f"{line} {word}" if line else word
        if line and width is not None and display_width(indent + longer) > width:
            lines.append(indent + line)
            longer = word
        line = longer
    return [*lines, indent + line]


_UNUSUAL = re.compile(r"[^\n -~]")


def _disturbs(character: str) -> bool:
    return unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp")


def _json_character(character: str) -> str:
    if not _disturbs(character):
        return character
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))


def _shown_character(character: str) -> str:
    if "\udc80" <= character <= "\udcff":
        return f"\\x{ord(character) - 0xDC00:02x}"
    if _disturbs(character):
        named = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}.get(character)
        code = ord(character)
        return named or (f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}")
    return character


def _is_terminal(stream: Any) -> bool:
    try:
        return bool(stream is not None and stream.isatty())
    except ValueError:
        return False


def _binary(stream: Any) -> ByteSink:
    """The bytes below a text stream; a stream that was closed by the caller swallows what it gets."""
    if stream is None:
        return open(os.devnull, "wb")
    if hasattr(stream, "buffer"):
        stream.flush()
        buffer: ByteSink = stream.buffer
        return buffer
    return _TextAsBinary(stream)


class _TextAsBinary:
    """Bytes for a stream that only takes text, such as a notebook's."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, data: bytes | bytearray | memoryview, /) -> int:
        self._stream.write(bytes(data).decode("utf-8", "replace"))
        return len(data)

    def flush(self) -> None:
        self._stream.flush()


def terminal_width() -> int:
    """COLUMNS, or the columns of the terminal behind stdout, or 80 (as shutil answers, which is slow to import)."""
    columns = os.environ.get("COLUMNS", "")
    if columns.isdecimal() and int(columns):
        return int(columns)
    try:
        return os.get_terminal_size(1).columns or 80
    except OSError:
        return 80


# What is done so far, the total, None when nobody knows it, and what to write beside the bar.
Show = Callable[[int, int | None, str], None]

# What is done sooner needs no bar.
PATIENCE = 0.5


@contextmanager
def progress(out: Output, title: str, unit: str) -> Iterator[ReportProgress]:
    """Show how far work is: a bar and the time left, or a count where no total is known."""
    with late_bar(out, title) as show:
        yield lambda done, total: show(
            done, total, f"{done:,} {unit}" if total is None else f"{done:,} of {total:,} {unit}"
        )


@contextmanager
def late_bar(out: Output, title: str) -> Iterator[Show]:
    """A bar for a person who watches, once the work has taken some time."""
    if not out.shows_progress:
        yield lambda done, total, text: None
        return
    started = time.monotonic()
    show: Show | None = None
    with ExitStack() as stack:

        def report(done: int, total: int | None, text: str) -> None:
            nonlocal show
            if show is None:
                if time.monotonic() - started < PATIENCE:
                    return
                show = stack.enter_context(bar(out, title))
            show(done, total, text)

        yield report


@contextmanager
def bar(out: Output, title: str) -> Iterator[Show]:
    """A bar on stderr, for a person who watches; Rich is loaded only when there is something to wait for."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.fields[text]}", markup=False),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    console = Console(stderr=True, force_terminal=True, no_color=not out.terminal.error_color)
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(title, total=None, text="")

        def show(done: int, total: int | None, text: str) -> None:
            bar.update(task, completed=done, total=total, text=text)

        yield show
