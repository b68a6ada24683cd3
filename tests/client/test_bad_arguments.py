"""Arguments of the wrong kind: each call says which one is wrong, before it changes anything."""

from __future__ import annotations

from typing import Any

import pytest
from tests.receiver.real_peers import Stores

from quorate.client import connect, connect_blocking
from quorate.errors import InvalidArgument

WRONG_OF_BOTH = [
    ({"session_id": True}, "session ID: True"),
    ({"session_id": "1"}, "session ID: '1'"),
    ({"reg_id": True}, "reg_id: True"),
    ({"timeout": -1}, "timeout: -1"),
    ({"timeout": "1"}, "timeout: '1'"),
    ({"on_event": 3}, "on_event: 3 is not a function"),
    ({"take_over": "no"}, "take_over: 'no' is neither True nor False"),
]
WRONG_PATTERNS = [
    ({"topic_pattern": b"a"}, "b'a' is not text"),
    ({"topic_pattern": ""}, "is empty; '.*' matches every topic"),
]
WRONG_OF_SOURCES = [
    ({"options": {}}, "SourceOptions"),
    ({"publish_store": "/tmp/kept"}, "publish_store: '/tmp/kept' is none; give one"),
]
WRONG_OF_RECEIVERS = [({"options": {}}, "ReceiverOptions"), ({"where": 5}, "where: 5 is not text")]
WRONG_OF_SUBSCRIBERS = [
    ({"timeout": "1"}, "timeout: '1'"),
    ({"on_event": 3}, "on_event: 3 is not a function"),
    ({"chooser": 4}, "chooser: 4 is not a function"),
    ({"where": 5}, "where: 5 is not text"),
    ({"save_interval": "1"}, "save_interval: '1' is not above 0 seconds"),
    ({"save_every": "2"}, "save_every: '2' is not 1 message or more"),
    ({"bookmarks": 5, "name": "n"}, "bookmarks: 5 is none; give one"),
    ({"name": 5}, "name: 5 is not text"),
    ({"archive": 5}, "archive: 5 is not the path of a directory"),
    ({"archive": b"a"}, "archive: b'a' is not the path of a directory"),
    ({"rate": "1/s", "rate_max_gap": "2"}, "rate_max_gap: '2' is not above 0 seconds"),
    ({"paused": "no"}, "paused: 'no' is neither True nor False"),
]
WRONG_OF_STATES = [
    ({"chooser": 5}, "chooser: 5 is not a function"),
    ({"timeout": "1"}, "timeout: '1'"),
]
WRONG_OF_QUERIES = [
    ({"limit": "1"}, "limit: '1' is not a whole number"),
    ({"limit": True}, "limit: True is not a whole number"),
    ({"order_by": 5}, "order_by: 5 is neither a field nor a list of fields"),
    ({"order_by": [5]}, "order_by: .5. is neither a field nor a list of fields"),
    ({"at_least": 5}, "at_least: 5 is no bookmark"),
]


@pytest.mark.parametrize("stores", [b"a=h:1", [5], [None], 5])
def test_a_client_of_stores_that_are_none_is_not_made(stores: Any) -> None:
    with pytest.raises(InvalidArgument, match=r"stores: .* is none; name them as"):
        connect(stores)


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"queue": 5}, "queue: 5 is no name"),
        ({"queue": "q", "name": 5}, "name: 5 is no name"),
        ({"queue": "q", "max_backlog": True}, "max_backlog: True is not between 1 and"),
    ],
)
async def test_a_consumer_does_not_open(wrong: Any, text: str) -> None:
    async with connect("127.0.0.1:1") as quorate:
        with pytest.raises(InvalidArgument, match=text):
            await quorate.queue(**wrong)


@pytest.mark.parametrize(("wrong", "text"), WRONG_OF_STATES)
async def test_a_state_is_not_made(wrong: Any, text: str) -> None:
    async with connect("127.0.0.1:1") as quorate:
        with pytest.raises(InvalidArgument, match=text):
            quorate.state("orders", **wrong)


@pytest.mark.parametrize(("wrong", "text"), WRONG_OF_QUERIES)
async def test_a_query_is_not_asked(wrong: Any, text: str) -> None:
    async with connect("127.0.0.1:1") as quorate:
        with pytest.raises(InvalidArgument, match=text):
            await quorate.state("orders").query(**wrong)


@pytest.mark.parametrize(("wrong", "text"), [*WRONG_OF_BOTH, *WRONG_OF_SOURCES])
async def test_a_source_does_not_open(stores: Stores, wrong: Any, text: str) -> None:
    async with connect(stores.addresses) as quorate:
        with pytest.raises(InvalidArgument, match=text):
            await quorate.source("orders", **wrong)


