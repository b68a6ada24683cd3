"""The frames that a source puts on the wire, serialized. Nothing here knows who gets them."""

from __future__ import annotations

from dataclasses import dataclass

from quorate.protocol.fields import varint
from quorate.protocol.limits import PROTOCOL_VERSION
from quorate.v1.messages_pb2 import (
    AppendOpen,
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
    batch: bytes


_BATCH_TAG = b"\x0a"  # field 1, length-delimited
_STABLE_TAG = b"\x78"  # field 15, varint


def batch_frame(batch: bytes, stable_upto: int) -> bytes:
    """Return a frame with a batch, put together by hand: protobuf would copy the batch three
    times."""
    zigzag = stable_upto << 1 if stable_upto >= 0 else (-stable_upto << 1) - 1
    return b"".join((_BATCH_TAG, varint(len(batch)), batch, _STABLE_TAG, varint(zigzag)))


def batch_of(frame: bytes) -> bytes:
    """Return the batch in a frame that batch_frame made."""
    batch: bytes = Frame.FromString(frame).batch
    return batch


def open_frame(
    information: SourceInformation,
    instance: bytes,
    incarnation: bytes,
    retained_from: int,
    stable_upto: int,
    lifetimes: Lifetimes,
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
