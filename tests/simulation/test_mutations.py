"""What the simulated worlds are worth: every guard that is taken out must be missed.

A guard is taken out by patching the production code in the test; nothing in production knows of
it. A world then ends with a violation of what must hold, within a bounded number of seeds.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any
from unittest.mock import patch

import pytest
from tests.simulation import store_upkeep
from tests.simulation.checker import Checker
from tests.simulation.network import End
from tests.simulation.rules import majority_of
from tests.simulation.simulation import Failed, simulate
from tests.simulation.store_actor import StoreActor
from tests.simulation.store_writer import SimulatedWriter

from quorate.protocol import recovery
from quorate.protocol.framing import check_batch, encode_batch, read_header, read_payloads
from quorate.protocol.identity import SourceName
from quorate.protocol.limits import NOTHING, SEQUENCE_MAX
from quorate.protocol.lineage import Lineage
from quorate.protocol.policy import Policy
from quorate.protocol.ranges import HeldRange, Range, RangeSet
from quorate.protocol.recovery import Decision, Lost, NeedMore
from quorate.receiver.acknowledgements import Acknowledgements
from quorate.receiver.core import Stream
from quorate.receiver.plan import FetchPlan, ProvenGap
from quorate.source import core as source_core
from quorate.source import registration, survivors
from quorate.source.core import SourceCore
from quorate.source.retention import Retention
from quorate.source.streams import Streams
from quorate.store import batches
from quorate.store import core as store_core
from quorate.store.core import StoreCore
from quorate.store.receivers import Receivers
from quorate.store.state import AppendStream, Change
from quorate.v1 import messages_pb2 as v1

Patch = Callable[[pytest.MonkeyPatch], None]

_real_decide = recovery.decide
_real_begin = StoreCore.begin
_real_open = StoreCore.open
_real_promise = StoreCore.promise
_real_again = survivors.sent_again
_real_skip = StoreCore.skip
_real_register = Receivers.register


def _promise_leaves_the_stream(to: pytest.MonkeyPatch) -> None:
    """A promise does not end the stream of the lower epoch."""
    to.setattr(StoreCore, "_end_stream", staticmethod(lambda *_: ()))


def _begin_below_the_promise(to: pytest.MonkeyPatch) -> None:
    """A begin of a lower epoch than the promised one is taken."""

    def begin(self: StoreCore, source: Any, epoch: int, *rest: Any) -> Change[int]:
        state = self.sources.get(source)
        if state is not None and state.registration.begun_epoch < epoch:
            state.registration = dataclasses.replace(
                state.registration, promised_epoch=epoch, promised_to=rest[-1]
            )
        return _real_begin(self, source, epoch, *rest)

    to.setattr(StoreCore, "begin", begin)


def _same_promise_to_anyone(to: pytest.MonkeyPatch) -> None:
    """An epoch that was promised to one instance is promised to another, too."""

    def promise(self: StoreCore, source: Any, epoch: int, instance: bytes, *rest: Any) -> Any:
        state = self.sources.get(source)
        if state is not None and epoch == state.registration.promised_epoch:
            state.registration = dataclasses.replace(state.registration, promised_to=instance)
        return _real_promise(self, source, epoch, instance, *rest)

    to.setattr(StoreCore, "promise", promise)


def _promise_is_not_durable(to: pytest.MonkeyPatch) -> None:
    """A promise is answered without being written."""

    def promise(self: StoreCore, *arguments: Any) -> Any:
        change = _real_promise(self, *arguments)
        state = change.answer.state
        return dataclasses.replace(change, writes=() if state.held.ranges else change.writes)

    to.setattr(StoreCore, "promise", promise)


def _no_blocking_set(to: pytest.MonkeyPatch) -> None:
    """Whoever has answered by the end of the interval is enough to decide."""

    def decide(*arguments: Any) -> Decision | NeedMore | Lost:
        with patch.object(Policy, "blocks", lambda _, stores: bool(stores)):
            return _real_decide(*arguments)

    to.setattr(registration, "decide", decide)


def _no_floor(to: pytest.MonkeyPatch) -> None:
    """What may have been stable on silent stores does not count."""
    to.setattr(recovery, "_may_be_stable_upto", lambda *_: NOTHING)


def _nothing_is_set_aside(to: pytest.MonkeyPatch) -> None:
    """A store keeps its tail when it takes a lineage over that does not have it."""
    to.setattr(store_core, "diverges_at", lambda *_: SEQUENCE_MAX)


def _acknowledged_before_the_sync(to: pytest.MonkeyPatch) -> None:
    """A store acknowledges what is written and not synced."""

    async def commit(self: SimulatedWriter, commit: Any) -> None:
        if commit.writes:
            self._disk.write(commit.writes)
            self._process.later(self._disk.sync_seconds(), self._disk.sync_for_sure)

    to.setattr(SimulatedWriter, "_commit", commit)


def _gaps_are_taken(to: pytest.MonkeyPatch) -> None:
    """A store takes a batch that does not go on where the last one ended."""
    _lose_frames(to)

    def check_next(self: StoreCore, stream: AppendStream, header: Any) -> None:
        self._check_open(stream)
        stream.expected = header.first

    to.setattr(StoreCore, "_check_next", check_next)


def _lose_frames(to: pytest.MonkeyPatch) -> None:
    """A transport that now and then loses a message in the middle of a stream."""
    real = End.transmit

    def transmit(self: End, arrive: Callable[[], None]) -> None:
        is_client = self.other is not None and self.other.process.name.startswith("store")
        world = self.process.world
        if is_client and self.process.name.startswith("source") and world.chooser.random() < 0.02:
            world.fault("message lost", self.process.name)
            return
        real(self, arrive)

    to.setattr(End, "transmit", transmit)


def _unstable_is_forgotten(to: pytest.MonkeyPatch) -> None:
    """The source lets go of what is not stable, and the stores take it for a hole."""

    def trim(self: Retention, *_: int) -> None:
        while len(self) > 3:
            self._frames.popleft()
            self.base += 1
        self._settled = max(self._settled, self.base)

    to.setattr(Retention, "trim", trim)


def _unstable_is_acknowledged(to: pytest.MonkeyPatch) -> None:
    """A receiver acknowledges what is not stable."""

    def position(self: Acknowledgements, _: int) -> int | None:
        return self.consumed_upto()

    to.setattr(Acknowledgements, "position", position)


def _one_no_is_a_gap(to: pytest.MonkeyPatch) -> None:
    """A receiver gives up what one store lacks."""

    def gap(self: FetchPlan) -> ProvenGap | None:
        stream = self._stream
        if stream.behind:
            first = stream.next
            for peer in self._stores.values():
                if (upto := peer.refuses_upto(first)) >= first:
                    return ProvenGap(first, min(upto, stream.missing()[0].last), ())
        return None

    to.setattr(FetchPlan, "gap", gap)
    to.setattr(store_upkeep, "REPAIR_SECONDS", 2.0)


def _nothing_is_held_back(to: pytest.MonkeyPatch) -> None:
    """A receiver that wants what is stable is handed everything."""
    to.setattr(Stream, "_limit", lambda _: SEQUENCE_MAX)


def _repair_takes_any_lineage(to: pytest.MonkeyPatch) -> None:
    """Repair takes batches that the store's lineage does not name."""

    def fill(self: StoreCore, source: Any, frame: bytes, lacking: Range) -> Change[Range | None]:
        header = check_batch(frame)
        first, last = max(header.first, lacking.first), min(header.last, lacking.last)
        if first > last:
            return Change(None)
        state = self.sources[source]
        return Change(Range(first, last), self._take(state, header, frame, last))

    to.setattr(StoreCore, "fill", fill)


