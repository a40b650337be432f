"""A real HDFS on loopback: a NameNode and DataNodes in processes of their own, and the faults of real life.

    with Hdfs(folder) as hdfs:
        hdfs.put_tree(local, "/warehouse/t")
        hdfs.kill_namenode(); hdfs.start_namenode()

Who runs the tests is the superuser; `alice`, `bob` and any other name that a client claims (`HADOOP_USER_NAME`)
are plain users. All keep their ports through a restart. Every process is ended by its own id, and by itself when
the one that started it is gone.
"""

from __future__ import annotations

import getpass
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Self
from urllib.parse import quote, unquote_plus
from xml.sax.saxutils import escape

from . import certificate, jvm
from .processes import Service, ServiceError, answers, free_port, pause, stop, wait_until

POM = jvm.HERE / "hdfs" / "pom.xml"
NAMENODE = "org.apache.hadoop.hdfs.server.namenode.NameNode"
DATANODE = "org.apache.hadoop.hdfs.server.datanode.DataNode"
CLASSES = "classes.jsa"
JAVA_OPTIONS = (
    # Without it every WebHDFS call fails.
    "--add-opens=java.base/java.lang=ALL-UNNAMED",
    *("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xss512k", "-XX:ReservedCodeCacheSize=64m"),
    *("-Xmx192m", "-XX:MaxDirectMemorySize=64m", "-Djava.net.preferIPv4Stack=true", "-Duser.timezone=UTC"),
)
LOG_SETTINGS = """\
log4j.rootLogger=WARN,console
log4j.appender.console=org.apache.log4j.ConsoleAppender
log4j.appender.console.target=System.err
log4j.appender.console.layout=org.apache.log4j.PatternLayout
log4j.appender.console.layout.ConversionPattern=%d{ISO8601} %p %c{1}: %m%n
"""
# Users that no system knows need groups too.
GROUPS = "alice=analysts;bob=analysts;carol=;dave="


@dataclass(slots=True)
class DataNode:
    """One DataNode: its ports, which stay, its folder and its process."""

    folder: Path
    port: int = field(default_factory=free_port)
    http: int = field(default_factory=free_port)
    https: int = field(default_factory=free_port)
    ipc: int = field(default_factory=free_port)
    process: subprocess.Popen[bytes] | None = None


