"""The front door: help, usage errors, forms of errors, interruptions, pipes, configuration."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import termios
import time
from pathlib import Path

import click
import pytest

from acidctl import __version__
from acidctl.cli import decode_bucket
from acidctl.cli.main import COMMANDS, cli
from acidctl.options import is_safety_option
from tests.cli.runner import acidctl, heed_interrupts

COMMAND = [sys.executable, "-m", "acidctl"]


def _run(*args: str, stdin: bytes = b"", env: dict[str, str] | None = None) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [*COMMAND, *args], input=stdin, capture_output=True, timeout=60, env={**os.environ, **(env or {})}
    )


def _raising(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    """Make decode-bucket fail with an error of any kind."""

    def fail(value: str) -> None:
        raise error

    monkeypatch.setattr(decode_bucket, "decode_value", fail)


def test_help_and_version_answer_on_stdout() -> None:
    """Both exit with 0; a bare `acidctl` is wrong usage and shows the help on stderr."""
    assert _run("--version").stdout.decode().strip() == f"acidctl, version {__version__}"
    shown = _run("-h")
    assert shown.returncode == 0
    assert all(name in shown.stdout.decode() for name in COMMANDS)
    bare = _run()
    assert (bare.returncode, bare.stdout) == (2, b"")
    assert b"Commands:" in bare.stderr


def test_an_unknown_command_is_one_sentence() -> None:
    """In text and in JSON, with exit code 2."""
    text = acidctl("frobnicate")
    assert (text.code, text.stdout) == (2, "")
    assert text.stderr.startswith("error: no such command 'frobnicate'")
    assert acidctl("frobnicate", "-o", "json").error()["code"] == "usage"


@pytest.mark.parametrize("form", [["-o", "json"], ["--output=jsonl"], ["-ocsv"], ["--output", "json"]])
def test_machine_forms_get_their_errors_as_json(form: list[str]) -> None:
    """Also those that are found before the options are understood."""
    result = acidctl("decode-bucket", *form, "--encode", "--bucket", "x")
    assert (result.code, result.stdout) == (2, "")
    assert set(result.error()) == {"code", "message", "path", "hint"}


def test_an_unexpected_failure_asks_for_a_report(monkeypatch: pytest.MonkeyPatch) -> None:
    """One sentence and exit code 1; the traceback only on demand."""
    _raising(monkeypatch, ZeroDivisionError("nobody\nexpected this"))
    result = acidctl("decode-bucket", "1")
    assert (result.code, result.stdout) == (1, "")
    assert result.stderr.startswith("error: unexpected ZeroDivisionError: nobody expected this\n")
    assert "please report" in result.stderr
    assert "Traceback" not in result.stderr
    assert acidctl("decode-bucket", "1", "-o", "json").error()["code"] == "internal"


def test_debug_shows_the_traceback(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """By option or by environment."""
    _raising(monkeypatch, ZeroDivisionError("x"))
    acidctl("decode-bucket", "1", "--debug")
    assert "Traceback" in capsys.readouterr().err
    monkeypatch.setenv("ACIDCTL_DEBUG", "1")
    acidctl("decode-bucket", "1")
    assert "Traceback" in capsys.readouterr().err


def _wait_until_read(pipe: int) -> None:
    """Return when the other end has taken what was written."""
    unread = b"\1"
    while any(unread):
        time.sleep(0.02)
        unread = fcntl.ioctl(pipe, termios.FIONREAD, bytes(4))


def test_ctrl_c_ends_a_waiting_process() -> None:
    """A real SIGINT, while the command reads stdin."""
    process = subprocess.Popen(
        [*COMMAND, "ls", "/", "--validtxns", "@-"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=heed_interrupts,
    )
    assert process.stdin is not None
    process.stdin.write(b"1")
    process.stdin.flush()
    _wait_until_read(process.stdin.fileno())
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=30)
    assert (process.returncode, stdout) == (130, b"")
    assert stderr.decode().strip() == "error: interrupted"


def test_a_closed_pipe_ends_quietly() -> None:
    """`acidctl ... | head -1`: no traceback, no message, the exit code of SIGPIPE."""
    numbers = [str(number) for number in range(20000)]
    process = subprocess.Popen(
        [*COMMAND, "decode-bucket", "-o", "jsonl", *numbers], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.readline()
    process.stdout.close()
    assert process.stderr.read() == b""
    assert process.wait(timeout=60) == 141
    process.stderr.close()


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full on this system")
def test_a_full_disk_is_an_error() -> None:
    """An answer that could not be written is never a success."""
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [*COMMAND, "decode-bucket", "1"], stdout=full, stderr=subprocess.PIPE, timeout=60, check=False
        )
    assert done.returncode == 14
    assert b"cannot be written: No space left on device" in done.stderr


def test_streams_that_the_caller_closed_do_no_harm() -> None:
    """`acidctl ... >&-`."""
    done = subprocess.run(
        ["sh", "-c", f"{sys.executable} -m acidctl decode-bucket 1 >&- 2>&-"], timeout=60, check=False
    )
    assert done.returncode == 0


@pytest.mark.parametrize("name", COMMANDS)
def test_the_summary_is_what_the_command_says(name: str) -> None:
    """The static line in the group's help is no invention."""
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    assert command.name == name
    assert command.help


