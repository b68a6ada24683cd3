"""The shell around the core: its tasks, its clock, and what follows from each input to the core.

It decides nothing about the protocol.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from math import inf

from quorate.protocol.errors import (
    Deregistered,
    Fenced,
    NoQuorum,
    NotYetStable,
    QuorateError,
    Unreachable,
    UsedBeforeFork,
    no_turn,
)
from quorate.protocol.identity import SourceName
from quorate.protocol.layout import Layout
from quorate.protocol.stream_end import StreamEnd
from quorate.protocol.tls import Tls
from quorate.source import events
from quorate.source.io.batcher import Packer
from quorate.source.io.deregister import (
    deregister,
    take_back,
)
from quorate.source.io.fetch_kept import fetch_kept
from quorate.source.io.live_server import LiveServers
from quorate.source.io.live_stream import LiveStream
from quorate.source.io.store_session import StoreSession
from quorate.source.options import SourceOptions
from quorate.source.protocol.core import SourceCore
from quorate.source.protocol.frames import Framed, batch_of
from quorate.source.protocol.tick_pace import TickPace, tick_pace
from quorate.source.publish_store import PublishStore, Remembered
from quorate.source.receipts import PendingReceipts, Receipt, durability_from_wire
from quorate.transport.application import this_application
from quorate.transport.connections import Connections
from quorate.transport.event_log import EventLog
from quorate.v1.store_pb2 import StoreReplaced

_log = logging.getLogger("quorate.source")
_TICK_SECONDS = 0.1
_STABLE_NEWS_SECONDS = 1.0
"""Seconds after which stores and receivers hear how far an idle stream is stable."""
_GOODBYE_SECONDS = 1.0


class Engine:
    """The running parts of a source, made and used on one event loop."""

    def __init__(
        self,
        name: SourceName,
        layout: Layout,
        previous: Sequence[Layout],
        options: SourceOptions,
        publish_store: PublishStore,
        remembered: Remembered,
        *,
        reg_id: int,
        take_over: bool,
        drawn: bool = False,
        on_event: Callable[[events.Event], None] | None = None,
        connections: Connections | None = None,
        live_servers: LiveServers | None = None,
        tls: Tls | None = None,
    ) -> None:
        """Begin unregistered.

        - drawn: no later source has the session ID.
        - connections, live_servers: those of the client; None: the source has its own.
        - tls: the TLS files of connections of its own; None: they are not secure.
        """
        instance = uuid.uuid4().bytes
        self.core = SourceCore(
            name,
            [replace(store, reg_id=store.reg_id or reg_id) for store in layout.stores],
            layout.policy,
            options,
            instance,
            stable_upto=remembered.stable_upto,
            unstable=remembered.batches,
            previous=previous,
        )
        self.core.registration.drawn = drawn
        self.log: EventLog[events.Event] = EventLog(on_event)
        self.live = LiveStream(self.core, options, self.log, self.after_input)
        self.live_server = (live_servers or LiveServers(tls)).at(options.listen)
        self._advertise = options.advertise
        self.receipts = PendingReceipts()
        self.packer = Packer(self.core, publish_store, self._released, self.fail)
        self.publish_store = publish_store
        self._connections = connections or Connections(tls=tls, application=this_application())
        self._own_connections = self._connections if connections is None else None
        self.tracing = self._connections.tracing
        self._session_of = partial(
            StoreSession,
            owner=self,
            connections=self._connections,
            instance=instance,
            reg_id=reg_id,
            delays=options.delays,
        )
        configured = (layout, *previous) if take_over else ()
        self._takes_over_at = {store.name for each in configured for store in each.stores}
        """The stores that are told so. Others say if the configuration is an old one."""
        self._unanswered_after = options.unanswered_after
        self._sessions: dict[str, StoreSession] = {}
        self._running: dict[str, asyncio.Task[None]] = {}
        self._stores_version = 0
        self._aside: set[asyncio.Task[None]] = set()
        self._ticks = False
        self._next_tick: asyncio.TimerHandle | None = None
        """None: the source rests until the next input."""
        self._stable_news_at = 0.0
        self._awaited_news: asyncio.Handle | None = None
        """The call that tells stores where somebody waits."""
        self._loader: asyncio.Task[None] | None = None
        self._news = asyncio.Event()
        self._epoch = 0
        self._version = (0, 0, 0)
        self._phase = self.core.registration.phase
        self._settled_upto = remembered.stable_upto
        self._remembered_next = remembered.next_sequence
        self._loop = asyncio.get_running_loop()

    # -- life -------------------------------------------------------------------------------

    async def start(self, timeout: float | None) -> None:
        """Register with the stores. Raise why that did not succeed within the timeout.

        None: wait for as long as it takes.
        """
        self.core.address = await self.live_server.add(self.live, self._advertise)
        until = inf if timeout is None else self._loop.time() + timeout
        async with self._connections.beginnings.turn(until) as has_turn:
            await self._register(until, has_turn)

    async def _register(self, until: float, has_turn: bool) -> None:
        self.core.start(self._loop.time(), until)
        self._sync_sessions()
        self._ticks = True
        self._tick_in(_TICK_SECONDS)
        try:
            async with asyncio.timeout_at(until):
                while not self.core.complete and self.core.error is None:
                    await self._news.wait()
        except TimeoutError:
            error = self.core.unfinished() if has_turn else no_turn(f"source {self.core.name}")
            if not isinstance(error, NoQuorum) or not self._begins_without_stores():
                raise error from None
        if self.core.error is not None:
            raise self.core.error

    def _begins_without_stores(self) -> bool:
        """Return whether messages are accepted now although the source is not registered.

        The source must be told to, and its publish store must know the next number.
        """
        core, next_sequence = self.core, self._remembered_next
        if core.keeps:
            return True  # the source is registered, and has lost its quorum since
        if core.started or next_sequence is None or not core.may_begin_at(next_sequence):
            return False
        self.publish_store.goes_on(next_sequence, ())
        core.begin_at(next_sequence)
        self.after_input()
        return True

    async def wait_stable(self, upto: int, timeout: float | None) -> None:
        """Wait until every message up to this number is stable. Raise NotYetStable, or why it never
        is."""
        core = self.core
        try:
            async with asyncio.timeout(timeout):
                while core.stable_upto < upto:
                    if core.error is not None:
                        raise core.error
                    if core.closing:
                        raise self.not_yet_stable(upto, "the source was closed")
                    await self._news.wait()
        except TimeoutError:
            raise self.not_yet_stable(upto, f"after {timeout:g} s") from None

    async def receipt(self, sequence: int, since: float, timeout: float | None = None) -> Receipt:
        """Wait until this message is stable, and return its receipt.

        Raises NotYetStable after timeout seconds; None: no limit.
        """
        if self.core.error is not None:
            raise self.core.error
        if sequence <= self.core.stable_upto:
            return self._receipt(sequence, self._loop.time() - since)
        future: asyncio.Future[Receipt] = self._loop.create_future()
        self.receipts.expect(sequence, future, since)
        try:
            async with asyncio.timeout(timeout):
                return await future
        except TimeoutError:
            raise self.not_yet_stable(sequence, f"after {timeout:.1f} s") from None

    def not_yet_stable(self, upto: int, detail: str) -> NotYetStable:
        first, place = self.core.stable_upto + 1, self.publish_store.place
        return NotYetStable(str(self.core.name), first, upto, detail, place)

    async def stop(self) -> None:
        """Say goodbye to all; unstable messages stay unstable."""
        await self._stop()
        await self._disconnect()

    async def _stop(self) -> None:
        await self._end_streams()
        self.publish_store.close()
        self._changed()

    async def _disconnect(self) -> None:
        if self._own_connections is not None:
            await self._own_connections.close()

    async def give_up(self) -> None:
        """Stop before anything was sent. Stores need to remember nothing of this instance."""
        registration = self.core.registration
        unused = registration.unused_promises()
        await self._stop()
        addresses = {
            store: session.store.address
            for store, session in self._sessions.items()
            if store in unused
        }
        await take_back(
            self.core.name, registration.epoch, addresses, self.core.instance, self._connections
        )
        await self._disconnect()

    async def until_owner(self, timeout: float) -> None:
        """Wait until every epoch asked for is decided: another instance may own a later one.

        Raise Fenced if one does, or why no decision came within the timeout.
        """
        core = self.core
        try:
            async with asyncio.timeout(timeout):
                while core.registration.decided_epoch != core.epoch and core.error is None:
                    await self._news.wait()
        except TimeoutError:
            raise core.unfinished() from None
        if isinstance(core.error, Fenced):
            raise core.error

    async def deregister(self, timeout: float) -> None:
        """Stop, and end the source at its stores. Raise what `deregister` raises.

        The source acts as the owner of the newest epoch that it decided.
        """
        error = Deregistered(f"Source {self.core.name}")
        self.core.end(error)
        self.receipts.fail(lambda _: error)
        self._changed()
        stores = {session.store.name: session.store for session in self._sessions.values()}
        await self._end_streams()
        try:
            registration = self.core.registration
            end = StreamEnd(str(self.core.name), stores, registration.membership.policies)
            end.addresses |= {name: store.address for name, store in stores.items()}
            await deregister(
                end,
                self.core.name,
                registration.decided_epoch,
                self.core.instance,
                timeout,
                self._connections,
                self.log.add,
            )
            self.log.add(events.DeregistrationComplete())
            self.publish_store.forget()
        finally:
            self.publish_store.close()
            self.log.end()
            self._changed()
            await self._disconnect()

    def forked(self, error: UsedBeforeFork) -> None:
        """End at once with this error, because this is a copy of a source in a forked child."""
        self.core.end(error)
        self.log.end()
        self.receipts.fail(lambda _: error)
        self._changed()

    async def _end_streams(self) -> None:
        self.core.close()
        await self.packer.stop()
        for session in self._sessions.values():
            session.wake()
        open_streams = [
            task
            for store, task in self._running.items()
            if store in self.core.stores and self.core.streams.cursors[store].open
        ]
        if open_streams:
            await asyncio.wait(open_streams, timeout=_GOODBYE_SECONDS)
        # Last, because no frame follows a goodbye, which says how far the stream is stable.
        await self.live_server.remove(self.live, self.core.goodbye_frame())
        self.stop_ticking()
        tasks = [*self._running.values(), *self._aside, self._loader]
        running = [task for task in tasks if task is not None]
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    # -- what follows from inputs -----------------------------------------------------------

    def _sync_sessions(self) -> None:
        """Keep one session for each store that the core deals with now."""
        self._stores_version = self.core.roster.version
        for store in self._sessions.keys() - self.core.stores.keys():
            task = self._running.pop(store)
            del self._sessions[store]
            self._aside.add(task)
            task.add_done_callback(self._aside.discard)
            # In the loop's next iteration, because this very session may have made the change.
            self._loop.call_soon(task.cancel)
        for name, address in self.core.stores.items():
            if name not in self._sessions:
                session = self._sessions[name] = self._session_of(
                    address, take_over=name in self._takes_over_at
                )
                running = self._running[name] = self._loop.create_task(session.run())
                running.add_done_callback(partial(_release, session))

    def after_input(self) -> None:
        """Act on what follows from an input to the core."""
        core = self.core
        if core.roster.version != self._stores_version:
            self._sync_sessions()
        if core.stable_upto > self._settled_upto:
            self._settle(core.stable_upto)
        if core.started and not core.numbering.is_known and core.error is None:
            self._go_on()
        if core.registration.phase is not self._phase:
            # Every store has something new to be asked; waiting would cost a round trip.
            self._phase = core.registration.phase
            self._wake_sessions()
            self._tick_in(_TICK_SECONDS)
        if core.events:
            self._tell()
        if core.version != self._version:
            self._version = core.version
            self._registration_changed()
        if core.loading and (self._loader is None or self._loader.done()):
            self._loader = self._loop.create_task(self._load())
            self._loader.add_done_callback(_report)
        if core.error is not None and len(self.receipts):
            error = core.error
            self.receipts.fail(lambda _: error)

    def _settle(self, stable_upto: int) -> None:
        self._settled_upto = stable_upto
        try:
            with self.core.window.lock:
                self.publish_store.settle(stable_upto)
        except QuorateError as error:
            self.fail(error)
        if len(self.receipts):
            self.receipts.settle(stable_upto, self._loop.time(), self._receipt)
        self.live.stable_advanced()
        self._changed()
        self.stable_awaited()

    def stable_awaited(self) -> None:
        """Tell how far the stream is stable, if somebody at a store waits for that.

        An application that is told of it now may send the next message at once. A batch with that
        message tells the stores, too. So they are told in the loop's next iteration.
        """
        core = self.core
        if self._ticks and self._awaited_news is None and core.streams.awaiting(core.stable_upto):
            self._awaited_news = self._loop.call_soon(self._tell_awaited)

    def _tell_awaited(self) -> None:
        """Tell how far the stream is stable, unless a batch has said it or is about to."""
        core, self._awaited_news = self.core, None
        if core.can_take:
            return
        for store, cursor in core.streams.awaiting(core.stable_upto).items():
            cursor.keepalive_due = True
            self._sessions[store].wake()

    def _go_on(self) -> None:
        """Let the publish store go on with the stream, before the first message is accepted."""
        unstable = (batch_of(item.frame) for item in self.core.retention.unsettled())
        try:
            self.publish_store.goes_on(self.core.window.next_sequence, unstable)
        except QuorateError as error:
            self.fail(error)
        else:
            self.core.go_on()

    def _receipt(self, sequence: int, seconds: float) -> Receipt:
        core = self.core
        stores = core.tracker.holders(sequence)
        cursors = core.streams.cursors
        return Receipt(
            core.name,
            sequence,
            core.registration.lineage.epoch_at(sequence),
            stores,
            {store: durability_from_wire(cursors[store].durability) for store in stores},
            seconds,
            core.registration.policy.groups_holding(set(stores), core.tracker.active),
        )

    def _tell(self) -> None:
        news, self.core.events = self.core.events, []
        for event in news:
            _log_event(self.core.name, event)
            self.log.add(event)
        self._wake_sessions()
        self._changed()
        self._tick_in(_TICK_SECONDS)

    def _registration_changed(self) -> None:
        if self.core.epoch != self._epoch:
            self._epoch = self.core.epoch
            if self._loader is not None:
                self._loader.cancel()
            for session in self._sessions.values():
                session.end_stream(Unreachable(session.store.address, "a newer epoch begins"))
        self._wake_sessions()
        self.live.inform()

    def _changed(self) -> None:
        self.packer.progressed()
        self._news.set()
        self._news.clear()

    def _wake_sessions(self) -> None:
        for session in self._sessions.values():
            session.wake()

    def store_known(self, said: StoreReplaced, teller: str) -> None:
        """Take a report that a store came back without its data. Its stream begins anew."""
        for store in self.core.known(
            said.store_name, said.incarnation, said.former, self._loop.time(), teller
        ):
            session = self._sessions[store]
            session.end_stream(Unreachable(session.store.address, "it came back without its data"))
            self.after_input()

    def after_receivers(self) -> None:
        """Let senders look again, because the core was told of receivers."""
        self.after_input()
        self.packer.progressed()

    def store_idle(self) -> None:
        """Pack what has gathered, because a stream may have nothing left to do."""
        if self.core.window.payloads:
            self.packer.soon()

    def _released(self, frame: Framed) -> None:
        # Receivers first: their frame is under way while the stores' frames are written. A store's
        # answer takes a sync anyway.
        self.live.publish(frame)
        self._wake_sessions()
        if self._next_tick is None:
            self._tick_in(_STABLE_NEWS_SECONDS)

    def fail(self, error: QuorateError) -> None:
        """End the source for ever with this error."""
        self.core.fail(error)
        self.after_input()

    async def _load(self) -> None:
        load = self.core.load()
        assert load is not None
        epoch = self.core.epoch
        kept = await fetch_kept(self.core.name, load, self._sessions)
        if self.core.loading and self.core.epoch == epoch:
            self.core.loaded(kept, self._loop.time())
            self.after_input()
            self._wake_sessions()

    def stop_ticking(self) -> None:
        """Act on the time no longer."""
        self._ticks = False
        if self._next_tick is not None:
            self._next_tick.cancel()
            self._next_tick = None
        if self._awaited_news is not None:
            self._awaited_news.cancel()
            self._awaited_news = None

    def _tick_in(self, seconds: float) -> None:
        """Act on the time after so many seconds, or before if that is planned already."""
        at, planned = self._loop.time() + seconds, self._next_tick
        if not self._ticks or (planned is not None and planned.when() <= at):
            return
        if planned is not None:
            planned.cancel()
        self._next_tick = self._loop.call_at(at, self._tick)

    def _tick(self) -> None:
        self._next_tick = None
        try:
            self._act_on_time(self._loop.time())
        except Exception:
            _log.critical("the clock of the source has failed", exc_info=True)
            return
        pace = tick_pace(self.core)
        if pace is TickPace.QUICK:
            self._tick_in(_TICK_SECONDS)
        elif pace is TickPace.SLOW or not self.live.rests:
            self._tick_in(max(_TICK_SECONDS, _STABLE_NEWS_SECONDS))

    def _act_on_time(self, now: float) -> None:
        if now >= self._stable_news_at:
            self._stable_news_at = now + _STABLE_NEWS_SECONDS
            self.core.streams.keepalives_due(self.core.stable_upto)
            self.live.keepalives_due()
            self._wake_sessions()
        for store in self.core.streams.silent(now, self._unanswered_after):
            session = self._sessions[store]
            session.end_stream(
                Unreachable(
                    session.store.address,
                    f"it acknowledged nothing for {self._unanswered_after:g} s",
                )
            )
        self.core.tick(now)
        if self.core.streams.stable_news(self.core.stable_upto):
            self._wake_sessions()
        for store in self.core.looks_due(now):
            look = self._loop.create_task(self._look(store))
            look.add_done_callback(_report)
            self._aside.add(look)
            look.add_done_callback(self._aside.discard)
        self.after_input()
        # Senders that wait for the end of a registration get no other signal.
        self.packer.progressed()

    async def _look(self, store: str) -> None:
        """Ask a store what it holds."""
        epoch, grant = self.core.epoch, None
        try:
            if (session := self._sessions.get(store)) is not None:
                grant = await session.ask(epoch)
        except QuorateError as error:
            _log.debug("store %s did not say what it holds: %s", store, error)
        self.core.looked(store, epoch, grant, self._loop.time())
        self.after_input()


def _release(session: StoreSession, _: asyncio.Task[None]) -> None:
    session.connection.release()


def _report(task: asyncio.Task[None]) -> None:
    """Log the failure of a task of the engine."""
    if not task.cancelled() and (error := task.exception()) is not None:
        _log.critical("a task of the source has failed", exc_info=error)


def _log_event(name: SourceName, event: events.Event) -> None:
    match event:
        case events.RegistrationComplete(first, epoch, stores, missing, _):
            _log.info(
                "%s is registered in epoch %d from %d on with %s%s",
                name,
                epoch,
                first,
                ", ".join(stores),
                f", not yet with {', '.join(missing)}" if missing else "",
            )
        case events.StoreUnresponsive(store, reason, _, _):
            _log.warning("store %s does not take %s: %s", store, name, reason)
        case events.WaitingForStores(missing, seconds):
            upto = f"{seconds:.1f} s at most" if seconds else "as long as it takes"
            _log.info("%s waits for %s, %s", name, ", ".join(missing), upto)
        case events.WaitingForIdentity(refusing, ends_in):
            _log.warning(
                "%s waits for another instance of it, which %s protect; %s",
                name,
                ", ".join(refusing),
                "its stream is open" if ends_in is None else f"that ends in {ends_in:.1f} s",
            )
        case events.MembershipChanged(_, to_policies, epoch, confirmed):
            _log.info(
                "%s goes to %s in epoch %d%s",
                name,
                " and to ".join(map(str, to_policies)),
                epoch,
                ", confirmed" if confirmed else "",
            )
        case events.BackupSteppedIn(group, member, backup):
            _log.warning("%s stands in for %s in %s of %s", backup, member, group, name)
        case events.BackupSteppedBack(group, member, backup):
            _log.info("%s is back for %s in %s of %s", member, backup, group, name)
        case events.StoreReturned(store, _):
            _log.info("store %s takes %s again", store, name)
        case events.StoreInLimbo(store, why):
            _log.warning("store %s is in limbo for %s: %s", store, name, why)
        case events.StoreKeepsState(store):
            _log.info("store %s keeps no messages of %s, by its configuration", store, name)
        case events.StoreReplaced(store, _):
            _log.warning("store %s came back without its data of %s", store, name)
        case events.StoreCaughtUp(store, upto):
            _log.info("store %s has caught up with %s to %d", store, name, upto)
        case events.QuorumLost(active, groups):
            _log.warning(
                "%s lost its quorum; left: %s; groups left: %s",
                name,
                ", ".join(active) or "none",
                ", ".join(groups) or "none",
            )
        case events.NotStable(first, last, events.NotStableCause.ENDED, _):
            _log.info("[%d, %d] of %s was not known to be stable at its end", first, last, name)
        case events.NotStable(first, last, cause, store):
            why_not = f"refused by {store}" if store else "not stable after its lifetime"
            _log.warning("[%d, %d] of %s is %s (%s)", first, last, name, why_not, cause.value)
        case events.ReceiversLag(receivers, messages, size):
            who = ", ".join(f"{each.session_id:#x}" for each in receivers)
            _log.warning(
                "%s is held up by receivers that lag: %s; the slowest has acknowledged up to %d, "
                "%d messages (%d bytes) less than was sent",
                name,
                who,
                receivers[0].acknowledged_upto,
                messages,
                size,
            )
        case events.ReceiversCaughtUp():
            _log.info("the receivers of %s have caught up", name)
        case events.RegistrationRefused(store, reason):
            _log.info("store %s refused to register %s: %s", store, name, reason)
        case events.Reclaimed(first, last, True):
            _log.info(
                "[%d, %d] of %s left the retention though a store lacks it", first, last, name
            )
        case events.SourceFailed(error):
            _log.error("%s cannot go on: %s", name, error)
        case _:
            _log.debug("%s: %s", name, event)
