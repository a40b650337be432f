"""Click options out of options classes, and the decorator that makes a command of a function.

Every option can come from the environment (`ACIDCTL_PROFILE`, or `ACIDCTL_LS_PROFILE` for one command) and
from the configuration file, except those that agree to a risk.
"""

from __future__ import annotations

import csv
import os
import re
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar

import click

from acidctl.api import Table, open_table
from acidctl.cli.main import Session
from acidctl.cli.output import Format, Output
from acidctl.config import Config, load_config, unknown_name
from acidctl.errors import ExitCode, NoSuchTableError, UsageError
from acidctl.options import (
    CleanOptions,
    CompactOptions,
    ExportOptions,
    LsOptions,
    Option,
    is_safety_option,
    option_of,
)
from acidctl.storage.named_files import open_regular
from acidctl.storage.redact import secrets_among

if TYPE_CHECKING:
    from acidctl.by_name import Metastore

Engined = TypeVar("Engined", CompactOptions, ExportOptions)

# The largest listing or list of ids that is read: some ten million lines. A plan takes some times its size in memory.
MAX_TEXT, MAX_PLAN = 1 << 30, 128 << 20

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

# What every command about tables or files may end with.
TABLE_EXITS = (
    *(ExitCode.DONE, ExitCode.FAILED, ExitCode.USAGE, ExitCode.FINDINGS, ExitCode.NO_SUCH_TABLE, ExitCode.NOT_ACID),
    *(ExitCode.DAMAGED, ExitCode.STORAGE, ExitCode.INTERRUPTED),
)


def command(
    name: str,
    *takes: type,
    examples: Sequence[str],
    also: Sequence[ExitCode] = (),
    exits: Sequence[ExitCode] = TABLE_EXITS,
    arguments: Sequence[Callable[[Any], Any]] = (),
    settings: Mapping[str, Any] | None = None,
) -> Callable[[Callable[..., ExitCode]], click.Command]:
    """Make a click command of a function `f(out, config, *options, **arguments) -> ExitCode`.

    Its `options` are a value of each class of `takes`, filled by the click options of its fields. Adds those that all
    commands have; the help ends with the exit codes, `also` among them, and lines to paste.
    """

    def decorate(function: Callable[..., ExitCode]) -> click.Command:
        def callback(**given: Any) -> ExitCode:
            ctx = click.get_current_context()
            form, header = Format(given.pop("output")), not given.pop("no_header")
            shown = {"quiet": given.pop("quiet"), "verbose": given.pop("verbose")}
            session: Session = ctx.obj
            session.output = out = Output(session.terminal, form, header=header, **shown)
            values = [_filled(kind, given) for kind in takes]
            return function(out, ctx.meta["acidctl.config"], *values, **given)

        callback.__doc__ = function.__doc__
        wrapped: Callable[..., ExitCode] = callback
        for add in reversed([*arguments, *(add for kind in takes for add in _options_of(kind)), *_common()]):
            wrapped = add(wrapped)
        codes = [f"  {int(code):>3}  {EXIT_MEANINGS[code]}" for code in sorted([*exits, *also])]
        sections = (("Exit codes", codes), ("Examples", [f"  {line}" for line in examples]))
        epilog = "\n\n".join("\n".join(["\b", f"{title}:", *lines]) for title, lines in sections)
        return click.command(name, epilog=epilog, context_settings=dict(settings or {}))(wrapped)

    return decorate


def table_argument(*, required: bool = True) -> Callable[[Any], Any]:
    """TABLE, and the metastore in which it may be a name; `table_of` opens it."""
    argument = click.argument("location", metavar="TABLE", required=required, default=None if required else "")
    where = metastore_option()
    return lambda function: argument(where(function))


def metastore_option() -> Callable[[Any], Any]:
    """--metastore; its value is for `metastore_of` alone."""

    def keep(ctx: click.Context, _: click.Parameter, value: str | None) -> None:
        ctx.meta["acidctl.metastore"] = value

    return option(
        "--metastore",
        metavar="URI[,URI...]",
        expose_value=False,
        callback=keep,
        help="Tables by name: thrift://host:9083.  [default: that of the configuration file, else of hive-site.xml]",
    )


def metastore_is_given(context: click.Context) -> bool:
    """Whether --metastore stands on the command line."""
    return context.get_parameter_source("metastore") is click.core.ParameterSource.COMMANDLINE


