"""A store's tasks look at the sources that change, not at all that are still."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import count
from typing import Any
from unittest.mock import Mock

import pytest
from tests import seams
from tests.store.ended import Heardsay, answer, end, engine_of, keeping_with, knowledge
from tests.store.support import ORDERS, World, batch

from quorate.protocol.identity import SourceName
from quorate.store.engine import Engine
from quorate.store.rpc.inventory import inventory
from quorate.store.rpc.operator import Upkeep
from quorate.store.rules.accepted_losses import Losses
from quorate.store.rules.peer_knowledge import Heard, PeerAnswer
from quorate.store.rules.retention import Ages, Bounds
from quorate.store.rules.subscriptions import Subscriptions
from quorate.store.storage.maintenance_records import ScrubRecord
from quorate.store.tasks.lag import LagWatch
from quorate.store.tasks.peer_answers import Question, heard_from, read_inventory
from quorate.store.tasks.proxy import Proxying
from quorate.store.tasks.retention import Releasing
from quorate.store.turns import Turn
from quorate.v1 import store_pb2 as store_v1

COUNT = 30
ONE = SourceName("still", 7)


@pytest.fixture
def world() -> World:
    """A store with sources that have closed."""
    made = World()
    for number in range(1, COUNT + 1):
        source = SourceName("still", number)
        stream = made.stream(source=source)
        for first in (0, 5):
            made.append(stream, batch(first, first + 4, source=source), stable_upto=9)
        made.core.streams.closed(stream)
    return made


@pytest.fixture
def looked_at(monkeypatch: pytest.MonkeyPatch) -> Callable[[seams.Seam], list[SourceName]]:
    """Return the sources that a task looks at from now on, by the function that looks."""

    def counting(seam: seams.Seam) -> list[SourceName]:
        looked, look = list[SourceName](), seam.real()

        async def counted(self: Any, state: Any, *more: Any, **named: Any) -> Any:
            looked.append(state.name)
            return await look(self, state, *more, **named)

        seam.replace(monkeypatch, counted)
        return looked

    return counting


Counting = Callable[[seams.Seam], list[SourceName]]


async def test_the_keeper_looks_at_what_has_changed(world: World, looked_at: Counting) -> None:
    looked, heard = looked_at(seams.KEEPER_LOOK_AT), Heardsay()
    keeper = keeping_with(world, heard)
    for steady in (1.0, 2.0, 3.0):
        await keeper.look(steady)
    assert len(looked) == COUNT
    keeper._engine.news.note(ONE)
    await keeper.look(4.0)
    assert looked[COUNT:] == [ONE]


async def test_a_look_of_the_keeper_that_failed_is_made_up_for(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    keeper, looked = keeping_with(world, Heardsay()), list[SourceName]()

    async def looks(_: Any, state: Any, *__: Any) -> None:
        looked.append(state.name)
        if len(looked) == 5:
            raise ValueError("once")

    seams.KEEPER_LOOK_AT.replace(monkeypatch, looks)
    with pytest.raises(ValueError, match="once"):
        await keeper.look(1.0)
    await keeper.look(2.0)
    assert set(looked) == set(world.core.sources)


async def test_the_proxy_looks_at_what_has_changed(world: World, looked_at: Counting) -> None:
    engine, looked = engine_of(world), looked_at(seams.PROXYING_LOOK_AT)
    peers: Any = Heardsay()
    proxying, lives = Proxying(engine, peers, enabled=True), world.core.identities.lives
    await proxying.look(0.0, Turn())
    assert not engine.announced, "none has been silent for long"
    for steady in (5.0, 10.0):
        lives.observed.look(steady)
        await proxying.look(steady, Turn())
    assert engine.announced == set(world.core.sources)
    await proxying.look(15.0, Turn())  # to have announced them was a change
    before = len(looked)
    for steady in (20.0, 25.0):
        await proxying.look(steady, Turn())
    assert len(looked) == before
    engine.note(ONE)
    await proxying.look(30.0, Turn())
    assert looked[before:] == [ONE]


async def test_repair_looks_after_what_has_changed(world: World, looked_at: Counting) -> None:
    engine, looked = engine_of(world), looked_at(seams.REPAIR_MEND)
    peers: Any = Heardsay()
    losses = Losses("s1", world.core.sources, world.storage)
    upkeep = Upkeep(engine, Mock(), peers, "s1:1", losses, ScrubRecord(), 0.0)
    now = count(time.monotonic() + 1e3, 1e3)
    upkeep.repair._clock = lambda: next(now)
    for _ in range(4):
        await upkeep.repair._look_round()
    assert len(looked) == COUNT
    world.core.streams.learn_stable(world.core.sources[ONE], 9)
    engine.submit(world.core.sources[ONE], (world.core.sources[ONE].held_row(),))
    world.core.sources[ONE].held.stable_upto = 8
    await upkeep.repair._look_round()
    assert looked[COUNT:] == [ONE]


async def test_repair_looks_after_a_source_of_a_peer_that_lost_its_data(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What that peer has is compared anew, though it says the same as before."""
    world, looks = World(), list[SourceName]()
    world.core.streams.closed(world.stream())

    async def looked(_: Any, state: Any, *__: Any, **___: Any) -> bool:
        looks.append(state.name)
        return True

    seams.REPAIR_MEND.replace(monkeypatch, looked)
    told = answer("s2", knowledge())
    engine, peers = engine_of(world), Heardsay(told)
    heard: Any = peers
    losses = Losses("s1", world.core.sources, world.storage)
    repair = Upkeep(engine, Mock(), heard, "s1:1", losses, ScrubRecord(), 0.0).repair
    for _ in range(3):
        await repair._look_round()
    assert looks == [ORDERS]
    peers.hear(replace(told, incarnation=b"another"), 1.0)
    engine.news.note(ORDERS)
    await repair._look_round()
    assert looks == [ORDERS, ORDERS]


