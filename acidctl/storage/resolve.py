"""From what a user typed to a storage and a path in it, here and on other machines; the only place that knows a scheme.

Executors have neither this machine's configuration files nor its environment, so what a client goes by travels with
each task. Secrets of other systems stay behind; those for this storage travel, and are shown nowhere
(`compaction.plan.TaskSpec`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any, Protocol

from acidctl.errors import MissingDependencyError, UsageError
from acidctl.storage.local import LocalStorage
from acidctl.storage.port import Storage
from acidctl.storage.redact import without_credentials, without_secret
from acidctl.storage.retry import retrying


class Adapter(Protocol):
    """What the module of a kind of storage offers."""

    def connect(self, url: str, scheme: str, options: Mapping[str, Any]) -> tuple[Storage, str]:
        """The storage of a URL and the path within it; nothing is asked of the servers yet."""
        ...

    def options_elsewhere(
        self, url: str, scheme: str, options: Mapping[str, Any], environment: Mapping[str, str]
    ) -> dict[str, Any]:
        """The options by which another machine opens the URL as this one does with these and its environment."""
        ...


# Two letters at least, and a slash after the colon: `C:/x` and `ds=10:30` stay paths. `./s3:/x` names a local
# one.
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/")
_CHAINED = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+::")
_HADOOP = frozenset({"hdfs", "viewfs", "webhdfs", "swebhdfs"})
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
        return _local(_local_path(url))
    match = _URL.match(url)
    if _CHAINED.match(url) and "://" in url:
        raise UsageError(
            f"{without_secret(url)} is a chain of URLs, which acidctl does not follow",
            path=without_secret(url),
            hint="Give the URL of the storage alone; a local path of that name begins with `./`.",
        )
    if match is None:
        return _local(_trimmed(url))
    scheme = match.group(1).lower()
    if without_credentials(url) != url:
        raise UsageError(
            f"{without_secret(url)} was given with a user or a password in its address",
            path=without_secret(url),
            hint="Secrets in addresses end up in logs: give credentials by the environment or in [storage] of the "
            "configuration file; the user of HDFS is HADOOP_USER_NAME or the owner of the Kerberos ticket.",
        )
    known = _ALIASES.get(scheme, scheme)
    rest = url[len(scheme) + 1 :]
    if not rest.startswith("//"):
        rest = "//" + rest.lstrip("/") if known not in _HADOOP else "///" + rest.lstrip("/")
    address = f"{known}:{rest}"
    storage, path = _adapter(known, address).connect(address, known, options or {})
    return retrying(storage), _trimmed(path)


def _adapter(scheme: str, url: str) -> Adapter:
    """The module for URLs of a scheme; imported on demand, because each needs a package of its own."""
    try:
        if scheme in ("hdfs", "viewfs"):
            from acidctl.storage import hdfs_native

            return hdfs_native
        if scheme in ("webhdfs", "swebhdfs"):
            from acidctl.storage import webhdfs

            return webhdfs
        if scheme == "s3":
            from acidctl.storage import s3

            return s3
    except ImportError:
        raise MissingDependencyError(
            f"{scheme}: needs a package that is not installed",
            path=without_secret(url),
            hint=f"pip install 'acidctl[{'hdfs' if scheme in _HADOOP else 's3'}]'",
        ) from None
    from acidctl.storage import objects

    return objects


def _local(path: str) -> tuple[Storage, str]:
    return LocalStorage(path), path


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


Package = tuple[str, tuple[int, ...]]

# Import name of what an adapter needs, and the oldest version that it works with (pyproject.toml).
_PACKAGES: Mapping[str, tuple[Package, ...]] = {
    "hdfs": (("hdfs_native", (0, 11)),),
    "viewfs": (("hdfs_native", (0, 11)),),
    "webhdfs": (("requests", (2, 28)),),
    "swebhdfs": (("hdfs", (2, 7)),),
    "s3": (("s3fs", (2024, 6)),),
}


def options_elsewhere(url: str, options: Mapping[str, Any], environment: Mapping[str, str]) -> dict[str, Any]:
    """The options by which another machine opens `url` as this one does with `options` and its environment.

    Raises UsageError for a configuration that cannot be used.
    """
    scheme = _scheme(url)
    known = _ALIASES.get(scheme, scheme)
    if known not in _HADOOP and known != "s3":
        return dict(options)
    return _adapter(known, url).options_elsewhere(url, known, options, environment)


def packages_elsewhere(url: str) -> tuple[Package, ...]:
    """Import names and oldest versions of what the adapter of `url` needs, beside what all tasks need."""
    scheme = _scheme(url)
    return _PACKAGES.get(_ALIASES.get(scheme, scheme), (("fsspec", (2024, 6)),) if scheme else ())


def _scheme(url: str) -> str:
    """The scheme in lower case; empty for paths of this machine."""
    match = re.match(r"([A-Za-z][A-Za-z0-9+.-]+):/", url)
    scheme = match[1].lower() if match else ""
    return "" if scheme == "file" else scheme
