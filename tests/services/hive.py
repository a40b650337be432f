"""Real Hive in one JVM, driven from Python: the judge of what a table says, and the writer of the fixtures.

`HiveVersion` describes one release (classpath, Java, settings, metastore set-up); `Hive` runs it: sessions,
compaction worker, cleaner, streaming ingest. Everything a run writes lies in the folder it was given. What
differs between releases on the Java side lies below `java/<release>/` under the same class names.
"""

from __future__ import annotations

import json
import shutil
import tarfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

from py4j.protocol import Py4JError, Py4JJavaError

from . import jvm
from .jvm import Jvm
from .processes import Service


class HiveError(Exception):
    """What Hive answered to a statement or a compaction that it refused."""


@dataclass(frozen=True, slots=True)
class HiveVersion:
    """How one release of Hive is started; `settings` may name the run's folder as `{folder}`."""

    name: str
    pom: Path
    java_folders: tuple[str, ...]
    settings: Mapping[str, str]
    java_options: tuple[str, ...] = ()
    java_home: Callable[[], Path | None] = lambda: None
    # Puts an empty metastore into the run's folder, given the running JVM and the resolved files.
    prepare: Callable[[Jvm, Path, tuple[Path, ...]], None] = lambda java, folder, files: None

    def on_hdfs(self, url: str) -> HiveVersion:
        """The same release with its warehouse at `url`/warehouse (`hdfs://host:port`, whose root it may write)."""
        return replace(
            self,
            settings={
                **self.settings,
                "fs.defaultFS": url,
                "hive.metastore.warehouse.dir": f"{url}/warehouse",
                "hive.exec.scratchdir": f"{url}/scratch",
                "dfs.replication": "1",
                # A file is closed at the first look whether its block has arrived, not half a second later.
                "dfs.client.block.write.locateFollowingBlock.initial.delay.ms": "10",
            },
        )


@dataclass(frozen=True, slots=True)
class Answer:
    """The rows of a SELECT: names, one JSON text per value, and the transactions this query could see."""

    columns: tuple[str, ...]
    values: tuple[tuple[str, ...], ...]
    valid_txns: str | None

    def lines(self) -> tuple[str, ...]:
        """Each row as one line of JSON, its keys in the order of the columns."""
        return tuple(
            "{"
            + ", ".join(
                f"{json.dumps(name, ensure_ascii=False)}: {value}"
                for name, value in zip(self.columns, row, strict=True)
            )
            + "}"
            for row in self.values
        )


LOG_SETTINGS = """\
status = error
appender.console.type = Console
appender.console.name = console
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{ISO8601} %p %t %c{1}: %m%n
rootLogger.level = warn
rootLogger.appenderRef.console.ref = console
"""


class Session:
    """One Hive session. A transaction opened in it lives until COMMIT, ROLLBACK or the session's end."""

    def __init__(self, hive: Hive, name: str, settings: Mapping[str, str]) -> None:
        self._hive = hive
        self._java = hive.java.acidctl.HiveSession(name, dict(settings))

    def set(self, key: str, value: str) -> None:
        """Changes a Hive setting for what this session runs from now on."""
        self._java.set(key, value)

    def run(self, sql: str) -> None:
        """Runs one statement, without its semicolon."""
        self._hive.call(self._java.run, sql, what=sql)

    def select(self, sql: str) -> Answer:
        """Runs one query and returns its rows in the order Hive gives them."""
        values = self._hive.call(self._java.rows, sql, what=sql)
        return Answer(
            tuple(_plain_name(name) for name in self._java.columns()),
            tuple(tuple(row.split("\t")) for row in values),
            self._java.validTxns(),
        )

    def rows(self, sql: str) -> list[str]:
        """Runs one query and returns its rows as lines of JSON."""
        return list(self.select(sql).lines())

    def valid_txns(self) -> str:
        """The ValidTxnList a reader would be handed that comes now."""
        return str(self._java.currentTxns())

    def valid_write_ids(self, table: str, txns: str | None = None) -> str | None:
        """The write-id list of `db.table` that goes with a ValidTxnList, as Hive hands it out.

        None in Hive 2, whose write ids are the transaction ids.
        """
        text = self._java.validWriteIds([table], txns or self.valid_txns())
        return None if text is None else str(text).split("$", 1)[1]

    def read_write_ids(self) -> tuple[int, str]:
        """The own transaction of the last SELECT, and the write-id list of its table in its configuration (Hive 4)."""
        own, _, text = str(self._java.readWriteIds()).partition("$")
        return int(own), text

    def close(self) -> None:
        """Ends the session; an open transaction of it is rolled back."""
        self._java.close()


def _plain_name(name: str) -> str:
    bare = name.rsplit(".", 1)[-1]
    return "ROW__ID" if bare.lower() == "row__id" else bare


