"""The rules of the design keep what is stable and bury what is ended, and each of them is needed.

With all rules no state of the small worlds is broken, and no random walk through a larger one. With
any one rule left out the walks find a loss, a return from the dead or an owner that is robbed.
"""

from __future__ import annotations

import pytest
from tests.model.rules import Model
from tests.model.search import explore, shortened, step, walks
from tests.model.state import RULES, Move, World

BIG = pytest.mark.big


def world(*attempts: str, messages: int = 1, wipes: int = 0, crashes: int = 0) -> World:
    return World(attempts, messages, wipes, crashes)


TWO_OWNERS = world("owner", "owner")
THREE_OWNERS = world("owner", "owner", "owner")
OWNER_AFTER_END = world("owner", "end", "owner")
FORGETS = OWNER_AFTER_END._replace(forgets=True)
TWO_RECEIVERS = world("receiver", "receiver", messages=2)._replace(founded=True)
RECEIVER_AFTER_END = world("receiver", "receiver end", "receiver")._replace(founded=True)

SMALL = {
    "two owners": world("owner", "owner", messages=2),
    "a receiver and its end": world("receiver", "receiver end")._replace(founded=True),
    "an owner and an expiry": world("owner", "expiry"),
}
"""Worlds of which every state is looked at."""
WITH_MORE_STATES = {
    "an owner, an end and an owner": OWNER_AFTER_END,
    "two owners and a wiped store": TWO_OWNERS._replace(wipes=1),
    "an owner, and an end that is forgotten": world("owner", "end")._replace(forgets=True),
    "two receivers and an end": RECEIVER_AFTER_END,
    "two receivers and a wiped store": TWO_RECEIVERS._replace(messages=1, wipes=1),
    "an expiry and a store that starts anew": world("owner", "expiry", crashes=1),
}
"""Worlds of which the nearest states are looked at: after so many, or all."""
STATES_MAX = 200_000
LARGER = {
    "owners and an end": world("owner", "owner", "end", "owner", messages=2, wipes=2),
    "ends that are forgotten": world(
        "owner", "end", "owner", "end", messages=2, wipes=1
    )._replace(forgets=True),
    "everybody": world(
        "owner", "receiver", "end", "receiver", "receiver end", "owner", "receiver",
        messages=2, wipes=2,
    ),
    "expiries": world("owner", "expiry", "owner", "expiry", messages=2, wipes=1, crashes=1),
    "receivers": world(
        "receiver", "receiver", "receiver end", "receiver", messages=2, wipes=2
    )._replace(founded=True, forgets=True),
    "five stores": world(
        "owner", "owner", "owner", "end", messages=2, wipes=3
    )._replace(stores=5),
}  # fmt: skip
"""Worlds for random walks."""

FOUND: dict[str, tuple[World, int]] = {
    "promise": (THREE_OWNERS, 0),
    "instance": (THREE_OWNERS, 5),
    "durable promise": (THREE_OWNERS._replace(crashes=2), 88),
    "durable instance": (THREE_OWNERS._replace(crashes=2), 114),
    "durable begin": (TWO_OWNERS._replace(crashes=2), 388),
    "blocking set": (TWO_OWNERS, 8),
    "newest begin": (OWNER_AFTER_END, 43),
    "lineage": (THREE_OWNERS, 0),
    "floor": (TWO_OWNERS, 12),
    "begun counts": (world("owner", "owner", "owner", "owner"), 21),
    "generation": (OWNER_AFTER_END, 1),
    "settled end": (OWNER_AFTER_END, 920),
    "limbo": (TWO_OWNERS._replace(wipes=1), 248),
    "readmit: peers": (TWO_OWNERS._replace(wipes=2), 89),
    "readmit: promise": (THREE_OWNERS._replace(wipes=2), 224),
    "readmit: begin": (TWO_OWNERS._replace(wipes=2), 53),
    "readmit: fetch": (TWO_OWNERS._replace(wipes=2), 38),
    "readmit: incarnation": (TWO_OWNERS._replace(wipes=2), 247),
    "pre-vote": (world("owner", "expiry"), 10),
    "pre-vote: in time": (world("owner", "expiry"), 61),
    "pre-vote again": (world("owner", "expiry", "owner"), 40),
    "start is life": (world("owner", "expiry", crashes=2), 157),
    "forget: all": (FORGETS, 1),
    "forget: generation": (FORGETS, 920),
    "forget: fence": (FORGETS, 1),
    "position: end": (RECEIVER_AFTER_END, 33),
    "position: parent": (
        world("receiver", "end", "owner", "receiver")._replace(founded=True),
        11,
    ),
    "position: newest": (
        world("receiver", "receiver", "receiver", messages=2)._replace(founded=True),
        37,
    ),
}
"""A world that shows what each rule is for, and the first seed of a walk that finds it."""
SEEDS = 2_000
"""How many walks there are after that seed, for a model whose moves have changed."""


