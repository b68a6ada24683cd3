"""A client that sends patterns, lies and floods stops nobody: a source and a receiver go on."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

from tests.begun import begun_in
from tests.receiver.real_peers import Stores
from tests.store.hostile import (
    PATIENCE_SECONDS,
    Hostile,
    append_open,
    named,
    promise,
    registers,
    slow_patterns,
)
from tests.store.support import MEMBERSHIP, ORDERS, batch

from quorate.client import connect
from quorate.errors import EpochTooFar, InvalidArgument, NotRegistered, QuorateError
from quorate.protocol.wire import source_from_wire, source_to_wire
from quorate.v1 import messages_pb2 as v1
from quorate.v1 import store_pb2 as store_v1

EXCHANGES = 100
"""The messages that go from the source to the receiver while the hostile client acts, at least."""
SOURCES = 200
FRAMES = 500


def sends_patterns(client: Hostile) -> None:
    """Ask for everything, by patterns as slow as a store takes them. Leave answers unread."""
    for pattern in slow_patterns():
        client.read("Status", store_v1.StatusRequest(topic_pattern=pattern, protocol_version=1))
        watch = store_v1.WatchRequest(topic_pattern=pattern, protocol_version=1)
        client.read("Watch", watch, 1)
        live = store_v1.DELIVERED_LIVE
        request = store_v1.SubscribeRequest(pattern=pattern, delivered=live, protocol_version=1)
        client.stub.Subscribe(request, timeout=PATIENCE_SECONDS)


def lies(client: Hostile) -> None:
    """Speak for the source: with a stream, an epoch and positions that are not its own."""
    source = source_to_wire(ORDERS)
    client.append([append_open(source, b"x"), v1.Frame(batch=batch(0, 9), stable_upto=9)])
    client.append([v1.Frame(batch=b"x" * 1_000_000)])
    begin = begun_in(1, MEMBERSHIP)
    client.call(
        "Begin",
        store_v1.BeginRequest(
            source=source, begin=begin, instance=b"a", incarnation=b"x", protocol_version=1
        ),
    )
    client.call("Promise", promise(source, 2**62))
    request = store_v1.AcknowledgeRequest(session_id=5)
    request.acknowledgements.add(source=source, epoch=1, upto=2**62)
    client.call("Acknowledge", request)


def floods(client: Hostile) -> None:
    """Register many sources, and send one batch for each message, the same ones again and again."""
    incarnation = registers(client, SOURCES)
    whose = source_from_wire(named(0))
    frames = [v1.Frame(batch=batch(at, at, source=whose), stable_upto=-1) for at in range(FRAMES)]
    client.append([append_open(named(0), incarnation), *frames])


ACTS: tuple[Callable[[Hostile], None], ...] = (sends_patterns, lies, floods)


async def test_a_client_that_sends_patterns_lies_and_floods_stops_nobody(stores: Stores) -> None:
    over, rounds = threading.Event(), dict.fromkeys(stores.nodes, 0)

    def acts(name: str, address: str) -> set[type[QuorateError]]:
        """Act in rounds, until it is over. Return the kinds of errors that refused something."""
        with Hostile(address) as client:
            while not over.is_set():
                for act in ACTS:
                    act(client)
                rounds[name] += 1
            return set(map(type, client.refused))

    async with (
        asyncio.timeout(300),
        connect(stores.addresses) as quorate,
        quorate.source(ORDERS.topic, session_id=ORDERS.session_id) as source,
        quorate.receiver(ORDERS.topic, session_id=0x20) as receiver,
        asyncio.TaskGroup() as group,
    ):
        acting = [
            group.create_task(asyncio.to_thread(acts, name, node.address))
            for name, node in stores.nodes.items()
        ]
        try:
            number = 0
            while number < EXCHANGES or not all(rounds.values()):
                assert (await source.publish(b"%d" % number)).sequence == number
                message = await receiver.receive()
                assert message is not None
                assert message.payload == b"%d" % number
                number += 1
        finally:
            over.set()
        for each in acting:
            assert await each >= {EpochTooFar, InvalidArgument, NotRegistered}
