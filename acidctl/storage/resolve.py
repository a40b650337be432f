"""From what a user typed to a storage and a path in it; the only place that knows a scheme."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from typing import Any

from acidctl.errors import UsageError
from acidctl.storage.local import LocalStorage
from acidctl.storage.port import Storage
from acidctl.storage.redact import without_credentials, without_secret

Connect = Callable[[str, str, Mapping[str, Any]], tuple[Storage, str]]

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
    from acidctl.storage.retry import Retrying

    storage, path = _connector(known)(f"{known}:{rest}", known, options or {})
    return Retrying(storage), _trimmed(path)


def _connector(scheme: str) -> Connect:
    """What opens URLs of a scheme; imported on demand, because each needs a package of its own."""
    if scheme in ("hdfs", "viewfs"):
        from acidctl.storage import hdfs

        return hdfs.connect
    if scheme in ("webhdfs", "swebhdfs"):
        from acidctl.storage import webhdfs

        return webhdfs.connect
    from acidctl.storage import fsspec

    return fsspec.connect


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
