"""Durable records of a store's maintenance: accepted losses, unreadable ranges, the scrub's place.

They are rows of the table META. A change here changes the format on the disk, as in
quorate.store.storage.records. When such a record is written is decided elsewhere.
"""

from __future__ import annotations

import enum
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
_REFUSAL_PREFIX = b"refusal/"

UNREADABLE_KEYS = (_UNREADABLE_PREFIX, _UNREADABLE_PREFIX + b"\xff" * 8)
"""The lowest and the highest key of unreadable ranges."""
BAD_BATCH_KEYS = (_BAD_BATCH_PREFIX, _BAD_BATCH_PREFIX + b"\xff" * 8)
"""The lowest and the highest key of unreadable batches."""
LOSS_KEYS = (_LOSS_PREFIX, _LOSS_PREFIX + b"\xff" * 8)
"""The lowest and the highest key of accepted losses."""
REFUSAL_KEYS = (_REFUSAL_PREFIX, _REFUSAL_PREFIX + b"\xff" * 8)
"""The lowest and the highest key of ranges for which a source was refused."""
SCRUB_KEY = b"scrub"


def unreadable_key(reg_id: int) -> bytes:
    return _UNREADABLE_PREFIX + _U64.pack(reg_id)


def unreadable_reg_id(key: bytes) -> int:
    return int(_U64.unpack_from(key, len(_UNREADABLE_PREFIX))[0])


def refusal_key(reg_id: int) -> bytes:
    """Return the key of the ranges for which a store refused the other content of this source."""
    return _REFUSAL_PREFIX + _U64.pack(reg_id)


def refusal_reg_id(key: bytes) -> int:
    return int(_U64.unpack_from(key, len(_REFUSAL_PREFIX))[0])


def bad_batch_key(position: int) -> bytes:
    """Return the key that notes an unreadable batch at this journal position. It has no value."""
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
        raise Malformed(f"a row of ranges cannot be read: {error}") from None


class Poison(enum.IntEnum):
    """The decision of an operator about the delivery of messages, as on the wire."""

    NONE = 0
    MARKED = 1
    """The messages must not be delivered."""
    REMOVED = 2
    """The messages may be delivered again."""


@dataclass(frozen=True, slots=True)
class LossRecord:
    """A loss that an operator accepted, here or elsewhere; or a conflict that one settled here."""

    source: SourceName | None
    """The source; None: the store as a whole."""
    first: int
    """The first lost sequence number; NOTHING: the store left limbo with what it had."""
    last: int
    reason: str
    time_ns: int
    """The time of the record in ns since 1970, by the store's clock."""
    lineage: Lineage
    """The lineage in force when the loss was recorded. The lost numbers belong to it."""
    kept: str = ""
    """The store whose content is kept, of a settled conflict; empty: the numbers are lost."""
    poison: Poison = Poison.NONE
    """Whether the numbers were marked as poison, or a mark was removed. They are not lost then."""

    def __str__(self) -> str:
        what = "the whole store" if self.source is None else str(self.source)
        if self.first == NOTHING:
            return f"left limbo for {what} with what there was: {self.reason}"
        if self.kept:
            return (
                f"the conflict of {what} for [{self.first}, {self.last}] is settled, and the "
                f"content of store {self.kept} is kept: {self.reason}"
            )
        part = f"[{self.first}, {self.last}] of {what}"
        if self.poison is Poison.MARKED:
            return f"{part} is poison and is not delivered: {self.reason}"
        if self.poison is Poison.REMOVED:
            return f"{part} is no longer poison: {self.reason}"
        return f"{part} is lost: {self.reason}"


def loss_key(number: int) -> bytes:
    """Return the key of a loss. Losses are numbered in the order in which they were recorded."""
    return _LOSS_PREFIX + _U64.pack(number)


def loss_to_wire(record: LossRecord) -> store_v1.LossRecord:
    wire = store_v1.LossRecord(
        first=record.first,
        last=record.last,
        reason=record.reason,
        time_ns=record.time_ns,
        lineage=lineage_to_wire(record.lineage),
        kept=record.kept,
        poison=store_v1.Poison.Name(record.poison),
    )
    if record.source is not None:
        wire.source.CopyFrom(source_to_wire(record.source))
    return wire


def loss_from_wire(wire: store_v1.LossRecord) -> LossRecord:
    """Return the record in a wire message. Raises QuorateError."""
    source = SourceName(wire.source.topic, wire.source.session_id)
    return LossRecord(
        source if wire.HasField("source") else None,
        wire.first,
        wire.last,
        wire.reason,
        wire.time_ns,
        lineage_from_wire(wire.lineage),
        wire.kept,
        Poison(wire.poison),
    )


def pack_loss(record: LossRecord) -> bytes:
    return loss_to_wire(record).SerializeToString()


def unpack_loss(value: bytes) -> LossRecord:
    try:
        return loss_from_wire(store_v1.LossRecord.FromString(value))
    except (DecodeError, QuorateError, ValueError) as error:
        raise Malformed(f"a record of a loss cannot be read: {error}") from None


@dataclass(frozen=True, slots=True)
class ScrubRecord:
    """The place of the scrub, which reads and checks everything that the store holds."""

    passes: int = 0
    """The number of completed passes."""
    reg_id: int = 0
    """The RegID of the source that is being read."""
    next_sequence: int = 0
    """The next sequence number to read of that source; NOTHING: the next pass is not due yet."""
    began: float = 0.0
    """The time at which the pass began, in s since 1970 by the store's clock; 0: none has begun."""


_SCRUB = struct.Struct(">QQqd")


def pack_scrub(record: ScrubRecord) -> bytes:
    return _SCRUB.pack(record.passes, record.reg_id, record.next_sequence, record.began)


def unpack_scrub(value: bytes) -> ScrubRecord:
    try:
        return ScrubRecord(*_SCRUB.unpack(value))
    except struct.error as error:
        raise Malformed(f"the scrub's record cannot be read: {error}") from None
