"""The receiver for code without asyncio, against a scripted group on the background loop."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests import seams
from tests.receiver.fakes import NAME, Group

from quorate.protocol.errors import Closed, Deregistered, Fenced, UnknownTopic, WaitsForItself
from quorate.receiver import ReceiverOptions, RegistrationComplete
from quorate.receiver.blocking import Receiver
from quorate.transport.blocking import run_blocking

QUICK: dict[str, Any] = {"registration_interval": 3.0, "acknowledge_interval": 0.01}


async def begin() -> Group:
    group = Group()
    await group.start()
    await group.announce()
    return group


async def send(group: Group, last: int) -> None:
    await group.source.until_attached()
    group.send(last)


@pytest.fixture
def group() -> Iterator[Group]:
    group = run_blocking(begin())
    yield group
    run_blocking(group.stop())


def opened(group: Group, topic: str = "orders", **arguments: Any) -> Receiver:
    options = ReceiverOptions(**(QUICK | arguments.pop("options", {})))
    return Receiver.open(
        topic, stores=group.addresses, session_id=0x20, options=options, timeout=30, **arguments
    )


def take(receiver: Receiver, count: int) -> list[int]:
    got: list[int] = []
    for message in receiver:
        got.append(message.sequence)
        if len(got) == count:
            break
    return got


def test_messages_in_order_and_where_it_was_left(group: Group) -> None:
    group.store(99)
    with opened(group) as receiver:
        assert take(receiver, 7) == list(range(7))
        assert take(receiver, 43) == list(range(7, 50))
        assert receiver.sources == (NAME,)
    with opened(group) as receiver:
        assert take(receiver, 50) == list(range(50, 100))
    assert group.stores[0].receivers[NAME, 0x20][1] == 99


def test_batches_go_on_within_a_batch(group: Group) -> None:
    group.store(99)
    with opened(group) as receiver:
        take(receiver, 3)
        got: list[bytes] = []
        for batch in receiver.batches():
            got += batch.payloads
            if batch.last == 99:
                break
    assert got == [f"1:{n}".encode() for n in range(3, 100)]
    assert group.stores[0].receivers[NAME, 0x20][1] == 99


def test_an_exception_leaves_the_last_one_unacknowledged(group: Group) -> None:
    group.store(99)
    with contextlib.suppress(ZeroDivisionError), opened(group) as receiver:
        take(receiver, 5)
        raise ZeroDivisionError
    with opened(group) as receiver:
        assert take(receiver, 1) == [4]


def test_explicit(group: Group) -> None:
    group.store(99)
    with opened(group, acknowledge="explicit") as receiver:
        for message in receiver:
            if message.sequence == 30:
                message.acknowledge(all_before=True)
                break
        receiver.flush()
        assert group.stores[0].receivers[NAME, 0x20][1] == 30


def test_errors_are_the_same(group: Group) -> None:
    with pytest.raises(UnknownTopic):
        opened(group, "ordesr", options={"wait_for_source": 0.05})


@pytest.mark.expects_log(r"receiver of \S+ ends")
def test_the_older_of_two_is_fenced(group: Group, monkeypatch: pytest.MonkeyPatch) -> None:
    seams.RECEIVER_ACKNOWLEDGE_REPEAT_SECONDS.replace(monkeypatch, 0.05)
    group.store(9)
    older = opened(group)
    take(older, 5)
    with opened(group), pytest.raises(Fenced):
        take(older, 100)
    older.close()


def test_a_filter_leaves_out_what_does_not_pass(group: Group) -> None:
    group.store(9)
    with opened(group, where="$sequence IN (2, 7)") as receiver:
        assert take(receiver, 2) == [2, 7]


def test_events(group: Group) -> None:
    with opened(group) as receiver:
        events = receiver.events()
        assert any(isinstance(event, RegistrationComplete) for event in events)


def test_closing_ends_a_loop_in_another_thread(group: Group) -> None:
    group.store(9)
    receiver = opened(group)
    got: list[int] = []
    arrived = threading.Event()

    def loop() -> None:
        for message in receiver:
            got.append(message.sequence)
            if message.sequence == 9:
                arrived.set()

    thread = threading.Thread(target=loop)
    thread.start()
    assert arrived.wait(10)
    receiver.close()
    thread.join(10)
    assert not thread.is_alive()
    assert got == list(range(10))


@pytest.fixture
def control_c_counts() -> Iterator[None]:
    """Also where the tests run in the background of a script, in which Ctrl-C is ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("control_c_counts")
