"""Where the metastore is and how it is spoken to: the command line, the configuration file, Hive's own files.

What stands first here wins: an address that is given, `[metastore]` of the configuration file, `hive-site.xml` in
HIVE_CONF_DIR or HADOOP_CONF_DIR. Values may be secrets: nothing here shows one.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, fields
from typing import Any
from urllib.parse import urlsplit

from acidctl.errors import UsageError
from acidctl.storage.hadoop_conf import load_hadoop_conf
from acidctl.storage.redact import secrets_among, without_secret
from acidctl.values import dataclass

PORT = 9083
_SCHEMES = ("thrift", "http", "https")
_AUTH = ("none", "plain", "kerberos", "jwt")
# Hive's names for what is asked of a client; the second of each pair is the metastore's own, newer name.
_HIVE = {
    "uris": ("hive.metastore.uris", "metastore.thrift.uris"),
    "timeout": ("hive.metastore.client.socket.timeout", "metastore.client.socket.timeout"),
    "tls": ("hive.metastore.use.SSL", "metastore.use.SSL"),
    "sasl": ("hive.metastore.sasl.enabled", "metastore.sasl.enabled"),
    "principal": ("hive.metastore.kerberos.principal", "metastore.kerberos.principal"),
    "auth": ("hive.metastore.client.auth.mode", "metastore.client.auth.mode"),
    "user": ("hive.metastore.client.plain.username", "metastore.client.plain.username"),
    "transport": ("hive.metastore.client.thrift.transport.mode", "metastore.client.thrift.transport.mode"),
    "http_path": ("hive.metastore.client.thrift.http.path", "metastore.client.thrift.http.path"),
}
_HOST = re.compile(r"[\w.:%-]+")
_SECONDS = {"": 1.0, "ms": 0.001, "s": 1.0, "sec": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}


@dataclass(frozen=True, slots=True)
class Address:
    """One metastore of those that share a database."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class MetastoreSettings:
    """How a metastore is reached; the field names are the keys of `[metastore]`, and keywords of `Metastore`.

    `uris` are tried in their order. `auth` is none, plain (SASL, or basic over HTTP), kerberos, or jwt (HTTP only);
    `principal` the server's, such as `hive/_HOST@REALM`. `timeout` is in seconds, for all of one answer,
    `largest_answer` in bytes.
    """

    uris: Sequence[str] = ()
    auth: str = "none"
    user: str | None = None
    password: str | None = None
    token: str | None = None
    principal: str | None = None
    tls: bool = False
    ca_file: str | None = None
    transport: str = "binary"
    http_path: str = "metastore"
    headers: Mapping[str, str] = field(default_factory=dict)
    timeout: float = 600.0
    largest_answer: int = 256 << 20

    def __post_init__(self) -> None:
        """UsageError for what cannot be meant."""
        if self.auth not in _AUTH:
            raise UsageError(f"unknown auth {self.auth!r} of the metastore", hint=f"Use {' or '.join(_AUTH)}.")
        if self.transport not in ("binary", "http"):
            raise UsageError(f"unknown transport {self.transport!r} of the metastore", hint="Use binary or http.")
        if self.auth == "plain" and not (self.user and self.password):
            raise UsageError("auth plain of the metastore needs a user and a password", hint=_SECRETS)
        if self.auth == "jwt" and not (self.token and self.transport == "http"):
            raise UsageError("auth jwt of the metastore needs transport http and a token", hint=_SECRETS)
        if self.auth == "kerberos" and not self.principal:
            raise UsageError(
                "auth kerberos of the metastore needs the server's principal",
                hint='Set principal in [metastore], such as "hive/_HOST@EXAMPLE.COM".',
            )
        if self.ca_file is not None and not os.path.isfile(self.ca_file):
            raise UsageError(
                f"{self.ca_file!r}, which ca_file of the metastore names, is no file",
                path=self.ca_file,
                hint="It holds the certificates of who signed the metastore's, as PEM.",
            )
        if self.largest_answer < 1:
            raise UsageError("the largest answer of the metastore must have 1 byte or more", hint=_USUAL_ANSWER)
        if not self.timeout > 0:
            raise UsageError("the timeout of the metastore must be above 0 seconds", hint="Hive's own is 600.")

    @property
    def addresses(self) -> tuple[Address, ...]:
        """Where it may be, in the order in which to try."""
        return tuple(_address(uri) for uri in self.uris)

    @property
    def secrets(self) -> set[str]:
        """What no output may repeat; any header may be one."""
        headers = {f"token of {name}": value for name, value in self.headers.items()}
        return secrets_among({"password": self.password, "token": self.token, **headers})


_USUAL_ANSWER = "Leave largest_answer out for 256 MiB."
_SECRETS = (
    "Passwords and tokens come from ACIDCTL_METASTORE_PASSWORD, ACIDCTL_METASTORE_TOKEN or [metastore] of the "
    "configuration file."
)


