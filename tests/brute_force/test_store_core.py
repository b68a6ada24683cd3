"""One store's rules against the definitions: every state that short histories can bring it to.

The small worlds keep their stores by these rules; here production's StoreCore on storage in memory
goes the same way, and is found as it should be after every step, before and after a crash.
"""

from __future__ import annotations

from itertools import product
from typing import NamedTuple

from tests.brute_force.definitions import Terms, epoch_at
from tests.store.support import INCARNATION, MEMBERSHIP, ORDERS, World, batch, information

from quorate.protocol.begin import BeginRecord
from quorate.protocol.errors import Fenced, NotRegistered
from quorate.protocol.limits import NOTHING
from quorate.protocol.lineage import Lineage, Term

NUMBERS = 3
"""Sequence numbers that there are."""
LINEAGES: dict[int, Terms] = {
    1: ((1, 0),),
    2: ((1, 0), (2, 1)),
    3: ((1, 0), (3, 1)),
    4: ((1, 0), (2, 1), (4, 2)),
}
"""What is decided in each epoch: the third never heard of the second, nor the fourth of that."""


class Step(NamedTuple):
    what: str
    epoch: int
    who: str


class Defined(NamedTuple):
    """The state that must be durable, by the text of protocol.md 4."""

    promised: int = 0
    to: str = ""
    begun: int = 0
    lineage: Terms = ()
    held: tuple[int, ...] = (0,) * NUMBERS
    """By number: the epoch of what is held, 0 for nothing."""


STEPS = [
    Step(what, epoch, who)
    for what, epoch, who in product(("promise", "begin", "write"), LINEAGES, "ab")
]


def after(state: Defined, step: Step) -> Defined | None:
    """The state after the step; None if it must be refused."""
    what, epoch, who = step
    mine = (state.promised, state.to) == (epoch, who)
    match what:
        case "promise":
            if mine:
                return state
            if epoch <= state.promised:
                return None
            return state._replace(promised=epoch, to=who)
        case "begin":
            if not mine:
                return None
            lineage = LINEAGES[epoch]
            held = tuple(
                has if has == epoch_at(lineage, number) else 0
                for number, has in enumerate(state.held)
            )
            return state._replace(begun=epoch, lineage=lineage, held=held)
        case _:
            if not mine or state.begun != epoch or 0 not in state.held:
                return None
            number = state.held.index(0)
            held = tuple(
                epoch_at(state.lineage, number) if at == number else has
                for at, has in enumerate(state.held)
            )
            return state._replace(held=held)


def take(world: World, step: Step) -> None:
    """The same at the store; raises why it refuses."""
    what, epoch, who = step
    match what:
        case "promise":
            world.promise(epoch, who.encode(), take_over=True)
        case "begin":
            lineage = Lineage(tuple(Term(*term) for term in LINEAGES[epoch]))
            change = world.core.begin(
                ORDERS, BeginRecord(lineage, MEMBERSHIP), who.encode(), INCARNATION
            )
            world.done(change)
        case _:
            opening = world.core.streams.open(
                information(ORDERS, epoch), who.encode(), INCARNATION, 0, NOTHING
            )
            opened = world.done(opening)
            number = opened.next_sequence
            named = epoch_at(LINEAGES[epoch], number)
            world.append(opened.stream, batch(number, number, named, salt=f"{named} "))


def found(world: World) -> Defined:
    """What the store says of itself."""
    state = world.core.sources.get(ORDERS)
    if state is None:
        return Defined()
    record = state.registration
    held = [0] * NUMBERS
    for item in state.held_by_epoch():
        for number in range(item.first, item.last + 1):
            held[number] = item.epoch
    lineage = tuple((term.epoch, term.first) for term in record.begun.lineage.terms)
    to = record.promised_to.decode()
    return Defined(record.promised_epoch, to, record.begun.epoch, lineage, tuple(held))


def brought_to(steps: tuple[Step, ...]) -> World:
    world = World()
    for step in steps:
        take(world, step)
    return world


def test_a_store_is_as_defined_after_every_history() -> None:
    ways: dict[Defined, tuple[Step, ...]] = {Defined(): ()}
    waiting, refused = [Defined()], 0
    while waiting:
        state = waiting.pop()
        for step in STEPS:
            if step.what == "write" and 0 not in state.held:
                continue
            world, wanted = brought_to(ways[state]), after(state, step)
            try:
                take(world, step)
            except (Fenced, NotRegistered):
                refused += 1
                assert wanted is None, (ways[state], step)
                wanted = state
            else:
                assert wanted is not None, (ways[state], step)
            assert found(world) == wanted, (ways[state], step)
            assert found(world.restarted()) == wanted, (ways[state], step)
            if wanted not in ways:
                ways[wanted] = (*ways[state], step)
                waiting.append(wanted)
    assert len(ways) > 50
    assert refused > 100