@pytest.mark.parametrize(("wrong", "text"), [*WRONG_OF_BOTH, *WRONG_OF_RECEIVERS, *WRONG_PATTERNS])
async def test_a_receiver_does_not_open(stores: Stores, wrong: Any, text: str) -> None:
    given = wrong if "topic_pattern" in wrong else {"topic": "orders", **wrong}
    async with connect(stores.addresses) as quorate:
        with pytest.raises(InvalidArgument, match=text):
            await quorate.receiver(**given)


@pytest.mark.parametrize(("wrong", "text"), [*WRONG_OF_SUBSCRIBERS, *WRONG_PATTERNS])
async def test_a_subscriber_does_not_open(stores: Stores, wrong: Any, text: str) -> None:
    given = wrong if "topic_pattern" in wrong else {"topic": "orders", **wrong}
    async with connect(stores.addresses) as quorate:
        with pytest.raises(InvalidArgument, match=text):
            await quorate.subscriber(**given)


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"stores": 5}, "stores: 5 is none; name them as a=host:port"),
        ({"stores": "http://127.0.0.1:7301"}, "is not of the form"),
        ({"previous_policies": 5}, "previous_policies: 5 is not a list"),
        ({"previous_policies": "a=host:7301"}, "previous_policies: 'a=host:7301' is not a list"),
        ({"heartbeat_interval": "1"}, "heartbeat_interval: '1' is not a number"),
        ({"tracing": "yes"}, "tracing: 'yes' is neither True nor False"),
    ],
)
def test_a_client_does_not_connect(wrong: Any, text: str) -> None:
    for opens in (connect, connect_blocking):
        with pytest.raises(InvalidArgument, match=text):
            opens(**{"stores": "a=127.0.0.1:7301", **wrong})


@pytest.mark.parametrize("wrong", [-1, float("nan"), "1"])
async def test_a_timeout_of_a_call(stores: Stores, wrong: Any) -> None:
    async with (
        connect(stores.addresses) as quorate,
        quorate.source("orders") as orders,
        quorate.receiver("orders") as receiver,
    ):
        for call in (
            orders.publish(b"x", timeout=wrong),
            orders.flush(timeout=wrong),
            orders.wait_stable(-1, timeout=wrong),
            orders.close(timeout=wrong),
            orders.deregister(timeout=wrong),
            receiver.receive(timeout=wrong),
            receiver.flush(timeout=wrong),
            quorate.close(timeout=wrong),
        ):
            with pytest.raises(InvalidArgument, match="timeout"):
                await call
        assert (await orders.publish(b"0")).sequence == 0


@pytest.mark.parametrize("wrong", [-1, float("nan"), "1"])
def test_a_timeout_of_a_blocking_call(stores_aside: Stores, wrong: Any) -> None:
    with (
        connect_blocking(stores_aside.addresses) as quorate,
        quorate.source("orders") as orders,
        quorate.receiver("orders") as receiver,
    ):
        for call in (
            lambda: orders.publish(b"x", timeout=wrong),
            lambda: orders.flush(timeout=wrong),
            lambda: orders.wait_stable(-1, timeout=wrong),
            lambda: orders.close(timeout=wrong),
            lambda: orders.deregister(timeout=wrong),
            lambda: receiver.receive(timeout=wrong),
            lambda: receiver.flush(timeout=wrong),
            lambda: quorate.close(timeout=wrong),
        ):
            with pytest.raises(InvalidArgument, match="timeout"):
                call()
        assert orders.publish(b"0").sequence == 0


async def test_a_commit_with_a_wrong_marker_takes_no_number(stores: Stores) -> None:
    wrong: Any = "text"
    async with connect(stores.addresses) as quorate, quorate.source("orders") as orders:
        with pytest.raises(InvalidArgument, match="marker: is str, not bytes"):
            await orders.commit([b"0"], wrong)
        assert (await orders.publish(b"0")).sequence == 0


def test_a_blocking_commit_with_a_wrong_marker_takes_no_number(stores_aside: Stores) -> None:
    wrong: Any = "text"
    with connect_blocking(stores_aside.addresses) as quorate, quorate.source("orders") as orders:
        with pytest.raises(InvalidArgument, match="marker: is str, not bytes"):
            orders.commit([b"0"], wrong)
        assert orders.publish(b"0").sequence == 0


async def test_waiting_for_a_number_that_was_not_sent(stores: Stores) -> None:
    async with connect(stores.addresses) as quorate, quorate.source("orders") as orders:
        await orders.publish(b"0")
        with pytest.raises(InvalidArgument, match="upto: 1 was not sent yet; the newest is 0"):
            await orders.wait_stable(1)
        wrong: Any = "1"
        with pytest.raises(InvalidArgument, match="upto: '1' is not a sequence number"):
            await orders.wait_stable(wrong)