@pytest.mark.parametrize("bounds", [Bounds(messages=100), Bounds(seconds=1e6)])
async def test_retention_looks_at_what_has_changed(
    world: World, looked_at: Counting, bounds: Bounds
) -> None:
    engine, looked = engine_of(world), looked_at(seams.RELEASING_LOOK_AT)
    peers: Any = Heardsay()
    with ThreadPoolExecutor(1) as executor:
        releasing = Releasing(
            engine, executor, peers, world.storage, lambda _: bounds, bounds.seconds, Ages(),
            Subscriptions("s1", 1), 0, lambda _: None, lambda _: False,
        )  # fmt: skip
        for _ in range(3):
            await releasing.round()
        assert len(looked) == COUNT
        engine.note(ONE)
        await releasing.round()
    assert looked[COUNT:] == [ONE]


async def test_retention_looks_again_at_what_a_condition_keeps(
    world: World, looked_at: Counting
) -> None:
    looked = looked_at(seams.RELEASING_LOOK_AT)
    peers: Any = Heardsay()
    bounds = Bounds(messages=5, until=frozenset(("archived",)))
    with ThreadPoolExecutor(1) as executor:
        releasing = Releasing(
            engine_of(world), executor, peers, world.storage, lambda _: bounds, 0.0, Ages(),
            Subscriptions("s1", 1), 0, lambda _: None, lambda _: False,
        )  # fmt: skip
        for _ in range(2):
            await releasing.round()
    assert len(looked) == 2 * COUNT