class Hive(Service):
    """A running Hive with an empty warehouse at `folder`/warehouse; close it, or use it in a `with`."""

    def __init__(self, version: HiveVersion, folder: Path) -> None:
        self.version = version
        self.folder = folder.resolve()
        self.warehouse = self.folder / "warehouse"
        files = jvm.resolve(version.pom)
        classpath = jvm.jars(files)
        classes = jvm.compile_java(version.java_folders, classpath)
        conf = self._write_configuration()
        self._jvm = jvm.launch(
            (conf, classes, *classpath),
            folder=self.folder,
            java_home=version.java_home(),
            options=(
                "-Duser.timezone=UTC",
                "-Dfile.encoding=UTF-8",
                f"-Dderby.system.home={self.folder}",
                "-Dderby.system.durability=test",
                "-Djava.net.preferIPv4Stack=true",
                f"-Djava.io.tmpdir={self.folder}",
                f"-Dlog4j.configurationFile={conf}/log4j2.properties",
                *version.java_options,
            ),
        )
        try:
            version.prepare(self._jvm, self.folder, files)
        except BaseException:
            self._jvm.close()
            raise
        self._sessions: dict[str, Session] = {}

    def _write_configuration(self) -> Path:
        conf = self.folder / "conf"
        conf.mkdir(parents=True, exist_ok=True)
        self.warehouse.mkdir(exist_ok=True)
        entries = "".join(
            f"<property><name>{escape(key)}</name>"
            f"<value>{escape(value.format(folder=self.folder))}</value></property>\n"
            for key, value in self.version.settings.items()
        )
        # In a file as well, because Hive's own threads make a configuration of their own.
        (conf / "hive-site.xml").write_text(f"<configuration>\n{entries}</configuration>\n")
        (conf / "log4j2.properties").write_text(LOG_SETTINGS)
        return conf

    @property
    def java(self) -> Any:
        """py4j's view of the JVM's packages."""
        return self._jvm.java

    @property
    def process_id(self) -> int:
        """Of the JVM."""
        return self._jvm.process.pid

    def call(self, function: Callable[..., Any], *arguments: Any, what: str) -> Any:
        """Calls into Java; a failure comes as HiveError that names `what` was tried."""
        try:
            return function(*arguments)
        except Py4JJavaError as error:
            cause = error.java_exception
            raise HiveError(f"{what}: {cause.getMessage()} (see {self._jvm.log})") from None
        except Py4JError as error:
            raise HiveError(f"{what}: the JVM does not answer, {error} (see {self._jvm.log})") from None

    def strings(self, values: Sequence[str]) -> Any:
        """A java.util.List of texts."""
        found = self.java.java.util.ArrayList()
        for value in values:
            found.add(value)
        return found

    def session(self, name: str = "main", settings: Mapping[str, str] | None = None) -> Session:
        """The session of that name, made when first asked for (`settings` count then only)."""
        if name not in self._sessions:
            self._sessions[name] = Session(self, name, settings or {})
        return self._sessions[name]

    def end_session(self, name: str) -> None:
        """Closes a session, if there is one of that name."""
        found = self._sessions.pop(name, None)
        if found is not None:
            found.close()

    def run(self, sql: str) -> None:
        """Runs a statement in the main session."""
        self.session().run(sql)

    def rows(self, sql: str) -> list[str]:
        """Runs a query in the main session and returns its rows as lines of JSON."""
        return self.session().rows(sql)

    def compact(self, table: str, kind: str, partition: str = "", settings: Mapping[str, str] | None = None) -> str:
        """Requests a compaction, runs the worker once, returns the state Hive shows for it afterwards.

        `partition` is the text of a PARTITION clause (`ds='1', hr=2`). Success is 'ready for cleaning' or
        'succeeded'.
        """
        clause = f" partition ({partition})" if partition else ""
        self.run(f"alter table {table}{clause} compact '{kind}'")
        self.call(self.java.acidctl.Services.work, dict(settings or {}), what=f"compact {table}")
        return self.compactions(table)[-1]["state"]

    def compactions(self, table: str) -> list[dict[str, str]]:
        """What SHOW COMPACTIONS says of `db.table` or `table`, oldest first."""
        name = table.rsplit(".", 1)[-1]
        answer = self.session().select("show compactions")
        found = []
        for row in answer.values:
            texts = row[0].strip('"').split("\\t") if len(row) == 1 else [json.loads(text) for text in row]
            entry = dict(zip(answer.columns, texts, strict=False))
            if entry.get("tabname") == name:
                found.append(entry)
        return sorted(found, key=lambda entry: int(entry.get("compactionid", 0)))

    def clean(self, settings: Mapping[str, str] | None = None) -> None:
        """Runs the cleaner once; waits first, as it looks at whole seconds."""
        time.sleep(1.1)
        self.call(self.java.acidctl.Services.clean, dict(settings or {}), what="clean")

    def ingest(self, table: str, row: str, transactions: int, directory: Path, partition: str | None = None) -> Any:
        """A streaming batch of `transactions` into `db.table`; `directory` is where its deltas belong.

        The Java object has insert(bucket, [values]), flush, commit, abort, leaveOpen, closeFiles, abandon and
        writeIds.
        """
        database, name = table.rsplit(".", 1)
        return self.java.acidctl.Ingest(database, name, partition, str(directory), row, transactions)

    def close(self) -> None:
        """Ends all sessions and this Hive's own JVM."""
        try:
            for name in list(self._sessions):
                self.end_session(name)
        finally:
            self._jvm.close()


