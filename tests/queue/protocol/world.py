"""A world of dispatchers that die, consumers that come and go, and a stream that may lose its end.

The model is simple: a message is over once its stream says so and that is stable. All that a
dispatcher does is checked against it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import NamedTuple, Self

from quorate.protocol.bookmarks import NO_PLACE, Place
from quorate.protocol.identity import SourceName
from quorate.protocol.queues import QueueSettings
from quorate.protocol.ranges import Range
from quorate.queue.protocol.consumers import Consumer
from quorate.queue.protocol.decisions import Decision, Released, Settled
from quorate.queue.protocol.dispatch import Dispatch, Kind, Settlement
from quorate.queue.protocol.track import Entry

LEASE_SECONDS = 10.0


class Message(NamedTuple):
    """A message of a topic."""

    source: SourceName
    epoch: int
    sequence: int
    key: bytes | None


@dataclass
class Batch:
    """Messages as a dispatcher gets them."""

    messages: Sequence[Message]
    before: Place

    @property
    def source(self) -> SourceName:
        return self.messages[0].source

    @property
    def epoch(self) -> int:
        return self.messages[0].epoch

    @property
    def numbers(self) -> list[int]:
        return [each.sequence for each in self.messages]

    @property
    def payloads(self) -> list[bytes]:
        return [b"x"] * len(self.messages)

    @property
    def keys(self) -> list[bytes | None]:
        return [each.key for each in self.messages]

    def alone(self, row: int) -> Self:
        return type(self)([self.messages[row]], NO_PLACE)


@dataclass
class Worker:
    """A consumer's process, as it outlives dispatchers."""

    name: str
    max_backlog: int
    consumer: Consumer | None = None
    jobs: list[Message] = field(default_factory=list)
    unanswered: list[tuple[int, Settlement]] = field(default_factory=list)
    number: int = 0
    answered: int = 0


