"""Operators' calls (repair, accepted losses, archived), and the start of repair and scrub.

The service passes operators' requests here, and peers' requests for digests. They are checked and
answered here; the work is done in quorate.store.tasks, and the rules are elsewhere.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator
from concurrent.futures import Executor
from dataclasses import replace

from quorate.protocol.errors import InLimbo, InvalidArgument, UnknownTopic
from quorate.protocol.identity import SourceName
from quorate.protocol.limits import ARCHIVED_SOURCES_MAX, NOTHING, SEQUENCE_MAX
from quorate.protocol.ranges import Range, RangeSet
from quorate.protocol.wire import source_from_wire
from quorate.store.engine import Engine
from quorate.store.rpc.long_requests import check_ranges
from quorate.store.rules import retention
from quorate.store.rules.accepted_losses import Losses, check_numbers, check_reason
from quorate.store.rules.source_state import Change
from quorate.store.storage.maintenance_records import (
    Poison,
    ScrubRecord,
    loss_to_wire,
)
from quorate.store.tasks.comparison import digests_for
from quorate.store.tasks.executor import in_threads
from quorate.store.tasks.peer_polling import Peers
from quorate.store.tasks.repair import Repair
from quorate.store.tasks.scrub import Scrub
from quorate.v1 import store_pb2 as store_v1

_log = logging.getLogger("quorate.store.rpc.operator")


def _ranges(request: store_v1.SettleConflictRequest) -> RangeSet:
    """Return the numbers that a request names. Raises InvalidArgument."""
    check_ranges("ranges", request.ranges)
    named = [(item.first, item.last) for item in request.ranges]
    if not named or any(not 0 <= first <= last <= SEQUENCE_MAX for first, last in named):
        raise InvalidArgument("ranges", f"{named} are no ranges of sequence numbers")
    return RangeSet(Range(first, last) for first, last in named)


class Upkeep:
    """The maintenance of one store. It answers operators' calls, and starts repair and scrub."""

    def __init__(
        self,
        engine: Engine,
        executor: Executor,
        peers: Peers,
        address: str,
        losses: Losses,
        checked: ScrubRecord,
        scrub_interval_seconds: float,
    ) -> None:
        """Make the repair and the scrub of a store; `start` starts them.

        - address: the address at which peers know this store.
        - checked: the saved place of the scrub.
        - scrub_interval_seconds: seconds from one pass of the scrub to the next; 0: no scrub.
        """
        self._engine = engine
        self._apart = in_threads(executor)
        self._scrub_interval = scrub_interval_seconds
        self.losses = losses
        self.scrub = Scrub(engine, self._apart, checked, scrub_interval_seconds)
        self.repair = Repair(engine, self._apart, peers, self.losses, self.scrub, address)

    def start(self) -> list[asyncio.Task[None]]:
        """Start repair and scrub, and return their tasks. The caller cancels them at the stop."""
        for record in self.losses.records:
            _log.warning("accepted by an operator: %s", record)
        tasks = [asyncio.create_task(self.repair.run())]
        if self._scrub_interval:
            tasks.append(asyncio.create_task(self.scrub.run()))
        return tasks

    def add_status(self, response: store_v1.StatusResponse) -> store_v1.StatusResponse:
        """Add the status of repair and scrub, and the accepted losses, to the store's status."""
        response.repair.CopyFrom(self.repair.status())
        response.accepted_losses.extend(map(loss_to_wire, self.losses.records))
        return response

    # Calls.

    async def digest(self, request: store_v1.DigestRequest) -> store_v1.DigestResponse:
        """Return the digests of held blocks.

        Raises InvalidArgument, StorageFailed, CorruptBatch.
        """
        return await digests_for(self._engine, self._apart, request)

    async def archived(self, request: store_v1.ArchivedRequest) -> store_v1.ArchivedResponse:
        """Note up to which number an archive has all messages of each of these sources.

        The answer says of which source the store does not know that so much is stable.
        Raises InvalidArgument for more than ARCHIVED_SOURCES_MAX sources, and StorageFailed.
        """
        if (count := len(request.sources)) > ARCHIVED_SOURCES_MAX:
            raise InvalidArgument("sources", f"{count} are more than {ARCHIVED_SOURCES_MAX}")
        named = [(source_from_wire(each.source), each.upto) for each in request.sources]
        noted = (self._note_archived(*each) for each in named)
        return store_v1.ArchivedResponse(answers=await asyncio.gather(*noted))

    async def _note_archived(self, source: SourceName, upto: int) -> store_v1.ArchivedAnswer:
        try:
            return store_v1.ArchivedAnswer(archived_upto=await self._archived(source, upto))
        except (UnknownTopic, InLimbo, InvalidArgument) as error:
            return store_v1.ArchivedAnswer(archived_upto=NOTHING, refused=str(error))

    async def _archived(self, source: SourceName, upto: int) -> int:
        """Note the number, and return the highest one. Raises UnknownTopic, InLimbo, …"""
        engine = self._engine
        if source not in engine.core.sources and (reason := engine.core.limbo_without(source)):
            raise InLimbo(str(source), engine.core.store, reason)
        state = engine.receivers.source(source)
        writes = retention.archived(state, upto)
        await engine.made_durable(state, Change(None, writes))
        return state.held.archived_upto

    def repair_now(
        self, request: store_v1.RepairRequest
    ) -> AsyncGenerator[store_v1.RepairProgress, None]:
        """Repair now, and yield the progress. Raises InvalidArgument, StorageFailed."""
        source = source_from_wire(request.source) if request.HasField("source") else None
        return self.repair.now(source, request.thorough)

    async def accept_loss(self, request: store_v1.AcceptLossRequest) -> store_v1.AcceptLossResponse:
        """Record a loss that an operator accepts, or end limbo by hand.

        Raises NotLost, InvalidArgument, StorageFailed.
        """
        engine, now = self._engine, time.time_ns()
        source = source_from_wire(request.source) if request.HasField("source") else None
        if request.first == NOTHING:
            return await self._leave_limbo(source, request.reason)
        if source is None:
            raise InvalidArgument("loss", "the request names no source")
        check_numbers(request.first, request.last)
        if request.poison:
            return await self._mark(source, request)
        state = engine.core.sources.get(source)
        if state is not None:
            await engine.settled_range(state, request.first, request.last)
        change = self.losses.accept(source, request.first, request.last, request.reason, now)
        state = engine.core.sources[source]
        record = await engine.made_durable(state, change)
        _log.warning("accepted by an operator: %s", record)
        return store_v1.AcceptLossResponse(records=[str(record)])

    async def _mark(
        self, source: SourceName, request: store_v1.AcceptLossRequest
    ) -> store_v1.AcceptLossResponse:
        part = Range(request.first, request.last)
        try:
            poison = Poison(request.poison)
        except ValueError:
            raise InvalidArgument("poison", f"{request.poison} is none that is known") from None
        change = self.losses.mark(source, part, poison, request.reason, request.time_ns)
        state = self._engine.core.sources[source]
        record = await self._engine.made_durable(state, change)
        _log.warning("accepted by an operator: %s", record)
        return store_v1.AcceptLossResponse(records=[str(record)])

    async def settle_conflict(
        self, request: store_v1.SettleConflictRequest
    ) -> store_v1.SettleConflictResponse:
        """Record that an operator settled a conflict, and set this store's side aside.

        The kept store sets nothing aside. Raises InvalidArgument, InLimbo, StorageFailed,
        CorruptBatch.
        """
        engine, core = self._engine, self._engine.core
        source = source_from_wire(request.source)
        state = core.sources.get(source)
        ranges = _ranges(request)
        check_reason(request.reason)
        if state is None:
            raise InvalidArgument("source", f"store {core.store} does not know {source}")
        core.check_vouches(source, state)
        if request.keep == core.store:
            writes = [
                write for each in ranges for write in state.refusal_settled(each.first, each.last)
            ]
            change = Change(0, tuple(writes))
            self.repair.compare_anew(state)
        else:
            change = await self.repair.settle(state, request.keep, ranges)
        low, high = min(each.first for each in ranges), max(each.last for each in ranges)
        recorded = self.losses.settled(
            state, Range(low, high), request.keep, request.reason, time.time_ns()
        )
        writes_too = (*change.writes, *recorded.writes)
        set_aside = await engine.made_durable(state, replace(change, writes=writes_too))
        engine.changed(source)
        _log.warning("settled by an operator: %s", recorded.answer)
        return store_v1.SettleConflictResponse(record=str(recorded.answer), set_aside=set_aside)

    async def _leave_limbo(
        self, source: SourceName | None, reason: str
    ) -> store_v1.AcceptLossResponse:
        """End the limbo for a source, or as a whole, because an operator says so.

        The store then vouches for what it lacks, though no peer could be asked.
        """
        engine, core = self._engine, self._engine.core
        state = core.sources.get(source) if source is not None else None
        if source is not None and state is None:
            raise InvalidArgument("source", f"store {core.store} does not know {source}")
        left = [state] if state is not None else list(core.sources.values())
        if not any(map(core.limbo_of, (*left, state))):
            raise InvalidArgument("limbo", f"store {core.store} is not in limbo for that")
        change = self.losses.left_limbo(state, reason, time.time_ns())
        writes = list(change.writes)
        for each in left:
            each.limbo = ""
            each.registration = replace(each.registration, may_miss_receivers=True)
            writes += (each.limbo_row(), each.registration_row())
            engine.note(each.name)
        if source is None:
            writes += core.standing.leave_limbo(by_hand=True)
        await engine.writer.durable(engine.writer.submit(writes))
        _log.warning("accepted by an operator: %s", change.answer)
        return store_v1.AcceptLossResponse(records=[str(change.answer)])
