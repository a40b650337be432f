"""A certificate for loopback that signs itself, as a server's keystore and as a file to be trusted."""

from __future__ import annotations

import base64
import json
import subprocess
import time
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


def make_token(folder: Path, user: str) -> str:
    """A JSON Web Token of a user, good for an hour; `jwks.json` in the folder has the key that it is signed with."""
    if not (folder / "token.pem").exists():
        _openssl(folder, "genrsa", "-out", "token.pem", "2048")
    modulus = bytes.fromhex(_openssl(folder, "rsa", "-in", "token.pem", "-noout", "-modulus").partition("=")[2].strip())
    key = {"kty": "RSA", "kid": "ours", "alg": "RS256", "use": "sig", "n": _base64(modulus), "e": "AQAB"}
    (folder / "jwks.json").write_text(json.dumps({"keys": [key]}))
    now = int(time.time())
    parts = ({"alg": "RS256", "typ": "JWT", "kid": "ours"}, {"sub": user, "iat": now, "exp": now + 3600})
    signed = ".".join(_base64(json.dumps(part).encode()) for part in parts)
    (folder / "token.txt").write_text(signed)
    _openssl(folder, "dgst", "-sha256", "-sign", "token.pem", "-out", "token.sig", "token.txt")
    return f"{signed}.{_base64((folder / 'token.sig').read_bytes())}"


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def server_settings(folder: Path) -> Mapping[str, str]:
    """Hadoop's ssl-server.xml for what lies in the folder."""
    return {
        "ssl.server.keystore.location": str(folder / "keystore.p12"),
        "ssl.server.keystore.type": "PKCS12",
        "ssl.server.keystore.password": PASSWORD,
        "ssl.server.keystore.keypassword": PASSWORD,
    }


def _openssl(folder: Path, *arguments: str) -> str:
    done = subprocess.run(["openssl", *arguments], cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ServiceError(f"openssl failed: {done.stderr.strip()[-500:]}")
    return done.stdout