def find_metastore(
    given: str | None, config: Mapping[str, Any], environment: Mapping[str, str]
) -> MetastoreSettings | None:
    """The settings to use, None where nothing names a metastore. UsageError for settings that cannot be used."""
    _check_kinds(config)
    values = {**_of_hive(environment), **config}
    secrets = {"password": "ACIDCTL_METASTORE_PASSWORD", "token": "ACIDCTL_METASTORE_TOKEN"}
    values.update({key: environment[name] for key, name in secrets.items() if environment.get(name)})
    if given:
        values["uris"] = given
    return make_settings(values) if "uris" in values else None


def make_settings(values: Mapping[str, Any]) -> MetastoreSettings:
    """Settings of texts and numbers; `uris` may be one text with commas. UsageError for an unknown key or value."""
    _check_kinds(values)
    uris = values.get("uris", ())
    uris = uris.split(",") if isinstance(uris, str) else uris
    uris = tuple(uri.strip() for uri in uris if uri.strip())
    if not uris:
        raise UsageError("the address of the metastore is empty", hint="Give it as thrift://host:9083.")
    chosen = dict(values, uris=uris)
    schemes = {uri.partition("://")[0].lower() if "://" in uri else "thrift" for uri in uris}
    if len(schemes) > 1:
        raise UsageError(f"the addresses of the metastore mix {' and '.join(sorted(schemes))}", hint=_ALIKE)
    if schemes & {"http", "https"}:
        chosen.update(transport="http", tls="https" in schemes or bool(values.get("tls")))
        paths = {urlsplit(uri).path.strip("/") for uri in uris} - {""}
        chosen.update({"http_path": paths.pop()} if paths else {})
    settings = MetastoreSettings(**chosen)
    assert settings.addresses  # each one is looked at now
    return settings


def _check_kinds(values: Mapping[str, Any]) -> None:
    """UsageError for an unknown key, or a value of another kind."""
    for key, value in values.items():
        if key not in FIELDS:
            raise UsageError(f"unknown setting {key!r} of the metastore", hint=f"The settings are {', '.join(FIELDS)}.")
        kinds, what = _KINDS.get(key, ((str,), "a text"))
        inner: Iterable[Any] = value.values() if isinstance(value, Mapping) else value if key == "uris" else ()
        wrong = not isinstance(value, kinds) or not all(isinstance(one, str) for one in inner)
        if wrong or (isinstance(value, bool) and bool not in kinds):
            raise UsageError(f"the setting {key} of the metastore has a value of the wrong type", hint=f"It is {what}.")


#: The keys of `[metastore]`.
FIELDS = tuple(one.name for one in fields(MetastoreSettings))
_KINDS: Mapping[str, tuple[tuple[type, ...], str]] = {
    "uris": ((str, list, tuple), "a text, or a list of texts"),
    "tls": ((bool,), "true or false"),
    "timeout": ((int, float), "a number of seconds"),
    "largest_answer": ((int,), "a number of bytes"),
    "headers": ((dict,), 'a table of texts, such as { X-Name = "value" }'),
}
_ALIKE = "Those that share a database are reached in one way: all by thrift:// or all by https://."


def _address(uri: str) -> Address:
    """A host, with `thrift://` and a port or without."""
    text = uri if "://" in uri else f"thrift://{uri}"
    try:
        parts = urlsplit(text)
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port, parts = None, None, urlsplit("")
    odd = host is None or _HOST.fullmatch(host) is None or (parts.scheme == "thrift" and parts.path.strip("/"))
    if host is None or odd or port == 0 or parts.scheme not in _SCHEMES or parts.username is not None:
        shown = without_secret(uri)
        raise UsageError(
            f"{shown!r} is not the address of a metastore", path=shown, hint="Give it as thrift://host:9083."
        )
    return Address(host, port or PORT)


def seconds_of(text: str) -> float | None:
    """A duration as Hive's settings have them, `300s`, `5 min`, or seconds; None for what is none."""
    number = re.fullmatch(r"(\d+)\s*([a-z]*)", text.strip().lower())
    return int(number[1]) * _SECONDS[number[2]] if number is not None and number[2] in _SECONDS else None


def _of_hive(environment: Mapping[str, str]) -> dict[str, Any]:
    """What Hive's own client files say, by the names of the settings."""
    found = load_hadoop_conf(environment, "HADOOP_CONF_DIR", ("core-site.xml", "hive-site.xml"))
    found.update(load_hadoop_conf(environment, "HIVE_CONF_DIR", ("hive-site.xml", "metastore-site.xml")))
    raw = {key: found[name] for key, names in _HIVE.items() for name in names if found.get(name)}
    if not raw.get("uris"):
        return {}
    values: dict[str, Any] = {key: raw[key] for key in ("uris", "user", "http_path", "principal") if key in raw}
    if seconds_of(raw.get("timeout", "")) is not None:
        values["timeout"] = seconds_of(raw["timeout"])
    values["tls"] = raw.get("tls", "").lower() == "true"
    values["transport"] = "http" if raw.get("transport", "").lower() == "http" else "binary"
    if raw.get("sasl", "").lower() == "true":
        values["auth"] = "kerberos"
    elif raw.get("auth", "").lower() in ("plain", "jwt"):
        values["auth"] = raw["auth"].lower()
    return values