COMMON_SETTINGS = {
    "fs.file.impl": "acidctl.PlainFileSystem",
    "fs.file.impl.disable.cache": "false",
    "hadoop.tmp.dir": "{folder}/hadoop",
    "hive.exec.scratchdir": "{folder}/scratch",
    "hive.exec.local.scratchdir": "{folder}/scratch-local",
    "hive.downloaded.resources.dir": "{folder}/resources",
    "hive.querylog.location": "{folder}/querylog",
    "hive.metastore.warehouse.dir": "{folder}/warehouse",
    "javax.jdo.option.ConnectionURL": "jdbc:derby:{folder}/metastore",
    "javax.jdo.option.ConnectionDriverName": "org.apache.derby.jdbc.EmbeddedDriver",
    "mapreduce.framework.name": "local",
    "mapreduce.jobtracker.staging.root.dir": "{folder}/staging",
    "mapreduce.cluster.local.dir": "{folder}/mapred",
    "hive.execution.engine": "mr",
    "hive.support.concurrency": "true",
    "hive.txn.manager": "org.apache.hadoop.hive.ql.lockmgr.DbTxnManager",
    "hive.exec.dynamic.partition.mode": "nonstrict",
    "hive.stats.autogather": "false",
    "hive.stats.column.autogather": "false",
    "hive.auto.convert.join": "false",
    "hive.exec.submit.local.task.via.child": "false",
    # SELECT without ORDER BY is then read in this process, whatever its size.
    "hive.fetch.task.conversion": "more",
    "hive.fetch.task.conversion.threshold": "-1",
    "hive.strict.checks.bucketing": "false",
    "hive.metastore.client.connect.retry.delay": "1s",
    # Local jobs end in a fraction of the second that both are asked only once in by default.
    "hive.exec.counters.pull.interval": "20",
    "mapreduce.client.progressmonitor.pollinterval": "20",
    "mapreduce.client.completion.pollinterval": "20",
}


def _hive4_metastore(java: Jvm, folder: Path, files: tuple[Path, ...]) -> None:
    """Copies an empty metastore that Hive's own Derby script made, once per cache."""
    tarball = next(file for file in files if file.name.endswith("-bin.tar.gz"))
    template = jvm.cache_folder() / "metastores" / f"hive4-{jvm.fingerprint([], tarball.name)}"
    with jvm.cache_lock("metastores"):
        if not template.exists():
            script = folder / "schema.sql"
            with tarfile.open(tarball) as archive:
                name = next(name for name in archive.getnames() if name.endswith("derby/hive-schema-4.0.0.derby.sql"))
                member = archive.extractfile(name)
                assert member is not None
                script.write_bytes(member.read())
            java.java.acidctl.Services.createMetastore(str(folder / "template"), str(script))
            template.parent.mkdir(exist_ok=True)
            shutil.copytree(folder / "template", template.with_suffix(".new"))
            template.with_suffix(".new").rename(template)
            shutil.rmtree(folder / "template")
    shutil.copytree(template, folder / "metastore")


HIVE4 = HiveVersion(
    name="hive4",
    pom=jvm.HERE / "hive4" / "pom.xml",
    java_folders=("shared", "hive34", "hive4"),
    # Quick to start rather than quick in the long run: nothing here runs long.
    java_options=(*jvm.ADD_OPENS, "-Xmx2g", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
    prepare=_hive4_metastore,
    settings={
        **COMMON_SETTINGS,
        "hive.query.results.cache.enabled": "false",
        "hive.server2.materializedviews.registry.impl": "DUMMY",
        "hive.compactor.delayed.cleanup.enabled": "false",
        # Else a managed table that is not transactional becomes external and cannot be converted.
        "metastore.metadata.transformer.class": " ",
        # How Tez runs in this process, for sessions and compactions with hive.execution.engine=tez.
        "tez.local.mode": "true",
        "tez.local.mode.without.network": "true",
        "tez.runtime.optimize.local.fetch": "true",
        "tez.ignore.lib.uris": "true",
        "tez.staging-dir": "{folder}/tez",
        "hive.tez.container.size": "256",
        "tez.am.resource.memory.mb": "256",
        "tez.runtime.io.sort.mb": "32",
        "tez.runtime.unordered.output.buffer.size-mb": "16",
        "hive.in.tez.test": "true",
    },
)
