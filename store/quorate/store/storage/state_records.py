"""The rows of the state of the world on the disk: their keys, and how far they have come.

All are in one table, so that one frozen view has rows and places that belong together. Which
message a row has is decided in quorate.store.rules.state_rows.
"""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass

from quorate.protocol.bookmarks import Place
from quorate.protocol.identity import SourceName
from quorate.protocol.limits import NOTHING
from quorate.store.storage.interface import Reads, Row, Table
from quorate.store.storage.records import Malformed

_ROWS, _PLACES = b"r", b"p"
_PREFIX_BYTES = 16
_SESSION = struct.Struct(">Q")
_ROW = struct.Struct(">Qqqq")
_PLACE = struct.Struct(">QqQq")
_END = b"\0\0"
NEVER = 2**63 - 1
"""Stands for the time at which a message expires that does not."""
_ABOVE = b"\xff" * (_SESSION.size + 1)
"""It is above every part of a key that follows a prefix: keys of topics begin with a letter."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """The last stable message of one key from one source, as a row has it."""

    session_id: int
    """The session ID of the source."""
    epoch: int
    sequence: int
    time_ns: int
    """The time of the message, by its source's clock."""
    expires_ns: int
    """The time at which the message expires; NEVER: it does not."""
    frame: bytes
    """A batch of the message alone; empty: with this message the key has no row."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far the rows of a topic have come in one source."""

    source: SourceName
    place: Place
    left_out: int
    """The messages up to there that make no row, because they have no key, or one too long."""
    lacks_upto: int = NOTHING
    """The last number that retention had let go, here and at peers, before rows were made of it."""


def topic_prefix(topic: str, keys: str) -> bytes:
    """Return what the keys of a topic's rows begin with. Other keys of messages mean other rows."""
    named = f"{len(topic)} {topic} {keys}".encode(errors="surrogatepass")
    return hashlib.blake2b(named, digest_size=_PREFIX_BYTES).digest()


def row_key(prefix: bytes, key: bytes, session_id: int) -> bytes:
    return _before_session(prefix, key) + _SESSION.pack(session_id)


def _before_session(prefix: bytes, key: bytes) -> bytes:
    # So no key is the beginning of another one, and they keep their order.
    return _ROWS + prefix + key.replace(b"\0", b"\0\xff") + _END


def same_key(row: bytes) -> bytes:
    """Return what the rows of one key of a topic have in common."""
    return row[: -_SESSION.size]


def key_of(row: bytes) -> bytes:
    """Return the key of the messages of a row."""
    return row[1 + _PREFIX_BYTES : -_SESSION.size - len(_END)].replace(b"\0\xff", b"\0")


def rows_of_topic(prefix: bytes) -> tuple[bytes, bytes]:
    """Return keys at or before the first row of a topic, and behind the last."""
    return _ROWS + prefix, _ROWS + prefix + _ABOVE


def rows_of_key(prefix: bytes, key: bytes) -> tuple[bytes, bytes]:
    """Return keys at or before the first row of a key, and at or behind the last."""
    before = _before_session(prefix, key)
    return before, before + _ABOVE


def whole_keys(reads: Reads, first: bytes, last: bytes, limit: int) -> list[Row]:
    """Return the first rows from here on, about as many, and all of each key. Raises StorageFailed.

    None are left if the list is empty.
    """
    while True:
        rows = reads.scan(Table.STATE, first, last, limit)
        if len(rows) < limit:
            return rows
        last_key = same_key(rows[-1][0])
        whole = [row for row in rows if same_key(row[0]) != last_key]
        if whole:
            return whole
        limit *= 2


def pack_candidate(candidate: Candidate) -> bytes:
    epoch, sequence = candidate.epoch, candidate.sequence
    return _ROW.pack(epoch, sequence, candidate.time_ns, candidate.expires_ns) + candidate.frame


def unpack_candidate(key: bytes, value: bytes) -> Candidate:
    try:
        session_id = _SESSION.unpack(key[-_SESSION.size :])[0]
        epoch, sequence, time_ns, expires_ns = _ROW.unpack_from(value)
    except struct.error as error:
        raise Malformed(f"a row of the state of the world cannot be read: {error}") from None
    return Candidate(session_id, epoch, sequence, time_ns, expires_ns, value[_ROW.size :])


def progress_key(prefix: bytes, session_id: int) -> bytes:
    return _PLACES + prefix + _SESSION.pack(session_id)


def progress_of_topic(prefix: bytes) -> tuple[bytes, bytes]:
    """Return keys at or before the first place of a topic's rows, and behind the last."""
    return _PLACES + prefix, _PLACES + prefix + _ABOVE


def progress_of_all() -> tuple[bytes, bytes]:
    """Return keys at or before the first place of all rows, and behind the last."""
    return _PLACES, _PLACES + b"\xff" * (_PREFIX_BYTES + len(_ABOVE))


def prefix_of(key: bytes) -> bytes:
    """Return what the rows begin with whose place has this key."""
    return key[1 : 1 + _PREFIX_BYTES]


def pack_progress(progress: Progress) -> bytes:
    epoch, sequence = progress.place
    topic = progress.source.topic.encode()
    return _PLACE.pack(epoch, sequence, progress.left_out, progress.lacks_upto) + topic


def unpack_progress(key: bytes, value: bytes) -> Progress:
    try:
        session_id = _SESSION.unpack(key[-_SESSION.size :])[0]
        epoch, sequence, left_out, lacks_upto = _PLACE.unpack_from(value)
        source = SourceName(value[_PLACE.size :].decode(), session_id)
    except (struct.error, UnicodeDecodeError) as error:
        raise Malformed(f"a place in the state of the world cannot be read: {error}") from None
    return Progress(source, Place(epoch, sequence), left_out, lacks_upto)
