"""A receiver that cannot open leaves the working one of its identity alone."""

from __future__ import annotations

import asyncio
import socket

import pytest
from tests.receiver.fakes import NAME, FakeStore, Group, Served
from tests.receiver.real_peers import Stores, numbered, receiver, send, source, take
from tests.receiver.support import numbers, opened, told
from tests.receiver.support import take as take_messages

from quorate.protocol.errors import NoQuorum, RegIdInUse
from quorate.protocol.identity import SourceName
from quorate.protocol.wire import source_to_wire
from quorate.receiver import Receiver, ReceiverOptions, RegistrationComplete, StartingPoint
from quorate.receiver.blocking import Receiver as BlockingReceiver
from quorate.v1 import messages_pb2 as v1

ENDS = r"receiver of \S+ ends"


def raises(_: StartingPoint) -> int:
    raise ArithmeticError("no start")


# With real stores.


@pytest.mark.expects_log(ENDS)
async def test_a_choice_of_the_start_that_raises_ends_no_other_instance(stores: Stores) -> None:
    async with await source(stores) as sending, await receiver(stores) as working:
        with pytest.raises(ArithmeticError):
            await receiver(stores, options=ReceiverOptions(choose_start=raises))
        await send(sending, 0, 9)
        assert await take(working, 10) == numbered(0, 9)
        await working.flush()


@pytest.mark.expects_log(ENDS)
async def test_a_blocking_choice_that_raises_ends_no_other_instance(stores: Stores) -> None:
    def open_anew() -> None:
        with pytest.raises(ArithmeticError):
            BlockingReceiver.open(
                "orders",
                session_id=0x20,
                stores=stores.addresses,
                options=ReceiverOptions(choose_start=raises),
            )

    async with await source(stores) as sending, await receiver(stores) as working:
        await asyncio.to_thread(open_anew)
        await send(sending, 0, 9)
        assert await take(working, 10) == numbered(0, 9)
        await working.flush()


@pytest.mark.expects_log(
    "directory of|does not register|waits for more stores|is silent|does not take|lost its quorum"
)
async def test_an_open_that_finds_too_few_stores_ends_no_other_instance(stores: Stores) -> None:
    async with await source(stores) as sending, await receiver(stores) as working:
        await send(sending, 0, 9)
        assert await take(working, 10) == numbered(0, 9)
        await stores.stop("b")
        await stores.stop("c")
        with pytest.raises(NoQuorum):
            await receiver(stores, timeout=1.0)
        await stores.start("b")
        await send(sending, 10, 19)
        assert await take(working, 10) == numbered(10, 19)
        await working.flush(30.0)


# With scripted ones.


def asked_and_registered(store: FakeStore) -> tuple[int, int]:
    return len(store.questions), len(store.registrations)


async def test_opening_takes_one_more_question(group: Group) -> None:
    await group.announce()
    for expected in (1, 2):
        async with await opened(group):
            assert [asked_and_registered(store) for store in group.stores] == [(expected,) * 2] * 3
            assert [store.receivers[NAME, 0x20][0] for store in group.stores] == [expected] * 3


@pytest.mark.expects_log(f"{ENDS}|does not register")
async def test_a_reg_id_that_is_in_use_is_found_before_the_registration(group: Group) -> None:
    await group.announce()
    group.stores[0].registrations_fail = RegIdInUse(5, "a", "another")
    with pytest.raises(RegIdInUse):
        await opened(group)
    assert not any(store.registrations for store in group.stores)


async def test_the_positions_of_the_registration_count(group: Group) -> None:
    """The older instance acknowledges until it is fenced."""
    await group.announce()
    group.store(9)
    points: list[StartingPoint] = []

    def choose(point: StartingPoint) -> int:
        points.append(point)
        for store in group.stores:
            store.receivers[NAME, 0x20] = [1, 5]
        return point.low

    async with await opened(group, options={"choose_start": choose}) as one:
        assert numbers(await take_messages(one, 4)) == [6, 7, 8, 9]
    assert [point.low for point in points] == [0], "it is asked once"


async def test_another_choice_of_the_start_stays(group: Group) -> None:
    await group.announce()
    group.store(9)

    def choose(_: StartingPoint) -> int:
        for store in group.stores:
            store.receivers[NAME, 0x20] = [1, 5]
        return 3

    async with await opened(group, options={"choose_start": choose}) as one:
        assert numbers(await take_messages(one, 7)) == list(range(3, 10))


@pytest.mark.expects_log("ends")
async def test_an_anonymous_one_that_registered_nowhere_ends_nothing(group: Group) -> None:
    await group.announce()
    with pytest.raises(ArithmeticError):
        await opened(group, session_id=None, options={"choose_start": raises})
    assert not any(store.deregistrations for store in group.stores)


# Several sources.

OTHER = SourceName("orders", 8)


async def announce_other(group: Group) -> None:
    await group.announce()
    for store in group.stores:
        information = v1.SourceInformation()
        information.CopyFrom(store.sources[NAME].information)
        information.source.CopyFrom(source_to_wire(OTHER))
        served = store.sources[OTHER] = Served(OTHER)
        served.information, served.live = information, False
        await store.tell()


@pytest.mark.expects_log(ENDS)
async def test_one_source_without_a_start_fences_nothing_at_the_others(group: Group) -> None:
    await announce_other(group)
    first = asyncio.Event()

    def choose(point: StartingPoint) -> int:
        if first.is_set():
            raise ArithmeticError("no start")
        first.set()
        return point.low

    with pytest.raises(ArithmeticError):
        await opened(group, options={"choose_start": choose})
    assert not any(store.registrations for store in group.stores)


async def test_a_source_that_no_store_registers_holds_up_the_others_for_an_interval(
    group: Group,
) -> None:
    await announce_other(group)
    for store in group.stores:
        store.hanging = OTHER
    options = ReceiverOptions(registration_interval=0.1)
    one = await Receiver.open(
        "orders", stores=group.addresses, session_id=0x20, options=options, timeout=1.0
    )
    async with one:
        complete = await told(one, RegistrationComplete)
        assert complete.source == NAME


@pytest.mark.expects_log("directory of|is silent|does not register")
@pytest.mark.expects_log("no store has a source")
async def test_one_that_gave_up_on_a_hanging_store_gets_sources_that_come_later(
    stores: Stores,
) -> None:
    """The time to open ends before the store that hangs was given up, and no source is there."""
    with socket.create_server(("127.0.0.1", 0)) as hanging:
        port = hanging.getsockname()[1]
        named = f"{stores.named('ab')},h=127.0.0.1:{port}"
        async with (
            await Receiver.open("orders", stores=named, timeout=0.5) as later,
            await source(stores) as sending,
        ):
            await send(sending, 0, 9)
            assert await take(later, 10) == numbered(0, 9)
