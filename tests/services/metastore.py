"""A real Hive metastore behind Thrift on loopback, with the Hive that works through it.

    with Metastore(HIVE4, folder) as metastore:
        metastore.hive.run("create table t (id int) stored as orc tblproperties ('transactional'='true')")
        with ask(metastore.url) as thrift:
            thrift.get_table_req(IDL.GetTableRequest(dbName="default", tblName="t"))

One JVM holds the Thrift servers and Hive: its sessions and its compaction worker go through Thrift, its cleaner and
initiator to the database directly, as in production. `ask` is a plain Thrift client, so that no test of the metastore
depends on the client it tests; `metastore.thrift` beside this file is what it knows of Hive's interface.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import thriftpy2
from thriftpy2.protocol import TBinaryProtocolFactory
from thriftpy2.thrift import TClient
from thriftpy2.transport import TBufferedTransportFactory, TSocket

from . import certificate
from .hive import Hive, HiveVersion
from .processes import Service, free_port

if TYPE_CHECKING:
    from .kerberos import Kerberos

IDL = thriftpy2.load(str(Path(__file__).with_name("metastore.thrift")), module_name="metastore_thrift")

# What HiveServer2 says of itself; without them the metastore makes no ACID table.
CAPABILITIES = ",".join(
    (
        *("EXTWRITE", "EXTREAD", "HIVEBUCKET2", "HIVEFULLACIDREAD", "HIVEFULLACIDWRITE", "HIVECACHEINVALIDATE"),
        *("HIVEMANAGESTATS", "HIVEMANAGEDINSERTWRITE", "HIVEMANAGEDINSERTREAD", "HIVESQL", "HIVEMQT"),
        *("HIVEONLYMQTWRITE", "ACCEPTS_UNMODIFIED_METADATA"),
    )
)
SETTINGS = {
    "hive.metastore.thrift.bind.host": "127.0.0.1",
    "hive.txn.timeout": "20s",
    # As in production; Hive 3 knows neither.
    "metastore.metadata.transformer.class": "org.apache.hadoop.hive.metastore.MetastoreDefaultTransformer",
    "hive.metastore.client.capabilities": CAPABILITIES,
}

# Thrift in requests to /metastore, whose header x-actor-username says who asks.
HTTP_SETTINGS = {
    "metastore.server.thrift.transport.mode": "http",
    "metastore.server.thrift.http.path": "metastore",
}
USER, PASSWORD = "alice", "password-of-alice"
# Name and password by SASL, as in LDAP.
PLAIN_SETTINGS = {
    "metastore.authentication": "CONFIG",
    "metastore.authentication.config.username": USER,
    "metastore.authentication.config.password": PASSWORD,
    "metastore.execute.setugi": "false",
}

# Who the server is in a realm, and its sessions too.
PRINCIPAL = "hive/localhost@ACIDCTL.TEST"


def tls_settings(folder: Path) -> dict[str, str]:
    """A server behind TLS, for `serve_also`, with the keystore that `certificate.make` made in `folder`."""
    return {
        "metastore.use.SSL": "true",
        "metastore.keystore.path": str(folder / "keystore.p12"),
        "metastore.keystore.password": certificate.PASSWORD,
        "metastore.keystore.type": "PKCS12",
    }


def _kerberos_settings(keytab: Path) -> dict[str, str]:
    return {
        "hadoop.security.authentication": "kerberos",
        "hive.metastore.sasl.enabled": "true",
        "hive.metastore.kerberos.principal": PRINCIPAL,
        "hive.metastore.kerberos.keytab.file": str(keytab),
        # Whoever owns a table's directory, as whom its compaction is done.
        "hadoop.proxyuser.hive.hosts": "*",
        "hadoop.proxyuser.hive.users": "*",
        # No job starts without a name for who would renew its tokens.
        "yarn.resourcemanager.principal": PRINCIPAL,
    }


@contextmanager
def ask(url: str, *, timeout: int = 30_000) -> Iterator[Any]:
    """A connection to `thrift://host:port`; `timeout` in milliseconds.

    Its methods are Hive's, their requests classes of `IDL`.
    """
    address = urlsplit(url)
    socket = TSocket(host=address.hostname, port=address.port, socket_timeout=timeout)
    try:
        transport = TBufferedTransportFactory().get_transport(socket)
        transport.open()
        yield TClient(IDL.Metastore, TBinaryProtocolFactory().get_protocol(transport))
    finally:
        socket.close()


def end_writes(thrift: Any, table: str, fates: str) -> list[int]:
    """Takes a write id of `db.table` per character, in order: `c` is committed, `a` aborted, `o` left open.

    Nothing is written. Returns their transactions.
    """
    database, name = table.split(".")
    txns = []
    for fate in fates:
        (txn,) = thrift.open_txns(IDL.OpenTxnRequest(1, "tests", "localhost")).txn_ids
        thrift.allocate_table_write_ids(IDL.AllocateTableWriteIdsRequest(database, name, [txn]))
        if fate == "c":
            thrift.commit_txn(IDL.CommitTxnRequest(txn))
        elif fate == "a":
            thrift.abort_txn(IDL.AbortTxnRequest(txn))
        txns.append(txn)
    return txns


class Metastore(Service):
    """A running metastore with an empty warehouse at `folder`/warehouse; `hive` has the sessions.

    `version` is HIVE4, or HIVE3 of `hive3.py`, which has no pools. With a `realm` it answers only who has a ticket of
    it; its sessions have one, as the server itself. That takes Hive 4.
    """

    def __init__(self, version: HiveVersion, folder: Path, realm: Kerberos | None = None) -> None:
        self._port = free_port()
        # Tickets are for names, not for addresses.
        self.url = f"thrift://{'localhost' if realm else '127.0.0.1'}:{self._port}"
        settings = {**version.settings, **SETTINGS, "hive.metastore.uris": self.url}
        options = version.java_options
        if realm is not None:
            keytab = realm.keytab(PRINCIPAL)
            settings |= _kerberos_settings(keytab)
            options = (*options, f"-Djava.security.krb5.conf={realm.config}")
        self.hive = Hive(replace(version, settings=settings, java_options=options), folder)
        self._servers: dict[int, Any] = {}
        try:
            if realm is not None:
                users = self.hive.java.org.apache.hadoop.security.UserGroupInformation
                users.setConfiguration(self.hive.java.org.apache.hadoop.hive.conf.HiveConf())
                users.loginUserFromKeytab(PRINCIPAL, str(keytab))
            self.serve()
        except BaseException:
            self.hive.close()
            raise

    def serve(self, settings: Mapping[str, str] | None = None) -> None:
        """Answers at `url`, as it does from the start until `stop_serving`."""
        self._serve(self._port, settings or {})

    def stop_serving(self) -> None:
        """Gives the port of `url` back and cuts its connections, as if the metastore had ended."""
        self._servers.pop(self._port).close()

    def serve_also(self, settings: Mapping[str, str]) -> int:
        """Answers at a further port too, with other settings (TLS, HTTP, SASL); the tables are the same."""
        port = free_port()
        self._serve(port, settings)
        return port

    def _serve(self, port: int, settings: Mapping[str, str]) -> None:
        start = self.hive.java.acidctl.MetastoreServer.start
        # For START TRANSACTION sessions pass as tests; a server that does serves nobody else.
        given = {"hive.in.test": "false", **settings}
        self._servers[port] = self.hive.call(start, port, given, what=f"serve at port {port}")

    def work(self, pool: str | None = None, settings: Mapping[str, str] | None = None) -> None:
        """One pass of Hive's own compaction worker: does one request of that pool, or of no pool, if there is one."""
        services = self.hive.java.acidctl.Services
        if pool is None:
            self.hive.call(services.work, dict(settings or {}), what="work")
        else:
            self.hive.call(services.workFor, pool, dict(settings or {}), what=f"work for {pool}")

    def clean(self, settings: Mapping[str, str] | None = None) -> None:
        """One pass of the cleaner; waits a second first, as it looks at whole seconds."""
        self.hive.clean(settings)

    def initiate(self, settings: Mapping[str, str] | None = None) -> None:
        """One pass of the initiator, which requests the compactions it finds due."""
        self.hive.call(self.hive.java.acidctl.Services.initiate, dict(settings or {}), what="initiate")

    def time_out(self, settings: Mapping[str, str] | None = None) -> None:
        """Aborts transactions without a sign of life for `hive.txn.timeout`, 20 seconds unless `settings` say else."""
        self.hive.call(self.hive.java.acidctl.Services.timeOut, dict(settings or {}), what="time out")

    def forget_empty_aborts(self) -> None:
        """Forgets aborted transactions of which nothing is recorded any more, but for the newest of all transactions.

        Waits a second first, as it lets younger ones be.
        """
        time.sleep(1.1)
        self.hive.call(self.hive.java.acidctl.Services.forgetEmptyAborts, what="forget aborted transactions")

    def close(self) -> None:
        """Ends all sessions, all servers and their JVM."""
        self.hive.close()
