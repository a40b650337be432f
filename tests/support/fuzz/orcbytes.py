"""ORC files taken apart and put together again, with one thing changed and every length made to fit.

This knows the format by itself: nothing of acidctl's reading is used but the codecs. `changed` gives the bytes of a
mutated file, what was done, and whether only values may differ.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from random import Random
from typing import Any

from acidctl.orc.codec import CodecError, Compression, expand, pack

Node = list[Any]  # [number, wire type, int | bytes | list[Node]]
Spec = Mapping[int, Any]

_NUMBER, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_STATS: Spec = {kind: {} for kind in (2, 3, 4, 5, 6, 7, 8, 9, 12)}
_FOOTER: Spec = {3: {}, 4: {7: {}}, 5: {}, 7: _STATS, 10: {}}
_METADATA: Spec = {1: {1: _STATS}}
_STRIPE_FOOTER: Spec = {1: {}, 2: {}}
_ROW_INDEX: Spec = {1: {2: _STATS}}
_STATISTICS, _TYPES, _STRIPES, _USER, _ROWS = 7, 4, 3, 5, 6
# Kinds of streams.
PRESENT, DATA, LENGTH, DICTIONARY, COUNT, SECONDARY, ROW_INDEX, BLOOM, BLOOM_UTF8 = range(9)
_EVENT_COLUMNS = 6


class Touched(Enum):
    """What a mutation may change in the answer."""

    NOTHING = "nothing"
    # The writer counted nothing, so that nobody can tell.
    ANYTHING = "anything"
    MEANING = "what values mean"
    NAMES = "names of columns"
    VALUES = "values"


@dataclass
class Part:
    """A piece of a stripe: where it lies, its stream's kind and column."""

    offset: int
    length: int
    kind: int
    column: int

    @property
    def is_index(self) -> bool:
        return self.kind in (ROW_INDEX, BLOOM, BLOOM_UTF8)


@dataclass
class Stripe:
    """A stripe with its streams and the messages that describe it."""

    node: Node
    footer: list[Node]
    parts: list[Part]
    blobs: list[bytes]
    footer_offset: int
    footer_length: int