async def test_the_look_at_lags_is_one_at_what_has_changed(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, looked = engine_of(world), list[SourceName]()
    peers: Any = Heardsay()
    watch = LagWatch(engine, peers)

    def lack(_: Any, source: SourceName, __: Any) -> None:
        looked.append(source)

    monkeypatch.setattr(watch, "_lack", lambda source, answers: lack(watch, source, answers))
    await watch.look()
    await watch.look()
    assert len(looked) == COUNT
    engine.note(ONE)
    await watch.look()
    assert looked[COUNT:] == [ONE]


# Inventories.


class Asker:
    """A store that asks another one again and again."""

    def __init__(self, asked: Engine) -> None:
        self._asked = asked
        self.engine = engine_of(World())
        self.heard: Heard | None = None
        self.named: list[SourceName] = []
        """The sources of the last answer."""

    async def ask(self) -> PeerAnswer:
        me = self._asked.core.standing.greeting("s2:1", 0)
        me.store_name = "s2"
        before = self.heard
        moment = before.answer.moment if before is not None else None
        request = store_v1.InventoryRequest(since=moment)
        responses = [each async for each in inventory(self._asked, me, request, Turn())]
        self.named = [
            SourceName(each.source.topic, each.source.session_id)
            for response in responses
            for each in response.sources
        ]

        async def each() -> Any:
            for response in responses:
                yield response

        earlier = before.answer if before is not None else None
        told, who = await read_inventory("s2:1", each(), earlier)
        question = Question(self.engine.core.standing.greeting("s1:1", 0), 0, 0.0)
        heard = heard_from(self.engine, question, told, who, 1.0, before)
        assert isinstance(heard, Heard)
        self.heard = heard
        return told

    async def ask_for_all(self) -> PeerAnswer:
        self.heard = None
        return await self.ask()


async def test_an_inventory_names_what_has_changed_since_the_one_before(world: World) -> None:
    engine = engine_of(world)
    asker = Asker(engine)
    first = await asker.ask()
    assert set(asker.named) == set(world.core.sources) == set(first.sources)
    before = asker.engine.news.count
    assert (await asker.ask()).sources == first.sources
    assert not asker.named
    state = world.core.sources[ONE]
    state.held.stable_upto = 7
    engine.submit(state, (state.held_row(),))
    told = await asker.ask()
    assert asker.named == [ONE]
    assert told.knowledge(ONE).stable_upto == 7
    assert asker.engine.news.since(before) == [ONE], "and nothing else is news to the asker"
    assert told.sources == (await asker.ask_for_all()).sources


async def test_an_inventory_names_a_source_that_streams_every_time(world: World) -> None:
    engine = engine_of(world)
    asker = Asker(engine)
    stream = world.open(source=ONE)
    engine.opened(stream, Mock())
    for _ in range(3):
        told = await asker.ask()
        assert told.knowledge(ONE).live
    assert asker.named == [ONE]
    engine.closed(stream)
    assert not (await asker.ask()).knowledge(ONE).live
    await asker.ask()
    assert not asker.named


async def test_a_source_that_is_gone_is_named_as_gone(world: World) -> None:
    engine = engine_of(world)
    asker = Asker(engine)
    await asker.ask()
    del world.core.sources[ONE]
    engine.note(ONE)
    told = await asker.ask()
    assert not asker.named
    assert ONE not in told.sources
    assert len(told.sources) == COUNT - 1


async def test_ended_sources_are_named_as_long_as_they_are_in_a_whole_inventory(
    world: World,
) -> None:
    engine = engine_of(world)
    asker = Asker(engine)
    await asker.ask()
    known = end(world, ONE)
    engine.has_ended(ONE)
    for _ in range(2):
        assert (await asker.ask()).knowledge(ONE).begun.ended
    known.unlisted = True
    told = await asker.ask()
    assert ONE not in told.sources
    assert told.sources == (await asker.ask_for_all()).sources


async def test_a_store_in_limbo_and_one_that_was_started_anew_name_all(world: World) -> None:
    asker = Asker(engine_of(world))
    await asker.ask()
    asker._asked = engine_of(world)
    assert (await asker.ask()).told is None
    assert len(asker.named) == COUNT
    state = world.core.sources[ONE]
    asker._asked.submit(state, state.enter_limbo("a test"))
    told = await asker.ask()
    assert told.told is None
    assert told.moment is None
    assert len(asker.named) == COUNT
    state.limbo = ""
    await asker.ask()
    assert len(asker.named) == COUNT, "it could not say since when"


async def test_what_a_peer_says_of_a_source_is_news_once() -> None:
    engine = engine_of(World())
    known = knowledge(stable_upto=5)
    question = Question(engine.core.standing.greeting("s1:1", 0), 0, 0.0)
    who = store_v1.Greeting(store_name="s2", incarnation=b"s2")
    before, counts = None, list[int]()
    for each in (known, known, replace(known, stable_upto=6)):
        told = answer("s2", each)
        heard = heard_from(engine, question, told, who, 1.0, before)
        assert isinstance(heard, Heard)
        before = heard
        counts.append(engine.news.count)
    assert counts == [1, 1, 2]
    assert engine.news.since(0) == [ORDERS]
    assert not engine.changes.count, "nothing of it is news to other peers"