def _positions_are_made_up(to: pytest.MonkeyPatch) -> None:
    """A store says that a receiver has acknowledged everything."""

    def register(self: Receivers, *arguments: Any) -> Any:
        change = _real_register(self, *arguments)
        high = change.answer.high
        answer = dataclasses.replace(change.answer, acknowledged_upto=high)
        return dataclasses.replace(change, answer=answer)

    to.setattr(Receivers, "register", register)


def _stores_count_before_they_begin(to: pytest.MonkeyPatch) -> None:
    """What a store said in its promise counts towards stability before it has begun."""
    real = SourceCore._begin

    def begin(self: SourceCore, decision: Decision) -> None:
        real(self, decision)
        for store, held in decision.holders.items():
            self.tracker.join(store)
            self.tracker.acknowledge(store, held.contiguous_upto(self.stable_upto + 1))

    to.setattr(SourceCore, "_begin", begin)


def _void_batches_are_kept(to: pytest.MonkeyPatch) -> None:
    """A recovery counts what a store holds, of whatever epoch."""

    def belonging(_: Lineage, held: Iterable[HeldRange]) -> RangeSet:
        return RangeSet(Range(item.first, item.last) for item in held)

    to.setattr(Lineage, "belonging", belonging)


def _set_aside_counts_as_held(to: pytest.MonkeyPatch) -> None:
    """What was set aside still counts as held."""
    real = StoreCore._set_aside

    def set_aside(self: StoreCore, state: Any, first: int) -> Any:
        before = RangeSet(state.held.ranges)
        answer = real(self, state, first)
        state.held.ranges = before
        return answer

    to.setattr(StoreCore, "_set_aside", set_aside)


