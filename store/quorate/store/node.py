"""The store node: opens the data directory, puts the parts together, serves, and stops.

Nothing here decides what is written or answered.
"""

from __future__ import annotations

import asyncio
import functools
import gc
import logging
import os
import signal
import socket
import sys
import time
import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING

from quorate.protocol.access import Access
from quorate.protocol.errors import (
    DataDirectoryCorrupt,
    QuorateError,
    StorageFailed,
    StoreStopping,
)
from quorate.protocol.identity import SourceName
from quorate.store import startup
from quorate.store.beside import Beside
from quorate.store.configuration import (
    StoreConfiguration,
    TlsConfiguration,
    cannot_listen,
    read_access,
)
from quorate.store.engine import Engine
from quorate.store.monitor.health import Health
from quorate.store.rpc.backup import Backups
from quorate.store.rpc.guard import SERVICE, Admission, guarded
from quorate.store.rpc.health import HealthService
from quorate.store.rpc.journal import JournalReports
from quorate.store.rpc.operator import Upkeep
from quorate.store.rpc.release import Releases
from quorate.store.rpc.service import Service
from quorate.store.rpc.state import StateQueries
from quorate.store.rpc.status import Reports, StoreFacts
from quorate.store.rpc.subscription_begins import position_before
from quorate.store.rules.accepted_losses import Losses
from quorate.store.rules.acceptor import StoreCore
from quorate.store.rules.batch_check import BatchCheck
from quorate.store.rules.capacity import Capacity
from quorate.store.rules.floods import Newcomers
from quorate.store.rules.lifetimes import (
    Lifetimes,
    Lives,
    Observed,
)
from quorate.store.rules.receivers import Receivers
from quorate.store.rules.reg_ids import RegIds
from quorate.store.rules.source_state import SourceState
from quorate.store.rules.store_identity import (
    Standing,
    started,
)
from quorate.store.rules.subscriptions import Subscriptions
from quorate.store.storage import checkpoint, clean_shutdown
from quorate.store.storage.data_directory import DataDirectory
from quorate.store.storage.group_commit import Writer
from quorate.store.storage.interface import (
    Storage,
    Write,
)
from quorate.store.storage.maintenance_records import ScrubRecord
from quorate.store.storage.records import Malformed
from quorate.store.storage.rocksdb import RocksStorage
from quorate.store.tasks.disk_space import DiskSpace
from quorate.store.tasks.executor import in_threads
from quorate.store.tasks.lag import LagWatch
from quorate.store.tasks.lifecycle import Keeper
from quorate.store.tasks.peer_polling import Peers
from quorate.store.tasks.proxy import Proxying
from quorate.store.tasks.readmission import Vouching
from quorate.store.tasks.retention import Releasing
from quorate.store.tasks.service_manager import ServiceManager
from quorate.store.tasks.state import StateMaking
from quorate.store.tasks.state_peers import ask_peer
from quorate.transport import event_loop
from quorate.transport.channels import listen, new_server
from quorate.transport.credentials import check_files
from quorate.transport.heartbeat import Listening
from quorate.transport.identities import EitherToken, TokenFile, Tokens
from quorate.transport.jwt_tokens import JwtTokens
from quorate.transport.watched_files import WatchedFiles
from quorate.v1 import messages_pb2 as v1
from quorate.v1 import store_pb2 as store_v1
from quorate.v1.store_pb2_grpc import add_StoreServicer_to_server

if TYPE_CHECKING:
    from quorate.store.monitor.monitor import Monitor

_log = logging.getLogger("quorate.store.node")

_DURABILITIES = {
    "fsync": v1.DURABILITY_FSYNC,
    "os": v1.DURABILITY_OS,
    "memory": v1.DURABILITY_MEMORY,
    "state-only": v1.DURABILITY_STATE_ONLY,
}
_READERS = 4
_GRACE_SECONDS = 2.0
"""The time in seconds that calls have to end when the store stops."""
_LOOK_SECONDS = 0.2
"""The time in seconds after which the store looks again whether it is in limbo."""
_SWITCH_SECONDS = 0.0005
"""The time in seconds after which the writer's thread gets Python's lock."""


