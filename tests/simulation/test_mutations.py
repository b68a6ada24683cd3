"""What the simulated worlds are worth: every guard that is taken out must be missed.

A guard is taken out by patching the production code in the test; nothing in production knows of
it. A world then ends with a violation of what must hold, within a bounded number of seeds.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any
from unittest.mock import patch

import pytest
from tests.simulation import store_actor
from tests.simulation.network import End
from tests.simulation.rules import majority_of
from tests.simulation.simulation import Failed, simulate
from tests.simulation.store_actor import StoreActor

from quorate.protocol import recovery
from quorate.protocol.framing import check_batch
from quorate.protocol.limits import NOTHING, SEQUENCE_MAX
from quorate.protocol.policy import Policy
from quorate.protocol.ranges import Range
from quorate.protocol.recovery import Decision, Lost, NeedMore
from quorate.receiver.acknowledgements import Acknowledgements
from quorate.receiver.core import Stream
from quorate.receiver.plan import FetchPlan, ProvenGap
from quorate.source import registration
from quorate.source.retention import Retention
from quorate.store import core as store_core
from quorate.store.core import StoreCore
from quorate.store.receivers import Receivers
from quorate.store.state import AppendStream, Change

Patch = Callable[[pytest.MonkeyPatch], None]

_real_decide = recovery.decide
_real_begin = StoreCore.begin
_real_open = StoreCore.open
_real_promise = StoreCore.promise
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

    async def commit(self: StoreActor, commit: Any) -> None:
        if commit.writes:
            self.disk.write(commit.writes)
            self.process.later(self.disk.sync_seconds(), self.disk.sync)

    to.setattr(StoreActor, "commit", commit)


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
    to.setattr(store_actor, "REPAIR_SECONDS", 2.0)


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

    def register(self: Receivers, source: Any, session_id: int, reg_id: int, epoch: int) -> Any:
        change = _real_register(self, source, session_id, reg_id, epoch)
        high = change.answer.high
        answer = dataclasses.replace(change.answer, acknowledged_upto=high)
        return dataclasses.replace(change, answer=answer)

    to.setattr(Receivers, "register", register)


@dataclasses.dataclass(frozen=True)
class Mutation:
    """A guard taken out, and the weather in which it is missed soonest."""

    patch: Patch
    weather: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    seeds: int = 50
    """In so many worlds at most."""

    def __str__(self) -> str:
        return self.patch.__name__.strip("_")


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
    Mutation(_repair_takes_any_lineage, {"kinds": ("strand_source", "partition"), **THREE}),
    Mutation(_positions_are_made_up),
)


def _first_found(weather: Mapping[str, Any], seeds: int) -> int | None:
    for seed in range(seeds):
        try:
            simulate(seed, **weather)
        except Failed:
            return seed
    return None


@pytest.mark.parametrize("mutation", MUTATIONS, ids=str)
def test_a_guard_that_is_taken_out_is_missed(
    mutation: Mutation, monkeypatch: pytest.MonkeyPatch
) -> None:
    mutation.patch(monkeypatch)
    assert _first_found(mutation.weather, mutation.seeds) is not None


def test_a_transport_that_loses_messages_is_survived(monkeypatch: pytest.MonkeyPatch) -> None:
    """What `gaps_are_taken` takes out is what makes the difference."""
    _lose_frames(monkeypatch)
    assert _first_found({}, 10) is None
