"""The Spark engine: the same tasks as everywhere, spread, repeated and supervised by a Spark cluster.

Spark gets one opaque payload per task and gives back one opaque answer; it never sees a row, and neither its ORC source
nor its SQL is used. All tasks of a call are one Spark job with a partition each, in the order given, so that Spark's
own retries and speculation work. Answers arrive by an accumulator, which Spark adds up exactly once per task and as
soon as a task has finished; the job's result brings them again, and is what counts.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import queue
import shutil
import sys
import tempfile
import threading
import time
import uuid
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from pathlib import Path
from typing import Any

import acidctl
from acidctl.engine import Task, TaskOutcome, Work, cluster
from acidctl.errors import AcidctlError, MissingDependencyError, UsageError
from acidctl.storage.panics import live_stderr
from acidctl.storage.resolve import packages_elsewhere

try:
    import pyspark
    from pyspark import RDD, Accumulator, InheritableThread, SparkConf, SparkContext, java_gateway
    from pyspark.accumulators import _accumulatorRegistry
    from pyspark.serializers import NoOpSerializer
except ImportError as error:  # also where only Spark's thin client is installed
    raise MissingDependencyError(
        f"the Spark engine needs the package pyspark, which cannot be imported ({error})",
        hint="Install it with `pip install 'acidctl[spark]'`, or run with --engine local.",
    ) from error

_DEFAULTS = {
    "spark.app.name": "acidctl",
    "spark.redaction.regex": cluster.SECRETS,
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    # Else the number of running tasks would be known only at the next heartbeat.
    "spark.ui.liveUpdate.period": "0",
    # A superfluous attempt may be killed at any moment; no reader sees what it wrote.
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

# Several runs of one application would put the same file into the same place.
_SHIPPING = threading.Lock()
POLL_SECONDS = 1.0  # between looks at a job of which no answer comes
NOTIFY_SECONDS = 15.0  # without a running task
_JOB_ENDING_SECONDS = 10.0  # that cancelled or superfluous attempts get to end
_JVM_ENDING_SECONDS = 10.0


class SparkEngine:
    """Runs tasks on Spark: an own application, started by the first `run` (or by `start`), or the given session.

    `master` is a Spark master URL (default: all cores of this machine) and `conf` Spark's settings. `session` is a
    SparkSession or SparkContext of the caller; it is used as it is and never stopped. `start_seconds` is how long an
    own application may take to start, `idle_seconds` how long a job may be without any task that runs. `verbose` lets
    Spark's errors through to stderr. `notify` gets sentences about unknown settings and about waiting. `work` replaces
    `compaction.task.outcome_of`.
    """

    name = "spark"

    def __init__(
        self,
        master: str | None = None,
        conf: Mapping[str, str] | None = None,
        *,
        session: Any = None,
        start_seconds: float = 180.0,
        idle_seconds: float = 600.0,
        verbose: bool = False,
        notify: Callable[[str], None] = lambda sentence: None,
        work: Work | None = None,
    ) -> None:
        cluster.check_settings(conf or {})
        if session is not None and conf:
            raise UsageError(
                "Spark settings are given together with a running session, which cannot take them any more",
                hint="Set them where the session is made.",
            )
        self._master = cluster.with_retries(master or "local[*]")
        self._session = session
        self._conf = conf or {}
        self._verbose = verbose
        self._start_seconds = start_seconds
        self._idle_seconds = idle_seconds
        self._notify = notify
        self._work = work
        self._application: _Application | None = None
        self._beginning: Future[SparkContext] | None = None
        self._context: SparkContext | None = None
        self._packages: Path | None = None

    @property
    def uses_hosts(self) -> bool:
        """Whether there are several machines to choose from."""
        master = self._master if self._session is None else str(_context_of(self._session).master)
        return not cluster.is_local(master)

    def start(self) -> SparkContext:
        """Gets the application ready, if it is not yet.

        Raises MissingDependencyError for what has to be installed or switched on, UsageError for wrong settings.
        """
        if self._context is None:
            if self._session is not None:
                context = _context_of(self._session)
            else:
                self.begin()
                assert self._application is not None
                assert self._beginning is not None
                context = self._beginning.result()
                for sentence in self._application.unknown_settings():
                    self._notify(sentence)
            with _SHIPPING:
                self._ship(context)
            self._context = context
        return self._context

    def begin(self) -> None:
        """Starts an own application in the background; `start` waits for it, and raises what went wrong."""
        if self._session is None and self._application is None:
            application = self._application = _Application(self._master, self._conf, self._verbose)
            beginning = self._beginning = Future()

            def start() -> None:
                try:
                    beginning.set_result(application.start(self._start_seconds))
                except BaseException as error:
                    beginning.set_exception(error)

            threading.Thread(target=start, name="acidctl-spark-begin", daemon=True).start()

    def run(self, specs: Sequence[Task]) -> Iterator[TaskOutcome]:
        """See `Engine.run`. Leaving the iterator early, or Ctrl-C, cancels what still runs.

        What reads most is handed out first, so that no executor begins it when the others are done.
        """
        pending = largest_first(specs)
        while pending:
            # A job ends with the first task that failed for good; the others go on in a new one.
            for outcome in self._run_job(specs, tuple(pending)):
                pending.remove(outcome.index)
                yield outcome

    def close(self) -> None:
        """Ends an own application; a session of the caller's goes on."""
        self._context = None
        if self._application is not None:
            self._application.close()
            if self._beginning is not None:  # which ends what it has half started
                wait([self._beginning], _JVM_ENDING_SECONDS)
            self._beginning = None
            self._application = None
            if self._packages is not None:
                shutil.rmtree(self._packages, ignore_errors=True)

    def __enter__(self) -> SparkEngine:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _ship(self, context: SparkContext) -> None:
        """Sends our own code to the executors, unless they import this very copy anyway."""
        if self._application is not None and cluster.is_local(self._master):
            return
        folder = Path(tempfile.mkdtemp(prefix="acidctl-"))
        archive = cluster.zip_package(Path(acidctl.__file__).parent, acidctl.__version__, folder)
        shipped = [Path(name).name for name in getattr(context, "_python_includes", None) or ()]
        if archive.name in shipped:
            shutil.rmtree(folder)
            return
        # The driver serves the file to every executor that comes later: it stays as long as the session.
        self._packages = folder
        before = list(sys.path)
        context.addPyFile(str(archive))
        sys.path[:] = before

    def _run_job(self, specs: Sequence[Task], indices: tuple[int, ...]) -> Iterator[TaskOutcome]:
        job = Job(self.start(), [specs[index] for index in indices], indices, self._work)
        unanswered = set(indices)
        try:
            for answer in job.answers(self._idle_seconds, self._notify):
                if isinstance(answer, cluster.Unfit):
                    raise MissingDependencyError(f"an executor {answer.reason}", hint=answer.hint)
                if answer.index in unanswered:
                    unanswered.remove(answer.index)
                    yield answer
        finally:
            job.end()
        if job.error is not None and unanswered:
            error, place = cluster.explain(job.error, [specs[index].output for index in indices])
            if place is None or indices[place] not in unanswered:
                raise error from job.error
            yield TaskOutcome(indices[place], error=error)
        elif unanswered:
            raise AcidctlError("Spark ended its job without the answers of all tasks", hint="Run it again.")


