"""The data source by names of a real Hive 4 metastore: Hive's rows, and the lists of when a DataFrame was made."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from acidctl import open_table
from tests.live.test_spark_source import shown, spark
from tests.services.metastore import Metastore
from tests.support.fake_metastore import listening
from tests.support.steps import sorted_rows

__all__ = ["spark"]

pytestmark = [pytest.mark.spark, pytest.mark.metastore, pytest.mark.timeout(600)]

ROWS = ("(1, 'a', date '2026-01-01')", "(2, null, date '2026-01-02')", "(3, 'c', null)", "(4, 'd', date '2026-01-01')")


@contextmanager
def noted(metastore: Metastore) -> Iterator[tuple[str, list[bytes]]]:
    """The address of who passes everything on to the metastore, and what it was sent so far."""
    sent: list[bytes] = []
    target = urlsplit(metastore.url)

    def copy(source: socket.socket, to: socket.socket, note: Callable[[bytes], None]) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                note(data)
                to.sendall(data)

    def serve(client: socket.socket) -> None:
        with socket.create_connection((target.hostname, target.port)) as server:
            threading.Thread(target=copy, args=(server, client, len), daemon=True).start()
            copy(client, server, sent.append)

    with listening(serve) as port:
        yield f"thrift://127.0.0.1:{port}", sent


def test_a_table_is_read_by_its_name(metastore4: Metastore, spark: SparkSession) -> None:
    """By an option, by URL and in SQL, with an aborted write; the driver asks once, and queries ask nothing."""
    hive, writer = metastore4.hive, metastore4.hive.session("s_orders-writer")
    hive.run(
        "create table s_orders (id int, v string) partitioned by (ds date) stored as orc "
        "tblproperties ('transactional'='true')"
    )
    hive.run(f"insert into s_orders values {', '.join(ROWS)}")
    hive.run("update s_orders set v = 'new' where id = 4")
    for sql in ("start transaction", "insert into s_orders values (5, 'e', date '2026-01-02')", "rollback"):
        writer.run(sql)
    snapshot = open_table(f"{metastore4.url}/s_orders").snapshot()
    assert open_table(str(hive.warehouse / "s_orders")).snapshot(as_of=99).count() == 5
    select = "select row__id, * from s_orders"
    with noted(metastore4) as (address, sent):
        made = []
        for number in range(3):
            want = sorted_rows(map(json.loads, hive.rows(select)))
            reader = spark.read.format("acidctl").option("row_id", "true")
            if number == 0:
                frame = reader.option("metastore", address).load("default.s_orders")
            elif number == 1:
                frame = reader.load(f"{address}/default.s_orders")
            else:
                spark.sql(
                    "create or replace temporary view s_orders using acidctl "
                    f"options (path 's_orders', metastore '{address}', row_id 'true')"
                )
                frame = spark.table("s_orders")
            assert b"".join(sent).count(b"get_valid_write_ids") == 1
            sent.clear()
            made.append((frame, want))
            hive.run(f"insert into s_orders values ({10 + number}, 'later', date '2026-01-03')")
        assert [len(want) for _, want in made] == [4, 5, 6]
        for frame, want in made:
            assert sorted_rows(shown(frame, snapshot)) == want
        (row,) = spark.sql("select count(*) as n from s_orders where ds = date '2026-01-01' and id > 1").collect()
        assert (row["n"], sent) == (1, [])
        with pytest.raises(PySparkException) as caught:
            spark.read.format("acidctl").option("metastore", address).load("default.s_ordres")
        assert "there is no table default.s_ordres in the metastore" in str(caught.value)
        assert "Did you mean default.s_orders?" in str(caught.value)
    hive.run("drop table s_orders")
