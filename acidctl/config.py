"""The configuration file: option defaults, storage options per URL prefix, Spark settings.

TOML, by default `acidctl/config.toml` in the user's configuration folder:

    [options]                        # defaults of any option, by its long name
    profile = "hive4"
    [options.ls]                     # of one command only
    limit = 50
    [storage."s3://warehouse/"]      # the longest prefix that fits a URL wins
    endpoint_url = "http://127.0.0.1:9000"
    [spark]
    master = "yarn"
    [metastore]                      # tables by name (`acidctl.metastore.settings`)
    uris = "thrift://metastore:9083"

What changes a table or agrees to a risk (`--delete`, `--quarantine`, `--undo`, `--yes`, `--skip-trash`, `--assume-*`,
`--drop-columns`, `--unsafe-*`) is taken from the command line only.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import field, replace
from difflib import get_close_matches
from typing import Any

from acidctl.errors import UsageError
from acidctl.options import is_safety_option
from acidctl.storage.named_files import open_regular
from acidctl.values import dataclass

_SECTIONS = ("options", "storage", "spark", "metastore")
_MOST_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Config:
    """A configuration as read; empty when there is no file, or none that this user may read (`skipped`).

    `path` is where it was read, and `shared` the path of a file that other users may read too.
    """

    options: Mapping[str, Any] = field(default_factory=dict)
    storage: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    spark: Mapping[str, Any] = field(default_factory=dict)
    metastore: Mapping[str, Any] = field(default_factory=dict)
    skipped: str | None = None
    shared: str | None = None
    path: str = ""

    def storage_options(self, url: str) -> Mapping[str, Any]:
        """The options of the longest prefix that the URL begins with."""
        fitting = [prefix for prefix in self.storage if url.startswith(prefix)]
        return self.storage[max(fitting, key=len)] if fitting else {}


def default_path(environment: Mapping[str, str]) -> str | None:
    """Where the file is looked for when `--config` is not given; None where the user has no such folder.

    Never a relative path: the current directory may be anybody's. XDG says so of its variable as well.
    """
    for folder in (environment.get("XDG_CONFIG_HOME", ""), os.path.join(environment.get("HOME", ""), ".config")):
        if os.path.isabs(folder):
            return os.path.join(folder, "acidctl", "config.toml")
    return None


def load_config(path: str | None, environment: Mapping[str, str]) -> Config:
    """Read the file; a missing default file is no error, a missing named one is."""
    chosen = default_path(environment) if path is None else path
    if chosen is None:
        return Config()
    try:
        with open_regular(chosen) as stream:
            text, mode = stream.read(_MOST_BYTES + 1), os.fstat(stream.fileno()).st_mode
    except (FileNotFoundError, NotADirectoryError) as error:
        if path is None:
            return Config()
        raise UsageError(f"the configuration file {chosen} does not exist", path=chosen) from error
    except PermissionError as error:
        # `sudo -u hive` may keep HOME: another user's settings are none of this one's.
        if path is None:
            return Config(skipped=chosen)
        raise _unreadable(chosen, error) from error
    except (OSError, ValueError) as error:
        raise _unreadable(chosen, error) from error
    if len(text) > _MOST_BYTES:
        raise UsageError(f"the configuration file {chosen} is larger than {_MOST_BYTES >> 20} MiB", path=chosen)
    config = _parse(text, chosen)
    return replace(config, shared=chosen) if mode & 0o077 else config


def _unreadable(path: str, error: OSError | ValueError) -> UsageError:
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return UsageError(f"the configuration file {path} cannot be read: {reason}", path=path)


def _parse(text: bytes, path: str) -> Config:
    import tomllib

    try:
        content = tomllib.loads(text.decode())
    except (ValueError, RecursionError) as error:
        raise UsageError(f"the configuration file {path} is not valid TOML: {error}", path=path) from error
    for name in content:
        if name not in _SECTIONS:
            raise unknown_name(path, f"section [{name}]", name, {one: f"[{one}]" for one in _SECTIONS})
    options = _section(content, "options", path)
    for name, value in options.items():
        for inner in (name, *(value if isinstance(value, dict) else ())):
            if is_safety_option(inner):
                raise UsageError(
                    f"the configuration file {path} sets {inner}, which is taken from the command line only",
                    path=path,
                )
    storage = _section(content, "storage", path)
    for prefix in storage:
        if not isinstance(storage[prefix], dict):
            raise UsageError(f'[storage] in {path} wants sections such as [storage."s3://bucket/"]', path=path)
    spark = _section(content, "spark", path)
    for name in spark:
        if name != "master" and name.partition(".")[0] != "spark":
            raise unknown_name(path, f"key {name} in [spark]", name, {"master": "master"}, _SPARK_HINT)
    return Config(options, storage, spark, _section(content, "metastore", path), path=path)


_SPARK_HINT = "It holds master, and settings of Spark such as spark.executor.memory."


def unknown_name(path: str, what: str, name: str, known: Mapping[str, str], hint: str | None = None) -> UsageError:
    """What is called `name` in a configuration file is not known; `known` are names that are, each as it is shown."""
    near = get_close_matches(name, known, 1)
    question = f"; did you mean {known[near[0]]}?" if near else ""
    return UsageError(f"the configuration file {path} has an unknown {what}{question}", path=path, hint=hint)


def _section(content: Mapping[str, Any], name: str, path: str) -> dict[str, Any]:
    section = content.get(name, {})
    if not isinstance(section, dict):
        raise UsageError(f"[{name}] in {path} has to be a section", path=path)
    return section