class StoreNode:
    """A store in this process, on the running event loop."""

    def __init__(
        self,
        configuration: StoreConfiguration,
        beside: Beside | None = None,
        check: BatchCheck | None = None,
    ) -> None:
        """Begin without opening anything.

        - beside: a service to run on the store's server; None: there is none.
        - check: what sources may send; None: all that is valid.
        """
        self._check = check
        self._configuration = configuration
        self._beside = beside
        self._directory: DataDirectory | None = None
        self._storage: Storage | None = None
        self._engine: Engine | None = None
        self._service: Service | None = None
        self._tls = None if configuration.tls is None else configuration.tls.files
        self._admission: Admission | None = None
        """The admission of calls; None: there are no rules of access, or it has not started."""
        self._executor = ThreadPoolExecutor(_READERS, "quorate-read")
        self._server = new_server(configuration.connections_max)
        self._stopped = asyncio.Event()
        self._opening = asyncio.Lock()
        """Held by a start and by a stop: a stop waits for the end of the start."""
        self._tasks: list[asyncio.Task[None]] = []
        self._stopping: asyncio.Task[None] | None = None
        self._failure: QuorateError | None = None
        self._is_clean = True
        self._health = Health(lambda: self.why_in_limbo)
        self._monitor: Monitor | None = None
        self._grpc_health = HealthService(lambda: self._health.why_not_ready)
        self.address = ""
        """The address at which others reach the store, host:port; set once it has started."""
        self.peers: Peers | None = None
        """The polling of the other stores; set once the store has started."""
        self.keeper: Keeper | None = None
        """The keeper of the identities; set once the store has started."""

    async def start(self) -> None:
        """Open everything and serve.

        Raises StorageFailed, DataDirectoryInUse, DataDirectoryOfAnother, DataDirectoryNewer,
        DataDirectoryOlder, DataDirectoryCorrupt, NotFounded, or ConfigurationInvalid. Raises
        InvalidArgument if the store cannot listen on the address now.
        """
        async with self._opening:
            try:
                await self._start()
            except BaseException:
                await self._release()
                self._stopped.set()
                raise

    async def stop(self) -> None:
        """Refuse new calls, commit what was submitted, and close everything.

        A store that is still starting is stopped once it has started.
        """
        self._begin_to_stop(StoreStopping(self._configuration.name))
        await self._stopped.wait()

    @property
    def in_limbo(self) -> bool:
        """Whether the store is in limbo for a source or as a whole; False until it has started."""
        return self._engine is not None and self._engine.core.in_limbo

    @property
    def monitor_address(self) -> str:
        """The address of the monitor, host:port; empty: there is none, or it has not started."""
        return self._monitor.address if self._monitor is not None else ""

    @property
    def why_in_limbo(self) -> str:
        """Why the store as a whole is in limbo, for people; empty: it is not."""
        return self._engine.limbo_reason(None) if self._engine is not None else ""

    async def wait(self) -> None:
        """Return when the store has stopped. Raises the error that stopped it, if one did."""
        await self._stopped.wait()
        if self._failure is not None:
            raise self._failure

    async def _start(self) -> None:
        configuration = self._configuration
        _check_port(configuration.listen)
        if self._tls is not None:
            check_files(self._tls)
        self._admission = _admission(configuration)
        if configuration.monitor is not None:
            # A store without one does not pay for the libraries of an HTTP server.
            from quorate.store.monitor.monitor import Monitor

            # It comes first, so that the process is known to live while the store still reads.
            self._monitor = Monitor(
                configuration.monitor.listen, self._tls, self._health, self._admission
            )
            await self._monitor.start()
        directory = await asyncio.to_thread(
            DataDirectory, configuration.data_directory, configuration.name
        )
        self._directory = directory
        self._check_room()
        await asyncio.to_thread(checkpoint.remove, directory.path)
        storage = await asyncio.to_thread(RocksStorage, directory.database, directory.is_new)
        self._storage = storage
        reg_ids = RegIds(configuration.name)
        try:
            last = startup.last_commit(storage)
            directory.check_recovered(last.number)
            sources = await asyncio.to_thread(startup.sources, storage, reg_ids)
            identities = startup.identities(storage, reg_ids, sources, self._lives())
            standing = self._standing(storage, last.number)
            doubted = self._doubted(directory, standing, sources)
            records = await asyncio.to_thread(startup.losses, storage)
            checked = startup.scrub(storage)
            ages = startup.ages(storage)
            rows_made = await asyncio.to_thread(startup.state_progress, storage)
            await asyncio.to_thread(startup.remove_unfinished, storage)
        except (Malformed, StorageFailed) as error:
            raise DataDirectoryCorrupt(str(directory.path), str(error)) from error
        await asyncio.to_thread(self._begin_run, directory, storage, (standing.row(), *doubted))
        core = StoreCore(
            configuration.name,
            configuration.topics,
            storage,
            sources,
            reg_ids,
            last.position,
            standing,
            identities,
            lambda topic: self._durability(topic) != v1.DURABILITY_STATE_ONLY,
            configuration.message_bytes_max,
            self._check,
        )
        writer = Writer(
            storage,
            last.number,
            lambda: core.streams.position,
            self._acknowledged,
            self._check_room,
            self._failed,
            configuration.pending_bytes_max,
        )
        receivers = Receivers(configuration.name, sources, reg_ids)
        standing.begin_check(configuration.peers or ())
        self._engine = Engine(
            core,
            receivers,
            writer,
            storage,
            self._durability,
            lambda topic: configuration.keying_of(topic) is not None,
        )
        writer.on_committed = self._engine.committed
        writer.start()
        peers = Peers(self._engine, configuration.peers or (), self._greeting, self._tls)
        self.peers = peers
        proxying = Proxying(self._engine, peers, enabled=configuration.proxies)
        losses = Losses(configuration.name, sources, storage, records)
        keeper = Keeper(self._engine, peers, proxying, losses, configuration.deletion_grace)
        self.keeper = keeper
        subscriptions = Subscriptions(configuration.name, configuration.subscriptions_max)
        making = StateMaking(
            self._engine,
            in_threads(self._executor),
            configuration.keying_of,
            rows_made,
            lambda: peers.addresses,
            partial(ask_peer, peers.open_channel),
            storage.remove_state,
        )
        releasing = Releasing(
            self._engine,
            self._executor,
            peers,
            storage,
            configuration.retention_of,
            configuration.shortest_retention,
            ages,
            subscriptions,
            configuration.store_bytes_max,
            making.place_of,
            making.waits_for_peer,
        )
        upkeep, reports = await self._serve(
            self._engine, peers, keeper, losses, checked, releasing, subscriptions, storage, making
        )
        vouching = Vouching(self._engine, peers, upkeep.repair.filler, losses, self.address)
        await vouching.check()
        assert self._service is not None
        self._service.serve_all()
        self._health.has_started = True
        if self._monitor is not None:
            queues = self._beside.queues if self._beside is not None else tuple
            self._monitor.serve(reports, self._engine, peers, self._executor, queues)
        self._tasks = [
            asyncio.create_task(self._grpc_health.run()),
            asyncio.create_task(LagWatch(self._engine, peers).run()),  # before the first round
            asyncio.create_task(peers.run()),
            asyncio.create_task(vouching.run()),
            asyncio.create_task(keeper.run()),
            asyncio.create_task(releasing.run()),
            asyncio.create_task(making.run()),
            asyncio.create_task(self._disk_space().run()),
            *upkeep.start(),
        ]
        if self._beside is not None:
            self._tasks.append(asyncio.create_task(self._run_beside(self._beside)))
        _log.info(
            "store %s serves on %s from %s: %d sources, journal at %d",
            configuration.name,
            self.address,
            configuration.data_directory,
            len(sources),
            last.position,
        )
        if standing.limbo:
            level = logging.INFO if standing.record.blank else logging.WARNING
            _log.log(level, "store %s is in limbo: %s", configuration.name, standing.limbo)

    async def _run_beside(self, beside: Beside) -> None:
        try:
            while self.why_in_limbo:  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(_LOOK_SECONDS)
            await beside.run()
        except Exception:
            _log.exception("what runs beside store %s has failed", self._configuration.name)

    def _disk_space(self) -> DiskSpace:
        configuration = self._configuration
        assert self._directory is not None
        return DiskSpace(
            configuration.name,
            self._directory.free_bytes,
            configuration.disk_free_warning_bytes,
            configuration.disk_free_min_bytes,
        )

    def _lives(self) -> Lives:
        """Return the lives of the identities as they are before any sign of life was heard."""
        configuration = self._configuration

        @functools.cache
        def configured(topic: str, receiver: bool) -> Lifetimes:
            return configuration.lifetimes_of(topic, receiver=receiver)

        observed = Observed(time.monotonic(), time.time())
        return Lives(observed, lambda who: configured(who.source.topic, bool(who.receiver)))

    def _standing(self, storage: Storage, commits: int) -> Standing:
        """Return the store's standing for this run. commits: the number of those recovered."""
        configuration = self._configuration
        record = startup.store_record(storage)
        record = started(
            configuration.name,
            record,
            configuration.peers,
            lambda: uuid.uuid4().bytes,
        )
        # Not the acknowledged mark: after a power failure the mark may be older than the log.
        return Standing(configuration.name, record, startup.peers(storage), commits)

    def _doubted(
        self, directory: DataDirectory, standing: Standing, sources: dict[SourceName, SourceState]
    ) -> list[Write]:
        """Put the sources in limbo whose messages an unclean stop may have lost."""
        run, boot = clean_shutdown.left_over(directory.path), clean_shutdown.boot_id()
        lost = [
            (state, reason)
            for name, state in sources.items()
            if run is not None and (reason := run.may_have_lost(name.topic, boot))
        ]
        if not lost:
            return []
        reasons = "; ".join(sorted({reason for _, reason in lost}))
        _log.warning("store %s is in limbo for %d sources: %s", standing.store, len(lost), reasons)
        standing.renew(uuid.uuid4().bytes)
        return [write for state, reason in lost for write in state.enter_limbo(reason)]

    def _begin_run(
        self, directory: DataDirectory, storage: Storage, writes: Sequence[Write]
    ) -> None:
        """Make the first rows of this run durable, before the store serves."""
        storage.write(writes)
        storage.sync()
        clean_shutdown.begin(directory.path, self._run(clean_shutdown.boot_id()))
        self._is_clean = False

    def _run(self, boot: str) -> clean_shutdown.Run:
        configuration = self._configuration
        whole = configuration.durability
        topics = ((each.pattern, each.durability or whole) for each in configuration.topic)
        return clean_shutdown.Run(boot, whole, tuple(topics))

    def _end_run(self, directory: DataDirectory, storage: Storage) -> None:
        """Sync and note a clean stop; after a failure note that messages may be missing."""
        if self._failure is None:
            storage.sync_state()
            clean_shutdown.end(directory.path)
            return
        # A sync that failed may have lost its writes, though the host goes on.
        try:
            clean_shutdown.begin(directory.path, self._run(boot=""))
        except OSError as error:
            _log.error("the failure of the store cannot be noted in %s: %s", directory.path, error)

    def _greeting(self) -> store_v1.Greeting:
        assert self._engine is not None
        assert self._directory is not None
        return self._engine.core.standing.greeting(self.address, self._directory.acknowledged)

    async def _serve(
        self,
        engine: Engine,
        peers: Peers,
        keeper: Keeper,
        losses: Losses,
        checked: ScrubRecord,
        releasing: Releasing,
        subscriptions: Subscriptions,
        storage: RocksStorage,
        making: StateMaking,
    ) -> tuple[Upkeep, Reports]:
        configuration = self._configuration
        host, _, _ = configuration.listen.rpartition(":")
        try:
            port = listen(
                self._server,
                configuration.listen,
                self._tls,
                mutual=configuration.tls is None or configuration.tls.mutual,
            )
        except RuntimeError as error:
            raise cannot_listen("listen", configuration.listen, OSError(str(error))) from error
        self.address = engine.address = configuration.advertise or f"{host}:{port}"
        facts = StoreFacts(
            configuration.name,
            self.address,
            _DURABILITIES[configuration.durability],
            configuration.disk_free_warning_bytes,
            configuration.disk_free_min_bytes,
            configuration.shared_settings,
            self._certificate_ends,
        )

        upkeep = Upkeep(
            engine,
            self._executor,
            peers,
            self.address,
            losses,
            checked,
            configuration.scrub_interval_seconds,
        )

        assert self._directory is not None
        listening = Listening()
        capacity = Capacity(
            configuration.name,
            configuration.store_bytes_max,
            configuration.sources_max,
            configuration.receivers_max,
        )
        reports = Reports(
            facts,
            engine,
            peers,
            self._directory,
            releasing,
            upkeep,
            making,
            subscriptions,
            capacity,
        )
        journal = JournalReports(
            configuration.name,
            self._directory.path,
            engine,
            self._executor,
            releasing,
            subscriptions,
        )
        newcomers = Newcomers(configuration.name, configuration.new_identities_per_second)
        self._service = Service(
            engine,
            keeper,
            self._executor,
            self._greeting,
            self.address,
            reports,
            journal,
            upkeep,
            listening,
            newcomers,
            capacity,
            subscriptions,
            configuration.payload_of,
            StateQueries(
                engine,
                storage,
                making,
                in_threads(self._executor),
                partial(position_before, engine, self._executor),
            ),
            Backups(self._directory, storage, engine.writer, in_threads(self._executor)),
            Releases(engine, self._executor, releasing),
        )
        admission = self._admission
        service = self._service
        add_StoreServicer_to_server(
            service if admission is None else guarded(service, admission, SERVICE), self._server
        )
        if self._beside is not None:
            beside = self._beside
            served = beside.service
            if admission is not None:
                served = guarded(served, admission, beside.descriptor)
            beside.add_to(self._server, served)
        self._grpc_health.add_to(self._server)
        self._server.add_generic_rpc_handlers((listening.handler(),))
        await self._server.start()
        return upkeep, reports

    def _certificate_ends(self) -> float | None:
        """Return when the store's certificate ends; None: that is not known."""
        if self._tls is None:
            return None
        # Imported here: a store without TLS starts sooner without it.
        from quorate.store.monitor.certificate import end_of

        return end_of(self._tls.certificate)

    def _durability(self, topic: str) -> v1.Durability:
        return _DURABILITIES[self._configuration.durability_of(topic)]

    # Called in the writer's thread.

    def _acknowledged(self, commit: int) -> None:
        assert self._directory is not None
        self._directory.acknowledged = commit

    def _check_room(self) -> None:
        assert self._directory is not None
        free, least = self._directory.free_bytes(), self._configuration.disk_free_min_bytes
        if free < least:
            raise StorageFailed(
                str(self._directory.path),
                f"the disk has {free:,} bytes left, less than disk_free_min_bytes = {least:,}",
            )

    # Stopping.

    def _failed(self, error: QuorateError) -> None:
        _log.critical("store %s stops: %s", self._configuration.name, error)
        self._failure = error
        reason = (
            error
            if isinstance(error, StorageFailed)
            else StorageFailed(str(self._configuration.data_directory), str(error))
        )
        self._begin_to_stop(reason)

    def _begin_to_stop(self, reason: StoreStopping | StorageFailed) -> None:
        self._health.stops_because = str(reason)
        if self._service is not None:
            self._service.stop(reason)
        if self._stopping is None:
            self._stopping = asyncio.create_task(self._stop())

    async def _stop(self) -> None:
        try:
            async with self._opening:
                if not self._stopped.is_set():
                    await self._release()
        finally:
            self._stopped.set()
        _log.info("store %s has stopped", self._configuration.name)

    async def _release(self) -> None:
        if self._monitor is not None:
            await self._monitor.end_views()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._grpc_health.stop()
        await self._server.stop(_GRACE_SECONDS)
        if self.keeper is not None:
            self.keeper.stop()
        if self._engine is not None:
            await self._engine.writer.stop()
        await asyncio.to_thread(self._executor.shutdown)
        if self._storage is not None:
            if not self._is_clean and self._directory is not None:
                await asyncio.to_thread(self._end_run, self._directory, self._storage)
            await asyncio.to_thread(self._close, self._storage)
        if self._directory is not None:
            self._directory.close()
        if self._monitor is not None:
            await self._monitor.stop()

    def _close(self, storage: Storage) -> None:
        try:
            storage.close()
        except StorageFailed as error:
            # Everything acknowledged is synced. A disk that failed before fails here again.
            _log.log(logging.DEBUG if self._failure else logging.ERROR, "%s", error)


