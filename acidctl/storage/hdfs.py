"""`hdfs://` and `viewfs://` without a JVM: from an address and its options to a storage over hdfs-native's client."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from acidctl.errors import MissingDependencyError
from acidctl.storage.hdfsplace import locate
from acidctl.storage.port import Storage
from acidctl.storage.redact import without_secret


def connect(url: str, scheme: str, options: Mapping[str, Any]) -> tuple[Storage, str]:
    """The storage of a URL and the path within it; nothing is asked of the servers yet."""
    place = locate(url, scheme, options, os.environ)
    try:
        from acidctl.storage.hdfsclient import HdfsClient
        from acidctl.storage.hdfsstorage import HdfsStorage
    except ImportError:
        raise MissingDependencyError(
            f"{scheme}: needs a package that is not installed",
            path=without_secret(url),
            hint="pip install 'acidctl[hdfs]'",
        ) from None
    return HdfsStorage(HdfsClient(place)), place.path
