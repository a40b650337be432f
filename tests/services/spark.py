"""A standalone Spark cluster on loopback: a master and worker processes from the pyspark package.

Every process is started here and ended by its own id. Executors are children of the workers and end with them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import pyspark
import pytest

from .processes import Service, answers, free_port, stop, wait_until

SPARK_HOME = Path(pyspark.__file__).parent
LEAN_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


@dataclass(slots=True)
class SparkCluster(Service):
    """A running cluster; `url` is its master's, `conf` what an application on this machine needs to join.

    Spark counts the cores of a worker and holds nobody to them; with `pinned` each worker and its executors get one
    core of the machine and no other.
    """

    folder: Path
    workers: int = 2
    cores: int = 1
    pinned: bool = False
    url: str = ""
    _ui: int = 0
    _master: subprocess.Popen[bytes] | None = None
    _workers: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def conf(self) -> dict[str, str]:
        """Loopback instead of the machine's own name, this Python, and executors that start fast."""
        return {
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.pyspark.python": sys.executable,
            "spark.executor.memory": "512m",
        }

    def start(self) -> Self:
        """Starts master and workers, and waits until the workers are known to the master."""
        port, self._ui = free_port(), free_port()
        self.url = f"spark://127.0.0.1:{port}"
        try:
            self._master = self._launch(
                "master",
                *("org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", str(port)),
                *("--webui-port", str(self._ui)),
            )
            wait_until("the master", lambda: answers(port), process=self._master, log=self.folder / "master.log")
            for _ in range(self.workers):
                self.add_worker()
            wait_until("the workers", lambda: self.alive() == self.workers)
        except BaseException:
            self.close()
            raise
        return self

    def add_worker(self) -> None:
        """Starts one more worker process."""
        name = f"worker-{len(self._workers)}"
        self._workers.append(
            self._launch(
                name,
                *("org.apache.spark.deploy.worker.Worker", "--host", "127.0.0.1", "--port", "0", "--webui-port", "0"),
                *("--cores", str(self.cores), "--memory", "1g", "--work-dir", str(self.folder / name), self.url),
            )
        )

    def _launch(self, name: str, *command: str) -> subprocess.Popen[bytes]:
        environment = {
            **{key: value for key, value in os.environ.items() if not key.startswith(("SPARK_", "PYSPARK_"))},
            "SPARK_HOME": str(SPARK_HOME),
            "SPARK_LAUNCHER_OPTS": LEAN_JVM,
            "SPARK_DAEMON_JAVA_OPTS": f"{LEAN_JVM} -Dspark.master.rest.enabled=false",
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_LOCAL_DIRS": str(self.folder / "local"),
        }
        # Not this test run's: executors have to get the package from the driver.
        environment.pop("PYTHONPATH", None)
        pinned = ["taskset", "-c", str(len(self._workers))] if self.pinned and name != "master" else []
        with open(self.folder / f"{name}.log", "ab") as log:
            return subprocess.Popen(
                [*pinned, SPARK_HOME / "bin" / "spark-class", *command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment,
                cwd=self.folder,
                # Ctrl-C in the terminal is the test run's, which ends the cluster in order.
                start_new_session=True,
            )

    def alive(self) -> int:
        """How many workers the master counts on."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._ui}/json/", timeout=5) as answer:
                return sum(worker["state"] == "ALIVE" for worker in json.load(answer)["workers"])
        except (OSError, ValueError):  # while it starts, its pages come before their content
            return 0

    def executors(self) -> dict[int, list[int]]:
        """Per living worker process the executor JVMs that it has started."""
        return {worker.pid: children(worker.pid) for worker in self._workers if worker.poll() is None}

    def kill_worker(self, pid: int) -> None:
        """Kills one worker process of this cluster, as a machine that is gone; its executors follow by themselves."""
        worker = next(worker for worker in self._workers if worker.pid == pid)
        worker.kill()
        worker.wait()

    def restore(self) -> None:
        """Brings the number of workers back to what it was."""
        self._workers = [worker for worker in self._workers if worker.poll() is None]
        while len(self._workers) < self.workers:
            self.add_worker()
        wait_until("the workers", lambda: self.alive() >= self.workers)

    def close(self) -> None:
        """Ends workers, then the master, each by its own id."""
        stop([*self._workers, *([self._master] if self._master else [])])


def children(pid: int) -> list[int]:
    """Process ids of the living children of a process."""
    found = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with open(task) as file:
            found += [int(child) for child in file.read().split()]
    return found


def descendants(pid: int) -> list[int]:
    """Process ids of everything below a process, nearest first."""
    found = children(pid)
    for child in list(found):
        found += descendants(child)
    return found


@pytest.fixture(scope="session")
def spark_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    """A standalone cluster of two workers with a core each, one for the whole session."""
    with SparkCluster(tmp_path_factory.mktemp("spark")) as cluster:
        yield cluster
