"""What Hadoop's servers refuse, as our errors, whatever way their exceptions came."""

from __future__ import annotations

import re

from acidctl.errors import (
    DeniedError,
    ExistsError,
    QuotaError,
    SafeModeError,
    StorageError,
    ThrottledError,
    UnreachableError,
)

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
_GONE = "If a compaction or a cleaner runs on this table now, run the command again."


class MissingError(StorageError):
    """Nothing stands at the path."""


def of_java(java: str, message: str, shown: str, *, changes: bool) -> StorageError:
    """What a Java exception means: its class with or without package, and its text, a stack trace included."""
    kind = java.rpartition(".")[2]
    reason = first_line(message)
    what = f"{shown} cannot be {'changed' if changes else 'read'}"
    said = f"{what}: {reason or kind}"
    if kind in ("StandbyException", "ObserverRetryOnActiveException"):
        return SafeModeError(f"{what}: no NameNode is active", path=shown, hint=WAIT)
    if kind == "SafeModeException" or "in safe mode" in reason:
        return SafeModeError(f"{what}: the NameNode is in safe mode", path=shown, hint=WAIT)
    if kind in ("RetriableException", "ServerTooBusyException"):
        return UnreachableError(f"{what}: the NameNode is not ready ({reason})", path=shown, hint=WAIT)
    if kind == "ParentNotDirectoryException" or (kind == "AccessControlException" and "is not a directory" in reason):
        return MissingError(said, path=shown, hint=_GONE)
    if kind == "FileNotFoundException":
        return missing(shown, reason if changes else "")
    exists = kind in ("FileAlreadyExistsException", "AlreadyBeingCreatedException")
    if exists or any(words in reason for words in _BEING_CREATED):
        return ExistsError(f"{shown} exists already", path=shown)
    if "SIMPLE authentication is not enabled" in reason:
        return DeniedError(f"{shown} cannot be used: the server asks who it is by Kerberos", path=shown, hint=_KERBEROS)
    if kind in ("AccessControlException", "SecurityException", "AuthorizationException"):
        return DeniedError(said, path=shown, hint=MAY_WRITE if changes else MAY_READ)
    if kind == "SaslException" or kind == "InvalidToken":
        return no_ticket(shown)
    if "QuotaExceeded" in kind or "QuotaByStorageType" in kind:
        return QuotaError(said, path=shown, hint="Free space, or have the quota of this directory raised.")
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
    return StorageError(said, path=shown)


def missing(shown: str, reason: str = "") -> MissingError:
    """What was to be read or changed does not exist."""
    text = f"{shown} cannot be changed: {reason}" if reason else f"{shown} is not there any more"
    return MissingError(text, path=shown, hint=_GONE)


def no_ticket(shown: str) -> DeniedError:
    """Kerberos is asked for, and there is nothing to show."""
    return DeniedError(
        f"{shown} cannot be used: there is no Kerberos ticket that the server accepts, or it has expired",
        path=shown,
        hint=NEW_TICKET,
    )


def unreachable(shown: str, why: str) -> UnreachableError:
    """No answer, for a reason that may pass."""
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
        f"{shown} cannot be reached: no machine is known by the name in {address}",
        path=shown,
        hint=f"Check the name. A name service (HA) has to stand in hdfs-site.xml of HADOOP_CONF_DIR, with "
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
