"""The frames that a source puts on the wire, serialized. Nothing here knows who gets them."""

from __future__ import annotations

from dataclasses import dataclass

from quorate.protocol.attributes import NO_ATTRIBUTES
from quorate.protocol.fields import varint
from quorate.protocol.fragments import Batch, LargeBatch, encode_alone
from quorate.protocol.framing import compressed, encode_batch
from quorate.protocol.identity import SourceName
from quorate.protocol.limits import MESSAGE_BYTES_USUAL, PROTOCOL_VERSION
from quorate.protocol.times import times_of
from quorate.source.protocol.flight_window import Gathered
from quorate.v1.messages_pb2 import (
    AppendOpen,
    Application,
    Frame,
    Goodbye,
    Keepalive,
    Lifetimes,
    Skip,
    SourceInformation,
)


@dataclass(frozen=True, slots=True)
class Packed:
    """A batch that must be in the publish store before it is released."""

    first: int
    last: int
    batch: Batch


def pack(source: SourceName, epoch: int, gathered: Gathered, marker: bytes) -> Packed:
    """Return the batch of these messages. A message above the usual size comes alone."""
    first, payloads, attributes, each = gathered
    timestamp_ns, later = times_of(each)
    batch: Batch
    own = attributes[0] if attributes else NO_ATTRIBUTES
    if len(payloads) == 1 and len(payloads[0]) + own.size > MESSAGE_BYTES_USUAL:
        batch = encode_alone(source, epoch, first, payloads[0], timestamp_ns, own)
    else:
        batch = encode_batch(
            source, epoch, first, payloads, timestamp_ns, marker, attributes, later
        )
    return Packed(first, first + len(payloads) - 1, batch)


Framed = bytes | LargeBatch
"""A batch as the source retains it: a frame with all of it, or a large batch.

The frames of a large batch are made when they are sent. So its bytes are in memory once.
"""

_BATCH_TAG = b"\x0a"  # field 1, length-delimited
_FRAGMENT_TAG = b"\x42"  # field 8, length-delimited
_AT_TAG, _SIZE_TAG, _DATA_TAG = b"\x08", b"\x10", b"\x1a"  # fields 1 to 3 of Fragment
_STABLE_TAG = b"\x78"  # field 15, varint


def framed(batch: Batch, stable_upto: int, compression: object = None) -> Framed:
    """Return a batch as the source retains it. compression: None for a batch as it is."""
    if isinstance(batch, LargeBatch):
        return batch
    return batch_frame(compressed(batch) if compression else batch, stable_upto)


def batch_frame(batch: bytes, stable_upto: int) -> bytes:
    """Return a frame with a batch, put together by hand: protobuf would copy the batch three
    times."""
    stable = varint(_zigzag(stable_upto))
    return b"".join((_BATCH_TAG, varint(len(batch)), batch, _STABLE_TAG, stable))


def fragment_frame(batch: LargeBatch, at: int, stable_upto: int) -> bytes:
    """Return a frame with the fragment of a large batch at this offset."""
    data = batch.fragment(at)
    head = b"".join(
        (_AT_TAG, varint(at), _SIZE_TAG, varint(batch.size), _DATA_TAG, varint(len(data)))
    )
    stable = varint(_zigzag(stable_upto))
    length = varint(len(head) + len(data))
    return b"".join((_FRAGMENT_TAG, length, head, data, _STABLE_TAG, stable))


def _zigzag(number: int) -> int:
    return number << 1 if number >= 0 else (-number << 1) - 1


def batch_of(frame: Framed) -> Batch:
    """Return the batch that was given to `framed`."""
    if isinstance(frame, LargeBatch):
        return frame
    batch: bytes = Frame.FromString(frame).batch
    return batch


def open_frame(
    information: SourceInformation,
    instance: bytes,
    incarnation: bytes,
    retained_from: int,
    stable_upto: int,
    lifetimes: Lifetimes,
    application: Application | None = None,
) -> bytes:
    """Return the first frame of Store.Append."""
    return Frame(
        open=AppendOpen(
            information=information,
            instance=instance,
            incarnation=incarnation,
            retained_from=retained_from,
            protocol_version=PROTOCOL_VERSION,
            lifetimes=lifetimes,
            application=application,
        ),
        stable_upto=stable_upto,
    ).SerializeToString()


def skip_frame(first: int, last: int, stable_upto: int) -> bytes:
    return Frame(skip=Skip(first=first, last=last), stable_upto=stable_upto).SerializeToString()


def keepalive_frame(stable_upto: int) -> bytes:
    return Frame(keepalive=Keepalive(), stable_upto=stable_upto).SerializeToString()


def information_frame(information: SourceInformation, stable_upto: int) -> bytes:
    return Frame(information=information, stable_upto=stable_upto).SerializeToString()


def goodbye_frame(last_sequence: int, stable_upto: int) -> bytes:
    return Frame(
        goodbye=Goodbye(last_sequence=last_sequence), stable_upto=stable_upto
    ).SerializeToString()
