"""Strangers at the monitor: what each costs is bounded, and probes are answered."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests import seams
from tests.certificates import files
from tests.store.monitor.support import ask
from tests.store.support import running
from tests.strangers import SECONDS, silent_seconds

from quorate.console.group.authority import Authority
from quorate.store.monitor.application import LOOKERS_MAX
from quorate.store.monitor.connection import IDLE_SECONDS, REQUEST_SECONDS
from quorate.store.monitor.visitors import (
    VISITORS_MAX,
    VISITORS_OF_PEER_MAX,
    Visitor,
    Visitors,
)
from quorate.store.node import StoreNode

MONITOR = {"listen": "127.0.0.1:0"}
PROBES = ("/livez", "/readyz", "/startupz")


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[StoreNode]:
    """A store. After the test it still answers each probe."""
    async with running(tmp_path, monitor=MONITOR) as node:
        yield node
        for probe in PROBES:
            assert (await ask(node.monitor_address, probe)).status == 200


def connected(node: StoreNode, said: bytes = b"") -> socket.socket:
    """Connect to the monitor, and say no more than this."""
    host, _, port = node.monitor_address.rpartition(":")
    connection = socket.create_connection((host, int(port)), timeout=SECONDS)
    connection.sendall(said)
    return connection


def request_of(page: str) -> bytes:
    return f"GET {page} HTTP/1.1\r\nHost: x\r\n\r\n".encode()


@pytest.mark.parametrize("said", [b"", b"GET /liv", request_of("/livez")[:-2]], ids=repr)
async def test_a_request_that_does_not_come_whole_is_given_up(
    node: StoreNode, said: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert REQUEST_SECONDS <= 5
    seams.MONITOR_REQUEST_SECONDS.replace(monkeypatch, 0.2)
    assert 0.1 < await asyncio.to_thread(silent_seconds, node.monitor_address, said) < 5


async def test_bytes_that_drip_give_a_request_no_more_time(
    node: StoreNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    seams.MONITOR_REQUEST_SECONDS.replace(monkeypatch, 0.3)

    def drips() -> int:
        with connected(node) as stranger:
            stranger.settimeout(0.05)
            for number in range(200):
                try:
                    stranger.sendall(b"x")
                    if not stranger.recv(1):
                        return number
                except TimeoutError:
                    continue
                except OSError:
                    return number
        return 200

    assert await asyncio.to_thread(drips) < 200


@pytest.mark.parametrize("more", [b"", b"GET /liv"])
async def test_a_connection_that_is_idle_after_an_answer_is_closed(
    node: StoreNode, more: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert IDLE_SECONDS <= 15
    seams.MONITOR_IDLE_SECONDS.replace(monkeypatch, 0.2)
    said = request_of("/livez") + more
    assert 0.1 < await asyncio.to_thread(silent_seconds, node.monitor_address, said) < 5


async def test_a_body_without_end_is_given_up(
    node: StoreNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    seams.MONITOR_IDLE_SECONDS.replace(monkeypatch, 0.2)
    said = b"GET /livez HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\nx"
    assert 0.1 < await asyncio.to_thread(silent_seconds, node.monitor_address, said) < 5


async def test_a_reader_that_reads_nothing_is_given_up(
    node: StoreNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    seams.MONITOR_IDLE_SECONDS.replace(monkeypatch, 0.3)

    def floods() -> None:
        with connected(node) as stranger:
            while True:
                stranger.sendall(request_of("/page.js") * 100)

    with pytest.raises(ConnectionError):
        await asyncio.to_thread(floods)


async def test_a_handshake_of_tls_that_does_not_end_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seams.REQUEST_SECONDS_IN_MONITOR_SERVER.replace(monkeypatch, 0.2)
    authority = Authority.new()
    given = files(tmp_path / "tls", authority, "s1")
    tls = {"ca": given.ca, "certificate": given.certificate, "key": given.key}
    async with running(tmp_path / "data", monitor=MONITOR, tls=tls) as node:
        context = ssl.create_default_context(cafile=given.ca)
        with ExitStack() as silent:
            for _ in range(2 * VISITORS_OF_PEER_MAX):
                silent.enter_context(await asyncio.to_thread(connected, node))
            answer = await ask(node.monitor_address, "/livez", context=context)
            assert answer.status == 200
        assert 0.1 < await asyncio.to_thread(silent_seconds, node.monitor_address, b"") < 5


async def test_silent_connections_keep_no_probe_away(node: StoreNode) -> None:
    with ExitStack() as silent:
        strangers = [
            silent.enter_context(await asyncio.to_thread(connected, node))
            for _ in range(3 * VISITORS_OF_PEER_MAX)
        ]
        for probe in PROBES:
            assert (await ask(node.monitor_address, probe)).status == 200
        # The first ones gave way.
        assert await asyncio.to_thread(strangers[0].recv, 1) == b""


async def test_only_so_many_look_at_the_group_and_none_keeps_a_probe_away(node: StoreNode) -> None:
    with ExitStack() as looking:
        lookers = [
            looking.enter_context(
                await asyncio.to_thread(connected, node, request_of("/api/group"))
            )
            for _ in range(LOOKERS_MAX)
        ]
        for looker in lookers:
            # The first event: the looker is counted.
            begun = b""
            while b"data: " not in begun:
                begun += await asyncio.to_thread(looker.recv, 100_000)
            assert begun.startswith(b"HTTP/1.1 200")
        refused = await ask(node.monitor_address, "/api/group")
        assert refused.status == 503
        assert str(LOOKERS_MAX) in refused.json()["reason"]
        for probe in PROBES:
            assert (await ask(node.monitor_address, probe)).status == 200


class Present:
    """Visitors, and which of them were closed."""

    def __init__(self) -> None:
        self.visitors = Visitors()
        self.closed: list[str] = []

    def comes(self, name: str, peer: str = "p", *, is_served: bool = False) -> Visitor:
        visitor = Visitor(peer, lambda: self.closed.append(name), is_served)
        self.visitors.come(visitor)
        return visitor


def test_of_one_peer_the_oldest_that_waits_gives_way() -> None:
    present = Present()
    present.comes("looks", is_served=True)
    present.comes("other peer", "q")
    for number in range(VISITORS_OF_PEER_MAX):
        present.comes(f"waits {number}")
    assert present.closed == ["waits 0"]
    present.comes("last")
    assert present.closed == ["waits 0", "waits 1"]


def test_of_all_peers_the_oldest_that_waits_gives_way() -> None:
    present = Present()
    for number in range(VISITORS_MAX + 1):
        present.comes(str(number), f"peer {number}", is_served=number == 0)
    assert present.closed == ["1"]
    assert len(present.visitors) == VISITORS_MAX


def test_a_visitor_that_is_served_gives_way_if_all_are() -> None:
    present = Present()
    for number in range(VISITORS_OF_PEER_MAX + 1):
        present.comes(str(number), is_served=True)
    assert present.closed == ["0"]


def test_a_visitor_that_left_makes_room() -> None:
    present = Present()
    first = present.comes("first")
    present.visitors.go(first)
    for number in range(VISITORS_OF_PEER_MAX):
        present.comes(str(number))
    assert present.closed == []
    present.visitors.close_all()
    assert len(present.closed) == VISITORS_OF_PEER_MAX
    assert len(present.visitors) == 0
