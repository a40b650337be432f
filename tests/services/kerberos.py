"""A Kerberos realm on loopback, and an HDFS that believes nobody without a ticket.

    with Kerberos(folder) as realm, realm.hdfs(folder / "hdfs") as hdfs:
        cache = realm.kinit("alice")
        subprocess.run([...], env={**os.environ, **hdfs.environment, **realm.environment(cache)})

MIT Kerberos comes from Debian's packages, unpacked into the cache folder; a process that is to use tickets gets their
libraries by its environment, so tests run such clients as processes. `requests-kerberos` for Python is
compiled against the unpacked headers once per Python, into the cache folder too.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from . import debian, jvm
from .hdfs import Hdfs
from .processes import Service, ServiceError, answers, free_port, stop, wait_until

REALM = "ACIDCTL.TEST"
HOST = "localhost"
PACKAGES = (
    *("krb5-kdc", "krb5-admin-server", "krb5-user", "libkrb5-3", "libgssapi-krb5-2", "libk5crypto3"),
    *("libkrb5support0", "libkdb5-10", "libkadm5srv-mit12", "libkadm5clnt-mit12", "libgssrpc4", "libverto1"),
    *("libverto-libev1", "libev4", "libcom-err2", "libkeyutils1", "libss2"),
    # Headers, for what Python needs.
    *("libkrb5-dev", "krb5-multidev", "comerr-dev"),
)
# All that requests-kerberos comes to beyond the development packages: `gssapi` and `krb5` are published as source.
PYTHON_PACKAGES = ("requests-kerberos==0.15.0", "pyspnego==0.12.4", "gssapi==1.12.0", "krb5", "decorator")
SERVERS = f"hdfs/{HOST}@{REALM}"
WEB = f"HTTP/{HOST}@{REALM}"


def unpacked() -> Path:
    """The folder that holds MIT Kerberos as `usr/...`; downloads it on first use."""
    root = jvm.cache_folder() / "kerberos" / f"{debian.release()}-{jvm.fingerprint([], *PACKAGES)}"
    with jvm.cache_lock("kerberos"):
        if not root.exists():
            pending = root.with_name(f"{root.name}.new")
            shutil.rmtree(pending, ignore_errors=True)
            debian.unpack(debian.release(), PACKAGES, pending)
            pending.rename(root)
    return root


def python_packages() -> Path:
    """A folder for PYTHONPATH with requests-kerberos and what it needs; compiles it on first use, a minute or two."""
    root = unpacked()
    folder = root / f"python-{sys.implementation.cache_tag}-{jvm.fingerprint([], *PYTHON_PACKAGES)}"
    with jvm.cache_lock("kerberos-python"):
        if not folder.exists():
            pending = root / "python.new"
            shutil.rmtree(pending, ignore_errors=True)
            run = subprocess.run(
                [sys.executable, "-m", "pip", "install", "--no-deps", "--target", str(pending), *PYTHON_PACKAGES],
                env={**os.environ, **_compiler_environment(root)},
                capture_output=True,
                text=True,
                check=False,
            )
            if run.returncode:
                raise ServiceError(f"cannot build Python's Kerberos packages: {(run.stdout + run.stderr)[-3000:]}")
            pending.rename(folder)
    return folder


def _compiler_environment(root: Path) -> dict[str, str]:
    programs = root / "programs"
    programs.mkdir(exist_ok=True)
    config = programs / "krb5-config"
    # Its own answers name the system's folders, where these headers are not.
    config.write_text((root / "usr/bin/krb5-config.mit").read_text().replace("=/usr", f"={root}/usr"))
    config.chmod(0o755)
    libraries = ":".join(_libraries(root))
    return {
        "PATH": f"{programs}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
        "LD_LIBRARY_PATH": libraries,
        "LIBRARY_PATH": libraries,
        # Half the time: this code only carries tokens.
        "CFLAGS": f"-O0 -g0 -w -I{root}/usr/include",
    }


def _libraries(root: Path) -> list[str]:
    triplet = sysconfig.get_config_var("MULTIARCH")
    return [str(root / folder / triplet) for folder in ("usr/lib", "lib") if (root / folder / triplet).is_dir()]


@dataclass(slots=True)
class Kerberos(Service):
    """A realm with its KDC; principals are made by their first use."""

    folder: Path
    port: int = field(default_factory=free_port)
    _root: Path = field(default_factory=Path)
    _process: subprocess.Popen[bytes] | None = None
    _principals: set[str] = field(default_factory=set)
    _caches: int = 0

    def start(self) -> Self:
        """Makes an empty realm and starts its KDC."""
        self._root = unpacked()
        self.folder = self.folder.resolve()
        self.folder.mkdir(parents=True, exist_ok=True)
        self._write_configuration()
        self._run("sbin/kdb5_util", "create", "-s", "-r", REALM, "-P", "master")
        with open(self.folder / "kdc.out", "ab") as log:
            self._process = subprocess.Popen(
                [self._root / "usr/sbin/krb5kdc", "-n"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self._environment,
                cwd=self.folder,
                # Ctrl-C in the terminal is the test run's, which ends the services in order.
                start_new_session=True,
            )
        wait_until("the KDC", lambda: answers(self.port), process=self._process, log=self.folder / "kdc.out")
        return self

    def hdfs(self, folder: Path, *, datanodes: int = 1, settings: Mapping[str, str] | None = None) -> Hdfs:
        """An HDFS of this realm, to be started; its superuser is `hdfs`, and `gateway` may act for others."""
        keytab = self.keytab(SERVERS, WEB)
        secret = folder / "http-secret"
        folder.mkdir(parents=True, exist_ok=True)
        secret.write_text("acidctl")
        client = {
            "hadoop.security.authentication": "kerberos",
            "dfs.namenode.kerberos.principal": SERVERS,
            "dfs.datanode.kerberos.principal": SERVERS,
            "dfs.block.access.token.enable": "true",
        }
        server = {
            "dfs.namenode.keytab.file": str(keytab),
            "dfs.datanode.keytab.file": str(keytab),
            "ignore.secure.ports.for.testing": "true",
            "dfs.web.authentication.kerberos.principal": WEB,
            "dfs.web.authentication.kerberos.keytab": str(keytab),
            "hadoop.http.filter.initializers": "org.apache.hadoop.hdfs.web.AuthFilterInitializer",
            "hadoop.http.authentication.type": "kerberos",
            "hadoop.http.authentication.kerberos.principal": WEB,
            "hadoop.http.authentication.kerberos.keytab": str(keytab),
            "hadoop.http.authentication.signature.secret.file": str(secret),
            "hadoop.proxyuser.gateway.hosts": "*",
            "hadoop.proxyuser.gateway.users": "*",
            **(settings or {}),
        }
        return Hdfs(
            folder,
            datanodes=datanodes,
            host=HOST,
            client_settings=client,
            settings=server,
            java_options=(f"-Djava.security.krb5.conf={self.config}",),
            login=(SERVERS, str(keytab)),
        )

    @property
    def config(self) -> Path:
        """The krb5.conf of the realm."""
        return self.folder / "krb5.conf"

    def keytab(self, *names: str) -> Path:
        """A keytab of these principals (`alice`, `HTTP/localhost`); their older keytabs are void from then on."""
        self._caches += 1
        path = self.folder / f"{self._caches}.keytab"
        missing = [f"addprinc -randkey {name}" for name in names if name not in self._principals]
        self._kadmin(*missing, f"ktadd -k {path} {' '.join(names)}")
        self._principals.update(names)
        return path

    def kinit(self, name: str, *, lifetime: str = "1h") -> Path:
        """A cache with a fresh ticket of a principal, for `environment`; `lifetime` is as in `90s`."""
        self._caches += 1
        path = self.folder / f"{self._caches}.ccache"
        if name not in self._principals:
            self._kadmin(f"addprinc -pw {_password(name)} {name}")
            self._principals.add(name)
        self._run("bin/kinit", "-c", f"FILE:{path}", "-l", lifetime, name, given=f"{_password(name)}\n")
        return path

    def expired(self, name: str) -> Path:
        """A cache whose ticket is over; takes two seconds."""
        path = self.kinit(name, lifetime="1s")
        time.sleep(2)
        return path

    def environment(self, cache: Path | None, *, packages: bool = False) -> dict[str, str]:
        """What a process needs to use the tickets of `cache`, or to find none; `packages` for requests-kerberos too."""
        found = {
            "KRB5_CONFIG": str(self.config),
            "KRB5CCNAME": f"FILE:{cache or self.folder / 'none.ccache'}",
            "LD_LIBRARY_PATH": ":".join(_libraries(self._root)),
        }
        return {**found, "PYTHONPATH": str(python_packages())} if packages else found

    def close(self) -> None:
        """Ends the KDC."""
        if self._process is not None:
            stop([self._process])
            self._process = None

    @property
    def _environment(self) -> dict[str, str]:
        return {**os.environ, **self.environment(None), "KRB5_KDC_PROFILE": str(self.folder / "kdc.conf")}

    def _kadmin(self, *queries: str) -> None:
        said = self._run("sbin/kadmin.local", given="".join(f"{query}\n" for query in queries))
        if "while " in said:  # it fails with exit code 0
            raise ServiceError(f"kadmin.local: {said.strip()}")

    def _run(self, program: str, *arguments: str, given: str = "") -> str:
        done = subprocess.run(
            [self._root / "usr" / program, *arguments],
            input=given,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=self._environment,
            cwd=self.folder,
            check=False,
        )
        if done.returncode:
            raise ServiceError(f"{program} failed: {done.stdout.strip()[-1000:]}")
        return done.stdout

    def _write_configuration(self) -> None:
        modules = f"{_libraries(self._root)[0]}/krb5/plugins"
        self.config.write_text(f"""\
[libdefaults]
 default_realm = {REALM}
 dns_lookup_kdc = false
 dns_lookup_realm = false
 dns_canonicalize_hostname = false
 rdns = false
 udp_preference_limit = 1
 plugin_base_dir = {modules}
[realms]
 {REALM} = {{
  kdc = 127.0.0.1:{self.port}
 }}
[domain_realm]
 {HOST} = {REALM}
[dbmodules]
 db_module_dir = {modules}/kdb
""")
        (self.folder / "kdc.conf").write_text(f"""\
[kdcdefaults]
 kdc_listen = 127.0.0.1:{self.port}
 kdc_tcp_listen = 127.0.0.1:{self.port}
[realms]
 {REALM} = {{
  database_name = {self.folder}/principal
  key_stash_file = {self.folder}/stash
  acl_file = {self.folder}/kadm5.acl
  supported_enctypes = aes256-cts:normal aes128-cts:normal
 }}
[logging]
 kdc = FILE:{self.folder}/kdc.log
""")


def _password(name: str) -> str:
    return f"password-of-{name}"
