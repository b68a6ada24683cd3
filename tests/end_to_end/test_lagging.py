"""The story of a store that is there, and never catches up while its source keeps sending."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.end_to_end.applications import TOPIC
from tests.end_to_end.network import Proxies
from tests.end_to_end.world import SESSION, World

pytestmark = pytest.mark.processes

_MIB = 1 << 20
_MESSAGES, _SIZE = 4000, 1000
_ROUNDS = 10
_RATION_BYTES = 320 << 10
"""What the store is let have of each round's four megabytes: a batch at least."""


async def _shown(world: World, *, healthy: bool) -> dict[str, Any]:
    """What an operator is shown to whom a thousand messages are much."""
    told: dict[str, Any] = json.loads(
        await world.quorate("status", "-o", "json", "--lag-max", "1000", fails=not healthy)
    )
    return told


@pytest.mark.long
async def test_a_store_that_never_catches_up_holds_up_nobody_and_is_whole_in_the_end(
    world: World,
) -> None:
    stores = await world.founded("s1", "s2", "s3")
    s3 = stores[2]
    assert isinstance(world.network, Proxies)
    narrow = await world.network.door("s3")
    source = await world.source(
        stores=f"{world.addresses_of('s1', 's2')},s3={narrow.address}",
        options={"retention_bytes_max": 4 * _MIB},
    )
    await source.start()
    for _ in range(3):
        last = await source.send_stable(_MESSAGES, _SIZE)
    for store in stores:
        await store.until_it_has(last)
    memory, most = source.memory, 0

    def held_upto() -> int:
        return int(s3.of()["held"][-1][1])

    for _ in range(_ROUNDS):
        before = held_upto()
        narrow.ration("there", _RATION_BYTES)
        # The others are enough, whatever becomes of this one.
        last = await source.send_stable(_MESSAGES, _SIZE)
        most = max(most, source.memory)
        await s3.until("it goes on", lambda _, before=before: held_upto() > before)  # type: ignore[misc]
    assert most - memory < _ROUNDS * _MESSAGES * _SIZE // 2, "it keeps what the store lacks"
    # What has left it the store gets from its peers.
    await source.progress.until(
        "it says what has left it",
        lambda: any(
            kind == "Reclaimed" and facts["forced"] == "True"
            for kind, facts in source.lines("event")
        ),
    )
    for store in stores[:2]:
        await store.until("it knows what is stable", lambda of: of["stable_upto"] == last)
    told = await _shown(world, healthy=False)
    behind = told["sources"][0]["lag"]["s3"]
    assert behind > _ROUNDS * _MESSAGES // 2
    assert told["sources"][0]["lag"] == {"s1": 0, "s2": 0, "s3": behind}
    assert told["problems"] == [
        f"Store s3 is {behind:,} stable messages behind in {TOPIC}/{SESSION:#x}. Wait if the store "
        "has just come back. Otherwise look at its log and its disk."
    ]

    narrow.heal()
    for store in stores:
        await store.until_it_has(last)
    told = await _shown(world, healthy=True)
    assert told["sources"][0]["lag"] == {"s1": 0, "s2": 0, "s3": 0}
    assert told["stores"][2]["repaired_messages"] > 0
    await world.end(source)
