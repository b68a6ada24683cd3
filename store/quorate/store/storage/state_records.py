"""The rows of the state of the world on the disk: their keys, and how far they have come.

All are in one table, so that one frozen view has rows and places that belong together. Which
message a row has is decided in quorate.store.rules.state_rows.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from io import BytesIO
from itertools import repeat
from typing import NamedTuple

from quorate.protocol.bookmarks import Place
from quorate.protocol.identity import SourceName
from quorate.protocol.limits import NOTHING
from quorate.store.storage.interface import Columns, Reads, Row, Table
from quorate.store.storage.records import Malformed

_ROWS, _PLACES, _HIDDEN = b"r", b"p", b"h"
_PREFIX_BYTES = 16
_SESSION = struct.Struct(">Q")
_TIME = struct.Struct(">q")
_ROW = struct.Struct(">QqqqI")
_SESSION_BYTES, _ROW_BYTES = _SESSION.size, _ROW.size
_PLACE = struct.Struct(">QqQq")
_EPOCH_EXPIRY_PAYLOAD = struct.Struct(">Q16xqI")
_END = b"\0\0"
_KEY_STEP = 64
"""The candidates of one key that one read returns at most."""
LARGE = 1 << 31
"""It is added to `payload_at` of a candidate whose payload is beside its row. See large_rows."""
NEVER = 2**63 - 1
"""Stands for the time at which a message expires that does not."""
_EXPIRES = slice(24, 32)
"""The place of the time at which a candidate expires, in its packed form."""
_NEVER_PACKED = _TIME.pack(NEVER)
_ABOVE = b"\xff" * (_SESSION.size + 1)
"""It is above every part of a key that follows a prefix: keys of topics begin with a letter."""


class Candidate(NamedTuple):
    """The last stable message of one key from one source, as a row has it."""

    session_id: int
    """The session ID of the source."""
    epoch: int
    sequence: int
    time_ns: int
    """The time of the message, by its source's clock."""
    expires_ns: int
    """The time at which the message expires; NEVER: it does not."""
    payload_at: int
    """The offset of the payload in the body, in bytes; LARGE is added if it is not there."""
    body: bytes
    """The body of a batch of the message alone; empty: with this message the key has no row."""

    @property
    def payload(self) -> bytes:
        """The payload of the message."""
        return self.body[self.payload_at :]


_candidate: Callable[[tuple[int, int, int, int, int, int, bytes]], Candidate] = partial(
    tuple.__new__, Candidate
)
"""Make a candidate of its fields. It is sooner done than by the name of its type."""


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


class RowKeys:
    """The keys of the rows of one source."""

    __slots__ = ("_before", "_behind")

    def __init__(self, prefix: bytes, session_id: int) -> None:
        """prefix: that of the topic."""
        self._before = _ROWS + prefix
        self._behind = _END + _SESSION.pack(session_id)

    def of(self, keys: Sequence[bytes], lead: bytes = b"") -> list[bytes]:
        """Return the keys of the rows of these keys.

        lead: what each of the keys begins with, if it is left out there. It has no zero byte.
        """
        before, behind = self._before + lead, self._behind
        if b"\0" in b"".join(keys):
            return [before + key.replace(b"\0", b"\0\xff") + behind for key in keys]
        return [before + key + behind for key in keys]


def rows_to_write(prefix: bytes, session_id: int, packed: Mapping[bytes, bytes]) -> Columns:
    """Return the rows of the candidates of a source, which are packed, by key."""
    keys = RowKeys(prefix, session_id).of(list(packed))
    return Columns(Table.STATE, keys, list(packed.values()))


def _before_session(prefix: bytes, key: bytes) -> bytes:
    # So no key is the beginning of another one, and they keep their order.
    return _ROWS + prefix + key.replace(b"\0", b"\0\xff") + _END


def same_key(row: bytes) -> bytes:
    """Return what the rows of one key of a topic have in common."""
    return row[:-_SESSION_BYTES]


def row_of_source(same: bytes, session_id: int) -> bytes:
    """Return the key of the row of a source. same: what the rows of the key have in common."""
    return same + _SESSION.pack(session_id)


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
        last_key, end = same_key(rows[-1][0]), len(rows) - 1
        while end and same_key(rows[end - 1][0]) == last_key:
            end -= 1
        if end:
            return rows[:end]
        limit *= 2


