"""Compactions by Spark in processes of their own whose tasks wait until they may go on, so that much can be killed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.cli.runner import heed_interrupts
from tests.support.spark_tasks import traces, wait_for

SLOW_COMPACTION = """
import sys
import acidctl
from acidctl.errors import AcidctlError
from acidctl.engine.spark import SparkEngine

def slow(folder):
    def work(index, spec, threads):
        import os, time
        from pathlib import Path
        from acidctl.compaction.task import outcome_of
        Path(folder, f"{index}.attempt.{os.getpid()}.{time.time_ns()}").touch()
        while not Path(folder, "go").exists():
            time.sleep(0.02)
        return outcome_of(index, spec, threads)
    return work

table, folder, lists, master, *settings = sys.argv[1:]
conf = dict(setting.split("=", 1) for setting in settings)
with SparkEngine(master, conf, work=slow(folder)) as engine:
    try:
        given = {"validtxns": lists.split(" "), "table": lists.split(":")[0]}
        prepared = acidctl.open_table(table).prepare_compaction("major", **given)
        report = prepared.start(engine).run()
    except AcidctlError as error:
        print("refused:", error.message, "Hint:", error.hint)
    else:
        print([part.outcome.value for part in report.partitions])
        for part in report.partitions:
            if part.outcome.value == "failed":
                print(part.reason)
"""


def clean_environment(**more: str) -> dict[str, str]:
    """This process's without what concerns Spark, Hadoop and Python paths, and what is given."""
    own = ("SPARK_", "PYSPARK_", "PYTHONPATH", "HADOOP_")
    return {**{key: value for key, value in os.environ.items() if not key.startswith(own)}, **more}


class SlowRun:
    """A major compaction of `table` (path or URL) in a process of its own; `folder` is where attempts leave traces."""

    def __init__(
        self,
        table: str,
        lists: Sequence[str],
        master: str,
        conf: Mapping[str, str],
        folder: Path,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        folder.mkdir()
        self.folder = folder
        settings = [f"{key}={value}" for key, value in conf.items()]
        self.process = subprocess.Popen(
            [sys.executable, "-c", SLOW_COMPACTION, table, str(folder), " ".join(lists), master, *settings],
            env=dict(environment or clean_environment()),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=heed_interrupts,
        )

    def at_work(self, tasks: int = 1) -> list[int]:
        """Waits until so many attempts are at work; their process ids."""
        wait_for(lambda: self.process.poll() is not None or len(traces(self.folder)) >= tasks, 180)
        assert self.process.poll() is None, self.process.communicate()
        return [int(name.split(".")[2]) for name in traces(self.folder)]

    def go(self) -> None:
        """Lets attempts do their work."""
        (self.folder / "go").touch()

    def end(self) -> tuple[int, str, str]:
        """Waits for the end: exit status and output."""
        out, err = self.process.communicate(timeout=240)
        return self.process.returncode, out, err

    def kill(self) -> None:
        """Kills the driver, if it still runs."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()
