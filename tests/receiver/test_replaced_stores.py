"""What a store said once, from a data directory that another has taken the place of since.

A store and a copy of it may run behind one address, and the first may not have heard of that.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from tests.receiver.fakes import NAME, FakeStore, Group
from tests.receiver.protocol.registering import (
    AWAY,
    NEW,
    YES,
    Registering,
)
from tests.receiver.support import opened

from quorate.protocol.errors import FORMER_DIRECTORY, InLimbo, NoQuorum
from quorate.protocol.incarnations import Word
from quorate.receiver import DeregistrationComplete, DeregistrationSucceeded
from quorate.receiver.io.register import answer_from_wire
from quorate.receiver.protocol.deregistration import Ending
from quorate.receiver.protocol.registration import (
    Joined,
    Refused,
    TooFewTake,
)
from quorate.receiver.protocol.start_position import StoreAnswer
from quorate.v1.store_pb2 import RegisterReceiverResponse, StoreReplaced

FORMER, PRESENT = b"disk of c", b"copy of it"
KNOWS = StoreReplaced(store_name="c", incarnation=PRESENT, former=[FORMER])
OF_A = Word(b"disk of a", (StoreReplaced(store_name="a"), KNOWS))
OF_B = Word(b"disk of b", (StoreReplaced(store_name="b"),))
OF_FORMER = Word(FORMER, (StoreReplaced(store_name="c"),))
OF_PRESENT = Word(PRESENT, (StoreReplaced(store_name="c", former=[FORMER]),))


def says(word: Word, answer: StoreAnswer = YES) -> StoreAnswer:
    return replace(answer, word=word)


# Registering.


def test_who_answers_is_part_of_the_answer() -> None:
    wire = RegisterReceiverResponse(incarnation=FORMER, known_stores=OF_FORMER.known)
    assert answer_from_wire(wire).word == OF_FORMER


@pytest.mark.parametrize("order", ["ac", "ca"])
def test_what_a_former_one_answers_is_not_enough(order: str) -> None:
    """Whoever comes first."""
    one, said = Registering(), {"a": says(OF_A), "c": says(OF_FORMER)}
    one.core.register()
    for store in order:
        one.said(**{store: said[store]})
    assert not one.enough()
    assert one.core.answers.keys() == {"a"}
    (refused,) = one.told(Refused)
    assert refused.store == "c"
    assert isinstance(refused.error, InLimbo)
    assert refused.error.reason == FORMER_DIRECTORY
    assert one.core.in_limbo == {"c"}
    one.said(b=says(OF_B))
    one.now += 1.0
    assert one.is_done()
    assert one.core.joined == {"a", "b"}


def test_the_present_one_is_asked_until_it_answers() -> None:
    one = Registering()
    one.registered(a=says(OF_A), b=says(OF_B), c=says(OF_FORMER))
    for _ in range(3):
        one.core.keep_house()
        assert one.ask.stores == ("c",)
        one.said(c=says(OF_FORMER))
        assert one.is_done(), "nobody else is asked for that"
    assert not one.told(Refused), "once is enough"
    one.core.keep_house()
    one.said(c=says(OF_PRESENT))
    one.said(a=says(OF_A), b=says(OF_B))
    assert one.is_done()
    assert one.core.joined == {"a", "b", "c"}
    assert one.core.in_limbo == frozenset()


def test_that_a_former_one_knew_nothing_of_it_does_not_make_it_new() -> None:
    one = Registering()
    one.core.register()
    one.said(c=says(OF_FORMER, NEW), a=says(OF_A, NEW), b=says(OF_B, NEW))
    one.now += 1.0
    assert one.is_done()
    one.core.keep_house()
    one.said(c=says(OF_PRESENT))
    assert not one.core.answers["c"].is_new
    assert one.core.answers["a"].is_new


def test_one_that_is_replaced_while_the_receiver_runs_is_asked_anew() -> None:
    """It hears so when it asks who takes it still: B was away."""
    one = Registering()
    one.registered(a=says(replace(OF_A, known=OF_A.known[:1])), c=says(OF_FORMER))
    assert one.core.joined == {"a", "c"}
    one.core.keep_house()
    one.said(b=says(OF_B))
    one.said(a=says(OF_A), c=says(OF_FORMER))
    assert one.is_done()
    assert one.core.joined == {"a", "b"}
    (joined,) = one.told(Joined)
    assert joined.stores == {"b"}


def test_a_former_one_that_takes_it_still_is_not_one_of_enough() -> None:
    """B has heard of the copy; A, which has not when it was asked, does not answer any more."""
    one = Registering()
    one.registered(a=YES, c=says(OF_FORMER))
    one.core.keep_house()
    one.said(b=says(replace(OF_B, known=(*OF_B.known, KNOWS))))
    one.said(a=AWAY, c=says(OF_FORMER))
    assert one.is_done()
    assert one.told(TooFewTake)
    assert "b" not in one.core.joined


# Ending.


@pytest.mark.parametrize("order", ["abc", "cab", "acb"])
def test_an_end_that_a_former_one_was_told_is_told_again(order: str) -> None:
    ending, said = Ending(), {"a": OF_A, "b": OF_B, "c": OF_FORMER}
    again = [ending.answered(store, said[store]) for store in order]
    assert frozenset().union(*again) == {"c"}
    assert ending.told == {"a", "b"}
    assert ending.answered("c", OF_FORMER) == {"c"}
    assert ending.answered("c", OF_PRESENT) == frozenset()
    assert ending.told == {"a", "b", "c"}


def _knows_better(a: FakeStore, c: FakeStore) -> None:
    a.word, c.word = OF_A, OF_FORMER


async def test_a_store_whose_former_one_was_told_is_named(group: Group) -> None:
    await group.announce()
    receiver = await opened(group)
    a, b, c = group.stores
    _knows_better(a, c)
    b.deregistrations_hang = True
    with pytest.raises(NoQuorum) as raised:
        await receiver.deregister(2)
    assert raised.value.silent == "c"
    assert FORMER_DIRECTORY in str(raised.value)
    assert len(c.deregistrations) > 1
    assert len(a.deregistrations) == 1
    events = [event async for event in receiver.events()]
    assert not any(isinstance(event, DeregistrationComplete) for event in events)


async def test_it_is_told_again_until_the_present_one_has_heard(group: Group) -> None:
    await group.announce()
    receiver = await opened(group)
    a, _, c = group.stores
    _knows_better(a, c)
    ending = c.until(lambda: len(c.deregistrations) > 1)

    async def takes_its_place() -> None:
        await ending
        c.word = OF_PRESENT

    await asyncio.gather(receiver.deregister(5.0), takes_its_place())
    events = [event async for event in receiver.events()]
    assert [e.store for e in events if isinstance(e, DeregistrationSucceeded)].count("b") == 1
    assert events[-1] == DeregistrationComplete(NAME)
