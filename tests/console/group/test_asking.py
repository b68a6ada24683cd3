"""One question to all stores at once."""

from __future__ import annotations

import asyncio

import pytest

from quorate.console.group.asking import answers_of
from quorate.protocol.errors import Unreachable
from quorate.protocol.identity import StoreAddress

STORES = tuple(StoreAddress(name, f"{name}:1") for name in "abc")


async def test_each_store_has_its_answer_or_its_error_in_order() -> None:
    async def ask(store: StoreAddress) -> str:
        if store.name == "b":
            raise Unreachable(store.address, "it is away")
        return store.name * 2

    answers = await answers_of(STORES, ask)
    assert list(answers) == list(STORES)
    a, b, c = answers.values()
    assert (a, c) == ("aa", "cc")
    assert isinstance(b, Unreachable)


async def test_all_are_asked_at_once() -> None:
    together = asyncio.Barrier(len(STORES))

    async def ask(_: StoreAddress) -> int:
        async with asyncio.timeout(20):
            return await together.wait()

    answers = await answers_of(STORES, ask)
    assert {each for each in answers.values() if isinstance(each, int)} == {0, 1, 2}


async def test_an_error_that_is_not_ours_is_raised() -> None:
    async def ask(_: StoreAddress) -> int:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await answers_of(STORES, ask)
