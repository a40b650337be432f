"""How a Hadoop client is configured: files, addresses, tokens, and where a URL of an HDFS leads by them.

`core-site.xml` and `hdfs-site.xml` are read as Hadoop itself reads them. Values may be secrets: nothing here prints
one, and errors name files and lines only.
"""

from __future__ import annotations

import base64
import getpass
import os
import re
import socket
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO
from xml.etree import ElementTree

from acidctl.errors import StorageError, UsageError
from acidctl.values import dataclass

_FILES = ("core-site.xml", "hdfs-site.xml")
_INCLUDE = "{http://www.w3.org/2001/XInclude}include"
_VARIABLE = re.compile(r"\$\{([^}$ ]+)\}")
# As in Hadoop: enough for honest configurations, and an end to those that refer to themselves.
_EXPANSIONS = 20
_DEEPEST = 10


def load_hadoop_conf(
    environment: Mapping[str, str], variable: str = "HADOOP_CONF_DIR", files: Sequence[str] = _FILES
) -> dict[str, str]:
    """The keys and values of `files` in the folder that a variable names, or else in `etc/hadoop` of HADOOP_HOME.

    Empty where neither is set or the files are missing. A folder or file that cannot be read is a UsageError: without
    its name services and its security a client would go elsewhere, or nowhere.
    """
    folder, home = environment.get(variable), environment.get("HADOOP_HOME")
    if not folder and home:
        folder = os.path.join(home, "etc", "hadoop")
        folder = folder if os.path.isdir(folder) else None
    if not folder:
        return {}
    if not os.path.isdir(folder):
        raise UsageError(
            f"{folder}, which {variable} names, is not a directory",
            path=folder,
            hint=f"Set {variable} to the folder that holds {' and '.join(files)}, or unset it.",
        )
    values: dict[str, str] = {}
    final: set[str] = set()
    for path in (Path(folder, name) for name in files):
        if path.exists():
            _read(path, values, final, 0)
    return {key: _expanded(value, values, environment) for key, value in values.items()}


def _read(path: Path, values: dict[str, str], final: set[str], depth: int) -> None:
    """Add the properties of a file; a later value wins unless an earlier one was final."""
    try:
        root = ElementTree.fromstring(path.read_bytes())
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}", path=str(path)) from error
    except ElementTree.ParseError as error:
        line = error.position[0]
        raise UsageError(
            f"{path} is not well-formed XML (line {line})",
            path=str(path),
            hint="Compare it with the cluster's own copy; `hdfs getconf` has to understand it too.",
        ) from None
    if root.tag != "configuration":
        raise UsageError(f"{path} is not a Hadoop configuration: its root is not <configuration>", path=str(path))
    for element in root:
        if element.tag == _INCLUDE:
            # Relative to the file it stands in; `<xi:fallback>` makes a missing one harmless.
            target = path.parent / element.get("href", "").removeprefix("file://")
            if depth >= _DEEPEST:
                raise UsageError(f"{path} includes files without end", path=str(path))
            if target.is_file():
                _read(target, values, final, depth + 1)
            elif not len(element):
                raise UsageError(f"{path} includes {target}, which does not exist", path=str(path))
        elif element.tag == "property":
            key, is_final = ((element.findtext(name) or element.get(name) or "").strip() for name in ("name", "final"))
            value = element.findtext("value", element.get("value"))
            if key and key not in final:
                if value is not None:
                    values[key] = value.strip()
                if is_final.lower() == "true":
                    final.add(key)


