"""What goes wrong between this machine and S3, as our errors.

Servers quote what they were sent: of their words only codes are passed on, and sentences are ours. Codes are those of
the S3 API's list of errors, and numbers where an answer has no body (HEAD).
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import botocore.exceptions

from acidctl.errors import (
    AcidctlError,
    DeniedError,
    ExistsError,
    NoSuchTableError,
    QuotaError,
    StorageError,
    ThrottledError,
    UnreachableError,
)
from acidctl.storage.redact import without_credentials

_MAY = "Let the policy of the user and the bucket allow it: listing, reading, and to compact or clean writing as well."
_RENEW = "Get new credentials (for example `aws sso login`, or new environment variables), and run the command again."
_CREDENTIALS = (
    "Give credentials as for the AWS command line (environment, profile, role), or `key` and `secret` in [storage] of "
    "the configuration file."
)
_REGION = 'Set AWS_REGION, or `client_kwargs = { region_name = "..." }` in [storage] of the configuration file.'
_ADDRESS = (
    "Check AWS_ENDPOINT_URL or `endpoint_url` in [storage] of the configuration file, the network, and that the server "
    "runs."
)
_AGAIN = "Run the command again later."
_BUCKET = re.compile(r"s3://[A-Za-z0-9][A-Za-z0-9.-]+[A-Za-z0-9](/|$)")

_DENIED: Mapping[str, tuple[str, str]] = {
    "AccessDenied": ("access is denied", _MAY),
    "AllAccessDisabled": ("access is denied", _MAY),
    "AccountProblem": ("the account has a problem", _MAY),
    "Forbidden": ("access is denied", _MAY),
    "403": ("access is denied, or the credentials are refused", f"{_MAY} See that they have not expired."),
    "401": ("access is denied, or the credentials are refused", f"{_MAY} See that they have not expired."),
    "InvalidAccessKeyId": ("the access key is not known there", _CREDENTIALS),
    **dict.fromkeys(
        ("XAdminUserNotFound", "XMinioAdminNoSuchUser"), ("the access key is not known there", _CREDENTIALS)
    ),
    "SignatureDoesNotMatch": ("the secret does not belong to the access key", _CREDENTIALS),
    "AuthFailure": ("the credentials are refused", _CREDENTIALS),
    "ExpiredToken": ("the session token has expired", _RENEW),
    "TokenRefreshRequired": ("the session token has expired", _RENEW),
    "RequestExpired": ("the session has expired", _RENEW),
    "InvalidToken": ("the session token is refused", _RENEW),
    "RequestTimeTooSkewed": ("the clocks of this machine and the server differ", "Set this machine's clock."),
}
_THROTTLED = {
    *("SlowDown", "Throttling", "ThrottlingException", "RequestLimitExceeded", "TooManyRequests"),
    *("TooManyRequestsException", "BandwidthLimitExceeded", "ServerBusy", "429", "503"),
    # Another request for the same name was under way, and none of both was carried out.
    *("OperationAborted", "ConditionalRequestConflict"),
}
_UNSURE = {"InternalError", "ServiceUnavailable", "RequestTimeout", "500", "502", "504", "IncompleteBody"}
_QUOTA = {"QuotaExceeded", "XMinioAdminBucketQuotaExceeded", "XMinioStorageFull", "InsufficientCapacity", "507"}
_ELSEWHERE = {"PermanentRedirect", "TemporaryRedirect", "AuthorizationHeaderMalformed", "IllegalLocationConstraint"}
_ELSEWHERE |= {"301", "307", "IllegalLocationConstraintException"}
_NO_CREDENTIALS = (
    botocore.exceptions.NoCredentialsError,
    botocore.exceptions.PartialCredentialsError,
    botocore.exceptions.CredentialRetrievalError,
    botocore.exceptions.ProfileNotFound,
    botocore.exceptions.TokenRetrievalError,
    botocore.exceptions.SSOError,
)


def code_of(error: BaseException) -> str | None:
    """The code of the server's answer; None where none came."""
    answer = _answer(error)
    return None if answer is None else str(answer.get("Error", {}).get("Code", ""))


