"""A real HttpFS gateway before a test HDFS: it speaks WebHDFS, carries all bytes itself, and knows fewer parameters."""

from __future__ import annotations

import os
import shutil
import subprocess
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from . import jvm
from .hdfs import JAVA_OPTIONS, LOG_SETTINGS, Hdfs
from .processes import Service, ServiceError, free_port, stop, wait_until

POM = jvm.HERE / "httpfs" / "pom.xml"
MAIN = "org.apache.hadoop.fs.http.server.HttpFSServerWebServer"


@dataclass(slots=True)
class HttpFs(Service):
    """One gateway; it acts for whom a client names, as the superuser of `hdfs` may."""

    folder: Path
    hdfs: Hdfs
    port: int = field(default_factory=free_port)
    _process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """The root as `webhdfs://` URL, without a slash at its end."""
        return f"webhdfs://127.0.0.1:{self.port}"

    def start(self) -> Self:
        """Returns when it answers."""
        self.folder = self.folder.resolve()
        for name in ("conf", "log", "temp"):
            (self.folder / name).mkdir(parents=True)
        settings = {
            "httpfs.http.hostname": "127.0.0.1",
            "httpfs.http.port": str(self.port),
            "httpfs.hadoop.config.dir": str(self.hdfs.conf_dir),
            f"httpfs.proxyuser.{self.hdfs.superuser}.hosts": "*",
            f"httpfs.proxyuser.{self.hdfs.superuser}.groups": "*",
        }
        entries = "".join(
            f"<property><name>{key}</name><value>{value}</value></property>" for key, value in settings.items()
        )
        (self.folder / "conf" / "httpfs-site.xml").write_text(f"<configuration>{entries}</configuration>")
        (self.folder / "conf" / "httpfs-signature.secret").write_text("acidctl")
        (self.folder / "conf" / "log4j.properties").write_text(LOG_SETTINGS)
        (self.folder / "conf" / "httpfs-log4j.properties").write_text(LOG_SETTINGS)
        self._launch()
        wait_until("HttpFS", self._answers, process=self._process, log=self.folder / "httpfs.log")
        return self

    def _launch(self) -> None:
        files = jvm.jars(jvm.resolve(POM))
        java = shutil.which("java")
        if java is None:
            raise ServiceError("no Java: install a JDK 17, or put its bin folder on PATH")
        classpath = (self.folder / "conf", jvm.compile_java(("hdfs",), files), *files)
        options = [f"-Dhttpfs.{name}.dir={self.folder / folder}" for name, folder in _FOLDERS.items()]
        environment = {key: value for key, value in os.environ.items() if not key.startswith(("HADOOP_", "HTTPFS_"))}
        with open(self.folder / "httpfs.log", "ab") as log:
            self._process = subprocess.Popen(
                [java, *JAVA_OPTIONS, f"-Dhadoop.tmp.dir={self.folder}/tmp", *options, "acidctl.Guarded", MAIN],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                env={**environment, "CLASSPATH": os.pathsep.join(map(str, classpath))},
                cwd=self.folder,
                # Ctrl-C in the terminal is the test run's, which ends the services in order.
                start_new_session=True,
            )

    def _answers(self) -> bool:
        address = f"http://127.0.0.1:{self.port}/webhdfs/v1/?op=GETFILESTATUS&user.name={self.hdfs.superuser}"
        try:
            with urllib.request.urlopen(address, timeout=5):
                return True
        except urllib.error.HTTPError as error:
            error.close()
            return False
        except OSError:
            return False

    def close(self) -> None:
        """Ends it."""
        if self._process is not None:
            stop([self._process])
            self._process = None


_FOLDERS = {"home": ".", "log": "log", "config": "conf", "temp": "temp"}
