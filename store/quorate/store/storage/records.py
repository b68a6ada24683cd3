"""Durable records and their keys, packed to bytes and unpacked.

This is the format on the disk: a change needs a new FORMAT in quorate.store.storage.data_directory.
Parts that the wire contract knows have its encoding. No rule about the records is here.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field

from google.protobuf.message import DecodeError

from quorate.protocol.application import UNNAMED, Application
from quorate.protocol.begin import NOT_BEGUN, BeginRecord
from quorate.protocol.errors import InvalidArgument
from quorate.protocol.identity import SourceName
from quorate.protocol.limits import INSTANCE_BYTES_MAX, NOTHING
from quorate.protocol.ranges import Range, RangeSet
from quorate.protocol.recovery import Marker
from quorate.protocol.wire import begin_from_wire, begin_to_wire
from quorate.v1.messages_pb2 import BeginRecord as BeginMessage
from quorate.v1.messages_pb2 import SourceInformation
from quorate.v1.store_pb2 import Greeting, StoreInventory

_U64 = struct.Struct(">Q")
_PAIR = struct.Struct(">QQ")
_TRIPLE = struct.Struct(">QQQ")
_SIGNED_PAIR = struct.Struct(">qq")


class Malformed(ValueError):
    """Bytes that are no valid record. The reader adds the place that they came from."""


# Keys are big-endian: so they are ordered as their numbers are.


def position_key(position: int) -> bytes:
    return _U64.pack(position)


def position_of(key: bytes) -> int:
    return int(_U64.unpack(key)[0])


def reg_id_key(reg_id: int) -> bytes:
    return _U64.pack(reg_id)


def index_key(reg_id: int, first: int) -> bytes:
    return _PAIR.pack(reg_id, first)


def index_first(key: bytes) -> int:
    """Return the first sequence number that an index key names."""
    return int(_PAIR.unpack(key)[1])


def receiver_key(source_reg_id: int, session_id: int) -> bytes:
    return _PAIR.pack(source_reg_id, session_id)


def receiver_of(key: bytes) -> tuple[int, int]:
    """Return the RegID of the source and the session ID of the receiver."""
    source_reg_id, session_id = _PAIR.unpack(key)
    return source_reg_id, session_id


def marker_key(reg_id: int, sequence: int) -> bytes:
    return _PAIR.pack(reg_id, sequence)


def set_aside_key(reg_id: int, epoch: int, first: int) -> bytes:
    return _TRIPLE.pack(reg_id, epoch, first)


# Rows.


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """A row of the index: a batch of the journal serves [first, last]. It may have more numbers."""

    first: int
    last: int
    epoch: int
    position: int
    checksum: int
    size: int = 0
    """The bytes of the batch if no other row names it; 0: another row names it, or may."""


_INDEX = struct.Struct(">QqQII")


def pack_index(position: int, last: int, epoch: int, checksum: int, size: int = 0) -> bytes:
    return _INDEX.pack(position, last, epoch, checksum, size)


def unpack_index(key: bytes, value: bytes) -> IndexEntry:
    try:
        position, last, epoch, checksum, size = _INDEX.unpack(value)
        return IndexEntry(index_first(key), last, epoch, position, checksum, size)
    except struct.error as error:
        raise Malformed(f"index row {key.hex()}: {error}") from None


@dataclass(frozen=True, slots=True)
class Registration:
    """The durable state of a source, without its messages, markers and receivers."""

    name: SourceName
    promised_epoch: int
    promised_to: bytes
    """The instance to which the promise was made."""
    begun: BeginRecord = NOT_BEGUN
    """The newest begin."""
    information: SourceInformation | None = None
    clean: bool = False
    """Whether the source said goodbye and has not come back since."""
    taken_over: bool = False
    """Whether the promise comes from peers. It counts once its instance has asked here for it."""
    by_take_over: bool = False
    """Whether the instance with the promise was told to take over from another one."""
    fences: bool = False
    """Whether the store made other promises for this name before, perhaps to a deleted source.
    Those promises must stay refused."""
    may_miss_receivers: bool = False
    """Whether receivers may be unknown here. An operator ended the limbo, and peers were not heard
    since."""
    spent_receiver_epoch: int = 0
    """The highest epoch in which a receiver of the source ended; 0: none did. See
    receiver_tombstones.spend."""


_REGISTRATION = struct.Struct(">BQQBHHII")
_CLEAN, _TAKEN_OVER, _FENCES, _MAY_MISS, _SPENT, _BY_TAKE_OVER = 1, 2, 4, 8, 16, 32
_REGISTRATION_VERSION = 2


def pack_registration(record: Registration) -> bytes:
    topic = record.name.topic.encode()
    begun = begin_to_wire(record.begun).SerializeToString()
    information = record.information.SerializeToString() if record.information else b""
    head = _REGISTRATION.pack(
        _REGISTRATION_VERSION,
        record.name.session_id,
        record.promised_epoch,
        record.clean * _CLEAN
        | record.taken_over * _TAKEN_OVER
        | record.fences * _FENCES
        | record.may_miss_receivers * _MAY_MISS
        | bool(record.spent_receiver_epoch) * _SPENT
        | record.by_take_over * _BY_TAKE_OVER,
        len(topic),
        len(record.promised_to),
        len(begun),
        len(information),
    )
    spent = record.spent_receiver_epoch
    optional = _U64.pack(spent) if spent else b""
    return b"".join((head, topic, record.promised_to, begun, information, optional))


def unpack_registration(value: bytes) -> Registration:
    try:
        version, session_id, promised, flags, *lengths = _REGISTRATION.unpack_from(value)
        if version != _REGISTRATION_VERSION:
            raise Malformed(f"a registration has version {version}")
        lengths.append(_U64.size if flags & _SPENT else 0)
        parts = _cut(value, _REGISTRATION.size, lengths)
        topic, instance, begun, information, spent = parts
        return Registration(
            SourceName(topic.decode(), session_id),
            promised,
            instance,
            begin_from_wire(BeginMessage.FromString(begun)),
            SourceInformation.FromString(information) if information else None,
            bool(flags & _CLEAN),
            bool(flags & _TAKEN_OVER),
            bool(flags & _BY_TAKE_OVER),
            bool(flags & _FENCES),
            bool(flags & _MAY_MISS),
            _U64.unpack(spent)[0] if spent else 0,
        )
    except (
        struct.error,
        DecodeError,
        UnicodeDecodeError,
        AssertionError,
        InvalidArgument,
    ) as error:
        raise Malformed(f"a registration cannot be read: {error}") from None


def _cut(value: bytes, at: int, lengths: list[int]) -> list[bytes]:
    parts = []
    for length in lengths:
        parts.append(value[at : at + length])
        at += length
    if at != len(value):
        raise Malformed(f"a record has {len(value)} bytes, not {at}")
    return parts


@dataclass(slots=True)
class Held:
    """The held part of a source's stream."""

    ranges: RangeSet
    next_sequence: int = 0
    """The next sequence number of the stream. Every lower one is held, or is a known hole."""
    stable_upto: int = NOTHING
    bytes: int = 0
    """The bytes of all batches ever taken."""
    set_aside: int = 0
    """The number of messages ever set aside."""
    retained_from: int = 0
    """The first sequence number that retention keeps. All lower ones were stable and were let go,
    here or at another store. Copies that are still here are served until they go, too."""
    archived_upto: int = NOTHING
    """The sequence number up to which an archive has everything."""
    released_bytes: int = 0
    """The bytes of batches that have left the stream here, or may leave the journal at once."""

    @property
    def high(self) -> int:
        """The highest number that is held or was let go; NOTHING if there is none."""
        return max(self.ranges.high, self.retained_from - 1)