def metastore_of(config: Config) -> Metastore | None:
    """The metastore that is named; None where none is. Connects with the first question, until the command ends."""
    from acidctl.by_name import Metastore, find_metastore

    ctx = click.get_current_context()
    settings = find_metastore(ctx.meta.get("acidctl.metastore"), config.metastore, os.environ)
    if settings is None:
        return None
    ctx.obj.terminal.secrets.update(settings.secrets)
    metastore = Metastore(settings, storage_options=config.storage_options)
    ctx.call_on_close(metastore.close)
    return metastore


def require_metastore(config: Config) -> Metastore:
    """The metastore that is named; UsageError where none is."""
    found = metastore_of(config)
    if found is None:
        raise UsageError(
            "no metastore is named",
            hint="Give --metastore thrift://host:9083, or set ACIDCTL_METASTORE, uris in [metastore] of the "
            "configuration file, or HIVE_CONF_DIR.",
        )
    return found


def by_name(config: Config, location: str) -> tuple[Metastore | None, str]:
    """The metastore in which TABLE is a name, if it is one, and the name without the address.

    What has a slash in it is a path, and so is what exists here; only with --metastore the name comes first.
    """
    context = click.get_current_context()
    if location.startswith("thrift://"):
        from acidctl.by_name import split_url

        context.meta["acidctl.metastore"], name = split_url(location)
        return metastore_of(config), name
    # The variable is there for all commands, as the configuration is.
    given = metastore_is_given(context)
    if "/" in location or location in ("", ".", "..") or (not given and os.path.lexists(location)):
        return None, location
    return metastore_of(config), location


def table_of(config: Config, location: str) -> Table:
    """The table that TABLE says: a path or URL; else, where a metastore is named, `database.table` or `table`."""
    found, name = by_name(config, location)
    if found is not None:
        return found.table(name)
    if "/" not in location and "." in location.strip(".") and not os.path.lexists(location):
        raise NoSuchTableError(
            f"{location} does not exist",
            path=location,
            hint="Check the path; a table of a metastore needs --metastore thrift://host:9083.",
        )
    return open_table(location, storage_options=config.storage_options(location))


def option(*names: str, **settings: Any) -> Callable[[Any], Any]:
    """A click option that also listens to `ACIDCTL_<LONG_NAME>`; safety options listen to no variable."""
    long_name = next(name for name in names if name.startswith("--")).lstrip("-")
    if is_safety_option(long_name):
        settings["allow_from_autoenv"] = False
    else:
        settings.setdefault("envvar", "ACIDCTL_" + long_name.upper().replace("-", "_"))
    return click.option(*names, **settings)


class _Words(click.Choice):  # type: ignore[type-arg]  # generic from click 8.2 on
    """A choice that also takes `ready for cleaning`, as outputs and Hive show `ready_for_cleaning`."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return super().convert(value.replace(" ", "_") if isinstance(value, str) else value, param, ctx)


def flag_of(one: Any) -> str:
    """The long name of an options class's field on the command line."""
    asked = option_of(one)
    flags = asked.flags if asked is not None else ()
    return next((flag for flag in flags if flag.startswith("--")), "--" + one.name.replace("_", "-"))


def _asked(kind: type) -> Iterator[tuple[Any, Option, str]]:
    """The fields of an options class that are asked for, each with the name of its parameter."""
    for one in fields(kind):
        if asked := option_of(one):
            own = one.name if asked.form == "argument" else flag_of(one).lstrip("-").replace("-", "_")
            yield one, asked, asked.param or own


def _filled(kind: type, given: dict[str, Any]) -> Any:
    """A value of an options class, its fields taken out of what click has read; arguments of the same name too."""
    values = {}
    for one, asked, param in _asked(kind):
        value = given.pop(param)
        # Files and stdin are read when the whole command line is understood.
        read = TEXTS[asked.form](value, flag_of(one)) if value and asked.form in TEXTS else value
        values[one.name] = one.default if read is None else read
    return kind(**values)


def _options_of(kind: type) -> list[Callable[[Any], Any]]:
    """The click options of an options class."""
    made = []
    for one, asked, param in _asked(kind):
        if asked.form == "argument":
            continue
        settings: dict[str, Any] = {"help": asked.help, "metavar": asked.metavar}
        shown = asked.shown if asked.shown is not None else one.default
        if asked.bare is not None:
            settings |= {"is_flag": False, "flag_value": asked.bare}
        elif isinstance(one.default, bool):
            settings["is_flag"] = True
        elif asked.repeat:
            settings["multiple"] = True
        elif shown not in (None, (), ""):
            settings |= {"default": shown, "show_default": True}
        if asked.choices:
            settings["type"] = _Words(asked.choices)
        elif asked.minimum is not None:
            settings["type"] = click.IntRange(asked.minimum, asked.maximum)
        elif asked.form == "integer":
            settings["type"] = int
        if asked.form in FORMS:
            settings["callback"] = _reader(FORMS[asked.form])
        flags = asked.flags if flag_of(one) in asked.flags else (*asked.flags, flag_of(one))
        made.append(option(*flags, param, **settings))
    return made


