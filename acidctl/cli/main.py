"""The command group: finds a command, runs it, and turns whatever happens into an answer and an exit code.

Commands are imported when they run, never for `--help`; their one-line descriptions stand here for that
reason.
"""

from __future__ import annotations

import errno
import importlib
import os
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

import click

from acidctl import __version__
from acidctl.cli.output import Format, Output, Terminal, discard, end_at_once, system_terminal, terminal_width
from acidctl.cli.process import interrupts_reach_us, nothing_is_left, own_stderr
from acidctl.engine import set_up_process
from acidctl.errors import AcidctlError, ExitCode, InternalError, StorageError, UsageError
from acidctl.storage.redact import secrets_given, without_secrets

# Each is a module of this package, but for those of `_TOGETHER`, and the line that lists it.
COMMANDS = {
    "ls": "List every directory with its state, and say why.",
    "snapshot": "Show what a reader with a given snapshot sees.",
    "dump": "Show the contents of an ORC file, with ACID columns decoded.",
    "clean": "Show what no reader can reach any more, and remove it.",
    "decode-bucket": "Decode bucket numbers, file and directory names.",
    "compact": "Compact deltas into fewer directories; verify, then publish.",
    "lists": "Print the lists of a table as a metastore has them now.",
    "txns": "Show open and aborted transactions of a metastore.",
    "locks": "Show the locks of a metastore.",
    "compactions": "Show the compaction queue of a metastore.",
    "worker": "Serve the compaction queue of a Hive 4 metastore.",
}
_TOGETHER = {"lists": "activity", "txns": "activity", "locks": "activity", "compactions": "activity"}

_MAX_HELP_WIDTH = 100
# What a shell reports for a program that SIGPIPE ended.
_PIPE_CLOSED = 141
_CANNOT_WRITE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})


class Session:
    """One run: its terminal, and the output that the command has set up (errors take that form)."""

    def __init__(self, terminal: Terminal, args: Sequence[str]) -> None:
        self.terminal = terminal
        self.output = Output(terminal, _asked_form(args))


class _Interrupted(AcidctlError):
    """Ctrl-C."""

    exit_code = ExitCode.INTERRUPTED
    code = "interrupted"


class AcidctlGroup(click.Group):
    """Loads a command's module when the command is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """In the order of their use."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """None for an unknown name."""
        if cmd_name not in COMMANDS:
            return None
        own = cmd_name.replace("-", "_")
        module = importlib.import_module(f"acidctl.cli.{_TOGETHER.get(cmd_name, own)}")
        command = getattr(module, own if cmd_name in _TOGETHER else "command")
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """From the table above, without importing anything."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def main(self, args: Sequence[str] | None = None, *rest: Any, **extra: Any) -> NoReturn:
        """Run and exit; click's own ending would print other texts and return other codes."""
        words = sys.argv[1:] if args is None else args
        with own_stderr(with_panics=_debugs(words)):
            code = run(words)
        # A thread that an interrupt has left at work in C++ would make the interpreter's own ending an abort.
        if code == ExitCode.INTERRUPTED or nothing_is_left():
            end_at_once(code)
        sys.exit(code)


@click.group(
    "acidctl",
    cls=AcidctlGroup,
    context_settings={
        "help_option_names": ["-h", "--help"],
        "auto_envvar_prefix": "ACIDCTL",
    },
    epilog="\b\nExamples:\n  acidctl ls /warehouse/orders\n  acidctl snapshot /warehouse/orders --count",
)
# A container may well carry its version in ACIDCTL_VERSION.
@click.version_option(__version__, prog_name="acidctl", allow_from_autoenv=False)
def cli() -> None:
    """Inspect, read, compact and clean Hive ACID tables without Hive."""


def main() -> NoReturn:
    """The console script."""
    set_up_process()
    cli.main()


def run(args: Sequence[str], terminal: Terminal | None = None) -> int:
    """Run one command line and return its exit code; never raises."""
    session = Session(terminal or system_terminal(), args)
    session.terminal.secrets.update(secrets_given(args))
    try:
        width = min(terminal_width(), _MAX_HELP_WIDTH)
        with interrupts_reach_us():
            try:
                with cli.make_context("acidctl", list(args), obj=session, terminal_width=width) as ctx:
                    code = int(cli.invoke(ctx) or ExitCode.DONE)
            except click.exceptions.Exit as exit_request:
                code = exit_request.exit_code
        session.output.flush()
        return code
    except BrokenPipeError:
        # The reader of our output has seen enough (`| head`): nothing to say.
        discard(session.terminal.stdout)
        return _PIPE_CLOSED
    except (KeyboardInterrupt, click.Abort):
        try:
            session.output.error(_Interrupted("interrupted"))
        except KeyboardInterrupt:
            # A reader that does not read (a pager) must not hold us, nor a second Ctrl-C be another failure.
            discard(session.terminal.stdout)
        return ExitCode.INTERRUPTED
    except AcidctlError as error:
        return _fail(session, args, error)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        return ExitCode.USAGE
    except click.ClickException as error:
        return _fail(session, args, _usage_error(error))
    except Exception as error:
        return _fail(session, args, _translated(error))


def _fail(session: Session, args: Sequence[str], error: AcidctlError) -> int:
    if _debugs(args):
        import traceback

        click.echo(without_secrets(traceback.format_exc(), session.terminal.secrets), err=True, nl=False)
    try:
        session.output.flush()  # rows already answered stay whole; the error follows them
    except (AcidctlError, OSError):
        discard(session.terminal.stdout)
    session.output.error(error)
    return error.exit_code


def _debugs(args: Sequence[str]) -> bool:
    return "--debug" in args or bool(os.environ.get("ACIDCTL_DEBUG"))


def _translated(error: Exception) -> AcidctlError:
    """What an exception means that is none of ours."""
    text = " ".join(str(error).split())
    if isinstance(error, MemoryError):
        message = "there is not enough memory" + (f": {text}" if text else "")
        return AcidctlError(message, hint="Give the process more memory (ulimit -v, the cgroup, other programs).")
    if isinstance(error, OSError) and error.errno in _CANNOT_WRITE:  # click prints help past our Output
        return StorageError(f"the answer cannot be written: {error.strerror}")
    if isinstance(error, OverflowError) and "_PyTime_t" in text:  # any pause or time limit after the year 2261
        return AcidctlError("the clock of this machine shows a time after the year 2261", hint="Set the clock.")
    message = f"unexpected {type(error).__name__}" + (f": {text}" if text else "")
    hint = "This is a fault of acidctl: please report it, with what the same command prints with --debug."
    return InternalError(message, hint=hint)


def _usage_error(error: click.ClickException) -> UsageError:
    ctx = getattr(error, "ctx", None)
    message = error.format_message().strip()
    path = ctx.command_path if ctx is not None else "acidctl"
    first = message[:1].lower() + message[1:]
    return UsageError(first.rstrip("."), hint=f"`{path} --help` shows how it is used.")


def _asked_form(args: Sequence[str]) -> Format:
    """The form that `-o` asks for, read before options are parsed: even a usage error takes it."""
    chosen = os.environ.get("ACIDCTL_OUTPUT", "text")
    for index, word in enumerate(args):
        if word in ("-o", "--output") and index + 1 < len(args):
            chosen = args[index + 1]
        elif word.startswith("--output="):
            chosen = word.partition("=")[2]
        elif word.startswith("-o") and len(word) > 2:
            chosen = word[2:]
    try:
        return Format(chosen)
    except ValueError:
        return Format.TEXT