_HELD = struct.Struct(">qqQQqqQI")


def pack_held(held: Held) -> bytes:
    ranges = [_SIGNED_PAIR.pack(item.first, item.last) for item in held.ranges]
    head = _HELD.pack(
        held.next_sequence,
        held.stable_upto,
        held.bytes,
        held.set_aside,
        held.retained_from,
        held.archived_upto,
        held.released_bytes,
        len(ranges),
    )
    return head + b"".join(ranges)


def unpack_held(value: bytes) -> Held:
    try:
        next_sequence, stable_upto, held_bytes, set_aside, *rest, count = _HELD.unpack_from(value)
        if len(value) != _HELD.size + count * _SIGNED_PAIR.size:
            raise Malformed(f"a row of held ranges has {len(value)} bytes for {count} ranges")
        pairs = _SIGNED_PAIR.iter_unpack(value[_HELD.size :])
        ranges = RangeSet(Range(first, last) for first, last in pairs)
    except (struct.error, AssertionError) as error:
        raise Malformed(f"a row of held ranges cannot be read: {error}") from None
    return Held(ranges, next_sequence, stable_upto, held_bytes, set_aside, *rest)


_RELEASED = struct.Struct(">QI")


def pack_released(reg_id: int, size: int) -> bytes:
    """Pack the row of a batch that is to leave the journal. size: as in IndexEntry."""
    return _RELEASED.pack(reg_id, size)


