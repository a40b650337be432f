"""From what a user typed to a storage and a path in it, here and on other machines; the only place that knows a scheme.

Executors have neither this machine's configuration files nor its environment, so what a client goes by travels with
each task. Secrets of other systems stay behind; those for this storage travel, and are shown nowhere
(`compaction.plan.TaskSpec`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from importlib import import_module
from typing import Any, NamedTuple, cast

from acidctl.errors import MissingDependencyError, UsageError
from acidctl.storage.local import LocalStorage
from acidctl.storage.port import Storage
from acidctl.storage.redact import without_credentials, without_secret
from acidctl.storage.retry import retrying

Package = tuple[str, tuple[int, ...]]


class _Kind(NamedTuple):
    """A kind of storage: the modules that open it here, and that know what another machine needs to open it.

    `package` has the import name of what the adapter needs, and the oldest version that it works with
    (pyproject.toml); `extra` is what to install.
    """

    adapter: str
    elsewhere: str
    package: Package
    extra: str


_HDFS = _Kind("hdfs_native", "hadoop_conf", ("hdfs_native", (0, 11)), "hdfs")
_WEBHDFS = _Kind("webhdfs", "hadoop_conf", ("requests", (2, 28)), "hdfs")
_KINDS = {
    **dict.fromkeys(("hdfs", "viewfs"), _HDFS),
    **dict.fromkeys(("webhdfs", "swebhdfs"), _WEBHDFS),
    "s3": _Kind("s3", "s3", ("s3fs", (2024, 6)), "s3"),
}
_OTHERS = _Kind("objects", "", ("fsspec", (2024, 6)), "all")
# Two letters at least, and a slash after the colon: `C:/x` and `ds=10:30` stay paths. `./s3:/x` names a local
# one.
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/")
_CHAINED = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+::")
_ALIASES = {"s3a": "s3", "s3n": "s3"}


def resolve(url: str, options: Mapping[str, Any] | None = None) -> tuple[Storage, str]:
    """The storage of a path or URL, and the path within it without trailing slashes.

    Names are never percent-decoded: `%3A` in a partition folder is how Hive writes a colon, and Hadoop's URLs
    keep it.
    """
    if not url:
        raise UsageError("the path of the table is empty", hint="Give the table's directory or URL.")
    if "\0" in url:
        raise UsageError("a path cannot contain a NUL byte")
    if url.startswith("file:"):
        path = _local_path(url)
        return LocalStorage(path), path
    match = _URL.match(url)
    if _CHAINED.match(url) and "://" in url:
        raise UsageError(
            f"{without_secret(url)} is a chain of URLs, which acidctl does not follow",
            path=without_secret(url),
            hint="Give the URL of the storage alone; a local path of that name begins with `./`.",
        )
    if match is None:
        return LocalStorage(_trimmed(url)), _trimmed(url)
    scheme = match.group(1).lower()
    if without_credentials(url) != url:
        raise UsageError(
            f"{without_secret(url)} was given with a user or a password in its address",
            path=without_secret(url),
            hint="Secrets in addresses end up in logs: give credentials by the environment or in [storage] of the "
            "configuration file; the user of HDFS is HADOOP_USER_NAME or the owner of the Kerberos ticket.",
        )
    known = _ALIASES.get(scheme, scheme)
    kind = _KINDS.get(known, _OTHERS)
    rest = url[len(scheme) + 1 :]
    if not rest.startswith("//"):
        rest = ("///" if kind.extra == "hdfs" else "//") + rest.lstrip("/")
    address = f"{known}:{rest}"
    try:
        # Each needs a package of its own.
        adapter = import_module(f"acidctl.storage.{kind.adapter}")
    except ImportError:
        raise MissingDependencyError(
            f"{known}: needs a package that is not installed",
            path=without_secret(address),
            hint=f"pip install 'acidctl[{kind.extra}]'",
        ) from None
    storage, path = adapter.connect(address, known, options or {})
    return retrying(storage), _trimmed(path)


def _local_path(url: str) -> str:
    rest = url[len("file:") :]
    if rest.startswith("//"):
        host, slash, path = rest[2:].partition("/")
        if host not in ("", "localhost"):
            raise UsageError(
                f"{without_secret(url)} names another machine",
                path=without_secret(url),
                hint="Use file:///path for a local directory.",
            )
        rest = slash + path
    if not rest:
        raise UsageError(f"{url} names no path", path=url)
    return _trimmed(rest)


def _trimmed(path: str) -> str:
    return path.rstrip("/") or ("/" if path.startswith("/") else os.curdir)


def options_elsewhere(url: str, options: Mapping[str, Any], environment: Mapping[str, str]) -> dict[str, Any]:
    """The options by which another machine opens `url` as this one does with `options` and its environment.

    Raises UsageError for a configuration that cannot be used.
    """
    scheme = _scheme(url)
    kind = _KINDS.get(scheme)
    if kind is None:
        return dict(options)
    module = import_module(f"acidctl.storage.{kind.elsewhere}")
    return cast(dict[str, Any], module.options_elsewhere(url, scheme, options, environment))


def packages_elsewhere(url: str) -> tuple[Package, ...]:
    """Import names and oldest versions of what the adapter of `url` needs, beside what all tasks need."""
    scheme = _scheme(url)
    return (_KINDS.get(scheme, _OTHERS).package,) if scheme else ()


def _scheme(url: str) -> str:
    """The scheme in lower case, by its usual name; empty for paths of this machine."""
    match = _URL.match(url)
    scheme = match[1].lower() if match else ""
    return "" if scheme == "file" else _ALIASES.get(scheme, scheme)
