"""hdfs-native's panics: a user reads one sentence of ours, and nothing else that anybody wrote to stderr is lost."""

from __future__ import annotations

import json
import os
import pty
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from acidctl.errors import UnreachableError
from acidctl.storage.hdfs_native import connect
from acidctl.storage.panics import without_panics

_PANIC = b"""
thread 'tokio-runtime-worker' (17) panicked at rust/src/hdfs/block_reader.rs:272:57:
called `Result::unwrap()` on an `Err` value: JoinError::Cancelled(Id(9))
"""
_ASSERTION = b"""
thread '<unnamed>' panicked at src/lib.rs:1:1:
assertion `left == right` failed
  left: 1
 right: 2
"""
_TRACE = b"""stack backtrace:
   0: __rustc::rust_begin_unwind
             at /rustc/library/std/src/panicking.rs:689:5
  10: tokio::runtime::park
note: Some details are omitted, run with `RUST_BACKTRACE=full` for a verbose backtrace.
"""
_NOTE = b"note: run with `RUST_BACKTRACE=1` environment variable to display a backtrace\n"


def test_only_panics_go() -> None:
    """Wherever they stand, with and without what the environment asks for; lines that only look alike stay."""
    for panic in (_PANIC, _PANIC + _NOTE, _PANIC + _TRACE, _ASSERTION, _ASSERTION + _TRACE, _PANIC + _ASSERTION):
        for before in (b"", b"terminate called\n"):
            for after in (b"", b"OpenJDK warning: x\n", b"Traceback:\n  a\n", b"without an end"):
                assert without_panics(before + panic + after) == before + after
    for other in (
        b"note: x\n",
        b"thread 'main' ended\n",
        b"\n",
        b"he said: thread 'a' panicked at b:\nc\n",
        b"stack backtrace:\n",
    ):
        assert without_panics(other) == other


def _message(*parts: bytes) -> bytes:
    """As a NameNode sends it; all parts are short."""
    body = b"".join(bytes([len(part)]) + part for part in parts)
    return struct.pack(">I", len(body)) + body


@contextmanager
def _namenode(answer: bytes) -> Iterator[int]:
    """The port of a server that answers so, whatever it is asked."""

    def serve() -> None:
        with suppress(OSError):
            while True:
                client, _ = server.accept()
                with client, suppress(OSError):
                    client.settimeout(5)
                    if client.recv(65536) and answer:
                        client.sendall(answer)
                        client.recv(65536)

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield int(server.getsockname()[1])
        # Closing alone does not wake who waits for a connection.
        server.shutdown(socket.SHUT_RDWR)
    thread.join()


def test_a_namenode_that_goes_away_while_it_is_written(capfd: pytest.CaptureFixture[str]) -> None:
    """One, or both of a name service: it is an outage, which may pass, and hdfs-native prints nothing."""
    pytest.importorskip("hdfs_native")
    with _namenode(b"") as one, _namenode(b"") as two:
        members = {f"dfs.namenode.rpc-address.lake.{port}": f"127.0.0.1:{port}" for port in (one, two)}
        lake = {"dfs.nameservices": "lake", "dfs.ha.namenodes.lake": f"{one},{two}", **members}
        for url, config in ((f"hdfs://127.0.0.1:{one}/w", {}), ("hdfs://lake/w", lake)):
            storage, path = connect(url, "hdfs", {"config": config})
            with pytest.raises(UnreachableError, match=r"/w/new cannot be reached: the connection to .* broke"):
                storage.create(f"{path}/new")
    assert "panicked" not in capfd.readouterr().err


# Of the call -33, with which a client asks how to log in, and what hdfs-native cannot do anything with.
_LOGIN = b"\x08\xdf\xff\xff\xff\x0f\x10"
_ANSWERS = {
    "a status that there is not": _message(_LOGIN + b"\x09", b""),
    "a challenge before any method": _message(_LOGIN + b"\x00", b"\x10\x03\x1a\x01a"),
    "a state of the client": _message(_LOGIN + b"\x00", b"\x10\x02"),
}