def _answers_before_the_commit(to: pytest.MonkeyPatch) -> None:
    """A store answers what is not durable yet."""

    async def made_durable(self: StoreActor, state: Any, change: Change[Any]) -> Any:
        self.engine.end_streams(change)
        self.engine.submit(state, change.writes)
        return change.answer

    to.setattr(StoreActor, "made_durable", made_durable)


def _withdrawn_stays_consumed(to: pytest.MonkeyPatch) -> None:
    """A receiver goes on counting from what was withdrawn."""
    to.setattr(Acknowledgements, "withdraw", lambda *_: None)


def _receivers_take_void_batches(to: pytest.MonkeyPatch) -> None:
    """A receiver takes batches of epochs that the lineage does not name for their numbers."""

    def valid(_: Stream, __: Any, first: int, last: int) -> Range | None:
        return Range(first, last) if first <= last else None

    to.setattr(Stream, "_valid", valid)


def _stable_of_any_epoch(to: pytest.MonkeyPatch) -> None:
    """A receiver takes `stable` of another lineage for its own."""
    real = Stream.stable

    def stable(self: Stream, upto: int, _: int) -> None:
        real(self, upto, self.lineage.epoch)

    to.setattr(Stream, "stable", stable)


def _old_epochs_are_sent(to: pytest.MonkeyPatch) -> None:
    """A source that sends again what it has as it was, of its old epoch."""

    def again(source: SourceName, _: int, kept_upto: int, unstable: Sequence[bytes]) -> Any:
        for own in unstable:
            epoch = read_header(own).epoch
            yield from _real_again(source, epoch, kept_upto, [own])

    to.setattr(source_core, "sent_again", again)


def _stores_take_any_epoch(to: pytest.MonkeyPatch) -> None:
    """A store takes a batch of an epoch that its lineage does not name."""
    _old_epochs_are_sent(to)
    real = StoreCore.append

    def append(self: StoreCore, stream: AppendStream, frame: bytes, stable_upto: int) -> Any:
        epoch, stream.epoch = stream.epoch, read_header(frame).epoch
        try:
            return real(self, stream, frame, stable_upto)
        finally:
            stream.epoch = epoch

    to.setattr(StoreCore, "append", append)
    to.setattr(store_core, "_check_belongs", lambda *_: None)


def _numbers_are_used_twice(to: pytest.MonkeyPatch) -> None:
    """A source that sends a store what it has already, with other content."""
    real_opened, real_frame = Streams.opened, Streams.next_frame
    held: dict[tuple[int, str], int] = {}

    def opened(self: Streams, store: str, next_sequence: int, *rest: Any) -> None:
        held[id(self), store] = next_sequence
        real_opened(self, store, min(next_sequence, rest[-1].first), *rest)

    def next_frame(self: Streams, store: str, *rest: Any) -> bytes | None:
        frame = real_frame(self, store, *rest)
        if frame is None or self.cursors[store].next_sequence > held[id(self), store]:
            return frame
        return _other_content(frame)

    to.setattr(Streams, "opened", opened)
    to.setattr(Streams, "next_frame", next_frame)


def _other_content(frame: bytes) -> bytes:
    parsed = v1.Frame.FromString(frame)
    if parsed.WhichOneof("kind") != "batch":
        return frame
    header = check_batch(parsed.batch)
    payloads = [payload[::-1] for payload in read_payloads(parsed.batch, header)]
    parsed.batch = encode_batch(
        header.source, header.epoch, header.first, payloads, header.timestamp_ns
    )
    return parsed.SerializeToString()


