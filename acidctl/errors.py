"""The error tree and the exit codes.

Every failure that a user can see is an `AcidctlError`: one sentence that says what, where and why, and a hint that
says what to do now. Modules raise these and nothing else for bad input; `cli` turns them into text or JSON and an
exit code.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Annotated


class ExitCode(IntEnum):
    """Process exit codes; scripts rely on the numbers."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    FINDINGS = 3
    NO_SUCH_TABLE = 10
    NOT_ACID = 11
    NOT_ENOUGH_HISTORY = 12
    DAMAGED = 13
    STORAGE = 14
    STALE_PLAN = 15
    INTERRUPTED = 130


class AcidctlError(Exception):
    """A failure to be shown as one sentence, with the path it concerns and the next step."""

    exit_code = ExitCode.FAILED
    code: Annotated[str, "stable word"] = "failed"
    message: Annotated[str, "one sentence"]
    path: Annotated[str | None, "what it is about"]
    hint: Annotated[str | None, "what to do now"]

    def __init__(self, message: str, *, path: str | None = None, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.path = path
        self.hint = hint

    def to_json(self) -> dict[str, str | None]:
        """The error as scripts get it."""
        return {"code": self.code, "message": self.message, "path": self.path, "hint": self.hint}


class UsageError(AcidctlError):
    """The command line or an argument is wrong."""

    exit_code = ExitCode.USAGE
    code = "usage"


class NoSuchTableError(AcidctlError):
    """The path does not exist."""

    exit_code = ExitCode.NO_SUCH_TABLE
    code = "no_such_table"


class NotAcidTableError(AcidctlError):
    """The path exists but holds no table of a kind that this command can answer for."""

    exit_code = ExitCode.NOT_ACID
    code = "not_acid"


class NotEnoughHistoryError(AcidctlError):
    """No base on disk is usable for the asked snapshot (Hive's ACID_NOT_ENOUGH_HISTORY, 10327)."""

    exit_code = ExitCode.NOT_ENOUGH_HISTORY
    code = "not_enough_history"


class DamagedDataError(AcidctlError):
    """A file is truncated, corrupt, or contradicts itself."""

    exit_code = ExitCode.DAMAGED
    code = "damaged"


class VerificationError(AcidctlError):
    """What was written is not what was meant to be written; nothing of it is published."""

    exit_code = ExitCode.DAMAGED
    code = "verification_failed"


class StorageError(AcidctlError):
    """The storage refused or could not be reached; `transient` says that asking again may help.

    `attempts` is how often it was asked already. Each kind has an `advice`: the hint where nobody knows better.
    """

    exit_code = ExitCode.STORAGE
    code = "storage"
    transient = False
    attempts = 1
    advice = "See what is there and whether this user may use it, then run the command again."

    def __init__(self, message: str, *, path: str | None = None, hint: str | None = None) -> None:
        super().__init__(message, path=path, hint=hint or self.advice)


class ExistsError(StorageError):
    """Something stands where something new was to be made."""

    code = "exists"
    advice = "See what has put it there; if another command is at work on this table, wait until it has ended."


class DeniedError(StorageError):
    """This user may not do that: permissions, missing or expired credentials."""

    code = "denied"
    advice = "Run as a user that may read the table, and write to it where it is to be changed."


class UnreachableError(StorageError):
    """No answer, or none in time; whether a change was carried out is unknown."""

    code = "unreachable"
    advice = "Check the address, the network and that the server runs, then run the command again."
    transient = True


class SafeModeError(StorageError):
    """The storage takes no changes now: HDFS in safe mode, a NameNode in standby, a read-only mount."""

    code = "safe_mode"
    advice = "Run the command again when the storage takes changes; reading works meanwhile."


class QuotaError(StorageError):
    """No room: a quota or the storage itself is full."""

    code = "quota"
    advice = "Raise the quota or free space, and run the command again; the table is as it was."


class ThrottledError(StorageError):
    """The storage asks for fewer requests; nothing was carried out."""

    code = "throttled"
    advice = "Run the command again later."
    transient = True


class MissingDependencyError(AcidctlError):
    """A package or program that this work needs is not installed."""

    exit_code = ExitCode.STORAGE
    code = "missing_dependency"


class StalePlanError(AcidctlError):
    """The table changed since the plan was made."""

    exit_code = ExitCode.STALE_PLAN
    code = "stale_plan"


class InternalError(AcidctlError):
    """A broken promise inside acidctl itself; the only error whose remedy is to report it."""

    exit_code = ExitCode.FAILED
    code = "internal"


class TimeUpError(BaseException):
    """The grace is over. No `Exception`: like an interrupt it has to get through whatever is at work."""
