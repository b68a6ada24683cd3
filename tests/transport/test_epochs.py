"""A store that is asked for an epoch out of its reach is led up to it in steps."""

from __future__ import annotations

import pytest

from quorate.protocol.errors import EpochTooFar, Fenced
from quorate.transport.epochs import in_steps


class Store:
    """A store that takes epochs up to a step above the last one."""

    def __init__(self, step: int) -> None:
        self.step = step
        self.epoch = 0
        self.taken: list[int] = []

    async def ask(self, epoch: int) -> str:
        if epoch > self.epoch + self.step:
            raise EpochTooFar("x", "a", epoch, self.epoch + self.step)
        if epoch <= self.epoch:
            raise Fenced("x", epoch, self.epoch)
        self.epoch = epoch
        self.taken.append(epoch)
        return f"promised {epoch}"


async def test_an_epoch_within_reach_is_asked_for_at_once() -> None:
    store = Store(10)
    assert await in_steps(10, store.ask) == "promised 10"
    assert store.taken == [10]


async def test_an_epoch_out_of_reach_is_asked_for_last() -> None:
    store = Store(10)
    assert await in_steps(35, store.ask) == "promised 35"
    assert store.taken == [10, 20, 30, 35]


async def test_a_refusal_on_the_way_is_raised() -> None:
    store = Store(10)
    store.epoch = 40
    with pytest.raises(Fenced):
        await in_steps(35, store.ask)


@pytest.mark.parametrize("admitted", [0, 35, 40])
async def test_a_store_that_leads_nowhere_is_not_followed(admitted: int) -> None:
    async def ask(epoch: int) -> None:
        raise EpochTooFar("x", "a", epoch, admitted)

    with pytest.raises(EpochTooFar):
        await in_steps(35, ask)
