"""What of an address may be printed, and which addresses only look as if they held a secret."""

from __future__ import annotations

import urllib.parse

import pytest

from acidctl.errors import AcidctlError
from acidctl.storage.redact import quote, unquote, without_credentials, without_secret, without_signatures
from acidctl.storage.resolve import resolve


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("s3://key:secret@bucket/x", "s3://bucket/x"),
        ("s3://key:sec/ret@bucket/x", "s3://bucket/x"),
        ("abfs://user:secret@account/x", "abfs://account/x"),
        ("https://user@host/x", "https://host/x"),
        ("at spark://u:hush@h:7077 now", "at spark://h:7077 now"),
        ("s3://bucket/a@b", "s3://bucket/a@b"),
    ],
)
def test_credentials_are_left_out(text: str, shown: str) -> None:
    """Users and passwords, pasted as they are."""
    assert without_credentials(text) == shown
    assert without_secret(text) == shown
    assert without_secret(f"{text}?X-Signature=1") == f"{shown}?..."


@pytest.mark.parametrize(
    "text",
    [
        "abfs://container@account.dfs.core.windows.net/wh/t",
        "abfss://container@account.dfs.core.windows.net/wh/a@b",
        "webhdfs://[::1]:9870/wh/a@b",
        "webhdfs://[::1]/wh/a@b",
        "hdfs://namenode:8020/wh/a@b",
        "/wh/user:x@y",
    ],
)
def test_what_only_looks_so_stays(text: str) -> None:
    """Azure's containers, IPv6 addresses, and names of files."""
    assert without_credentials(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("403, url='https://a.blob/t?sv=1&sig=hush' at", "403, url='https://a.blob/t?...' at"),
        ("https://u:hush@h/x?X-Amz-Signature=hush", "https://h/x?..."),
        ("really? yes", "really? yes"),
    ],
)
def test_signatures_are_left_out(text: str, shown: str) -> None:
    """They stand in what HTTP libraries say."""
    assert without_signatures(text) == shown


@pytest.mark.parametrize(("url", "refused"), [("abfs://container@account/t", False), ("abfs://u:hush@account/t", True)])
def test_a_container_is_no_user(url: str, refused: bool) -> None:
    """Such an address gets as far as its adapter, whatever that says."""
    with pytest.raises(AcidctlError) as caught:
        resolve(url)
    assert ("user or a password" in caught.value.message) is refused


@pytest.mark.parametrize("text", ["a/b c~-_.", "é€😀%", "%41%e2%82%acx", "%e2%82a%ff%zz%4", "a%2Fb\n\0@:+"])
def test_secrets_are_quoted_as_libraries_do(text: str) -> None:
    """Else one that a library repeats would be shown."""
    assert quote(text) == urllib.parse.quote(text)
    assert quote(text, safe="") == urllib.parse.quote(text, safe="")
    assert unquote(text) == urllib.parse.unquote(text)
    assert quote("\udcff") == "%FF"