def _expanded(value: str, values: Mapping[str, str], environment: Mapping[str, str]) -> str:
    """A value with its `${key}`, `${env.NAME}` and `${env.NAME:-default}` replaced; unknown ones stay as they are."""

    def known(name: str) -> str | None:
        if not name.startswith("env."):
            return _own_name({}) if name == "user.name" else values.get(name)
        name = name.removeprefix("env.")
        for separator in (":-", "-"):
            variable, has_default, default = name.partition(separator)
            if has_default:
                given = environment.get(variable)
                return given if given or (separator == "-" and given is not None) else default
        return environment.get(name)

    for _ in range(_EXPANSIONS):
        for match in _VARIABLE.finditer(value):
            if (text := known(match[1])) is not None:
                value = value[: match.start()] + text + value[match.end() :]
                break
        else:
            break
    return value


def _own_name(environment: Mapping[str, str]) -> str | None:
    """The name of this user; None where there is none, as in containers that run under any number."""
    name = environment.get("HADOOP_USER_NAME")
    with suppress(KeyError, OSError):
        name = name or getpass.getuser()
    return name


def _check_options(options: Mapping[str, Any], scheme: str) -> None:
    """UsageError for an option that is not known, or that is of another kind; a `timeout` is above 0."""
    kinds = _WEB_OPTIONS if scheme in _WEB else _OPTIONS
    for name, value in options.items():
        kind = kinds.get(name)
        if kind is None:
            known = ", ".join(sorted(kinds))
            raise UsageError(f"unknown storage option {name!r} for {scheme}:", hint=f"Options are {known}.")
        if not isinstance(value, kind) or isinstance(value, bool) or value == "":
            raise UsageError(f"the storage option {name} of {scheme}: has a value of the wrong type")
        if name == "timeout" and not float(str(value)) > 0:
            raise UsageError(f"the storage option timeout of {scheme}: must be a number of seconds above 0")
    if "ca_file" in options and not os.path.isfile(options["ca_file"]):
        raise UsageError(f"{options['ca_file']}, which the storage option ca_file of {scheme}: names, is not a file")


def _is_name_service(authority: str, config: Mapping[str, str]) -> bool:
    return authority in _list(config, "dfs.nameservices") or f"dfs.ha.namenodes.{authority}" in config


def _namenodes(name_service: str, key: str, config: Mapping[str, str]) -> tuple[str, ...]:
    """HOST:PORT of the NameNodes of a name service; `key` is as `dfs.namenode.rpc-address`."""
    members = _list(config, f"dfs.ha.namenodes.{name_service}")
    keys = [f"{key}.{name_service}.{member}" for member in members] or [f"{key}.{name_service}", key]
    addresses = tuple(config[name] for name in keys if config.get(name))
    if not addresses:
        raise StorageError(
            f"the Hadoop configuration has no address for a NameNode of {name_service}",
            hint=f"Set {keys[0]} in hdfs-site.xml of HADOOP_CONF_DIR.",
        )
    return addresses


def _list(config: Mapping[str, str], key: str) -> list[str]:
    return [name.strip() for name in config.get(key, "").split(",") if name.strip()]


def _wants_kerberos(config: Mapping[str, str]) -> bool:
    return config.get("hadoop.security.authentication", "simple").lower() == "kerberos"


# --- Delegation tokens from the file that HADOOP_TOKEN_FILE_LOCATION names, as YARN and `hdfs fetchdt` write it.
#
# Pure functions over bytes. The format is that of Hadoop's `Credentials`: `HDTS`, a version, then either Writables
# (version 0) or one delimited protobuf message (version 1). Tokens are secrets: they have no printable form here.


_MAGIC = b"HDTS"
# What a NameNode takes; it sets kind and service itself.
_KINDS = frozenset({"HDFS_DELEGATION_TOKEN", "WEBHDFS delegation", "SWEBHDFS delegation"})