def rows_with_key(reads: Reads, prefix: bytes, key: bytes) -> list[Row]:
    """Return all that is stored of one key of a topic. Raises StorageFailed."""
    first, last = rows_of_key(prefix, key)
    found: list[Row] = []
    while rows := reads.scan(Table.STATE, first, last, _KEY_STEP):
        found += rows
        if len(rows) < _KEY_STEP:
            break
        first = rows[-1][0] + b"\0"
    return found


def pack_candidate(candidate: Candidate) -> bytes:
    return _ROW.pack(*candidate[1:-1]) + candidate.body


pack_before_body = _ROW.pack
"""Pack what a row has before the body of its message: epoch, sequence, times and payload_at."""


def pack_sequences_and_times(sequences: Sequence[int], times: Sequence[int]) -> list[bytes]:
    """Pack the two fields of rows that differ from message to message. They follow the epoch."""
    fields = [0] * (2 * len(sequences))
    fields[::2], fields[1::2] = sequences, times
    packed = BytesIO(struct.pack(f">{len(fields)}q", *fields))
    return list(map(packed.read, repeat(16, len(sequences))))


def packed_epoch(epoch: int) -> bytes:
    """Return what the row of a message has before these fields."""
    return _SESSION.pack(epoch)


def packed_expiry_and_payload(payload_at: int) -> bytes:
    """Return what the row of a message that does not expire has behind these fields."""
    return _ROW.pack(0, 0, 0, NEVER, payload_at)[_EXPIRES.start :]


PACKED_BYTES = _ROW_BYTES
"""The bytes that a row has before the body of its message."""


def leaves_no_row(packed: bytes) -> bool:
    """Return whether a key has no row with this candidate, or none from some time on."""
    return len(packed) == _ROW.size or packed[_EXPIRES] != _NEVER_PACKED


def candidates_alone(
    stored: Sequence[Row], first_epochs: Mapping[int, int], now_ns: int
) -> tuple[list[Row], list[int]] | None:
    """Return which of some stored rows are rows now, and the offset of the payload in each value.

    None: some key has several candidates, or the payload of one is not in its row.

    first_epochs: of each source in force, by session ID. Raises Malformed.
    """
    if len({key[:-_SESSION_BYTES] for key, _ in stored}) < len(stored):
        return None
    epochs = {_SESSION.pack(session_id): epoch for session_id, epoch in first_epochs.items()}
    rows: list[Row] = []
    payloads_at: list[int] = []
    unpack = _EPOCH_EXPIRY_PAYLOAD.unpack_from
    try:
        for row in stored:
            key, value = row
            epoch, expires_ns, payload_at = unpack(value)
            first_epoch = epochs.get(key[-_SESSION_BYTES:])
            if first_epoch is None or epoch < first_epoch or now_ns >= expires_ns:
                continue
            if payload_at >= LARGE:
                return None
            if len(value) > _ROW_BYTES:
                rows.append(row)
                payloads_at.append(_ROW_BYTES + payload_at)
    except struct.error as error:
        raise _malformed(error) from None
    return rows, payloads_at


def _malformed(error: struct.error) -> Malformed:
    return Malformed(f"a row of the state of the world cannot be read: {error}")


def unpack_candidate(key: bytes, value: bytes) -> Candidate:
    try:
        facts = _SESSION.unpack(key[-_SESSION_BYTES:]) + _ROW.unpack_from(value)
    except struct.error as error:
        raise _malformed(error) from None
    return _candidate((*facts, value[_ROW_BYTES:]))


def is_row_key(key: bytes) -> bool:
    """Return whether this is the key of a candidate."""
    return key.startswith(_ROWS)


def hidden_key(prefix: bytes) -> bytes:
    """Return the key of the time up to which candidates that hid others have been removed."""
    return _HIDDEN + prefix


def pack_hidden(time_ns: int) -> bytes:
    return _TIME.pack(time_ns)


def unpack_hidden(value: bytes | None) -> int:
    """Return the time up to which candidates that hid others have been removed.

    value: None: none was.
    """
    if value is None:
        return -NEVER
    try:
        return int(_TIME.unpack(value)[0])
    except struct.error as error:
        raise Malformed(f"a time in the state of the world cannot be read: {error}") from None


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