def _admission(configuration: StoreConfiguration) -> Admission | None:
    """Return the admission of calls; None: there are no rules of access.

    Raises ConfigurationInvalid.
    """
    if configuration.access_file is not None:
        kept = "the rules of access that were there before stay"
        path = str(configuration.access_file)
        watched = WatchedFiles((path,), partial(read_access, path), kept)
        return Admission(lambda: watched.content, _tokens(configuration.tls))
    if not (rules := configuration.access_rules):
        return None
    access = Access(rules)
    return Admission(lambda: access, _tokens(configuration.tls))


def _tokens(tls: TlsConfiguration | None) -> Tokens | None:
    """Return the tokens that callers may show; None: none. Raises ConfigurationInvalid."""
    kinds: list[Tokens] = []
    if tls is not None and tls.tokens is not None:
        kinds.append(TokenFile(str(tls.tokens)))
    if tls is not None and tls.jwt is not None:
        kinds.append(JwtTokens(str(tls.jwt.keys), tls.jwt.issuer, tls.jwt.audience))
    return EitherToken(kinds) if kinds else None


def _check_port(listen: str) -> None:
    """Raise the error of `cannot_listen` if nothing can listen there. gRPC gives no cause."""
    host, _, port = listen.rpartition(":")
    host = host.strip("[]")
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, int(port), type=socket.SOCK_STREAM
        )[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except OSError as error:
        raise cannot_listen("listen", listen, error) from error


def run(
    configuration: StoreConfiguration,
    on_ready: Callable[[str], None] | None = None,
    beside: Beside | None = None,
) -> None:
    """Run a store until SIGINT or SIGTERM. A second signal ends the process at once.

    - on_ready: is called with the address once the store serves.
    - beside: a service to run on the store's server; None: there is none.

    If the store fails, its error is raised after it has stopped.
    """
    logging.getLogger("quorate").setLevel(configuration.log_level.upper())
    sys.setswitchinterval(_SWITCH_SECONDS)
    event_loop.run(_run(configuration, on_ready, beside))


async def _run(
    configuration: StoreConfiguration,
    on_ready: Callable[[str], None] | None,
    beside: Beside | None,
) -> None:
    node = StoreNode(configuration, beside)
    manager = ServiceManager(os.environ)
    loop = asyncio.get_running_loop()
    signals: list[int] = []
    tasks: list[asyncio.Task[None]] = []

    def stop(number: int) -> None:
        signals.append(number)
        if len(signals) > 1:
            os._exit(128 + number)
        _log.info("stopping on %s", signal.Signals(number).name)
        manager.stopping()
        tasks.append(asyncio.create_task(node.stop()))

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop, number)
    await node.start()
    # A collection holds Python's lock, and would go through all of this again and again.
    gc.freeze()
    telling = asyncio.create_task(manager.run(lambda: _status(node)))
    if not signals:
        manager.ready()
        if on_ready is not None:
            on_ready(node.address)
    try:
        await node.wait()
    finally:
        telling.cancel()
    await asyncio.gather(*tasks)


def _status(node: StoreNode) -> str:
    """Return how the store is, in one line for people."""
    limbo = f"; in limbo: {node.why_in_limbo}" if node.why_in_limbo else ""
    return f"serves {node.address}{limbo}"
