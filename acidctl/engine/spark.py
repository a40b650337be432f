"""The Spark engine: the same tasks as everywhere, spread, repeated and supervised by a Spark cluster.

Spark gets one opaque payload per task and gives back one opaque answer; it never sees a row, and neither its ORC source
nor its SQL is used. All tasks of a call are one Spark job with a partition each, in the order given, so that Spark's
own retries and speculation work. Answers arrive by an accumulator, which Spark adds up exactly once per task and as
soon as a task has finished; the job's result brings them again, and is what counts.

This and `spark_job` are the only modules that know pyspark, and they import it late.
"""

from __future__ import annotations

import contextlib
import os
import queue
import shutil
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import acidctl
from acidctl.engine import spark_errors, spark_setup
from acidctl.engine.base import Task, TaskOutcome, Work
from acidctl.engine.spark_worker import Body, Parcels, Unfit, pack, unpack
from acidctl.errors import AcidctlError, MissingDependencyError, UsageError
from acidctl.storage.panics import live_stderr
from acidctl.storage.resolve import packages_elsewhere

if TYPE_CHECKING:
    from pyspark import RDD, Accumulator, SparkContext

# --- One Spark job over packed tasks: submitted in a thread of its own, its answers in a queue, cancelled at the end.


_JOB_ENDING = 10.0  # seconds that cancelled or superfluous attempts get to end


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
        deadline = time.monotonic() + _JOB_ENDING
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


_DEFAULTS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    # Else the number of running tasks would be known only at the next heartbeat.
    "spark.ui.liveUpdate.period": "0",
    # A superfluous attempt may be killed at any moment; what it wrote is nobody's.
    "spark.python.task.killTimeout": "200ms",
    # A machine that hangs is not waited for. Sizes of tasks differ, so only what takes far longer than most counts.
    "spark.speculation": "true",
    "spark.speculation.multiplier": "3",
    "spark.speculation.quantile": "0.9",
    "spark.speculation.minTaskRuntime": "60s",
    # Where executors come and go, no shuffle keeps them: there is none.
    "spark.dynamicAllocation.shuffleTracking.enabled": "true",
}
_LOOPBACK = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}

_POLL = 1.0  # seconds between looks at a job that says nothing
_TELL = 15.0  # seconds without a running task after which a sentence says so
_ENDING = 10.0  # seconds that Spark's JVM gets to end


@dataclass(frozen=True, slots=True)
class Waits:
    """How long Spark may take, in seconds: to `start` an own application, and to give a job any task that runs."""

    start: float = 180.0
    idle: float = 600.0


