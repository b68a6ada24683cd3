"""The polling of peers: each round asks every configured peer for its inventory.

The latest answer of each peer is kept. quorate.store.rules.store_identity decides what follows from
an answer; here it is only carried out.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace

import grpc.aio

from quorate.protocol.delays import LIMBO, delay_after
from quorate.protocol.errors import QuorateError
from quorate.protocol.identity import SourceName
from quorate.protocol.limits import PROTOCOL_VERSION
from quorate.protocol.tls import Tls
from quorate.protocol.wire import source_to_wire
from quorate.store.engine import Engine
from quorate.store.rules.peer_knowledge import (
    Heard,
    PeerAnswer,
)
from quorate.store.rules.store_identity import is_one_run
from quorate.store.tasks.peer_answers import (
    AskAgain,
    Question,
    heard_from,
    read_inventory,
    since,
)
from quorate.transport.channels import LastingChannel, open_channel
from quorate.transport.delays import pause
from quorate.transport.failures import error_from_call, errors_of
from quorate.v1 import store_pb2 as store_v1
from quorate.v1.store_pb2_grpc import StoreStub

_log = logging.getLogger("quorate.store.tasks.peer_polling")

ROUND_SECONDS = 5.0
"""Seconds from one round to the next."""
ROUND_SECONDS_MAX = 15.0
"""Seconds from one round to the next at most, if answers take long."""
GONE_MAX = 10_000
"""The sources that are gone of which a store remembers that they changed, at most."""
ANSWER_SECONDS_MAX = 10.0
"""A peer whose answer takes longer counts as away."""
END_SECONDS_MAX = 3.0
"""Seconds for a peer to take a step by which a source ends. One peer is asked after the other."""


def seconds_to_next(took: float) -> float:
    """Return the seconds from one round to the next. took: of the slowest answer.

    A peer that was paused for a while answers late, once. That must not keep the store from hearing
    of the others for long.
    """
    return max(ROUND_SECONDS, min(10 * took, ROUND_SECONDS_MAX))


@dataclass(slots=True)
class _Peer:
    address: str
    lasting: LastingChannel
    heard: Heard | None = None
    reachable: bool = False
    itself: bool = False
    problem: str = ""


class Peers:
    """The polling of all peers of one store, with their latest answers."""

    def __init__(
        self,
        engine: Engine,
        addresses: Iterable[str],
        greeting: Callable[[], store_v1.Greeting],
        tls: Tls | None = None,
    ) -> None:
        """Begin with no answer. tls: None: the channels to peers are not secure."""
        self._engine = engine
        self._greeting = greeting
        self._rounds: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._hurry = asyncio.Event()
        self._tls = tls
        self._peers = [_Peer(each, LastingChannel(each, tls)) for each in dict.fromkeys(addresses)]

    def open_channel(self, address: str) -> grpc.aio.Channel:
        """Return a channel to a peer for one task, which closes it."""
        return open_channel(address, self._tls)

    def channel_to(self, address: str) -> grpc.aio.Channel:
        """Return the channel to a peer that the polls use. Nobody else closes it."""
        return next(peer.lasting.channel for peer in self._peers if peer.address == address)

    def inventories(self) -> Mapping[str, Heard]:
        """Return the latest answer of each peer by its name, if that answer counts."""
        return {item.answer.store: item for item in self.heard().values() if item.counts}

    def forget(self) -> None:
        """Drop all answers, and poll at once: this store has a new incarnation."""
        for peer in self._peers:
            peer.heard = None
        self.hurry()

    def answering(self) -> Mapping[str, Heard]:
        """Return the latest counting answers, only of peers that answered the last question."""
        return {
            peer.heard.answer.store: peer.heard
            for peer in self._peers
            if peer.heard is not None and peer.heard.counts and peer.reachable
        }

    @property
    def addresses(self) -> frozenset[str]:
        """The addresses of all configured peers, without this store itself."""
        return frozenset(peer.address for peer in self._peers if not peer.itself)

    def status(self) -> list[store_v1.PeerStatus]:
        """Return the status of each configured peer, for people."""
        now = time.monotonic()
        return [_status(peer, now) for peer in self._peers if not peer.itself]

    async def run(self) -> None:
        """Ask all peers, round after round, until cancelled."""
        rounds_in_limbo = 0
        try:
            while True:
                took = 0.0
                try:
                    took = await self.ask_all()
                except Exception:
                    _log.exception("polling the peers failed unexpectedly; another round follows")
                self._forget_changes()
                self._rounds.set_result(None)
                self._rounds = asyncio.get_running_loop().create_future()
                # Many sources make long answers; polling must stay a small part of the work.
                # So a pause follows the slowest answer, but not the wait for a silent peer.
                if self._engine.core.in_limbo:
                    rounds_in_limbo += 1
                    await self._pause(max(delay_after(LIMBO, rounds_in_limbo), took))
                else:
                    rounds_in_limbo = 0
                    await self._pause(seconds_to_next(took))
        finally:
            await asyncio.gather(*(peer.lasting.close() for peer in self._peers))

    def _forget_changes(self) -> None:
        """Forget the changes of sources that are gone before these are too many."""
        engine = self._engine
        for changes in (engine.changes, engine.news):
            if len(changes) > len(engine.core.sources) + len(engine.elsewhere.sources) + GONE_MAX:
                changes.forget_all_but(set(engine.known_sources()))

    async def _pause(self, seconds: float) -> None:
        await pause(self._hurry, seconds)

    def hurry(self) -> None:
        """Begin the next round at once."""
        self._hurry.set()

    async def next_round(self) -> None:
        """Return when the running round, or else the next one, has ended."""
        await asyncio.shield(self._rounds)

    async def ask_all(self) -> float:
        """Ask every peer once, and wait for all answers or their timeouts.

        Return the seconds that the slowest answer took.
        """
        asked = [self._ask(peer) for peer in self._peers if not peer.itself]
        return max(await asyncio.gather(*asked), default=0.0)

    async def ask_briefly(self, heard: list[Heard]) -> None:
        """Ask each peer for its greeting and what it remembers of this store; add each to heard.

        The answers name no sources, so they are quick. They do not count as inventories, and are
        not kept.
        """

        async def ask(peer: _Peer) -> None:
            if (answered := await self._question(peer, without_sources=True)) is not None:
                heard.append(replace(answered, counts=False))

        await asyncio.gather(*(ask(peer) for peer in self._peers if not peer.itself))

    def heard(self) -> Mapping[str, Heard]:
        """Return the latest answer of each peer by its address, also one that does not count."""
        return {peer.address: peer.heard for peer in self._peers if peer.heard is not None}

    async def _ask(self, peer: _Peer) -> float:
        """Ask one peer. Return the seconds that its answer took; 0 if there was none."""
        heard = await self._question(peer)
        if heard is None:
            return 0.0
        peer.heard = heard
        if not peer.reachable:
            _log.info("peer %s is store %s", peer.address, heard.answer.store)
        self._note_reachable(peer, reachable=True)
        peer.problem = ""
        return heard.at - heard.asked

    async def _question(self, peer: _Peer, *, without_sources: bool = False) -> Heard | None:
        """Ask one peer, and learn from its answer. None: no answer, or one that is void."""
        asked = Question(self._greeting(), self._engine.core.standing.moment, time.monotonic())
        request = store_v1.InventoryRequest(
            greeting=asked.greeting,
            protocol_version=PROTOCOL_VERSION,
            without_sources=without_sources,
            since=None if without_sources else since(self._engine, peer.heard),
        )
        before = peer.heard.answer if peer.heard is not None else None
        if (told := await self._inventory(peer, request, before)) is None:
            return None
        answer, who = told
        now = time.monotonic()
        if is_one_run(who, asked.greeting):
            peer.itself = True
            return None
        heard = heard_from(self._engine, asked, answer, who, now, peer.heard)
        if isinstance(heard, AskAgain):
            return await self._question(peer, without_sources=without_sources)
        return heard

    async def ask_about(self, source: SourceName, addresses: Collection[str]) -> list[PeerAnswer]:
        """Return what the peers at these addresses say of one source, as far as they answer.

        An answer names the source even if every store has deleted it. It does not count as an
        inventory, and is not kept.
        """
        request = store_v1.InventoryRequest(
            source=source_to_wire(source), protocol_version=PROTOCOL_VERSION
        )
        told: list[PeerAnswer] = []

        async def ask(peer: _Peer) -> None:
            if (said := await self._inventory(peer, request)) is not None:
                told.append(said[0])

        await asyncio.gather(*(ask(each) for each in self._peers if each.address in addresses))
        return told

    async def end_source(
        self, address: str, request: store_v1.DeregisterRequest
    ) -> store_v1.DeregisterResponse:
        """Ask a peer for a step of an end. Raises QuorateError."""
        with errors_of(address):
            answer: store_v1.DeregisterResponse = await StoreStub(
                self.channel_to(address)
            ).Deregister(request, timeout=END_SECONDS_MAX)
            return answer

    async def _inventory(
        self,
        peer: _Peer,
        request: store_v1.InventoryRequest,
        before: PeerAnswer | None = None,
    ) -> tuple[PeerAnswer, store_v1.Greeting] | None:
        """Return a peer's answer and its greeting; note the problem and return None if it fails."""
        try:
            call = StoreStub(peer.lasting.channel).Inventory(request, timeout=ANSWER_SECONDS_MAX)
            return await read_inventory(peer.address, call, before)
        except grpc.aio.AioRpcError as error:
            self._failed(peer, error_from_call(peer.address, error))
        except QuorateError as error:
            self._failed(peer, error)
        return None

    def _note_reachable(self, peer: _Peer, *, reachable: bool) -> None:
        if peer.reachable != reachable and peer.heard is not None:
            for source in peer.heard.answer.sources:
                self._engine.news.note(source)
        peer.reachable = reachable

    def _failed(self, peer: _Peer, error: QuorateError) -> None:
        self._note_reachable(peer, reachable=False)
        if (problem := str(error)) != peer.problem:
            peer.problem = problem
            level = logging.INFO if error.retryable else logging.WARNING
            _log.log(level, "peer %s does not answer: %s", peer.address, problem)


def _status(peer: _Peer, now: float) -> store_v1.PeerStatus:
    heard = peer.heard
    if heard is None:
        return store_v1.PeerStatus(address=peer.address, heard_seconds_ago=-1)
    return store_v1.PeerStatus(
        address=peer.address,
        store_name=heard.answer.store,
        incarnation=heard.answer.incarnation,
        reachable=peer.reachable,
        limbo=heard.answer.limbo,
        heard_seconds_ago=now - heard.at,
    )
