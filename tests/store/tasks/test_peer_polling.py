"""Stores that know each other: found together, and what one tells another."""

from __future__ import annotations

import asyncio
import itertools
import shutil
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests import seams
from tests.store.group import NAMES, Group
from tests.store.support import (
    ORDERS,
    Client,
    batch,
    configuration,
    running,
)

from quorate.protocol.errors import InLimbo, NotFounded
from quorate.store.initialize import initialize
from quorate.store.node import StoreNode
from quorate.store.tasks.peer_polling import ANSWER_SECONDS_MAX, Peers, seconds_to_next


@asynccontextmanager
async def group(directory: Path) -> AsyncIterator[Group]:
    subject = Group(directory)
    try:
        yield subject
    finally:
        for name in tuple(subject.nodes):
            await subject.stop(name)


@pytest.mark.parametrize("order", list(itertools.permutations(NAMES)))
async def test_three_blank_stores_found_together(tmp_path: Path, order: tuple[str, ...]) -> None:
    async with group(tmp_path) as stores:
        for name in order[:2]:
            await stores.start(name)
        for name in order[:2]:
            await stores.rounds(name, 2)
            assert stores.nodes[name].in_limbo, "one that did not answer may have anything"
        await stores.start(order[2])
        await stores.vouching(*NAMES)


async def test_in_limbo_a_store_takes_nothing_and_says_so(tmp_path: Path) -> None:
    async with group(tmp_path) as stores:
        await stores.start("a")
        async with stores.client("a") as client:
            promised = await client.promise()
            assert promised.limbo
            assert "new" in promised.limbo_reason
            with pytest.raises(InLimbo):
                await client.begin()
            with pytest.raises(InLimbo):
                await client.open()
            with pytest.raises(InLimbo):
                await client.fetch()
            status = await client.status()
            assert status.limbo
            assert status.limbo_reason.startswith(promised.limbo_reason)
            assert [peer.reachable for peer in status.peers] == [False, False]
            assert not status.sources, "what is promised in limbo is not recorded"


async def test_a_blank_store_that_is_told_of_no_peers_does_not_start(tmp_path: Path) -> None:
    with pytest.raises(NotFounded, match="store init --new"):
        await StoreNode(configuration(tmp_path, peers=None)).start()
    initialize(configuration(tmp_path, peers=None), new=True)
    async with running(tmp_path, peers=None) as node, Client(node.address) as client:
        assert not (await client.promise()).limbo
    async with running(tmp_path, peers=None) as node, Client(node.address) as client:
        status = await client.status()
        assert (status.starts, status.limbo) == (2, False)


async def test_a_peer_that_hangs_does_not_keep_the_others_from_being_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seams.PEER_POLLING_ROUND_SECONDS.replace(monkeypatch, 0.05)
    seams.PEER_POLLING_ANSWER_SECONDS_MAX.replace(monkeypatch, 0.2)
    pauses: asyncio.Queue[float] = asyncio.Queue()
    pause = seams.PEERS_PAUSE.real()

    async def noted(self: Peers, seconds: float) -> None:
        pauses.put_nowait(seconds)
        await pause(self, seconds)

    seams.PEERS_PAUSE.replace(monkeypatch, noted)
    with socket.create_server(("127.0.0.1", 0)) as hung:
        addresses = (f"127.0.0.1:{hung.getsockname()[1]}",)
        initialize(configuration(tmp_path, peers=addresses), new=True)
        async with running(tmp_path, peers=addresses):
            assert [await pauses.get() for _ in range(3)] == [0.05] * 3


def test_one_late_answer_does_not_keep_the_store_from_hearing_of_the_others() -> None:
    assert seconds_to_next(0.0) == seconds_to_next(0.4) == 5.0
    assert seconds_to_next(1.2) == 12.0, "long answers stay a small part of the work"
    assert seconds_to_next(ANSWER_SECONDS_MAX) == 15.0


async def test_what_a_store_tells_another(tmp_path: Path) -> None:
    async with group(tmp_path) as stores:
        await stores.found()
        async with stores.client("a") as client:
            stream = await client.stream()
            await stream.batch(batch(0, 9))
            await stream.durable(9)
            peers = stores.peers("b")
            await peers.ask_all()
            heard = peers.inventories()["a"]
            assert heard.answer.address == stores.addresses["a"]
            assert not heard.answer.limbo
            known = heard.answer.sources[ORDERS]
            assert [(item.first, item.last, item.epoch) for item in known.held] == [(0, 9, 1)]
            assert (known.begun.epoch, known.promised_epoch, known.live) == (1, 1, True)
            assert known.promised_to == b"a"
            await stream.close()


@pytest.mark.expects_log("is in limbo")
async def test_who_vouches_again_knows_which_of_its_peers_were_replaced(tmp_path: Path) -> None:
    """Two are wiped, one after the other: the second must not forget that the first was.

    A source may still have the first one's word, from before, and meets only the second.
    """
    async with group(tmp_path) as stores:
        for name in NAMES:
            await stores.start(name)
        await stores.vouching(*NAMES)
        async with stores.client("a") as client:
            former = (await client.status()).incarnation
        for name in ("a", "b"):
            await stores.stop(name)
            shutil.rmtree(tmp_path / name)
            await stores.start(name)
            await stores.vouching(*NAMES)
        async with stores.client("b") as client:
            said = {each.store_name: each for each in (await client.promise()).known}
            assert list(said["a"].former) == [former]
            assert said["a"].incarnation not in (b"", former)
            assert len(said["b"].former) == 1
