"""From what a user typed to a storage and a path in it; the only place that knows a scheme."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any

from acidctl.errors import MissingDependencyError, UsageError
from acidctl.storage.local import LocalStorage
from acidctl.storage.port import Storage
from acidctl.storage.redact import without_secret

# Two letters at least, and a slash after the colon: `C:/x` and `ds=10:30` stay paths. `./s3:/x` names a local
# one.
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/")
_CHAINED = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+::")
_ALIASES = {"s3a": "s3", "s3n": "s3"}
_NOT_YET = frozenset({"hdfs", "webhdfs", "swebhdfs", "viewfs"})


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
        return LocalStorage(), _local_path(url)
    match = _URL.match(url)
    if _CHAINED.match(url) and "://" in url:
        raise UsageError(
            f"{without_secret(url)} is a chain of URLs, which acidctl does not follow",
            path=without_secret(url),
            hint="Give the URL of the storage alone; a local path of that name begins with `./`.",
        )
    if match is None:
        return LocalStorage(), _trimmed(url)
    scheme = match.group(1).lower()
    if scheme in _NOT_YET:
        raise MissingDependencyError(
            f"{scheme}: tables cannot be read yet by this version of acidctl",
            path=without_secret(url),
            hint="Copy it (`hdfs dfs -get`), or give `acidctl ls --names` what `hdfs dfs -ls -R` prints.",
        )
    return _through_fsspec(url, scheme, options or {})


def _through_fsspec(url: str, scheme: str, options: Mapping[str, Any]) -> tuple[Storage, str]:
    from acidctl.storage.fsspec import connect

    known = _ALIASES.get(scheme, scheme)
    rest = url[len(scheme) + 1 :]
    if not rest.startswith("//"):
        rest = "//" + rest.lstrip("/")
    storage, path = connect(f"{known}:{rest}", known, options)
    return storage, _trimmed(path)


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