def unpack_released(value: bytes) -> tuple[int, int]:
    """Return the RegID of the source and the size."""
    try:
        reg_id, size = _RELEASED.unpack(value)
        return reg_id, size
    except struct.error as error:
        raise Malformed(f"a row of a released batch cannot be read: {error}") from None


_EPOCH = struct.Struct(">Q")


def pack_marker(marker: Marker) -> bytes:
    return _EPOCH.pack(marker.epoch) + marker.value


def unpack_marker(key: bytes, value: bytes) -> tuple[int, Marker]:
    """Return the RegID of the source and the marker."""
    try:
        reg_id, sequence = _PAIR.unpack(key)
        epoch = int(_EPOCH.unpack_from(value)[0])
        return reg_id, Marker(sequence, epoch, value[_EPOCH.size :])
    except struct.error as error:
        raise Malformed(f"a marker cannot be read: {error}") from None


@dataclass(slots=True)
class ReceiverRecord:
    """A receiver's registration with one source."""

    reg_id: int
    epoch: int
    acknowledged_upto: int = NOTHING
    instance: bytes = b""
    """The instance that registered in this epoch. The two make its ballot."""
    waited_for: bool = True
    """Whether retention, and a source that is paced by its receivers, wait for this receiver."""
    confirmed_epoch: int = 0
    """The receiver's epoch in which it acknowledged last, or was new. Once that epoch was ended by
    a deregistration the position is void."""
    application: Application = UNNAMED
    """The application that registered last since the store started. It is not on the disk."""
    registered_here: bool = field(default=False, compare=False)
    """Whether it registered since the store started, or went into limbo. It is not on the disk."""

    @property
    def ballot(self) -> tuple[int, bytes]:
        return self.epoch, self.instance


_RECEIVER = struct.Struct(f">QQq?Q{INSTANCE_BYTES_MAX + 1}p")


def pack_receiver(record: ReceiverRecord) -> bytes:
    return _RECEIVER.pack(
        record.reg_id,
        record.epoch,
        record.acknowledged_upto,
        record.waited_for,
        record.confirmed_epoch,
        record.instance,
    )


def unpack_receiver(value: bytes) -> ReceiverRecord:
    try:
        reg_id, epoch, upto, waited_for, confirmed, instance = _RECEIVER.unpack(value)
    except struct.error as error:
        raise Malformed(f"a receiver's record cannot be read: {error}") from None
    return ReceiverRecord(reg_id, epoch, upto, instance, waited_for, confirmed)


COMMIT_KEY = b"commit"


@dataclass(frozen=True, slots=True)
class CommitRecord:
    """The record that goes with every commit."""

    number: int = 0
    position: int = 0
    """A journal position behind every batch of this commit and of earlier ones."""