def _reader(read: Callable[[Any], Any]) -> Callable[[click.Context, click.Parameter, Any], Any]:
    """A callback of click; what `read` refuses with a ValueError is shown with the name of the option."""

    def callback(ctx: click.Context, param: click.Parameter, value: Any) -> Any:
        try:
            return None if value is None else read(value)
        except ValueError as error:
            raise click.BadParameter(str(error), ctx, param) from error

    return callback


# --- Texts that are given as such, or are read from files.


def read_texts(values: Sequence[str], name: str) -> tuple[str, ...]:
    """Each value, or each non-empty line of the file or stdin that it names (`@FILE`, `@-`)."""
    if list(values).count("@-") > 1:
        raise UsageError(f"{name} @- can be given once: stdin is read to its end")
    texts: list[str] = []
    for value in values:
        text = read_text(value, name)
        texts.extend(line.strip() for line in text.splitlines() if line.strip())
    return tuple(texts)


def read_text(value: str, name: str, limit: int | None = None) -> str:
    """The value itself, or what `@FILE` or `@-` holds, of at most `limit` bytes; empty text is refused, it never means
    "everything".
    """
    text = value
    if value == "@-":
        text = read_stdin(limit)
    elif value.startswith("@"):
        text = read_file(value[1:], f"{name} {value}", value, limit)
    if not text.strip():
        where = f" ({value})" if value.startswith("@") else ""
        raise UsageError(f"{name} is empty{where}", hint="Leave the option out if you have no such text.")
    return text


def read_file(path: str, option: str, name: str, limit: int | None = None) -> str:
    """The text of a file that `option` names: a regular one, or what the shell has opened (`<(...)`, /dev/stdin)."""
    try:
        with open_regular(path, or_open_already=True) as stream:
            return _read_all(stream, name, limit)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise UsageError(f"{option} cannot be read: {reason}", path=path) from error


def read_stdin(limit: int | None = None) -> str:
    """All of stdin; nothing when the caller closed it."""
    return "" if sys.stdin is None else _read_all(sys.stdin.buffer, "stdin", limit)


def _read_all(stream: BinaryIO, name: str, limit: int | None) -> str:
    """The text of a stream; a UsageError for one that is too long, or has no end, such as /dev/zero."""
    limit, size = MAX_TEXT if limit is None else limit, 0
    with suppress(OSError, ValueError):  # a notebook's stdin has no descriptor
        size = os.fstat(stream.fileno()).st_size
    # What is too long is not read into memory to say so.
    data = b"" if size > limit else stream.read(limit + 1)
    if max(size, len(data)) > limit:
        raise UsageError(
            f"{name} holds more than {limit >> 20} MiB of text",
            hint="If it is the right file, divide it; plans are made smaller with --partition or --max-partitions.",
        )
    return data.decode("utf-8", "surrogateescape")


# --- Sizes, durations, fractions and lists of names as people write them: `20G`, `90m`, `10%`, `a,b`.


_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?", re.IGNORECASE)
_UNITS = {"": 0, "k": 10, "m": 20, "g": 30, "t": 40}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*([smhdw])", re.IGNORECASE)
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}
# What a 64-bit number of bytes holds; and a hundred years, which every timer takes.
_LARGEST_SIZE, _LARGEST_SIZE_TEXT = 8388607 << 40, "8388607T"
_LONGEST, _LONGEST_TEXT = 36500 * 86400, "36500d"
_FRACTION = re.compile(r"(\d+(?:\.\d+)?|\.\d+)\s*(%?)")


def size(text: str) -> int:
    """Bytes: a number, or one with K, M, G or T behind it (powers of 1024)."""
    found = _SIZE.fullmatch(text.strip())
    if found is None or float(found[1]) <= 0:
        raise ValueError(f"{text!r} is not a size (use 512M or 20G)")
    amount = float(found[1]) * (1 << _UNITS[found[2].lower()])
    if amount > _LARGEST_SIZE:
        raise ValueError(f"{_short(text)} is too large: a size is at most {_LARGEST_SIZE_TEXT}")
    return int(amount)


