"""The rows of the state of the world: which message is the row of a key. Pure.

The rule: of each source in force, the last stable message of the key is its candidate. The row is
the candidate with the newest time, then the highest session ID. A message that is stable is never
withdrawn. So only the end of a source's generation takes candidates away, and the row is the best
of what is left. The candidates depend on the set of stable messages alone. So all stores have the
same rows, in whichever order messages and ends came to them.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby

from quorate.protocol.framing import BatchHeader, body_of, encode_batch
from quorate.protocol.keying import Keying
from quorate.protocol.limits import WHOLE_BATCH_BYTES_MAX
from quorate.protocol.lineage import Lineage
from quorate.protocol.ranges import Range
from quorate.store.storage.interface import Row
from quorate.store.storage.state_records import Candidate, key_of, same_key, unpack_candidate

Generations = Mapping[int, int]
"""The first epoch of the generation that each source of a topic is in, by session ID."""

_DIGESTED = struct.Struct(">IQQqqI")


def candidates_of(
    keying: Keying, frame: bytes, header: BatchHeader, part: Range
) -> tuple[dict[bytes, Candidate], int]:
    """Return the candidates that a part of a batch makes, by key, and how many have no key.

    A message that is too large for a row of its own makes one without a message. An earlier
    message of its key is not the last one any more. Raises CorruptBatch.
    """
    body = body_of(frame, header)
    payloads = body.read_payloads()
    keys = keying.keys_of(header, payloads, body, part.first, part.last)
    # The last message of each key is left.
    last_of = dict(zip(keys, range(part.first, part.last + 1), strict=True))
    last_of.pop(None, None)
    attributes = body.read_attributes()
    found: dict[bytes, Candidate] = {}
    for key, number in last_of.items():
        assert key is not None
        row = number - header.first
        own = [attributes[row]] if attributes else ()
        alone = encode_batch(
            header.source, header.epoch, number, [payloads[row]], header.timestamp_ns,
            attributes=own,
        )  # fmt: skip
        found[key] = Candidate(
            header.source.session_id,
            header.epoch,
            number,
            header.timestamp_ns,
            alone if len(alone) <= WHOLE_BATCH_BYTES_MAX else b"",
        )
    return found, keys.count(None)


def generation_of(lineage: Lineage) -> int:
    """Return the first epoch of the generation that a source with this lineage is in."""
    return lineage.terms[0].epoch if lineage.terms else lineage.epoch


def is_in_force(candidate: Candidate, generations: Generations) -> bool:
    """Return whether the source of a candidate is still in the same generation."""
    first_epoch = generations.get(candidate.session_id)
    return first_epoch is not None and first_epoch <= candidate.epoch


def row_of(candidates: Iterable[Candidate], generations: Generations) -> Candidate | None:
    """Return the row of a key; None: it has none."""
    in_force = (each for each in candidates if is_in_force(each, generations))
    newest = max(in_force, key=lambda each: (each.time_ns, each.session_id), default=None)
    return newest if newest is not None and newest.frame else None


def rows_among(
    stored: Iterable[Row], generations: Generations
) -> Iterator[tuple[bytes, Candidate]]:
    """Yield the rows of keys, each with the key, from all that is stored of these keys, in order.

    Raises Malformed.
    """
    for _, group in groupby(stored, key=lambda row: same_key(row[0])):
        of_key = list(group)
        row = row_of((unpack_candidate(*each) for each in of_key), generations)
        if row is not None:
            yield key_of(of_key[0][0]), row


class RowDigest:
    """A digest of rows in the order of their keys: equal digests mean equal rows."""

    def __init__(self) -> None:
        self._hash = hashlib.blake2b(digest_size=16)
        self.count = 0
        """The rows so far."""

    def add(self, key: bytes, row: Candidate) -> None:
        """Add the next row."""
        self.count += 1
        self._hash.update(
            _DIGESTED.pack(
                len(key), row.session_id, row.epoch, row.sequence, row.time_ns, len(row.frame)
            )
        )
        self._hash.update(key)
        self._hash.update(row.frame)

    def value(self) -> bytes:
        """Return the digest."""
        return self._hash.digest()