def test_safety_options_listen_to_the_command_line_only() -> None:
    """An environment variable or a forgotten configuration must never delete anything."""
    for name in COMMANDS:
        command = cli.get_command(click.Context(cli), name)
        assert command is not None
        for param in command.params:
            if any(is_safety_option(opt) for opt in param.opts):
                assert param.envvar is None
                assert not getattr(param, "allow_from_autoenv", True)
            elif isinstance(param, click.Option):
                assert param.envvar, f"{name} {param.opts} does not listen to the environment"


def test_options_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """For all commands or for one; the command line wins."""
    monkeypatch.setenv("ACIDCTL_OUTPUT", "jsonl")
    assert acidctl("decode-bucket", "3").json_lines()[0]["value"] == 3
    monkeypatch.setenv("ACIDCTL_OUTPUT", "json")
    assert "values" in acidctl("decode-bucket", "3").json()
    assert acidctl("decode-bucket", "3", "-o", "csv").csv()[1][0] == "3"
    monkeypatch.delenv("ACIDCTL_OUTPUT")
    monkeypatch.setenv("ACIDCTL_DECODE_BUCKET_OUTPUT", "csv")
    assert acidctl("decode-bucket", "3").csv()[1][0] == "3"


def test_options_come_from_the_configuration(tmp_path: Path) -> None:
    """For all commands or for one; the environment and the command line win."""
    config = tmp_path / "config.toml"
    config.write_text('[options]\noutput = "csv"\n[options.decode-bucket]\noutput = "json"\n')
    result = acidctl("decode-bucket", "3", "--config", str(config))
    assert result.json()["values"][0]["value"] == 3
    assert acidctl("decode-bucket", "3", "-o", "csv", "--config", str(config)).csv()[0][0] == "value"


def test_the_configuration_is_found_in_the_users_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """XDG_CONFIG_HOME/acidctl/config.toml."""
    (tmp_path / "acidctl").mkdir()
    (tmp_path / "acidctl/config.toml").write_text('[options]\noutput = "json"\n')
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert "values" in acidctl("decode-bucket", "3").json()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[options]\nyes = true\n", "command line only"),
        ("[options.compact]\nassume-committed = true\n", "command line only"),
        ("[optoins]\n", "unknown section [optoins]; did you mean [options]?"),
        ("[options]\nprofil = 'hive4'\n", "unknown key profil in [options]; did you mean profile?"),
        ("[options]\nnope = 1\n", "unknown key nope in [options]"),
        ("[options]\nSpark-Conf = 1\n", "unknown key Spark-Conf in [options]"),
        ("[options.decode-bucket]\nnope = 1\n", "unknown key nope in [options.decode-bucket]"),
        ("[options.clean]\nolder_thn = '30d'\n", "unknown key older_thn in [options.clean]; did you mean older_than?"),
        ("[options.clean]\nolder-thn = '30d'\n", "unknown key older-thn in [options.clean]; did you mean older_than?"),
        ("[options.dump]\nlimit = 5\n", "unknown key limit in [options.dump]"),
        ("[options.clena]\nolder_than = '30d'\n", "section [options.clena]; did you mean [options.clean]?"),
        ("[options.decode_bucket]\nquiet = true\n", "did you mean [options.decode-bucket]?"),
        ("[options.older_than]\nclean = '30d'\n", "unknown section [options.older_than]"),
        ("[metastore]\nuri = 'thrift://h'\n", "unknown key uri in [metastore]; did you mean uris?"),
        ("[spark]\nmastr = 'yarn'\n", "unknown key mastr in [spark]; did you mean master?"),
        ("[spark.executor]\nmemory = '4g'\n", "unknown key executor in [spark]"),
        ("[options", "not valid TOML"),
        ("options = 3\n", "has to be a section"),
        ("[storage]\nkey = 'x'\n", "wants sections"),
        ("\xff", "not valid TOML"),
    ],
)
def test_a_wrong_configuration_is_one_sentence(tmp_path: Path, text: str, said: str) -> None:
    """Exit code 2, and the file is named."""
    config = tmp_path / "config.toml"
    config.write_bytes(text.encode("latin-1"))
    result = acidctl("decode-bucket", "3", "--config", str(config))
    assert (result.code, result.stdout) == (2, "")
    assert said in result.stderr
    assert str(config) in result.stderr


