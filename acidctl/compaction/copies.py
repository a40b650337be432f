"""Stripes that were copied: those of their sources, and readable as far as that shows without decoding them."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from itertools import groupby
from typing import BinaryIO, TypeVar

from acidctl.compaction.cross_check import wrong
from acidctl.compaction.stripes import CopyProof
from acidctl.format.events import RowId
from acidctl.orc.agreement import stripe_agrees
from acidctl.orc.chunks import ChunkCheck
from acidctl.orc.codec import CodecError
from acidctl.orc.protobuf import Message
from acidctl.orc.reader import OrcFile
from acidctl.orc.stats import parse_statistics
from acidctl.orc.stitch import StoredStripe, stored_stripes
from acidctl.orc.stripe import read_column_index
from acidctl.orc.tail import damaged

T = TypeVar("T")

# Of so many chunks one is inflated.
_CHUNK_SHARE = 64


def check_copies(
    open_file: Callable[[], BinaryIO], orc: OrcFile, copied: Sequence[CopyProof], *, fingerprints: bool
) -> tuple[str, ...]:
    """Compare the copied stripes of a written file with what they are in their sources, by all bytes or by
    fingerprints of these; the `fingerprints` of all stripes, if wanted.

    VerificationError where one is another, DamagedDataError where it is the same and cannot be read.
    """
    with open_file() as written, ExitStack() as stack:
        check = _Copies(orc, written, {proof.stripe: proof for proof in copied})
        hashes = check.fingerprints(everything=fingerprints)
        for source, proofs in groupby(copied, lambda proof: proof.original.source.name):
            stack.close()
            file: BinaryIO | None = None
            for proof in proofs:
                if proof.fingerprint is not None:
                    same = hashes.get(proof.stripe) == proof.fingerprint
                else:
                    file = file or stack.enter_context(proof.open(source))
                    same = check.equals(proof, proof.original.stored(file))
                if not same:
                    raise wrong(orc.name, f"stripe {proof.stripe} of it, which was copied, is not that of its source")
                check.require_readable(proof)
        check.statistics()
    return tuple(hashes.values()) if fingerprints else ()


class _Copies:
    """The stripes of a written file, and which of them were copied."""

    def __init__(self, orc: OrcFile, file: BinaryIO, proofs: dict[int, CopyProof]) -> None:
        self._orc = orc
        self._file = file
        self._stripes = stored_stripes(file, orc.tail)
        self._footers = orc.stripe_footers()
        self._proofs = {stripe: proof for stripe, proof in proofs.items() if stripe < len(self._stripes)}
        self._damage: dict[int, CodecError] = {}
        # By its bytes: a path need not be UTF-8.
        self._chance = random.Random(os.fsencode(orc.name))

    def fingerprints(self, *, everything: bool) -> dict[int, str]:
        """Of all stripes, or of those whose sources have some."""
        hashed = {stripe for stripe, proof in self._proofs.items() if proof.fingerprint is not None}
        return {
            index: self._seen(index, one.fingerprint)
            for index, one in enumerate(self._stripes)
            if everything or index in hashed
        }

    def equals(self, proof: CopyProof, original: StoredStripe) -> bool:
        """Whether a stripe is its original, by all bytes."""
        if proof.stripe not in self._proofs:
            return False
        return self._seen(proof.stripe, lambda taken: self._stripes[proof.stripe].equals(original, taken))

    def _seen(self, stripe: int, read: Callable[[Callable[[bytes], object]], T]) -> T:
        """What `read` gives, while chunks of a copied stripe are looked at as they pass."""
        if stripe not in self._proofs:
            return read(lambda data: None)
        streams, post = self._footers[stripe].streams, self._orc.tail.postscript
        check = ChunkCheck(streams, post, lambda: not self._chance.randrange(_CHUNK_SHARE))

        def take(data: bytes) -> None:
            # Whether it is a wrong copy or one of what is damaged shows when all bytes have been compared.
            if stripe not in self._damage:
                try:
                    check.take(data)
                except CodecError as error:
                    self._damage[stripe] = error

        return read(take)

    def require_readable(self, proof: CopyProof) -> None:
        """DamagedDataError where a stripe that is the same as its original cannot be read."""
        error, original = self._damage.get(proof.stripe), proof.original
        if error is not None:
            raise damaged(original.tail.name, f"has a damaged stripe {original.index}: {error}") from error

    def statistics(self) -> None:
        """Hold what the new tail says of each copied stripe against the row index that came with it."""
        tail = self._orc.tail
        # No two stripes have the same row numbers; of rows without keys more is needed to tell one from another.
        row_id = tail.types[0].subtypes[3:4] if self._orc.is_acid else tail.types[0].subtypes
        for index, proof in sorted(self._proofs.items()):
            columns = {*row_id, self._chance.randrange(len(tail.types))}
            statistics = self._stripes[index].statistics
            if not stripe_agrees(self._file, tail, index, self._footers[index], statistics, columns):
                raise wrong(self._orc.name, f"the statistics of stripe {index} are not those of its row groups")
            if proof.original.last is not None and not self._ends_with(index, proof.original.last):
                raise wrong(self._orc.name, f"stripe {index} of it, which was copied, does not end with its last key")

    def _ends_with(self, index: int, last: RowId) -> bool:
        """Whether a key can be the last one: keys ascend, so that it is the greatest where all are of one write and
        bucket, in the stripe or in its last row group.
        """
        tail, columns = self._orc.tail, self._orc.tail.types[0].subtypes[1:4]
        statistics = Message(self._stripes[index].statistics).blobs(1)
        spans = [parse_statistics(Message(statistics[column])).span() for column in columns]
        if not _is_one(spans) and tail.row_index_stride:
            spans = []
            for column in columns:
                entries = read_column_index(self._file, tail, self._footers[index], column).entries or ()
                known = entries[-1].statistics if entries else None
                spans.append(None if known is None else known.span())
        write_id, parts = spans[0], (last.write_id, last.bucket_property, last.row_id)
        if not _is_one(spans):
            return write_id is None or last.write_id == write_id[1]
        return all(span is not None and span[1] == part for span, part in zip(spans, parts, strict=True))


def _is_one(spans: Sequence[tuple[int, int] | None]) -> bool:
    """Whether bounds of write ids and buckets are of one of each."""
    return all(span is not None and span[0] == span[1] for span in spans[:2]) and spans[2] is not None