@dataclass(frozen=True, slots=True)
class Token:
    """`service` is `address:port` of the server that gave it, or `ha-hdfs:NAME` for a name service."""

    identifier: bytes = field(repr=False)
    password: bytes = field(repr=False)
    kind: str
    service: str

    def to_url(self) -> str:
        """The form of the parameter `delegation` (Hadoop's `encodeToUrlString`)."""

        def length(value: int) -> bytes:
            size = (value.bit_length() + 7) // 8
            return bytes([value]) if value <= 127 else (-112 - size).to_bytes(1, signed=True) + value.to_bytes(size)

        parts = (self.identifier, self.password, self.kind.encode(), self.service.encode())
        data = b"".join(length(len(part)) + part for part in parts)
        return base64.urlsafe_b64encode(data).decode().rstrip("=")


def choose(tokens: Collection[Token], hosts: Collection[str], name_service: str | None) -> Token | None:
    """The token for an HDFS: that of its name service or of one of its hosts (names or addresses), or the only one."""
    fitting = [token for token in tokens if token.kind in _KINDS]
    for token in fitting:
        before, _, after = token.service.rpartition(":")
        if (before.startswith("ha-") and after == name_service) or before in hosts:
            return token
    return fitting[0] if len(fitting) == 1 else None


def parse(data: bytes) -> tuple[Token, ...]:
    """All tokens of a file; ValueError when it is none."""
    if data[:4] != _MAGIC or len(data) < 5 or data[4] > 1:
        raise ValueError("no Hadoop credentials")
    stream = BytesIO(data[5:])
    if data[4] == 1:
        return tuple(_from_protobuf(_take(stream, _varint(stream))))
    tokens = []
    for _ in range(_vint(stream)):
        _take(stream, _vint(stream))  # the alias, which is not used
        identifier, password, kind, service = (_take(stream, _vint(stream)) for _ in range(4))
        tokens.append(Token(identifier, password, kind.decode(), service.decode()))
    return tuple(tokens)


def _take(stream: BinaryIO, length: int) -> bytes:
    data = stream.read(length) if length >= 0 else b""
    if len(data) != length:
        raise ValueError("the credentials end too early")
    return data


def _vint(stream: BinaryIO) -> int:
    """Hadoop's variable-length integer: small ones are one byte, else the first is their length."""
    first = int.from_bytes(_take(stream, 1), signed=True)
    if first < -120:
        raise ValueError("a length is negative")
    return first if first >= -112 else int.from_bytes(_take(stream, -112 - first))


def _varint(stream: BinaryIO) -> int:
    """Protobuf's."""
    value = shift = 0
    while True:
        byte = _take(stream, 1)[0]
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value


