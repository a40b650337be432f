"""HDFS as a storage, whatever protocol it is asked by: owners, kinds of entries, the trash, and what servers refuse."""

from __future__ import annotations

import json
import re
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from acidctl.errors import (
    DeniedError,
    ExistsError,
    QuotaError,
    SafeModeError,
    StorageError,
    ThrottledError,
    UnreachableError,
)
from acidctl.storage.hadoop_conf import Place
from acidctl.storage.port import (
    RUN_AGAIN,
    Descend,
    Facts,
    PathStat,
    Storage,
    Walk,
    already_exists,
    join,
    not_a_directory,
)
from acidctl.storage.remote import DirectoryEntry, walk_tree
from acidctl.values import dataclass

_MODE = 0o1777
_DIRECTORY_MODE = 0o755


@dataclass(frozen=True, slots=True)
class Status:
    """What stands at a path: size in bytes, `modified` in seconds since 1970 UTC, `mode` with the sticky bit."""

    is_directory: bool
    size: int
    modified: float
    owner: str
    group: str
    mode: int


class HadoopStorage(Storage, ABC):
    """One HDFS."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._facts: Facts | None = None

    @abstractmethod
    def status(self, path: str) -> Status | None:
        """None when nothing stands at the path, also below a file."""

    @abstractmethod
    def _list(self, path: str) -> Iterable[DirectoryEntry]:
        """The entries of a directory; NoSuchTableError when there is none."""

    @abstractmethod
    def _set_owner(self, path: str, owner: str | None, group: str) -> None:
        """Owner and group, or the group alone."""

    @abstractmethod
    def _set_mode(self, path: str, mode: int) -> None:
        """Permission bits."""

    @abstractmethod
    def _delete(self, path: str, *, recursive: bool) -> None:
        """Remove what is there: a file, or a directory and all below it."""

    @abstractmethod
    def _has_trash(self) -> bool:
        """Whether the server's interval, else this client's, keeps what is discarded, as Hadoop decides."""

    @abstractmethod
    def _trash(self, path: str) -> str:
        """The directory into which a path is discarded."""

    @abstractmethod
    def _mkdirs(self, path: str, mode: int, *, parents: bool) -> None:
        """Make a directory, which may exist; with all its parents, or where its parent exists."""

    @property
    def facts(self) -> Facts:
        """HDFS's promises; whether there is a trash is asked once."""
        if self._facts is None:
            self._facts = Facts(atomic_rename=True, exclusive_create=True, trash=self._has_trash())
        return self._facts

    def display(self, path: str) -> str:
        """The URL, its path as it is."""
        return self._place.url + path

    def stat(self, path: str) -> PathStat | None:
        status = self.status(path)
        if status is None:
            return None
        return PathStat(status.is_directory, status.size, status.modified, status.owner)

    def walk(self, root: str, descend: Descend | None = None) -> Walk:
        """One listing per directory, in pages, many at once."""
        return walk_tree(self._list, root, descend)

    def mkdir(self, path: str, like: str | None = None) -> None:
        """Two who make one directory at the same time may both succeed: names of directories have to be one's own."""
        if self.status(path) is not None:
            raise already_exists(self.display(path))
        if like is None:
            self._mkdirs(path, _DIRECTORY_MODE, parents=False)
            return
        model = self._existing(like)
        self._mkdirs(path, model.mode & _MODE | 0o700, parents=False)
        self._give_as(path, model, self._existing(path))

    def inherit(self, path: str, like: str) -> None:
        """Only HDFS's superuser gives files away, and groups go to their members: what is refused stays as it is.

        Access lists need nothing: what is made below a directory inherits its default list.
        """
        model, status = self._existing(like), self._existing(path)
        self._give_as(path, model, status)
        mode = model.mode & _MODE
        if model.is_directory and not status.is_directory:
            mode &= 0o666
        if mode != status.mode & _MODE:
            with suppress(DeniedError):
                self._set_mode(path, mode)

    def remove_tree(self, path: str) -> None:
        """One request takes the whole tree."""
        self._require_directory(path)
        self._delete(path, recursive=True)

    def remove_file(self, path: str) -> None:
        """HDFS would remove an empty directory too."""
        if self._existing(path).is_directory:
            raise StorageError(f"{self.display(path)} is a directory", path=self.display(path))
        self._delete(path, recursive=False)

    def rmdir(self, path: str) -> None:
        """HDFS refuses a directory that is not empty."""
        self._require_directory(path)
        self._delete(path, recursive=False)

    def discard(self, path: str) -> None:
        """Below `Current` of the trash, at its own path; the time is added to a name that is taken, as Hadoop does."""
        shown = self.display(path)
        if not self.facts.trash:
            raise StorageError(f"{shown} cannot be moved to a trash: this HDFS has none", path=shown)
        self._existing(path)
        current = self._trash(path)
        parent, _, name = path.rpartition("/")
        moment = f"{time.time_ns() // 1_000_000}"
        place = current + parent
        try:
            self._mkdirs(place, 0o700, parents=True)
        except (ExistsError, MissingError):
            # Something was discarded under the name of one of this path's parents, and is a file.
            taken = place
            while taken != current and self.status(taken) is None:
                taken = taken.rpartition("/")[0]
            place = taken + moment + place.removeprefix(taken)
            self._mkdirs(place, 0o700, parents=True)
        try:
            self.move(path, join(place, name))
        except ExistsError:
            self.move(path, join(place, name + moment))

    def _new_mode(self, like: str | None) -> int | None:
        """The mode that a new file is made with; None leaves it to the server."""
        if like is None:
            return None
        model = self._existing(like)
        return model.mode & (0o666 if model.is_directory else _MODE)

    def _give_as(self, path: str, model: Status, status: Status) -> None:
        """Owner and group of another, as far as this user may: together, else the group alone."""
        if (model.owner, model.group) == (status.owner, status.group):
            return
        for owner in (model.owner, None) if model.owner != status.owner else (None,):
            with suppress(DeniedError):
                self._set_owner(path, owner, model.group)
                return

    def _existing(self, path: str) -> Status:
        status = self.status(path)
        if status is None:
            raise MissingError(f"{self.display(path)} does not exist", path=self.display(path))
        return status

    def _require_directory(self, path: str) -> None:
        if not self._existing(path).is_directory:
            raise not_a_directory(self.display(path))


