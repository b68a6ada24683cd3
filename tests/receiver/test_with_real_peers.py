"""The receiver with real stores and real sources; killed processes among them."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from pathlib import Path

import pytest
from tests import seams
from tests.receiver.real_peers import Stores, numbered, receiver, send, source, take

from quorate.protocol.identity import SourceName
from quorate.receiver import Answer, Gap, ReceiverOptions, SourceAttached

pytestmark = pytest.mark.long


@pytest.mark.parametrize("delivery", ["live", "stable"])
async def test_recovery_live_and_restart(stores: Stores, delivery: str) -> None:
    async with await source(stores) as sending:
        await send(sending, 0, 4999)
        await sending.flush()
        async with await receiver(stores, delivery=delivery) as one:
            assert await take(one, 5000) == numbered(0, 4999)
            await send(sending, 5000, 9999)
            assert await take(one, 3000) == numbered(5000, 7999)
        async with await receiver(stores, delivery=delivery) as one:
            assert await take(one, 2000) == numbered(8000, 9999)
            await send(sending, 10_000, 10_001)
            assert await take(one, 2) == numbered(10_000, 10_001)


@pytest.mark.expects_log(
    "another lineage|directory of|does not register the receiver|does not take|lost its quorum"
)
@pytest.mark.expects_log("no store has a source")
async def test_the_source_restarts_while_a_store_is_away(stores: Stores) -> None:
    async with await receiver(stores) as one:
        async with await source(stores) as sending:
            await send(sending, 0, 999)
            assert await take(one, 1000) == numbered(0, 999)
            await stores.stop("b")
            await send(sending, 1000, 1999)
            assert await take(one, 1000) == numbered(1000, 1999)
        async with await source(stores) as sending:
            await send(sending, 2000, 2999)
            assert await take(one, 1000) == numbered(2000, 2999)
            await stores.start("b")
            await stores.stop("a")
            await send(sending, 3000, 3999)
            assert await take(one, 1000) == numbered(3000, 3999)


@pytest.mark.expects_log(
    "another lineage|directory of|does not register the receiver|does not take|lost its quorum"
)
async def test_without_any_source(stores: Stores) -> None:
    async with await source(stores) as sending:
        await send(sending, 0, 999)
    await stores.stop("c")
    async with await receiver(stores) as one:
        assert await take(one, 1000) == numbered(0, 999)


# On a busy machine nothing may come for so long that the receiver says so.
@pytest.mark.expects_log("is missing; waiting for")
async def test_a_slow_application_is_bounded_and_loses_nothing(stores: Stores) -> None:
    total, size = 30_000, 2000
    body = b"x" * size
    options = ReceiverOptions(buffer_bytes=16 * 1024 * 1024)
    async with await source(stores) as sending, await receiver(stores, options=options) as one:
        async for event in one.events():
            if isinstance(event, SourceAttached):
                break

        async def produce() -> None:
            for _ in range(total // 100):
                await sending.send_many([body] * 100)

        producing = asyncio.create_task(produce())
        got: list[int] = []
        highest = 0
        async with asyncio.timeout(100):
            async for batch in one.batches():
                assert batch.payloads[0] == body
                got += range(batch.first, batch.last + 1)
                highest = max(highest, one._inbox._bytes + one._room.waiting_bytes)
                if len(got) < total // 4:
                    await asyncio.sleep(0.02)
                if batch.last == total - 1:
                    break
        await producing
        assert got == list(range(total))
        assert highest < options.buffer_bytes + 4 * 1024 * 1024


_RECEIVER_PROCESS = """
import asyncio, sys
from quorate.receiver import Receiver, ReceiverOptions

async def main() -> None:
    options = ReceiverOptions(acknowledge_interval=0.02)
    async with await Receiver.open(
        "orders", session_id=0x20, stores=sys.argv[1], options=options
    ) as receiver:
        async for message in receiver:
            print(message.sequence, message.payload.decode(), flush=True)

