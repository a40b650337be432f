"""Options that commands share, and the decorator that makes a command of a function.

Every option can come from the environment (`ACIDCTL_PROFILE`, or `ACIDCTL_LS_PROFILE` for one command) and
from the configuration file, except those that agree to a risk.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO, TypeVar

import click

from acidctl.cli.main import Session
from acidctl.cli.output import Format, Output
from acidctl.config import Config, is_safety_option, load_config
from acidctl.errors import ExitCode, UsageError
from acidctl.storage.redact import secrets_among

Function = TypeVar("Function", bound=Callable[..., Any])

# The largest listing or list of ids that is read: some ten million lines.
_MAX_TEXT = 1 << 30

EXIT_MEANINGS = {
    ExitCode.DONE: "done",
    ExitCode.FAILED: "failed",
    ExitCode.USAGE: "wrong usage",
    ExitCode.FINDINGS: "answered, but with findings or with items left undone",
    ExitCode.NO_SUCH_TABLE: "no such table",
    ExitCode.NOT_ACID: "not an ACID table",
    ExitCode.NOT_ENOUGH_HISTORY: "not enough history for this snapshot",
    ExitCode.DAMAGED: "damaged data",
    ExitCode.STORAGE: "storage refused or unreachable, or a package or program is missing",
    ExitCode.STALE_PLAN: "the plan is stale, or was edited",
    ExitCode.INTERRUPTED: "interrupted",
}


@dataclass(frozen=True, slots=True)
class SnapshotOptions:
    """Which table ("" if none), which part of it, whose snapshot; texts are read from files already."""

    table: str
    storage_options: Mapping[str, Any]
    partitions: tuple[str, ...] = ()
    validtxns: tuple[str, ...] = ()
    as_of: int | None = None
    table_name: str | None = None
    list_format: str | None = None
    profile: str = "strict"
    schema: str | None = None
    table_type: str = "auto"

    def view(self) -> dict[str, Any]:
        """The keyword arguments by which the library takes lists, rules and schema."""
        known = {"profile": self.profile, "schema": self.schema, "table_type": self.table_type}
        return {**self.lists(), **known}

    def lists(self) -> dict[str, Any]:
        """The keyword arguments by which the library takes a reader's lists."""
        return {
            "validtxns": self.validtxns,
            "as_of": self.as_of,
            "table": self.table_name,
            "list_format": self.list_format,
        }


def option(*names: str, **settings: Any) -> Callable[[Function], Function]:
    """A click option that also listens to `ACIDCTL_<LONG_NAME>`; safety options listen to no variable."""
    long_name = next(name for name in names if name.startswith("--")).partition("/")[0].lstrip("-")
    if is_safety_option(long_name):
        settings["allow_from_autoenv"] = False
    else:
        settings.setdefault("envvar", "ACIDCTL_" + long_name.upper().replace("-", "_"))
    return click.option(*names, **settings)


def command(
    name: str,
    *,
    exits: Sequence[ExitCode],
    examples: Sequence[str],
    formats: Sequence[Format] = tuple(Format),
    settings: Mapping[str, Any] | None = None,
) -> Callable[[Callable[..., ExitCode]], click.Command]:
    """Make a click command of a function `f(out, config, **own_options) -> ExitCode`.

    Adds `-o`, `-q`, `-v`, `--config` and `--debug`; the help ends with the exit codes and lines to paste.
    """

    def decorate(function: Callable[..., ExitCode]) -> click.Command:
        def callback(**given: Any) -> ExitCode:
            ctx = click.get_current_context()
            session: Session = ctx.obj
            form, quiet, verbose = Format(given.pop("output")), given.pop("quiet"), given.pop("verbose")
            out = Output(session.terminal, form, quiet=quiet, verbose=verbose)
            session.set_output(out)
            return function(out, ctx.meta["acidctl.config"], **given)

        callback.__doc__ = function.__doc__
        callback.__click_params__ = getattr(function, "__click_params__", [])  # type: ignore[attr-defined]
        wrapped: Callable[..., ExitCode] = callback
        for add in reversed(_common(formats)):
            wrapped = add(wrapped)
        return click.command(name, epilog=_epilog(exits, examples), context_settings=dict(settings or {}))(wrapped)

    return decorate


def table_options(function: Function, *, required: bool = True) -> Function:
    """TABLE and what selects a part and a snapshot of it; the command takes them as one `options` value."""
    inner = function

    def gathered(out: Output, config: Config, **given: Any) -> ExitCode:
        location = given.pop("location") or ""
        schema = given.pop("schema")
        options = SnapshotOptions(
            table=location,
            storage_options=config.storage_options(location),
            partitions=given.pop("partition"),
            validtxns=read_texts(given.pop("validtxns"), "--validtxns"),
            as_of=given.pop("as_of"),
            table_name=given.pop("table_name"),
            list_format=given.pop("list_format"),
            profile=given.pop("profile"),
            schema=read_text(schema, "--schema") if schema is not None else None,
            table_type=given.pop("table_type"),
        )
        result: ExitCode = inner(out, config, options=options, **given)
        return result

    gathered.__doc__ = function.__doc__
    gathered.__click_params__ = getattr(function, "__click_params__", [])  # type: ignore[attr-defined]
    wrapped: Any = gathered
    for add in reversed((click.argument("location", metavar="TABLE", required=required), *_TABLE)):
        wrapped = add(wrapped)
    return wrapped  # type: ignore[no-any-return]


