"""S3 through s3fs: its session and credentials, but each request made here, so that each has its condition.

Whoever writes marks the object with a mark of its own. A condition that fails after an answer was lost is so
distinguished from another writer's success: `put`, `copy`, `swap` and uploads are tried again, like reading.
"""

from __future__ import annotations

import asyncio
import os
import re
import secrets
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Any, cast
from urllib.parse import urlsplit

import botocore.exceptions
from s3fs import S3FileSystem

from acidctl.errors import (
    AcidctlError,
    DeniedError,
    ExistsError,
    MissingDependencyError,
    NoSuchTableError,
    QuotaError,
    StorageError,
    ThrottledError,
    UnreachableError,
    UsageError,
)
from acidctl.format.names import WORK_PREFIX
from acidctl.storage.objects import OBJECT_FACTS, UNCACHED, Item, ObjectStorage, entry_of
from acidctl.storage.port import NewFile, Storage, already_exists, gone, replaced
from acidctl.storage.redact import without_credentials
from acidctl.storage.remote import DirectoryEntry
from acidctl.storage.retry import DEFAULT_RETRY, RetryPolicy

FACTS = OBJECT_FACTS._replace(conditional_replace=True)
#: Seconds; requests are tried again here, and not below.
DEFAULT_CONFIG = {"connect_timeout": 5, "read_timeout": 30, "retries": {"total_max_attempts": 1}}
Answer = Mapping[str, Any]
_MARK = "acidctl-write"
PAGE = 1000
_DELETES = 1000
# Parts of a copy: 10,000 at most, and none may be larger than 5 GiB.
COPY_BYTES = 512 << 20
# What one writer holds: a part that fills up, and a few under way.
_PART_BYTES = 8 << 20
_UNDER_WAY = 4
# Which request takes which condition: older versions of botocore leave those out without a mark.
_CONDITIONS = (("PutObject", "IfNoneMatch"), ("PutObject", "IfMatch"), ("CompleteMultipartUpload", "IfNoneMatch"))

# File systems of a parent process: they must not be closed by a child that shares their sockets.
_inherited: list[Any] = []


