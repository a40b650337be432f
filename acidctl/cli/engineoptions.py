"""Which engine the command line and [spark] of the configuration file ask for."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from acidctl.config import Config
from acidctl.engine.choose import EngineChoice
from acidctl.errors import UsageError


def engine_choice(
    config: Config,
    *,
    engine: str,
    master: str | None,
    spark_conf: tuple[str, ...],
    parallelism: int | None,
    memory: int | None,
) -> EngineChoice:
    """The engine; settings of the command line win over the file's, and `--engine local` over all of the file's."""
    own = dict(config.spark)
    configured = own.pop("master", None)
    if configured is not None and not isinstance(configured, str):
        raise UsageError("[spark] in the configuration file: master has to be a text such as yarn")
    conf = dict(_flat("", own))
    for text in spark_conf:
        key, equals, value = text.partition("=")
        if not equals or not key.startswith("spark."):
            # What follows the key may be a secret, however it was set apart.
            start = re.split(r"[=:\s]", text, maxsplit=1)[0]
            raise UsageError(
                f"--spark-conf {start!r} is no Spark setting", hint="Write it as spark.executor.memory=4g, for example."
            )
        conf[key] = value
    if engine == "local" and master is None and not spark_conf:
        conf = {}
    elif master is None:
        master = configured
    if engine == "auto" and master is None and not spark_conf:
        conf = {}
    return EngineChoice(engine, master, conf, None, parallelism, memory)


def _flat(prefix: str, values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """TOML's nested tables as Spark's dotted keys."""
    for key, value in values.items():
        name = f"{prefix}.{key}" if prefix else key
        if isinstance(value, Mapping):
            yield from _flat(name, value)
        elif name.startswith("spark."):
            yield name, str(value).lower() if isinstance(value, bool) else str(value)
        else:
            raise UsageError(f"[spark] in the configuration file: {name} is neither master nor a key like spark.x.y")