def largest_first(specs: Sequence[Task]) -> list[int]:
    """The places of tasks in the order in which they are handed out."""
    return sorted(range(len(specs)), key=lambda index: -specs[index].bytes_in)


def _context_of(session: Any) -> SparkContext:
    """The context of a SparkSession, or the context itself; UsageError when it cannot run tasks."""
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


class _Inbox(cluster.AddedAnswers):
    """The driver's end of the accumulator: what arrives goes to a queue; executors get plain `AddedAnswers`."""

    def __init__(self, arrived: queue.SimpleQueue[bytes | None]) -> None:
        self._arrived = arrived

    def addInPlace(self, one: cluster.Answers, other: cluster.Answers) -> cluster.Answers:
        """Hands on what is new, and keeps nothing."""
        for answer in other:
            self._arrived.put(answer)
        return ()

    def __reduce__(self) -> tuple[type[cluster.AddedAnswers], tuple[()]]:
        return (cluster.AddedAnswers, ())


class Job:
    """One Spark job over some tasks, submitted in a thread of its own; `error` is why it ended early."""

    def __init__(self, context: SparkContext, specs: Sequence[Task], indices: Sequence[int], work: Work | None) -> None:
        self.error: Exception | None = None
        self._context = context
        self._payloads = [pickle.dumps(pair, pickle.HIGHEST_PROTOCOL) for pair in zip(indices, specs, strict=True)]
        self._hosts = [spec.hosts for spec in specs]
        self._group = f"acidctl-{uuid.uuid4().hex[:12]}"
        self._arrived: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        inbox: Any = _Inbox(self._arrived)
        sink: Accumulator[cluster.Answers] = context.accumulator((), inbox)
        conf, master = context.getConf(), str(context.master)
        self._body = cluster.Body(
            sink,
            acidctl.__version__,
            cluster.max_failures(master, conf.get("spark.task.maxFailures")),
            cluster.has_idle_cores(master, conf.get("spark.task.cpus"), len(specs)),
            work,
            tuple(dict.fromkeys(package for spec in specs for package in packages_elsewhere(spec.url))),
        )
        self._stopped = False
        # It keeps the caller's Spark properties (scheduler pools).
        self._thread = InheritableThread(target=self._collect, name=self._group, daemon=True)

    def answers(self, idle_seconds: float, notify: Callable[[str], None]) -> Iterator[TaskOutcome | cluster.Unfit]:
        """Every answer at least once, until the job is over; raises when no task runs for too long."""
        self._thread.start()
        since = time.monotonic()
        notified = False
        while True:
            try:
                answer = self._arrived.get(timeout=POLL_SECONDS)
            except queue.Empty:
                if self.running_tasks() > 0:
                    since = time.monotonic()
                waited = time.monotonic() - since
                if waited > NOTIFY_SECONDS and not notified:
                    notified = True
                    notify("Spark has no free executor for the tasks yet; waiting")
                if waited > idle_seconds:
                    raise MissingDependencyError(
                        f"no Spark executor has taken a task for {idle_seconds:.0f} seconds",
                        hint="Check that the cluster has workers with free cores and memory for what "
                        "spark.executor.cores and spark.executor.memory ask for.",
                    ) from None
                continue
            if answer is None:
                return
            since = time.monotonic()
            yield pickle.loads(answer)

    def _collect(self) -> None:
        try:
            # The thread's own property: other jobs of the session are not concerned.
            self._context.setJobGroup(self._group, f"acidctl: {len(self._payloads)} tasks", True)
            if not self._stopped:
                payloads = distributed(self._context, self._payloads, self._hosts)
                for answer in payloads.mapPartitions(self._body).collect():
                    self._arrived.put(answer)
        except Exception as error:
            self.error = error
        finally:
            self._arrived.put(None)

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
        self._stopped = True
        deadline = time.monotonic() + _JOB_ENDING_SECONDS
        while self._thread.is_alive() and time.monotonic() < deadline:
            with contextlib.suppress(Exception):
                self._context.cancelJobGroup(self._group)
            # Again, should the job have been on its way to Spark only.
            self._thread.join(2.0)
        while self.running_tasks() > 0 and time.monotonic() < deadline:
            time.sleep(0.05)
        _accumulatorRegistry.pop(self._body.sink.aid, None)


