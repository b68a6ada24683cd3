"""The rows of the state of the world: which message is the row of a key. Pure.

The rule: of each source in force, the last stable message of the key is its candidate. The newest
candidate decides: that of the newest time, then of the highest session ID. If it is a deletion, or
has expired, the key has no row. Otherwise it is the row. A message that is stable is never
withdrawn. So only the end of a source's generation takes candidates away, and the best of the
others decides. Candidates depend on the set of stable messages alone. So all stores have the same
rows, in whichever order messages and ends came to them.

A candidate that leaves its key without a row hides older ones. Once its message has left the
journal, it goes together with those that it hides.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby

from quorate.protocol.framing import framed
from quorate.protocol.identity import SourceName
from quorate.protocol.limits import NOTHING
from quorate.protocol.lineage import Lineage
from quorate.store.storage.interface import Row
from quorate.store.storage.state_records import (
    NEVER,
    Candidate,
    key_of,
    pack_candidate,
    same_key,
    unpack_candidate,
)

Generations = Mapping[int, int]
"""The first epoch of the generation that each source of a topic is in, by session ID."""

_DIGESTED = struct.Struct(">IQI")


def frame_of(topic: str, row: Candidate, payload: bytes | None = None) -> bytes:
    """Return the message of a row as a batch. payload: what it has instead of its own."""
    body = row.body if payload is None else row.body[: row.payload_at] + payload
    source = SourceName(topic, row.session_id)
    return framed(source, row.epoch, row.sequence, 1, row.time_ns, body)


def generation_of(lineage: Lineage) -> int:
    """Return the first epoch of the generation that a source with this lineage is in."""
    return lineage.terms[0].epoch if lineage.terms else lineage.epoch


def is_in_force(candidate: Candidate, generations: Generations) -> bool:
    """Return whether the source of a candidate is still in the same generation."""
    first_epoch = generations.get(candidate.session_id)
    return first_epoch is not None and first_epoch <= candidate.epoch


def newest_of(candidates: Iterable[Candidate], generations: Generations) -> Candidate | None:
    """Return the candidate that decides about a key; None: there is none."""
    newest = None
    for each in candidates:
        newest = _newer(newest, each, generations)
    return newest


def _newer(
    newest: Candidate | None, candidate: Candidate, generations: Generations
) -> Candidate | None:
    """Return the candidate that decides about a key, of the newest so far and a further one."""
    if not is_in_force(candidate, generations):
        return newest
    return candidate if newest is None or _age(candidate) > _age(newest) else newest


def has_changed(
    candidates: Iterable[Candidate], generations: Generations, before: Mapping[int, int]
) -> bool:
    """Return whether a key may have another row than before.

    before: the last number that counted then of each source, by session ID.
    """
    return any(
        each.sequence > before.get(each.session_id, NOTHING)
        for each in candidates
        if is_in_force(each, generations)
    )


def _age(candidate: Candidate) -> tuple[int, int]:
    return candidate.time_ns, candidate.session_id


def is_row(newest: Candidate, now_ns: int) -> bool:
    """Return whether the newest candidate of a key is its row. Otherwise the key has none."""
    return bool(newest.body) and now_ns < newest.expires_ns


def by_key(stored: Iterable[Row]) -> Iterator[tuple[bytes, list[Candidate]]]:
    """Yield keys, each with its candidates, from all that is stored of these keys, in order.

    Raises Malformed.
    """
    for _, group in groupby(stored, key=lambda row: same_key(row[0])):
        of_key = list(group)
        yield key_of(of_key[0][0]), [unpack_candidate(*each) for each in of_key]


def rows_among(
    stored: Iterable[Row], generations: Generations, now_ns: int
) -> Iterator[tuple[bytes, Candidate]]:
    """Yield the rows of keys, from all that is stored of these keys, in order.

    With each row what the stored rows of its key have in common. Raises Malformed.
    """
    newest: Candidate | None = None
    same = b""
    first_epoch_of = generations.get
    for key, value in stored:
        if (own := same_key(key)) != same:
            if newest is not None and is_row(newest, now_ns):
                yield same, newest
            newest, same = None, own
        each = unpack_candidate(key, value)
        if newest is not None:
            newest = _newer(newest, each, generations)
        elif (first_epoch := first_epoch_of(each.session_id)) is not None:
            # Most keys have one candidate: `_newer` would say the same of it.
            newest = each if first_epoch <= each.epoch else None
    if newest is not None and is_row(newest, now_ns):
        yield same, newest


def to_remove(
    stored: Iterable[Row],
    generations: Generations,
    retained_from: Mapping[int, int],
    now_ns: int,
) -> tuple[list[bytes], int]:
    """Return the stored candidates that are of no more use, from all of some keys, in order.

    With them the time before which rows are no longer known, because they were hidden.

    retained_from: of each source, by session ID, the first number whose candidates must stay.
    Raises Malformed.
    """
    useless: list[bytes] = []
    hidden_ns = -NEVER
    for _, group in groupby(stored, key=lambda row: same_key(row[0])):
        of_key = [(key, unpack_candidate(key, value)) for key, value in group]
        newest = newest_of((each for _, each in of_key), generations)
        gone = newest is None
        if newest is not None and not is_row(newest, now_ns):
            gone = newest.sequence < retained_from.get(newest.session_id, 0)
            if gone:
                hides_ns = newest.expires_ns if newest.body else newest.time_ns
                hidden_ns = max(hidden_ns, hides_ns)
        useless += (key for key, each in of_key if gone or not is_in_force(each, generations))
    return useless, hidden_ns


Covered = Mapping[int, range]
"""The numbers of each source for which the rows of a peer speak, by session ID."""


def choose(
    own: Iterable[Row],
    theirs: Mapping[bytes, Candidate],
    covered: Covered,
    generations: Generations,
) -> tuple[list[bytes], list[bytes]]:
    """Return which of own stored candidates go, for those of a peer, and which are as new or newer.

    A candidate that the peer lacks, though it has read the message, was removed there, or will be.

    theirs: those of the peer of all these keys. Raises Malformed.
    """
    gone, as_new = [], []
    for key, value in own:
        each, other = unpack_candidate(key, value), theirs.get(key)
        if not is_in_force(each, generations):
            continue
        if other is None:
            if each.sequence in covered.get(each.session_id, ()):
                gone.append(key)
        elif each.sequence >= other.sequence:
            as_new.append(key)
    return gone, as_new


class StateDigest:
    """A digest of rows in the order of their keys: equal digests mean equal rows.

    Stores remove candidates that are no rows at different times. So it does not cover these.
    """

    def __init__(self, generations: Generations, now_ns: int) -> None:
        """Begin without rows.

        - generations: those of the topic's sources.
        - now_ns: the time at which rows may have expired.
        """
        self._generations = generations
        self._now_ns = now_ns
        self._hash = hashlib.blake2b(digest_size=16)
        self.count = 0
        """The rows so far."""

    def add(self, stored: Iterable[Row]) -> None:
        """Add all that is stored of the next keys. Raises Malformed."""
        for same, row in rows_among(stored, self._generations, self._now_ns):
            value = pack_candidate(row)
            self.count += 1
            self._hash.update(_DIGESTED.pack(len(same), row.session_id, len(value)))
            self._hash.update(same)
            self._hash.update(value)

    def value(self) -> bytes:
        """Return the digest."""
        return self._hash.digest()
