"""The source without asyncio. The stores run on the background loop, as everything else does."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.source.fake_store import FakeStore
from tests.source.support import QUICK, addresses, contents

from quorate.protocol.errors import (
    Closed,
    Fenced,
    InvalidArgument,
    MessageTooLarge,
    NoQuorum,
    NotRegistered,
    NotYetStable,
    SendTimedOut,
    WaitsForItself,
)
from quorate.protocol.limits import MESSAGE_BYTES_USUAL
from quorate.source import (
    Event,
    FilePublishStore,
    Layout,
    Outgoing,
    PublishStore,
    QuorumLost,
    RegistrationComplete,
    SourceClosed,
    SourceOptions,
    StoreGroup,
)
from quorate.source.blocking import Source
from quorate.transport.blocking import run_blocking


async def on_loop(function: Any, *arguments: Any) -> Any:
    return function(*arguments)


@pytest.fixture
def group() -> Iterator[list[FakeStore]]:
    async def make() -> list[FakeStore]:
        made = [FakeStore() for _ in range(3)]
        for store in made:
            await store.start()
        return made

    made = run_blocking(make())
    yield made
    for store in made:
        run_blocking(store.stop())


def open_source(
    group: list[FakeStore],
    options: SourceOptions = QUICK,
    publish_store: PublishStore | None = None,
) -> Source:
    return Source.open(
        "orders",
        session_id=0x10,
        stores=addresses(group),
        options=options,
        publish_store=publish_store,
        timeout=10,
    )


class FastLoop:
    """A loop that does at once what another thread asks of it, unless that has to wait."""

    def __init__(self, loop: Any) -> None:
        self._loop = loop

    def call_soon_threadsafe(self, function: Any) -> None:
        done = threading.Event()

        def call() -> None:
            function()
            self._loop.call_soon(done.set)

        self._loop.call_soon_threadsafe(call)
        done.wait(0.2)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loop, name)


def test_a_message_is_sent_even_if_the_loop_is_faster_than_its_thread(
    group: list[FakeStore],
) -> None:
    with open_source(group) as source:
        loop: Any = FastLoop(source._loop)
        source._loop = loop
        assert source.publish(b"0", timeout=5).sequence == 0
        assert source.send_many([b"1", b"2"]) == range(1, 3)
        source.flush(5)


def test_messages_keep_their_order_and_numbers(group: list[FakeStore]) -> None:
    with open_source(group) as source:
        numbers = [source.send(b"%d" % number) for number in range(20_000)]
        assert numbers == list(range(20_000))
        assert source.send_many(b"%d" % number for number in range(20_000, 40_000)) == range(
            20_000, 40_000
        )
        receipt = source.publish(b"40000")
        assert receipt.sequence == 40_000
        assert len(receipt.stores) >= 2
        source.flush(timeout=60)
        assert (source.next_sequence, source.stable_upto) == (40_001, 40_000)
        assert source.registered
        assert (source.epoch, source.name.session_id) == (1, 0x10)
        assert source._core.information().epoch == 1
    for store in group:
        assert store.messages == {number: b"%d" % number for number in range(40_001)}
    events = list(source.events())
    assert any(isinstance(event, RegistrationComplete) for event in events)
    assert events[-1] == SourceClosed(40_000, 40_000)


def test_threads_side_by_side(group: list[FakeStore]) -> None:
    sent: dict[int, bytes] = {}
    with open_source(group) as source:

        def run(name: bytes) -> None:
            for _ in range(2000):
                sent[source.send(name)] = name
            sent[source.publish(name).sequence] = name

        threads = [threading.Thread(target=run, args=(b"%d" % n,)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(sent) == list(range(4 * 2001))
    for store in group:
        assert store.messages == sent


def test_errors_are_raised_where_they_are_made(group: list[FakeStore]) -> None:
    with open_source(group, SourceOptions(message_bytes_max=5)) as source:
        with pytest.raises(MessageTooLarge):
            source.send(b"123456")
        with pytest.raises(MessageTooLarge):
            source.send_many([b"1", b"123456"])
        with pytest.raises(InvalidArgument):
            source.send("text")  # type: ignore[arg-type]
        assert source.send_many([]) == range(0)
        assert source.send(b"0") == 0
    with pytest.raises(Closed):
        source.send(b"1")
    with pytest.raises(Closed):
        source.send_many([b"1"])
    source.close()


def test_groups_and_events_as_they_come(group: list[FakeStore]) -> None:
    layout = Layout.of(StoreGroup("g", addresses(group[:2])), StoreGroup("h", addresses(group[2:])))
    seen: list[Event] = []
    with Source.open("orders", stores=layout, options=QUICK, on_event=seen.append) as source:
        assert source.publish(b"x").groups
    assert any(isinstance(event, RegistrationComplete) for event in seen)
    with pytest.raises(InvalidArgument, match="part of the layout"):
        Source.open("orders", stores=layout, policy=layout.policy)


def test_without_stores() -> None:
    with pytest.raises(NoQuorum):
        Source.open("orders", stores="127.0.0.1:1", options=QUICK, timeout=0.3)


def test_a_full_window_holds_the_sender_up(group: list[FakeStore]) -> None:
    with open_source(group, SourceOptions(flight_messages=100)) as source:
        for store in group:
            run_blocking(on_loop(store.acknowledging.clear))
        done = threading.Event()

        def run() -> None:
            for _ in range(30_000):
                source.send(b"x")
            done.set()

        thread = threading.Thread(target=run)
        thread.start()
        assert not done.wait(0.3)
        assert source.stable_upto == -1
        assert source.next_sequence == 100
        assert (source.unstable_messages, source.unstable_bytes) == (100, 100)
        for store in group:
            run_blocking(on_loop(store.acknowledge_again))
        assert done.wait(30)
        thread.join()
    assert len(group[0].messages) == 30_000


def test_a_call_waits_no_longer_than_it_is_told(group: list[FakeStore]) -> None:
    source = open_source(group, SourceOptions(flight_messages=10))
    for store in group:
        run_blocking(on_loop(store.acknowledging.clear))
    with pytest.raises(NotYetStable, match=r"after 0\.1 s"):
        source.publish(b"0", timeout=0.1)
    source.send_many([b"x"] * 9)
    for timeout in (0, 0.1):
        for call in (
            lambda t=timeout: source.send(b"y", timeout=t),
            lambda t=timeout: source.send(b"y", b"key", timeout=t),
            lambda t=timeout: source.send_many([b"y"], timeout=t),
            lambda t=timeout: source.commit([b"y"], b"mark", timeout=t),
            lambda t=timeout: source.publish(b"y", timeout=t),
        ):
            with pytest.raises(SendTimedOut, match="flight window is full"):
                call()
    with pytest.raises(SendTimedOut, match="flight window is full"):
        source.send_nowait(b"y")
    assert source.next_sequence == 10
    for store in group:
        run_blocking(on_loop(store.acknowledge_again))
    assert source.send(b"10", timeout=10) == 10
    assert source.publish(b"11", timeout=30).sequence == 11
    source.close()


def test_a_send_without_a_wait_is_delivered_and_refuses_what_may_wait(
    group: list[FakeStore], tmp_path: Path
) -> None:
    options = SourceOptions(message_bytes_max=2 * MESSAGE_BYTES_USUAL)
    with open_source(group, options) as source:
        assert source.send_nowait(b"0") == 0
        assert source.send_nowait(b"1", b"key") == 1
        with pytest.raises(InvalidArgument, match="use send for more"):
            source.send_nowait(bytes(MESSAGE_BYTES_USUAL), b"k")
        source.flush(30)
    assert group[0].messages == {0: b"0", 1: b"1"}
    synced = open_source(group, publish_store=FilePublishStore(tmp_path, sync=True))
    with synced as source, pytest.raises(InvalidArgument, match="sync"):
        source.send_nowait(b"2")


@pytest.mark.expects_log("does not take|lost its quorum")
def test_a_call_waits_for_a_quorum_if_it_is_told(group: list[FakeStore]) -> None:
    with open_source(group) as source:
        events = source.events()
        for store in group[1:]:
            run_blocking(store.stop())
        assert any(isinstance(event, QuorumLost) for event in events)
        with pytest.raises(SendTimedOut, match="too few stores"):
            source.send(b"x", timeout=0.1, wait_quorum=True)
        done: list[int] = []
        sender = threading.Thread(target=lambda: done.append(source.send(b"0", wait_quorum=True)))
        sender.start()
        for store in group[1:]:
            run_blocking(store.start())
        sender.join(30)
        assert done == [0]


@pytest.mark.expects_log("does not take|lost its quorum")
def test_without_quorum_nothing_is_accepted_and_what_was_is_not_lost(
    group: list[FakeStore],
) -> None:
    with open_source(group) as source:
        events = source.events()
        for store in group[1:]:
            run_blocking(store.stop())
        assert any(isinstance(event, QuorumLost) for event in events)
        with pytest.raises(NotRegistered):
            source.send(b"x")
        assert source.next_sequence == 0
        for store in group[1:]:
            run_blocking(store.start())
        completed = (event for event in events if isinstance(event, RegistrationComplete))
        next(completed)
        assert source.publish(b"0").sequence == 0


@pytest.mark.expects_log("cannot go on|does not take|lost its quorum")
def test_a_fence_is_raised_by_the_next_call(group: list[FakeStore]) -> None:
    source = open_source(group)
    for store in group:
        run_blocking(on_loop(store.acknowledging.clear))
    source.send(b"0")
    run_blocking(group[0].until_held(0))
    for store in group:
        run_blocking(on_loop(store.end_stream, Fenced("orders", 1, 2)))
    with pytest.raises(Fenced):
        source.flush(timeout=60)
    with pytest.raises(Fenced):
        source.send(b"1")
    with pytest.raises(Fenced):
        source.publish(b"1")
    with pytest.raises(Fenced):
        source.close()


def test_a_close_that_can_not_finish_says_so(group: list[FakeStore]) -> None:
    source = open_source(group, SourceOptions(flight_messages=10))
    for store in group:
        run_blocking(on_loop(store.acknowledging.clear))
    source.send_many([b"x"] * 10)
    with pytest.raises(NotYetStable):
        source.flush(timeout=0.1)
    with pytest.raises(NotYetStable) as raised:
        source.close(timeout=0.3)
    assert raised.value.last == 9


def test_attributes_stay_with_their_messages(group: list[FakeStore]) -> None:
    sent: list[Outgoing] = []
    with open_source(group) as source:
        for number in range(3000):
            message = Outgoing(b"%d" % number, b"%d" % (number % 5) if number % 2 else None)
            sent.append(message)
            assert source.send(message.payload, message.key) == number
        one = Outgoing(b"one", properties={"a": b"b"})
        many: list[bytes | Outgoing] = [b"plain", one]
        many *= 6000
        assert source.send_many(many) == range(3000, 15_000)
        sent += [Outgoing(b"plain"), one] * 6000
        assert source.commit([Outgoing(b"c", b"k"), b"d"], b"mark") == range(15_000, 15_002)
        assert source.publish(b"last", key=b"key", properties={"n": b"v"})
        with pytest.raises(MessageTooLarge):
            source.send(b"", key=b"k" * (1 << 20))
        assert source.delete(b"key") == 15_003
        moment = datetime(2026, 1, 31, tzinfo=UTC)
        assert source.send(b"x", expires=moment) == 15_004
    sent += [Outgoing(b"c", b"k"), Outgoing(b"d"), Outgoing(b"last", b"key", {"n": b"v"})]
    sent += [Outgoing(b"", b"key", deleted=True), Outgoing(b"x", expires=moment)]
    assert contents(group[0]) == sent


def test_a_callback_that_would_wait_for_itself_is_told_at_once(group: list[FakeStore]) -> None:
    raised: list[type[Exception]] = []
    with open_source(group) as source:

        async def on_the_background_thread() -> None:
            calls = (
                source.flush,
                source.close,
                lambda: source.publish(b"x", timeout=1),
                lambda: source.commit([b"x"], b"mark"),
                lambda: open_source(group),
            )
            for call in calls:
                try:
                    call()
                except WaitsForItself as error:
                    raised.append(type(error))

        run_blocking(on_the_background_thread())
        assert len(raised) == 5
        assert source.publish(b"y", timeout=30).sequence == 0


def test_a_send_on_a_full_window_in_a_callback_is_told_at_once(group: list[FakeStore]) -> None:
    source = open_source(group, SourceOptions(flight_messages=1))
    for store in group:
        run_blocking(on_loop(store.acknowledging.clear))
    source.send(b"0")
    sends = (
        lambda: source.send(b"1"),
        lambda: source.send(b"1", b"key"),
        lambda: source.send_many([b"1"]),
    )
    for send in sends:
        with pytest.raises(WaitsForItself):
            run_blocking(on_loop(send))
    assert source.next_sequence == 1
    for store in group:
        run_blocking(on_loop(store.acknowledge_again))
    source.close()


@pytest.mark.parametrize("wrong", [{"session_id": "x"}, {"session_id": 1.5}, {"topic": 5}])
def test_an_argument_of_another_type_is_named(wrong: dict[str, Any]) -> None:
    arguments: dict[str, Any] = {"topic": "orders", "stores": "127.0.0.1:1"} | wrong
    with pytest.raises(InvalidArgument):
        Source.open(**arguments)
