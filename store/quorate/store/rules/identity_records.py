"""Durable records of how identities live and how they ended, to bytes and back.

Rows of the table META, next to those of quorate.store.storage.records, whose rules for changes
hold here.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field

from quorate.protocol.identity import SourceName
from quorate.protocol.recovery import Marker
from quorate.store.rules.lifetimes import (
    Life,
    Lifetimes,
)
from quorate.store.storage.records import (
    RECEIVER_BYTES,
    Held,
    Malformed,
    ReceiverRecord,
    Registration,
    marker_key,
    pack_held,
    pack_marker,
    pack_receiver,
    pack_registration,
    unpack_held,
    unpack_marker,
    unpack_receiver,
    unpack_registration,
)
from quorate.v1.store_pb2 import Deletion

_U64 = struct.Struct(">Q")
_LIFE_PREFIX = b"life/"
_GONE_PREFIX = b"gone/"
_HIGHEST = b"\xff" * 16


def life_key(reg_id: int, receiver: int = 0) -> bytes:
    """Return the key of a source's life, or of the life of one of its receivers."""
    key = _LIFE_PREFIX + _U64.pack(reg_id)
    return key + _U64.pack(receiver) if receiver else key


def life_of(key: bytes) -> tuple[int, int]:
    """RegID of the source; session ID of the receiver, or 0."""
    numbers = key[len(_LIFE_PREFIX) :]
    reg_id = int(_U64.unpack_from(numbers)[0])
    return reg_id, int(_U64.unpack_from(numbers, 8)[0]) if len(numbers) > 8 else 0


LIFE_KEYS = (_LIFE_PREFIX, _LIFE_PREFIX + _HIGHEST)
"""Lowest and highest."""


def gone_key(source: SourceName) -> bytes:
    """Return the key of a source's tombstone."""
    return _GONE_PREFIX + _U64.pack(source.session_id) + source.topic.encode()


GONE_KEYS = (_GONE_PREFIX, _GONE_PREFIX + _HIGHEST)
"""Lowest and highest."""


_LIFE = struct.Struct(">Bddd?")
_LIFE_VERSION = 1


def pack_life(life: Life) -> bytes:
    asked = life.asked
    return _LIFE.pack(
        _LIFE_VERSION, asked.activity_timeout, asked.state_lifetime, life.seen, life.released
    )


def unpack_life(value: bytes) -> Life:
    try:
        version, activity, lifetime, seen, released = _LIFE.unpack(value)
    except struct.error as error:
        raise Malformed(f"a sign of life cannot be read: {error}") from None
    if version != _LIFE_VERSION:
        raise Malformed(f"a sign of life has version {version}")
    return Life(Lifetimes(activity, lifetime), seen, released=released)


@dataclass(frozen=True, slots=True)
class Tombstone:
    """The record of a source that the store deleted."""

    reg_id: int
    """Under which its rows are filed."""
    registration: Registration
    held: Held
    cause: Deletion
    deleted: float
    """Wall time of the deletion."""
    blind: bool = False
    """The store could not vouch for what it lacked of it, or has been in limbo since.

    There may be stores with a part of it that this store does not know of.
    """
    markers: tuple[Marker, ...] = ()
    dropped: bool = False
    """Its messages count no more, and are being removed; before that it could be brought back."""
    emptied: bool = False
    """Nothing is filed under its RegID any more: that is free for others."""
    ended: Mapping[int, End] = field(default_factory=dict)
    """By session ID, its receivers that were deregistered: other stores may not have heard yet."""
    receivers: Mapping[int, ReceiverRecord] = field(default_factory=dict)
    """By session ID, those that were registered: other stores may rely on this one's word."""
    deleted_upto: int = 0
    """Up to which epoch it was deleted, as whoever had it deleted said: this store need not have
    begun the last ones. 0: its time was over."""


_ENDED_PREFIX = b"ended/"


def ended_key(reg_id: int, receiver: int) -> bytes:
    """Return the key of the row with the epoch up to which a receiver is over."""
    return _ENDED_PREFIX + _U64.pack(reg_id) + _U64.pack(receiver)