class SparkEngine:
    """Runs tasks on Spark: an own application, started by the first `run` (or by `start`), or the given session.

    `master` is a Spark master URL (default: all cores of this machine) and `conf` Spark's settings. `session` is a
    SparkSession or SparkContext of the caller; it is used as it is and never stopped. `verbose` lets Spark's errors
    through to stderr. `notify` gets `warnings` and sentences about waiting. `work` stands in for
    `compaction.task.outcome_of` in tests.
    """

    name = "spark"

    def __init__(
        self,
        master: str | None = None,
        conf: Mapping[str, str] | None = None,
        *,
        session: Any = None,
        waits: Waits = Waits(),
        verbose: bool = False,
        notify: Callable[[str], None] | None = None,
        work: Work | None = None,
    ) -> None:
        spark_setup.check_settings(conf or {})
        if session is not None and conf:
            raise UsageError(
                "Spark settings are given together with a running session, which cannot take them any more",
                hint="Set them where the session is made.",
            )
        self.warnings: tuple[str, ...] = ()
        self._master = spark_setup.with_retries(master or "local[*]")
        self._conf = dict(conf or {})
        self._session = session
        self._waits = waits
        self._verbose = verbose
        self._notify = notify or (lambda sentence: None)
        self._work = work
        self._application: _Application | None = None
        self._context: SparkContext | None = None
        self._packages: Path | None = None
        self._lock = threading.Lock()

    @property
    def uses_hosts(self) -> bool:
        """Whether there are several machines to choose from."""
        master = self._master if self._session is None else str(_context_of(self._session).master)
        return not spark_setup.is_local(master)

    @property
    def description(self) -> str:
        """Which Spark this is, once it is started: its version and master."""
        return f"Spark {self._context.version} on {self._context.master}" if self._context else "Spark"

    def start(self) -> None:
        """Gets the application ready; later calls do nothing. `warnings` then tells what was odd about the settings.

        Raises MissingDependencyError for what has to be installed or switched on, UsageError for wrong settings.
        """
        with self._lock:
            if self._context is not None:
                return
            _import_pyspark()
            if self._session is not None:
                context = _context_of(self._session)
            else:
                self._application = _Application(self._master, self._conf, self._verbose)
                context = self._application.start(self._waits.start)
                self.warnings = tuple(_unknown_settings(context, self._conf))
                for warning in self.warnings:
                    self._notify(warning)
            self._ship(context)
            self._context = context

    def run(self, specs: Sequence[Task]) -> Iterator[TaskOutcome]:
        """See `Engine.run`. Leaving the iterator early, or Ctrl-C, cancels what still runs."""
        if not specs:
            return
        self.start()
        pending = list(range(len(specs)))
        while pending:
            # A job ends with the first task that failed for good; the others go on in a new one.
            for outcome in self._run_job(specs, tuple(pending)):
                pending.remove(outcome.index)
                yield outcome

    def close(self) -> None:
        """Ends an own application; a session of the caller's goes on."""
        with self._lock:
            self._context = None
            if self._application is not None:
                self._application.close()
                self._application = None
            if self._packages is not None and self._session is None:
                shutil.rmtree(self._packages, ignore_errors=True)

    def __enter__(self) -> SparkEngine:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _ship(self, context: SparkContext) -> None:
        """Sends our own code to the executors, unless they import this very copy anyway."""
        if self._application is not None and spark_setup.is_local(self._master):
            return
        package = Path(acidctl.__file__).parent
        folder = Path(tempfile.mkdtemp(prefix="acidctl-"))
        archive = spark_setup.zip_package(package, acidctl.__version__, folder)
        known = [Path(name).name for name in getattr(context, "_python_includes", None) or ()]
        if archive.name in known:
            shutil.rmtree(folder)
            return
        # The driver serves the file to every executor that comes later: it stays as long as the session.
        self._packages = folder
        before = list(sys.path)
        context.addPyFile(str(archive))
        sys.path[:] = before

    def _run_job(self, specs: Sequence[Task], indices: tuple[int, ...]) -> Iterator[TaskOutcome]:
        assert self._context is not None
        context = self._context
        job = Job(context, [specs[index] for index in indices], indices, self._work)
        left = set(indices)
        try:
            for parcel in self._parcels(job):
                found = unpack(parcel)
                if isinstance(found, Unfit):
                    raise MissingDependencyError(f"an executor {found.reason}", hint=found.hint)
                if found.index in left:
                    left.remove(found.index)
                    yield found
        finally:
            job.end()
        if job.error is not None and left:
            failure = spark_errors.explain(job.error, [specs[index].output for index in indices])
            if failure.place is None or indices[failure.place] not in left:
                raise failure.error from job.error
            yield TaskOutcome(indices[failure.place], error=failure.error)
        elif left:
            raise AcidctlError("Spark ended its job without the answers of all tasks", hint="Run it again.")

    def _parcels(self, job: Job) -> Iterator[bytes]:
        """What arrives until the job is over; raises when nothing runs for too long."""
        job.start()
        since = time.monotonic()
        told = False
        while True:
            try:
                parcel = job.inbox.get(timeout=_POLL)
            except queue.Empty:
                if job.running_tasks() > 0:
                    since = time.monotonic()
                waited = time.monotonic() - since
                if waited > _TELL and not told:
                    told = True
                    self._notify("Spark has no free executor for the tasks yet; waiting")
                if waited > self._waits.idle:
                    raise MissingDependencyError(
                        f"no Spark executor has taken a task for {self._waits.idle:.0f} seconds",
                        hint="Check that the cluster has workers with free cores and memory for what "
                        "spark.executor.cores and spark.executor.memory ask for.",
                    ) from None
                continue
            if parcel is None:
                return
            since = time.monotonic()
            yield parcel