def read_texts(values: Sequence[str], name: str) -> tuple[str, ...]:
    """Each value, or each non-empty line of the file or stdin that it names (`@FILE`, `@-`)."""
    if list(values).count("@-") > 1:
        raise UsageError(f"{name} @- can be given once: stdin is read to its end")
    texts: list[str] = []
    for value in values:
        text = read_text(value, name)
        texts.extend(line.strip() for line in text.splitlines() if line.strip())
    return tuple(texts)


def read_text(value: str, name: str) -> str:
    """The value itself, or what `@FILE` or `@-` holds; empty text is refused, it never means "everything"."""
    text = value
    if value == "@-":
        text = read_stdin()
    elif value.startswith("@"):
        try:
            with open(value[1:], "rb") as stream:
                text = read_all(stream, value)
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            raise UsageError(f"{name} {value} cannot be read: {reason}", path=value[1:]) from error
    if not text.strip():
        where = f" ({value})" if value.startswith("@") else ""
        raise UsageError(f"{name} is empty{where}", hint="Leave the option out if you have no such text.")
    return text


def read_stdin() -> str:
    """All of stdin; nothing when the caller closed it."""
    return "" if sys.stdin is None else read_all(sys.stdin.buffer, "stdin")


def read_all(stream: BinaryIO, name: str) -> str:
    """The text of a stream; a UsageError for one that has no end, such as /dev/zero."""
    data = stream.read(_MAX_TEXT + 1)
    if len(data) > _MAX_TEXT:
        raise UsageError(f"{name} holds more than {_MAX_TEXT >> 20} MiB of text, which cannot be meant")
    return data.decode("utf-8", "surrogateescape")


def _common(formats: Sequence[Format]) -> list[Callable[[Any], Any]]:
    return [
        option(
            "-o",
            "--output",
            type=click.Choice([form.value for form in formats]),
            default=Format.TEXT.value,
            show_default=True,
            help="Form of the answer.",
        ),
        option("-q", "--quiet", is_flag=True, help="No notes and no progress on stderr."),
        option("-v", "--verbose", is_flag=True, help="More detail on stderr."),
        option(
            "--config",
            metavar="FILE",
            is_eager=True,
            expose_value=False,
            callback=_use_config,
            help="Configuration file.  [default: acidctl/config.toml in the user's configuration folder]",
        ),
        option("--debug", is_flag=True, expose_value=False, help="Show a Python traceback on failure."),
    ]


_TABLE: list[Callable[[Any], Any]] = [
    option(
        "--partition",
        metavar="KEY=VALUE[/...]",
        multiple=True,
        help="Only partitions with these values (`*` and `?` allowed); repeatable.",
    ),
    option(
        "--validtxns",
        metavar="TEXT|@FILE|@-",
        multiple=True,
        help="What the reader may see: a write-id list or a transaction list as Hive prints it; repeatable.",
    ),
    option(
        "--as-of",
        type=click.IntRange(min=0),
        metavar="N",
        help="Short for: write ids up to N, all committed.",
    ),
    option(
        "--table",
        "table_name",
        metavar="DB.NAME",
        help="Which table's list to take out of a list of several.",
    ),
    option(
        "--list-format",
        type=click.Choice(["hive2", "hive3", "hive4"]),
        help="Whose form --validtxns has, where it could be several.",
    ),
    option(
        "--profile",
        type=click.Choice(["strict", "hive4"]),
        default="strict",
        show_default=True,
        help="Whose rules decide: the safe ones, or Hive 4's to the letter.",
    ),
    option(
        "--schema",
        metavar="TEXT|@FILE",
        help="The columns as Hive knows them, or the text of SHOW CREATE TABLE.",
    ),
    option(
        "--table-type",
        type=click.Choice(["auto", "full", "insert-only"]),
        default="auto",
        show_default=True,
        help="What kind of transactional table it is.",
    ),
]


def _use_config(ctx: click.Context, _: click.Parameter, value: str | None) -> None:
    """Load the file first of all, so that it can give defaults to the options that follow."""
    config = load_config(value, os.environ)
    if config.skipped is not None:
        ctx.obj.output.warn(f"{config.skipped} may not be read by this user, so no configuration is used")
    secrets = secrets_among(config.storage) | secrets_among(config.spark)
    ctx.obj.terminal.secrets.update(secrets)
    if secrets and config.shared is not None:
        ctx.obj.output.warn(
            f"{config.shared} holds secrets, and other users may read it: run `chmod 600 {shlex.quote(config.shared)}`"
        )
    ctx.meta["acidctl.config"] = config
    ctx.meta["acidctl.config_file"] = value
    own = config.options.get(ctx.info_name or "", {})
    defaults = {key: item for key, item in config.options.items() if not isinstance(item, dict)}
    defaults.update(own if isinstance(own, dict) else {})
    by_option = {opt.lstrip("-"): param for param in ctx.command.params for opt in param.opts if opt.startswith("--")}
    ctx.default_map = {
        param.name: _default(key, item, many=param.multiple)
        for key, item in defaults.items()
        if isinstance(param := by_option.get(key.replace("_", "-")), click.Option) and param.name is not None
    }


def _default(name: str, item: object, *, many: bool) -> object:
    """A value of the configuration file as click takes defaults; only `many` values may be a list."""
    items = item if isinstance(item, list) and many else [item]
    if not all(isinstance(one, str | int | float) for one in items):
        raise UsageError(f"the configuration file sets {name} to {item!s}, which is no value of that option")
    return [str(one) for one in items] if many else item


def _epilog(exits: Sequence[ExitCode], examples: Sequence[str]) -> str:
    codes = "\n".join(f"  {int(code):>3}  {EXIT_MEANINGS[code]}" for code in exits)
    lines = "\n".join(f"  {line}" for line in examples)
    return f"\b\nExit codes:\n{codes}\n\n\b\nExamples:\n{lines}"