def ended_of(key: bytes) -> tuple[int, int]:
    """RegID of the source and session ID of the receiver."""
    reg_id, receiver = _ENDED_ID.unpack(key[len(_ENDED_PREFIX) :])
    return reg_id, receiver


ENDED_KEYS = (_ENDED_PREFIX, _ENDED_PREFIX + _HIGHEST)
"""Lowest and highest."""
_ENDED_ID = struct.Struct(">QQ")
_ENDED = struct.Struct(">Q?")


@dataclass(frozen=True, slots=True)
class End:
    """The record of a receiver that was deregistered."""

    epoch: int
    """Registrations up to this one are over."""
    settled: bool = False
    """Every store that may have a part of it has been told."""
    reread: bool = False
    """It comes from the disk: whether that is still true is for the peers of a store in limbo to
    say. Not on the disk itself."""


def pack_end(end: End) -> bytes:
    return _ENDED.pack(end.epoch, end.settled)


def unpack_end(value: bytes) -> End:
    try:
        epoch, is_settled = _ENDED.unpack(value)
    except struct.error as error:
        raise Malformed(f"the end of a receiver cannot be read: {error}") from None
    return End(epoch, is_settled, reread=True)


_TOMBSTONE = struct.Struct(">BBd???QQIIIII")
_MARKER = struct.Struct(">qI")
_TOMBSTONE_VERSION = 3


def pack_tombstone(tombstone: Tombstone) -> bytes:
    registration = pack_registration(tombstone.registration)
    held = pack_held(tombstone.held)
    head = _TOMBSTONE.pack(
        _TOMBSTONE_VERSION,
        tombstone.cause,
        tombstone.deleted,
        tombstone.blind,
        tombstone.dropped,
        tombstone.emptied,
        tombstone.reg_id,
        tombstone.deleted_upto,
        len(registration),
        len(held),
        len(tombstone.markers),
        len(tombstone.ended),
        len(tombstone.receivers),
    )
    markers = (
        _MARKER.pack(marker.sequence, len(row := pack_marker(marker))) + row
        for marker in tombstone.markers
    )
    ended = (_U64.pack(receiver) + pack_end(end) for receiver, end in tombstone.ended.items())
    receivers = (_U64.pack(each) + pack_receiver(row) for each, row in tombstone.receivers.items())
    return b"".join((head, registration, held, *markers, *ended, *receivers))


def unpack_tombstone(value: bytes) -> Tombstone:
    try:
        (version, cause, deleted, blind, dropped, emptied, reg_id, upto, *sizes) = (
            _TOMBSTONE.unpack_from(value)
        )
        *sizes, count, ends, rows = sizes
        if version != _TOMBSTONE_VERSION:
            raise Malformed(f"a tombstone has version {version}")
        at = _TOMBSTONE.size
        registration = unpack_registration(value[at : (at := at + sizes[0])])
        held = unpack_held(value[at : (at := at + sizes[1])])
        markers = []
        for _ in range(count):
            sequence, size = _MARKER.unpack_from(value, at)
            at += _MARKER.size
            row = value[at : (at := at + size)]
            markers.append(unpack_marker(marker_key(reg_id, sequence), row)[1])
        ended, at = _by_session_id(value, at, ends, _ENDED.size)
        receivers, at = _by_session_id(value, at, rows, RECEIVER_BYTES)
    except struct.error as error:
        raise Malformed(f"a tombstone cannot be read: {error}") from None
    if at != len(value):
        raise Malformed(f"a tombstone has {len(value)} bytes, not {at}")
    return Tombstone(
        reg_id,
        registration,
        held,
        cause,
        deleted,
        blind,
        tuple(markers),
        dropped,
        emptied,
        {receiver: unpack_end(row) for receiver, row in ended.items()},
        {receiver: unpack_receiver(row) for receiver, row in receivers.items()},
        upto,
    )


def _by_session_id(value: bytes, at: int, count: int, size: int) -> tuple[dict[int, bytes], int]:
    """So many rows of that size, each behind a session ID; and where they end."""
    rows = {}
    for _ in range(count):
        (session_id,) = _U64.unpack_from(value, at)
        begin = at + _U64.size
        rows[session_id] = value[begin : (at := begin + size)]
    return rows, at
