"""Decisions of a queue as messages of its stream, and back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from google.protobuf.message import DecodeError

from quorate.protocol.bookmarks import Place
from quorate.protocol.errors import CorruptBatch, InvalidArgument
from quorate.protocol.identity import SourceName
from quorate.protocol.ranges import Range
from quorate.protocol.wire import source_from_wire, source_to_wire
from quorate.queue.protocol.decisions import (
    Decision,
    Released,
    Settled,
    Snapshot,
    TrackSnapshot,
    Tried,
)
from quorate.v1 import queue_pb2 as v1
from quorate.v1 import store_pb2 as store_v1


def encode(decisions: Iterable[Decision]) -> bytes:
    """Return the message of these decisions."""
    message = v1.QueueDecisions()
    for decision in decisions:
        wire = message.decisions.add()
        match decision:
            case Settled():
                wire.settled.CopyFrom(_settled(decision))
            case Released():
                wire.released.CopyFrom(_released(decision))
            case Snapshot(tracks):
                wire.snapshot.tracks.extend(map(_track, tracks))
    return message.SerializeToString()


def decode(payload: bytes, where: str) -> Iterator[Decision]:
    """Yield the decisions of a message. Raises CorruptBatch.

    where: the message, for the error.
    """
    try:
        for wire in v1.QueueDecisions.FromString(payload).decisions:
            match wire.WhichOneof("kind"):
                case "settled":
                    yield _settled_from(wire.settled)
                case "released":
                    yield _released_from(wire.released)
                case "snapshot":
                    yield Snapshot(tuple(map(_track_from, wire.snapshot.tracks)))
    except (DecodeError, InvalidArgument) as error:
        raise CorruptBatch(where, f"it has no decisions of a queue: {error}") from None


def bounds_of(ranges: Iterable[Range]) -> list[int]:
    """Return first and last number of each range."""
    return [bound for each in ranges for bound in (each.first, each.last)]


def ranges_from(bounds: Sequence[int]) -> tuple[Range, ...]:
    """Return the ranges of first and last numbers. Raises InvalidArgument."""
    pairs = list(zip(bounds[::2], bounds[1::2], strict=False))
    if len(bounds) % 2 or any(first > last for first, last in pairs):
        raise InvalidArgument("bounds", f"{list(bounds)[:10]} are no ranges")
    return tuple(Range(first, last) for first, last in pairs)


def _settled(decision: Settled) -> v1.QueueSettled:
    return v1.QueueSettled(
        source=source_to_wire(decision.source),
        epoch=decision.epoch,
        bounds=bounds_of(decision.ranges),
        dead=decision.dead,
    )


def _settled_from(wire: v1.QueueSettled) -> Settled:
    source = source_from_wire(wire.source)
    return Settled(source, wire.epoch, ranges_from(wire.bounds), wire.dead)


def _released(decision: Released) -> v1.QueueReleased:
    return v1.QueueReleased(
        source=source_to_wire(decision.source),
        epoch=decision.epoch,
        bounds=bounds_of(decision.ranges),
        tried=_tried(decision.tried),
    )


def _released_from(wire: v1.QueueReleased) -> Released:
    source = source_from_wire(wire.source)
    return Released(source, wire.epoch, ranges_from(wire.bounds), _tried_from(wire.tried))


def _tried(tried: Tried) -> v1.Tried:
    return v1.Tried(
        count=tried.count,
        due_ns=tried.due_ns,
        given_up=tried.is_given_up,
        reason=tried.reason,
    )


def _tried_from(wire: v1.Tried) -> Tried:
    return Tried(wire.count, wire.due_ns, wire.given_up, wire.reason)


def _track(track: TrackSnapshot) -> v1.QueueTrack:
    source = track.source
    wire = v1.QueueTrack(floor=_place(source, track.floor), upto=_place(source, track.upto))
    for place, tried in track.outstanding.items():
        wire.outstanding.add(epoch=place.epoch, sequence=place.sequence, tried=_tried(tried))
    wire.ahead.extend(
        _settled(Settled(source, epoch, ranges)) for epoch, ranges in track.ahead.items()
    )
    wire.tried.extend(
        _released(Released(source, place.epoch, (Range(place.sequence, place.sequence),), tried))
        for place, tried in track.tried.items()
    )
    return wire


def _track_from(wire: v1.QueueTrack) -> TrackSnapshot:
    ahead = map(_settled_from, wire.ahead)
    beyond = map(_released_from, wire.tried)
    return TrackSnapshot(
        source_from_wire(wire.floor.source),
        Place(wire.floor.epoch, wire.floor.sequence),
        Place(wire.upto.epoch, wire.upto.sequence),
        {Place(each.epoch, each.sequence): _tried_from(each.tried) for each in wire.outstanding},
        {each.epoch: each.ranges for each in ahead},
        {Place(each.epoch, each.ranges[0].first): each.tried for each in beyond},
    )


def _place(source: SourceName, place: Place) -> store_v1.Place:
    return store_v1.Place(source=source_to_wire(source), epoch=place.epoch, sequence=place.sequence)
