"""Where an `hdfs://` address leads, and by what settings, before anything is asked of a server."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from acidctl.errors import UsageError
from acidctl.storage.hadoopconf import Kinds, check_options, is_name_service, load_hadoop_conf, namenodes, to_texts

_OPTIONS: Kinds = {"user": str, "config": Mapping, "timeout": (int, float)}
# NameNodes listen there for clients unless told otherwise.
_PORT = 8020
_SECONDS = 60.0
_RPC_ADDRESS = "dfs.namenode.rpc-address"
# The client library waits for minutes before it gives up a NameNode that refuses connections.
_PATIENCE = {
    "dfs.client.failover.max.attempts": "6",
    "dfs.client.failover.sleep.base.millis": "100",
    "dfs.client.failover.sleep.max.millis": "1000",
    "dfs.client.socket-timeout": "20000",
}


@dataclass(frozen=True, slots=True)
class Place:
    """A path at an HDFS, and how to get there.

    `authority` is what stands after the scheme: a machine with a port, or a name of the configuration. `addresses` are
    those of its NameNodes as HOST:PORT, in the order of the configuration; none for viewfs, which has its own. `user`
    is None where the environment or the Kerberos ticket names him. `timeout` is in seconds, for one request.
    """

    scheme: str
    authority: str
    path: str
    addresses: tuple[str, ...]
    name_service: bool
    user: str | None
    timeout: float
    config: Mapping[str, str] = field(repr=False)

    @property
    def kerberos(self) -> bool:
        """Whether servers ask for tickets."""
        return self.config.get("hadoop.security.authentication", "simple").lower() == "kerberos"

    @property
    def trash_minutes(self) -> float:
        """This client's `fs.trash.interval`."""
        try:
            return float(self.config.get("fs.trash.interval", 0))
        except ValueError:
            return 0


def locate(url: str, scheme: str, options: Mapping[str, Any], environment: Mapping[str, str]) -> Place:
    """Where a URL leads; `config` wins over the files of HADOOP_CONF_DIR."""
    check_options(options, _OPTIONS, scheme)
    config = {**_PATIENCE, **load_hadoop_conf(environment), **to_texts(options.get("config") or {})}
    authority, slash, path = url.partition("://")[2].partition("/")
    authority = authority or _default_authority(scheme, config)
    name_service = scheme == "hdfs" and is_name_service(authority, config)
    if scheme == "viewfs":
        addresses: tuple[str, ...] = ()
    elif name_service:
        addresses = namenodes(authority, _RPC_ADDRESS, config)
    else:
        authority = authority if re.search(r":[0-9]+$", authority) else f"{authority.rstrip(':')}:{_PORT}"
        addresses = (authority,)
    return Place(
        scheme=scheme,
        authority=authority,
        path=re.sub("/+", "/", slash + path) or "/",
        addresses=addresses,
        name_service=name_service,
        user=options.get("user"),
        timeout=float(options.get("timeout", _SECONDS)),
        config=config,
    )


def _default_authority(scheme: str, config: Mapping[str, str]) -> str:
    found = re.match(r"(\w+)://([^/]+)", config.get("fs.defaultFS", config.get("fs.default.name", "")))
    if found is None or found[1].lower() != scheme:
        raise UsageError(
            f"{scheme}: was given without a host",
            hint=f"Use {scheme}://HOST/path, or name the cluster's configuration by HADOOP_CONF_DIR.",
        )
    return found[2]


def with_order(place: Place, addresses: tuple[str, ...]) -> dict[str, str]:
    """The configuration by which a client tries the NameNodes of a name service in this order."""
    config = dict(place.config)
    if place.name_service:
        config[f"dfs.ha.namenodes.{place.authority}"] = ",".join(f"n{number}" for number in range(len(addresses)))
        for number, address in enumerate(addresses):
            config[f"{_RPC_ADDRESS}.{place.authority}.n{number}"] = address
    return config
