"""A source that waits for its receivers, with real stores: who holds it up, and what frees it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from tests.receiver.real_peers import QUICK, Stores, receiver, source, take
from tests.receiver.support import told
from tests.source.support import event_of

from quorate.protocol.errors import NoQuorum, NotRegistered
from quorate.protocol.limits import SEQUENCE_MAX
from quorate.receiver import (
    AcknowledgeMode,
    Message,
    Receiver,
    ReceiverOptions,
    RegistrationComplete,
    StartingPoint,
)
from quorate.source import (
    LaggingReceiver,
    ReceiverPacing,
    ReceiversCaughtUp,
    ReceiversLag,
    Source,
    SourceOptions,
)

pytestmark = pytest.mark.expects_log(
    "is held up by receivers that lag|is stopping|cannot be reached|ended the stream"
)

PACED = SourceOptions(receiver_pacing=ReceiverPacing(messages=10), registration_interval=0.3)
SLOW = 0x20


class Sending:
    """An application that sends without end, and goes on when the stores are back."""

    def __init__(self, one: Source) -> None:
        self.source = one
        self._sending = asyncio.create_task(self._send())

    async def _send(self) -> None:
        while True:
            try:
                sequence = await self.source.send(b"%d" % self.source.next_sequence)
                if sequence % 100 == 99:
                    await asyncio.sleep(0.01)
            except NotRegistered:
                await asyncio.sleep(0.02)

    async def until_held_after(self, last: int, receiver: int = SLOW) -> None:
        """Until this is the last message that is sent, and whose fault that is was told."""
        async with asyncio.timeout(60):
            async for event in self.source.events():
                if isinstance(event, ReceiversLag):
                    assert receiver in [each.session_id for each in event.receivers]
                    break
            # Every store is there, and has said what it knows: nothing is to come that would let
            # more pass.
            while len(self.source._core.streams.open_stores()) < 3 or self._moves(last):  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        assert self.source.next_sequence == last + 1

    def _moves(self, last: int) -> bool:
        return not self.source._core.window.blocked or self.source.next_sequence <= last

    async def until_sent(self, sequence: int) -> None:
        async with asyncio.timeout(60):
            while self.source.next_sequence <= sequence:  # noqa: ASYNC110 - sends tell nobody
                await asyncio.sleep(0.02)

    async def stop(self) -> None:
        self._sending.cancel()
        await asyncio.gather(self._sending, return_exceptions=True)


@asynccontextmanager
async def sending(stores: Stores, options: SourceOptions = PACED) -> AsyncIterator[Sending]:
    """Of a source that is paced; receivers are to register before the first message."""
    async with await source(stores, options=options) as one:
        application = Sending(one)
        try:
            yield application
        finally:
            await application.stop()


@asynccontextmanager
async def registered(stores: Stores, options: ReceiverOptions = QUICK) -> AsyncIterator[Receiver]:
    """One that acknowledges when it is told to."""
    async with await source(stores, options=PACED):
        pass  # there has to be a source
    explicit = AcknowledgeMode.EXPLICIT
    async with await receiver(stores, options=options, acknowledge=explicit) as one:
        yield one


async def test_it_goes_on_as_the_receiver_acknowledges(stores: Stores) -> None:
    async with registered(stores) as slow, sending(stores) as application:
        await application.until_held_after(9)
        lag = next(e for e in application.source._engine.log.kept() if isinstance(e, ReceiversLag))
        assert lag == ReceiversLag((LaggingReceiver(SLOW, -1),), 10, 10)
        await application.source.flush(timeout=60)
        assert application.source.stable_upto == 9, "what was sent is stable, and says so"
        async with asyncio.timeout(60):
            async for message in slow:
                if message.sequence in (4, 14, 24):
                    message.acknowledge(all_before=True)
                    await application.until_held_after(message.sequence + 10)
                if message.sequence == 24:
                    break


async def test_a_deregistered_receiver_frees_it_though_a_store_is_away(stores: Stores) -> None:
    async with registered(stores) as slow, sending(stores) as application:
        await application.until_held_after(9)
        await stores.stop("c")
        with pytest.raises(NoQuorum):
            await slow.deregister(timeout=3)
        await application.until_sent(500)
        await event_of(application.source, ReceiversCaughtUp)
        await stores.start("c")
        await application.until_sent(application.source.next_sequence + 500)
        assert await stores.positions() == {"c": -1}, "c has not heard of it, and is outvoted"


async def test_a_receiver_that_is_away_holds_it_up_until_it_expires(stores: Stores) -> None:
    mortal = replace(QUICK, state_lifetime=4.0)
    async with registered(stores, mortal) as slow, sending(stores) as application:
        await application.until_held_after(9)
        await slow.close()
        assert len(await stores.positions()) == 3
        await application.until_held_after(9)
        await application.until_sent(500)
        await stores.until_positions()


async def test_one_that_is_not_waited_for_holds_nothing_up_also_when_stores_forget_runs(
    stores: Stores,
) -> None:
    async with registered(stores, replace(QUICK, waited_for=False)), sending(stores) as application:
        await application.until_sent(500)
    for name in "abc":
        await stores.stop(name)
        await stores.start(name)
    async with sending(stores) as application:
        await application.until_sent(1000)
        # The newest registration says whether it is waited for.
        async with await receiver(stores, acknowledge=AcknowledgeMode.EXPLICIT):
            await stores.until_positions(a=-1, b=-1, c=-1)
            await event_of(application.source, ReceiversLag)
            assert application.source._core.window.blocked


async def test_stores_that_are_started_again_free_nobody(stores: Stores) -> None:
    async with registered(stores) as slow, sending(stores) as application:
        await application.until_held_after(9)
        (await _message(slow, 3)).acknowledge(all_before=True)
        await application.until_held_after(13)
        for name in "abc":
            await stores.stop(name)
            await stores.start(name)
            await application.until_held_after(13)
    # Nor does a source that is started again: it hears of receivers before it may send.
    async with sending(stores) as application:
        await application.until_held_after(13)


async def _message(one: Receiver, sequence: int) -> Message:
    async with asyncio.timeout(60):
        async for message in one:
            if message.sequence == sequence:
                return message
    raise AssertionError


def at_the_end(point: StartingPoint) -> int:
    return point.high + 1


async def test_what_a_receiver_never_asks_for_is_not_waited_for(stores: Stores) -> None:
    """It starts where it wants to; were that not acknowledged, both would wait for ever."""
    async with sending(stores) as application:
        await application.until_sent(100)
        await application.stop()
        await application.source.flush(timeout=60)
        options = replace(QUICK, choose_start=at_the_end)
        async with await receiver(stores, options=options) as one:
            taking = asyncio.create_task(take(one, 500))
            async with asyncio.timeout(60):
                while application.source._core.window.paced_upto == SEQUENCE_MAX:  # noqa: ASYNC110
                    await asyncio.sleep(0.02)
            # Now the source knows of it.
            again = Sending(application.source)
            first = (await taking)[0][0]
            assert first > 90
            await again.stop()


async def test_what_it_was_before_it_was_paced_a_receiver_that_had_nothing_is_no_obstacle(
    stores: Stores,
) -> None:
    unpaced = replace(PACED, receiver_pacing=None)
    async with sending(stores, unpaced) as application:
        await application.until_sent(100)
        await application.stop()
        await application.source.flush()
        options = replace(QUICK, choose_start=at_the_end)
        async with await receiver(stores, options=options) as one:
            await told(one, RegistrationComplete)
            taking = asyncio.create_task(take(one, 50))
            await application.source.close()
            async with sending(stores) as paced:
                await paced.until_sent(200)
                await taking