@dataclass(slots=True)
class Hdfs(Service):
    """One HDFS; `settings` are Hadoop keys for its servers, `client_settings` for both sides."""

    folder: Path
    datanodes: int = 1
    replication: int = 1
    trash_minutes: int = 0
    # Answers swebhdfs:// too.
    tls: bool = False
    host: str = "127.0.0.1"
    settings: Mapping[str, str] = field(default_factory=dict)
    client_settings: Mapping[str, str] = field(default_factory=dict)
    java_options: Sequence[str] = ()
    # Principal and keytab of the superuser, where Kerberos is asked for.
    login: tuple[str, str] | None = None
    rpc: int = field(default_factory=free_port)
    http: int = field(default_factory=free_port)
    https: int = field(default_factory=free_port)
    _namenode: subprocess.Popen[bytes] | None = None
    _datanodes: list[DataNode] = field(default_factory=list)
    _console: subprocess.Popen[bytes] | None = None
    _recording: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def url(self) -> str:
        """The root as `hdfs://` URL, without a slash at its end."""
        return f"hdfs://{self.host}:{self.rpc}"

    @property
    def webhdfs(self) -> str:
        """The root as `webhdfs://` URL, without a slash at its end."""
        return f"webhdfs://{self.host}:{self.http}"

    @property
    def swebhdfs(self) -> str:
        """The root as `swebhdfs://` URL, where `tls` was asked for; its certificate is `ca_file`."""
        return f"swebhdfs://{self.host}:{self.https}"

    @property
    def ca_file(self) -> Path:
        """The certificate to be trusted, as PEM."""
        return self.folder / "tls" / "ca.pem"

    @property
    def conf_dir(self) -> Path:
        """A folder with the core-site.xml and hdfs-site.xml of a client, for HADOOP_CONF_DIR."""
        return self.folder / "conf"

    @property
    def environment(self) -> dict[str, str]:
        """What a client process has to find in its environment."""
        return {"HADOOP_CONF_DIR": str(self.conf_dir)}

    @property
    def superuser(self) -> str:
        """The name of who may do everything."""
        return self.login[0].split("/")[0] if self.login else getpass.getuser()

    def start(self) -> Self:
        """Starts all processes together; returns when files can be written."""
        self.folder = self.folder.resolve()
        self._write_configuration()
        self._datanodes = [DataNode(self.folder / f"data{number}") for number in range(self.datanodes)]
        try:
            self._format()
            self._launch_namenode()
            for node in self._datanodes:
                self._launch_datanode(node)
            self.wait()
        except BaseException:
            self.close()
            raise
        return self

    def wait(self) -> None:
        """Waits until the NameNode has left safe mode and every DataNode answers and is known to it."""
        log = self.folder / "namenode.log"
        wait_until("the NameNode", self._is_ready, process=self._namenode, log=log)
        for node in self._datanodes:
            if node.process is not None:
                log = self.folder / f"{node.folder.name}.log"
                wait_until("a DataNode", partial(answers, node.http), process=node.process, log=log)

    def _is_ready(self) -> bool:
        running = sum(node.process is not None for node in self._datanodes)
        if self.login:  # its pages are for those with a ticket
            report = self.run("dfsadmin", "-report", "-live", check=False)
            return "Safe mode is ON" not in report and f"Live datanodes ({running}):" in report
        try:
            state = self.jmx("Hadoop:service=NameNode,name=FSNamesystemState")
            info = self.jmx("Hadoop:service=NameNode,name=NameNodeInfo")
        except (OSError, ValueError, LookupError):  # its pages come after its ports
            return False
        return info["Safemode"] == "" and int(str(state["NumLiveDataNodes"])) >= running

    def jmx(self, bean: str) -> dict[str, object]:
        """One bean of the NameNode's own figures."""
        with urllib.request.urlopen(f"http://{self.host}:{self.http}/jmx?qry={bean}", timeout=5) as answer:
            beans: list[dict[str, object]] = json.load(answer)["beans"]
        return beans[0]

    # The faults.

    def kill_namenode(self) -> None:
        """Kills the NameNode, as a machine that is gone."""
        if self._namenode is not None:
            self._namenode.kill()
            stop([self._namenode])
            self._namenode = None

    def start_namenode(self) -> None:
        """Starts a NameNode that was killed, at its old ports and with its old files."""
        self._launch_namenode()
        self.wait()
        if self._console is not None:
            # Its connection to the old one breaks at the next use.
            self.run("dfs", "-test", "-e", "/", check=False)

    def kill_datanode(self, number: int = 0) -> None:
        """Kills a DataNode; the NameNode goes on believing in it for a while."""
        node = self._datanodes[number]
        if node.process is not None:
            node.process.kill()
            stop([node.process])
            node.process = None

    def start_datanode(self, number: int = 0) -> None:
        """Starts a DataNode that was killed, and waits until it serves its blocks."""
        self._launch_datanode(self._datanodes[number])
        self.wait()

    def restart_datanode(self) -> None:
        """Kills a DataNode and waits until the new one serves its blocks."""
        self.kill_datanode()
        self.start_datanode()

    def pause(self, *, namenode: bool = True, datanodes: bool = False) -> None:
        """Stops processes in their tracks: connections stay open and nobody answers."""
        for process in self._chosen(namenode, datanodes):
            pause(process)

    def resume(self) -> None:
        """Lets paused processes go on."""
        for process in self._chosen(namenode=True, datanodes=True):
            process.send_signal(signal.SIGCONT)

    def _chosen(self, namenode: bool, datanodes: bool) -> list[subprocess.Popen[bytes]]:
        found = [self._namenode] if namenode else []
        found += [node.process for node in self._datanodes] if datanodes else []
        return [process for process in found if process is not None]

    def safemode(self, on: bool) -> None:
        """Enters or leaves safe mode, in which nothing can be changed."""
        self.run("dfsadmin", "-safemode", "enter" if on else "leave")

    def set_quota(self, path: str, *, names: int | None = None, space: int | None = None) -> None:
        """Limits a directory: names (itself included) and bytes (replicas counted, full blocks while written).

        A limit that is None is taken away.
        """
        for option, limit in (("Quota", names), ("SpaceQuota", space)):
            if limit is None:
                self.run("dfsadmin", f"-clr{option}", path)
            else:
                self.run("dfsadmin", f"-set{option}", str(limit), path)

    def blocks(self, path: str) -> list[Path]:
        """The block files of a file's bytes, in order, one per replica."""
        names = re.findall(r"(blk_\d+)_\d+ len=", self.run("fsck", path, "-files", "-blocks"))
        return [found for name in names for node in self._datanodes for found in node.folder.rglob(name)]

    def corrupt(self, path: str, offset: int) -> None:
        """Overwrites bytes of the first block of a file on its disks, behind HDFS's back."""
        for block in self.blocks(path)[: self.replication]:
            with open(block, "r+b") as file:
                file.seek(offset)
                file.write(b"\xde\xad\xbe\xef")

    # What `hdfs dfs` and the like do.

    def run(self, program: str, *arguments: str, user: str = "", check: bool = True) -> str:
        """What `hdfs PROGRAM ARGUMENTS` prints; `program` is dfs, dfsadmin, fsck or haadmin.

        Put, get, remove and list are our own. A failure is a ServiceError, unless `check` is off.
        """
        words = " ".join(quote(word, safe="/") for word in (user, program, *arguments))
        with self._lock:
            if self._console is None or self._console.poll() is not None:
                login = self.login or ()
                self._console = self._launch("console", "acidctl.Console", *login, stdout=subprocess.PIPE)
            console = self._console
            if console.stdin is None or console.stdout is None:
                raise ServiceError("the console has no pipes")
            console.stdin.write(words.encode() + b"\n")
            console.stdin.flush()
            answer = console.stdout.readline().decode()
        if not answer:
            raise ServiceError(f"the console has ended, see {self.folder / 'console.log'}")
        code, said = answer.split()[0], unquote_plus(answer.partition(" ")[2].strip())
        if check and code != "0":
            raise ServiceError(f"hdfs {program} {' '.join(arguments)}: {said.strip()}")
        return said

    def put_tree(self, local: Path, path: str, *, user: str = "") -> None:
        """Copies a local file or directory to a path that does not exist; makes the parents."""
        self.run("put", str(local.resolve()), path, user=user)

    def get_tree(self, path: str, local: Path) -> None:
        """Copies a file or directory to a local path that does not exist."""
        local.parent.mkdir(parents=True, exist_ok=True)
        self.run("get", path, str(local.resolve()))

    def mkdir(self, path: str, *, owner: str = "", mode: str = "") -> None:
        """Makes a directory with its parents, of an owner (`alice` or `alice:analysts`) and octal mode."""
        self.run("dfs", "-mkdir", "-p", path)
        if owner:
            self.run("dfs", "-chown", owner, path)
        if mode:
            self.run("dfs", "-chmod", mode, path)

    def remove(self, path: str) -> None:
        """Removes whatever stands at a path, past the trash."""
        self.run("remove", path)

    def list(self, path: str) -> list[str]:
        """The path of everything below a directory, itself not included, ascending."""
        return sorted(self.run("list", path).split("\0")[:-1])

    # The processes.

    def close(self) -> None:
        """Ends every process."""
        self.resume()
        running = [self._console, self._namenode, *(node.process for node in self._datanodes)]
        stop([process for process in running if process is not None])
        self._console = self._namenode = None
        for node in self._datanodes:
            node.process = None

    def _write_configuration(self) -> None:
        site = {
            "fs.defaultFS": self.url,
            "dfs.replication": str(self.replication),
            "dfs.namenode.rpc-address": f"{self.host}:{self.rpc}",
            "dfs.namenode.http-address": f"{self.host}:{self.http}",
            "fs.trash.interval": str(self.trash_minutes),
            # A file is closed in 35 ms over WebHDFS, else in 450.
            "dfs.client.block.write.locateFollowingBlock.initial.delay.ms": "10",
            **self.client_settings,
        }
        server = {
            **site,
            "hadoop.tmp.dir": str(self.folder / "tmp"),
            "dfs.namenode.name.dir": f"file://{self.folder}/name",
            "dfs.namenode.fs-limits.min-block-size": "1024",
            "dfs.namenode.safemode.extension": "0",
            "dfs.namenode.datanode.registration.ip-hostname-check": "false",
            # Tokens without Kerberos, for those who hand them on.
            "dfs.namenode.delegation.token.always-use": "true",
            "dfs.heartbeat.interval": "1",
            "dfs.datanode.hostname": self.host,
            "ipc.client.connect.retry.interval": "100",
            "ipc.client.connect.max.retries": "100",
            "hadoop.user.group.static.mapping.overrides": GROUPS,
            f"hadoop.proxyuser.{self.superuser}.hosts": "*",
            f"hadoop.proxyuser.{self.superuser}.groups": "*",
            f"hadoop.proxyuser.{self.superuser}.users": "*",
            **self.settings,
        }
        if self.tls:
            certificate.make(self.folder / "tls")
            server["dfs.http.policy"] = "HTTP_AND_HTTPS"
            server["dfs.namenode.https-address"] = f"{self.host}:{self.https}"
            write_site(self.folder / "servers" / "ssl-server.xml", certificate.server_settings(self.folder / "tls"))
        write_sites(self.conf_dir, site)
        write_sites(self.folder / "servers", server)
        (self.folder / "servers" / "log4j.properties").write_text(LOG_SETTINGS)
        for name in ("hdfs", "datanode"):  # the pages that their servers do not start without
            (self.folder / "servers" / "webapps" / name).mkdir(parents=True, exist_ok=True)

    def _launch(self, name: str, *command: str, stdout: int | None = None) -> subprocess.Popen[bytes]:
        files = jvm.jars(jvm.resolve(POM))
        # Jars first: else the archived classes do not fit.
        classpath = (*files, self.folder / "servers", jvm.compile_java(("hdfs",), files))
        archive = () if self._recording else (f"-XX:SharedArchiveFile={_template()}/{CLASSES}",)
        environment = {key: value for key, value in os.environ.items() if not key.startswith(("HADOOP_", "HDFS_"))}
        with open(self.folder / f"{name}.log", "ab") as log:
            return subprocess.Popen(
                [jvm.java_program(), *JAVA_OPTIONS, *self.java_options, *archive, *command],
                stdin=subprocess.PIPE,
                stdout=log if stdout is None else stdout,
                stderr=log,
                env={**environment, "CLASSPATH": os.pathsep.join(map(str, classpath))},
                cwd=self.folder,
                # Ctrl-C in the terminal is the test run's, which ends the services in order.
                start_new_session=True,
            )

    def _format(self) -> None:
        """An empty name space; the first one per machine is made, later ones are copies."""
        if self._recording:
            process = self._launch("format", NAMENODE, "-format", "-nonInteractive")
            if process.wait(timeout=60):
                raise ServiceError(f"cannot format: {(self.folder / 'format.log').read_text()[-2000:]}")
            stop([process])
            shutil.copytree(self.folder / "name", self.folder / "empty")
            return
        template = _template()
        with jvm.cache_lock("hdfs"):
            if not template.exists():
                _make_template(template)
        if not (self.folder / "name").exists():
            shutil.copytree(template / "name", self.folder / "name")

    def _launch_namenode(self) -> None:
        self._namenode = self._launch("namenode", "acidctl.Guarded", NAMENODE)

    def _launch_datanode(self, node: DataNode) -> None:
        keys = {
            "dfs.datanode.address": f"{self.host}:{node.port}",
            "dfs.datanode.http.address": f"{self.host}:{node.http}",
            "dfs.datanode.https.address": f"{self.host}:{node.https}",
            "dfs.datanode.ipc.address": f"{self.host}:{node.ipc}",
            "dfs.datanode.data.dir": f"file://{node.folder}",
        }
        options = [word for key, value in keys.items() for word in ("-D", f"{key}={value}")]
        node.process = self._launch(node.folder.name, "acidctl.Guarded", DATANODE, *options)


