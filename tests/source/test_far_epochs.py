"""A client that asks for epochs out of reach keeps nobody out."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.source.real_stores import RealStores
from tests.store.support import ORDERS, Client

from quorate.protocol.errors import EpochTooFar
from quorate.protocol.limits import EPOCH_STEP_MAX


async def test_a_source_opens_where_one_store_knows_a_far_higher_epoch(tmp_path: Path) -> None:
    stores = RealStores(tmp_path)
    await stores.start("abc")
    try:
        async with Client(stores.address("a")) as client:
            with pytest.raises(EpochTooFar):
                await client.promise(2**64 - 1, source=ORDERS)
            for steps in (1, 2, 3):
                await client.promise(steps * EPOCH_STEP_MAX, source=ORDERS)
        async with await stores.open("abc") as source:
            await source.publish(b"0")
            assert source.epoch == 3 * EPOCH_STEP_MAX + 1
    finally:
        await stores.stop_all()