def seconds_of(text: str, kind: str = "a duration (use 45s, 90m or 2h)") -> float:
    """Seconds of `45s`, `90m`, `24h`, `7d`, `2w`."""
    found = _DURATION.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"{text!r} is not {kind}")
    seconds = float(found[1]) * _SECONDS[found[2].lower()]
    if seconds > _LONGEST:
        raise ValueError(f"{_short(text)} is too long: a duration is at most {_LONGEST_TEXT}")
    return seconds


def _duration(text: str) -> float:
    """Seconds of a duration that may not be 0."""
    seconds = seconds_of(text)
    if not seconds:
        raise ValueError(f"{text!r} is not a duration (use 45s, 90m or 2h)")
    return seconds


def _pause(text: str) -> float:
    """Seconds between two looks, with a unit or without."""
    seconds = seconds_of(f"{text}s" if re.fullmatch(r"[\d.]+", text) else text, "a pause (use 2, 10s or 5m)")
    if not seconds:
        raise ValueError("0 would ask without a pause; use 1 or more")
    return seconds


def _age(text: str) -> float:
    """Seconds of an age; 0 is refused, because what means "no retention" has a name of its own."""
    seconds = seconds_of(text, "an age (use 90m, 24h or 7d)")
    if seconds <= 0:
        raise ValueError("0 would protect no reader; use --unsafe-no-retention if you mean it")
    return seconds


def _column_names(text: str) -> tuple[str, ...]:
    """Names with commas between; backticks around one that holds a comma."""
    # Backticks as in SQL: a doubled one stands for itself.
    (names,) = csv.reader([text.replace("\n", " ")], quotechar="`", skipinitialspace=True)
    found = tuple(name.strip() for name in names)
    if not found or not all(found):
        raise ValueError(f"{_short(text)} leaves a name empty; write it as a,b")
    return found


def _url(text: str) -> str:
    """A variable of a script that is not set names nothing."""
    if not text:
        raise ValueError("it is empty")
    return text


def _fraction(text: str) -> float:
    """A fraction: `0.1`, or `10%`."""
    found = _FRACTION.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"{text!r} is not a fraction (use 0.1 or 10%)")
    return float(found[1]) / (100 if found[2] else 1)


def _short(value: str) -> str:
    """A value as it is quoted: of hundreds of digits the first few."""
    return repr(value if len(value) <= 40 else f"{value[:40]}...")


def _settings(texts: Sequence[str]) -> dict[str, str]:
    """Spark settings: `spark.executor.memory=4g`."""
    found = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key.startswith("spark."):
            # What follows the key may be a secret, however it was set apart.
            start = re.split(r"[=:\s]", text, maxsplit=1)[0]
            raise UsageError(
                f"--spark-conf {start!r} is not a Spark setting",
                hint="Write it as spark.executor.memory=4g, for example.",
            )
        found[key] = value
    return found


def with_engine(config: Config, options: Engined) -> Engined:
    """The options with what [spark] of the configuration file says of the engine: the command line's settings win over
    it, and `--engine local` over all of it.
    """
    own = dict(config.spark)
    configured = own.pop("master", None)
    if configured is not None and not isinstance(configured, str):
        raise UsageError("[spark] in the configuration file: master has to be a text such as yarn")
    conf = dict(_flat("", own)) | dict(options.conf or {})
    master = options.master
    if options.engine == "local" and master is None and not options.conf:
        conf = {}
    elif master is None:
        master = configured
    if options.engine == "auto" and master is None and not options.conf:
        conf = {}
    return replace(options, master=master, conf=conf)


