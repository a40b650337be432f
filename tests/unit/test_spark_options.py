"""The options of Spark's data source without a Spark: what they mean, and one sentence for each that is wrong."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import acidctl.by_name
import acidctl.spark
from acidctl.errors import AcidctlError, DamagedDataError, UsageError
from acidctl.metastore.settings import MetastoreSettings
from tests.cli.test_findings import BY_LISTING, BY_READING, DEMO
from tests.cli.test_findings import _disorder as disordered

TEXT = "create table t (a int) row format serde 'com.example.Own' tblproperties ('transactional'='true', {})"
INSERT_ONLY = TEXT.format("'transactional_properties'='insert_only'")

DOUBLING = ("_copy_of_directory", "_unpadded_copy", "_disorder")


def rows_of(planned: acidctl.spark.Planned) -> int:
    """How many rows the function that Spark calls on executors delivers."""
    splits = [pa.record_batch({"split": [split]}) for split in planned.splits]
    return sum(len(batch) for batch in acidctl.spark.mapped(planned.strict)(iter(splits)))


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"as_of": ""}, "which writes are committed is unknown: there is neither the option validtxns nor as_of. Give"),
        ({"path": ""}, "no table is named. Give its path or URL"),
        ({"path": "/no/such/table"}, "/no/such/table does not exist"),
        ({"as_off": "9"}, "there is no option 'as_off'. Did you mean as_of? The options are: path, metastore,"),
        ({"as_of": "x"}, "option as_of=x: expected a whole number"),
        ({"row_id": "1"}, "option row_id=1: expected true or false"),
        ({"strict": "yes"}, "option strict=yes: expected true or false"),
        ({"timestamps": "ms"}, "option timestamps=ms: expected us or exact"),
        ({"columns": "id,amuont"}, "there is no column 'amuont'; did you mean amount? The columns are: id,"),
        ({"columns": "id,ID"}, "option columns names a column twice"),
        ({"where": "idd = 1"}, "there is no column 'idd'; did you mean id?"),
        ({"where": "id = 'x"}, "the condition is not valid at character 6: a quote is not closed"),
        ({"where": "id > date '2026-01-01'"}, "id is int and cannot be compared with a date. Write"),
        ({"validtxns": "nonsense"}, "nonsense"),
        ({"schema": INSERT_ONLY}, "the table's SerDe Own is not read by acidctl. Read the table with Hive"),
        ({"metastore.user": "hive"}, "option metastore.user is about a metastore, and none is named. Give its address"),
        ({"metastore": "thrift://host:1", "assume_committed": "true"}, "the metastore says what is committed. Leave"),
        ({"metastore": "thrift://host:1", "metastore.tls": "1"}, "option metastore.tls=1: expected true or false"),
        ({"metastore": "thrift://host:1", "metastore.pasword": "x"}, "unknown setting 'pasword' of the metastore"),
        ({"metastore": "thrift://host:1", "metastore.auth": "plain"}, "needs a user and a password"),
    ],
    ids=str,
)
def test_a_wrong_option_is_one_sentence(options: dict[str, str], sentence: str) -> None:
    """With what to do; raised before anything is read."""
    with pytest.raises(AcidctlError) as caught:
        acidctl.spark.plan({"path": str(DEMO), "as_of": "9", **options})
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_nanosecond_is_refused_with_the_option_that_has_it() -> None:
    """What Python and the command line offer beside it is no option of Spark."""
    table = DEMO.parents[2] / "types_time/01-written/table"
    with pytest.raises(RuntimeError, match=r"cannot hold exactly\. Give the option timestamps=exact, which"):
        rows_of(acidctl.spark.plan({"path": str(table), "as_of": "9"}))
    assert rows_of(acidctl.spark.plan({"path": str(table), "as_of": "9", "timestamps": "exact"}))


def test_read_takes_paths_and_options_that_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """As Python's other functions do."""
    asked: list[Any] = []

    def plan(options: Any) -> None:
        asked.append(options)
        raise UsageError("no further")

    monkeypatch.setattr(acidctl.spark, "plan", plan)
    with pytest.raises(UsageError):
        acidctl.spark.read(None, DEMO, as_of=9, where=None, columns=["id", "status"])
    assert asked == [{"path": str(DEMO), "as_of": "9", "columns": "id, status"}]


def test_a_table_of_mixed_formats_is_refused(tmp_path: Path) -> None:
    """By the driver, which looks at the end of each file."""
    table = shutil.copytree(DEMO.parents[2] / "insert_only_parquet/01-inserted/table", tmp_path / "t")
    file = next(path for path in table.rglob("*_0") if path.is_file())
    (file.parent / "000009_0").write_bytes(b"Obj\x01" + bytes(100))
    with pytest.raises(AcidctlError, match=r"Avro"):
        acidctl.spark.plan({"path": str(table), "as_of": "9"})


def test_a_login_of_the_metastore_is_options(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of the configuration file, as texts; both ways to name a table take them."""
    made: list[MetastoreSettings] = []

    def refuse(settings: MetastoreSettings, **_: Any) -> None:
        made.append(settings)
        raise UsageError("no further")

    monkeypatch.setattr(acidctl.by_name, "Metastore", refuse)
    login = {
        "auth": "plain",
        "user": "u",
        "password": "xyzzy",
        "tls": "true",
        "timeout": "5",
        "headers": "X-A: b:c\nY:d",
    }
    options = {f"metastore.{name}": value for name, value in login.items()}
    for named in ({"path": "db.t", "metastore": "thrift://host:1"}, {"path": "thrift://host:1/db.t"}):
        with pytest.raises(UsageError, match="no further"):
            acidctl.spark.plan({**options, **named})
    for one in made:
        assert (one.uris, one.auth, one.user, one.password) == (("thrift://host:1",), "plain", "u", "xyzzy")
        assert (one.tls, one.timeout, one.headers) == (True, 5, {"X-A": "b:c", "Y": "d"})
    assert len(made) == 2


@pytest.mark.parametrize("change", [*BY_LISTING, *BY_READING])
def test_doubtful_rows_are_logged_and_strict_refuses_them(
    change: Callable[[Path], str], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """By the driver, as far as listing, tails and row ids of files that overlap tell; else by who reads the rows."""
    table = shutil.copytree(DEMO, tmp_path / "orders")
    options = {"path": str(table), "as_of": "9"}
    with caplog.at_level(logging.WARNING, "acidctl"):
        usual = rows_of(acidctl.spark.plan(options))
        assert not caplog.records
        why = change(table)
        planned = acidctl.spark.plan(options)
        assert any(why in text for text in caplog.messages) == (change is not disordered)
        caplog.clear()
        assert (rows_of(planned) > usual) == (change.__name__ in DOUBLING)
        assert any(why in text for text in caplog.messages) == (change in BY_READING)
    with pytest.raises((DamagedDataError, RuntimeError), match="rows may be missing or come twice") as caught:
        rows_of(acidctl.spark.plan({**options, "strict": "true"}))
    assert why in str(caught.value)
