"""What every service on loopback needs: a port that stays free, waiting for an answer, an orderly end."""

from __future__ import annotations

import random
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self


class ServiceError(Exception):
    """Why a service is not there or did not do what it was told, with the end of what it said."""


class Service:
    """What a `with` block starts and ends; some run as soon as they are made."""

    def start(self) -> Self:
        """Returns when it answers."""
        return self

    def close(self) -> None:
        """Ends it; a second call does nothing."""

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *error: object) -> None:
        self.close()


def free_port() -> int:
    """A loopback port that nobody listens at, outside of what the system gives to clients.

    Thus it is still free when a service that was killed comes back to it.
    """
    first_of_clients = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    while True:
        port = random.randrange(10_000, first_of_clients)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


def answers(port: int) -> bool:
    """Whether somebody accepts connections at the loopback port."""
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True


def wait_until(
    what: str,
    ready: Callable[[], bool],
    *,
    seconds: float = 60.0,
    process: subprocess.Popen[bytes] | None = None,
    log: Path | None = None,
) -> None:
    """Asks again and again until `ready`; ServiceError names what did not come, at once when `process` has ended."""
    deadline = time.monotonic() + seconds
    while not ready():
        ended = process is not None and process.poll() is not None
        if ended or time.monotonic() > deadline:
            said = f": {log.read_text(errors='replace')[-3000:]}" if log is not None and log.exists() else ""
            raise ServiceError(f"{what} {'has ended' if ended else f'did not come within {seconds:.0f} s'}{said}")
        time.sleep(0.05)


def pause(process: subprocess.Popen[bytes]) -> None:
    """Stops a process in its tracks, until SIGCONT; afterwards it stands still: the signal alone takes a moment."""
    process.send_signal(signal.SIGSTOP)
    wait_until("the halt of a process", lambda: _stands_still(process.pid), process=process)


def _stands_still(pid: int) -> bool:
    """Whether no thread of a process runs or will by itself (state T in /proc)."""
    states = set()
    for status in Path(f"/proc/{pid}/task").glob("*/stat"):
        with suppress(OSError):  # a thread that has ended meanwhile
            states.add(status.read_text().rpartition(")")[2].split()[0])
    return states <= {"T"}


def stop(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    """Ends processes together, each by its own id, and waits until they are gone."""
    for process in processes:
        process.terminate()
    for process in processes:
        try:
            process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                stream.close()
