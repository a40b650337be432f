"""`acidctl` before metastores that want TLS, HTTP, a password or a ticket: it reads and compacts, or says why not."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.services import certificate
from tests.services.fixtures import SecureMetastore
from tests.services.metastore import (
    HTTP_SETTINGS,
    PASSWORD,
    PLAIN_SETTINGS,
    USER,
    Metastore,
    tls_settings,
)

pytestmark = pytest.mark.metastore
ROOT = Path(__file__).parents[2]
ACID = "stored as orc tblproperties ('transactional'='true')"


def asked(
    folder: Path, settings: str, *words: str, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """The program with a `[metastore]` section."""
    config = folder / "config.toml"
    config.write_text(f"[metastore]\n{settings}\n")
    config.chmod(0o600)
    return subprocess.run(
        [sys.executable, "-m", "acidctl", *words, "--config", str(config)],
        env={**os.environ, **(environment or {})},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def sentence(done: subprocess.CompletedProcess[str]) -> str:
    """The error of a command that failed for its storage, on one line."""
    assert done.returncode == 14, (done.stdout, done.stderr)
    assert "Traceback" not in done.stderr
    return " ".join(done.stderr.split())


def test_tls_http_and_passwords(metastore4: Metastore, tmp_path: Path) -> None:
    """Each way reads and compacts; a wrong authority, password or way is a sentence that keeps secrets."""
    run = metastore4.hive.run
    run(f"create table transports (id int) {ACID}")
    for number in range(3):
        run(f"insert into transports values ({number})")
    certificate.make(tmp_path)
    authority = next(path for path in sorted(tmp_path.glob("*.pem")))
    tls = metastore4.serve_also(tls_settings(tmp_path))
    http = metastore4.serve_also(HTTP_SETTINGS)
    plain = metastore4.serve_also(PLAIN_SETTINGS)
    token = certificate.make_token(tmp_path, USER)
    jwt = metastore4.serve_also(
        {
            **HTTP_SETTINGS,
            "metastore.authentication": "JWT",
            "metastore.authentication.jwt.jwks.url": (tmp_path / "jwks.json").as_uri(),
        }
    )
    password = f'auth = "plain"\nuser = "{USER}"\npassword = "{PASSWORD}"\n'
    ways = {
        "tls": f'uris = "thrift://localhost:{tls}"\ntls = true\nca_file = "{authority}"',
        "http": f'uris = "http://localhost:{http}/metastore"',
        "plain": f'uris = "thrift://localhost:{plain}"\n{password}',
        "jwt": f'uris = "http://localhost:{jwt}/metastore"\nauth = "jwt"\ntoken = "{token}"',
    }
    for settings in ways.values():
        done = asked(tmp_path, settings, "snapshot", "transports", "--count")
        assert (done.returncode, "3 rows" in done.stdout) == (0, True), (settings, done.stdout, done.stderr)
    for way, settings in ways.items():
        run(f"insert into transports values ({len(way)})")
        done = asked(tmp_path, settings, "compact", "major", "transports")
        assert done.returncode == 0, (way, done.stdout, done.stderr)
        metastore4.clean()
    assert len(metastore4.hive.rows("select id from transports")) == 7
    without = {
        "not trusted": f'uris = "thrift://localhost:{tls}"\ntls = true',
        "does not speak TLS": ways["tls"].replace(str(tls), metastore4.url.rpartition(":")[2]),
        "refused this user": ways["plain"].replace(PASSWORD, "wrong-password"),
        "closed the connection": f'uris = "thrift://localhost:{plain}"',
        "refused this user (HTTP 401)": ways["jwt"].replace(token, f"{token[:-8]}AAAAAAAA"),
    }
    for expected, settings in without.items():
        done = asked(tmp_path, settings + "\ntimeout = 10", "ls", "transports", "-v")
        text = sentence(done)
        assert expected in text, text
        assert PASSWORD not in text
        assert "wrong-password" not in text
        assert token[:-8] not in text
    run("drop table transports")


def test_tickets(secure_metastore: SecureMetastore, tmp_path: Path) -> None:
    """With a ticket it reads and compacts, sealed too; without one, or for another realm's server, it says so."""
    metastore, realm = secure_metastore.metastore, secure_metastore.realm
    run = metastore.hive.run
    run(f"create table tickets (id int) {ACID}")
    for number in range(3):
        run(f"insert into tickets values ({number})")
    settings = f'uris = "{metastore.url}"\nauth = "kerberos"\nprincipal = "hive/_HOST@ACIDCTL.TEST"\ntimeout = 20'

    def with_ticket(cache: Path | None, settings: str, *words: str) -> subprocess.CompletedProcess[str]:
        environment = realm.environment(cache, packages=True)
        environment["PYTHONPATH"] += f"{os.pathsep}{ROOT}"
        return asked(tmp_path, settings, *words, environment=environment)

    hive = realm.kinit("alice")
    done = with_ticket(hive, settings, "snapshot", "tickets", "--count")
    assert (done.returncode, "3 rows" in done.stdout) == (0, True), (done.stdout, done.stderr)
    done = with_ticket(hive, settings, "compact", "major", "tickets")
    assert done.returncode == 0, (done.stdout, done.stderr)
    metastore.clean()
    assert len(metastore.hive.rows("select id from tickets")) == 3
    for protection in ("integrity", "privacy"):
        port = metastore.serve_also({"hadoop.rpc.protection": protection})
        run(f"insert into tickets values ({port})")
        other = settings.replace(metastore.url, f"thrift://localhost:{port}")
        done = with_ticket(hive, other, "compact", "minor", "tickets")
        assert done.returncode == 0, (protection, done.stdout, done.stderr)
    assert len(metastore.hive.rows("select id from tickets")) == 5
    assert "Kerberos gives no access" in sentence(with_ticket(None, settings, "ls", "tickets"))
    assert "Ticket expired" in sentence(with_ticket(realm.expired("alice"), settings, "ls", "tickets"))
    other = settings.replace("ACIDCTL.TEST", "OTHER.TEST")
    assert "Kerberos gives no access" in sentence(with_ticket(hive, other, "ls", "tickets"))
    plain = f'uris = "{metastore.url}"\ntimeout = 10'
    assert "closed the connection" in sentence(with_ticket(hive, plain, "ls", "tickets"))
    run("drop table tickets")
