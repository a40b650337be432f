"""The S3 servers: what tests of object stores take for granted of them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from botocore.exceptions import ClientError

from tests.services.s3 import S3Server

pytestmark = pytest.mark.s3


@pytest.fixture(params=["moto", "versitygw"])
def server(request: pytest.FixtureRequest) -> S3Server:
    """Each of the two."""
    server: S3Server = request.getfixturevalue(request.param)
    return server


def test_of_many_who_create_a_name_one_wins(server: S3Server) -> None:
    """If-None-Match is honoured in a race, and the others learn that they lost."""
    bucket, client = server.bucket(), server.client

    def create(number: int) -> str:
        try:
            client.put_object(Bucket=bucket, Key="lock", Body=str(number).encode(), IfNoneMatch="*")
        except ClientError as error:
            code: str = error.response["Error"]["Code"]
            return code
        return "created"

    with ThreadPoolExecutor(8) as pool:
        answers = sorted(pool.map(create, range(8)))
    assert answers == ["PreconditionFailed"] * 7 + ["created"]
    assert server.keys(bucket) == ["lock"]


def test_a_tree_becomes_names_below_a_prefix(server: S3Server, tmp_path: Path) -> None:
    """Buckets are new and empty; blanks, percent, hash and question marks stay as they are."""
    names = ["delta_1/bucket 0", "p=%41/#?"]
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_bytes(b"x")
    bucket = server.bucket()
    assert server.keys(bucket) == []
    server.put_tree(tmp_path, bucket, "t")
    assert server.keys(bucket) == [f"t/{name}" for name in names]


def test_versitygw_refuses_wrong_keys_and_keeps_its_objects(versitygw: S3Server) -> None:
    """What moto cannot show: a wrong secret is refused, and a killed server comes back with all it had."""
    bucket = versitygw.bucket()
    versitygw.client.put_object(Bucket=bucket, Key="kept", Body=b"x")
    right, versitygw.secret = versitygw.secret, "wrong"
    with pytest.raises(ClientError, match="SignatureDoesNotMatch"):
        versitygw.keys(bucket)
    versitygw.secret = right
    versitygw.kill()
    versitygw.start()
    assert versitygw.keys(bucket) == ["kept"]
