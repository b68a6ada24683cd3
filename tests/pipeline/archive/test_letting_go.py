"""A real store that keeps messages until they are archived, and then lets them go."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from tests.pipeline.archive.support import here
from tests.store.support import running

from quorate.pipeline.archive.archiving import archive
from quorate.pipeline.archive.falling_through import StoresAndArchive
from quorate.pipeline.jobs.restore import restore
from quorate.pipeline.stores.client import Stores
from quorate.protocol.framing import read_payloads
from quorate.protocol.layout import Layout
from quorate.source import Source

PAYLOADS = [b"message %d" % number for number in range(2000)]
SETTINGS: dict[str, Any] = {"retention_messages": 100, "retain_until": ["archived"]}


def read(stores: Stores) -> list[bytes]:
    (known,) = stores.sources().sources.values()
    return [
        payload
        for piece in stores.fetch(known.name, known.lineage, 0, known.stable_upto)
        for payload in read_payloads(piece.frame, piece.header)
    ]


async def retained_from(stores: Stores, above: int) -> int:
    """Where what is left begins, once it is above that."""
    async with asyncio.timeout(60):
        while True:
            (known,) = (await asyncio.to_thread(stores.sources)).sources.values()
            if known.retained_from > above:
                return known.retained_from
            await asyncio.sleep(0.05)


async def test_what_is_archived_leaves_the_store_and_is_read_all_the_same(tmp_path: Path) -> None:
    path = str(tmp_path / "archive")
    async with running(tmp_path / "s1", **SETTINGS) as node:
        stores = Stores([node.address])
        async with await Source.open("orders", session_id=0x10, stores=node.address) as source:
            for first in range(0, 2000, 50):
                for payload in PAYLOADS[first : first + 50]:
                    await source.send(payload)
                await source.flush()
        before = await asyncio.to_thread(read, stores)
        assert before == PAYLOADS, "nothing goes before it is archived"
        report = await asyncio.to_thread(archive, here, stores, path)
        assert (report.failures, report.notes) == ({}, [])
        left = await retained_from(stores, 0)
        assert left <= 1900
        both = StoresAndArchive([node.address], path)
        assert await asyncio.to_thread(read, both) == PAYLOADS
        # Again: what was let go is archived, and nothing of it is missed.
        again = await asyncio.to_thread(archive, here, stores, path)
        assert (again.failures, again.messages) == ({}, 0)
        # Nor is it given to the store again.
        restored = await asyncio.to_thread(restore, here, path, Layout.plain(node.address))
        assert restored.done
        ((store,),) = (each.values() for each in restored.sources.values())
        assert store.written == 0
        # The store may have let go of more meanwhile.
        assert 0 < store.held_already <= 2000 - left

    async with running(tmp_path / "s2", **SETTINGS) as node:
        stores = Stores([node.address])
        restored = await asyncio.to_thread(restore, here, path, Layout.plain(node.address))
        assert restored.done
        # It was given all, and told that it is archived: it lets it go as it would have before.
        assert await retained_from(stores, 0) <= 1900
        both = StoresAndArchive([node.address], path)
        assert await asyncio.to_thread(read, both) == PAYLOADS
