"""Who talks to which WebHDFS servers: from a URL, the options for it and Hadoop's configuration."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from acidctl.errors import StorageError, UsageError
from acidctl.storage import hadoopconf as hadooptokens
from acidctl.storage.hadoopconf import (
    Kinds,
    account_name,
    check_options,
    is_name_service,
    load_hadoop_conf,
    namenodes,
    to_texts,
)

_OPTIONS: Kinds = {
    "user": str,
    "proxy_user": str,
    "token": str,
    "ca_file": str,
    "timeout": (int, float),
    "config": Mapping,
}
_TOKEN_FILE = "HADOOP_TOKEN_FILE_LOCATION"
_SECONDS = 60.0
_WEB = {"webhdfs": ("http", 9870), "swebhdfs": ("https", 9871)}
_PARAMETER = re.compile(r"[?&](?:delegation|user\.name|doas|op)=", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Access:
    """Who asks which servers.

    `nodes` are base addresses (`http://host:port`), of which one at a time is active; `timeout` is in seconds, for
    each wait for an answer; `ca_file` holds the certificates to trust instead of the system's.
    """

    nodes: tuple[str, ...]
    user: str | None = None
    proxy_user: str | None = None
    token: str | None = field(default=None, repr=False)
    kerberos: bool = False
    timeout: float = _SECONDS
    ca_file: str | None = None


@dataclass(frozen=True, slots=True)
class Place:
    """A path at servers; `authority` is what stands after the scheme, `trash_minutes` this client's interval."""

    access: Access
    authority: str
    path: str
    trash_minutes: float


def locate(url: str, scheme: str, options: Mapping[str, Any], environment: Mapping[str, str]) -> Place:
    """Where a URL leads; `scheme` is webhdfs or swebhdfs.

    Options win over the environment, and `config` over the files of HADOOP_CONF_DIR. A user is named only where nobody
    proves who he is, as Hadoop does: HADOOP_USER_NAME, else who runs this.
    """
    if _PARAMETER.search(url):
        plain = url.partition("?")[0]
        raise UsageError(
            f"{plain} was given with parameters of WebHDFS in its address",
            path=plain,
            hint="Give the plain path; user, proxy_user and token belong into [storage] of the configuration file, "
            f"a token also into the file that {_TOKEN_FILE} names.",
        )
    check_options(options, _OPTIONS, scheme)
    if "ca_file" in options and not os.path.isfile(options["ca_file"]):
        raise UsageError(f"{options['ca_file']}, which the storage option ca_file of {scheme}: names, is not a file")
    config = {**load_hadoop_conf(environment), **to_texts(options.get("config") or {})}
    authority, slash, path = url.partition("://")[2].partition("/")
    nodes, name_service = _nodes(authority, scheme, config)
    kerberos = config.get("hadoop.security.authentication", "simple").lower() == "kerberos"
    token = options.get("token") or _token(environment, nodes, name_service)
    user = options.get("user")
    if user is None and token is None and not kerberos:
        user = environment.get("HADOOP_USER_NAME") or account_name()
        if user is None:
            raise UsageError(
                f"who reads {scheme}: is not known, because this user has no name on this machine",
                hint="Set HADOOP_USER_NAME, or `user` in [storage] of the configuration file.",
            )
    access = Access(
        nodes=nodes,
        user=user,
        proxy_user=options.get("proxy_user"),
        token=token,
        kerberos=kerberos and token is None,
        timeout=float(options.get("timeout", _SECONDS)),
        ca_file=options.get("ca_file"),
    )
    return Place(access, authority, re.sub("/+", "/", slash + path) or "/", _minutes(config))


def _nodes(authority: str, scheme: str, config: Mapping[str, str]) -> tuple[tuple[str, ...], str | None]:
    """Base addresses of the NameNodes, and the name service where the authority is one."""
    if not authority:
        authority = re.sub(r"^\w+://|/.*$", "", config.get("fs.defaultFS", ""))
        if not authority or authority.startswith("file:"):
            raise UsageError(
                f"{scheme}: was given without a host",
                hint=f"Use {scheme}://HOST:PORT/path, or name the cluster's configuration by HADOOP_CONF_DIR.",
            )
        if not is_name_service(authority, config):
            authority = authority.partition(":")[0]  # that port is for Hadoop's own protocol
    protocol, port = _WEB[scheme]
    key = f"dfs.namenode.{protocol}-address"
    if not is_name_service(authority, config):
        return (f"{protocol}://{authority if re.search(r':[0-9]+$', authority) else f'{authority}:{port}'}",), None
    return tuple(f"{protocol}://{address}" for address in namenodes(authority, key, config)), authority


def _token(environment: Mapping[str, str], nodes: tuple[str, ...], name_service: str | None) -> str | None:
    """The token for these servers in the environment's file of tokens."""
    name = environment.get(_TOKEN_FILE)
    if not name:
        return None
    try:
        with open(name, "rb") as file:
            tokens = hadooptokens.parse(file.read())
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it holds no Hadoop credentials"
        raise StorageError(
            f"{name}, which {_TOKEN_FILE} names, cannot be read: {reason}",
            path=name,
            hint="Write it with `hdfs fetchdt`, or unset the variable.",
        ) from None
    hosts = {re.sub(r"^\w+://|:\d+$", "", node) for node in nodes}
    addresses = {address for host in hosts for address in _addresses(host)}
    chosen = hadooptokens.choose(tokens, hosts | addresses, name_service)
    return None if chosen is None else chosen.to_url()


def _addresses(host: str) -> list[str]:
    """Hadoop writes down servers by IP address."""
    try:
        return socket.gethostbyname_ex(host)[2]
    except OSError:
        return []


def _minutes(config: Mapping[str, str]) -> float:
    try:
        return float(config.get("fs.trash.interval", "0"))
    except ValueError:
        return 0.0