_REASON_LENGTH = 300
MAY_READ = "Run as a user that may read the table, for example the owner of the warehouse."
MAY_WRITE = "Run as a user that may write to the table, for example the owner of the warehouse."
NEW_TICKET = "Log in with `kinit`, or as a service with its keytab (`kinit -kt FILE PRINCIPAL`), and run it again."
WAIT = "Wait for it, or see what holds it up (`hdfs dfsadmin -safemode get`), and run the command again."
_KERBEROS = (
    "Name the cluster's configuration by HADOOP_CONF_DIR (hadoop.security.authentication is kerberos there), and log "
    "in with `kinit`."
)
_AGAIN = "Run the command again, or with less --parallelism."
_LOOK_AT_DATANODES = (
    "See which DataNodes are alive (`hdfs dfsadmin -report`, `hdfs fsck PATH -files -blocks -locations`): this machine "
    "has to reach them. Then run the command again."
)
# A gateway passes on by text alone that another is creating a file: HDFS's own class of that stays behind.
_BEING_CREATED = ("lease is currently owned by", "already the current lease holder", "Failed to CREATE_FILE ")
# Of Hadoop's NetUtils.wrapException, by which a gateway tells that its own connection to the NameNode is gone.
_LOST = re.compile("End of File Exception between |Call From .* failed on |No Route to Host from ")


class MissingError(StorageError):
    """Nothing stands at the path."""


