"""The rules of a dispatcher: which message goes to which consumer, and what is decided.

A message that has come is ready, or a consumer has a lease for it. Or it waits: for a time, or for
an earlier message of its key. Or it is dying, until it is published as a dead letter. Settlements
of consumers become decisions of the queue's stream. A consumer is answered once these are stable.
"""

from __future__ import annotations

import heapq
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from itertools import count
from math import inf

from quorate.protocol.bookmarks import NO_PLACE, Place, Position
from quorate.protocol.errors import InvalidArgument
from quorate.protocol.identity import SourceName
from quorate.protocol.queues import QueueSettings
from quorate.protocol.ranges import Range
from quorate.queue.protocol.consumers import CONSUMER_LEFT, Consumer, Leases
from quorate.queue.protocol.decisions import (
    Decision,
    Released,
    Settled,
    Snapshot,
    Tried,
    ranges_of,
)
from quorate.queue.protocol.track import Batch, Entry, Track

RELEASED_AT_ONCE = 256
"""The most messages whose leases end in one turn, so that no consumer that goes away with very many
holds up the store."""
REPEATED_TRIES = 2
"""The tries in vain from which on people are told of a message."""


class Kind(Enum):
    """A fate of messages, as a consumer reports it."""

    DONE = "done"
    RETRY = "retry"
    DISCARD = "discard"
    RETURN = "return"
    """The consumer has not begun, and gives them back. That is no try."""
    EXTEND = "extend"
    """The consumer needs longer. Its lease begins anew, if it lasts still."""


@dataclass(frozen=True, slots=True)
class Settlement:
    """A report of a consumer on messages of one source in one epoch."""

    source: SourceName
    epoch: int
    ranges: tuple[Range, ...]
    kind: Kind
    delay: float = 0.0
    """Seconds until messages that are retried may be handed out."""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """All of a consumer's settlements up to this number are stable."""

    consumer: Consumer
    number: int


@dataclass(slots=True)
class _Decided:
    """The effects that decisions have once they are stable."""

    number: int
    freed: list[Entry] = field(default_factory=list)
    """The messages that are settled then. The next one of their key may be handed out."""
    early: list[tuple[Track, Place]] = field(default_factory=list)
    """The messages that were settled before they came."""
    answers: list[Answer] = field(default_factory=list)


@dataclass(slots=True)
class Counts:
    """The numbers of messages since the dispatcher began."""

    done: int = 0
    dead: int = 0
    retried: int = 0
    dead_at: float = 0.0
    """When the last one became a dead letter."""


_Group = tuple[SourceName, int]


