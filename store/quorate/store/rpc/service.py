"""The gRPC service of a store: reads requests from the wire, and writes answers and errors to it.

Here requests are checked for their form only. The order of steps is in the other modules of
quorate.store.rpc, and the rules are in quorate.store.rules.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import Executor
from contextlib import aclosing
from functools import partial
from typing import Any, NoReturn, TypeVar

from quorate.protocol.errors import (
    AccessDenied,
    InvalidArgument,
    QuorateError,
    StorageFailed,
    StoreStopping,
)
from quorate.protocol.identity import SourceName, check_session_id
from quorate.protocol.limits import SEQUENCE_MAX
from quorate.protocol.payloads import PayloadFormat
from quorate.protocol.ranges import Range
from quorate.protocol.wire import (
    application_from_wire,
    held_from_wire,
    held_to_wire,
    markers_to_wire,
    source_from_wire,
    source_to_wire,
)
from quorate.store import watchers
from quorate.store.engine import Engine
from quorate.store.rpc.append import Context, check_instance
from quorate.store.rpc.backup import Backups
from quorate.store.rpc.bundle import Bundles
from quorate.store.rpc.fetch import fetch
from quorate.store.rpc.inventory import inventory
from quorate.store.rpc.journal import JournalReports
from quorate.store.rpc.lanes import AdmitLane, Lanes, admit_all
from quorate.store.rpc.locate import locate
from quorate.store.rpc.long_requests import (
    begin_entry,
    begin_of,
    check_acknowledgements,
    check_description,
    check_ranges,
    lineage_entries,
)
from quorate.store.rpc.operator import Upkeep
from quorate.store.rpc.refusals import Refusals
from quorate.store.rpc.release import Releases
from quorate.store.rpc.requests import (
    AskedBegin,
    AskedPosition,
    AskedPromise,
    AskedReceiver,
    Requests,
)
from quorate.store.rpc.restore import Restoring
from quorate.store.rpc.state import StateQueries
from quorate.store.rpc.state_watching import StateWatch
from quorate.store.rpc.status import Reports
from quorate.store.rpc.subscribing import Subscribing
from quorate.store.rules.capacity import Capacity
from quorate.store.rules.floods import Newcomers
from quorate.store.rules.lifetimes import Who, asked_lifetimes
from quorate.store.rules.source_state import SourceState
from quorate.store.rules.subscriptions import Subscriptions
from quorate.store.storage.large_batches import LargeRow, read_fragment
from quorate.store.storage.reader import (
    StoredBatch,
    read_rows,
)
from quorate.store.tasks.lifecycle import Keeper, asked_of
from quorate.store.turns import Turn
from quorate.transport.failures import abort, check_version, failure_to_wire
from quorate.transport.heartbeat import Listening
from quorate.v1 import messages_pb2 as v1
from quorate.v1 import store_pb2 as store_v1
from quorate.v1.store_pb2_grpc import StoreServicer

_log = logging.getLogger("quorate.store.rpc.service")

Self = TypeVar("Self", bound="Service")
Request = TypeVar("Request")
Response = TypeVar("Response")


def _answering(
    method: Callable[[Self, Request], Awaitable[Response]],
) -> Callable[[Self, Request, Context], Awaitable[Response]]:
    """Return a unary call that sends the method's errors over the wire."""

    @functools.wraps(method)
    async def call(self: Self, request: Request, context: Context) -> Response:
        try:
            await self.serving()
            self.admit(request, context)
            return await method(self, request)
        except QuorateError as error:
            await self.refuse(context, error)

    return call


def _host_of(context: Context) -> str:
    """Return the host of a client. A client that connects again has another port each time."""
    return str(context.peer()).rpartition(":")[0]


