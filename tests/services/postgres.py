"""PostgreSQL of this machine's Debian on loopback, for a metastore whose database is not Derby.

with Postgres() as database, Metastore(with_database(HIVE4, database), folder) as metastore:
    ...
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from . import debian, jvm
from .hive import HiveVersion
from .processes import Service, answers, free_port, stop, wait_until

# The release of PostgreSQL in each Debian.
_RELEASES = {"bookworm": "15", "trixie": "17"}
_NOBODY = 65534
_NAME = "metastore"


class Postgres(Service):
    """A server with one empty database, whose owner needs no password; all of it is gone at the end."""

    def __init__(self) -> None:
        release = debian.release()
        if release not in _RELEASES:
            raise debian.DebianError(f"which PostgreSQL Debian {release} has is not known here")
        self.port = free_port()
        # Whoever the server runs as has to reach it, which it does not in a home or below pytest's folders.
        self.folder = Path(tempfile.mkdtemp(prefix="acidctl-postgres-"))
        self.folder.chmod(0o755)
        self._server: subprocess.Popen[bytes] | None = None
        try:
            shutil.copytree(_unpacked(release, _RELEASES[release]), self.folder / "root", symlinks=True)
            self._bin = self.folder / f"root/usr/lib/postgresql/{_RELEASES[release]}/bin"
            self._start()
        except BaseException:
            self.close()
            raise

    def _start(self) -> None:
        home = self.folder / "home"
        home.mkdir()
        if os.geteuid() == 0:
            os.chown(home, _NOBODY, _NOBODY)
        made = ("--no-locale", "--encoding=UTF8", "--auth=trust", "--no-sync", f"--username={_NAME}")
        self._run("initdb", *made, "-D", str(home / "data"))
        log = home / "log"
        command = [str(self._bin / "postgres"), "-D", str(home / "data"), "-p", str(self.port)]
        for setting in ("listen_addresses=127.0.0.1", "unix_socket_directories=", "fsync=off", "max_connections=200"):
            command += ["-c", setting]
        with log.open("wb") as stream:
            self._server = subprocess.Popen(command, text=False, stdout=stream, stderr=stream, **self._as_whom())
        wait_until("PostgreSQL", lambda: answers(self.port), process=self._server, log=log)
        self.execute("postgres", "-c", f"create database {_NAME}")

    def execute(self, database: str, *arguments: str) -> None:
        """Runs psql, which ends at the first error."""
        where = ("-h", "127.0.0.1", "-p", str(self.port), "-U", _NAME, "-d", database)
        self._run("psql", "-q", "-X", "-v", "ON_ERROR_STOP=1", *where, *arguments)

    def _run(self, program: str, *arguments: str) -> None:
        command = [str(self._bin / program), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd="/", **self._as_whom())
        assert done.returncode == 0, (program, done.stdout[-500:], done.stderr[-2000:])

    def _as_whom(self) -> dict[str, Any]:
        """It does not run as root."""
        libraries = next((self.folder / "root/usr/lib").glob("*-linux-gnu"))
        options: dict[str, Any] = {"env": {**os.environ, "LD_LIBRARY_PATH": str(libraries), "TZ": "UTC"}}
        if os.geteuid() == 0:
            options |= {"user": _NOBODY, "group": _NOBODY, "extra_groups": []}
        return options

    def close(self) -> None:
        """Ends the server and removes everything."""
        if self._server is not None:
            stop([self._server])
        shutil.rmtree(self.folder, ignore_errors=True)


def with_database(version: HiveVersion, database: Postgres) -> HiveVersion:
    """A Hive 4 whose metastore keeps everything there, in the tables of Hive's own script."""

    def prepare(java: jvm.Jvm, folder: Path, files: Sequence[Path]) -> None:
        tarball = next(file for file in files if file.name.endswith("-bin.tar.gz"))
        with tarfile.open(tarball) as archive:
            names = archive.getnames()
            member = archive.extractfile(
                next(n for n in names if n.endswith("postgres/hive-schema-4.0.0.postgres.sql"))
            )
            assert member is not None
            script = database.folder / "schema.sql"
            script.write_bytes(member.read())
        database.execute(_NAME, "-f", str(script))

    settings = {
        "javax.jdo.option.ConnectionURL": f"jdbc:postgresql://127.0.0.1:{database.port}/{_NAME}",
        "javax.jdo.option.ConnectionDriverName": "org.postgresql.Driver",
        "javax.jdo.option.ConnectionUserName": _NAME,
        "javax.jdo.option.ConnectionPassword": "none",
    }
    return replace(version, settings={**version.settings, **settings}, prepare=prepare)


def _unpacked(release: str, version: str) -> Path:
    """The folder that holds it as `usr/...`; downloads it on first use."""
    root = jvm.cache_folder() / "postgres" / f"{release}-{version}"
    with jvm.cache_lock("postgres"):
        if not root.exists():
            pending = root.with_name(f"{root.name}.new")
            shutil.rmtree(pending, ignore_errors=True)
            debian.unpack(release, (f"postgresql-{version}", f"postgresql-client-{version}", "libpq5"), pending)
            pending.rename(root)
    return root
