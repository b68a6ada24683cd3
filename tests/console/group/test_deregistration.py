"""Which stores count as told, by what they answer."""

from __future__ import annotations

import pytest
from tests import seams
from tests.store.support import ORDERS

from quorate.console.group import deregistration
from quorate.console.group.deregistration import Found
from quorate.protocol.errors import InLimbo, QuorateError, Unreachable
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
