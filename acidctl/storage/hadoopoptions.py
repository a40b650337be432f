"""What the adapters of HDFS have in common: storage options with Hadoop's keys among them, and its name services."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from acidctl.errors import StorageError, UsageError

Kinds = Mapping[str, type | tuple[type, ...]]


def check_options(options: Mapping[str, Any], kinds: Kinds, scheme: str) -> None:
    """UsageError for an option that `kinds` does not know, or that is of another kind; a `timeout` is above 0."""
    for name, value in options.items():
        kind = kinds.get(name)
        if kind is None:
            raise UsageError(f"{scheme}: has no storage option {name!r}", hint=f"There are {', '.join(sorted(kinds))}.")
        if not isinstance(value, kind) or isinstance(value, bool) or value == "":
            raise UsageError(f"the storage option {name} of {scheme}: has a value of the wrong kind")
        if name == "timeout" and not float(str(value)) > 0:
            raise UsageError(f"the storage option timeout of {scheme}: is in seconds, more than 0")


def to_texts(config: Mapping[str, Any]) -> dict[str, str]:
    """Hadoop's values are texts; TOML has numbers and truth values too."""
    return {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in config.items()}


def is_name_service(authority: str, config: Mapping[str, str]) -> bool:
    """Whether an authority is no machine but a name of the configuration."""
    return authority in _list(config, "dfs.nameservices") or f"dfs.ha.namenodes.{authority}" in config


def namenodes(name_service: str, key: str, config: Mapping[str, str]) -> tuple[str, ...]:
    """HOST:PORT of the NameNodes of a name service; `key` is as `dfs.namenode.rpc-address`."""
    members = _list(config, f"dfs.ha.namenodes.{name_service}")
    keys = [f"{key}.{name_service}.{member}" for member in members] or [f"{key}.{name_service}", key]
    addresses = tuple(config[name] for name in keys if config.get(name))
    if not addresses:
        raise StorageError(
            f"the configuration names no address of a NameNode of {name_service}",
            hint=f"Set {keys[0]} in hdfs-site.xml of HADOOP_CONF_DIR.",
        )
    return addresses


def _list(config: Mapping[str, str], key: str) -> list[str]:
    return [name.strip() for name in config.get(key, "").split(",") if name.strip()]
