"""S3 by s3fs: the conformance suite on two servers, conditions, errors, requests."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from services.s3 import S3Server

from acidctl.storage.port import Storage
from acidctl.storage.resolve import resolve
from tests.storage.conformance import WEIRD, Make, WritingStorage

pytestmark = pytest.mark.s3


def plant(server: S3Server, files: Mapping[str, bytes]) -> str:
    """Objects below `t/` of a bucket of their own; the URL."""
    bucket = server.bucket()
    for name, data in files.items():
        server.client.put_object(Bucket=bucket, Key=f"t/{name}", Body=data)
    return f"s3://{bucket}/t"


class _OnS3(WritingStorage):
    """What every server has to pass."""

    has_empty_directories = False
    needs_parents = False

    @pytest.fixture
    def server(self) -> S3Server:
        """The server."""
        raise NotImplementedError

    @pytest.fixture
    def make(self, server: S3Server) -> Make:
        """A tree in a bucket of its own."""

        def make(files: Mapping[str, bytes]) -> tuple[Storage, str]:
            return resolve(plant(server, files), server.options)

        return make


class TestMoto(_OnS3):
    """moto, which keeps all in memory."""

    @pytest.fixture
    def server(self, moto: S3Server) -> S3Server:
        """The server of the session."""
        return moto

    @pytest.mark.parametrize("name", [name for name in WEIRD if "\n" not in name])
    def test_names_are_taken_as_they_are(self, make: Make, name: str) -> None:
        """The router of moto knows no path with a line break."""
        super().test_names_are_taken_as_they_are(make, name)


class TestVersityGateway(_OnS3):
    """versitygw, a gateway to a file system."""

    @pytest.fixture
    def server(self, versitygw: S3Server) -> S3Server:
        """The server of the session."""
        return versitygw
