"""One Spark job over packed tasks: submitted in a thread of its own, its answers in a queue, cancelled at the end."""

from __future__ import annotations

import contextlib
import queue
import threading
import time
import uuid
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import acidctl
from acidctl.engine import spark_setup
from acidctl.engine.base import Task, Work
from acidctl.engine.spark_worker import Body, Parcels, pack
from acidctl.storage.remote_options import packages_elsewhere

if TYPE_CHECKING:
    from pyspark import RDD, Accumulator, SparkContext

_ENDING = 10.0  # seconds that cancelled or superfluous attempts get to end


class _Inbox(Parcels):
    """The driver's end of the accumulator: puts what arrives into a queue; executors get a plain `Parcels`."""

    def __init__(self, arrived: queue.SimpleQueue[bytes | None]) -> None:
        self._arrived = arrived

    def addInPlace(self, one: tuple[bytes, ...], other: tuple[bytes, ...]) -> tuple[bytes, ...]:
        """Hands on what is new, and keeps nothing."""
        for parcel in other:
            self._arrived.put(parcel)
        return ()

    def __reduce__(self) -> tuple[type[Parcels], tuple[()]]:
        return (Parcels, ())


class Job:
    """One Spark job over some payloads; `inbox` gets every answer at least once, and None at the end."""

    def __init__(self, context: SparkContext, specs: Sequence[Task], indices: Sequence[int], work: Work | None) -> None:
        payloads = [pack(index, spec) for index, spec in zip(indices, specs, strict=True)]
        self.inbox: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self.error: Exception | None = None
        self._context = context
        self._payloads = payloads
        self._hosts = [spec.hosts for spec in specs]
        self._group = f"acidctl-{uuid.uuid4().hex[:12]}"
        inbox: Any = _Inbox(self.inbox)
        self._sink: Accumulator[tuple[bytes, ...]] = context.accumulator((), inbox)
        conf = context.getConf()
        failures = spark_setup.max_failures(str(context.master), conf.get("spark.task.maxFailures"))
        idle = spark_setup.has_idle_cores(str(context.master), conf.get("spark.task.cpus"), len(payloads))
        packages = tuple(dict.fromkeys(package for spec in specs for package in packages_elsewhere(spec.url)))
        self._body = Body(self._sink, acidctl.__version__, failures, idle, work, packages)
        self._stopped = False
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Submits the job, in a thread that keeps the caller's Spark properties (scheduler pools)."""
        from pyspark import InheritableThread

        self._thread = InheritableThread(target=self._collect, name=self._group, daemon=True)
        self._thread.start()

    def _collect(self) -> None:
        try:
            # The thread's own property: other jobs of the session are not concerned.
            self._context.setJobGroup(self._group, f"acidctl: {len(self._payloads)} tasks", True)
            if not self._stopped:
                payloads = distributed(self._context, self._payloads, self._hosts)
                for parcel in payloads.mapPartitions(self._body).collect():
                    self.inbox.put(parcel)
        except Exception as error:
            self.error = error
        finally:
            self.inbox.put(None)

    def running_tasks(self) -> int:
        """How many attempts run now; 0 when Spark cannot tell any more."""
        try:
            tracker = self._context.statusTracker()
            jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(self._group)]
            stages = [tracker.getStageInfo(stage) for job in jobs if job is not None for stage in job.stageIds]
            return sum(stage.numActiveTasks for stage in stages if stage is not None)
        except Exception:  # the JVM is gone: the job's thread reports that
            return 0

    def end(self) -> None:
        """Cancels what still runs, and waits a little until no attempt writes any more."""
        from pyspark.accumulators import _accumulatorRegistry

        self._stopped = True
        deadline = time.monotonic() + _ENDING
        while self._thread is not None and self._thread.is_alive() and time.monotonic() < deadline:
            with contextlib.suppress(Exception):
                self._context.cancelJobGroup(self._group)
            # Again, should the job have been on its way to Spark only.
            self._thread.join(2.0)
        while self.running_tasks() > 0 and time.monotonic() < deadline:
            time.sleep(0.05)
        _accumulatorRegistry.pop(self._sink.aid, None)


def distributed(context: SparkContext, payloads: list[bytes], hosts: Sequence[tuple[str, ...]]) -> RDD[bytes]:
    """One partition per payload, each with the machines on which Spark should rather run it.

    PySpark has no way to say where: its `parallelize` is the JVM's, without the hosts that this one takes.
    """
    if any(hosts):
        from pyspark import RDD
        from pyspark.serializers import NoOpSerializer

        try:
            jvm: Any = context._jvm
            pairs = jvm.java.util.ArrayList()
            for payload, names in zip(payloads, hosts, strict=True):
                wanted = jvm.java.util.ArrayList()
                for name in names:
                    wanted.add(name)
                pairs.add(jvm.scala.Tuple2(payload, jvm.PythonUtils.toSeq(wanted)))
            spark: Any = context._jsc.sc()
            placed = spark.makeRDD(jvm.PythonUtils.toSeq(pairs), jvm.scala.reflect.ClassTag.AnyRef())
            return RDD(placed.toJavaRDD(), context, NoOpSerializer())
        except Exception:  # another release may call it otherwise; the hosts are no more than a wish
            pass
    return context.parallelize(payloads, len(payloads))
