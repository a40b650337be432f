"""A Java 8 runtime for Hive 3.1 and 2.3 on machines whose distribution has none.

Debian *sid* still carries OpenJDK 8. Its packages are downloaded with a private apt state, verified by apt
with the machine's own Debian keyring, and unpacked into a cache folder; nothing is installed in the system.
The programs were linked against sid's C library, so they are pointed at a copy of it that lies beside them.

Run as a program it prints JAVA_HOME. `ACIDCTL_JAVA8_HOME` names a Java 8 that is already there.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from . import debian
from .debian import DebianError, output

JAVA_PACKAGE = "openjdk-8-jre-headless"
LIBRARY_PACKAGES = ("libc6", "libgcc-s1", "libstdc++6", "zlib1g")
PATCHELF_PACKAGE = "patchelf"


class Java8UnavailableError(Exception):
    """Why this machine cannot get a Java 8."""


def cache_root() -> Path:
    """The folder, outside any work tree, for what is downloaded once per machine."""
    return Path(os.environ.get("ACIDCTL_CACHE") or Path.home() / ".cache" / "acidctl").resolve()


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold an exclusive file lock, so that two test sessions do not fill the cache at once."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def java8_home() -> Path:
    """JAVA_HOME of a working Java 8; downloads it on first use, raises Java8UnavailableError."""
    configured = os.environ.get("ACIDCTL_JAVA8_HOME")
    if configured:
        return _checked(Path(configured))
    root = cache_root() / "jdk8"
    with locked(root.with_name("jdk8.lock")):
        home = root / "java"
        if not (root / "complete").exists():
            shutil.rmtree(root, ignore_errors=True)
            try:
                _build(root)
            except DebianError as error:
                raise Java8UnavailableError(f"{error}; set ACIDCTL_JAVA8_HOME to a Java 8") from None
            _checked(home.resolve())
            (root / "complete").touch()
    return home.resolve()


def _build(root: Path) -> None:
    unpacked = root / "sid"
    debian.unpack("sid", (JAVA_PACKAGE, PATCHELF_PACKAGE, *LIBRARY_PACKAGES), unpacked)
    homes = sorted(unpacked.glob("usr/lib/jvm/java-8-openjdk-*"))
    if not homes:
        raise Java8UnavailableError(f"{JAVA_PACKAGE} unpacked to no usr/lib/jvm/java-8-openjdk-*")
    _repoint_links(unpacked, homes[0])
    _patch_programs(unpacked, homes[0])
    (root / "java").symlink_to(homes[0].relative_to(root))


def _repoint_links(unpacked: Path, home: Path) -> None:
    """The package keeps its configuration in /etc: point those links into the unpacked copy."""
    for path in home.rglob("*"):
        target = os.readlink(path) if path.is_symlink() else ""
        if target.startswith("/"):
            path.unlink()
            inside = unpacked / target.lstrip("/")
            if inside.exists():
                path.symlink_to(os.path.relpath(inside, path.parent))


def _patch_programs(unpacked: Path, home: Path) -> None:
    loader = next(iter(sorted(unpacked.rglob("ld-linux*.so.*"))), None)
    if loader is None:
        raise Java8UnavailableError("libc6 unpacked to no dynamic loader")
    library_folders = sorted({str(path.parent) for path in unpacked.rglob("lib*.so.*") if home not in path.parents})
    libraries = ":".join(folder for folder in library_folders if "gconv" not in folder)
    patchelf = [str(loader.resolve()), "--library-path", libraries, str(unpacked / "usr/bin/patchelf")]
    for path in sorted(home.rglob("*")):
        if path.is_symlink() or not path.is_file() or not os.access(path, os.X_OK) or path.suffix == ".so":
            continue
        if path.read_bytes()[:4] != b"\x7fELF":
            continue
        own = output(*patchelf, "--print-rpath", str(path)).strip()
        rpath = ":".join(part for part in (own, libraries) if part)
        output(*patchelf, "--set-interpreter", str(loader.resolve()), str(path))
        # RPATH, not RUNPATH: it must also hold for the libraries that the JVM opens later.
        output(*patchelf, "--force-rpath", "--set-rpath", rpath, str(path))


def _checked(home: Path) -> Path:
    java = home / "bin" / "java"
    done = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    if done.returncode or '"1.8.' not in done.stderr:
        raise Java8UnavailableError(f"{java} -version does not answer as Java 8: {done.stderr.strip()[:200]}")
    return home


if __name__ == "__main__":
    try:
        sys.stdout.write(f"{java8_home()}\n")
    except Java8UnavailableError as error:
        sys.exit(str(error))