def of_java(java: str, message: str, shown: str, *, changes: bool) -> StorageError:
    """What a Java exception means: its class with or without package, and its text, a stack trace included."""
    kind = java.rpartition(".")[2]
    reason = first_line(message)
    what = f"{shown} cannot be {'changed' if changes else 'read'}"
    sentence = f"{what}: {reason or kind}"
    if kind in ("StandbyException", "ObserverRetryOnActiveException"):
        return SafeModeError(f"{what}: no NameNode is active", path=shown, hint=WAIT)
    if kind == "SafeModeException" or "in safe mode" in reason:
        return SafeModeError(f"{what}: the NameNode is in safe mode", path=shown, hint=WAIT)
    if kind in ("RetriableException", "ServerTooBusyException"):
        return UnreachableError(f"{what}: the NameNode is not ready ({reason})", path=shown, hint=WAIT)
    if _LOST.match(reason):
        return UnreachableError(sentence, path=shown)
    if kind == "ParentNotDirectoryException" or (kind == "AccessControlException" and "is not a directory" in reason):
        return MissingError(sentence, path=shown, hint=RUN_AGAIN)
    if kind == "FileNotFoundException":
        return missing(shown, reason if changes else "")
    exists = kind in ("FileAlreadyExistsException", "AlreadyBeingCreatedException")
    if exists or any(words in reason for words in _BEING_CREATED):
        return already_exists(shown)
    if "SIMPLE authentication is not enabled" in reason:
        return DeniedError(f"{shown} cannot be used: the server requires Kerberos", path=shown, hint=_KERBEROS)
    if kind in ("AccessControlException", "SecurityException", "AuthorizationException"):
        return DeniedError(sentence, path=shown, hint=MAY_WRITE if changes else MAY_READ)
    if kind == "SaslException" or kind == "InvalidToken":
        return no_ticket(shown)
    if "QuotaExceeded" in kind or "QuotaByStorageType" in kind:
        return QuotaError(sentence, path=shown, hint="Free space, or have the quota of this directory raised.")
    if "could only be written to 0 of" in reason:
        if "There are 0 datanode(s) running" in reason:
            return no_datanode(shown, "is there")
        return QuotaError(
            f"{what}: no DataNode takes its data", path=shown, hint="See `hdfs dfsadmin -report`: they may be full."
        )
    if kind == "NotReplicatedYetException":
        return ThrottledError(f"{what}: its DataNodes are behind with what was written", path=shown, hint=_AGAIN)
    if kind == "BlockMissingException" or "Could not obtain block" in reason:
        return no_datanode(shown, "gives a block of it")
    return StorageError(sentence, path=shown)


def missing(shown: str, reason: str = "") -> MissingError:
    """The error for a path that does not exist."""
    text = f"{shown} cannot be changed: {reason}" if reason else f"{shown} is not there any more"
    return MissingError(text, path=shown, hint=RUN_AGAIN)


def no_ticket(shown: str) -> DeniedError:
    """Kerberos is asked for, and there is nothing to show."""
    return DeniedError(
        f"{shown} cannot be used: there is no Kerberos ticket that the server accepts, or it has expired",
        path=shown,
        hint=NEW_TICKET,
    )


def unreachable(shown: str, why: str) -> UnreachableError:
    """The error for a server that does not answer, which may pass."""
    return UnreachableError(
        f"{shown} cannot be reached: {why}",
        path=shown,
        hint="Check the address and that HDFS is running, and run the command again.",
    )


def no_datanode(shown: str, why: str) -> UnreachableError:
    """The NameNode is well, but no DataNode gives or takes data."""
    return UnreachableError(f"{shown} cannot be reached: no DataNode {why}", path=shown, hint=_LOOK_AT_DATANODES)


def unknown_name(shown: str, address: str, key: str) -> UnreachableError:
    """A host that no name server knows; asking again is of no use. `key`: the Hadoop key that names addresses."""
    error = UnreachableError(
        f"{shown} cannot be reached: the host name in {address} is unknown",
        path=shown,
        hint=f"Check the name. A name service (HA) has to be configured in hdfs-site.xml of HADOOP_CONF_DIR, with "
        f"dfs.ha.namenodes and {key}.",
    )
    error.transient = False
    return error


def first_line(message: str) -> str:
    """Of a Java message its first line, without package names and anything that looks like a credential."""
    first = message.strip().partition("\n")[0].strip()
    first = re.sub(r"\b(?:[a-z_]\w*\.){2,}(?=[A-Z]\w*(?:Exception|Error)\b)", "", first)
    first = re.sub(r"(?i)\b(delegation|token|user\.name|doas)=[^&\s\"']+", r"\1=...", first)
    return first if len(first) <= _REASON_LENGTH else first[: _REASON_LENGTH - 3] + "..."


# --- What WebHDFS refuses by HTTP.


