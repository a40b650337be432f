"""Delegation tokens from the file that HADOOP_TOKEN_FILE_LOCATION names, as YARN and `hdfs fetchdt` write it.

Pure functions over bytes. The format is that of Hadoop's `Credentials`: `HDTS`, a version, then either Writables
(version 0) or one delimited protobuf message (version 1). Tokens are secrets: they have no printable form here.
"""

from __future__ import annotations

import base64
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

_MAGIC = b"HDTS"
# What a NameNode takes; it sets kind and service itself.
_KINDS = frozenset({"HDFS_DELEGATION_TOKEN", "WEBHDFS delegation", "SWEBHDFS delegation"})


@dataclass(frozen=True, slots=True)
class Token:
    """`service` is `address:port` of the server that gave it, or `ha-hdfs:NAME` for a name service."""

    identifier: bytes = field(repr=False)
    password: bytes = field(repr=False)
    kind: str
    service: str

    def to_url(self) -> str:
        """The form of the parameter `delegation` (Hadoop's `encodeToUrlString`)."""
        parts = (self.identifier, self.password, self.kind.encode(), self.service.encode())
        data = b"".join(_vint(len(part)) + part for part in parts)
        return base64.urlsafe_b64encode(data).decode().rstrip("=")


def choose(tokens: Collection[Token], hosts: Collection[str], name_service: str | None) -> Token | None:
    """The token for an HDFS: that of its name service or of one of its hosts (names or addresses), or the only one."""
    fitting = [token for token in tokens if token.kind in _KINDS]
    for token in fitting:
        before, _, after = token.service.rpartition(":")
        if (before.startswith("ha-") and after == name_service) or before in hosts:
            return token
    return fitting[0] if len(fitting) == 1 else None


def parse(data: bytes) -> tuple[Token, ...]:
    """All tokens of a file; ValueError when it is none."""
    if data[:4] != _MAGIC or len(data) < 5 or data[4] > 1:
        raise ValueError("no Hadoop credentials")
    reader = _Reader(data[5:])
    if data[4] == 1:
        return tuple(_from_protobuf(reader.take(reader.varint())))
    tokens = []
    for _ in range(reader.vint()):
        reader.part()  # the alias, by which nobody looks
        identifier, password, kind, service = (reader.part() for _ in range(4))
        tokens.append(Token(identifier, password, kind.decode(), service.decode()))
    return tuple(tokens)


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def has_more(self) -> bool:
        return self._at < len(self._data)

    def take(self, length: int) -> bytes:
        part = self._data[self._at : self._at + length]
        if length < 0 or len(part) < length:
            raise ValueError("the credentials end too early")
        self._at += length
        return part

    def part(self) -> bytes:
        return self.take(self.vint())

    def vint(self) -> int:
        """Hadoop's variable-length integer: small ones are one byte, else the first tells how many follow."""
        first = int.from_bytes(self.take(1), signed=True)
        if first >= -112:
            return first
        if first < -120:
            raise ValueError("a length is negative")
        return int.from_bytes(self.take(-112 - first))

    def varint(self) -> int:
        """Protobuf's."""
        value = shift = 0
        while True:
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value


def _fields(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Number and content of the fields of a message that has only strings, bytes and messages."""
    reader = _Reader(data)
    while reader.has_more:
        key = reader.varint()
        if key & 7 != 2:
            raise ValueError("the credentials hold a field of another type")
        yield key >> 3, reader.take(reader.varint())


def _from_protobuf(data: bytes) -> Iterator[Token]:
    """CredentialsProto: tokens (1) of alias (1) and token (2), that of identifier, password, kind, service (1 to 4)."""
    for number, pair in _fields(data):
        found = dict(_fields(pair)).get(2) if number == 1 else None
        if found is not None:
            parts = dict(_fields(found))
            yield Token(parts.get(1, b""), parts.get(2, b""), parts.get(3, b"").decode(), parts.get(4, b"").decode())


def _vint(value: int) -> bytes:
    if value <= 127:
        return bytes([value])
    size = (value.bit_length() + 7) // 8
    return (-112 - size).to_bytes(1, signed=True) + value.to_bytes(size)