def test_control_c_interrupts_and_loses_nothing(group: Group) -> None:
    group.store(9)
    with opened(group) as receiver:
        assert take(receiver, 10) == list(range(10))
        timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))

        def interrupted() -> None:
            timer.start()
            take(receiver, 1)

        with pytest.raises(KeyboardInterrupt):
            interrupted()
        timer.join()
        run_blocking(send(group, 19))
        assert take(receiver, 10) == list(range(10, 20))


def test_deregistering_ends_it_for_good(group: Group) -> None:
    with opened(group) as receiver:
        receiver.deregister()
        with pytest.raises(Deregistered):
            receiver.flush()
    assert not any(store.receivers for store in group.stores)


def test_one_message_at_a_time(group: Group) -> None:
    group.store(19)
    with opened(group) as receiver:
        got = [
            message.sequence for message in [receiver.receive(60), receiver.receive()] if message
        ]
        got += take(receiver, 10)
        while (message := receiver.receive(timeout=0.5)) is not None:
            got.append(message.sequence)
        assert got == list(range(20))
        assert receiver.receive(timeout=0) is None
        run_blocking(send(group, 20))
        message = receiver.receive(timeout=60)
        assert message is not None
        assert message.sequence == 20
    with pytest.raises(Closed):
        receiver.receive(timeout=0)


def test_a_closed_receiver_hands_over_nothing_more(group: Group) -> None:
    group.store(99)
    with opened(group) as receiver:
        assert take(receiver, 3) == [0, 1, 2]
    assert take(receiver, 1) == []
    assert list(receiver.batches()) == []


def test_a_loop_ends_as_soon_as_another_thread_closes(group: Group) -> None:
    group.store(99)
    receiver = opened(group)
    got: list[int] = []
    for message in receiver:
        got.append(message.sequence)
        if message.sequence == 3:
            closing = threading.Thread(target=receiver.close)
            closing.start()
            closing.join(10)
    assert got == [0, 1, 2, 3]


async def kill_the_source(group: Group) -> None:
    await group.restart_source(kept_upto=7)
    group.store(12)


async def send_unstable(group: Group) -> None:
    await group.source.until_attached()
    group.send(9, stable=False)


@pytest.mark.expects_log("is withdrawn")
def test_a_message_that_replaces_a_withdrawn_one_says_so(group: Group) -> None:
    with opened(group, delivery="live") as receiver:
        run_blocking(send_unstable(group))
        assert take(receiver, 10) == list(range(10))
        run_blocking(kill_the_source(group))
        replacing = [next(iter(receiver)) for _ in range(5)]
        assert [m.sequence for m in replacing] == [8, 9, 10, 11, 12]
        assert [m.payload for m in replacing] == [f"2:{n}".encode() for n in range(8, 13)]
        assert [m.replaces_withdrawn for m in replacing] == [True, True, False, False, False]


def test_a_message_comes_again(group: Group) -> None:
    group.store(2)
    with opened(group, acknowledge="explicit") as receiver:
        messages = [receiver.receive(60) for _ in range(3)]
        assert messages[1] is not None
        messages[1].nack(0.01)
        again = receiver.receive(60)
        assert again is not None
        assert (again.sequence, again.attempt) == (1, 2)


def test_a_call_in_a_callback_is_told_at_once(group: Group) -> None:
    group.store(0)
    receiver = opened(group)
    calls: tuple[Callable[[], object], ...] = (
        receiver.receive,
        lambda: receiver.receive(timeout=1),
        lambda: next(iter(receiver)),
        lambda: next(receiver.batches()),
        lambda: next(receiver.events()),
        receiver.flush,
        receiver.close,
        receiver.deregister,
        lambda: opened(group),
    )

    for call in calls:
        with pytest.raises(WaitsForItself):
            run_blocking(called(call))
    assert take(receiver, 1) == [0]
    receiver.close()


async def called(call: Callable[[], object]) -> None:
    """Call something on the background thread."""
    call()


@pytest.mark.parametrize(
    "call",
    [
        lambda receiver: receiver.receive(timeout=0),
        lambda receiver: next(iter(receiver)),
        lambda receiver: next(receiver.batches()),
    ],
)
def test_a_call_in_a_callback_acknowledges_nothing(
    group: Group, call: Callable[[Receiver], object]
) -> None:
    group.store(0)
    with contextlib.suppress(RuntimeError), opened(group) as receiver:
        for message in receiver:
            with pytest.raises(WaitsForItself):
                run_blocking(called(lambda: call(receiver)))
            raise RuntimeError(message)
    assert group.stores[0].receivers[NAME, 0x20][1] == -1


def test_deregistering_in_a_callback_drops_nothing(group: Group) -> None:
    group.store(99)
    receiver = opened(group)
    taken = take(receiver, 1)
    with pytest.raises(WaitsForItself):
        run_blocking(called(receiver.deregister))
    assert taken + take(receiver, 99) == list(range(100))
    receiver.close()