def _skips_of_unstable_are_taken(to: pytest.MonkeyPatch) -> None:
    """A store lets a source skip what is not stable."""
    _unstable_is_forgotten(to)

    def skip(self: StoreCore, stream: AppendStream, first: int, last: int) -> Any:
        stream.state.held.stable_upto = max(stream.state.held.stable_upto, last)
        return _real_skip(self, stream, first, last)

    to.setattr(StoreCore, "skip", skip)


@dataclasses.dataclass(frozen=True)
class Mutation:
    """A guard taken out, and the weather in which it is missed soonest."""

    patch: Patch
    weather: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    rules: tuple[str, ...] = ("I1", "I2", "I3", "I4", "I5", "I6", "AssertionError")
    """What is seen to be violated, one of them; production has assertions of its own."""
    seeds: int = 50
    """In so many worlds at most."""

    def __str__(self) -> str:
        return self.patch.__name__.strip("_")


SAFETY = ("I1", "I2", "I3", "I4", "I5")
THREE = {"setups": (majority_of(["store1", "store2", "store3"]),)}

MUTATIONS = (
    Mutation(_promise_leaves_the_stream),
    Mutation(_begin_below_the_promise),
    Mutation(_same_promise_to_anyone),
    Mutation(_promise_is_not_durable, seeds=400),
    Mutation(_no_blocking_set, {"kinds": ("fail_sync", "pause_source", "crash_stores"), **THREE}),
    Mutation(_no_floor),
    Mutation(_nothing_is_set_aside, {"kinds": ("strand_source",)}),
    Mutation(_acknowledged_before_the_sync),
    Mutation(_gaps_are_taken),
    Mutation(_unstable_is_forgotten),
    Mutation(_unstable_is_acknowledged, {"kinds": ("strand_source", "crash_receiver")}),
    Mutation(
        _one_no_is_a_gap,
        {"kinds": ("leave_behind", "crash_receiver"), "pause_between_sends": 0.03, **THREE},
    ),
    Mutation(_nothing_is_held_back),
    Mutation(_positions_are_made_up),
    Mutation(_set_aside_counts_as_held, {"kinds": ("strand_at_begin", "crash_store")}),
    Mutation(
        _stores_take_any_epoch,
        {
            "outlives": True,
            "honest": False,
            "faulty_seconds": 2.0,
            "complete_seconds": 3.0,
            "kinds": ("crash_source",),
            **THREE,
        },
        ("I3",),
    ),
    Mutation(_skips_of_unstable_are_taken, {"kinds": ("leave_behind", "crash_store")}, ("I1",)),
)


def _first_found(weather: Mapping[str, Any], rules: tuple[str, ...], seeds: int) -> int | None:
    for seed in range(seeds):
        try:
            simulate(seed, **weather)
        except Failed as failed:
            if failed.rule in rules:
                return seed
    return None


@pytest.mark.parametrize("mutation", MUTATIONS, ids=str)
def test_a_guard_that_is_taken_out_is_missed(
    mutation: Mutation, monkeypatch: pytest.MonkeyPatch
) -> None:
    mutation.patch(monkeypatch)
    assert _first_found(mutation.weather, mutation.rules, mutation.seeds) is not None


def test_other_content_under_a_number_that_is_held_is_reported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What is held and acknowledged stays what it was either way: the comparison only tells of a
    source that is broken. So it is missed by its reports, not by what must always hold."""
    _numbers_are_used_twice(monkeypatch)

    told: list[object] = []
    monkeypatch.setattr(Checker, "conflict", lambda _, error: told.append(error))

    def reports() -> int:
        told.clear()
        weather = {"kinds": ("crash_store", "reset_connections"), "complete_seconds": 1.0, **THREE}
        _first_found(weather, (), 10)
        return len(told)

    assert reports() > 0
    monkeypatch.setattr(batches, "same_content", lambda *_: True)
    assert reports() == 0


@pytest.mark.parametrize(
    "breach",
    [_lose_frames, _old_epochs_are_sent, _numbers_are_used_twice, _unstable_is_forgotten],
    ids=lambda breach: breach.__name__.strip("_"),
)
def test_a_peer_that_breaks_the_protocol_costs_nothing_that_is_stable(
    breach: Patch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may get stuck; what the store's guards do about it is what the mutations take out."""
    breach(monkeypatch)
    weather = {"honest": False, "faulty_seconds": 2.0, "complete_seconds": 3.0}
    assert _first_found(weather, SAFETY, 10) is None
