"""A Spark of our own starts while the plan is made, where there is something to do; and when it is not worth it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import acidctl
import acidctl.engine.spark
from acidctl.engine import EngineChoice, TaskOutcome
from acidctl.engine.local import LocalEngine
from acidctl.engine.spark import largest_first
from tests import ROOT

DEMO = ROOT / "fixtures/tables/hive4/demo_orders/03-demo/table"
QUICKER = "--engine local is quicker than Spark's start"


class Pretended(LocalEngine):
    """Spark's place taken by this process; `events` is what happened in which order."""

    name = "spark"
    events: list[str]

    def __init__(self, *_: Any, **how: Any) -> None:
        super().__init__(1, work=how.get("work"))

    def begin(self) -> None:
        """As Spark's."""
        self.events.append("begin")

    def run(self, specs: Sequence[Any]) -> Iterator[TaskOutcome]:
        """In this process."""
        self.events.append("run")
        return super().run(specs)

    def close(self) -> None:
        """As Spark's."""
        self.events.append("close")
        super().close()


@pytest.fixture
def events(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What happens to the engine."""
    monkeypatch.setattr(acidctl.engine.spark, "SparkEngine", Pretended)
    Pretended.events = []
    return Pretended.events


def test_spark_starts_while_files_are_looked_into(events: list[str], tmp_path: Path) -> None:
    """Before the plan is there; the report says that the local engine would have been done by then."""
    table = shutil.copytree(DEMO, tmp_path / "t")
    asked: dict[str, Any] = {"assume_committed": True, "engine": "spark", "master": "local[1]"}
    report = acidctl.compact(str(table), "major", planned=lambda plan, why: events.append("planned"), **asked)
    assert report.exit_code == 0
    assert [one for place, one in enumerate(events) if one not in events[:place]] == [
        "begin",
        "planned",
        "run",
        "close",
    ]
    assert [note for note in report.notes if QUICKER in note]
    # Now there is nothing to do, and then there is a table that cannot be compacted.
    events.clear()
    acidctl.compact(str(table), "major", **asked)
    with pytest.raises(acidctl.AcidctlError):
        acidctl.compact(str(table), "major", **{**asked, "assume_committed": False})
    assert set(events) == {"close"}


@pytest.mark.parametrize(
    ("choice", "tasks", "mebibytes", "said"),
    [
        (EngineChoice("spark"), 3, 10, True),
        (EngineChoice(master="spark://host:7077"), 1, 10, True),
        (EngineChoice("spark"), 3, 1 << 20, False),
        (EngineChoice("spark"), 0, 0, False),
        (EngineChoice("spark", session=object()), 3, 10, False),
        (EngineChoice("local"), 3, 10, False),
        (EngineChoice(), 3, 10, False),
    ],
)
def test_when_the_local_engine_is_quicker(choice: EngineChoice, tasks: int, mebibytes: int, said: bool) -> None:
    """Few and small tasks, on a Spark that has to start."""
    advice = choice.advice(tasks, mebibytes << 20)
    assert (QUICKER in "".join(advice)) == said


def test_what_reads_most_is_handed_out_first() -> None:
    """Whatever the order that was given."""
    tasks: Any = [SimpleNamespace(bytes_in=size) for size in (3, 9, 1, 5)]
    assert largest_first(tasks) == [1, 3, 0, 2]