def test_a_misspelt_retention_deletes_nothing(tmp_path: Path) -> None:
    """24 hours instead of the 30 days that were meant, every night."""
    config = tmp_path / "config.toml"
    config.write_text("[options.clean]\nolder_thn = '30d'\n")
    args = ("clean", str(tmp_path), "--validtxns", "t:5:9223372036854775807::", "--delete", "--yes")
    result = acidctl(*args, "--config", str(config))
    assert (result.code, result.stdout) == (2, "")
    assert "`acidctl clean --help`" in result.stderr


def test_every_option_may_stand_in_the_configuration(tmp_path: Path) -> None:
    """In the section of its command, and for all commands: none is refused because another command runs."""
    lines, every, known = [], {}, set()
    for name in COMMANDS:
        command = cli.get_command(click.Context(cli), name)
        assert command is not None
        lines.append(f"[options.{name}]")
        for param in command.params:
            long_names = [flag[2:] for flag in param.opts if flag.startswith("--")]
            for key in () if not long_names or is_safety_option(long_names[0]) else long_names:
                if name == "decode-bucket":
                    known.add(key)  # the values of its own would have to fit
                    continue
                lines.append(f"{key.replace('-', '_')} = 1")
                every[key] = f"{key} = 1"
    config = tmp_path / "config.toml"
    config.write_text("\n".join(["[options]", *(line for key, line in every.items() if key not in known), *lines]))
    result = acidctl("decode-bucket", "3", "--config", str(config))
    assert result.code == 0, result.stderr
    assert len(every) > 60


def test_a_missing_configuration_that_was_named_is_an_error(tmp_path: Path) -> None:
    """A default one may be missing."""
    result = acidctl("decode-bucket", "3", "--config", str(tmp_path / "none"))
    assert (result.code, "does not exist" in result.stderr) == (2, True)


@pytest.mark.parametrize(
    ("env", "colored"),
    [
        ({}, False),
        ({"FORCE_COLOR": "1"}, True),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, False),
        ({"NO_COLOR": "", "FORCE_COLOR": "1"}, True),
    ],
)
def test_colours_follow_the_environment(env: dict[str, str], colored: bool) -> None:
    """NO_COLOR, else FORCE_COLOR, else whether it is a terminal."""
    clean = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR")}
    done = subprocess.run(
        [*COMMAND, "decode-bucket", "1"], capture_output=True, env={**clean, **env}, timeout=60, check=True
    )
    assert (b"\x1b[" in done.stdout) == colored


def test_json_is_valid_for_any_name() -> None:
    """Bytes that are not UTF-8 come out as escaped surrogates, control characters escaped."""
    done = _run("decode-bucket", "-o", "json", ".\udcff\x1b[31m")
    assert json.loads(done.stdout)["values"][0]["name"] == ".\udcff\x1b[31m"
    text = _run("decode-bucket", ".\udcff\x1b[31m")
    assert b"\\xff\\x1b[31m" in text.stdout
