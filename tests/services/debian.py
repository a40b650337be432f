"""Debian packages unpacked into a folder: downloaded with a private apt state, nothing installed in the system.

apt verifies them with the machine's own Debian keyring.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path


class DebianError(Exception):
    """Why this machine cannot get Debian's packages."""


def unpack(suite: str, packages: Sequence[str], target: Path) -> None:
    """Unpacks packages of a suite (`sid`, `bookworm`) below `target`, without what they depend on."""
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="acidctl-apt-") as scratch:
        for package in _download(Path(scratch), suite, packages):
            output("dpkg", "-x", str(package), str(target))


def release() -> str:
    """The suite that this machine runs, as /etc/os-release names it."""
    try:
        lines = Path("/etc/os-release").read_text().splitlines()
    except OSError:
        lines = []
    for line in lines:
        key, _, value = line.partition("=")
        if key == "VERSION_CODENAME":
            return value.strip('"')
    raise DebianError("/etc/os-release names no release")


def output(*command: str, cwd: Path | None = None) -> str:
    """What a program prints; DebianError when it fails."""
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    if done.returncode:
        raise DebianError(f"{command[0]} failed: {(done.stderr or done.stdout).strip()[-500:]}")
    return done.stdout


def _download(scratch: Path, suite: str, packages: Sequence[str]) -> list[Path]:
    mirror, keyring = _mirror()
    architecture = output("dpkg", "--print-architecture").strip()
    signed = f"[signed-by={keyring}] " if keyring else ""
    (scratch / "sources.list").write_text(f"deb {signed}{mirror} {suite} main\n")
    (scratch / "status").touch()
    for folder in ("state/lists/partial", "cache/archives/partial", "debs"):
        (scratch / folder).mkdir(parents=True)
    options = {
        "APT::Architecture": architecture,
        "APT::Architectures": architecture,
        "APT::Sandbox::User": "root",  # the private folders are not readable by the _apt user
        "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled": "false",
        "Acquire::Languages": "none",
        "Dir::Cache": str(scratch / "cache"),
        "Dir::Etc::sourcelist": str(scratch / "sources.list"),
        "Dir::Etc::sourceparts": "-",
        "Dir::State": str(scratch / "state"),
        "Dir::State::lists": str(scratch / "state" / "lists"),
        "Dir::State::status": str(scratch / "status"),
    }
    arguments = [word for key, value in options.items() for word in ("-o", f"{key}={value}")]
    output("apt-get", *arguments, "update")
    output("apt-get", *arguments, "download", *packages, cwd=scratch / "debs")
    return sorted((scratch / "debs").glob("*.deb"))


def _mirror() -> tuple[str, str | None]:
    """The Debian archive this machine is configured for, and the keyring file that vouches for it."""
    if not shutil.which("apt-get") or not shutil.which("dpkg"):
        raise DebianError("no apt here")
    listed = output("apt-get", "indextargets", "--format", "$(REPO_URI)|$(LABEL)|$(COMPONENT)")
    mirrors = [line.split("|")[0] for line in listed.splitlines() if line.endswith("|Debian|main")]
    if not mirrors:  # the labels are known only after an update
        uris = {line.split("|")[0] for line in listed.splitlines()}
        mirrors = sorted(uri for uri in uris if uri.rstrip("/").endswith("/debian"))
    if not mirrors:
        raise DebianError("apt is not configured for Debian")
    keyring = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
    return mirrors[0], str(keyring) if keyring.exists() else None
