"""Stores that are only a list of batches, and a runner that is no Spark."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from quorate.pipeline.archive.falling_through import StoresAndArchive
from quorate.pipeline.archive.tasks import Entry
from quorate.pipeline.rules.known_source import KnownSource
from quorate.pipeline.stores.client import Catalogue, Stores
from quorate.pipeline.timeouts import TIMEOUTS, Timeouts
from quorate.protocol.answers import Piece
from quorate.protocol.attributes import checked_attributes
from quorate.protocol.errors import MissingMessages, QuorateError
from quorate.protocol.framing import encode_batch, read_header
from quorate.protocol.identity import SourceName
from quorate.protocol.lineage import ArchivedPlace, Lineage, Term
from quorate.protocol.policy import Membership, Policy
from quorate.protocol.ranges import HeldRange, Range, RangeSet
from quorate.protocol.recovery import Marker
from quorate.protocol.times import times_of
from quorate.protocol.wire import membership_to_wire, source_to_wire
from quorate.v1 import messages_pb2 as v1

ORDERS = SourceName("orders", 0x10)
TRADES = SourceName("trades", 0xFFFF_FFFF_FFFF_FFF0)
POLICY = Policy.majority_of(("a", "b", "c"))
MEMBERSHIP = Membership((POLICY,), (POLICY,), (("a", "h:1"), ("b", "h:2"), ("c", "h:3")))
FIRST = Lineage((Term(1, 0),))
DAY_NS = 86_400 * 10**9
NOON_NS = 20_778 * DAY_NS + DAY_NS // 2 + 123_456_789  # 2026-11-21


def batch(
    first: int,
    last: int,
    epoch: int = 1,
    source: SourceName = ORDERS,
    *,
    time_ns: int = NOON_NS,
    salt: str = "",
    marker: bytes = b"",
    attributes: bool = False,
    passing_ns: int = 0,
) -> bytes:
    """passing_ns: the time that passes between two of its messages."""
    payloads = [f"{salt}message {n}".encode() for n in range(first, last + 1)]
    encoded = [
        checked_attributes(
            b"key %d" % n if n % 3 else None,
            {"b": b"\0", "a": b"%d" % n},
            n % 4 == 1,
            NOON_NS + n if n % 4 else None,
        )
        for n in range(first, last + 1)
    ]
    times = times_of([time_ns + passing_ns * n for n in range(len(payloads))])
    return encode_batch(
        source,
        epoch,
        first,
        payloads,
        times.least_ns,
        marker,
        encoded if attributes else (),
        times.later,
    )


@dataclass
class Stream:
    """One source, as the stores have it."""

    lineage: Lineage = FIRST
    frames: list[bytes] = field(default_factory=list)
    stable_upto: int = -1
    losses: tuple[HeldRange, ...] = ()
    retained_from: int = 0
    markers: tuple[Marker, ...] = ()
    promised_epoch: int = 1


class FakeStores(Stores):
    """Answers from memory."""

    def __init__(
        self,
        streams: dict[SourceName, Stream],
        topic_pattern: str = "",
        timeouts: Timeouts = TIMEOUTS,
    ) -> None:
        super().__init__(["h:1", "h:2", "h:3"], topic_pattern, timeouts)
        self.streams = streams
        self.archived: dict[SourceName, int] = {}

    def sources_within(self, grace: float) -> Catalogue:
        del grace
        return Catalogue(
            {name: self._known(name, stream) for name, stream in self.streams.items()},
            self.addresses,
            {},
            (),
        )

    def sources_with_news(self, archived: Mapping[SourceName, ArchivedPlace]) -> Catalogue:
        del archived
        return self.sources()

    def _known(self, name: SourceName, stream: Stream) -> KnownSource:
        headers = [read_header(frame) for frame in stream.frames]
        held = RangeSet(Range(each.first, each.last) for each in headers)
        return KnownSource(
            name=name,
            lineage=stream.lineage,
            stable_upto=stream.stable_upto,
            held=held.both(RangeSet([Range(0, max(stream.stable_upto, 0))])),
            high=held.high,
            information=v1.SourceInformation(source=source_to_wire(name), version=3),
            live=False,
            stores=self.addresses,
            membership=membership_to_wire(MEMBERSHIP),
            promised_epoch=stream.promised_epoch,
            reg_id=7,
            losses=stream.losses,
            retained_from=stream.retained_from,
            markers=stream.markers,
        )

    def fetch(
        self, source: SourceName, lineage: Lineage, first: int, last: int, turn: int = 0
    ) -> Generator[Piece, None, None]:
        del turn
        for frame in self.streams[source].frames:
            header = read_header(frame)
            valid = lineage.valid(HeldRange(header.first, header.last, header.epoch))
            if valid is None or valid.last < first or valid.first > last:
                continue
            if valid.first > first:
                raise MissingMessages(str(source), first, valid.first - 1, "nobody")
            end = min(valid.last, last)
            yield Piece(frame, header, first, end)
            first = end + 1
        if first <= last:
            raise MissingMessages(str(source), first, last, "nobody")

    def tell_archived(self, archived: Mapping[SourceName, int]) -> dict[str, QuorateError]:
        self.archived.update(archived)
        return {}

    def first_since(self, source: SourceName, time_ns: int) -> int:
        headers = [read_header(frame) for frame in self.streams[source].frames]
        late = [each.first for each in headers if each.timestamp_ns >= time_ns]
        return min(late, default=headers[-1].last + 1)


class FakeBoth(StoresAndArchive, FakeStores):
    """Such stores with a real archive behind them."""

    def __init__(self, streams: dict[SourceName, Stream], path: str) -> None:
        StoresAndArchive.__init__(self, ["h:1", "h:2", "h:3"], path)
        self.streams = streams
        self.archived = {}


def here(parts: Sequence[Any], task: Callable[[Any], Iterator[Entry]]) -> list[Entry]:
    """Runs tasks one after the other, and has what they tell pass as JSON."""
    return [json.loads(json.dumps(entry)) for part in parts for entry in task(part)]
