"""S3 servers on loopback: moto, which takes any key and keeps all in memory, and versitygw, a gateway over a folder.

versitygw is built once with Go into the cache folder; it keeps its objects through a restart and refuses wrong keys.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import boto3

from .jvm import cache_folder, cache_lock
from .processes import Service, ServiceError, answers, free_port, pause, stop, wait_until

VERSITYGW = "github.com/versity/versitygw/cmd/versitygw@v1.8.0"
REGION = "us-east-1"


@dataclass(slots=True)
class S3Server(Service):
    """A running S3 server; `command` gets `{port}` and `{folder}` filled in."""

    name: str
    command: tuple[str, ...]
    folder: Path
    key: str = "acidctl-key"
    secret: str = "acidctl-secret"
    port: int = field(default_factory=free_port)
    _process: subprocess.Popen[bytes] | None = None
    _buckets: int = 0

    @property
    def endpoint_url(self) -> str:
        """Where it answers."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def options(self) -> dict[str, str]:
        """What s3fs has to be given."""
        return {"endpoint_url": self.endpoint_url, "key": self.key, "secret": self.secret}

    @property
    def environment(self) -> dict[str, str]:
        """The same for a process."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint_url,
            "AWS_ACCESS_KEY_ID": self.key,
            "AWS_SECRET_ACCESS_KEY": self.secret,
            "AWS_DEFAULT_REGION": REGION,
        }

    @property
    def client(self) -> Any:
        """A boto3 client that may do everything; it retries nothing."""
        return boto3.client(
            "s3",
            endpoint_url=self.endpoint_url,
            aws_access_key_id=self.key,
            aws_secret_access_key=self.secret,
            region_name=REGION,
        )

    def bucket(self) -> str:
        """Makes an empty bucket of a name that was never used here."""
        self._buckets += 1
        name = f"bucket-{self._buckets}"
        self.client.create_bucket(Bucket=name)
        return name

    def keys(self, bucket: str, prefix: str = "") -> list[str]:
        """The name of every object of a bucket, ascending."""
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
        return sorted(found["Key"] for page in pages for found in page.get("Contents", ()))

    def put_tree(self, local: Path, bucket: str, prefix: str) -> None:
        """Copies the files below a local folder to names that begin with `prefix` and a slash."""
        client = self.client
        for file in sorted(local.rglob("*")):
            if file.is_file():
                name = f"{prefix}/{file.relative_to(local).as_posix()}"
                client.put_object(Bucket=bucket, Key=name, Body=file.read_bytes())

    def start(self) -> Self:
        """Starts the server at its port; returns when it answers."""
        self.folder.mkdir(parents=True, exist_ok=True)
        log = self.folder.parent / f"{self.name}.log"
        secrets = {"ROOT_ACCESS_KEY": self.key, "ROOT_SECRET_KEY": self.secret}
        with open(log, "ab") as output:
            self._process = subprocess.Popen(
                [word.format(port=self.port, folder=self.folder) for word in self.command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env={**os.environ, **secrets},
                cwd=self.folder.parent,
                # Ctrl-C in the terminal is the test run's, which ends the services in order.
                start_new_session=True,
            )
        wait_until(self.name, lambda: answers(self.port), process=self._process, log=log)
        return self

    def kill(self) -> None:
        """Kills the server; `start` brings it back, moto without its objects."""
        if self._process is not None:
            self._process.kill()
            stop([self._process])
            self._process = None

    def pause(self) -> None:
        """Stops it in its tracks: connections are taken and nobody answers."""
        if self._process is not None:
            pause(self._process)

    def resume(self) -> None:
        """Lets it go on."""
        if self._process is not None:
            self._process.send_signal(signal.SIGCONT)

    def close(self) -> None:
        """Ends the server."""
        self.resume()
        if self._process is not None:
            stop([self._process])
            self._process = None


def moto_server(folder: Path) -> S3Server:
    """moto with no bucket; start it or use it in a `with`."""
    program = str(Path(sys.executable).with_name("moto_server"))
    return S3Server("moto", (program, "-H", "127.0.0.1", "-p", "{port}"), folder / "moto")


def versitygw_server(folder: Path) -> S3Server:
    """versitygw over an empty folder, likewise; ServiceError where there is neither Go nor a build of it."""
    program = str(_versitygw())
    return S3Server("versitygw", (program, "--port", "127.0.0.1:{port}", "posix", "{folder}"), folder / "versitygw")


def has_versitygw() -> bool:
    """Whether versitygw was built before or can be."""
    return _built().exists() or shutil.which("go") is not None


def _built() -> Path:
    return cache_folder() / f"versitygw-{VERSITYGW.rpartition('@')[2]}" / "versitygw"


def _versitygw() -> Path:
    program = _built()
    with cache_lock("versitygw"):
        if not program.exists():
            go = shutil.which("go")
            if go is None:
                raise ServiceError("no Go to build versitygw with: install Go 1.24 or newer")
            environment = {**os.environ, "GOBIN": str(program.parent)}
            run = subprocess.run(
                [go, "install", VERSITYGW], env=environment, capture_output=True, text=True, check=False
            )
            if run.returncode:
                raise ServiceError(f"cannot build versitygw: {run.stderr[-2000:]}")
    return program
