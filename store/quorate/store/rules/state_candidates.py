"""The candidates that batches of a source make: the last message of each key, as rows. Pure.

Batches are taken as columns, and only the last message of each key in all of them is packed. Which
candidate of several sources is the row is decided in quorate.store.rules.state_rows.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import repeat
from typing import cast

from quorate.protocol.columns import (
    BEHIND_KEY,
    Body,
    before_key_alone,
    before_payload,
    values_at,
)
from quorate.protocol.framing import BatchHeader, body_of, head_bytes
from quorate.protocol.keying import Keying
from quorate.protocol.limits import WHOLE_BATCH_BYTES_MAX
from quorate.protocol.ranges import Range
from quorate.store.storage.interface import Columns, Table
from quorate.store.storage.state_records import (
    NEVER,
    PACKED_BYTES,
    RowKeys,
    leaves_no_row,
    pack_before_body,
    pack_sequences_and_times,
    packed_epoch,
    packed_expiry_and_payload,
)


@dataclass(frozen=True, slots=True, eq=False)
class _Batch:
    """A part of a batch that was added."""

    header: BatchHeader
    body: Body
    times: Sequence[int]
    """The times of all messages of the batch."""
    begin: int
    """The place of the first message of the part among all messages that were added."""
    end: int
    """The place behind its last message."""
    skipped: int
    """The messages of the batch before the part."""


class Candidates:
    """The candidates of consecutive batches of a source."""

    def __init__(self, keying: Keying, row_keys: RowKeys) -> None:
        """Begin with none.

        - keying: the keys of the topic.
        - row_keys: the keys of the rows of the source.
        """
        self._keying = keying
        self._row_keys = row_keys
        self._batches: list[_Batch] = []
        self._end = 0
        """The place behind the last message."""
        self._last: dict[bytes, int] = {}
        """The place of the last message of each row."""
        self.left_out = 0
        """The messages that have no key."""
        self.large: set[bytes] = set()
        """The keys of rows of which `rows` found that they are too large for one of the disk."""
        self.hides = False
        """Whether some of the rows that `rows` found leave their keys without one, or will."""

    def __len__(self) -> int:
        return len(self._last)

    def add(self, frame: bytes, header: BatchHeader, part: Range) -> None:
        """Add the messages of a part of the next batch. It adds all or, if it raises, none.

        Raises CorruptBatch.
        """
        body = body_of(frame, header)
        lead, keys = self._keying.keys_in(header, body, part.first, part.last)
        times = body.read_times(header.timestamp_ns)
        begin, self._end = self._end, self._end + len(keys)
        self._batches.append(
            _Batch(header, body, times, begin, self._end, part.first - header.first)
        )
        places: Sequence[int] = range(begin, self._end)
        present = cast("Sequence[bytes]", keys)
        if without := keys.count(None):
            self.left_out += without
            places = [place for place, key in zip(places, keys, strict=True) if key is not None]
            present = [key for key in keys if key is not None]
        self._last.update(zip(self._row_keys.of(present, lead), places, strict=True))

    def rows(self) -> Columns:
        """Return the candidates as rows, in the order of their keys.

        The database takes rows in order sooner.
        """
        last = self._last
        keys = sorted(last)
        places = list(map(last.__getitem__, keys))
        values = [b""] * self._end
        # Mostly each message has another key.
        chosen = range(self._end) if len(keys) == self._end else sorted(places)
        large: set[int] = set()
        at = 0
        for batch in self._batches:
            end = bisect_left(chosen, batch.end, at)
            own = chosen[at:end]
            packed = self._packed_of(batch, own, large)
            if isinstance(own, range):
                values[own.start : own.stop] = packed
            else:
                for place, each in zip(own, packed, strict=True):
                    values[place] = each
            at = end
        if large:
            self.large = {key for key, place in zip(keys, places, strict=True) if place in large}
        return Columns(Table.STATE, keys, list(map(values.__getitem__, places)))

    def _packed_of(self, batch: _Batch, places: Sequence[int], large: set[int]) -> Iterable[bytes]:
        """Return the candidates of messages of a batch, packed.

        - places: theirs among all messages that were added.
        - large: takes those of them whose packed candidates are too large for one row.
        """
        shift = batch.skipped - batch.begin
        if isinstance(places, range):
            rows: Sequence[int] = range(places.start + shift, places.stop + shift)
        else:
            rows = [place + shift for place in places]
        if _has_keys_alone(self._keying, batch):
            return _with_keys_alone(batch, rows)
        packed = list(_of_any(self._keying, batch, rows))
        self.hides = self.hides or any(map(leaves_no_row, packed))
        size_max = PACKED_BYTES + _body_bytes_max(batch)
        large.update(
            place for place, each in zip(places, packed, strict=True) if len(each) > size_max
        )
        return packed


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

    It does what `_of_any` does, in a few steps for all of them. rows: their places in the batch.
    """
    body, first = batch.body, batch.header.first
    payloads = values_at(body.read_payloads(), rows)
    keys = values_at(body.read_every_key(), rows)
    if isinstance(rows, range):
        sequences: Sequence[int] = range(first + rows.start, first + rows.stop)
    else:
        sequences = list(map(first.__add__, rows))
    own = pack_sequences_and_times(sequences, values_at(batch.times, rows))
    lengths = list(map(len, keys))
    before_key = {length: _before_key(length) for length in set(lengths)}
    return map(
        b"".join,
        zip(
            repeat(packed_epoch(batch.header.epoch)),
            own,
            map(before_key.__getitem__, lengths),
            keys,
            repeat(BEHIND_KEY),
            payloads,
            strict=False,
        ),
    )


@lru_cache(maxsize=256)
def _before_key(key_bytes: int) -> bytes:
    """Return what a candidate has between its time and its key, which has so many bytes."""
    before_key = before_key_alone(key_bytes)
    return packed_expiry_and_payload(len(before_key) + key_bytes + len(BEHIND_KEY)) + before_key


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