class _Application:
    """A Spark application of our own: a JVM started for it, and ended with it."""

    def __init__(self, master: str, conf: Mapping[str, str], verbose: bool) -> None:
        self._master = master
        self._local = spark_setup.is_local(master)
        self._conf = _with_defaults(conf, self._local)
        self._verbose = verbose
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as the JVM writes to it
        self._gateway: Any = None
        self._context: SparkContext | None = None
        self._path = list(sys.path)
        self._over = False

    def start(self, timeout: float) -> SparkContext:
        """Starts the JVM and the application; whatever goes wrong is one sentence."""
        import pyspark

        if pyspark.SparkContext._active_spark_context is not None:
            raise UsageError(
                "a Spark session is already running in this process", hint="Hand it over: compact(..., spark=session)."
            )
        try:
            spark_setup.check_master(self._master, os.environ)
            if "PYSPARK_GATEWAY_PORT" not in os.environ:
                spark_setup.find_java(os.environ, pyspark.__version__)
            self._start_within(timeout)
        except BaseException:
            self.close()
            raise
        assert self._context is not None
        return self._context

    def _start_within(self, timeout: float) -> None:
        """In a thread of its own, because Spark has waits that nothing interrupts."""
        problem: list[Exception] = []

        def start() -> None:
            try:
                self._launch()
            except Exception as error:
                problem.append(error)
            if self._over:
                # Nobody else ends what has come since.
                self.close()

        thread = threading.Thread(target=start, name="acidctl-spark-start", daemon=True)
        thread.start()
        deadline = time.monotonic() + timeout
        while thread.is_alive():
            if time.monotonic() > deadline:
                raise MissingDependencyError(
                    f"Spark did not start within {timeout:.0f} seconds on {self._master}",
                    hint="The cluster may have no free resources, or be unable to reach this machine "
                    "(--spark-conf spark.driver.host=ADDRESS).",
                )
            thread.join(0.05)
        if problem:
            raise spark_errors.explain_start(problem[0], self._said(), self._master) from problem[0]

    def _launch(self) -> None:
        from pyspark import SparkConf, SparkContext
        from pyspark.java_gateway import launch_gateway

        if SparkContext._gateway is None:
            # Everything that launches a JVM is on its command line, for all to see: secrets go another way.
            public = SparkConf(loadDefaults=False)
            public.setAll([("spark.master", self._master)])
            public.setAll([(key, value) for key, value in self._conf.items() if spark_setup.is_public(key)])
            output = live_stderr() if self._verbose else self._log
            outputs = {"stdout": output, "stderr": output}
            with _environment({"SPARK_LAUNCHER_OPTS": spark_setup.lean_java()}):
                self._gateway = launch_gateway(public, outputs)  # type: ignore[no-untyped-call]
            if self._over:
                return
        conf = SparkConf(_jvm=self._gateway.jvm if self._gateway is not None else SparkContext._jvm)
        conf.setAll(list(self._conf.items()))
        conf.setMaster(self._master)
        context = SparkContext(conf=conf, gateway=self._gateway)
        context.pythonExec = self._python(context.pythonExec)
        self._context = context

    def _python(self, default: str) -> str:
        """The Python of the executors. Spark itself heeds the setting only in spark-submit."""
        named = self._conf.get("spark.pyspark.python")
        if named or "PYSPARK_PYTHON" in os.environ or not self._local:
            return named or default
        return sys.executable

    def _said(self) -> str:
        """The end of what the JVM printed."""
        self._log.seek(max(0, self._log.seek(0, os.SEEK_END) - 20_000))
        return self._log.read().decode("utf-8", "replace")

    def close(self) -> None:
        """Stops the application and its JVM; also what has only half started, as soon as it has."""
        self._over = True
        with contextlib.suppress(Exception):
            if self._context is not None:
                self._context.stop()
        self._context = None
        if self._gateway is not None:
            _end_gateway(self._gateway)
            self._gateway = None
        sys.path[:] = [path for path in sys.path if path in self._path]
        self._log.close()