class S3Objects:
    """The objects of an S3 server; `make` makes an `S3FileSystem` that shares nothing with others."""

    def __init__(self, make: Callable[[], Any], *, policy: RetryPolicy = DEFAULT_RETRY) -> None:
        self._make = make
        self._policy = policy
        self._filesystem = make()
        self._pid = os.getpid()
        self._proved = False
        self._knows_conditions = False

    def url(self, path: str) -> str:
        return f"s3://{path}"

    def head(self, path: str) -> Item | None:
        bucket, key = _split(path)
        if not key:
            return None
        try:
            found = self.ask("head_object", path, Bucket=bucket, Key=key)
        except AcidctlError as error:
            if error.__cause__ is not None and code_of(error.__cause__) in ("404", "NoSuchKey", "NotFound"):
                return None
            raise
        mark = found.get("Metadata", {}).get(_MARK, "")
        return _item(bucket, {"Key": key, "Size": found["ContentLength"], **found}, mark)

    def below(self, path: str) -> Iterator[Item]:
        bucket, prefix = _folder(path)
        for page in self._pages(path, Bucket=bucket, Prefix=prefix):
            for entry in page.get("Contents", ()):
                yield _item(bucket, entry)

    def entries(self, path: str) -> Iterable[DirectoryEntry]:
        bucket, prefix = _folder(path)
        seen = False
        for page in self._pages(path, Bucket=bucket, Prefix=prefix, Delimiter="/"):
            for found in page.get("CommonPrefixes", ()):
                seen = True
                name = str(found["Prefix"])[len(prefix) : -1]
                if name:
                    yield DirectoryEntry(name, True)
            for found in page.get("Contents", ()):
                seen = True
                entry = entry_of(path, _item(bucket, found))
                if entry is not None:
                    yield entry
        if not seen:
            raise NoSuchTableError(f"{self.url(path)} does not exist", path=self.url(path))

    def any_below(self, path: str) -> bool:
        """One request; NoSuchTableError without the bucket, which is another mistake than a wrong path."""
        bucket, prefix = _folder(path)
        page = self.ask("list_objects_v2", path, Bucket=bucket, Prefix=prefix, MaxKeys=1)
        return bool(page.get("Contents")) or not prefix

    def read(self, item: Item, offset: int, length: int) -> bytes:
        bucket, key = _split(item.path)
        asked = {"Bucket": bucket, "Key": key, "Range": f"bytes={offset}-{offset + length - 1}"}
        if item.version:
            asked["IfMatch"] = item.version

        async def body(filesystem: Any) -> bytes:
            answer = await filesystem._call_s3("get_object", **asked)
            async with answer["Body"] as stream:
                return cast(bytes, await stream.read())

        try:
            return cast(bytes, self._policy.run(lambda: self.run_request(body, item.path)))
        except ExistsError as error:
            raise replaced(self.url(item.path)) from error

    def put(self, path: str, data: bytes) -> None:
        """One request; the first of a process is made twice, to see that the server heeds conditions at all."""
        mark = secrets.token_hex(8)
        self.require_conditions()
        self._put(path, data, mark, IfNoneMatch="*")
        if self._proved:
            return
        try:
            self.ask("put_object", path, "written", **_where(path), Body=data, Metadata={_MARK: mark}, IfNoneMatch="*")
        except ExistsError:
            self._proved = True
            return
        with suppress(AcidctlError):
            self.delete([path])
        shown = self.url(path)
        raise StorageError(
            f"{shown} cannot be written safely: this server ignores If-None-Match, so two writers could take one name",
            path=shown,
            hint="Use a server that supports it (current AWS S3, MinIO, Ceph, Cloudflare R2); reading works here.",
        )

    def swap(self, path: str, old: bytes, new: bytes) -> bool:
        """Two requests."""
        item = self.head(path)
        if item is None:
            return False
        self.require_conditions()
        try:
            if item.size != len(old) or (old and self.read(item, 0, item.size) != old):
                return False
            self._put(path, new, secrets.token_hex(8), IfMatch=item.version)
        except StorageError:
            # Another one is there by now, or none.
            now = self.head(path)
            if now is None or now.version != item.version:
                return False
            raise
        return True

    def create(self, path: str) -> NewFile:
        return _NewObject(self, path)

    def copy(self, source: Item, target: str) -> None:
        """By the server, as an upload of parts: only its end is conditional everywhere.

        Copying an object in one request has a condition as well by now, which most servers ignore.
        """
        if not source.size:
            self.put(target, b"")
            return
        if self.head(target) is not None:
            raise error_for("PreconditionFailed", self.url(target), "written")
        bucket, key = _split(source.path)
        origin: dict[str, Any] = {"CopySource": {"Bucket": bucket, "Key": key}}
        if source.version:
            origin["CopySourceIfMatch"] = source.version
        with _NewObject(self, target) as copy:
            for start in range(0, source.size, COPY_BYTES):
                span = {}
                if source.size > COPY_BYTES:
                    span["CopySourceRange"] = f"bytes={start}-{min(start + COPY_BYTES, source.size) - 1}"
                copy.add_part("upload_part_copy", source.path, {**origin, **span})

    def delete(self, paths: Sequence[str]) -> None:
        """A request for a thousand, one after the other."""
        for start in range(0, len(paths), _DELETES):
            some = paths[start : start + _DELETES]
            bucket = _split(some[0])[0]
            names = {"Objects": [{"Key": _split(path)[1]} for path in some], "Quiet": True}
            answer = self.ask("delete_objects", some[0], "removed", Bucket=bucket, Delete=names)
            for problem in answer.get("Errors", ()):
                shown = self.url(f"{bucket}/{problem.get('Key', '')}")
                raise error_for(str(problem.get("Code", "")), shown, "removed")

    def forget(self, path: str) -> None:
        """Only in acidctl's own directories, where no other program uploads."""
        if WORK_PREFIX not in path:
            return
        bucket, prefix = _folder(path)
        with suppress(AcidctlError):
            listed = self.ask("list_multipart_uploads", path, Bucket=bucket, Prefix=prefix)
            for one in listed.get("Uploads", ()):
                where = {"Bucket": bucket, "Key": one["Key"], "UploadId": one["UploadId"]}
                self.ask("abort_multipart_upload", path, "removed", **where)

    def is_written(self, path: str, mark: str) -> bool:
        """Whether the object there is the one that was marked with this mark."""
        item = self.head(path)
        return item is not None and item.mark == mark

    def require_conditions(self) -> None:
        """MissingDependencyError where the installed botocore would leave conditions out."""
        if self._proved or self._knows_conditions:
            return
        self.run_request(lambda filesystem: filesystem.set_session(), "", "written")
        model = self._filesystem._s3.meta.service_model
        for operation, condition in _CONDITIONS:
            if condition not in model.operation_model(operation).input_shape.members:
                raise MissingDependencyError(
                    "writing to s3: needs a newer aiobotocore, one that knows conditional writes",
                    hint="pip install --upgrade 'acidctl[s3]' aiobotocore",
                )
        self._knows_conditions = True

    def _put(self, path: str, data: bytes, mark: str, **condition: str) -> None:
        asked = {**_where(path), "Body": data, "Metadata": {_MARK: mark}, **condition}
        try:
            self.ask("put_object", path, "written", **asked)
        except ExistsError:
            if not self.is_written(path, mark):
                raise

    def _pages(self, path: str, **asked: Any) -> Iterator[Answer]:
        more: dict[str, str] = {}
        while True:
            page = self.ask("list_objects_v2", path, MaxKeys=PAGE, **asked, **more)
            yield page
            if not page.get("IsTruncated"):
                return
            more = {"ContinuationToken": str(page["NextContinuationToken"])}

    def ask(self, method: str, path: str, doing: str = "read", **asked: Any) -> Answer:
        """One request about a path, tried again where that may help; `doing` is a participle for errors."""
        return self._policy.run(lambda: self.once(method, path, doing, **asked))

    def once(self, method: str, path: str, doing: str, **asked: Any) -> Answer:
        return cast(Answer, self.run_request(lambda filesystem: filesystem._call_s3(method, **asked), path, doing))

    def run_request(self, request: Callable[[Any], Any], path: str, doing: str = "read") -> Any:
        """Make a request on the thread of s3fs and wait for it; any thread may."""
        if self._pid != os.getpid():
            # A forked child has neither that thread nor may it use the parent's connections.
            _inherited.append(self._filesystem)
            self._filesystem, self._pid = self._make(), os.getpid()
        try:
            return asyncio.run_coroutine_threadsafe(request(self._filesystem), self._filesystem.loop).result()
        except Exception as error:
            raise translated(error, self.url(path), doing) from error