asyncio.run(main())
"""


async def _acknowledged(stores: Stores, sequence: int) -> bool:
    """Two of three stores know that the receiver is past this number."""
    return sorted((await stores.positions()).values())[1] > sequence


@pytest.mark.processes
async def test_a_killed_receiver_goes_on_after_what_it_acknowledged(stores: Stores) -> None:
    async with await source(stores) as sending:

        async def produce() -> None:
            number = 0
            while True:
                await send(sending, number, number + 9)
                number += 10
                await asyncio.sleep(0.002)

        producing = asyncio.create_task(produce())
        starts: list[int] = []
        ended = -1
        for _ in range(3):
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-c", _RECEIVER_PROCESS, stores.addresses,
                stdout=asyncio.subprocess.PIPE,
            )  # fmt: skip
            assert process.stdout is not None
            got: list[int] = []
            async with asyncio.timeout(60):
                while len(got) < 1000 or not await _acknowledged(stores, got[0]):
                    number, payload = (await process.stdout.readline()).split()
                    assert number == payload
                    got.append(int(number))
            process.send_signal(signal.SIGKILL)
            rest, _ = await process.communicate()
            whole, _, _ = rest.rpartition(b"\n")  # it may be killed in the middle of a line
            got += [int(line.split()[0]) for line in whole.splitlines()]
            assert got == list(range(got[0], got[-1] + 1)), "in order, without holes"
            assert got[0] <= ended + 1, "nothing is left out"
            starts.append(got[0])
            ended = got[-1]
        producing.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await producing
        assert starts[0] == 0
        assert starts[1] > 0, "it did not begin anew"
        assert starts[2] > starts[1]


@pytest.mark.processes
@pytest.mark.expects_log("no store has a source")
async def test_a_killed_source_is_followed_where_it_returns(stores: Stores) -> None:
    program = """
import asyncio, sys
from quorate.source import Source

async def main() -> None:
    async with await Source.open("orders", session_id=0x10, stores=sys.argv[1]) as source:
        for number in range(source.next_sequence, 10**9):
            await source.send(b"%d" % number)
            await asyncio.sleep(0.0005)

asyncio.run(main())
"""
    async with await receiver(stores, delivery="stable") as one:
        following = 0
        for _ in range(3):
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-c", program, stores.addresses
            )
            assert await take(one, 500) == numbered(following, following + 499)
            following += 500
            process.send_signal(signal.SIGKILL)
            await process.wait()
        assert one.sources == (SourceName("orders", 0x10),)


@pytest.mark.expects_log("was released by the stores")
async def test_one_released_range_is_one_gap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is longer than what one request asks for."""
    seams.RETENTION_ROUND_SECONDS.replace(monkeypatch, 0.05)
    seams.FETCH_PLAN_CHUNK_MESSAGES_MAX.replace(monkeypatch, 500)
    stores = Stores(tmp_path)
    for name in "abc":
        await stores.start(name, retention_messages=1000)
    async with await source(stores) as sending:
        await send(sending, 0, 9)
        await sending.flush()
        async with await receiver(stores) as one:
            assert await take(one, 10) == numbered(0, 9)
        last = 9
        while await oldest(stores) < 3000:
            await send(sending, last + 1, last + 500)
            await sending.flush()
            last += 500
    async with await receiver(stores) as one:
        async with asyncio.timeout(60):
            first = await one.receive()
        assert first is not None
        gaps = [event for event in one._events.kept() if isinstance(event, Gap)]
        assert [(gap.first, gap.last, gap.cause) for gap in gaps] == [
            (10, first.sequence - 1, Answer.RELEASED)
        ]
    for name in "abc":
        await stores.stop(name)


async def oldest(stores: Stores) -> int:
    """Return the lowest number that every store still has of the source."""
    lows = []
    for node in stores.nodes.values():
        assert node._engine is not None
        (state,) = node._engine.core.sources.values()
        lows.append(state.held.retained_from)
    await asyncio.sleep(0.05)
    return min(lows)