class Service(StoreServicer):  # type: ignore[misc]
    """The service of one store."""

    def __init__(
        self,
        engine: Engine,
        keeper: Keeper,
        executor: Executor,
        greeting: Callable[[], store_v1.Greeting],
        address: str,
        reports: Reports,
        journal: JournalReports,
        upkeep: Upkeep,
        listening: Listening,
        newcomers: Newcomers,
        capacity: Capacity,
        subscriptions: Subscriptions,
        payload_of: Callable[[str], PayloadFormat],
        state: StateQueries,
        backups: Backups,
        releases: Releases,
    ) -> None:
        """Make the service of a store.

        - listening: to the clients, by their heartbeats.
        - newcomers: the bound on floods.
        - capacity: the bounds of the whole store.
        - subscriptions: those that run at the store.
        - state: the queries of the state of the world.
        - releases: lets go of messages when operators ask for it.
        """
        self._state = state
        self._backups = backups
        self._releases = releases
        self._newcomers = newcomers
        self._capacity = capacity
        self._subscriptions = subscriptions
        self._payload_of = payload_of
        self._refusals = Refusals()
        self._engine = engine
        self._keeper = keeper
        self._executor = executor
        self._address = address
        self._greeting = greeting
        self._reports = reports
        self._journal = journal
        self._upkeep = upkeep
        self._listening = listening
        self._requests = Requests(engine, keeper, upkeep.losses)
        self._restoring = Restoring(engine, keeper, upkeep.repair.filler, upkeep.losses)
        self._calls: dict[Lanes, None] = {}
        self._bundles = Bundles()
        self._checked = asyncio.Event()
        self.stopping: QuorateError | None = None
        """The error with which new calls are refused; None: they are served."""

    def stop(self, reason: StoreStopping | StorageFailed) -> None:
        """Refuse new calls, and end the streams."""
        self.stopping = self.stopping or reason
        self._checked.set()
        self._engine.end_all(reason)
        for lanes in self._calls:
            lanes.stop()
        self._engine.directory.wake()
        self._engine.tail.wake()
        self._engine.stable_tail.wake()
        self._state.making.wake()
        self._bundles.end_all(reason)

    def check_running(self) -> None:
        """Raise the error with which calls are refused, if there is one."""
        if self.stopping is not None:
            raise self.stopping

    def serve_all(self) -> None:
        """Serve all calls from now on. Before the peers were heard only Inventory is served."""
        self._checked.set()

    async def serving(self) -> None:
        """Return once calls are served. Raises the error with which they are refused."""
        await self._checked.wait()
        self.check_running()

    def admit(self, request: object, context: Context) -> None:
        """Raise StoreFull or TooManyRegistrations if no new identity may be registered."""
        match request:
            case store_v1.RegisterReceiverRequest(asks_only=True):
                return  # Nothing is registered.
            case store_v1.PromiseRequest() | store_v1.RegisterReceiverRequest():
                source = SourceName(request.source.topic, request.source.session_id)
            case _:
                return
        state = self._engine.core.sources.get(source)
        is_known = state is not None
        if isinstance(request, store_v1.RegisterReceiverRequest):
            # Where there is no source, nothing is registered.
            is_known = state is None or state.receivers.get(request.session_id) is not None
        if not is_known:
            sources = self._engine.core.sources
            if isinstance(request, store_v1.PromiseRequest):
                self._capacity.check_source(len(sources))
            elif self._capacity.receivers_max:
                present = sum(len(each.receivers) for each in sources.values())
                self._capacity.check_receiver(present)
            self._newcomers.take(_host_of(context), time.monotonic())

    async def refuse(self, context: Context, error: QuorateError) -> NoReturn:
        """End a call with an error."""
        self._refused(context, error)
        await abort(context, error)

    def _refused(self, context: Context, error: QuorateError) -> None:
        """Count and log an error with which a call, or a part of one, ends."""
        self._engine.rejected += 1
        if isinstance(error, AccessDenied):
            self._engine.denied.add(time.monotonic())
        level = self._refusals.level(_host_of(context), error)
        _log.log(level, "refused %s: %s", type(error).__name__, error)

    # Sources.

    @_answering
    async def Promise(self, request: store_v1.PromiseRequest) -> store_v1.PromiseResponse:
        check_version(self._address, request.protocol_version)
        source, core = source_from_wire(request.source), self._engine.core
        asked = AskedPromise(
            source,
            request.epoch,
            check_instance(request.instance),
            request.take_over,
            request.decided_epoch,
            request.reg_id,
        )
        promised, incarnation = await self._requests.promise(asked)
        record, begun = promised.registration, promised.begun
        response = store_v1.PromiseResponse(
            reg_id=promised.state.reg_id,
            incarnation=incarnation,
            limbo=bool(promised.limbo),
            limbo_reason=promised.limbo,
            begun=await begin_entry(begun, Turn()),
            held=held_to_wire(promised.held),
            stable_upto=promised.stable_upto,
            store_name=core.store,
            markers=markers_to_wire(promised.markers),
            known=core.standing.known(),
            information=record.information,
            accepted_losses=held_to_wire(begun.lineage.parted(promised.state.lost())),
            retained_from=promised.retained_from,
            durability=self._engine.durability(source.topic),
        )
        return response

    @_answering
    async def Begin(self, request: store_v1.BeginRequest) -> store_v1.BeginResponse:
        check_version(self._address, request.protocol_version)
        check_ranges("accepted_losses", request.accepted_losses)
        asked = AskedBegin(
            source_from_wire(request.source),
            await begin_of(request.begin, Turn()),
            request.instance,
            request.incarnation,
            held_from_wire(request.accepted_losses),
        )
        set_aside = await self._requests.begin(asked)
        known = self._engine.core.standing.known()
        return store_v1.BeginResponse(set_aside=set_aside, known=known)

    async def Append(self, _: Any, context: Context, admit: AdmitLane = admit_all) -> None:
        """admit: admits each lane of the call."""
        refused = partial(self._refused, context)
        lanes = Lanes(self._engine, context, self._address, self._listening, admit, refused)
        self._calls[lanes] = None
        try:
            await self.serving()
            await lanes.run()
        except QuorateError as error:
            await self.refuse(context, error)
        finally:
            self._calls.pop(lanes, None)

    # Receivers.

    async def Bundle(self, _: Any, context: Context) -> None:
        await self.unbundle(self, context)

    async def unbundle(self, service: Any, context: Context) -> None:
        """Serve a bundle of calls, each by this service, which may be guarded."""
        try:
            await self.serving()
            await self._bundles.serve(service, context, self._address)
        except QuorateError as error:
            await self.refuse(context, error)

    @_answering
    async def RegisterReceiver(
        self, request: store_v1.RegisterReceiverRequest
    ) -> store_v1.RegisterReceiverResponse:
        check_version(self._address, request.protocol_version)
        asked = AskedReceiver(
            source_from_wire(request.source),
            check_session_id(request.session_id),
            request.epoch,
            check_instance(request.instance),
            request.take_over,
            asked_lifetimes(
                request.lifetimes.activity_timeout_seconds, request.lifetimes.state_lifetime_seconds
            ),
            request.ended_epoch,
            request.reg_id,
            waited_for=not request.not_waited_for,
            asks_only=request.asks_only,
            is_open=request.is_open,
            application=application_from_wire(request.application),
        )
        registered, limbo = await self._requests.register_receiver(asked)
        lives = self._engine.core.identities.lives
        lifetimes = lives.lifetimes(Who(asked.source, asked.session_id))
        response = store_v1.RegisterReceiverResponse(
            reg_id=registered.reg_id,
            source_reg_id=registered.state.reg_id,
            incarnation=self._engine.core.standing.record.incarnation,
            limbo=limbo,
            acknowledged_upto=registered.acknowledged_upto,
            low=registered.low,
            high=registered.high,
            stable_upto=registered.stable_upto,
            known=registered.known,
            retained_from=registered.retained_from,
            durability=self._engine.durability(asked.source.topic),
            ended_epoch=registered.ended_epoch,
            known_stores=self._engine.core.standing.known(),
            epoch=registered.epoch,
            lifetimes=v1.Lifetimes(
                activity_timeout_seconds=lifetimes.activity_timeout,
                state_lifetime_seconds=lifetimes.state_lifetime,
            ),
        )
        response.lineage.extend(await lineage_entries(registered.lineage, Turn()))
        return response

    @_answering
    async def Acknowledge(
        self, request: store_v1.AcknowledgeRequest
    ) -> store_v1.AcknowledgeResponse:
        session_id = check_session_id(request.session_id)
        check_acknowledgements(request.acknowledgements)
        asked = map(_position, request.acknowledgements)
        turn = Turn()
        refused, shortened = await self._requests.acknowledge(session_id, asked, turn)
        response = store_v1.AcknowledgeResponse()
        for source, error in refused:
            await turn.pause()
            response.refused.add(source=source_to_wire(source), failure=failure_to_wire(error))
        for each in shortened:
            await turn.pause()
            response.shortened.add(
                source=source_to_wire(each.source), epoch=each.epoch, upto=each.upto
            )
        return response

    async def Fetch(
        self, request: v1.FetchRequest, context: Context
    ) -> AsyncIterator[v1.FetchResponse]:
        try:
            await self.serving()
            check_version(self._address, request.protocol_version)
            if not 0 <= request.first <= request.last <= SEQUENCE_MAX:
                raise InvalidArgument(
                    "range", f"[{request.first}, {request.last}] is not a range of sequence numbers"
                )
            source = source_from_wire(request.source)
            async for response in fetch(
                self._engine,
                self._read_chunk,
                self._read_fragment,
                source,
                request.first,
                request.last,
                delivers=request.delivers,
            ):
                self.check_running()
                yield response
        except QuorateError as error:
            await self.refuse(context, error)

    def _read_chunk(
        self, state: SourceState, piece: Range, count: int
    ) -> asyncio.Future[list[StoredBatch]]:
        return asyncio.get_running_loop().run_in_executor(
            self._executor, read_rows, self._engine.reads, state.reg_id, state.name, piece, count
        )

    def _read_fragment(self, row: LargeRow, number: int) -> asyncio.Future[bytes]:
        return asyncio.get_running_loop().run_in_executor(
            self._executor, read_fragment, self._engine.reads, row, number
        )

    @_answering
    async def Locate(self, request: store_v1.LocateRequest) -> store_v1.LocateResponse:
        check_version(self._address, request.protocol_version)
        source = source_from_wire(request.source)
        sequence = await locate(self._engine, self._executor, source, request.time_ns)
        return store_v1.LocateResponse(sequence=sequence)

    async def Subscribe(
        self, request: store_v1.SubscribeRequest, context: Context
    ) -> AsyncIterator[store_v1.SubscribeResponse]:
        try:
            await self.serving()
            check_version(self._address, request.protocol_version)
            serving = Subscribing(
                self._engine,
                self._executor,
                request,
                context.peer(),
                self._subscriptions,
                self.check_running,
                self._payload_of,
            )
            async with aclosing(serving.responses()) as responses:
                async for response in responses:
                    yield response
        except QuorateError as error:
            await self.refuse(context, error)

    async def WatchState(
        self, request: store_v1.WatchStateRequest, context: Context
    ) -> AsyncIterator[store_v1.WatchStateResponse]:
        try:
            await self.serving()
            check_version(self._address, request.protocol_version)
            watch = StateWatch(self._state, request, self.check_running)
            async with aclosing(watch.responses()) as responses:
                async for response in responses:
                    yield response
        except QuorateError as error:
            await self.refuse(context, error)

    async def QueryState(
        self, request: store_v1.QueryStateRequest, context: Context
    ) -> AsyncIterator[store_v1.QueryStateResponse]:
        try:
            await self.serving()
            check_version(self._address, request.protocol_version)
            async with aclosing(self._state.query(request, self.check_running)) as responses:
                async for response in responses:
                    yield response
        except QuorateError as error:
            await self.refuse(context, error)

    async def StateCandidates(
        self, request: store_v1.StateCandidatesRequest, context: Context
    ) -> AsyncIterator[store_v1.StateCandidatesResponse]:
        try:
            await self.serving()
            check_version(self._address, request.protocol_version)
            async with aclosing(self._state.candidates(request, self.check_running)) as responses:
                async for response in responses:
                    yield response
        except QuorateError as error:
            await self.refuse(context, error)

    @_answering
    async def DigestState(
        self, request: store_v1.DigestStateRequest
    ) -> store_v1.DigestStateResponse:
        check_version(self._address, request.protocol_version)
        return await self._state.digest(request, self.check_running)

    async def Watch(
        self, request: store_v1.WatchRequest, context: Context
    ) -> AsyncIterator[store_v1.WatchResponse]:
        engine = self._engine
        try:
            await self.serving()
            check_version(self._address, request.protocol_version)
            selection = _selection(request)
            with engine.directory.watching(selection, engine.known_sources()) as watcher:
                active = set[SourceName]()
                async for response in _entries(engine, watcher, active):
                    yield response
                yield store_v1.WatchResponse(
                    snapshot_end=store_v1.SnapshotEnd(topics=engine.topics())
                )
                while True:
                    await watcher.changed()
                    self.check_running()
                    async for response in _entries(engine, watcher, active):
                        yield response
        except QuorateError as error:
            await self.refuse(context, error)

    # Other stores.

    async def Inventory(
        self, request: store_v1.InventoryRequest, context: Context
    ) -> AsyncIterator[store_v1.InventoryResponse]:
        try:
            self.check_running()
            check_version(self._address, request.protocol_version)
            async for response in inventory(self._engine, self._greeting(), request, Turn()):
                yield response
        except QuorateError as error:
            await self.refuse(context, error)

    @_answering
    async def Digest(self, request: store_v1.DigestRequest) -> store_v1.DigestResponse:
        check_version(self._address, request.protocol_version)
        return await self._upkeep.digest(request)

    # Operators.

    async def Repair(
        self, request: store_v1.RepairRequest, context: Context
    ) -> AsyncIterator[store_v1.RepairProgress]:
        try:
            await self.serving()
            check_version(self._address, request.protocol_version)
            async with aclosing(self._upkeep.repair_now(request)) as progress:
                async for each in progress:
                    self.check_running()
                    yield each
        except QuorateError as error:
            await self.refuse(context, error)

    @_answering
    async def Archived(self, request: store_v1.ArchivedRequest) -> store_v1.ArchivedResponse:
        check_version(self._address, request.protocol_version)
        return await self._upkeep.archived(request)

    @_answering
    async def AcceptLoss(self, request: store_v1.AcceptLossRequest) -> store_v1.AcceptLossResponse:
        check_version(self._address, request.protocol_version)
        return await self._upkeep.accept_loss(request)

    @_answering
    async def SettleConflict(
        self, request: store_v1.SettleConflictRequest
    ) -> store_v1.SettleConflictResponse:
        check_version(self._address, request.protocol_version)
        return await self._upkeep.settle_conflict(request)

    async def Restore(
        self, requests: AsyncIterator[store_v1.RestoreRequest], context: Context
    ) -> AsyncIterator[store_v1.RestoreResponse]:
        try:
            await self.serving()
            async with aclosing(self._restoring.serve(requests)) as responses:
                async for response in responses:
                    self.check_running()
                    yield response
        except QuorateError as error:
            await self.refuse(context, error)

    async def Backup(
        self, request: store_v1.BackupRequest, context: Context
    ) -> AsyncIterator[store_v1.BackupResponse]:
        try:
            await self.serving()
            check_version(self._address, request.protocol_version)
            async with aclosing(self._backups.serve()) as responses:
                async for response in responses:
                    self.check_running()
                    yield response
        except QuorateError as error:
            await self.refuse(context, error)

    # The end of an identity.

    @_answering
    async def Deregister(self, request: store_v1.DeregisterRequest) -> store_v1.DeregisterResponse:
        check_version(self._address, request.protocol_version)
        if not (request.receiver_session_id or request.unused_promise_to):
            check_instance(request.instance)
            check_description("membership", request.membership)
            return await self._keeper.end_source(asked_of(request))
        answer = await self._keeper.deregister(
            source_from_wire(request.source),
            request.receiver_session_id,
            request.epoch,
            request.unused_promise_to,
            request.instance,
        )
        standing = self._engine.core.standing
        answer.incarnation = standing.record.incarnation
        answer.known_stores.extend(standing.known())
        return answer

    async def Status(
        self, request: store_v1.StatusRequest, context: Context
    ) -> AsyncIterator[store_v1.StatusResponse]:
        try:
            await self.serving()
            check_version(self._address, request.protocol_version)
            async for part in self._reports.parts(request.topic_pattern, request.subscriptions_max):
                self.check_running()
                yield part
        except QuorateError as error:
            await self.refuse(context, error)

    async def Journal(
        self, request: store_v1.JournalRequest, context: Context
    ) -> AsyncIterator[store_v1.JournalResponse]:
        try:
            await self.serving()
            check_version(self._address, request.protocol_version)
            async for part in self._journal.parts(request.topic_pattern, request.subscriptions_max):
                self.check_running()
                yield part
        except QuorateError as error:
            await self.refuse(context, error)

    async def Release(
        self, request: store_v1.ReleaseRequest, context: Context
    ) -> AsyncIterator[store_v1.ReleaseResponse]:
        try:
            await self.serving()
            check_version(self._address, request.protocol_version)
            async for released in self._releases.parts(request):
                self.check_running()
                yield released
        except QuorateError as error:
            await self.refuse(context, error)


async def _entries(
    engine: Engine, watcher: watchers.Watcher, active: set[SourceName]
) -> AsyncIterator[store_v1.WatchResponse]:
    """Yield the entries that a watcher is owed.

    A source that is finished everywhere is left out, unless the watcher knows it as active.

    active: the sources that the watcher knows as live, or as having a proxy.
    """
    async for source in watcher.take():
        entry = engine.entry(source)
        if entry is not None and (source in active or engine.has_more(source)):
            if entry.live or entry.proxy:
                active.add(source)
            else:
                active.discard(source)
            yield store_v1.WatchResponse(entry=entry)


def _selection(request: store_v1.WatchRequest) -> watchers.Selection:
    match request.WhichOneof("selection"):
        case "topic":
            return watchers.by_topic(request.topic)
        case "topic_pattern":
            return watchers.by_pattern(request.topic_pattern)
        case _:
            raise InvalidArgument("watch", "the request names neither a topic nor a pattern")


def _position(asked: store_v1.Acknowledgement) -> AskedPosition:
    # The name is not checked: each unknown source is refused by itself.
    source = SourceName(asked.source.topic, asked.source.session_id)
    return AskedPosition(source, asked.epoch, asked.upto, asked.source_epoch, asked.instance)
