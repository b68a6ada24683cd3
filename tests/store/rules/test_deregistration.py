"""Which promises a store forgets when the instance that got them gives them back."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.store.support import FIRST_LINEAGE, ORDERS, World, batch

from quorate.store.rules.deregistration import is_unused


def promised(world: World) -> None:
    world.promise(2)


def promised_to_another_before(world: World) -> None:
    world.promise(1, b"b")
    world.promise(2)


def begun(world: World) -> None:
    world.begin(FIRST_LINEAGE)
    world.promise(2)


def holds_messages(world: World) -> None:
    world.append(world.stream(), batch(0, 0))
    world.promise(2)


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        (promised, True),
        # The epoch before still fences whoever it was promised to.
        (promised_to_another_before, False),
        (begun, False),
        (holds_messages, False),
    ],
)
def test_a_promise_given_back_is_forgotten_where_nothing_else_was_known(
    before: Callable[[World], None], expected: bool
) -> None:
    world = World()
    before(world)
    for each in (world, world.restarted()):
        assert is_unused(each.core.sources[ORDERS], 2, b"a") == expected


def test_a_promise_is_given_back_by_the_instance_that_has_it() -> None:
    world = World()
    world.promise(2)
    state = world.core.sources[ORDERS]
    assert not is_unused(state, 2, b"b")
    assert not is_unused(state, 1, b"a")


def test_a_store_in_limbo_forgets_no_promise() -> None:
    world = World()
    world.promise(2)
    state = world.core.sources[ORDERS]
    state.limbo = "it was wiped"
    assert not is_unused(state, 2, b"a")