class OrcBytes:
    """A file in pieces; `build` puts them together."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        size = data[-1]
        self.post_raw = data[-1 - size : -1]
        self.post = parse(self.post_raw, {})
        self.compression = Compression(value(self.post, 2) or 0)
        self.block = value(self.post, 3) or 1 << 18
        footer_length, metadata_length = value(self.post, 1) or 0, value(self.post, 5) or 0
        self.footer_offset = len(data) - 1 - size - footer_length
        self.metadata_offset = self.footer_offset - metadata_length
        self.footer = parse(self.plain(data[self.footer_offset : self.footer_offset + footer_length]), _FOOTER)
        self.metadata = parse(self.plain(data[self.metadata_offset : self.footer_offset]), _METADATA)
        self.stripes = [self._stripe(node) for node in self.footer if node[0] == _STRIPES]
        self.acid = self._is_acid()
        self.counted = bool(value(self.footer, 8)) and any(node[0] == _STATISTICS for node in self.footer)

    def plain(self, raw: bytes) -> bytes:
        return expand(raw, self.compression, max(self.block, 1 << 18), 1 << 26)

    def packed(self, plain: bytes) -> bytes:
        return pack(plain, self.compression, self.block) if plain else b""

    def _stripe(self, node: Node) -> Stripe:
        offset, index, data, footer = (value(node[2], i) or 0 for i in range(1, 5))
        at = offset + index + data
        message = parse(self.plain(self.data[at : at + footer]), _STRIPE_FOOTER)
        parts, place = [], offset
        for item in message:
            if item[0] == 1:
                parts.append(Part(place, value(item[2], 3) or 0, value(item[2], 1) or 0, value(item[2], 2) or 0))
                place += parts[-1].length
        blobs = [self.data[part.offset : part.offset + part.length] for part in parts]
        return Stripe(node, message, parts, blobs, at, footer)

    def _is_acid(self) -> bool:
        types = [node[2] for node in self.footer if node[0] == _TYPES]
        names = [item[2] for item in types[0] if item[0] == 3] if types else []
        return names[:1] == [b"operation"] and names[-1:] == [b"row"]

    def touched(self, part: Part) -> Touched:
        """What a change within a stream may change."""
        if part.is_index:
            return Touched.NOTHING
        if not self.counted:
            return Touched.ANYTHING
        if self.acid and part.column < _EVENT_COLUMNS:
            return Touched.NOTHING
        # The row itself is no value: whether it is there says whether this is a delete.
        if self.acid and part.column == _EVENT_COLUMNS:
            return Touched.NOTHING
        return Touched.VALUES

    def region(self, at: int) -> Touched:
        """The same for a byte of the file."""
        for stripe in self.stripes:
            for part in stripe.parts:
                if part.offset <= at < part.offset + part.length:
                    return self.touched(part)
        return Touched.NOTHING

    def build(self, *, post: Callable[[list[Node]], None] | None = None) -> bytes:
        """The file with consistent lengths; `post` may change the postscript last."""
        out = bytearray(b"ORC")
        for stripe in self.stripes:
            streams = [item for item in stripe.footer if item[0] == 1]
            for item, blob in zip(streams, stripe.blobs, strict=False):
                put(item[2], 3, len(blob))
            index = sum(len(b) for p, b in zip(stripe.parts, stripe.blobs, strict=True) if p.is_index)
            footer = self.packed(encode(stripe.footer))
            lengths = (len(out), index, sum(map(len, stripe.blobs)) - index, len(footer))
            for number, length in enumerate(lengths, 1):
                put(stripe.node[2], number, length)
            out += b"".join(stripe.blobs) + footer
        content = len(out)
        put(self.footer, 2, content)
        metadata, footer = self.packed(encode(self.metadata)), self.packed(encode(self.footer))
        put(self.post, 1, len(footer))
        put(self.post, 5, len(metadata))
        if post is not None:
            post(self.post)
        tail = encode(self.post)[:255]
        return bytes(out) + metadata + footer + tail + bytes([len(tail)])


# --- messages


def parse(data: bytes, spec: Spec) -> list[Node]:
    """A message as fields; those that `spec` knows as messages are taken apart too."""
    nodes: list[Node] = []
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        number, kind = key >> 3, key & 7
        if kind == _NUMBER:
            item, at = _varint(data, at)
            nodes.append([number, kind, item])
            continue
        length, at = _varint(data, at) if kind == _BYTES else (8 if kind == _FIXED64 else 4, at)
        raw = data[at : at + length]
        at += length
        nodes.append([number, kind, parse(raw, spec[number]) if kind == _BYTES and number in spec else raw])
    return nodes


def encode(nodes: list[Node]) -> bytes:
    """The bytes of a message."""
    out = bytearray()
    for number, kind, item in nodes:
        if kind == _NUMBER:
            out += _encoded(number << 3) + _encoded(item & (1 << 64) - 1)
            continue
        raw = encode(item) if isinstance(item, list) else item
        out += _encoded(number << 3 | kind) + (_encoded(len(raw)) if kind == _BYTES else b"") + raw
    return bytes(out)


def value(nodes: list[Node], number: int) -> int | None:
    """The number in a field."""
    return next((item for found, kind, item in nodes if found == number and kind == _NUMBER), None)


def put(nodes: list[Node], number: int, item: int) -> None:
    """Set the number in a field."""
    for node in nodes:
        if node[0] == number and node[1] == _NUMBER:
            node[2] = item
            return
    nodes.append([number, _NUMBER, item])


def _varint(data: bytes, at: int) -> tuple[int, int]:
    result = shift = 0
    while True:
        byte = data[at]
        at += 1
        result |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return result, at


def _encoded(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


# --- mutations


def changed(data: bytes, random: Random) -> tuple[bytes, str, Touched]:
    """A mutated file."""
    try:
        orc = OrcBytes(data)
    except (CodecError, ValueError, IndexError):
        return _raw(data, None, random)
    counted = orc.counted
    act = random.choice([_raw_of, _raw_of, _message, _message, _message, _message, _stream, _stream, _whole])
    out, said, touched = act(orc, random)
    return out, said, touched if counted else Touched.ANYTHING


def _raw_of(orc: OrcBytes, random: Random) -> tuple[bytes, str, Touched]:
    return _raw(orc.data, orc, random)


def _raw(data: bytes, orc: OrcBytes | None, random: Random) -> tuple[bytes, str, Touched]:
    """Bytes without regard to what they are."""
    out = bytearray(data)
    if random.random() < 0.15:
        cut = random.randrange(len(out))
        # Hive passes over files of 0 bytes, and so do we.
        return bytes(out[:cut]), f"cut to {cut} bytes", Touched.NOTHING if cut else Touched.ANYTHING
    if random.random() < 0.1:
        at, many = random.randrange(len(out)), random.randint(1, 40)
        del out[at : at + many]
        return bytes(out), f"{many} bytes less at {at}", Touched.NOTHING
    touched = Touched.NOTHING
    places = []
    for _ in range(random.randint(1, 3)):
        back = random.random() < 0.5
        at = random.randrange(max(0, len(out) - 400), len(out)) if back else random.randrange(len(out))
        out[at] = random.choice([out[at] ^ 1 << random.randrange(8), 0, 255, random.randrange(256)])
        places.append(at)
        if orc is not None and orc.region(at) is not Touched.NOTHING:
            touched = Touched.VALUES
    if touched is Touched.NOTHING and orc is not None and _types(bytes(out)) not in (None, _types(orc.data)):
        touched = Touched.MEANING
    return bytes(out), f"bytes {places} changed", touched


def _types(data: bytes) -> list[bytes] | None:
    """Types and names of columns, where there is a footer."""
    try:
        end = len(data) - 1 - data[-1]
        post = parse(data[end:-1], {})
        raw = data[end - (value(post, 1) or 0) : end]
        footer = parse(expand(raw, Compression(value(post, 2) or 0), 1 << 18, 1 << 26), _FOOTER)
        return [encode(node[2]) for node in footer if node[0] == _TYPES]
    except (CodecError, ValueError, IndexError, TypeError):
        return None


def _message(orc: OrcBytes, random: Random) -> tuple[bytes, str, Touched]:
    """Fields of the messages that describe the file."""
    where = random.choice(["postscript", "footer", "footer", "metadata", "stripe", "index"])
    touched = Touched.NOTHING
    if where == "postscript":
        said: list[str] = []
        out = orc.build(post=lambda nodes: said.append(_mutate(nodes, random)[0]))
        # The version of the writer decides about the calendar and more.
        return out, f"postscript: {said[0]}", Touched.MEANING
    nodes, save = _target(orc, where, random)
    if not nodes:
        return _raw_of(orc, random)
    for _ in range(random.choice([1, 1, 1, 2])):
        said_one, path = _mutate(nodes, random)
        if where == "footer" and path[:1] in ([_TYPES], [10], [11], [9], [12]):
            touched = Touched.MEANING
        if where == "footer" and path[:1] == [_TYPES] and path[1:2] == [3]:
            touched = Touched.NAMES
        if where == "stripe" and path[:1] == [3]:
            touched = Touched.MEANING
    save()
    return orc.build(), f"{where}: {said_one}", touched


def _target(orc: OrcBytes, where: str, random: Random) -> tuple[list[Node], Callable[[], None]]:
    if where == "footer":
        return orc.footer, lambda: None
    if where == "metadata":
        return orc.metadata, lambda: None
    if not orc.stripes:
        return [], lambda: None
    stripe = random.choice(orc.stripes)
    if where == "stripe":
        return stripe.footer, lambda: None
    places = [i for i, part in enumerate(stripe.parts) if part.kind == ROW_INDEX]
    if not places:
        return [], lambda: None
    place = random.choice(places)
    nodes = parse(orc.plain(stripe.blobs[place]), _ROW_INDEX)

    def save() -> None:
        stripe.blobs[place] = orc.packed(encode(nodes))

    return nodes, save


def _lists(nodes: list[Node], path: list[int]) -> Iterator[tuple[list[Node], list[int]]]:
    yield nodes, path
    for number, _, item in nodes:
        if isinstance(item, list):
            yield from _lists(item, [*path, number])


def _mutate(nodes: list[Node], random: Random) -> tuple[str, list[int]]:
    """One field changed; what was done, and the numbers of the fields that lead there."""
    lists = [(found, path) for found, path in _lists(nodes, []) if found]
    if not lists:
        nodes.append([random.randint(1, 12), _NUMBER, random.randrange(300)])
        return "a field more", [nodes[0][0]]
    found, path = random.choice(lists)
    place = random.randrange(len(found))
    node = found[place]
    path = [*path, node[0]]
    act = random.randrange(10)
    before = str(node)[:60]
    if act == 0:
        del found[place]
        return f"{path} less: {before}", path
    if act == 1:
        found.insert(random.randrange(len(found) + 1), list(node))
        return f"{path} twice: {before}", path
    if act == 2:
        other = random.randrange(len(found))
        found[place], found[other] = found[other], found[place]
        return f"{path} in another place: {before}", path
    if act == 3:
        node[0] = random.choice([node[0] + 1, max(1, node[0] - 1), random.randint(1, 12)])
        return f"{path} is {node[0]} now: {before}", path
    if isinstance(node[2], list):
        node[2] = [] if act < 6 else node[2][: random.randrange(len(node[2]) + 1)]
        return f"{path} shortened: {before}", path
    if node[1] == _NUMBER and act == 4:
        node[1], node[2] = _BYTES, random.randbytes(random.randrange(9))
    elif node[1] == _NUMBER:
        old = node[2]
        odd = [0, 1, old + 1, max(0, old - 1), old * 2, old ^ 1, 2**31, 2**32, 2**63 - 1, 2**63, 2**64 - 1]
        node[2] = random.choice([*odd, random.randrange(300), random.randrange(1 << 24)])
    elif act == 4:
        node[1], node[2] = _NUMBER, random.randrange(1 << 16)
    else:
        node[2] = _bytes(node[2], random, keep=node[1] != _BYTES)
    return f"{path}: {before} -> {str(node)[:60]}", path


def _bytes(raw: bytes, random: Random, *, keep: bool = False) -> bytes:
    out = bytearray(raw)
    act = random.randrange(2 if keep else 6)
    if act < 3 and out:
        for _ in range(random.randint(1, 2)):
            at = random.randrange(len(out))
            out[at] = random.choice([out[at] ^ 1 << random.randrange(8), 0, 255, random.randrange(256)])
    elif act == 3:
        del out[random.randrange(len(out) + 1) :]
    elif act == 4:
        out += random.randbytes(random.randint(1, 20))
    else:
        at = random.randrange(len(out) + 1)
        out[at:at] = random.randbytes(random.randint(1, 4))
    return bytes(out)


def _stream(orc: OrcBytes, random: Random) -> tuple[bytes, str, Touched]:
    """The content of one stream, packed again."""
    if not orc.stripes:
        return _raw_of(orc, random)
    stripe = random.choice(orc.stripes)
    if not stripe.parts:
        return _raw_of(orc, random)
    place = random.randrange(len(stripe.parts))
    part = stripe.parts[place]
    act = random.randrange(6)
    if act == 0:
        other = random.randrange(len(stripe.parts))
        stripe.blobs[place], stripe.blobs[other] = stripe.blobs[other], stripe.blobs[place]
        touched = max((orc.touched(part), orc.touched(stripe.parts[other])), key=list(Touched).index)
        return orc.build(), f"streams {part} and {stripe.parts[other]} swapped", touched
    if act == 1:
        stripe.blobs[place] = b""
    else:
        stripe.blobs[place] = orc.packed(_bytes(orc.plain(stripe.blobs[place]), random))
    return orc.build(), f"stream {part} changed", orc.touched(part)


def _whole(orc: OrcBytes, random: Random) -> tuple[bytes, str, Touched]:
    """Things that belong together, changed together."""
    act = random.choice(["fewer rows", "more rows", "stripe less", "stripe twice", "stripes swapped", "metadata key"])
    if act in ("fewer rows", "more rows") and orc.stripes:
        node = random.choice(orc.stripes).node[2]
        rows = value(node, 5) or 0
        by = random.randint(1, max(1, rows)) * (1 if act == "more rows" else -1)
        put(node, 5, max(0, rows + by))
        put(orc.footer, _ROWS, max(0, (value(orc.footer, _ROWS) or 0) + by))
    elif act == "stripe less" and orc.stripes:
        stripe = orc.stripes.pop(random.randrange(len(orc.stripes)))
        orc.footer.remove(stripe.node)
        if random.random() < 0.7:
            put(orc.footer, _ROWS, (value(orc.footer, _ROWS) or 0) - (value(stripe.node[2], 5) or 0))
    elif act == "stripe twice" and orc.stripes:
        stripe = random.choice(orc.stripes)
        node = [stripe.node[0], stripe.node[1], [list(item) for item in stripe.node[2]]]
        orc.footer.insert(orc.footer.index(stripe.node) + 1, node)
        orc.stripes.insert(orc.stripes.index(stripe) + 1, Stripe(node, stripe.footer, stripe.parts, stripe.blobs, 0, 0))
        put(orc.footer, _ROWS, (value(orc.footer, _ROWS) or 0) + (value(stripe.node[2], 5) or 0))
    elif act == "stripes swapped" and len(orc.stripes) > 1:
        orc.stripes.reverse()
        orc.footer.sort(key=lambda node: 0 if node[0] != _STRIPES else -orc.stripes.index(_owner(orc, node)))
    else:
        act = "metadata key"
        key = random.choice([b"hive.acid.version", b"hive.acid.key.index", b"hive.acid.stats", b"orc.proleptic"])
        content = random.choice([b"", b"0", b"1", b"2", b"1,536870912,0;", b";;;", b"3,0,0", b"\xff", b"9" * 30])
        orc.footer[:] = [n for n in orc.footer if not (n[0] == _USER and any(i[2] == key for i in n[2]))]
        if random.random() < 0.8:
            orc.footer.append([_USER, _BYTES, [[1, _BYTES, key], [2, _BYTES, content]]])
        act += f" {key.decode()} = {content!r}"
    return orc.build(), act, Touched.NOTHING


def _owner(orc: OrcBytes, node: Node) -> Stripe:
    return next(stripe for stripe in orc.stripes if stripe.node is node)
