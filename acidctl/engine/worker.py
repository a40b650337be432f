"""A worker process of the local engine: tasks come in on stdin, outcomes go out on stdout, each a pickle.

The end of stdin is the order to stop, at once and in the middle of a task: it comes when the parent is done, and also
when the parent was killed.
"""

from __future__ import annotations

import os
import pickle
import signal
import struct
import threading
from queue import SimpleQueue
from typing import IO, Any

from acidctl.engine.base import default_work

_IN, _OUT, _ERROR = range(3)
_LENGTH = struct.Struct("<Q")


def send(pipe: IO[bytes], message: object) -> None:
    """Write one message."""
    data = pickle.dumps(message)
    pipe.write(_LENGTH.pack(len(data)) + data)
    pipe.flush()


def receive(pipe: IO[bytes]) -> Any:
    """Read one message; None when the other side has gone, be it in the middle of one."""
    head = pipe.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        return None
    (length,) = _LENGTH.unpack(head)
    data = pipe.read(length)
    return pickle.loads(data) if len(data) == length else None


def main() -> None:
    """Work until the parent goes away. Work that is None is the usual one."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # What libraries print must not get between the answers.
    answers = os.fdopen(os.dup(_OUT), "wb")
    os.dup2(_ERROR, _OUT)
    tasks: SimpleQueue[Any] = SimpleQueue()
    threading.Thread(target=_listen, args=(tasks,), daemon=True).start()
    # Takes half a second, in which the parent may be making the plan.
    usual = default_work()

    while True:
        work, index, spec, threads = tasks.get()
        try:
            send(answers, (work or usual)(index, spec, threads))
        except BrokenPipeError:
            os._exit(1)


def _listen(tasks: SimpleQueue[Any]) -> None:
    orders = os.fdopen(_IN, "rb", closefd=False)
    status = 1
    try:
        while (message := receive(orders)) is not None:
            tasks.put(message)
        status = 0
    finally:
        # Also when a task cannot be unpacked here: the parent sees a worker that died.
        os._exit(status)
