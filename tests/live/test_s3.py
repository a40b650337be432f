"""S3 by s3fs: the conformance suite on two servers, conditions, lost answers, errors, requests."""

from __future__ import annotations

import http.server
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, cast

import pytest

from acidctl.errors import (
    AcidctlError,
    DeniedError,
    ExistsError,
    NoSuchTableError,
    QuotaError,
    StorageError,
    ThrottledError,
    UnreachableError,
    UsageError,
)
from acidctl.storage.objects import ObjectStorage
from acidctl.storage.port import Storage
from acidctl.storage.resolve import resolve
from acidctl.storage.retry import Retrying
from acidctl.storage.s3 import S3Objects, error_for
from tests.services.s3 import S3Server
from tests.support.faulty import in_child
from tests.support.storage_conformance import Make, WritingStorage

pytestmark = pytest.mark.s3
MIB = 1 << 20
_sessions: dict[str, Storage] = {}


def plant(server: S3Server, files: Mapping[str, bytes]) -> str:
    """Objects below `t/` of a bucket of their own; the URL."""
    bucket, client = server.bucket(), server.client
    for name, data in files.items():
        client.put_object(Bucket=bucket, Key=f"t/{name}", Body=data)
    return f"s3://{bucket}/t"


def objects_of(storage: Storage) -> S3Objects:
    """What makes the requests."""
    assert isinstance(storage, Retrying)
    assert isinstance(storage.inner, ObjectStorage)
    return cast(S3Objects, storage.inner._objects)