def _fields(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Number and content of the fields of a message that has only strings, bytes and messages."""
    stream = BytesIO(data)
    while stream.tell() < len(data):
        key = _varint(stream)
        if key & 7 != 2:
            raise ValueError("the credentials hold a field of another type")
        yield key >> 3, _take(stream, _varint(stream))


def _from_protobuf(data: bytes) -> Iterator[Token]:
    """CredentialsProto: tokens (1) of alias (1) and token (2), that of identifier, password, kind, service (1 to 4)."""
    for number, pair in _fields(data):
        message = dict(_fields(pair)).get(2) if number == 1 else None
        if message is not None:
            parts = dict(_fields(message))
            yield Token(parts.get(1, b""), parts.get(2, b""), parts.get(3, b"").decode(), parts.get(4, b"").decode())


# --- Where a URL leads.


_OPTIONS: Mapping[str, Any] = {"user": str, "config": Mapping, "timeout": (int, float)}
_WEB_OPTIONS: Mapping[str, Any] = {**_OPTIONS, "proxy_user": str, "token": str, "ca_file": str}
_TOKEN_FILE = "HADOOP_TOKEN_FILE_LOCATION"
_RPC_ADDRESS = "dfs.namenode.rpc-address"
# By scheme: what stands before the address of a server, Hadoop's key for its address, and the port unless given.
_SERVERS = {
    "hdfs": ("", _RPC_ADDRESS, 8020),
    "viewfs": ("", _RPC_ADDRESS, 8020),
    "webhdfs": ("http://", "dfs.namenode.http-address", 9870),
    "swebhdfs": ("https://", "dfs.namenode.https-address", 9871),
}
_WEB = ("webhdfs", "swebhdfs")
_SECONDS = 60.0
# hdfs-native waits for minutes before it gives up a NameNode that refuses connections.
_SHORT_WAITS = {
    "dfs.client.failover.max.attempts": "6",
    "dfs.client.failover.sleep.base.millis": "100",
    "dfs.client.failover.sleep.max.millis": "1000",
    "dfs.client.socket-timeout": "20000",
}
_PARAMETER = re.compile(r"[?&](?:delegation|user\.name|doas|op)=", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Place:
    """A path at an HDFS, its servers, and the user who asks them.

    `authority` is what stands after the scheme: a machine with a port, or a name of the configuration. `addresses` are
    those of its NameNodes, in the order of the configuration: HOST:PORT, over HTTP as `http://HOST:PORT`; none for
    viewfs, which has its own. `user` is None where the environment, a token or the Kerberos ticket names the user.
    `timeout` is in seconds, for one request. `ca_file` holds the certificates to trust instead of the system's.
    """

    scheme: str
    authority: str
    path: str
    addresses: tuple[str, ...]
    name_service: str | None = None
    user: str | None = None
    proxy_user: str | None = None
    token: str | None = field(default=None, repr=False)
    timeout: float = _SECONDS
    ca_file: str | None = None
    config: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def url(self) -> str:
        """What clients connect to."""
        return f"{self.scheme}://{self.authority}"

    @property
    def kerberos(self) -> bool:
        """Whether requests are authenticated by a ticket."""
        return _wants_kerberos(self.config) and self.token is None

    @property
    def trash_minutes(self) -> float:
        """This client's `fs.trash.interval`."""
        try:
            return float(self.config.get("fs.trash.interval", 0))
        except ValueError:
            return 0.0

    def ordered(self, addresses: Sequence[str]) -> dict[str, str]:
        """The configuration by which a client tries the NameNodes of a name service in this order."""
        config = dict(self.config)
        if self.name_service is not None:
            config[f"dfs.ha.namenodes.{self.name_service}"] = ",".join(f"n{number}" for number in range(len(addresses)))
            for number, address in enumerate(addresses):
                config[f"{_RPC_ADDRESS}.{self.name_service}.n{number}"] = address
        return config


def locate(url: str, scheme: str, options: Mapping[str, Any], environment: Mapping[str, str]) -> Place:
    """Where a URL leads.

    Options win over the environment, and `config` over the files of HADOOP_CONF_DIR. Over HTTP a user is named only
    where requests are not authenticated, as Hadoop does: HADOOP_USER_NAME, else the user of this process.
    """
    web = scheme in _WEB
    if web and _PARAMETER.search(url):
        # Copied from a client; it may hold secrets.
        plain = url.partition("?")[0]
        raise UsageError(
            f"{plain} was given with parameters of WebHDFS in its address",
            path=plain,
            hint="Give the plain path; user, proxy_user and token belong into [storage] of the configuration file, "
            f"a token also into the file that {_TOKEN_FILE} names.",
        )
    _check_options(options, scheme)
    # Hadoop's values are texts; TOML has numbers and truth values too.
    given = {
        key: str(value).lower() if isinstance(value, bool) else str(value)
        for key, value in (options.get("config") or {}).items()
    }
    config = {**({} if web else _SHORT_WAITS), **load_hadoop_conf(environment), **given}
    authority, slash, path = url.partition("://")[2].partition("/")
    server = authority or _default_authority(scheme, config)
    name_service = server if scheme != "viewfs" and _is_name_service(server, config) else None
    before, key, port = _SERVERS[scheme]
    addresses: tuple[str, ...] = ()
    if name_service is not None:
        addresses = _namenodes(name_service, key, config)
    elif scheme != "viewfs":
        server = server if re.search(r":[0-9]+$", server) else f"{server.rstrip(':')}:{port}"
        addresses = (server,)
    user, token = options.get("user"), options.get("token")
    if web:
        token = token or _token(environment, addresses, name_service)
        if user is None and token is None and not _wants_kerberos(config):
            user = _own_name(environment)
            if user is None:
                raise UsageError(
                    f"no user name for {scheme}: this user has no name on this machine",
                    hint="Set HADOOP_USER_NAME, or `user` in [storage] of the configuration file.",
                )
    return Place(
        scheme=scheme,
        authority=authority if web else server,
        path=re.sub("/+", "/", slash + path) or "/",
        addresses=tuple(before + address for address in addresses),
        name_service=name_service,
        user=user,
        proxy_user=options.get("proxy_user"),
        token=token,
        timeout=float(options.get("timeout", _SECONDS)),
        ca_file=options.get("ca_file"),
        config=config,
    )


def _default_authority(scheme: str, config: Mapping[str, str]) -> str:
    """That of the configuration, where a URL has none."""
    default = re.match(r"(\w+)://([^/]+)", config.get("fs.defaultFS", config.get("fs.default.name", "")))
    if default is not None and scheme in _WEB:
        # That port is for Hadoop's own protocol.
        return default[2] if _is_name_service(default[2], config) else default[2].partition(":")[0]
    if default is None or default[1].lower() != scheme:
        host = "HOST:PORT" if scheme in _WEB else "HOST"
        raise UsageError(
            f"{scheme}: was given without a host",
            hint=f"Use {scheme}://{host}/path, or name the cluster's configuration by HADOOP_CONF_DIR.",
        )
    return default[2]


def _token(environment: Mapping[str, str], addresses: tuple[str, ...], name_service: str | None) -> str | None:
    name = environment.get(_TOKEN_FILE)
    if not name:
        return None
    try:
        with open(name, "rb") as file:
            tokens = parse(file.read())
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it holds no Hadoop credentials"
        raise StorageError(
            f"{name}, which {_TOKEN_FILE} names, cannot be read: {reason}",
            path=name,
            hint="Write it with `hdfs fetchdt`, or unset the variable.",
        ) from None
    hosts = {re.sub(r":\d+$", "", address) for address in addresses}
    for host in list(hosts):
        with suppress(OSError):
            # Hadoop writes down servers by IP address.
            hosts.update(socket.gethostbyname_ex(host)[2])
    chosen = choose(tokens, hosts, name_service)
    return None if chosen is None else chosen.to_url()


# --- What other machines need to reach the same HDFS.


# Hadoop's keys that clients of HDFS go by; the files hold much of other systems besides.
_CLIENT_KEY = re.compile(
    r"dfs\.|ipc\.|fs\.(defaultFS|default\.name|viewfs\.|trash\.)|"
    r"hadoop\.(rpc\.|security\.(authentication|auth_to_local|token\.)|http\.authentication\.type)"
)
_SECRET_KEY = re.compile(r"(?i)secret|password|passwd|credential|access[.]?key")


def options_elsewhere(
    url: str, scheme: str, options: Mapping[str, Any], environment: Mapping[str, str]
) -> dict[str, Any]:
    """The options, and in `config`, below what they hold, the keys of HADOOP_CONF_DIR that a client goes by.

    Also the token of this machine's file of tokens, and the user, for files must not belong to whoever runs the
    executors. With Kerberos that is the ticket's, not ours to name.
    """
    place = locate(url, scheme, options, environment)
    user = place.user
    if user is None and scheme not in _WEB and not place.kerberos:
        user = _own_name(environment)
    known = {"token": place.token, "user": user}
    here = load_hadoop_conf(environment)
    config = {key: value for key, value in here.items() if _CLIENT_KEY.match(key) and not _SECRET_KEY.search(key)}
    config.update(options.get("config") or {})
    return {**{key: value for key, value in known.items() if value is not None}, **options, "config": config}
