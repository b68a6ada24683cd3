"""Which stores count as told, by what they answer."""

from __future__ import annotations

import asyncio

import pytest
from tests import seams
from tests.store.support import ORDERS

from quorate.console.group import deregistration
from quorate.console.group.deregistration import Found
from quorate.protocol.errors import AccessDenied, InLimbo, NoQuorum, QuorateError, Unreachable
from quorate.protocol.identity import StoreAddress
from quorate.v1.store_pb2 import DeregisterResponse, StoreReplaced

STORES = tuple(StoreAddress(each, f"{each}:1") for each in "abc")
KNOWS = StoreReplaced(store_name="store c", incarnation=b"copy", former=[b"c"])


async def test_one_whose_former_directory_answers_was_not_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def ask(store: StoreAddress, *_: object) -> DeregisterResponse:
        if store.name == "b":
            raise Unreachable(store.address, "down")
        known = [StoreReplaced(store_name=f"store {store.name}")]
        return DeregisterResponse(
            reg_id=7,
            last_sequence=-1,
            incarnation=store.name.encode(),
            known_stores=[*known, KNOWS] if store.name == "a" else known,
        )

    seams.GROUP_DEREGISTRATION_ASK.replace(monkeypatch, ask)
    rows, errors = await deregistration.deregister(
        Found(1, STORES, {}, ("a", "c"), live=True, messages=0), ORDERS, 0x20, 1.0
    )
    assert [row["done"] for row in rows] == [True, False, False]
    assert [row["reg_id"] for row in rows] == [7, None, None]
    kinds: list[type[QuorateError]] = [Unreachable, InLimbo]
    assert [type(each) for each in errors] == kinds


async def test_one_that_was_not_waited_for_is_not_called_unreachable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def call(address: str, *_: object) -> DeregisterResponse:
        if address == "c:1":
            await asyncio.Event().wait()
        raise AccessDenied("operator", "operate", "orders")

    seams.GROUP_DEREGISTRATION_CALL.replace(monkeypatch, call)
    _, errors = await deregistration.deregister(
        Found(1, STORES, {}, ("a", "b", "c"), live=True, messages=0), ORDERS, 0, 60.0
    )
    kinds: list[type[QuorateError]] = [AccessDenied, AccessDenied, NoQuorum]
    assert [type(each) for each in errors] == kinds
    assert "may not operate" in str(errors[2])