class _NewObject(NewFile):
    """An object in parts, which are sent in the background; one that fits into a part is written at once in the end."""

    def __init__(self, objects: S3Objects, path: str) -> None:
        super().__init__(_PART_BYTES)
        self._objects = objects
        self._path = path
        self._word = secrets.token_hex(8)
        self._id: str | None = None
        self._parts: list[Future[str]] = []
        self._under_way: deque[Future[str]] = deque()
        self._pool: ThreadPoolExecutor | None = None

    def _send(self) -> None:
        # The last part is kept back: it goes with `_finish`, so that one part alone takes one request.
        while len(self._buffer) > self._part_bytes:
            self.add_part("upload_part", self._path, {"Body": bytes(self._buffer[: self._part_bytes])})
            del self._buffer[: self._part_bytes]

    def _finish(self) -> None:
        if self._id is None:
            self._objects.put(self._path, bytes(self._buffer))
            return
        if self._buffer:
            self.add_part("upload_part", self._path, {"Body": bytes(self._buffer)})
        parts = [{"PartNumber": number, "ETag": part.result()} for number, part in enumerate(self._parts, 1)]
        end = {"UploadId": self._id, "MultipartUpload": {"Parts": parts}, "IfNoneMatch": "*"}
        try:
            self._ask("complete_multipart_upload", **end)
        except AcidctlError:
            if not self._objects.is_written(self._path, self._word):
                raise
        self._stop()

    def _abandon(self, failure: BaseException | None = None) -> None:
        """Waits for what is under way: a part that comes later would stay for ever."""
        self._stop()
        if self._id is not None:
            with suppress(AcidctlError):
                self._ask("abort_multipart_upload", UploadId=self._id)

    def _stop(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)

    def _ask(self, method: str, **asked: Any) -> Answer:
        return self._objects.ask(method, self._path, "written", **_where(self._path), **asked)

    def add_part(self, method: str, about: str, what: Mapping[str, Any]) -> None:
        """Send the next part, or have the server copy it; waits while enough is under way."""
        if self._id is None:
            self._objects.require_conditions()
            self._id = str(self._ask("create_multipart_upload", Metadata={_MARK: self._word})["UploadId"])
            self._pool = ThreadPoolExecutor(_UNDER_WAY, "acidctl-upload")
        assert self._pool is not None
        while len(self._under_way) >= _UNDER_WAY:
            self._under_way.popleft().result()
        asked = {**_where(self._path), "UploadId": self._id, "PartNumber": len(self._parts) + 1, **what}

        def send() -> str:
            answer = self._objects.ask(method, about, "written", **asked)
            return str(answer.get("CopyPartResult", answer)["ETag"])

        part = self._pool.submit(send)
        self._parts.append(part)
        self._under_way.append(part)