_NEW_TOKEN = (
    "Get a new token (`hdfs fetchdt --webservice URL FILE`, then HADOOP_TOKEN_FILE_LOCATION=FILE, or `token` in "
    "[storage] of the configuration file), or log in with `kinit` and use none."
)
_NOT_VALID = "is not valid, or has been cancelled"
_IMPERSONATE = (
    "Take `proxy_user` out of [storage] of the configuration file, or have hadoop.proxyuser.USER.hosts and .groups set "
    "for the user who asks."
)
PORTS = "Check host and port: those of the NameNode's web pages (9870), or of HttpFS (14000)."


class UnknownRequestError(StorageError):
    """This kind or version of server does not know what was asked."""


def of_http(
    status: int, challenge: str, body: bytes, shown: str, *, changes: bool, place: Place
) -> tuple[StorageError, bool]:
    """What an answer of WebHDFS with an error status means, and whether another NameNode may do what was asked.

    Of the server's words only the first line of a Java exception's message is passed on.
    """
    java, message = "", ""
    # Other bodies are those of other servers.
    with suppress(ValueError, LookupError, TypeError, AttributeError):
        remote: Any = json.loads(body)["RemoteException"]
        java, message = str(remote["exception"]).rpartition(".")[2], str(remote.get("message") or "")
    what = f"{shown} cannot be {'changed' if changes else 'read'}"
    wrong = _wrong_token(status, java, message, place)
    if wrong is not None:
        return DeniedError(f"{what}: the delegation token {wrong}", path=shown, hint=_NEW_TOKEN), False
    if java and status not in (429, 503):
        # Such a NameNode has done nothing, and another may think otherwise.
        elsewhere = java in ("StandbyException", "RetriableException")
        return _remote_error(java, message, shown, changes), elsewhere
    return _bare(status, challenge, shown, what, MAY_WRITE if changes else MAY_READ, place), False


def _wrong_token(status: int, java: str, message: str, place: Place) -> str | None:
    """What is wrong with the delegation token; None where that is not what the answer is about.

    By the words of Hadoop's AbstractDelegationTokenSecretManager. They name users, and are not passed on.
    """
    if "InvalidToken" in f"{java} {message}":
        if "expired" in message:
            return "has expired"
        if "can't be found in cache" in message:
            return "is not known to the server any more, or is another cluster's"
        return _NOT_VALID
    if place.token is None:
        return None
    if re.match("Failed to obtain user group information: java[.]io[.]", message):
        return "is damaged"  # the server cannot decode it
    return _NOT_VALID if status == 401 else None


def _remote_error(java: str, message: str, shown: str, changes: bool) -> StorageError:
    """What WebHDFS refuses besides what all of Hadoop does."""
    reason = first_line(message)
    if java in ("IllegalArgumentException", "UnsupportedOperationException"):
        return UnknownRequestError(f"{shown} cannot be used: {reason}", path=shown)
    if reason == "No active nodes contain this block":
        return no_datanode(shown, "gives a block of it")
    if reason.startswith("Failed to find datanode"):
        return no_datanode(shown, "is there")
    error = of_java(java, message, shown, changes=changes)
    if "impersonate" in reason:
        error.hint = _IMPERSONATE
    if java == "StandbyException":
        error.transient = True  # a fail-over takes seconds
    return error


def _bare(status: int, challenge: str, shown: str, what: str, may: str, place: Place) -> StorageError:
    """An error without a Java exception, or one that stands for its status alone."""
    if status in (429, 503):
        text = f"{what}: the server asks for fewer requests (HTTP {status})"
        return ThrottledError(text, path=shown, hint="Run the command again later, or with less --parallelism.")
    if status == 401:
        if place.kerberos:
            return no_ticket(shown)
        text, hint = f"{shown} cannot be used: the server does not accept this user", MAY_READ
        if "negotiate" in challenge.lower():
            text = f"{shown} cannot be used: the server requires Kerberos"
            hint = f"{_KERBEROS[:-1]}; or give a delegation token by HADOOP_TOKEN_FILE_LOCATION."
        return DeniedError(text, path=shown, hint=hint)
    if status == 403:
        return DeniedError(f"{what}: the server forbids it", path=shown, hint=may)
    if status in (502, 504):
        return unreachable(shown, f"the gateway does not reach HDFS (HTTP {status})")
    if status < 400:
        return StorageError(f"{what}: the server redirects this request (HTTP {status})", path=shown)
    return StorageError(f"{what}: HTTP {status} from something that is not WebHDFS", path=shown, hint=PORTS)
