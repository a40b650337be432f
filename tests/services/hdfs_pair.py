"""An HDFS with two NameNodes behind one logical name, as every large cluster has it.

    with HdfsPair(folder) as hdfs:   # hdfs://acid, to be found with hdfs.environment or hdfs.config
        hdfs.kill_namenode(); hdfs.failover(); hdfs.start_namenode()

They share their edit log in a folder; who is active is told by hand. `rpc`, `http` and `kill_namenode` concern the one
that is active, `standby` the other.
"""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass, field

from .hdfs import NAMENODE, Hdfs
from .processes import ServiceError, free_port, stop, wait_until

SERVICE = "acid"


@dataclass(slots=True)
class NameNode:
    """The one of the two that only follows."""

    name: str = "nn2"
    rpc: int = field(default_factory=free_port)
    http: int = field(default_factory=free_port)
    process: subprocess.Popen[bytes] | None = None


@dataclass(slots=True)
class HdfsPair(Hdfs):
    """Two NameNodes, the second as standby, and DataNodes that tell both what they have."""

    name: str = "nn1"
    standby: NameNode = field(default_factory=NameNode)

    def __post_init__(self) -> None:
        """Fixes the addresses, which stay with the names when the roles change."""
        self.client_settings = {**self.client_settings, **self.config}
        self.settings = {
            **self.settings,
            "dfs.namenode.shared.edits.dir": f"file://{self.folder.resolve()}/shared",
            "dfs.ha.fencing.methods": "shell(true)",
            "dfs.ha.tail-edits.period": "1s",
            "dfs.ha.standby.checkpoints": "false",
        }

    @property
    def url(self) -> str:
        """The root by its logical name, which only the configuration resolves."""
        return f"hdfs://{SERVICE}"

    @property
    def webhdfs(self) -> str:
        """Likewise."""
        return f"webhdfs://{SERVICE}"

    @property
    def config(self) -> dict[str, str]:
        """The keys that resolve the name, for clients that read no Hadoop configuration."""
        both = {self.name: (self.rpc, self.http), self.standby.name: (self.standby.rpc, self.standby.http)}
        return {
            "dfs.nameservices": SERVICE,
            f"dfs.ha.namenodes.{SERVICE}": ",".join(sorted(both)),
            f"dfs.client.failover.proxy.provider.{SERVICE}": (
                "org.apache.hadoop.hdfs.server.namenode.ha.ConfiguredFailoverProxyProvider"
            ),
            **{f"dfs.namenode.rpc-address.{SERVICE}.{nn}": f"{self.host}:{rpc}" for nn, (rpc, _) in both.items()},
            **{f"dfs.namenode.http-address.{SERVICE}.{nn}": f"{self.host}:{http}" for nn, (_, http) in both.items()},
        }

    def failover(self) -> None:
        """Makes the standby the active one; the other becomes standby if it is alive."""
        if self.standby.process is None:
            raise ServiceError("there is no standby to take over: start_namenode first")
        if self._namenode is not None:
            self.run("haadmin", "-transitionToStandby", self.name)
        other = self.standby
        self.name, other.name = other.name, self.name
        self.rpc, other.rpc = other.rpc, self.rpc
        self.http, other.http = other.http, self.http
        self._namenode, other.process = other.process, self._namenode
        self.wait()

    def start_namenode(self) -> None:
        """Starts the one that is not running, as standby."""
        Hdfs.start_namenode(self)
        wait_until("the standby", lambda: self.state(self.standby.name) == "standby", process=self.standby.process)

    def state(self, name: str) -> str:
        """What `nn1` or `nn2` says it is: active, standby, or why it says nothing."""
        return self.run("haadmin", "-getServiceState", name, check=False).strip()

    def close(self) -> None:
        """Ends every process."""
        if self.standby.process is not None:
            stop([self.standby.process])
            self.standby.process = None
        Hdfs.close(self)

    def _is_ready(self) -> bool:
        if not Hdfs._is_ready(self):
            return False
        if self.state(self.name) == "active":
            return True
        force = ["--forceactive"] if self.standby.process is None else []
        self.run("haadmin", "-transitionToActive", *force, self.name, check=False)
        return False

    def _format(self) -> None:
        Hdfs._format(self)
        if not (self.folder / "shared").exists():
            shutil.copytree(self.folder / "name", self.folder / "name-nn2")
            (self.folder / "shared" / "current").mkdir(parents=True)
            shutil.copy(self.folder / "name" / "current" / "VERSION", self.folder / "shared" / "current")

    def _launch_namenode(self) -> None:
        if self._namenode is None:
            self._namenode = self._launch_as(self.name)
        if self.standby.process is None:
            self.standby.process = self._launch_as(self.standby.name)

    def _launch_as(self, name: str) -> subprocess.Popen[bytes]:
        folder = self.folder / ("name" if name == "nn1" else "name-nn2")
        keys = ("-D", f"dfs.ha.namenode.id={name}", "-D", f"dfs.namenode.name.dir=file://{folder}")
        return self._launch("namenode", "acidctl.Guarded", NAMENODE, *keys)