class Dispatch:
    """The dispatcher of one queue. All times are seconds of one clock that never jumps."""

    def __init__(self, settings: QueueSettings, zero_ns: int = 0) -> None:
        """Begin with an empty queue.

        zero_ns: the time of day at zero of the clock, in ns since 1970. Delays are kept by it.
        """
        self._settings = settings
        self._zero_ns = zero_ns
        self._tracks: dict[SourceName, Track] = {}
        self._leases = Leases(settings.lease_seconds)
        self._consumers: deque[Consumer] = deque()
        self._ready: deque[Entry] = deque()
        self._delayed: list[tuple[float, int, Entry]] = []
        self._order = count()
        self._of_key: dict[bytes, deque[Entry]] = {}
        """The messages of each key that are not settled. The first one may be handed out."""
        self._dying: list[Entry] = []
        self._repeated: set[Entry] = set()
        """The messages that are not settled, and were handed out REPEATED_TRIES times or more."""
        self.unsettled = 0
        """How many messages have come and are not settled."""
        self._unsettled_bytes = 0
        self.counts = Counts()

        self._settled: defaultdict[_Group, list[int]] = defaultdict(list)
        self._dead: defaultdict[_Group, list[int]] = defaultdict(list)
        self._released: defaultdict[tuple[SourceName, int, Tried], list[int]] = defaultdict(list)
        self._freed: list[Entry] = []
        self._early: list[tuple[Track, Place]] = []
        self._to_answer: dict[Consumer, None] = {}
        self._number = 0
        self._decided: deque[_Decided] = deque()

    # -- from the queue's stream ------------------------------------------------------------

    def restore(self, decision: Decision) -> None:
        """Take a decision of a former dispatcher. All come before the first message does."""
        match decision:
            case Snapshot(tracks):
                self._tracks = {each.source: Track.of(each) for each in tracks}
            case Settled(source, epoch, ranges):
                track = self._track(source)
                for number in _numbers(ranges):
                    track.settle_absent(epoch, number)
            case Released(source, epoch, ranges, tried):
                track = self._track(source)
                for number in _numbers(ranges):
                    track.note_tried(epoch, number, tried)

    @property
    def position(self) -> Position:
        """The position behind which a subscription gives everything that is not settled."""
        return Position(
            {source: track.upto for source, track in self._tracks.items() if track.upto != NO_PLACE}
        )

    def snapshot(self) -> Snapshot:
        """Return everything that was decided, for the stream.

        It belongs right behind the decisions that `decide` has returned last.
        """
        assert not any((self._settled, self._dead, self._released)), "decide first"
        return Snapshot(tuple(track.snapshot() for track in self._tracks.values()))

    # -- from the topics --------------------------------------------------------------------

    @property
    def has_room(self) -> bool:
        """Whether more messages may come."""
        return (
            self.unsettled < self._settings.window_messages
            and self._unsettled_bytes < self._settings.window_bytes
        )

    def arrived(self, batch: Batch, now: float) -> None:
        """Take the next messages of the topics."""
        track = self._track(batch.source)
        for entry in track.void_before(batch):
            self._gone(entry)
            self._free(entry, now)
        keys = batch.keys if self._settings.by_key else None
        for fresh in track.arrived(batch):
            key = keys[fresh.row] if keys is not None else None
            entry = Entry(track, batch, fresh.row, fresh.sequence, fresh.tried, key)
            if fresh.is_settled:
                self._arrived_settled(entry)
                continue
            track.entries[fresh.sequence] = entry
            self.unsettled += 1
            self._unsettled_bytes += entry.size
            self._note_repeated(entry)
            if key is not None and not self._is_first_of_key(entry, key):
                continue
            self._wait_or_ready(entry, now)

    def _arrived_settled(self, entry: Entry) -> None:
        """Let the later messages of a key wait until this one is settled for good."""
        entry.is_gone = True
        if entry.key is not None:
            self._is_first_of_key(entry, entry.key)
            entry.track.early[entry.place] = entry

    def passed(self, position: Position) -> None:
        """Note that everything up to here has come, or does not pass the queue's filter."""
        for source, place in position.items():
            self._track(source).passed(place)

    def _track(self, source: SourceName) -> Track:
        track = self._tracks.get(source)
        if track is None:
            track = self._tracks[source] = Track(source)
        return track

    def _is_first_of_key(self, entry: Entry, key: bytes) -> bool:
        entries = self._of_key.get(key)
        if entries is None:
            self._of_key[key] = deque((entry,))
            return True
        entries.append(entry)
        return False

    # -- consumers --------------------------------------------------------------------------

    @property
    def consumers(self) -> Iterable[Consumer]:
        """The consumers that are there."""
        return self._consumers

    def join(self, consumer: Consumer) -> None:
        """Hand messages to this consumer, too."""
        self._consumers.append(consumer)

    def leave(self, consumer: Consumer, now: float) -> None:
        """Hand out to others what a consumer has. Each of its leases counts as a try."""
        self._consumers.remove(consumer)
        self._to_answer.pop(consumer, None)
        self._leases.end(consumer, now, CONSUMER_LEFT)
        consumer.held.clear()
        self._release_ended(now)

    def settle(
        self, consumer: Consumer, number: int, settlements: Iterable[Settlement], now: float
    ) -> None:
        """Take what a consumer says of messages. number: the place among its settlements.

        A message counts as done also if another dispatcher, or another lease, has handed it out.
        Raises InvalidArgument if the consumer names more messages than it can have had.
        """
        for settlement in settlements:
            track = self._track(settlement.source)
            for sequence in _numbers(settlement.ranges):
                if settlement.kind is not Kind.EXTEND:
                    consumer.held.pop((settlement.source, sequence), None)
                entry = track.entry(settlement.epoch, sequence)
                if entry is not None:
                    self._settle(consumer, entry, settlement, now)
                elif settlement.kind is Kind.DONE:
                    self._settle_absent(consumer, track, settlement.epoch, sequence)
        consumer.number = number
        self._to_answer[consumer] = None

    def _settle(self, consumer: Consumer, entry: Entry, settlement: Settlement, now: float) -> None:
        if settlement.kind is Kind.DONE:
            self.counts.done += 1
            self._settled[entry.source, entry.epoch].append(entry.sequence)
            self._remove(entry)
        elif entry.lease is not None and entry.lease.consumer is consumer:
            match settlement.kind:
                case Kind.EXTEND:
                    self._leases.give(consumer, [entry], now)
                case Kind.RETURN:
                    entry.lease = None
                    self._ready.appendleft(entry)
                case Kind.RETRY:
                    self._release(entry, settlement.delay, settlement.reason, now)
                case Kind.DISCARD:
                    self._release(entry, inf, settlement.reason, now)

    def _settle_absent(self, consumer: Consumer, track: Track, epoch: int, sequence: int) -> None:
        """Settle a message that this dispatcher has not met yet, or that is settled."""
        if not track.settle_absent(epoch, sequence):
            return
        consumer.early += 1
        if consumer.early > self._settings.window_messages:
            raise InvalidArgument(
                "settlements",
                f"the consumer {consumer.name} names more messages than it can have had",
            )
        self.counts.done += 1
        self._settled[track.source, epoch].append(sequence)
        if self._settings.by_key:
            place = Place(epoch, sequence)
            track.early[place] = None
            self._early.append((track, place))

    def _release(self, entry: Entry, delay: float, reason: str, now: float) -> None:
        """Take a message from its consumer. It is handed out again, or it is dying.

        delay: seconds until then; inf: never.
        """
        tries = entry.tried.count + 1
        is_given_up = delay == inf or tries >= self._settings.tries
        due_ns = 0
        if delay and not is_given_up:
            due_ns = self._zero_ns + int((now + delay) * 1e9)
        entry.tried = Tried(tries, due_ns, is_given_up, reason)
        entry.lease = None
        self._note_repeated(entry)
        # The rest of its batch may be settled long before it is.
        entry.batch, entry.row = entry.batch.alone(entry.row), 0
        self._released[entry.source, entry.epoch, entry.tried].append(entry.sequence)
        self.counts.retried += 1
        self._wait_or_ready(entry, now)

    def _note_repeated(self, entry: Entry) -> None:
        if entry.tried.count >= REPEATED_TRIES:
            self._repeated.add(entry)

    def _wait_or_ready(self, entry: Entry, now: float) -> None:
        tried = entry.tried
        if tried.is_given_up:
            self._dying.append(entry)
        elif tried.due_ns and (due_at := (tried.due_ns - self._zero_ns) / 1e9) > now:
            heapq.heappush(self._delayed, (due_at, next(self._order), entry))
        elif tried.count:
            self._ready.appendleft(entry)
        else:
            self._ready.append(entry)

    def _remove(self, entry: Entry) -> None:
        """Remove a message that is settled. The next one of its key waits until that is stable."""
        del entry.track.entries[entry.sequence]
        self._gone(entry)
        if entry.key is not None:
            self._freed.append(entry)

    def _gone(self, entry: Entry) -> None:
        entry.is_gone = True
        entry.lease = None
        self._repeated.discard(entry)
        self.unsettled -= 1
        self._unsettled_bytes -= entry.size

    def _free(self, entry: Entry, now: float) -> None:
        """Let the next message of a key be handed out, if this was the first one."""
        if entry.key is None:
            return
        entries = self._of_key[entry.key]
        if entries[0] is not entry:
            # A consumer of a former dispatcher has settled it before it was its turn.
            entries.remove(entry)
            return
        entries.popleft()
        if entries:
            self._wait_or_ready(entries[0], now)
        else:
            del self._of_key[entry.key]

    # -- handing out ------------------------------------------------------------------------

    def hand_out(self, now: float) -> list[tuple[Consumer, list[Entry]]]:
        """Return the messages that consumers are handed now, each with a lease.

        Each of those with room is handed its share.
        """
        self._due(now)
        handed: list[tuple[Consumer, list[Entry]]] = []
        if not self._ready:
            return handed
        takers = [each for each in self._consumers if each.room > 0]
        while takers and self._ready:
            share = -(-len(self._ready) // len(takers))
            consumer = takers.pop()
            entries = self._next(min(share, consumer.room))
            if entries:
                self._leases.give(consumer, entries, now)
                handed.append((consumer, entries))
        # The next time another one comes first.
        self._consumers.rotate(1)
        return handed

    def _next(self, most: int) -> list[Entry]:
        ready, entries = self._ready, list[Entry]()
        while ready and len(entries) < most:
            entry = ready.popleft()
            if not entry.is_gone:
                entries.append(entry)
        return entries

    def _due(self, now: float) -> None:
        self._release_ended(now)
        while self._delayed and self._delayed[0][0] <= now:
            entry = heapq.heappop(self._delayed)[2]
            if not entry.is_gone:
                self._ready.appendleft(entry)

    def _release_ended(self, now: float) -> None:
        for entry, reason in self._leases.ended(now, RELEASED_AT_ONCE):
            self._release(entry, 0.0, reason, now)

    @property
    def due_at(self) -> float | None:
        """The time at which `hand_out` has something to do, without other events; None: never."""
        times = [self._leases.ends_at, self._delayed[0][0] if self._delayed else None]
        return min((each for each in times if each is not None), default=None)

    # -- dead letters -----------------------------------------------------------------------

    def take_dying(self) -> list[Entry]:
        """Return the messages that are to be published as dead letters, and then `buried`."""
        dying, self._dying = self._dying, []
        return [entry for entry in dying if not entry.is_gone]

    def buried(self, entries: Iterable[Entry], now: float) -> None:
        """Settle messages that are published as dead letters."""
        for entry in entries:
            if not entry.is_gone:
                self.counts.dead += 1
                self.counts.dead_at = now
                self._dead[entry.source, entry.epoch].append(entry.sequence)
                self._remove(entry)

    # -- decisions --------------------------------------------------------------------------

    def decide(self) -> tuple[int, list[Decision]]:
        """Return a number and what was decided since the last call, for the stream.

        The number is that of the last decisions if there are no new ones.
        """
        decisions: list[Decision] = []
        for (source, epoch), numbers in self._settled.items():
            decisions.append(Settled(source, epoch, _ranges(numbers)))
        for (source, epoch), numbers in self._dead.items():
            decisions.append(Settled(source, epoch, _ranges(numbers), dead=True))
        for (source, epoch, tried), numbers in self._released.items():
            decisions.append(Released(source, epoch, _ranges(numbers), tried))
        self._settled.clear()
        self._dead.clear()
        self._released.clear()
        answers = [Answer(consumer, consumer.number) for consumer in self._to_answer]
        self._to_answer.clear()
        if decisions:
            self._number += 1
        if decisions or answers:
            # Without decisions of its own an answer waits for those before it.
            self._decided.append(_Decided(self._number, self._freed, self._early, answers))
            self._freed, self._early = [], []
        return self._number, decisions

    def stable(self, number: int, now: float) -> list[Answer]:
        """Take note that decisions up to this number are stable; return the answers due now."""
        answers: list[Answer] = []
        while self._decided and self._decided[0].number <= number:
            decided = self._decided.popleft()
            answers += decided.answers
            for entry in decided.freed:
                self._free(entry, now)
            for track, place in decided.early:
                if (came := track.early.pop(place, None)) is not None:
                    self._free(came, now)
        return answers

    # -- for people -------------------------------------------------------------------------

    @property
    def ready(self) -> int:
        """How many messages wait for a consumer."""
        return sum(not entry.is_gone for entry in self._ready)

    @property
    def leased(self) -> int:
        """How many messages consumers have."""
        return sum(consumer.leased for consumer in self._consumers)

    @property
    def tries_of_repeated(self) -> list[int]:
        """The tries of each message that was handed out in vain repeatedly, and will be again."""
        return [each.tried.count for each in self._repeated if not each.tried.is_given_up]


def _numbers(ranges: Iterable[Range]) -> Iterator[int]:
    for each in ranges:
        yield from range(each.first, each.last + 1)


def _ranges(numbers: list[int]) -> tuple[Range, ...]:
    return tuple(ranges_of(sorted(numbers)))