def _template() -> Path:
    """What is made once per Hadoop and Java: an empty name space and archived classes."""
    java = jvm.java_program()
    files = map(str, jvm.resolve(POM))
    key = jvm.fingerprint([POM], *files, *JAVA_OPTIONS, str(java), str(java.stat().st_mtime_ns))
    return jvm.cache_folder() / "hdfs" / key


def _make_template(template: Path) -> None:
    """Runs an HDFS once that writes down which classes it loads; half a minute."""
    with tempfile.TemporaryDirectory(prefix="acidctl-hdfs-") as scratch:
        folder = Path(scratch)
        options = (f"-XX:DumpLoadedClassList={folder}/%p.classes",)
        with Hdfs(folder, java_options=options, _recording=True) as hdfs:
            hdfs.put_tree(folder / "servers", "/some")
            urllib.request.urlopen(f"http://127.0.0.1:{hdfs.http}/webhdfs/v1/?op=LISTSTATUS").close()
        pending = template.with_name(f"{template.name}.new")
        shutil.rmtree(pending, ignore_errors=True)
        pending.mkdir(parents=True)
        shutil.copytree(folder / "empty", pending / "name")
        lists = sorted(folder.glob("*.classes"))
        jvm.archive_classes(lists, jvm.jars(jvm.resolve(POM)), JAVA_OPTIONS, pending / CLASSES)
        pending.rename(template)


def write_sites(folder: Path, settings: Mapping[str, str]) -> None:
    """Writes core-site.xml and hdfs-site.xml; HDFS's own defaults win over what stands in the wrong one."""
    for name, ours in (("hdfs-site.xml", True), ("core-site.xml", False)):
        write_site(folder / name, {key: value for key, value in settings.items() if key.startswith("dfs.") is ours})


def write_site(path: Path, settings: Mapping[str, str]) -> None:
    """Writes one Hadoop configuration file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    entries = "".join(
        f"<property><name>{escape(key)}</name><value>{escape(value)}</value></property>\n"
        for key, value in settings.items()
    )
    path.write_text(f'<?xml version="1.0"?>\n<configuration>\n{entries}</configuration>\n')