def _flat(prefix: str, values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """TOML's nested tables as Spark's dotted keys."""
    for key, value in values.items():
        name = f"{prefix}.{key}" if prefix else key
        if isinstance(value, Mapping):
            yield from _flat(name, value)
        elif name.startswith("spark."):
            yield name, str(value).lower() if isinstance(value, bool) else str(value)
        else:
            raise UsageError(f"[spark] in the configuration file: {name} is neither master nor a key like spark.x.y")


# How the value of an option is read, by the `form` of its field.
FORMS: Mapping[str, Callable[[Any], Any]] = {
    "size": size,
    "duration": _duration,
    "duration or 0": lambda text: 0.0 if text.strip() == "0" else seconds_of(text),
    "age": _age,
    "pause": _pause,
    "fraction": _fraction,
    "names": _column_names,
    "columns": lambda text: tuple(name.strip() for name in text.split(",") if name.strip()),
    "settings": _settings,
    "URL": _url,
}
TEXTS: Mapping[str, Callable[[Any, str], Any]] = {"text": read_text, "texts": read_texts}


def _common() -> list[Callable[[Any], Any]]:
    return [
        option("--no-header", is_flag=True, help="Omit the CSV header."),
        option(
            "-o",
            "--output",
            type=click.Choice([form.value for form in Format]),
            default=Format.TEXT.value,
            show_default=True,
            help="Output format.",
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


def _use_config(ctx: click.Context, _: click.Parameter, value: str | None) -> None:
    """Load the file first of all, so that it can give defaults to the options that follow."""
    config = load_config(value, os.environ)
    if config.skipped is not None:
        ctx.obj.output.warn(f"{config.skipped} may not be read by this user, so no configuration is used")
    secrets = secrets_among(config.storage) | secrets_among(config.spark) | secrets_among(config.metastore)
    ctx.obj.terminal.secrets.update(secrets)
    if secrets and config.shared is not None:
        ctx.obj.output.warn(
            f"{config.shared} holds secrets, and other users may read it: run `chmod 600 {shlex.quote(config.shared)}`"
        )
    _require_known(ctx, config)
    ctx.meta["acidctl.config"] = config
    ctx.meta["acidctl.config_file"] = value
    own = config.options.get(ctx.info_name or "", {})
    defaults = {key: item for key, item in config.options.items() if not isinstance(item, dict)}
    defaults.update(own if isinstance(own, dict) else {})
    by_option = _by_option(ctx.command)
    ctx.default_map = {
        param.name: _default(key, item, many=param.multiple)
        for key, item in defaults.items()
        if isinstance(param := by_option.get(key.replace("_", "-")), click.Option) and param.name is not None
    }


def _by_option(command: click.Command) -> dict[str, click.Parameter]:
    """The parameters of a command by their long names."""
    return {opt.lstrip("-"): param for param in command.params for opt in param.opts if opt.startswith("--")}


def _require_known(ctx: click.Context, config: Config) -> None:
    """UsageError for a key of the configuration file that is no option: the one that was meant would have no effect."""
    if config.metastore:
        from acidctl.metastore.settings import FIELDS

        for key in config.metastore.keys() - set(FIELDS):
            raise unknown_name(config.path, f"key {key} in [metastore]", key, dict(zip(FIELDS, FIELDS, strict=True)))
    if not config.options:
        return
    group, own = ctx.parent.command if ctx.parent is not None else None, ctx.info_name or ""
    commands = group.list_commands(ctx) if isinstance(group, click.Group) else [own]
    shared = {
        flag_of(one).lstrip("-")
        for kind in (LsOptions, CompactOptions, CleanOptions, ExportOptions)
        for one, asked, _ in _asked(kind)
        if asked.form != "argument"
    }

    def options(name: str) -> Iterable[str]:
        # Loads its module, which takes time: asked only for what no class of options has.
        found = ctx.command if name == own or not isinstance(group, click.Group) else group.get_command(ctx, name)
        return () if found is None else _by_option(found)

    def require(key: str, place: str, where: Sequence[str]) -> None:
        word = key.replace("_", "-")
        if (word in shared and where != [own]) or any(word in options(name) for name in where):
            return
        near = {one.replace("-", "_"): one.replace("-", "_") for name in where for one in options(name)}
        raise unknown_name(
            config.path,
            f"key {key} in [{place}]",
            key.replace("-", "_"),
            near,
            f"Its keys are the long names of options, as in `acidctl {where[0] if len(where) == 1 else own} --help`.",
        )

    for key, item in config.options.items():
        if not isinstance(item, dict):
            require(key, "options", sorted(commands, key=lambda name: name != own))
        elif key not in commands:
            raise unknown_name(
                config.path, f"section [options.{key}]", key, {one: f"[options.{one}]" for one in commands}
            )
        else:
            for inner in item:
                require(inner, f"options.{key}", [key])


def _default(name: str, item: object, *, many: bool) -> object:
    """A value of the configuration file as click takes defaults; only `many` values may be a list."""
    items = item if isinstance(item, list) and many else [item]
    if not all(isinstance(one, str | int | float) for one in items):
        raise UsageError(f"the configuration file sets {name} to {item!s}, which is not a value of that option")
    if many:
        return [str(one) for one in items]
    # An option judges what is typed: of numbers beyond any option, texts are what it knows to refuse.
    return item if isinstance(item, bool) else str(item)
