"""What a store learns from the inventory of a peer, as soon as it has it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.store.deleted import answer, engine_of, filled, knowledge
from tests.store.support import ORDERS, World

from quorate.store.inventory import take_note
from quorate.store.lifetimes import Who
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
    who = store_v1.Greeting(store_name="s2", incarnation=b"s2", run=store_v1.StoreRun(drawn=b"1"))
    counts = take_note(engine_of(world), me, told, who, 0)
    assert counts == (not silent)
    assert lives.silent(Who(ORDERS)) - (before if silent else 0.0) == pytest.approx(silent)
