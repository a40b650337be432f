"""A Java program's classpath by Maven and one JVM driven over py4j; knows nothing of Hive.

Everything fetched or compiled lies in a cache folder outside the work tree (`ACIDCTL_CACHE`, by default
`~/.cache/acidctl`). A JVM is ended by closing the `Jvm` that started it, and ends by itself with its parent.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

from .processes import Service

HERE = Path(__file__).parent
JAVA_SOURCES = HERE / "java"

# What Hadoop and Hive reach into on Java 17.
OPENED_PACKAGES = (
    *(
        f"java.base/java.{name}"
        for name in (
            *("lang", "lang.invoke", "lang.reflect", "io", "math", "net", "nio", "nio.channels", "nio.file"),
            *("text", "time", "time.format", "time.zone", "util", "util.concurrent", "util.regex"),
            *("util.concurrent.atomic", "util.concurrent.locks", "security"),
        )
    ),
    *(
        f"java.base/sun.{name}"
        for name in ("nio.ch", "nio.cs", "nio.fs", "security.action", "util.calendar", "net.dns")
    ),
    "java.base/jdk.internal.misc",
    "java.base/jdk.internal.ref",
    "java.sql/java.sql",
)
ADD_OPENS = tuple(f"--add-opens={package}=ALL-UNNAMED" for package in OPENED_PACKAGES)


class JvmError(Exception):
    """Why a classpath, a compilation or a JVM is not to be had, with the end of what the program said."""


def cache_folder() -> Path:
    """The folder for everything that is fetched or compiled; made if missing."""
    folder = Path(os.environ.get("ACIDCTL_CACHE") or Path.home() / ".cache" / "acidctl")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@contextmanager
def cache_lock(name: str) -> Iterator[None]:
    """Holds other processes off while one fills the cache entry `name`."""
    with open(cache_folder() / f"{name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def fingerprint(paths: Sequence[Path], *texts: str) -> str:
    """A short name for the content of these files and texts: a changed one makes a new cache entry."""
    digest = hashlib.sha256()
    for path in paths:
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    for text in texts:
        digest.update(text.encode() + b"\0")
    return digest.hexdigest()[:16]


def resolve(pom: Path) -> tuple[Path, ...]:
    """Every file the pom's dependencies come to, in classpath order; asks Maven the first time only."""
    folder = cache_folder() / "classpaths"
    folder.mkdir(exist_ok=True)
    known = folder / f"{pom.parent.name}-{fingerprint([pom])}.txt"
    with cache_lock("classpaths"):
        files = tuple(map(Path, known.read_text().split(os.pathsep))) if known.exists() else ()
        if not files or not all(file.exists() for file in files):
            pending = known.with_suffix(".new")
            run = subprocess.run(
                [
                    "mvn",
                    "-q",
                    "-B",
                    "-f",
                    str(pom),
                    "dependency:build-classpath",
                    f"-Dmdep.outputFile={pending}",
                    "-Dmdep.includeScope=runtime",
                ],
                capture_output=True,
                text=True,
                check=False,
            )
            if run.returncode:
                raise JvmError(f"Maven could not resolve {pom}: {(run.stdout + run.stderr)[-2000:]}")
            pending.replace(known)
            files = tuple(map(Path, known.read_text().split(os.pathsep)))
    return files


def jars(files: Sequence[Path]) -> tuple[Path, ...]:
    """The jars among resolved files: poms and tarballs have no place on a classpath."""
    return tuple(file for file in files if file.suffix == ".jar")


def compile_java(folders: Sequence[str], classpath: Sequence[Path]) -> Path:
    """Compiles the helper sources of these folders below `java/` for Java 8; the class folder is cached."""
    sources = sorted(path for folder in folders for path in (JAVA_SOURCES / folder).rglob("*.java"))
    key = fingerprint(sources, *map(str, classpath))
    target = cache_folder() / "classes" / f"{folders[-1]}-{key}"
    with cache_lock("classes"):
        if target.exists():
            return target
        pending = target.with_name(target.name + ".new")
        shutil.rmtree(pending, ignore_errors=True)
        pending.mkdir(parents=True)
        run = subprocess.run(
            [
                "javac",
                "--release",
                "8",
                "-nowarn",
                "-proc:none",
                "-d",
                str(pending),
                "-cp",
                os.pathsep.join(map(str, classpath)),
                *map(str, sources),
            ],
            capture_output=True,
            text=True,
            check=False,
        )
        if run.returncode:
            raise JvmError(f"javac failed: {run.stderr[-4000:]}")
        pending.rename(target)
    return target


def java_program() -> Path:
    """The `java` on PATH, links followed."""
    java = shutil.which("java")
    if java is None:
        raise JvmError("no Java: install a JDK 17, or put its bin folder on PATH")
    return Path(java).resolve()


def archive_classes(
    class_lists: Sequence[Path], classpath: Sequence[Path], options: Sequence[str], target: Path
) -> None:
    """Makes an archive for `-XX:SharedArchiveFile`, with which a JVM starts in half the time.

    The lists come from `-XX:DumpLoadedClassList`. Whoever uses it has `classpath` first on theirs, jars alone, and
    the same garbage collector.
    """
    names = dict.fromkeys(line for path in class_lists for line in path.read_text().splitlines())
    pending = target.with_suffix(".new")
    merged = target.with_suffix(".classes")
    merged.write_text("".join(f"{name}\n" for name in names))
    run = subprocess.run(
        [
            *(str(java_program()), *options, "-Xshare:dump", "-Xlog:disable"),
            *(f"-XX:SharedClassListFile={merged}", f"-XX:SharedArchiveFile={pending}"),
        ],
        env={**os.environ, "CLASSPATH": os.pathsep.join(map(str, classpath))},
        capture_output=True,
        text=True,
        check=False,
    )
    merged.unlink()
    if run.returncode:
        raise JvmError(f"cannot archive classes: {(run.stdout + run.stderr)[-2000:]}")
    pending.rename(target)


@dataclass(slots=True)
class Jvm(Service):
    """A running JVM; `jvm.java` is py4j's view of its packages."""

    gateway: JavaGateway
    process: subprocess.Popen[bytes]
    log: Path

    @property
    def java(self) -> Any:
        """The root of all packages: `jvm.java.java.util.ArrayList()`."""
        return self.gateway.jvm

    def close(self) -> None:
        """Ends this JVM and no other; waits until it is gone."""
        self.gateway.shutdown()
        self.process.terminate()
        try:
            self.process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        if self.process.stdin is not None:
            self.process.stdin.close()


def launch(
    classpath: Sequence[Path],
    *,
    folder: Path,
    options: Sequence[str] = (),
    java_home: Path | None = None,
) -> Jvm:
    """Starts a JVM that works in `folder`, where Derby and Hadoop drop files; its output is in `jvm.log`."""
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / "jvm.log"
    java = str(java_home / "bin" / "java" if java_home else java_program())
    # py4j copies the output line by line in threads of this process, so the log must be a text file.
    output = open(log, "a", encoding="utf-8")  # noqa: SIM115
    port, token, process = launch_gateway(
        classpath=os.pathsep.join(map(str, classpath)),
        javaopts=list(options),
        java_path=java,
        die_on_exit=True,
        cwd=str(folder),
        redirect_stdout=output,
        redirect_stderr=output,
        daemonize_redirect=True,
        enable_auth=True,
        return_proc=True,
    )
    gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port, auth_token=token, auto_convert=True))
    return Jvm(gateway, process, log)
