"""The configuration of a Hadoop client: `core-site.xml` and `hdfs-site.xml`, read as Hadoop itself reads them.

Values may be secrets: nothing here prints one, and errors name files and lines only.
"""

from __future__ import annotations

import getpass
import os
import re
from collections.abc import Mapping
from pathlib import Path
from xml.etree import ElementTree

from acidctl.errors import UsageError

_FILES = ("core-site.xml", "hdfs-site.xml")
_INCLUDE = "{http://www.w3.org/2001/XInclude}include"
_VARIABLE = re.compile(r"\$\{([^}$ ]+)\}")
# As in Hadoop: enough for honest configurations, and an end to those that refer to themselves.
_EXPANSIONS = 20
_DEEPEST = 10


def load_hadoop_conf(environment: Mapping[str, str]) -> dict[str, str]:
    """The keys and values that a Hadoop client finds by HADOOP_CONF_DIR, or else in `etc/hadoop` of HADOOP_HOME.

    Empty where neither is set or the files are missing. A folder or file that cannot be read is a UsageError: without
    its name services and its security a client would go elsewhere, or nowhere.
    """
    folder = environment.get("HADOOP_CONF_DIR")
    variable = "HADOOP_CONF_DIR"
    if not folder:
        home = environment.get("HADOOP_HOME")
        if not home:
            return {}
        folder, variable = os.path.join(home, "etc", "hadoop"), "HADOOP_HOME"
    if not os.path.isdir(folder):
        if variable == "HADOOP_HOME":
            return {}
        raise UsageError(
            f"{folder}, which {variable} names, is not a directory",
            path=folder,
            hint="Set HADOOP_CONF_DIR to the folder that holds core-site.xml and hdfs-site.xml, or unset it.",
        )
    found: dict[str, str] = {}
    final: set[str] = set()
    for name in _FILES:
        path = Path(folder, name)
        if path.exists():
            _read(path, found, final, 0)
    return {key: _expanded(value, found, environment) for key, value in found.items()}


def _read(path: Path, found: dict[str, str], final: set[str], depth: int) -> None:
    """Add the properties of a file; a later value wins unless an earlier one was final."""
    try:
        root = ElementTree.fromstring(path.read_bytes())
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}", path=str(path)) from error
    except ElementTree.ParseError as error:
        line = error.position[0]
        raise UsageError(
            f"{path} is not well-formed XML (line {line})",
            path=str(path),
            hint="Compare it with the cluster's own copy; `hdfs getconf` has to understand it too.",
        ) from None
    if root.tag != "configuration":
        raise UsageError(f"{path} is not a Hadoop configuration: its root is not <configuration>", path=str(path))
    for element in root:
        if element.tag == _INCLUDE:
            _include(path, element, found, final, depth)
        elif element.tag == "property":
            key = (element.findtext("name") or element.get("name") or "").strip()
            value = element.findtext("value")
            if value is None:
                value = element.get("value")
            if not key or key in final:
                continue
            if value is not None:
                found[key] = value.strip()
            if (element.findtext("final") or element.get("final") or "").strip().lower() == "true":
                final.add(key)


def _include(path: Path, element: ElementTree.Element, found: dict[str, str], final: set[str], depth: int) -> None:
    """`<xi:include href="FILE"/>`, relative to the file it stands in; `<xi:fallback>` makes a missing one harmless."""
    target = path.parent / element.get("href", "").removeprefix("file://")
    if depth >= _DEEPEST:
        raise UsageError(f"{path} includes files without end", path=str(path))
    if target.is_file():
        _read(target, found, final, depth + 1)
    elif not len(element):
        raise UsageError(f"{path} includes {target}, which does not exist", path=str(path))


def _expanded(value: str, found: Mapping[str, str], environment: Mapping[str, str]) -> str:
    """A value with its `${key}`, `${env.NAME}` and `${env.NAME:-default}` replaced; unknown ones stay as they are."""
    for _ in range(_EXPANSIONS):
        for match in _VARIABLE.finditer(value):
            known = _variable(match[1], found, environment)
            if known is not None:
                value = value[: match.start()] + known + value[match.end() :]
                break
        else:
            break
    return value


def _variable(name: str, found: Mapping[str, str], environment: Mapping[str, str]) -> str | None:
    if name.startswith("env."):
        name = name.removeprefix("env.")
        for separator, empty_counts in ((":-", False), ("-", True)):
            variable, found_one, default = name.partition(separator)
            if found_one:
                known = environment.get(variable)
                return known if known or (empty_counts and known is not None) else default
        return environment.get(name)
    if name == "user.name":
        return account_name()
    return found.get(name)


def account_name() -> str | None:
    """The name of this user; None where the system has none, as in containers that run under any number."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return None