def pack_commit(record: CommitRecord) -> bytes:
    return _PAIR.pack(record.number, record.position)


def unpack_commit(value: bytes) -> CommitRecord:
    try:
        return CommitRecord(*_PAIR.unpack(value))
    except struct.error as error:
        raise Malformed(f"the last commit's record cannot be read: {error}") from None


STORE_KEY = b"store"


@dataclass(frozen=True, slots=True)
class StoreRecord:
    """The durable state of a store as a whole."""

    incarnation: bytes
    starts: int = 0
    """The number of times that the store was started with its directory."""
    limbo: str = ""
    """Why the store as a whole is in limbo; empty: it is not."""
    blank: bool = False
    """Whether the store belongs to no founded group yet and never held anything."""
    founders: tuple[Greeting, ...] = ()
    """The stores that were blank together when the group was founded, as far as known."""
    former: tuple[bytes, ...] = ()
    """Incarnations of this name that the present one has replaced, as far as peers told."""
    by_hand: bool = False
    """Whether an operator ended the limbo of the whole store. It may lack more than it knows."""


_STORE = struct.Struct(">BQBHHIH")
_BLANK, _BY_HAND = 1, 2
_STORE_VERSION = 5


def pack_store(record: StoreRecord) -> bytes:
    reason = record.limbo.encode()
    founders = StoreInventory(founders=record.founders).SerializeToString()
    former = b"".join(map(_counted, record.former))
    head = _STORE.pack(
        _STORE_VERSION,
        record.starts,
        record.blank * _BLANK | record.by_hand * _BY_HAND,
        len(record.incarnation),
        len(reason),
        len(founders),
        len(former),
    )
    return b"".join((head, record.incarnation, reason, founders, former))


def unpack_store(value: bytes) -> StoreRecord:
    try:
        version, starts, flags, *lengths = _STORE.unpack_from(value)
        if version != _STORE_VERSION:
            raise Malformed(f"the store's record has version {version}")
        incarnation, reason, founders, former = _cut(value, _STORE.size, lengths)
        return StoreRecord(
            incarnation,
            starts,
            reason.decode(),
            bool(flags & _BLANK),
            tuple(StoreInventory.FromString(founders).founders),
            tuple(_uncounted(former)),
            bool(flags & _BY_HAND),
        )
    except (struct.error, DecodeError, UnicodeDecodeError, IndexError) as error:
        raise Malformed(f"the store's record cannot be read: {error}") from None


def _counted(part: bytes) -> bytes:
    return bytes((len(part),)) + part


def _uncounted(value: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(value):
        end = at + 1 + value[at]
        yield value[at + 1 : end]
        at = end


_LIMBO_PREFIX = b"limbo/"
_PEER_PREFIX = b"peer/"


def limbo_key(reg_id: int) -> bytes:
    """Return the key of the row that has the reason of a source's limbo, as text."""
    return _LIMBO_PREFIX + _U64.pack(reg_id)


def limbo_reg_id(key: bytes) -> int:
    return int(_U64.unpack(key[len(_LIMBO_PREFIX) :])[0])


LIMBO_KEYS = (_LIMBO_PREFIX, _LIMBO_PREFIX + b"\xff" * 8)
"""The lowest and the highest key of sources in limbo."""


def peer_key(store: str) -> bytes:
    """Return the key of the row with the last greeting of a peer."""
    return _PEER_PREFIX + store.encode()


PEER_KEYS = (_PEER_PREFIX, _PEER_PREFIX + b"\xff" * 8)
"""The lowest and the highest key of greetings."""


def pack_greeting(greeting: Greeting) -> bytes:
    return greeting.SerializeToString()


def unpack_greeting(value: bytes) -> Greeting:
    try:
        return Greeting.FromString(value)
    except DecodeError as error:
        raise Malformed(f"a peer's greeting cannot be read: {error}") from None
