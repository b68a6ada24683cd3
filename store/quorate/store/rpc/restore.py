"""The call Restore: an operator's tool sends a source's history back from an archive.

The call takes batches at the pace of repair, submits them, and reports how far they are durable.
The rules on what is taken, and on when limbo ends, are in quorate.store.rules.archive_restore.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable
from contextlib import aclosing, suppress

from quorate.protocol.errors import InvalidArgument, QuorateError
from quorate.protocol.framing import BatchHeader, check_batch
from quorate.protocol.ranges import HeldRange, Range, RangeSet
from quorate.protocol.wire import held_to_wire
from quorate.store.engine import Engine
from quorate.store.rpc.long_requests import check_ranges, check_terms, in_time
from quorate.store.rules.accepted_losses import Losses
from quorate.store.rules.archive_restore import (
    History,
    Refill,
    close_refill,
    history_from_wire,
    lacking,
    open_refill,
    take,
    take_large,
)
from quorate.store.rules.lifetimes import Who
from quorate.store.rules.source_state import Change, SourceState
from quorate.store.rules.state_only import wanted_range
from quorate.store.tasks.fetcher import Filler
from quorate.store.tasks.large_intake import LargeIntake
from quorate.store.tasks.lifecycle import Keeper
from quorate.store.tasks.loss_exchange import learn_losses
from quorate.transport.failures import check_version, failure_to_wire
from quorate.v1 import messages_pb2 as v1
from quorate.v1 import store_pb2 as store_v1

_log = logging.getLogger("quorate.store.rpc.restore")

_ARCHIVE = "from an archive"
_STEP_BYTES = 2 * 1024 * 1024
"""The bytes of batches between two reports of progress."""
_LAST_WORD_SECONDS = 1.0
SILENT_SECONDS = 60.0
"""Seconds for which a client may say nothing: it reads the next batches from its archive."""


class Restoring:
    """The state that all calls of Restore to one store share."""

    def __init__(self, engine: Engine, keeper: Keeper, filler: Filler, losses: Losses) -> None:
        self._engine = engine
        self._keeper = keeper
        self._filler = filler
        self._losses = losses

    async def serve(
        self, requests: AsyncIterator[store_v1.RestoreRequest]
    ) -> AsyncGenerator[store_v1.RestoreResponse, None]:
        """Yield the answers to one call. If it fails, the last answer has the error.

        Raises InvalidArgument, VersionMismatch, TopicRefused, BeingDeleted, RestoreRefused,
        OtherHistory, CorruptBatch, ContentConflict, StorageFailed.
        """
        try:
            async with aclosing(self._serve(requests)) as responses:
                async for response in responses:
                    yield response
        except QuorateError as error:
            yield store_v1.RestoreResponse(failed=failure_to_wire(error))
            # Read the rest: a client that still sends would hear only gRPC's own error.
            with suppress(TimeoutError):
                async with asyncio.timeout(_LAST_WORD_SECONDS):
                    async for _ in requests:
                        pass
            raise

    async def _serve(
        self, requests: AsyncIterator[store_v1.RestoreRequest]
    ) -> AsyncGenerator[store_v1.RestoreResponse, None]:
        request = await _next(requests)
        if request is None or not request.HasField("open"):
            raise InvalidArgument("restore", "the first request must be RestoreOpen")
        check_version(self._engine.address, request.open.protocol_version)
        check_ranges("accepted_losses", request.open.accepted_losses)
        check_terms(request.open.lineage)
        # A lineage may be long.
        history = await asyncio.to_thread(history_from_wire, request.open)
        refill = await self._open(history)
        # Messages that stores let go on purpose are not restored.
        first = max(history.first, refill.state.held.retained_from)
        wanted = wanted_range(refill.state, first, refill.upto)
        yield store_v1.RestoreResponse(opened=self._opened(refill, wanted))
        call = _Call(self._engine, self._filler, refill, wanted)
        try:
            while (request := await _next(requests)) is not None:
                if (progress := await call.take(request)) is not None:
                    yield store_v1.RestoreResponse(progress=progress)
        finally:
            call.intake.drop()
        await call.finish()
        yield store_v1.RestoreResponse(done=await self._close(refill, wanted, call))

    async def _open(self, history: History) -> Refill:
        engine, source = self._engine, history.source
        await self._keeper.make_way(source)
        state = engine.core.sources.get(source)
        if state is not None and not state.live:
            await engine.settled(state)
        change = open_refill(engine.core, history)
        refill, state = change.answer, change.answer.state
        told_by = "the archive that it is restored from"
        learnt = learn_losses(self._losses, state, refill.losses, told_by)
        engine.core.identities.lives.heard(Who(source))
        engine.end_streams(change)
        await engine.writer.durable(engine.submit(state, (*change.writes, *learnt)))
        engine.changed(source)
        return refill

    def _opened(self, refill: Refill, wanted: Range | None) -> store_v1.RestoreOpened:
        state = refill.state
        rest = _lacking(state, wanted)
        _log.info("restoring %s up to %d: %d messages", state.name, refill.upto, rest.count())
        return store_v1.RestoreOpened(
            store_name=self._engine.core.store,
            reg_id=state.reg_id,
            lacking=held_to_wire(_parted(state, rest)),
            upto=refill.upto,
        )

    async def _close(
        self, refill: Refill, wanted: Range | None, call: _Call
    ) -> store_v1.RestoreDone:
        engine, state = self._engine, refill.state
        vouches = await engine.made_durable(state, close_refill(engine.core, refill))
        engine.changed(state.name)
        rest = _lacking(state, wanted)
        _log.info(
            "restored %d messages of %s; %d of those sent were held already, and %d are missing",
            call.written,
            state.name,
            call.held_already,
            rest.count(),
        )
        return store_v1.RestoreDone(
            written=call.written,
            held_already=call.held_already,
            lacking=held_to_wire(_parted(state, rest)),
            limbo=not vouches,
        )


def _next(
    requests: AsyncIterator[store_v1.RestoreRequest],
) -> Awaitable[store_v1.RestoreRequest | None]:
    return in_time(anext(requests, None), SILENT_SECONDS, "restore")


class _Call:
    """The batches of one call."""

    def __init__(
        self, engine: Engine, filler: Filler, refill: Refill, wanted: Range | None
    ) -> None:
        self._engine = engine
        self._filler = filler
        self._refill = refill
        self._wanted = wanted
        self._next = 0
        self._size = 0
        self._commit = 0
        self._step = (0, 0)
        self.intake = LargeIntake(engine, refill.state, _ARCHIVE)
        self.written = 0
        self.held_already = 0

    async def take(self, request: store_v1.RestoreRequest) -> store_v1.RestoreProgress | None:
        """Take a batch or a fragment. Return the progress after each step, otherwise None.

        A step has _STEP_BYTES.
        """
        frame, fragment = request.batch, request.fragment
        size = len(frame) or len(fragment.data)
        pace = self._filler.pace
        pace.work()
        try:
            match request.WhichOneof("kind"):
                case "batch":
                    await self._take(frame)
                case "fragment":
                    await self._take_fragment(fragment)
                case _:
                    raise InvalidArgument("restore", "only batches may follow RestoreOpen")
        finally:
            self._size += size
            is_over = self._size >= _STEP_BYTES
            pace.worked(size)
        return await self._stepped() if is_over else None

    async def _take(self, frame: bytes) -> None:
        header = check_batch(frame, _ARCHIVE)
        part = self._wanted_of(header)
        if part is None:
            return
        engine, state = self._engine, self._refill.state
        if not state.lacks_all(header.first, header.last):
            await engine.settled_range(state, header.first, header.last)
        lacks = RangeSet([part]).minus(state.readable()).count()
        position = engine.core.streams.position
        change = take(engine.core, self._refill, frame, part.first, part.last)
        self._taken(part, lacks, change, position)

    async def _take_fragment(self, fragment: v1.Fragment) -> None:
        engine, state = self._engine, self._refill.state
        position = engine.core.streams.position
        arrival = self.intake.take(fragment.at, fragment.size, fragment.data)
        self._filler.wrote(engine.core.streams.position - position)
        if arrival is None:
            self._commit = max(self._commit, self.intake.commit)
            return
        part = self._wanted_of(arrival.header)
        if part is None:
            self.intake.remove(arrival)
            return
        compared = await engine.compared(state, arrival)
        lacks = RangeSet([part]).minus(state.readable()).count()
        position = engine.core.streams.position
        try:
            change = take_large(engine.core, self._refill, arrival, compared)
        except QuorateError:
            self.intake.remove(arrival)
            raise
        self._taken(part, lacks, change, position)

    def _wanted_of(self, header: BatchHeader) -> Range | None:
        """Return the part of the next batch that is wanted. The source itself sends the rest."""
        if header.first < self._next:
            raise InvalidArgument(
                "restore", f"batches must ascend, but {header.first} follows {self._next - 1}"
            )
        self._next = header.last + 1
        return _common(self._wanted, header)

    def _taken(self, part: Range, lacks: int, change: Change[Range], position: int) -> None:
        """Submit what was taken; position: the journal's next one before it was."""
        self._filler.wrote(self._engine.core.streams.position - position)
        self.written += lacks
        self.held_already += len(part) - lacks
        self._commit = self._engine.submit(self._refill.state, change.writes)

    async def _stepped(self) -> store_v1.RestoreProgress:
        """Return the progress once the previous step is durable. The present one need not be."""
        (commit, upto), self._step = self._step, (self._commit, self._next)
        self._size = 0
        await self._engine.writer.durable(commit)
        await self._filler.rest()
        return store_v1.RestoreProgress(next_sequence=upto)

    async def finish(self) -> None:
        """Return once every taken batch is durable."""
        await self._engine.writer.durable(self._commit)


def _common(wanted: Range | None, header: BatchHeader) -> Range | None:
    if wanted is None:
        return None
    first, last = max(wanted.first, header.first), min(wanted.last, header.last)
    return Range(first, last) if first <= last else None


def _lacking(state: SourceState, wanted: Range | None) -> RangeSet:
    return lacking(state).both(RangeSet([wanted])) if wanted is not None else RangeSet()


def _parted(state: SourceState, ranges: RangeSet) -> tuple[HeldRange, ...]:
    return state.lineage.parted(ranges)
