"""Exports as a Spark job: the same rows as without, files of winners alone, one sentence for what goes wrong."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from acidctl import open_table
from tests.cli.runner import acidctl
from tests.support.exported import READ
from tests.support.steps import sorted_rows

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]


def test_a_spark_job_writes_what_threads_write(tmp_path: Path) -> None:
    """In folders of partitions, as Parquet and as text; with the report of the command."""
    steps = {str(step): step for step in READ}
    for name, options in (
        ("hive4/partitioned/03-one-compacted", ("--partitioned",)),
        ("hive4/types_nested/01-written", ("--format", "jsonl", "--row-id")),
    ):
        step = steps[name]
        to, here = tmp_path / step.folder.name / "spark", tmp_path / step.folder.name / "here"
        to.parent.mkdir()
        asked = ("snapshot", str(step.table), *step.options, "-q", "-o", "json", *options)
        done = acidctl(*asked, "--to", f"{to}/", "--engine", "spark", "--master", "local[2]")
        assert done.code == 0, done.stderr
        usual = acidctl(*asked, "--to", f"{here}/").json()
        assert done.json()["rows"] == usual["rows"]
        assert {path.parent.relative_to(to) for path in to.rglob("part-*")} == {
            path.parent.relative_to(here) for path in here.rglob("part-*")
        }
        assert _rows(to) == _rows(here)
        assert [path.name for path in to.parent.iterdir() if path.name.startswith(".")] == []


def _rows(folder: Path) -> list[str]:
    files = sorted(folder.rglob("part-*"))
    if files[0].suffix == ".parquet":
        return sorted_rows(pa.concat_tables([pq.ParquetFile(path).read() for path in files]).to_pylist())
    return sorted(line for path in files for line in path.read_text().splitlines())


def test_a_value_that_does_not_fit_ends_the_job(tmp_path: Path) -> None:
    """The executor's error is the command's, and nothing is left."""
    step = next(step for step in READ if str(step) == "hive4/types_time/01-written")
    with pytest.raises(Exception, match=r"column ts holds .* cannot hold exactly"):
        open_table(str(step.table)).snapshot(**step.view).export(f"{tmp_path}/out/", engine="spark", master="local[1]")
    assert list(tmp_path.iterdir()) == []
