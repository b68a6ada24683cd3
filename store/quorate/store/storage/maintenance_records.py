"""Durable records of a store's upkeep: accepted losses, what can not be read, how far it checked.

They stand in the table of what concerns the whole store. As with quorate.store.storage.records, a
change is a change of the format on the disk.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from google.protobuf.message import DecodeError

from quorate.protocol.errors import QuorateError
from quorate.protocol.identity import SourceName
from quorate.protocol.limits import NOTHING
from quorate.protocol.lineage import Lineage
from quorate.protocol.ranges import Range, RangeSet
from quorate.protocol.wire import lineage_from_wire, lineage_to_wire, source_to_wire
from quorate.store.storage.records import Malformed
from quorate.v1 import store_pb2 as store_v1

_U64 = struct.Struct(">Q")
_SIGNED_PAIR = struct.Struct(">qq")

_UNREADABLE_PREFIX = b"unreadable/"
_BAD_BATCH_PREFIX = b"bad-batch/"
_LOSS_PREFIX = b"loss/"

UNREADABLE_KEYS = (_UNREADABLE_PREFIX, _UNREADABLE_PREFIX + b"\xff" * 8)
"""Lowest and highest."""
BAD_BATCH_KEYS = (_BAD_BATCH_PREFIX, _BAD_BATCH_PREFIX + b"\xff" * 8)
"""Lowest and highest."""
LOSS_KEYS = (_LOSS_PREFIX, _LOSS_PREFIX + b"\xff" * 8)
"""Lowest and highest."""
SCRUB_KEY = b"scrub"


def unreadable_key(reg_id: int) -> bytes:
    return _UNREADABLE_PREFIX + _U64.pack(reg_id)


def unreadable_reg_id(key: bytes) -> int:
    return int(_U64.unpack_from(key, len(_UNREADABLE_PREFIX))[0])


def bad_batch_key(position: int) -> bytes:
    """Of a row without content: the batch at this position of the journal was unreadable."""
    return _BAD_BATCH_PREFIX + _U64.pack(position)


def bad_batch_position(key: bytes) -> int:
    return int(_U64.unpack_from(key, len(_BAD_BATCH_PREFIX))[0])


def pack_ranges(ranges: RangeSet) -> bytes:
    return b"".join(_SIGNED_PAIR.pack(item.first, item.last) for item in ranges)


def unpack_ranges(value: bytes) -> RangeSet:
    try:
        pairs = _SIGNED_PAIR.iter_unpack(value)
        return RangeSet(Range(first, last) for first, last in pairs)
    except (struct.error, AssertionError) as error:
        raise Malformed(f"a row of ranges can not be read: {error}") from None


@dataclass(frozen=True, slots=True)
class LossRecord:
    """What an operator accepted on this store, or what it learnt of that from elsewhere."""

    source: SourceName | None
    """None: the store as a whole."""
    first: int
    """NOTHING: the store left limbo with what it had."""
    last: int
    reason: str
    time_ns: int
    """ns since 1970, by the store's clock."""
    lineage: Lineage
    """In force when it was recorded: the numbers are those that it names."""

    def __str__(self) -> str:
        what = "the whole store" if self.source is None else str(self.source)
        if self.first == NOTHING:
            return f"left limbo for {what} with what there was: {self.reason}"
        return f"[{self.first}, {self.last}] of {what} is lost: {self.reason}"


def loss_key(number: int) -> bytes:
    """Losses are numbered in the order in which they were recorded."""
    return _LOSS_PREFIX + _U64.pack(number)


def loss_to_wire(record: LossRecord) -> store_v1.LossRecord:
    wire = store_v1.LossRecord(
        first=record.first,
        last=record.last,
        reason=record.reason,
        time_ns=record.time_ns,
        lineage=lineage_to_wire(record.lineage),
    )
    if record.source is not None:
        wire.source.CopyFrom(source_to_wire(record.source))
    return wire


def pack_loss(record: LossRecord) -> bytes:
    return loss_to_wire(record).SerializeToString()


def unpack_loss(value: bytes) -> LossRecord:
    try:
        wire = store_v1.LossRecord.FromString(value)
        source = SourceName(wire.source.topic, wire.source.session_id)
        return LossRecord(
            source if wire.HasField("source") else None,
            wire.first,
            wire.last,
            wire.reason,
            wire.time_ns,
            lineage_from_wire(wire.lineage),
        )
    except (DecodeError, QuorateError) as error:
        raise Malformed(f"a loss can not be read: {error}") from None


@dataclass(frozen=True, slots=True)
class ScrubRecord:
    """How far the store has read and checked what it holds."""

    passes: int = 0
    """Whole passes so far."""
    reg_id: int = 0
    """The source that is being read."""
    next_sequence: int = 0
    """Where it goes on in that source's stream; NOTHING: it waits for the next pass."""
    began: float = 0.0
    """When the pass began, s since 1970 by the store's clock."""


_SCRUB = struct.Struct(">QQqd")


def pack_scrub(record: ScrubRecord) -> bytes:
    return _SCRUB.pack(record.passes, record.reg_id, record.next_sequence, record.began)


def unpack_scrub(value: bytes) -> ScrubRecord:
    try:
        return ScrubRecord(*_SCRUB.unpack(value))
    except struct.error as error:
        raise Malformed(f"how far was checked can not be read: {error}") from None
