"""The messages that a service manager gets of a store, over a socket as systemd has it."""

import asyncio
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from quorate.store.tasks.service_manager import ServiceManager


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as heard:
        heard.bind(str(tmp_path / "notify"))
        heard.setblocking(False)
        yield heard


def environment(manager: socket.socket, **variables: str) -> dict[str, str]:
    return {"NOTIFY_SOCKET": manager.getsockname(), **variables}


def test_readiness_and_the_stop_are_told(manager: socket.socket) -> None:
    store = ServiceManager(environment(manager))
    store.ready()
    store.stopping()
    assert manager.recv(1000) == b"READY=1"
    assert manager.recv(1000) == b"STOPPING=1\nSTATUS=stops"


async def told(manager: socket.socket, store: ServiceManager, times: int) -> list[bytes]:
    """Return the first messages of the loop."""
    loop = asyncio.get_running_loop()
    statuses = iter(["serves", "serves; in limbo", "serves"])
    running = asyncio.create_task(store.run(lambda: next(statuses)))
    async with asyncio.timeout(30):
        heard = [await loop.sock_recv(manager, 1000) for _ in range(times)]
    running.cancel()
    return heard


async def test_each_sign_of_life_has_the_status_of_its_moment(manager: socket.socket) -> None:
    store = ServiceManager(environment(manager, WATCHDOG_USEC="30000"))
    assert await told(manager, store, 2) == [
        b"WATCHDOG=1\nSTATUS=serves",
        b"WATCHDOG=1\nSTATUS=serves; in limbo",
    ]


@pytest.mark.parametrize(
    ("variables", "seconds"),
    [
        ({}, 10.0),
        ({"WATCHDOG_USEC": "6000000"}, 2.0),
        ({"WATCHDOG_USEC": "600000000"}, 10.0),
        ({"WATCHDOG_USEC": "6000000", "WATCHDOG_PID": str(os.getpid())}, 2.0),
        ({"WATCHDOG_USEC": "6000000", "WATCHDOG_PID": "1"}, 10.0),
    ],
)
async def test_signs_of_life_come_three_times_as_often_as_the_manager_asks(
    manager: socket.socket,
    monkeypatch: pytest.MonkeyPatch,
    variables: dict[str, str],
    seconds: float,
) -> None:
    slept: list[float] = []

    async def sleep(interval: float) -> None:
        slept.append(interval)
        raise asyncio.CancelledError

    monkeypatch.setattr("asyncio.sleep", sleep)
    store = ServiceManager(environment(manager, **variables))
    with pytest.raises(asyncio.CancelledError):
        await store.run(lambda: "serves")
    assert slept == [seconds]


async def test_without_a_manager_nothing_is_told_and_nothing_runs() -> None:
    store = ServiceManager({})
    store.ready()
    store.stopping()
    await store.run(lambda: "nobody asks")


def test_an_address_in_the_abstract_namespace_is_reached() -> None:
    name = f"quorate-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as heard:
        heard.bind(f"\0{name}")
        ServiceManager({"NOTIFY_SOCKET": f"@{name}"}).ready()
        heard.setblocking(False)
        assert heard.recv(1000) == b"READY=1"


@pytest.mark.expects_log("the service manager cannot be told READY=1")
def test_a_manager_that_is_gone_does_not_end_the_store(tmp_path: Path) -> None:
    ServiceManager({"NOTIFY_SOCKET": str(tmp_path / "gone")}).ready()
