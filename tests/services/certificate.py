"""A certificate for loopback that signs itself, as a server's keystore and as a file to be trusted."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

from .processes import ServiceError

PASSWORD = "acidctl"


def make(folder: Path) -> None:
    """Makes `keystore.p12` and `ca.pem` in a folder: for `localhost` and `127.0.0.1`, good for ten days."""
    folder.mkdir(parents=True, exist_ok=True)
    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", "key.pem")
    names = ("-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1")
    _openssl(folder, "req", "-x509", *key, *names, "-days", "10", "-out", "ca.pem")
    store = ("-out", "keystore.p12", "-passout", f"pass:{PASSWORD}", "-name", "server")
    _openssl(folder, "pkcs12", "-export", "-in", "ca.pem", "-inkey", "key.pem", *store)


def server_settings(folder: Path) -> Mapping[str, str]:
    """Hadoop's ssl-server.xml for what lies in the folder."""
    return {
        "ssl.server.keystore.location": str(folder / "keystore.p12"),
        "ssl.server.keystore.type": "PKCS12",
        "ssl.server.keystore.password": PASSWORD,
        "ssl.server.keystore.keypassword": PASSWORD,
    }


def _openssl(folder: Path, *arguments: str) -> None:
    done = subprocess.run(["openssl", *arguments], cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ServiceError(f"openssl failed: {done.stderr.strip()[-500:]}")