class World:
    """One run from a seed."""

    def __init__(self, seed: int, *, by_key: bool, tries: int = 4) -> None:
        self.random = Random(seed)
        self.settings = QueueSettings(
            name="work",
            topics=("orders", "bills"),
            lease_seconds=LEASE_SECONDS,
            tries=tries,
            by_key=by_key,
            window_messages=12,
        )
        self.now = 0.0
        self.sources = [SourceName("orders", 1), SourceName("bills", 2)]
        self.epochs = dict.fromkeys(self.sources, 1)
        self.journal: dict[SourceName, list[Message]] = {source: [] for source in self.sources}
        self.former: set[Message] = set()
        """The messages of streams that were deleted."""
        self.stream: list[list[Decision]] = []
        self.stable = 0
        self.workers = [Worker(f"w{n}", self.random.choice((1, 2, 5))) for n in range(3)]
        self.handed: Counter[Message] = Counter()
        self.done: set[Message] = set()
        """The messages that a worker has finished."""
        self.over: set[Message] = set()
        """The messages that are over by the stable part of the stream."""
        self.answered_done: set[Message] = set()
        self.buried: list[Message] = []
        self.deaths = 0
        self.faults = True
        self.dispatch: Dispatch
        self.written: dict[int, int]
        self.start()

    # -- the dispatcher ---------------------------------------------------------------------

    def start(self) -> None:
        """Start a dispatcher on what is left of the stream."""
        if not self.faults:
            kept = len(self.stream)
        else:
            kept = self.random.randint(self.stable, len(self.stream))
        del self.stream[kept:]
        self.to_be_stable(kept)
        self.dispatch = Dispatch(self.settings)
        for decisions in self.stream:
            for decision in decisions:
                self.dispatch.restore(decision)
        self.read: dict[SourceName, Place] = dict(self.dispatch.position)
        self.written = {}
        for worker in self.workers:
            worker.consumer = None
            worker.jobs = [each for each in worker.jobs if self.random.random() < 0.5]

    def die(self) -> None:
        self.deaths += 1
        self.start()

    def deliver(self) -> None:
        """Let the dispatcher read some messages of one source."""
        if not self.dispatch.has_room:
            return
        source = self.random.choice(self.sources)
        messages, place = self.journal[source], self.read.get(source, NO_PLACE)
        if place != NO_PLACE and (
            place.sequence >= len(messages) or messages[place.sequence].epoch != place.epoch
        ):
            place = NO_PLACE  # the source began anew
        rest = messages[place.sequence + 1 :][: self.random.randint(1, 4)]
        rest = [each for each in rest if each.epoch == rest[0].epoch]
        if rest:
            self.read[source] = Place(rest[-1].epoch, rest[-1].sequence)
            self.dispatch.arrived(Batch(rest, place), self.now)

    def turn(self) -> None:
        """Let the dispatcher hand out, bury and decide."""
        for consumer, entries in self.dispatch.hand_out(self.now):
            worker = next(each for each in self.workers if each.consumer is consumer)
            for entry in entries:
                self._handed(worker, entry)
            assert len(consumer.held) <= consumer.max_backlog
        dying = self.dispatch.take_dying()
        self.buried += map(message_of, dying)
        self.dispatch.buried(dying, self.now)
        number, decisions = self.dispatch.decide()
        if self.random.random() < 0.2:
            decisions = [*decisions, self.dispatch.snapshot()]
        if decisions:
            self.stream.append(decisions)
            self.written[number] = len(self.stream)
        self.answer()

    def _handed(self, worker: Worker, entry: Entry) -> None:
        message = message_of(entry)
        assert message not in self.over, f"{message} was over, and is handed out"
        assert message not in self.former, f"{message} is of a stream that was deleted"
        self.handed[message] += 1
        if self.settings.by_key and message.key is not None:
            earlier = [
                each
                for each in self.journal[message.source][: message.sequence]
                if each.key == message.key and each not in self.over
            ]
            assert not earlier, f"{message} is handed out before {earlier}"
        worker.jobs.append(message)

    def to_be_stable(self, upto: int) -> None:
        """Let the stream be stable up to there."""
        for decisions in self.stream[self.stable : upto]:
            for decision in decisions:
                if isinstance(decision, Settled):
                    self.over |= self._messages(decision)
        self.stable = max(self.stable, upto)

    def _messages(self, decision: Settled | Released) -> set[Message]:
        found = set[Message]()
        for each in decision.ranges:
            for number in range(each.first, each.last + 1):
                message = self.message(decision.source, decision.epoch, number)
                if message is not None:
                    found.add(message)
        return found

    def message(self, source: SourceName, epoch: int, number: int) -> Message | None:
        messages = self.journal[source]
        found = messages[number] if number < len(messages) else None
        return found if found is not None and found.epoch == epoch else None

    def answer(self) -> None:
        number = max((n for n, upto in self.written.items() if upto <= self.stable), default=0)
        for answer in self.dispatch.stable(number, self.now):
            for worker in self.workers:
                if worker.consumer is answer.consumer:
                    self._answered(worker, answer.number)

    def _answered(self, worker: Worker, number: int) -> None:
        worker.answered = max(worker.answered, number)
        for each, settlement in worker.unanswered:
            if each <= number and settlement.kind is Kind.DONE:
                message = self.message(
                    settlement.source, settlement.epoch, settlement.ranges[0].first
                )
                assert message is None or message in self.over, f"{message} was answered too soon"
        worker.unanswered = [each for each in worker.unanswered if each[0] > number]

    # -- consumers --------------------------------------------------------------------------

    def join(self, worker: Worker) -> None:
        worker.consumer = Consumer(worker.name, worker.max_backlog)
        self.dispatch.join(worker.consumer)
        for number, settlement in worker.unanswered:
            self.dispatch.settle(worker.consumer, number, [settlement], self.now)

    def leave(self, worker: Worker) -> None:
        assert worker.consumer is not None
        self.dispatch.leave(worker.consumer, self.now)
        worker.consumer = None
        worker.jobs.clear()

    def finish(self, worker: Worker) -> None:
        """Let a worker finish one of its jobs, whoever has handed it out."""
        if not worker.jobs:
            return
        message = worker.jobs.pop(self.random.randrange(len(worker.jobs)))
        kind, delay = Kind.DONE, 0.0
        if self.faults:
            kind = self.random.choice((Kind.DONE,) * 6 + (Kind.RETRY, Kind.DISCARD, Kind.RETURN))
            delay = self.random.choice((0.0, 0.0, 30.0)) if kind is Kind.RETRY else 0.0
        if kind is Kind.DONE:
            self.done.add(message)
        worker.number += 1
        settlement = Settlement(
            message.source,
            message.epoch,
            (Range(message.sequence, message.sequence),),
            kind,
            delay,
            "because",
        )
        worker.unanswered.append((worker.number, settlement))
        if worker.consumer is not None:
            self.dispatch.settle(worker.consumer, worker.number, [settlement], self.now)

    # -- what happens -----------------------------------------------------------------------

    def send(self) -> None:
        source = self.random.choice(self.sources)
        if self.random.random() < 0.1:
            self.epochs[source] += 1
        messages = self.journal[source]
        key = self.random.choice((None, b"a", b"b"))
        messages.append(Message(source, self.epochs[source], len(messages), key))

    def begin_anew(self) -> None:
        """Let a source delete its stream, and begin another one."""
        source = self.random.choice(self.sources)
        self.former |= set(self.journal[source])
        self.journal[source] = []
        self.epochs[source] += 1
        for worker in self.workers:
            worker.jobs = [each for each in worker.jobs if each.source != source]
        # A subscription that runs ends with its stream; the dispatcher opens another one.
        self.send_to(source)

    def send_to(self, source: SourceName) -> None:
        self.journal[source].append(Message(source, self.epochs[source], 0, b"a"))
        self.read[source] = Place(self.epochs[source], 0)
        self.dispatch.arrived(Batch(self.journal[source][:1], NO_PLACE), self.now)

    def step(self) -> None:
        worker = self.random.choice(self.workers)
        match self.random.randrange(40):
            case 0:
                self.die()
            case 1 if worker.consumer is not None:
                self.leave(worker)
            case 2:
                self.now += self.random.choice((1.0, LEASE_SECONDS + 1))
            case 3 if self.random.random() < 0.1:
                self.begin_anew()
            case n if n < 8:
                self.send()
            case n if n < 16:
                self.deliver()
            case n if n < 20:
                self.to_be_stable(self.random.randint(self.stable, len(self.stream)))
                self.answer()
            case n if n < 28:
                self.finish(worker)
            case n if n < 30 and worker.consumer is None:
                self.join(worker)
            case _:
                self.turn()

    def run(self, steps: int) -> None:
        for _ in range(steps):
            self.step()

    def complete(self) -> None:
        """End the faults, and let everything be done."""
        self.faults = False
        for _ in range(400):
            for worker in self.workers:
                if worker.consumer is None:
                    self.join(worker)
                while worker.jobs:
                    self.finish(worker)
            self.now += LEASE_SECONDS + 1
            for _ in range(4):
                self.deliver()
            self.turn()
            self.to_be_stable(len(self.stream))
            self.answer()
        everything = {each for messages in self.journal.values() for each in messages}
        lost = everything - self.over
        assert not lost, f"never over: {sorted(lost)[:5]}"
        assert everything <= self.done | set(self.buried), "over, but neither done nor buried"
        assert self.dispatch.unsettled == 0
        assert not any(worker.unanswered for worker in self.workers)


def message_of(entry: Entry) -> Message:
    """Return the message of an entry."""
    batch = entry.batch
    assert isinstance(batch, Batch)
    return batch.messages[entry.row]