def translated(error: BaseException, shown: str, doing: str = "read") -> AcidctlError:
    """Our error for what s3fs or botocore raised; `doing` is a participle for the sentence."""
    if isinstance(error, AcidctlError):
        return error
    code = code_of(error)
    if code is not None:
        return error_for(code, shown, doing)
    cause = error if error.__cause__ is None else error.__cause__
    for one in (error, cause):
        if isinstance(one, _NO_CREDENTIALS):
            return DeniedError(f"{shown} cannot be {doing}: there are no credentials", path=shown, hint=_CREDENTIALS)
        if isinstance(one, botocore.exceptions.NoRegionError):
            return StorageError(f"{shown} cannot be {doing}: no region is given", path=shown, hint=_REGION)
        if isinstance(one, botocore.exceptions.ParamValidationError):
            return StorageError(f"{shown} cannot be {doing}: it is no name that S3 allows", path=shown)
        if isinstance(one, ValueError | TypeError):
            why = "its options in [storage] cannot be used"
            return StorageError(f"{shown} cannot be {doing}: {why}", path=shown, hint="See the options of s3fs.")
    return _unanswered(error, shown, doing)


def error_for(code: str, shown: str, doing: str) -> StorageError | NoSuchTableError:
    """Our error for a code of the server."""
    if code in ("PreconditionFailed", "412"):
        return ExistsError(f"{shown} exists already", path=shown)
    # Servers answer with one or the other where no bucket could have that name.
    unnamed = code in ("InvalidBucketName", "400") and not _BUCKET.match(shown)
    if code == "NoSuchBucket" or unnamed:
        why = "there is no bucket of that name"
        return NoSuchTableError(f"{shown} cannot be {doing}: {why}", path=shown, hint="Check the URL and the endpoint.")
    if code in ("NoSuchKey", "404"):
        hint = "If a compaction or a cleaner runs on this table now, run the command again."
        return StorageError(f"{shown} is not there any more", path=shown, hint=hint)
    if code in _DENIED:
        why, hint = _DENIED[code]
        return DeniedError(f"{shown} cannot be {doing}: {why}", path=shown, hint=hint)
    if code in _THROTTLED:
        why = "the server asks for fewer requests"
        return ThrottledError(f"{shown} cannot be {doing}: {why}", path=shown, hint=_AGAIN)
    if code in _UNSURE:
        why = f"the server has a problem ({code})"
        return UnreachableError(f"{shown} cannot be {doing}: {why}", path=shown, hint=_AGAIN)
    if code in _QUOTA:
        why = "the storage is full"
        hint = "Raise the quota or free space, and run the command again; the table is as it was."
        return QuotaError(f"{shown} cannot be {doing}: {why}", path=shown, hint=hint)
    if code in _ELSEWHERE:
        return StorageError(f"{shown} cannot be {doing}: the bucket is in another region", path=shown, hint=_REGION)
    if code in ("NotImplemented", "MethodNotAllowed", "501", "405"):
        return StorageError(f"{shown} cannot be {doing}: the server does not know how ({code})", path=shown)
    if code == "400":
        why = "the server refuses the request, most often because a session token is wrong or has expired"
        return DeniedError(f"{shown} cannot be {doing}: {why}", path=shown, hint=_RENEW)
    known = code if code.isalnum() and len(code) < 60 else "no reason given"
    return StorageError(f"{shown} cannot be {doing}: the server refuses it ({known})", path=shown)


def _answer(error: BaseException) -> Mapping[str, Any] | None:
    """The server's answer; s3fs replaces botocore's error by one of Python's that it causes."""
    for one in (error, error.__cause__):
        answer = getattr(one, "response", None)
        if isinstance(answer, Mapping):
            return answer
    return None


def _unanswered(error: BaseException, shown: str, doing: str) -> AcidctlError:
    timed_out = botocore.exceptions.ConnectTimeoutError, botocore.exceptions.ReadTimeoutError
    if isinstance(error, (*timed_out, TimeoutError, asyncio.TimeoutError)):
        why = "the server does not answer"
    elif isinstance(error, botocore.exceptions.SSLError):
        why = "no secure connection can be made"
    elif isinstance(error, botocore.exceptions.EndpointConnectionError | ConnectionError):
        why = f"no connection can be made{_endpoint(error)}"
    elif isinstance(error, OSError | botocore.exceptions.HTTPClientError) or _broke_off(error):
        why = "the connection broke off"
    else:
        why = f"{type(error).__name__} happened"
        return StorageError(f"{shown} cannot be {doing}: {why}", path=shown, hint=_ADDRESS)
    return UnreachableError(f"{shown} cannot be {doing}: {why}", path=shown, hint=_ADDRESS)


def _endpoint(error: BaseException) -> str:
    """The machine and port that were asked for, as the end of a sentence; nothing where the error does not tell."""
    url = str(getattr(error, "kwargs", {}).get("endpoint_url", ""))
    host = urlsplit(without_credentials(url)).netloc
    return f" to {host}" if host else ""


def _broke_off(error: BaseException) -> bool:
    """Errors of the HTTP library below botocore while a body is read."""
    return any(kind.__name__ in ("ClientError", "IncompleteReadError") for kind in type(error).__mro__)