@pytest.mark.parametrize("name", SMALL)
def test_no_state_of_a_small_world_is_broken(name: str) -> None:
    explored = explore(SMALL[name])
    assert not explored.violation, str(explored.violation)
    assert explored.whole
    assert explored.states > 500


@pytest.mark.big
@pytest.mark.parametrize("name", WITH_MORE_STATES)
def test_none_of_the_nearest_states_of_a_world_is_broken(name: str) -> None:
    explored = explore(WITH_MORE_STATES[name], limit=STATES_MAX)
    assert not explored.violation, str(explored.violation)


@pytest.mark.parametrize("name", LARGER)
def test_no_walk_through_a_larger_world_breaks_it(name: str) -> None:
    violation = walks(LARGER[name], seeds=range(60))
    assert not violation, str(violation)


@pytest.mark.big
@pytest.mark.parametrize("name", LARGER)
def test_no_walk_of_very_many_breaks_a_larger_world(name: str) -> None:
    violation = walks(LARGER[name], seeds=range(60, 10_000))
    assert not violation, str(violation)


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_that_is_left_out_is_missed(rule: str) -> None:
    shown, seed = FOUND[rule]
    assert walks(shown, frozenset({rule}), range(seed, seed + SEEDS))


@pytest.mark.parametrize("rule", RULES)
def test_the_same_walks_break_nothing_with_all_rules(rule: str) -> None:
    shown, seed = FOUND[rule]
    assert not walks(shown, seeds=range(seed, seed + 20))


@pytest.mark.parametrize("rule", ["instance", "durable instance"])
def test_receivers_need_their_instances_as_owners_do(rule: str) -> None:
    receivers = world("receiver", "receiver", "receiver", messages=2, crashes=2)
    receivers = receivers._replace(founded=True)
    assert walks(receivers, frozenset({rule}), range(200))
    assert not walks(receivers, seeds=range(20))


def test_an_ended_stream_is_erased_and_forgotten_and_begins_anew() -> None:
    """States that walks must come across. They are made on purpose here."""
    model = Model(FORGETS)
    state = model.first()
    for attempt, epoch in ((0, 1), (1, 2), (2, 3)):
        moves: list[Move] = [
            ("start", attempt, epoch),
            *(("promise", attempt, store) for store in (0, 1)),
        ]
        moves += [("decide", attempt, True), *(("begin", attempt, store) for store in (0, 1, 2))]
        if attempt == 1:
            moves += [("erase", 1, 0)]
            moves += [("note", 0, peer, 0) for peer in (1, 2)] + [("forget", 1, 0)]
        else:
            moves += [("take", attempt, store) for store in (0, 1)]
        for move in moves:
            assert move in set(model.moves(state)), move
            state = step(model, state, move)
    first, end, last = state.attempts
    assert (first.confirmed, end.complete, last.confirmed) == (1, True, 1)
    assert last.begun
    assert last.begun.generation == end.ballot
    assert state.stores[0].rows[0].held == {(0, last.ballot)}


def test_a_violation_is_told_with_no_more_moves_than_it_needs() -> None:
    left_out = frozenset({"settled end"})
    shown, seed = FOUND["settled end"]
    found = walks(shown, left_out, range(seed, seed + SEEDS))
    assert found
    short = shortened(shown, left_out, found)
    assert short.what == found.what
    assert len(short.moves) <= min(18, len(found.moves))
