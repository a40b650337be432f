"""What other machines need to open a storage as this one does: its options, and the packages of its adapter.

Executors have neither this machine's configuration files nor its environment, so what a client goes by travels with
each task. Secrets of other systems stay behind; those for this storage travel, and are shown nowhere
(`compaction.spec`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

Package = tuple[str, tuple[int, ...]]

_HADOOP = frozenset({"hdfs", "viewfs", "webhdfs", "swebhdfs"})
_S3 = frozenset({"s3", "s3a", "s3n"})
_S3_KEYS = {"key": "AWS_ACCESS_KEY_ID", "secret": "AWS_SECRET_ACCESS_KEY", "token": "AWS_SESSION_TOKEN"}
# Hadoop's keys that clients of HDFS go by; the files hold much of other systems besides.
_CLIENT_KEY = re.compile(
    r"dfs\.|ipc\.|fs\.(defaultFS|default\.name|viewfs\.|trash\.)|"
    r"hadoop\.(rpc\.|security\.(authentication|auth_to_local|token\.)|http\.authentication\.type)"
)
_SECRET_KEY = re.compile(r"(?i)secret|password|passwd|credential|access[.]?key")
# Import name of what an adapter needs, and the oldest version that it works with (pyproject.toml).
_PACKAGES: Mapping[str, tuple[Package, ...]] = {
    "hdfs": (("hdfs_native", (0, 11)),),
    "viewfs": (("hdfs_native", (0, 11)),),
    "webhdfs": (("hdfs", (2, 7)),),
    "swebhdfs": (("hdfs", (2, 7)),),
    "s3": (("s3fs", (2024, 6)),),
    "s3a": (("s3fs", (2024, 6)),),
    "s3n": (("s3fs", (2024, 6)),),
}


def options_elsewhere(url: str, options: Mapping[str, Any], environment: Mapping[str, str]) -> dict[str, Any]:
    """The options by which another machine opens `url` as this one does with `options` and its environment.

    For HDFS: the keys of HADOOP_CONF_DIR that a client goes by, below those of the option `config`; over HTTP the token
    of this machine's token file; and the user, for files written there must not belong to whoever runs the executors.
    With Kerberos that is the ticket's, not ours to name. For S3: the keys, endpoint and region of the environment, as
    Spark hands them to its own readers. Raises UsageError for a configuration that cannot be used.
    """
    scheme = _scheme(url)
    if scheme in _S3:
        return _of_s3(options, environment)
    if scheme not in _HADOOP:
        return dict(options)
    from acidctl.storage.hadoopconf import account_name, load_hadoop_conf

    here = load_hadoop_conf(environment)
    config = {key: value for key, value in here.items() if _CLIENT_KEY.match(key) and not _SECRET_KEY.search(key)}
    config.update(options.get("config") or {})
    found = {**options, "config": config}
    if scheme in ("webhdfs", "swebhdfs"):
        from acidctl.storage.webaccess import locate

        access = locate(url, scheme, options, environment).access
        known = {"token": access.token, "user": access.user}
        return {**{key: value for key, value in known.items() if value is not None}, **found}
    if "user" not in options and str(config.get("hadoop.security.authentication", "simple")).lower() == "simple":
        user = environment.get("HADOOP_USER_NAME") or account_name()
        if user is not None:
            found["user"] = user
    return found


def _of_s3(options: Mapping[str, Any], environment: Mapping[str, str]) -> dict[str, Any]:
    """Arguments of s3fs; those that were given win, and keys belong together."""
    found = dict(options)
    client = dict(options.get("client_kwargs") or {})
    if not found.keys() & {"key", "profile", "anon", "session"} and environment.get("AWS_ACCESS_KEY_ID"):
        keys = {name: environment.get(variable) for name, variable in _S3_KEYS.items()}
        found.update({name: value for name, value in keys.items() if value})
    endpoint = environment.get("AWS_ENDPOINT_URL_S3") or environment.get("AWS_ENDPOINT_URL")
    if endpoint and "endpoint_url" not in found and "endpoint_url" not in client:
        found["endpoint_url"] = endpoint
    region = aws_region(environment)
    if region and "region_name" not in client:
        found["client_kwargs"] = {**client, "region_name": region}
    return found


def aws_region(environment: Mapping[str, str]) -> str | None:
    """As the AWS command line has it; botocore itself knows the second variable only."""
    return environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION")


def packages_elsewhere(url: str) -> tuple[Package, ...]:
    """Import names and oldest versions of what the adapter of `url` needs, beside what all tasks need."""
    scheme = _scheme(url)
    return _PACKAGES.get(scheme, (("fsspec", (2024, 6)),) if scheme else ())


def _scheme(url: str) -> str:
    """The scheme in lower case; empty for paths of this machine."""
    found = re.match(r"([A-Za-z][A-Za-z0-9+.-]+):/", url)
    scheme = found[1].lower() if found else ""
    return "" if scheme == "file" else scheme
