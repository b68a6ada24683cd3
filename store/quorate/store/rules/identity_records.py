"""Durable records of how identities live and how they ended, to bytes and back.

Rows of the table META, next to those of quorate.store.storage.records, whose rules for changes
hold here.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from quorate.protocol.identity import SourceName
from quorate.store.rules.lifetimes import (
    Life,
    Lifetimes,
)
from quorate.store.storage.records import (
    Malformed,
    Registration,
    pack_registration,
    unpack_registration,
)

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
    """Return the key of the row of an ended source."""
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
class EndRecord:
    """The row of an ended source. The rows of the stream before it may still be on the disk."""

    registration: Registration
    """The newest promise, and the begin that ended the stream."""
    reg_id: int
    """The RegID of the stream before, or of whoever was promised a new one; 0: none."""
    ended_at: float
    """The wall time at which the store began the end."""
    limbo: str = ""
    """Why the store cannot vouch for this being the newest begin; empty: it vouches."""
    durable: bool = False
    """Whether the end is on a stable set of stores, so that the data may go."""
    emptied: bool = True
    """Whether nothing of the stream before is filed under the RegID any more."""
    settled: bool = False
    """Whether every store that the end names has adopted it."""


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


_END_RECORD = struct.Struct(">BQdBHI")
_END_RECORD_VERSION = 1
_DURABLE, _EMPTIED, _SETTLED = 1, 2, 4


def pack_end_record(end: EndRecord) -> bytes:
    registration, limbo = pack_registration(end.registration), end.limbo.encode()
    head = _END_RECORD.pack(
        _END_RECORD_VERSION,
        end.reg_id,
        end.ended_at,
        end.durable * _DURABLE | end.emptied * _EMPTIED | end.settled * _SETTLED,
        len(limbo),
        len(registration),
    )
    return head + limbo + registration


def unpack_end_record(value: bytes) -> EndRecord:
    try:
        version, reg_id, ended_at, flags, *sizes = _END_RECORD.unpack_from(value)
        limbo_at = _END_RECORD.size
        at = limbo_at + sizes[0]
        if version != _END_RECORD_VERSION or at + sizes[1] != len(value):
            raise Malformed(f"an ended source has version {version} and {len(value)} bytes")
        return EndRecord(
            unpack_registration(value[at:]),
            reg_id,
            ended_at,
            value[limbo_at:at].decode(),
            bool(flags & _DURABLE),
            bool(flags & _EMPTIED),
            bool(flags & _SETTLED),
        )
    except (struct.error, UnicodeDecodeError) as error:
        raise Malformed(f"an ended source cannot be read: {error}") from None
