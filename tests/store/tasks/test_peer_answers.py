"""What a store learns from the inventory of a peer, as soon as it has it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.store.ended import answer, end_for_good, engine_of, filled, knowledge
from tests.store.support import ORDERS, World

from quorate.protocol.errors import InvalidArgument
from quorate.protocol.identity import SourceName
from quorate.protocol.wire import source_to_wire
from quorate.store.rpc.inventory import inventory
from quorate.store.rules.lifetimes import Who
from quorate.store.rules.peer_knowledge import (
    Heard,
    PeerAnswer,
    SourceKnowledge,
)
from quorate.store.rules.peer_wire import knowledge_from_wire, source_inventory
from quorate.store.tasks.peer_answers import (
    AskAgain,
    Question,
    heard_from,
    read_inventory,
)
from quorate.store.turns import Turn
from quorate.v1 import store_pb2 as store_v1


@pytest.mark.parametrize(("remembered", "silent"), [(b"incarnation", 0.0), (b"another", 30.0)])
def test_a_source_that_streams_to_a_peer_lives_here_too(remembered: bytes, silent: float) -> None:
    """Whatever that says when it is asked next, and only if it knows who asks."""
    world = World()
    filled(world)
    lives, me = world.core.identities.lives, world.standing.greeting("s1:1", 0)
    before = lives.silent(Who(ORDERS))
    for _ in range(6):
        lives.observed.look(lives.observed.now + 5.0)
    known = store_v1.Greeting(store_name="s1", incarnation=remembered)
    told = replace(answer("s2", knowledge(live=True)), remembered=known)
    who = store_v1.Greeting(store_name="s2", incarnation=b"s2")
    heard = heard_from(engine_of(world), Question(me, 0, 0.0), told, who, 1.0, None)
    assert isinstance(heard, Heard)
    assert heard.counts == (not silent)
    assert lives.silent(Who(ORDERS)) - (before if silent else 0.0) == pytest.approx(silent)


async def told(
    world: World, source: SourceName | None = None, topic_pattern: str = ""
) -> dict[SourceName, SourceKnowledge]:
    """What the store says of its sources, or of some."""
    request = store_v1.InventoryRequest(topic_pattern=topic_pattern)
    if source is not None:
        request.source.CopyFrom(source_to_wire(source))
    me = world.standing.greeting("s1:1", 0)
    answer, _ = await read_inventory("s1:1", inventory(engine_of(world), me, request, Turn()))
    return dict(answer.sources)


async def test_an_end_that_all_have_is_told_only_to_who_asks_for_it() -> None:
    world, other = World(), SourceName("orders", 0x99)
    filled(world)
    filled(world, other)
    end_for_good(world)
    assert set(await told(world)) == {ORDERS, other}
    world.core.identities.ended[ORDERS].unlisted = True
    assert set(await told(world)) == set(await told(world, other)) == {other}
    known = (await told(world, ORDERS))[ORDERS]
    assert (known.begun.ended, known.begun.epoch, known.limbo) == (True, 2, False)
    assert not await told(world, SourceName("orders", 0x98))


async def test_who_asks_for_some_topics_hears_of_no_others() -> None:
    world, trades, other = World(), SourceName("trades", 0x10), SourceName("orders", 0x99)
    for source in (ORDERS, trades, other):
        filled(world, source)
    end_for_good(world)
    assert set(await told(world, topic_pattern="ord.*")) == {ORDERS, other}
    assert set(await told(world, topic_pattern="trad.*")) == {trades}
    assert set(await told(world, topic_pattern="rade")) == set()
    with pytest.raises(InvalidArgument, match="pattern"):
        await told(world, topic_pattern="(")


PEER = store_v1.Greeting(store_name="s2", incarnation=b"s2")


def asked(world: World, at: float = 0.0) -> Question:
    """A peer, just now."""
    return Question(world.standing.greeting("s1:1", 0), world.standing.moment, at)


def remembers(incarnation: bytes, peer: bytes = b"s2") -> PeerAnswer:
    """What a peer of that incarnation answers."""
    known = store_v1.Greeting(store_name="s1", incarnation=incarnation)
    return replace(answer("s2"), remembered=known, incarnation=peer)


def test_an_answer_to_who_the_store_was_when_it_asked_is_none() -> None:
    world = World()
    question = asked(world)
    world.write(world.core.enter_limbo("it was put back", b"another").writes)
    told = remembers(question.greeting.incarnation)
    assert heard_from(engine_of(world), question, told, PEER, 1.0, None) is None


def test_who_remembers_another_one_is_asked_again_once_the_store_can_name_that() -> None:
    world = World()
    engine, told = engine_of(world), remembers(b"what it was once")
    world.write(world.core.enter_limbo("its directory is new", b"new").writes)
    assert isinstance(heard_from(engine, asked(world), told, PEER, 1.0, None), AskAgain)
    heard = heard_from(engine, asked(world), told, PEER, 1.0, None)
    assert isinstance(heard, Heard)
    assert heard.counts


def test_who_remembers_what_the_store_never_was_does_not_count() -> None:
    world = World()
    told = remembers(b"another")
    heard = heard_from(engine_of(world), asked(world), told, PEER, 1.0, None)
    assert isinstance(heard, Heard)
    assert not heard.counts


def test_since_when_a_peer_was_heard_is_since_its_present_incarnation() -> None:
    world = World()
    engine, me = engine_of(world), world.standing.record.incarnation
    first = heard_from(engine, asked(world, 1.0), remembers(me), PEER, 2.0, None)
    assert isinstance(first, Heard)
    again = heard_from(engine, asked(world, 3.0), remembers(me), PEER, 4.0, first)
    assert isinstance(again, Heard)
    assert (again.asked, again.at, again.first) == (3.0, 4.0, 2.0)
    another = store_v1.Greeting(store_name="s2", incarnation=b"new", former=[b"s2"])
    heard = heard_from(engine, asked(world, 5.0), remembers(me, b"new"), another, 6.0, again)
    assert isinstance(heard, Heard)
    assert heard.first == 6.0


def test_what_a_peer_says_again_is_not_read_again() -> None:
    world = World()
    said = source_inventory(filled(world), limbo=False)
    known = knowledge_from_wire(said)
    assert knowledge_from_wire(said) is known
    said.stable_upto += 1
    assert knowledge_from_wire(said).stable_upto == known.stable_upto + 1