def _with_defaults(conf: Mapping[str, str], local: bool) -> dict[str, str]:
    shown = {"spark.app.name": "acidctl", "spark.redaction.regex": spark_setup.SECRETS}
    settings = {**shown, **_DEFAULTS, **(_LOOPBACK if local else {}), **conf}
    for key in ("spark.driver.extraJavaOptions", "spark.executor.extraJavaOptions"):
        settings[key] = spark_setup.lean_java(conf.get(key, ""))
    if local:
        # The workers run on this machine and in this Python: they import this very copy, compiled already.
        paths = [str(Path(acidctl.__file__).parent.parent), conf.get("spark.executorEnv.PYTHONPATH", "")]
        settings["spark.executorEnv.PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    return settings


def _end_gateway(gateway: Any) -> None:
    """Ends the JVM behind a gateway of ours and lets pyspark forget it."""
    from pyspark import SparkContext

    with SparkContext._lock:
        if SparkContext._gateway is gateway:
            SparkContext._gateway = None
            SparkContext._jvm = None
            SparkContext._active_spark_context = None
    with contextlib.suppress(Exception):
        gateway.shutdown()
    process = gateway.proc
    if process is None:
        return
    # The JVM ends by itself when this pipe closes.
    with contextlib.suppress(OSError):
        process.stdin.close()
    try:
        process.wait(_ENDING)
    except Exception:
        process.kill()
        process.wait()


@contextlib.contextmanager
def _environment(values: Mapping[str, str]) -> Iterator[None]:
    """Sets environment variables that are not set, for a while."""
    added = [key for key in values if key not in os.environ]
    os.environ.update({key: values[key] for key in added})
    try:
        yield
    finally:
        for key in added:
            os.environ.pop(key, None)


def _import_pyspark() -> None:
    try:
        import pyspark

        pyspark.SparkContext  # noqa: B018 - the thin client has none
    except (ImportError, AttributeError) as error:
        raise MissingDependencyError(
            f"the Spark engine needs the package pyspark, which cannot be imported ({error})",
            hint="Install it with `pip install 'acidctl[spark]'`, or run with --engine local.",
        ) from error


def _context_of(session: Any) -> SparkContext:
    """The context of a SparkSession, or the context itself; UsageError when it cannot run tasks."""
    from pyspark import SparkContext

    try:
        context = session if isinstance(session, SparkContext) else session.sparkContext
    except Exception as error:
        raise UsageError(
            f"the Spark session ({type(session).__module__}) cannot run Python tasks on its executors",
            hint="Spark Connect sessions cannot; give a classic SparkSession, or a master.",
        ) from error
    if not isinstance(context, SparkContext) or context._jsc is None:
        raise UsageError("the Spark session has been stopped", hint="Start a new one.")
    return context


def _unknown_settings(context: SparkContext, conf: Mapping[str, str]) -> Iterator[str]:
    """A sentence for each setting that this Spark does not know; Spark itself ignores them without a word."""
    for key in conf:
        try:
            registry: Any = context._jvm.org.apache.spark.internal.config.ConfigEntry  # type: ignore[union-attr]
            known = spark_setup.may_be_unregistered(key) or registry.findEntry(key) is not None
        except Exception:  # another release may keep them elsewhere
            return
        if not known:
            yield f"Spark {context.version} does not know the setting {key}; check its spelling"