def _split(path: str) -> tuple[str, str]:
    bucket, _, key = path.partition("/")
    return bucket, key


def _where(path: str) -> dict[str, str]:
    bucket, key = _split(path)
    return {"Bucket": bucket, "Key": key}


def _folder(path: str) -> tuple[str, str]:
    """The bucket, and what the keys below a path begin with."""
    bucket, key = _split(path.rstrip("/"))
    return bucket, f"{key}/" if key else ""


def _item(bucket: str, found: Mapping[str, Any], mark: str = "") -> Item:
    modified = found["LastModified"].timestamp()
    return Item(f"{bucket}/{found['Key']}", int(found["Size"]), modified, str(found.get("ETag", "")), mark)


# --- What goes wrong between this machine and S3, as our errors.
#
# Servers quote what they were sent: of their words only codes are passed on, and sentences are ours. Codes are those of
# the S3 API's list of errors, and numbers where an answer has no body (HEAD).


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
_MAY_NOW = f"{_MAY} Check that they have not expired."
_CLOCK = "Set the clock of this machine."
_AGAIN = "Run the command again later."
_FULL = "Raise the quota or free space, and run the command again; the table is as it was."
_BUCKET = re.compile(r"s3://[A-Za-z0-9][A-Za-z0-9.-]+[A-Za-z0-9](/|$)")

