"""What the engine notes when a stream is opened, and when it is over."""

from __future__ import annotations

from typing import Any

import pytest
from tests.store.ended import engine_of
from tests.store.support import MEMBERSHIP, ORDERS, World, batch

from quorate.protocol.begin import BeginRecord
from quorate.protocol.errors import SourceActive
from quorate.protocol.lineage import Lineage, Term
from quorate.store.rules.acceptor import Missed
from quorate.store.watchers import by_topic


class Call:
    """Serves a stream until it is told that the stream is over."""

    def end(self, error: Exception) -> None:
        self.ended = error


def test_who_streamed_to_a_stream_that_is_over_keeps_nobody_out() -> None:
    """The store hears from a peer that another one has begun since; then the call ends."""
    world = World()
    engine = engine_of(world)
    stream = world.stream()
    world.append(stream, batch(0, 9))
    call: Any = Call()
    engine.opened(stream, call)
    with pytest.raises(SourceActive):
        world.promise(4, instance=b"another")
    another = Missed(BeginRecord(Lineage((Term(3, 0),)), MEMBERSHIP, 2), b"b", None)
    change = world.core.adopt(ORDERS, another)
    world.write(change.writes)
    engine.end_streams(change)
    assert call.ended
    engine.closed(stream)
    assert not world.core.sources[ORDERS].live
    assert world.promise(4, instance=b"another").registration.promised_to == b"another"


def test_who_answers_for_a_source_gives_way_once_that_streams() -> None:
    """Not only at the next look, until which receivers would be sent to the wrong one."""
    world = World()
    engine = engine_of(world)
    engine.address = "s1:1"
    stream = world.stream()
    world.core.streams.closed(stream)
    engine.announced.add(ORDERS)
    entry = engine.entry(ORDERS)
    assert entry is not None
    assert (entry.live, entry.proxy) == (False, "s1")
    call: Any = Call()
    engine.opened(world.open(), call)
    assert not engine.announced


def test_topics_for_people_are_found_anew_after_a_change_of_the_directory() -> None:
    world = World()
    engine = engine_of(world)
    assert engine.topics() == []
    call: Any = Call()
    engine.opened(world.stream(), call)
    assert engine.topics() == [ORDERS.topic]
    assert engine.topics() is engine.topics(), "a watch looks through no sources"


async def test_a_commit_of_what_is_not_stable_is_no_news_of_what_is() -> None:
    world = World()
    engine = engine_of(world)
    state = world.stream().state
    selection = by_topic(ORDERS.topic)
    with (
        engine.tail.watching(selection, ()) as tail,
        engine.stable_tail.watching(selection, ()) as stable,
    ):

        async def told() -> list[bool]:
            return [bool([source async for source in each.take()]) for each in (tail, stable)]

        state.held.stable_upto = 9
        rows = (state.held_row(),)
        engine.committed(engine.submit_new(state, rows, 10))
        assert await told() == [True, False]
        engine.committed(engine.submit_new(state, rows, 9))
        assert await told() == [True, True]
        engine.committed(engine.submit(state, rows))
        assert await told() == [True, True], "it may concern any number"
