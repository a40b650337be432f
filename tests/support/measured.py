"""Commands in processes of their own, and what they took."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import NamedTuple

# As far as the system counts, a process begins with the memory of the one that starts it: so a small one does.
_STARTER = """
import json, os, subprocess, sys
with subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as child:
    said = child.stderr.read()
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
print(json.dumps([child.returncode, used.ru_maxrss * 1024, used.ru_utime + used.ru_stime, said]))
"""


class Measured(NamedTuple):
    """Exit code, bytes of memory at most, seconds of CPU, and what was on stderr."""

    code: int
    memory: int
    seconds: float
    stderr: str


def measured(*arguments: str) -> Measured:
    """Run `acidctl ARGUMENTS`; what it has on stdout is thrown away."""
    command = [sys.executable, "-c", _STARTER, sys.executable, "-m", "acidctl", *arguments]
    done = subprocess.run(command, capture_output=True, check=True, timeout=300)
    return Measured(*json.loads(done.stdout))