def _run(arguments: list[str], environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, **environment}
    command = [sys.executable, "-m", "acidctl", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=env, timeout=60, check=False)


@pytest.mark.slow
def test_a_panic_is_one_sentence(tmp_path: Path) -> None:
    """A NameNode with Kerberos whose answers make no sense: text and JSON, with and without Rust's backtraces."""
    pytest.importorskip("hdfs_native")
    key = "<property><name>hadoop.security.authentication</name><value>kerberos</value></property>"
    (tmp_path / "core-site.xml").write_text(f"<configuration>{key}</configuration>")
    for (what, answer), form, trace in zip(_ANSWERS.items(), ("text", "json", "text"), "010", strict=True):
        environment = {"HADOOP_CONF_DIR": str(tmp_path), "RUST_BACKTRACE": trace}
        with _namenode(answer) as port:
            url = f"hdfs://127.0.0.1:{port}/w"
            result = _run(["ls", url, "-o", form], environment)
            assert (result.returncode, result.stdout) == (14, ""), (what, result)
            if form == "text":
                first, second = result.stderr.splitlines()
                assert first.startswith(f"error: {url} cannot be used: hdfs-native failed ("), (what, result.stderr)
                assert second.startswith("  hint: Check that this is the port of the NameNode"), what
            else:
                assert json.loads(result.stderr)["error"]["path"] == url
    with _namenode(answer) as port:
        debugged = _run(["ls", f"hdfs://127.0.0.1:{port}/w", "--debug"], environment).stderr
    assert "panicked at rust/src/security/sasl.rs" in debugged
    assert "PanicException" in debugged


_PROGRAM = """
import os, subprocess, sys
from tempfile import TemporaryFile
from acidctl.cli.process import own_stderr
from acidctl.storage.panics import divert, live_stderr
early = sys.stderr
with own_stderr(with_panics=False):
    os.write(2, b"1 before it is used\\n")
    divert(TemporaryFile)
    divert(TemporaryFile)
    print("2 of ours", sys.stderr.isatty(), sys.__stderr__.isatty(), file=sys.stderr)
    os.write(2, b"5 of a library\\n\\nthread 'a' panicked at b.rs:1:1:\\nwhy\\n")
    subprocess.run(["sh", "-c", "echo 6 of a child >&2"])
    subprocess.run(["sh", "-c", "echo 3 of a child that is followed >&2"], stderr=live_stderr())
    print("4 of ours, last", file=sys.stderr)
assert sys.stderr is early
os.write(2, b"7 after it\\n")
"""


def test_what_others_write_is_kept() -> None:
    """Ours at once and in its order, theirs afterwards; on a terminal too, which ours still is."""
    ours = ["1 before it is used", "2 of ours {0} {0}", "3 of a child that is followed", "4 of ours, last"]
    lines = [*ours, "5 of a library", "6 of a child", "7 after it"]
    command = [sys.executable, "-c", _PROGRAM]
    plain = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)
    assert plain.stderr.splitlines() == [line.format(False) for line in lines]
    outer, inner = pty.openpty()
    try:
        subprocess.run(command, stderr=inner, timeout=30, check=True)
        shown = os.read(outer, 4096).decode()
    finally:
        os.close(outer)
        os.close(inner)
    assert shown.splitlines() == [line.format(True) for line in lines]


def test_without_stderr_nothing_is_written() -> None:
    """Closed by the caller: whatever has that descriptor now is not ours."""
    program = "import os; os.open(os.devnull, os.O_RDWR);" + _PROGRAM.split("early")[0].replace("\n", ";")[1:]
    program += "\nwith own_stderr(with_panics=False):\n    divert(TemporaryFile)"
    program += "\n    assert os.readlink('/proc/self/fd/2') == os.devnull"
    closed = subprocess.run(
        ["sh", "-c", 'exec "$0" -c "$1" 2>&-', sys.executable, program], capture_output=True, timeout=30, check=False
    )
    assert closed.returncode == 0