class _OnS3(WritingStorage):
    """What every server has to pass."""

    has_empty_directories = False
    needs_parents = False

    @pytest.fixture
    def server(self) -> S3Server:
        """The server."""
        raise NotImplementedError

    @pytest.fixture
    def storage(self, server: S3Server) -> Storage:
        """One storage for all tests: to make a session takes longer than most of them."""
        if server.endpoint_url not in _sessions:
            _sessions[server.endpoint_url] = resolve("s3://none/t", server.options)[0]
        return _sessions[server.endpoint_url]

    @pytest.fixture
    def make(self, server: S3Server, storage: Storage) -> Make:
        """A tree in a bucket of its own."""

        def make(files: Mapping[str, bytes]) -> tuple[Storage, str]:
            return storage, plant(server, files).removeprefix("s3://")

        return make

    def test_marks_of_directories_are_no_files(self, make: Make) -> None:
        """What other clients leave to show a directory that would be empty."""
        storage, root = make({"": b"", "empty/": b"", "old_$folder$": b"", "old/f": b"1", "real_$folder$": b"x"})
        for descend in (None, lambda path: True):
            found = storage.walk(root, descend)
            assert [info.path for info in found.files] == ["old/f", "real_$folder$"]
            assert found.directories == ("empty", "old")
        assert storage.stat(f"{root}/empty") is not None
        storage.remove_tree(f"{root}/empty")
        assert storage.stat(f"{root}/empty") is None

    def test_copies_and_uploads_in_parts(self, server: S3Server, make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
        """Large objects go in parts both ways, and an exception leaves none of them behind."""
        monkeypatch.setattr("acidctl.storage.s3.COPY_BYTES", 5 * MIB)
        storage, root = make({"d/f": b"1"})
        data = bytes(range(256)) * (4096 * 17)
        with storage.create(f"{root}/d/large") as stream:
            for start in range(0, len(data), 3 * MIB):
                stream.write(data[start : start + 3 * MIB])
        storage.copy_file(f"{root}/d/large", f"{root}/d/copy")
        with storage.open(f"{root}/d/copy") as stream:
            assert stream.read() == data

        def fail() -> None:
            with storage.create(f"{root}/d/half") as stream:
                stream.write(data)
                raise KeyError

        with pytest.raises(KeyError):
            fail()
        with pytest.raises(ExistsError):
            storage.copy_file(f"{root}/d/large", f"{root}/d/copy")
        bucket = root.partition("/")[0]
        assert server.client.list_multipart_uploads(Bucket=bucket).get("Uploads", []) == []
        assert [info.path for info in storage.walk(root).files] == ["d/copy", "d/f", "d/large"]

    def test_of_two_writers_of_one_name_the_second_to_end_is_refused(self, make: Make) -> None:
        """A stream that was begun while the name was free, small and large."""
        storage, root = make({"d/f": b"1"})
        for size in (10, 9 * MIB):
            path = f"{root}/d/{size}"
            slow = storage.create(path)
            slow.write(b"x" * size)
            storage.create_exclusive(path, b"first")
            with pytest.raises(ExistsError):
                slow.close()
            with storage.open(path) as stream:
                assert stream.read() == b"first"

    def test_what_unfinished_uploads_hold_goes_with_a_work_directory(self, server: S3Server, make: Make) -> None:
        """A process that was killed in the middle of one; elsewhere they may be somebody's who is at it."""
        storage, root = make({"_acidctl_work_0123456789ab/owner.json": b"1", "delta_1_1/f": b"2"})
        bucket, _, key = root.partition("/")
        client = server.client
        for name in ("_acidctl_work_0123456789ab/attempts/x", "delta_1_1/g"):
            client.create_multipart_upload(Bucket=bucket, Key=f"{key}/{name}")
        storage.remove_tree(f"{root}/_acidctl_work_0123456789ab")
        storage.remove_tree(f"{root}/delta_1_1")
        left = client.list_multipart_uploads(Bucket=bucket).get("Uploads", [])
        assert [upload["Key"] for upload in left] == [f"{key}/delta_1_1/g"]

    def test_one_of_many_wins_a_name_and_a_replacement(self, make: Make) -> None:
        """Locks are taken and taken over so."""
        storage, root = make({"d/f": b"1"})
        path = f"{root}/lock"

        def create(number: int) -> bool:
            try:
                storage.create_exclusive(path, b"%d" % number)
            except ExistsError:
                return False
            return True

        with ThreadPoolExecutor(8) as pool:
            assert sum(pool.map(create, range(8))) == 1
            with storage.open(path) as stream:
                old = stream.read()
            swap = storage.swap
            assert sum(pool.map(lambda number: swap(path, old, b"new %d" % number), range(8))) == 1
        assert not swap(path, old, b"later")
        assert not swap(f"{root}/missing", b"", b"x")

    @pytest.mark.parametrize("method", ["put_object", "complete_multipart_upload", "delete_objects"])
    def test_lost_answers_are_told_from_lost_races(
        self, make: Make, monkeypatch: pytest.MonkeyPatch, method: str
    ) -> None:
        """The request was carried out, nobody heard of it, and it is made again."""
        storage, root = make({"d/f": b"1", "e/f": b"2"})
        objects = objects_of(storage)
        once, lost = objects.once, []

        def deaf(asked: str, path: str, doing: str, **what: Any) -> Mapping[str, Any]:
            answer = once(asked, path, doing, **what)
            if asked == method and path not in lost:
                lost.append(path)
                raise UnreachableError("nothing was heard")
            return answer

        monkeypatch.setattr(objects, "once", deaf)
        monkeypatch.setattr(time, "sleep", lambda seconds: None)
        storage.create_exclusive(f"{root}/lock", b"mine")
        assert storage.swap(f"{root}/lock", b"mine", b"again mine")
        storage.copy_file(f"{root}/d/f", f"{root}/d/copy")
        storage.move(f"{root}/e", f"{root}/g")
        with storage.create(f"{root}/d/stream") as stream:
            stream.write(b"x" * 9 * MIB)
        assert lost
        with pytest.raises(ExistsError):
            storage.create_exclusive(f"{root}/lock", b"theirs")
        assert [(info.path, info.size) for info in storage.walk(root).files] == [
            ("d/copy", 1),
            ("d/f", 1),
            ("d/stream", 9 * MIB),
            ("g/f", 1),
            ("lock", 10),
        ]

    def test_a_replaced_object_is_not_read_as_one(self, server: S3Server, make: Make) -> None:
        """Half of one version and half of another would look like a file."""
        storage, root = make({"d/f": b"1" * MIB})
        bucket, _, key = root.partition("/")
        with storage.open(f"{root}/d/f") as stream:
            stream.read(10)
            server.client.put_object(Bucket=bucket, Key=f"{key}/d/f", Body=b"2" * MIB)
            stream.seek(MIB - 10)
            with pytest.raises(StorageError, match="was replaced while it was read"):
                stream.read()

    def test_forked_children_and_threads_read_alike(self, make: Make) -> None:
        """s3fs has a thread of its own, which a child does not have."""
        storage, root = make({f"f{number}": b"%d" % number for number in range(20)})

        def read(number: int) -> bytes:
            with storage.open(f"{root}/f{number}") as stream:
                return stream.read()

        def read_all() -> None:
            assert len(storage.walk(root).files) == 20
            assert [read(number) for number in range(20)] == [b"%d" % number for number in range(20)]

        read_all()
        assert in_child(read_all) == 0
        with ThreadPoolExecutor(8) as pool:
            assert list(pool.map(read, range(20))) == [b"%d" % number for number in range(20)]


class TestMoto(_OnS3):
    """moto, which keeps all in memory, and whose router knows no path with a line break."""

    unknown_names = ("line\nbreak",)

    @pytest.fixture
    def server(self, moto: S3Server) -> S3Server:
        """The server of the session."""
        return moto

    def test_a_server_without_conditions_is_found_out(
        self, server: S3Server, make: Make, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """It would give one lock to two; reading goes on, and nothing is left of the attempt."""
        storage, root = resolve(plant(server, {"d/f": b"1"}), server.options)
        objects = objects_of(storage)
        once = objects.once

        def careless(method: str, path: str, doing: str, **asked: Any) -> Mapping[str, Any]:
            asked.pop("IfNoneMatch", None)
            return once(method, path, doing, **asked)

        monkeypatch.setattr(objects, "once", careless)
        with pytest.raises(StorageError, match="ignores If-None-Match"):
            storage.create_exclusive(f"{root}/_acidctl_lock", b"1")
        assert [info.path for info in storage.walk(root).files] == ["d/f"]

    def test_requests_are_counted(self, server: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
        """A listing for a page of objects, whatever directories they are in; two requests for the tail of a file."""
        monkeypatch.setattr("acidctl.storage.s3.PAGE", 100)
        url = plant(server, {f"ds={n % 10}/delta_{n}_{n}/bucket_00000": b"" for n in range(120)})
        storage, root = resolve(url, server.options)
        storage.create_exclusive(f"{root}/large", b"x" * 3 * MIB)
        objects = objects_of(storage)
        run, asked = objects.run_request, []

        def counted(request: Any, path: str, doing: str = "read") -> Any:
            asked.append(path)
            return run(request, path, doing)

        monkeypatch.setattr(objects, "run_request", counted)
        found = storage.walk(root)
        assert (len(found.files), len(found.directories), len(asked)) == (121, 130, 2)
        asked.clear()
        assert len(storage.walk(root, lambda path: path == "ds=7" or path.startswith("ds=7/")).directories) == 13
        assert len(asked) == 14
        asked.clear()
        with storage.open(f"{root}/large") as stream:
            stream.seek(-16384, 2)
            assert len(stream.read()) == 16384
        assert len(asked) == 2
        asked.clear()
        storage.remove_tree(f"{root}/ds=7")
        assert len(asked) == 2


class TestVersityGateway(_OnS3):
    """versitygw, a gateway to a file system."""

    @pytest.fixture
    def server(self, versitygw: S3Server) -> S3Server:
        """The server of the session."""
        return versitygw

    @pytest.mark.parametrize(
        ("changed", "what"),
        [
            ({"secret": "wrong-secret-4711"}, "the secret does not belong to the access key"),
            ({"key": "wrong-key-4711"}, "the access key is not known there"),
        ],
    )
    def test_wrong_keys_are_denied_and_not_echoed(self, server: S3Server, changed: dict[str, str], what: str) -> None:
        """One sentence, with what to do."""
        storage, root = resolve(plant(server, {"f": b"1"}), {**server.options, **changed})
        with pytest.raises(DeniedError, match=what) as caught:
            storage.walk(root)
        assert "environment, profile, role" in str(caught.value.hint)
        assert "4711" not in f"{caught.value.message} {caught.value.hint} {caught.value.path}"


ANSWERS = {
    "AccessDenied": (403, DeniedError, "access is denied"),
    "ExpiredToken": (400, DeniedError, "session token has expired"),
    "InvalidToken": (400, DeniedError, "session token is refused"),
    "RequestTimeTooSkewed": (403, DeniedError, "clocks"),
    "SlowDown": (503, ThrottledError, "fewer requests"),
    "InternalError": (500, UnreachableError, "the server has a problem"),
    "NoSuchBucket": (404, NoSuchTableError, "the bucket does not exist"),
    "QuotaExceeded": (403, QuotaError, "storage is full"),
    "MethodNotAllowed": (405, StorageError, "does not support this"),
    "Odd<script>": (418, StorageError, "no reason given"),
}


@contextmanager
def answering(code: str, status: int) -> Iterator[tuple[str, list[str]]]:
    """A server that answers everything with one error; its address, and what it was asked."""
    asked: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def answer(self) -> None:
            asked.append(f"{self.command} {self.path}")
            name = code.replace("<", "&lt;").replace(">", "&gt;")
            text = f"<Error><Code>{name}</Code><Message>You sent secret-4711</Message></Error>".encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(text)

        do_GET = do_HEAD = do_PUT = do_POST = answer

        def log_message(self, *args: Any) -> None:
            """Nobody reads it."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.parametrize("code", ANSWERS)
def test_what_a_server_answers_is_one_sentence(code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own words may quote what was sent, and are not passed on; what may pass is asked again, a few times."""
    status, kind, what = ANSWERS[code]
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    with answering(code, status) as (endpoint, asked):
        options = {"endpoint_url": endpoint, "key": "k", "secret": "secret-4711", "token": "token-4711"}
        storage, root = resolve("s3://bucket/t", options)
        with pytest.raises(kind, match=what) as caught:
            storage.walk(root)
        assert len(asked) == (4 if issubclass(kind, ThrottledError | UnreachableError) else 1)
        if kind is not NoSuchTableError:
            with pytest.raises(AcidctlError) as denied:
                storage.create_exclusive(f"{root}/f", b"1")
            assert "4711" not in f"{denied.value.message} {denied.value.hint}"
    assert "s3://bucket/t" in caught.value.message
    assert "4711" not in f"{caught.value.message} {caught.value.hint} {caught.value.path}"


def test_who_does_not_answer_is_told_of_in_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    """A closed port, and a server that takes connections and says nothing."""
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        endpoint = f"http://127.0.0.1:{closed.getsockname()[1]}"
        storage, root = resolve("s3://bucket/t", {"endpoint_url": endpoint, "key": "k", "secret": "s"})
        before = time.monotonic()
        with pytest.raises(UnreachableError, match="no connection can be made") as caught:
            storage.walk(root)
        assert time.monotonic() - before < 20
        assert "AWS_ENDPOINT_URL" in str(caught.value.hint)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen(20)
        options = {
            "endpoint_url": f"http://127.0.0.1:{silent.getsockname()[1]}",
            "key": "k",
            "secret": "s",
            "config_kwargs": {"read_timeout": 0.3},
        }
        storage, root = resolve("s3://bucket/t", options)
        with pytest.raises(UnreachableError, match="does not answer"):
            storage.walk(root)


def test_what_is_missing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """Credentials, a profile, the bucket in the URL, a known option."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nonexistent")
    storage, root = resolve("s3://bucket/t", {"endpoint_url": "http://127.0.0.1:9"})
    with pytest.raises(DeniedError, match="there are no credentials"):
        storage.walk(root)
    storage, root = resolve("s3://bucket/t", {"profile": "nobody"})
    with pytest.raises(DeniedError, match="there are no credentials"):
        storage.walk(root)
    with pytest.raises(UsageError, match="names no bucket"):
        resolve("s3://")


@pytest.mark.parametrize(("code", "kind"), [("412", ExistsError), ("403", DeniedError), ("400", DeniedError)])
def test_answers_without_a_body_are_understood(code: str, kind: type[AcidctlError]) -> None:
    """HEAD has none."""
    assert type(error_for(code, "s3://bucket/k", "read")) is kind