def distributed(context: SparkContext, payloads: list[bytes], hosts: Sequence[tuple[str, ...]]) -> RDD[bytes]:
    """One partition per payload, each with the machines on which Spark should rather run it.

    PySpark has no way to say where: its `parallelize` is the JVM's, without the hosts that this one takes.
    """
    if any(hosts):
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


class _Application:
    """A Spark application of our own: a JVM started for it, and ended with it."""

    def __init__(self, master: str, conf: Mapping[str, str], verbose: bool) -> None:
        self._master = master
        self._local = cluster.is_local(master)
        self._given = conf
        self._conf = {**_DEFAULTS, **(_LOOPBACK if self._local else {}), **conf}
        for key in ("spark.driver.extraJavaOptions", "spark.executor.extraJavaOptions"):
            self._conf[key] = cluster.lean_java(conf.get(key, ""))
        if self._local:
            # The workers run on this machine and in this Python: they import this very copy, compiled already.
            paths = [str(Path(acidctl.__file__).parent.parent), conf.get("spark.executorEnv.PYTHONPATH", "")]
            self._conf["spark.executorEnv.PYTHONPATH"] = os.pathsep.join(filter(None, paths))
        self._verbose = verbose
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as the JVM writes to it
        self._gateway: Any = None
        self._context: SparkContext | None = None
        self._path = list(sys.path)
        self._over = False

    def start(self, timeout: float) -> SparkContext:
        """Starts the JVM and the application; whatever goes wrong is one sentence."""
        if SparkContext._active_spark_context is not None:
            raise UsageError(
                "a Spark session is already running in this process", hint="Hand it over: compact(..., spark=session)."
            )
        try:
            cluster.check_master(self._master, os.environ)
            if "PYSPARK_GATEWAY_PORT" not in os.environ:
                cluster.check_java(os.environ, pyspark.__version__)
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
                # It was given up meanwhile, and nobody else ends what has come since.
                self.close()

        thread = threading.Thread(target=start, name="acidctl-spark-start", daemon=True)
        thread.start()
        thread.join(timeout)
        if thread.is_alive():
            raise MissingDependencyError(
                f"Spark did not start within {timeout:.0f} seconds on {self._master}",
                hint="The cluster may have no free resources, or be unable to reach this machine "
                "(--spark-conf spark.driver.host=ADDRESS).",
            )
        if problem:
            self._log.seek(max(0, self._log.seek(0, os.SEEK_END) - 20_000))
            printed = self._log.read().decode("utf-8", "replace")
            raise cluster.explain_start(problem[0], printed, self._master) from problem[0]

    def _launch(self) -> None:
        if SparkContext._gateway is None:
            # PySpark says so wherever pandas 3 is installed, and no pandas is used here.
            warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
            # Everything that launches a JVM is on its command line, for all to see: secrets go another way.
            public = SparkConf(loadDefaults=False)
            public.setAll([("spark.master", self._master)])
            public.setAll([(key, value) for key, value in self._conf.items() if cluster.is_public(key)])
            output = live_stderr() if self._verbose else self._log
            outputs = {"stdout": output, "stderr": output}
            lean = "SPARK_LAUNCHER_OPTS" not in os.environ
            if lean:
                os.environ["SPARK_LAUNCHER_OPTS"] = cluster.lean_java()
            try:
                self._gateway = java_gateway.launch_gateway(public, outputs)  # type: ignore[no-untyped-call]
            finally:
                if lean:
                    del os.environ["SPARK_LAUNCHER_OPTS"]
            if self._over:
                return
        conf = SparkConf(_jvm=self._gateway.jvm if self._gateway is not None else SparkContext._jvm)
        conf.setAll(list(self._conf.items()))
        conf.setMaster(self._master)
        context = SparkContext(conf=conf, gateway=self._gateway)
        # The Python of the executors: Spark itself heeds the setting only in spark-submit.
        python = self._conf.get("spark.pyspark.python")
        if python or ("PYSPARK_PYTHON" not in os.environ and self._local):
            context.pythonExec = python or sys.executable
        self._context = context

    def unknown_settings(self) -> Iterator[str]:
        """A sentence for each setting that this Spark does not know; Spark itself ignores them without a word."""
        assert self._context is not None
        for key in self._given:
            try:
                registry: Any = self._context._jvm.org.apache.spark.internal.config.ConfigEntry  # type: ignore[union-attr]
                known = cluster.may_be_unregistered(key) or registry.findEntry(key) is not None
            except Exception:  # another release may keep them elsewhere
                return
            if not known:
                yield f"Spark {self._context.version} does not know the setting {key}; check its spelling"

    def close(self) -> None:
        """Stops the application and its JVM; also what has only half started, as soon as it has."""
        self._over = True
        with contextlib.suppress(Exception):
            if self._context is not None:
                _leave_accumulators(self._context)
                self._context.stop()
        self._context = None
        if self._gateway is not None:
            end_gateway(self._gateway)
            self._gateway = None
        sys.path[:] = [path for path in sys.path if path in self._path]
        self._log.close()


def _leave_accumulators(context: SparkContext) -> None:
    """Let the server of accumulators, which has nothing left to do, end by itself: it looks only once a second."""
    server: Any = context._accumulatorServer
    context._accumulatorServer = None  # type: ignore[assignment]
    if server is not None:
        server.handle_error = lambda *_: None  # the JVM ends its connection first
        threading.Thread(target=server.shutdown, name="acidctl-spark-accumulators", daemon=True).start()


def end_gateway(gateway: Any) -> None:
    """Ends the JVM behind a gateway of ours and lets pyspark forget it."""
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
        process.wait(_JVM_ENDING_SECONDS)
    except Exception:
        process.kill()
        process.wait()
