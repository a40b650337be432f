"""`hdfs://` without a JVM, through hdfs-native's `Client`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from acidctl.errors import MissingDependencyError
from acidctl.storage.port import Storage
from acidctl.storage.redact import without_secret


def connect(url: str, scheme: str, options: Mapping[str, Any]) -> tuple[Storage, str]:
    """The storage of a URL and the path within it."""
    raise MissingDependencyError(
        f"{scheme}: tables cannot be read yet by this version of acidctl",
        path=without_secret(url),
        hint="Copy it (`hdfs dfs -get`), or give `acidctl ls --names` what `hdfs dfs -ls -R` prints.",
    )
