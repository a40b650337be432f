"""`webhdfs://`, `swebhdfs://` (TLS) and HttpFS gateways: from an address and its options to a storage."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from acidctl.errors import MissingDependencyError
from acidctl.storage.port import Storage
from acidctl.storage.redact import without_secret
from acidctl.storage.webaccess import locate


def connect(url: str, scheme: str, options: Mapping[str, Any]) -> tuple[Storage, str]:
    """The storage of a URL and the path within it; nothing is asked of the servers yet."""
    place = locate(url, scheme, options, os.environ)
    try:
        from acidctl.storage.webapi import WebApi
        from acidctl.storage.webstorage import WebHdfsStorage
    except ImportError:
        raise MissingDependencyError(
            f"{scheme}: needs a package that is not installed",
            path=without_secret(url),
            hint="pip install 'acidctl[hdfs]'",
        ) from None
    storage = WebHdfsStorage(WebApi(place.access), scheme, place.authority, trash_minutes=place.trash_minutes)
    return storage, place.path
