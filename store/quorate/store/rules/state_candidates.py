"""The candidates that batches of a source make: the last message of each key, as rows. Pure.

Batches are taken as columns, and only the last message of each key in all of them is packed. Which
candidate of several sources is the row is decided in quorate.store.rules.state_rows.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import cast

from quorate.protocol.columns import Body, around_key, before_payload
from quorate.protocol.framing import BatchHeader, body_of, head_bytes
from quorate.protocol.keying import Keying
from quorate.protocol.limits import WHOLE_BATCH_BYTES_MAX
from quorate.protocol.ranges import Range
from quorate.store.storage.state_records import (
    NEVER,
    PACKED_BYTES,
    around_sequence_and_time,
    leaves_no_row,
    pack_before_body,
    pack_sequences_and_times,
)


@dataclass(frozen=True, slots=True, eq=False)
class _Batch:
    header: BatchHeader
    body: Body
    times: Sequence[int]
    begin: int
    """The place of its first message among all messages that were added."""
    end: int
    """The place behind its last message."""
    skipped: int
    """The messages of the batch before its first one that was added."""


class Candidates:
    """The candidates of consecutive batches of a source."""

    def __init__(self, keying: Keying) -> None:
        """Begin with none. keying: the keys of the topic."""
        self._keying = keying
        self._batches: list[_Batch] = []
        self._end = 0
        """The place behind the last message."""
        self._last: dict[bytes | None, int] = {}
        """The place of the last message of each key."""
        self.left_out = 0
        """The messages that have no key."""
        self.large: set[bytes] = set()
        """The keys whose packed candidates are too large for one row of the disk."""
        self.hides = False
        """Whether some packed ones leave their keys without a row, now or later."""

    def __len__(self) -> int:
        return len(self._last)

    def add(self, frame: bytes, header: BatchHeader, part: Range) -> None:
        """Add the messages of a part of the next batch. It adds all or, if it raises, none.

        Raises CorruptBatch.
        """
        body = body_of(frame, header)
        keys = self._keying.keys_in(header, body, part.first, part.last)
        times = body.read_times(header.timestamp_ns)
        begin, self._end = self._end, self._end + len(keys)
        self._batches.append(
            _Batch(header, body, times, begin, self._end, part.first - header.first)
        )
        self._last.update(zip(keys, range(begin, self._end), strict=True))
        if without := keys.count(None):
            self.left_out += without
            del self._last[None]

    def packed(self) -> dict[bytes, bytes]:
        """Return the candidates, packed, by key."""
        last = cast("dict[bytes, int]", self._last)
        keys, places = list(last), list(last.values())
        if len(keys) < self._end:
            # A key keeps the place that its first message had in the dictionary.
            keys.sort(key=last.__getitem__)
            places.sort()
        found: dict[bytes, bytes] = {}
        at = 0
        for batch in self._batches:
            end = bisect_left(places, batch.end, at)
            # A place among all messages becomes one in the batch.
            rows = [place - batch.begin + batch.skipped for place in places[at:end]]
            found.update(zip(keys[at:end], self._packed_of(batch, keys[at:end], rows), strict=True))
            at = end
        return found

    def _packed_of(
        self, batch: _Batch, keys: Sequence[bytes], rows: Sequence[int]
    ) -> Iterable[bytes]:
        """Return the candidates of messages of a batch, packed. rows: their places in it."""
        if _has_keys_alone(self._keying, batch):
            return _with_keys_alone(batch, rows)
        packed = list(_of_any(self._keying, batch, rows))
        self.hides = self.hides or any(map(leaves_no_row, packed))
        size_max = PACKED_BYTES + _body_bytes_max(batch)
        self.large.update(
            key for key, each in zip(keys, packed, strict=True) if len(each) > size_max
        )
        return packed


def candidates_of(
    keying: Keying, frame: bytes, header: BatchHeader, part: Range
) -> tuple[dict[bytes, bytes], int]:
    """Return the candidates of a part of one batch, packed, by key, and the messages without one.

    Raises CorruptBatch.
    """
    made = Candidates(keying)
    made.add(frame, header, part)
    return made.packed(), made.left_out


def _has_keys_alone(keying: Keying, batch: _Batch) -> bool:
    """Return whether all messages of a batch have keys and nothing else, and fit into rows."""
    body = batch.body
    return (
        body.keys is not None
        and body.keys.rows is None
        and body.flags_at is None
        and not body.properties
        and not keying.expires(body)
        and body.size_max_of_one <= _body_bytes_max(batch)
    )


def _body_bytes_max(batch: _Batch) -> int:
    return WHOLE_BATCH_BYTES_MAX - head_bytes(batch.header.source)


def _with_keys_alone(batch: _Batch, rows: Sequence[int]) -> Iterable[bytes]:
    """Return the candidates of messages that have keys and no other attributes.

    It does what `_of_any` does, in a few steps for all of them.
    """
    body, first, times = batch.body, batch.header.first, batch.times
    payloads, keys = body.read_payloads(), body.read_every_key()
    if len(rows) < body.count:
        payloads = [payloads[row] for row in rows]
        keys = [keys[row] for row in rows]
        times = [times[row] for row in rows]
    own = pack_sequences_and_times(list(map(first.__add__, rows)), times)
    lengths = list(map(len, keys))
    around = {length: _around(batch.header.epoch, length) for length in set(lengths)}
    if len(around) == 1:
        ((epoch, before_key, behind_key),) = around.values()
        parts = zip(
            repeat(epoch), own, repeat(before_key), keys, repeat(behind_key), payloads, strict=False
        )
        return map(b"".join, parts)
    return [
        b"".join((around[length][0], facts, around[length][1], key, around[length][2], payload))
        for length, facts, key, payload in zip(lengths, own, keys, payloads, strict=True)
    ]


def _around(epoch: int, key_bytes: int) -> tuple[bytes, bytes, bytes]:
    """Return the parts of a candidate that depend on the length of its key alone.

    They come before the sequence number and the time, before the key, and behind it.
    """
    before_key, behind_key = around_key(key_bytes)
    payload_at = len(before_key) + key_bytes + len(behind_key)
    first, second = around_sequence_and_time(epoch, payload_at)
    return first, second + before_key, behind_key


def _of_any(keying: Keying, batch: _Batch, rows: Iterable[int]) -> Iterable[bytes]:
    """Return the candidates of messages with any attributes."""
    body, times, epoch, first = batch.body, batch.times, batch.header.epoch, batch.header.first
    payloads, keys = body.read_payloads(), body.read_keys()
    properties, deleted = body.read_properties(), body.read_deleted()
    expiries = keying.expiries_of(body, times)
    for row in rows:
        payload, expires_ns = payloads[row], expiries[row]
        before = before_payload(keys[row], properties[row], expires_ns)
        has_row = not deleted[row]
        packed = pack_before_body(
            epoch,
            first + row,
            times[row],
            NEVER if expires_ns is None else expires_ns,
            len(before) if has_row else 0,
        )
        yield b"".join((packed, before, payload)) if has_row else packed