_SLOWER = (
    "SlowDown Throttling ThrottlingException RequestLimitExceeded TooManyRequests TooManyRequestsException "
    "BandwidthLimitExceeded ServerBusy 429 503 "
    # Another request for the same name was under way, and none of both was carried out.
    "OperationAborted ConditionalRequestConflict"
)
_REDIRECTED = (
    "PermanentRedirect TemporaryRedirect AuthorizationHeaderMalformed IllegalLocationConstraint "
    "IllegalLocationConstraintException 301 307"
)
_NO_SPACE = "QuotaExceeded XMinioAdminBucketQuotaExceeded XMinioStorageFull InsufficientCapacity 507"
_TOKEN = "the server refuses the request, most often because a session token is wrong or has expired"
# Codes, the kind of error, the reason, and what to do.
_ROWS: Sequence[tuple[str, type[StorageError], str, str | None]] = (
    ("AccessDenied AllAccessDisabled Forbidden", DeniedError, "access is denied", _MAY),
    ("AccountProblem", DeniedError, "the account has a problem", _MAY),
    ("401 403", DeniedError, "access is denied, or the credentials are refused", _MAY_NOW),
    ("InvalidAccessKeyId", DeniedError, "the access key is not known there", _CREDENTIALS),
    ("XAdminUserNotFound XMinioAdminNoSuchUser", DeniedError, "the access key is not known there", _CREDENTIALS),
    ("SignatureDoesNotMatch", DeniedError, "the secret does not belong to the access key", _CREDENTIALS),
    ("AuthFailure", DeniedError, "the credentials are refused", _CREDENTIALS),
    ("ExpiredToken TokenRefreshRequired", DeniedError, "the session token has expired", _RENEW),
    ("RequestExpired", DeniedError, "the session has expired", _RENEW),
    ("InvalidToken", DeniedError, "the session token is refused", _RENEW),
    ("400", DeniedError, _TOKEN, _RENEW),
    ("RequestTimeTooSkewed", DeniedError, "the clocks of this machine and the server differ", _CLOCK),
    (_SLOWER, ThrottledError, "the server asks for fewer requests", _AGAIN),
    ("InternalError ServiceUnavailable RequestTimeout", UnreachableError, "the server has a problem ({code})", _AGAIN),
    ("IncompleteBody 500 502 504", UnreachableError, "the server has a problem ({code})", _AGAIN),
    (_NO_SPACE, QuotaError, "the storage is full", _FULL),
    (_REDIRECTED, StorageError, "the bucket is in another region", _REGION),
    ("NotImplemented MethodNotAllowed 501 405", StorageError, "the server does not support this ({code})", None),
)
_MEANINGS = {code: (kind, why, hint) for codes, kind, why, hint in _ROWS for code in codes.split()}
_NO_CREDENTIALS = (
    botocore.exceptions.NoCredentialsError,
    botocore.exceptions.PartialCredentialsError,
    botocore.exceptions.CredentialRetrievalError,
    botocore.exceptions.ProfileNotFound,
    botocore.exceptions.TokenRetrievalError,
    botocore.exceptions.SSOError,
)


def code_of(error: BaseException) -> str | None:
    """The code of the server's answer; None where none came. s3fs replaces botocore's error by one that it causes."""
    answers = (getattr(one, "response", None) for one in (error, error.__cause__))
    answer = next((answer for answer in answers if isinstance(answer, Mapping)), None)
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
            return StorageError(f"{shown} cannot be {doing}: S3 does not allow this name", path=shown)
        if isinstance(one, ValueError | TypeError):
            why = "its options in [storage] cannot be used"
            return StorageError(f"{shown} cannot be {doing}: {why}", path=shown, hint="See the options of s3fs.")
    return _unanswered(error, shown, doing)


def error_for(code: str, shown: str, doing: str) -> StorageError | NoSuchTableError:
    """Our error for a code of the server."""
    if code in ("PreconditionFailed", "412"):
        return already_exists(shown)
    # Servers answer with one or the other where no bucket could have that name.
    unnamed = code in ("InvalidBucketName", "400") and not _BUCKET.match(shown)
    if code == "NoSuchBucket" or unnamed:
        why = "the bucket does not exist"
        return NoSuchTableError(f"{shown} cannot be {doing}: {why}", path=shown, hint="Check the URL and the endpoint.")
    if code in ("NoSuchKey", "404"):
        return gone(shown)
    known = code if code.isalnum() and len(code) < 60 else "no reason given"
    kind, why, advice = _MEANINGS.get(code, (StorageError, "the server refuses it ({code})", None))
    return kind(f"{shown} cannot be {doing}: {why.format(code=known)}", path=shown, hint=advice)


def _unanswered(error: BaseException, shown: str, doing: str) -> AcidctlError:
    timed_out = botocore.exceptions.ConnectTimeoutError, botocore.exceptions.ReadTimeoutError
    # Errors of the HTTP library below botocore while a body is read.
    broke_off = any(kind.__name__ in ("ClientError", "IncompleteReadError") for kind in type(error).__mro__)
    if isinstance(error, (*timed_out, TimeoutError, asyncio.TimeoutError)):
        why = "the server does not answer"
    elif isinstance(error, botocore.exceptions.SSLError):
        why = "no secure connection can be made"
    elif isinstance(error, botocore.exceptions.EndpointConnectionError | ConnectionError):
        # The machine and port that were asked for, where the error has them.
        host = urlsplit(without_credentials(str(getattr(error, "kwargs", {}).get("endpoint_url", "")))).netloc
        why = f"no connection can be made{' to ' + host if host else ''}"
    elif isinstance(error, OSError | botocore.exceptions.HTTPClientError) or broke_off:
        why = "the connection broke off"
    else:
        why = f"{type(error).__name__} happened"
        return StorageError(f"{shown} cannot be {doing}: {why}", path=shown, hint=_ADDRESS)
    return UnreachableError(f"{shown} cannot be {doing}: {why}", path=shown, hint=_ADDRESS)


# --- Opening, here and on other machines.


_KEYS = {"key": "AWS_ACCESS_KEY_ID", "secret": "AWS_SECRET_ACCESS_KEY", "token": "AWS_SESSION_TOKEN"}
# Options of s3fs that are settings themselves.
_TABLES = ("config_kwargs", "client_kwargs", "s3_additional_kwargs")


def connect(url: str, scheme: str, options: Mapping[str, Any]) -> tuple[Storage, str]:
    """The storage of a URL and the path within it, which is all behind the slashes, as it is."""
    for name in _TABLES:
        if not isinstance(options.get(name, {}), Mapping):
            raise UsageError(
                f"the option {name} of [storage] for s3: is not a table of settings",
                hint=f'Write it as {name} = {{ "NAME" = "VALUE" }}.',
            )
    config = {**DEFAULT_CONFIG, **options.get("config_kwargs", {})}
    client = {**options.get("client_kwargs", {})}
    region = _region(os.environ)
    if region is not None:
        client.setdefault("region_name", region)

    def make() -> Any:
        filesystem = S3FileSystem(**{**UNCACHED, **options, "config_kwargs": config, "client_kwargs": client})
        filesystem.retries = 1
        return filesystem

    path = url.partition("://")[2]
    try:
        objects = S3Objects(make)
    except (TypeError, ValueError) as error:
        raise UsageError(
            "the options of [storage] for s3: cannot be used",
            hint="They are the arguments of s3fs.S3FileSystem: key, secret, token, profile, endpoint_url and others.",
        ) from error
    if not path.strip("/"):
        raise UsageError(f"{url} names no bucket", hint="Give s3://BUCKET/PATH of the table's directory.")
    return ObjectStorage(objects, FACTS), path


def options_elsewhere(
    url: str, scheme: str, options: Mapping[str, Any], environment: Mapping[str, str]
) -> dict[str, Any]:
    """Keys, endpoint and region of the environment, as Spark hands them to its own readers.

    They are arguments of s3fs; those that were given win, and keys belong together.
    """
    found = dict(options)
    client = dict(options.get("client_kwargs") or {})
    if not found.keys() & {"key", "profile", "anon", "session"} and environment.get("AWS_ACCESS_KEY_ID"):
        keys = {name: environment.get(variable) for name, variable in _KEYS.items()}
        found.update({name: value for name, value in keys.items() if value})
    endpoint = environment.get("AWS_ENDPOINT_URL_S3") or environment.get("AWS_ENDPOINT_URL")
    if endpoint and "endpoint_url" not in found and "endpoint_url" not in client:
        found["endpoint_url"] = endpoint
    region = _region(environment)
    if region and "region_name" not in client:
        found["client_kwargs"] = {**client, "region_name": region}
    return found


def _region(environment: Mapping[str, str]) -> str | None:
    """As the AWS command line has it; botocore itself knows the second variable only."""
    return environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION")
