"""One source of a running receiver: this module holds the cores and does what they say.

A session parks while its source is gone and there is nothing left to do. Then it has no tasks but
its own. It waits for news from the stores' directory.

The loops that bring it input are in quorate.receiver.io.attach and quorate.receiver.io.fetch.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any, Protocol

from quorate.protocol.bookmarks import Place, place_at
from quorate.protocol.delivery import Delivery
from quorate.protocol.errors import Unreachable
from quorate.protocol.limits import FRAME_BYTES_MAX, NOTHING
from quorate.protocol.ranges import Range
from quorate.receiver import events as event
from quorate.receiver.io.channels import Peers
from quorate.receiver.io.inbox import Inbox
from quorate.receiver.io.joining import Joining, News
from quorate.receiver.io.redelivery import Redelivery
from quorate.receiver.message import DeliveredBatch
from quorate.receiver.options import ReceiverOptions
from quorate.receiver.protocol.consumed import Acknowledgements
from quorate.receiver.protocol.directory import SourceRecord
from quorate.receiver.protocol.fetch_plan import (
    SOURCE,
    Answer,
    FetchPlan,
    Request,
)
from quorate.receiver.protocol.live_stream import Following
from quorate.receiver.protocol.registration import Answered, Joined
from quorate.receiver.protocol.stream import (
    Room,
    Stream,
)
from quorate.receiver.protocol.subscription import Seen, Subscription
from quorate.receiver.start import Start
from quorate.transport.delays import pause
from quorate.transport.event_log import EventLog
from quorate.transport.turns import Turn

log = logging.getLogger("quorate.receiver")

HOUSEKEEPING_SECONDS = 1.0
STALLED_SECONDS = 3.0
"""The time, in seconds, for which one message must be missing to be worth an event."""
RECHECK_SECONDS = 0.1
"""The time, in seconds, until room that another source's stream gave back is noticed."""


class Acknowledging(Protocol):
    """The part that tells the stores what was consumed, as sessions know it."""

    def noted(self, session: Session) -> None:
        """Note that there may be something to tell of a session. Any thread may call this."""

    def is_done(self, session: Session) -> bool:
        """Return whether all that came was consumed, and all joined stores were told so."""


_ON_PURPOSE = {
    Answer.RELEASED: "was released by the stores",
    Answer.POISONED: "is poison, and is skipped",
}
"""The causes of gaps that somebody wanted, and their words in the log."""


def _said(peer: str, answer: Answer | None, detail: str) -> tuple[str, str]:
    """Return what a peer said of a message, for people."""
    if answer is None:
        return peer, "nothing yet"
    return peer, f"{answer.value}: {detail}" if detail else answer.value


class Session:
    """The state of one source. All of it is used on one event loop."""

    def __init__(
        self,
        record: SourceRecord,
        *,
        peers: Peers,
        session_id: int,
        reg_ids: dict[str, int],
        take_over: bool,
        delivery: Delivery,
        options: ReceiverOptions,
        inbox: Inbox,
        redelivery: Redelivery,
        room: Room,
        events: EventLog[event.Event],
        stores_changed: Callable[[], None],
        subscribed: Callable[[], Awaitable[Subscription]],
        may_register: asyncio.Event,
        acknowledging: Acknowledging,
        patience: float,
        start: Start = Start.EARLIEST,
    ) -> None:
        """Begin unregistered.

        - stores_changed: is called when `record` names other stores.
        - patience: seconds for which to wait for the end of another instance's protection.
        - subscribed: waits until the receiver has subscribed, and returns what was there then.
        - may_register: is set once the receiver can open, so that it may fence older instances.
        - acknowledging: tells the stores what was consumed.
        - start: where to start if no store has a position of the receiver.
        """
        self.source = record.source
        self.record = record
        self.peers = peers
        self.session_id = session_id
        self.delivery = delivery
        self.options = options
        self.inbox = inbox
        self._redelivery = redelivery
        self.room = room
        self.events = events
        self._tell_stores_changed = stores_changed
        self._may_register = may_register
        self._acknowledging = acknowledging
        self.ready = asyncio.Event()
        """Set once enough stores have answered, and the start was decided from their answers."""
        self.registered = asyncio.Event()
        self._has_lived = record.live
        """Whether a store said, at any time, that the source streams to it."""
        self.stream: Stream
        self.plan: FetchPlan
        self.following: Following
        self.acknowledgements: Acknowledgements
        self.confirm: Callable[[], Awaitable[object]] | None = None
        """The function that confirms to the attached source what was consumed; None: it does not
        ask."""
        self.consumed = asyncio.Event()
        """Set when messages were consumed, for the one that confirms them to the source."""
        self.directory_changed = asyncio.Event()
        self.look_at_attachment: Callable[[], None] | None = None
        """Looks whether the attachment to the source is still of use; None: there is none."""
        self.joining = Joining(
            record,
            peers=peers,
            session_id=session_id,
            reg_ids=reg_ids,
            take_over=take_over,
            options=options,
            events=events,
            subscribed=subscribed,
            patience=patience,
            start=start,
            directory_changed=self.directory_changed,
            tell=self._joining_has_news,
        )
        self.registration = self.joining.registration
        self._housekeeping = asyncio.Event()
        self._woken = asyncio.Event()
        self.is_parked = False
        """Whether there is nothing to do until the directory has news of the source."""
        self._addresses: set[str] = set()
        """The addresses of the source to which calls may be under way."""
        self._noted_epochs: tuple[int, int]
        self._noted_stable_upto = NOTHING
        self.lineage_changed = asyncio.Event()
        self._wakes: dict[str, asyncio.Event] = {}
        self._workers: dict[str, asyncio.Task[None]] = {}
        self._work: Callable[[Session, str], Coroutine[Any, Any, None]]
        self._tasks: asyncio.TaskGroup | None = None
        """The tasks of the active session; None: it is not active."""
        self._next_look: asyncio.TimerHandle | None = None
        """The next look at whether peers without a fetching task are to be asked."""
        self._stalled_at: tuple[int, float] | None = None

    @property
    def place(self) -> Place:
        """The place in the stream behind all that was consumed. The session is registered."""
        return place_at(self.stream.lineage, self.acknowledgements.consumed_upto())

    async def ask(self) -> None:
        """Ask the stores where to start, without registering."""
        await self.joining.ask()
        self.ready.set()

    async def open(self) -> None:
        """Register with the stores once the receiver can open, and decide where to start."""
        await self._may_register.wait()
        start = await self.joining.register()
        self.stream = Stream(
            start.lineage,
            start.first,
            known_upto=start.high,
            stable_upto=start.stable_upto,
            hold_back=self.delivery is Delivery.STABLE,
            room=self.room,
        )
        self.stream.heard_of_epoch(self.record.epoch)
        names = [name for name, _ in self.record.stores]
        delays = self.options.delays
        self.plan = FetchPlan(self.stream, names, delays)
        self.plan.source_live = self.record.live
        self.plan.proxy = self.record.proxy
        if self._has_lived == self.record.live:
            # Since these stores answered, nothing can have come but what the directory reports, or
            # what the live stream brings.
            self.plan.were_asked(self.registration.answers, asyncio.get_running_loop().time())
        self.following = Following(self.record, self.stream, self.plan, delays)
        noted = partial(self._acknowledging.noted, self)
        self.acknowledgements = Acknowledgements(start.first, noted)
        if start.says_start:
            # Without this, a next instance that comes before any message would start elsewhere. Or
            # it would be told of a gap of messages that this instance was not entitled to either.
            self.acknowledgements.say_start()
        self._say_start_if_paced()
        self._note_source_reg_id()
        self.joining.tell_complete(start)
        self._noted_epochs = (self.stream.lineage.epoch, self.stream.newest_epoch)
        self.directory_changed.clear()
        self.registered.set()
        self.acknowledgements.news.note()
        self._tell_proxy("", self.record.proxy)

    async def run(
        self,
        follow: Callable[[Session], Coroutine[Any, Any, None]],
        work: Callable[[Session, str], Coroutine[Any, Any, None]],
    ) -> None:
        """Follow the live stream and fetch what is missing, until cancelled.

        The session parks when there is nothing left to do, and goes on when it is woken. It ends if
        the source is forgotten then.
        """
        self._work = work
        try:
            while True:
                await self._be_active(follow)
                if self.joining.is_forgotten:
                    return
                await self._woken.wait()
                log.debug("%s: there is news of the source", self.source)
                self.is_parked = False
                self.plan.ask_again()
        finally:
            self.stream.broke_off()
            self.stream.release()

    async def _be_active(self, follow: Callable[[Session], Coroutine[Any, Any, None]]) -> None:
        self._use_address()
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            try:
                self._staff()
                following = tasks.create_task(follow(self))
                await self._keep_house()
            finally:
                self._tasks = None
                self._look_at(None)
            for task in (following, *self._workers.values()):
                task.cancel()
            self._workers.clear()
            self._wakes.clear()
        while self._addresses:
            self.peers.leave(self._addresses.pop())

    def _use_address(self) -> None:
        if self.record.address not in self._addresses:
            self._addresses.add(self.record.address)
            self.peers.use(self.record.address)

    # Inputs.

    def update(self, record: SourceRecord) -> None:
        """Take a new entry, from the directory or from the source itself."""
        before = self.record
        if record.order < before.order:
            # The directory does not have yet what the source said itself.
            live = record.live and record.epoch == before.epoch
            proxy = record.proxy if record.epoch == before.epoch else ""
            record = dataclasses.replace(before, live=live, proxy=proxy)
        self.record = record
        self._has_lived |= record.live
        self.joining.source_is(record)
        self._tell_proxy(before.proxy, record.proxy)
        changed = (before.epoch, before.address, before.stores) != (
            record.epoch,
            record.address,
            record.stores,
        )
        if changed:
            names = tuple(name for name, _ in record.stores)
            self.events.add(event.SourceChanged(self.source, record.epoch, record.address, names))
        if before.stores != record.stores:
            self._change_stores(before, record)
        self._note_source_news()
        if not self.registered.is_set():
            return
        self._say_start_if_paced()
        self.following.source_is(record)
        self.plan.source_live = record.live
        self.plan.proxy = record.proxy
        if changed:
            self.stream.heard_of_epoch(record.epoch)
            self.plan.set_stores([name for name, _ in record.stores])
            self.plan.source_changed()
            if not self.is_parked:
                self._use_address()
        if record.live or changed:
            self._woken.set()
        self.wake()
        self.look()

    def seen(self, address: str, seen: Seen) -> None:
        """Take the end of the stream at the store at this address, from its directory."""
        if not self.registered.is_set():
            return
        lineage = self.stream.lineage
        if seen.begun_epoch > lineage.epoch or seen.newest(lineage) > self.stream.known_upto:
            self._woken.set()
        joined = self.registration.joined
        if any(at == address and name not in joined for name, at in self.record.stores):
            self.rejoin()

    def peer_told(self, address: str, silence: Unreachable | None) -> None:
        """Note that the peer at this address is silent; None: it is heard again."""
        if not self.registered.is_set():
            return
        if silence is not None:
            self.following.silent(address, silence)
            self._note_source_news()
        for store, at in self.record.stores:
            if at != address:
                continue
            if silence is None:
                self.events.add(event.StoreReturned(self.source, store))
            else:
                self.events.add(event.StoreUnresponsive(self.source, store, str(silence)))

    async def learn_lineage(self, epoch: int) -> None:
        """Wait until the lineage of this epoch is known."""
        self.stream.heard_of_epoch(epoch)
        while self.stream.lineage.epoch < epoch:
            self.lineage_changed.clear()
            self.wake()
            await self.lineage_changed.wait()

    def tell_stable(self, upto: int, epoch: int) -> None:
        """Note what is stable in the lineage of that epoch."""
        if upto > self.stream.stable_upto:
            self.stream.stable(upto, epoch)
            self.hand_on()

    def withdraw(self, withdrawn: Range | None) -> None:
        """Withdraw these messages, which were handed on: a new lineage has replaced them."""
        self.lineage_changed.set()
        self._note_epochs()
        if withdrawn is None:
            return
        delivered = min(self.inbox.take_back(self.source, withdrawn.first), withdrawn.last)
        self.acknowledgements.withdraw(withdrawn.first, delivered)
        if delivered >= withdrawn.first:
            epoch = self.stream.lineage.epoch
            log.warning(
                "%s: [%d, %d] was delivered and is withdrawn by epoch %d",
                self.source, withdrawn.first, delivered, epoch,
            )  # fmt: skip
            self.events.add(event.Withdrawn(self.source, withdrawn.first, delivered, epoch))

    def hand_on(self) -> None:
        """Give the application what is ready for delivery."""
        stream = self.stream
        for piece in stream.take_ready():
            progress = self.acknowledgements.progress
            self.inbox.put(DeliveredBatch(piece, progress, self._redelivery.redeliver))
        if stream.stable_upto != self._noted_stable_upto:
            self._noted_stable_upto = stream.stable_upto
            self.acknowledgements.news.note()
        if stream.behind:
            self.wake()

    def settle(self) -> None:
        """Act on an answer: deliver what is ready, and give up what no peer has."""
        self.hand_on()
        self._note_epochs()
        self.look()
        now = asyncio.get_running_loop().time()
        while (gap := self.plan.gap(now)) is not None:
            evidence = tuple(_said(*one) for one in gap.evidence)
            log.log(
                logging.WARNING if gap.cause in _ON_PURPOSE else logging.ERROR,
                "%s: [%d, %d] %s: %s",
                self.source,
                gap.first,
                gap.last,
                _ON_PURPOSE.get(gap.cause, "is lost"),
                ", ".join(map(" says ".join, evidence)),
            )
            self.events.add(event.Gap(self.source, gap.first, gap.last, gap.cause, evidence))
            self.acknowledgements.progress.skip(gap.first, gap.last)
            self.stream.skip(gap.last)
            self.hand_on()

    # Called by the loops.

    def wake(self) -> None:
        """Let the fetching tasks look again at what is missing."""
        for woken in self._wakes.values():
            woken.set()
        self._staff()
        if self._stalled_at is None and self.stream.behind:
            self._housekeeping.set()

    def look(self) -> None:
        """Look whether the session may park."""
        if not self.record.live:
            self._housekeeping.set()

    def rejoin(self) -> None:
        """Register at once with the stores that are not joined."""
        self.joining.hurry()
        self._housekeeping.set()
        self._woken.set()

    async def next_request(self, peer: str, turn: Turn) -> Request | None:
        """Wait until there is something to ask this peer for, and for the turn to ask it.

        A request that waits for its turn is not under way: another peer may be asked.

        None: no peer is to be asked for anything. The fetching task ends then.
        """
        woken = self._wakes[peer]
        loop = asyncio.get_running_loop()
        while True:
            await self._space(turn)
            now = loop.time()
            request = self.plan.request(peer, now)
            if request is None:
                turn.give_back()
                if self.plan.rests:
                    del self._workers[peer], self._wakes[peer]
                    return None
                wake_at = self.plan.wake_at(peer, now)
                await pause(woken, None if wake_at is None else wake_at - now)
            elif turn.is_near:
                await turn.take()  # which does not wait
                return request
            else:
                self.plan.given_back(request)
                await turn.take()

    async def room_for(self, request: Request, assembling: int, turn: Turn) -> bool:
        """Wait until there is room for what the request brings. Return False if it should be
        dropped.

        - assembling: the bytes of the large batch that it is bringing; 0: none.
        - turn: that of the request. Another request has it while this one waits.
        """
        size = max(assembling, FRAME_BYTES_MAX)
        while True:
            await self._space(turn)
            if (
                not self.plan.needs_room(request)
                or self.room.waiting_bytes + size <= self.room.fetched_bytes_max
            ):
                return True
            turn.give_back()
            if not self.plan.front_under_way():
                # Not at once: a peer that lacks the front would be asked the same again.
                await asyncio.sleep(RECHECK_SECONDS)
                return False
            await pause(self._wakes[request.peer], RECHECK_SECONDS)

    async def _space(self, turn: Turn) -> None:
        if self.inbox.full:
            turn.give_back()
        await self.inbox.space()

    def address_of(self, peer: str) -> str:
        """Return the address of a store, or of the source."""
        if peer == SOURCE:
            return self.record.address
        return dict(self.record.stores)[peer]

    # Inside.

    def _note_source_news(self) -> None:
        self.directory_changed.set()
        if self.look_at_attachment is not None:
            # Soon, because the other parts of the session may not know the news yet.
            asyncio.get_running_loop().call_soon(self._look_at_attachment)

    def _look_at_attachment(self) -> None:
        if self.look_at_attachment is not None:
            self.look_at_attachment()

    def _say_start_if_paced(self) -> None:
        # A source that waits for acknowledgements of messages that this receiver never asks for
        # would wait for ever.
        if self.record.paced:
            self.acknowledgements.say_start()

    def _tell_proxy(self, before: str, now: str) -> None:
        if before != now and self.registered.is_set():
            if before:
                self.events.add(event.ProxyGone(self.source, before))
            if now:
                self.events.add(event.ProxyServes(self.source, now))

    def _joining_has_news(self, news: News) -> None:
        match news:
            case Answered(_, answer):
                self.withdraw(self.stream.adopt(answer.lineage))
            case Joined(stores) if self.registered.is_set():
                self.acknowledgements.news.note()
                self._note_source_reg_id()
                self.joining.tell_joined(stores)

    def _note_source_reg_id(self) -> None:
        self.acknowledgements.progress.source_reg_id = self.joining.source_reg_id

    def _change_stores(self, before: SourceRecord, record: SourceRecord) -> None:
        were, are = dict(before.stores), dict(record.stores)
        added = tuple(name for name in are if name not in were)
        removed = tuple(name for name in were if name not in are)
        if added or removed:
            self.events.add(event.RegistrationChanged(self.source, added, removed))
        self.rejoin()
        self._tell_stores_changed()

    def _staff(self) -> None:
        """Keep one fetching task for each peer, unless there is nothing to ask for."""
        if self._tasks is None:
            return
        plan, now = self.plan, asyncio.get_running_loop().time()
        peers = (SOURCE, *plan.stores)
        for peer in self._workers.keys() - set(peers):
            self._workers.pop(peer).cancel()
            del self._wakes[peer]
        look_at = None
        for peer in peers:
            if peer in self._workers:
                continue
            if plan.may_ask(peer, now):
                self._wakes[peer] = asyncio.Event()
                self._workers[peer] = self._tasks.create_task(self._work(self, peer))
            elif (at := plan.wake_at(peer, now)) is not None:
                look_at = at if look_at is None else min(look_at, at)
        self._look_at(look_at)

    def _look_at(self, time: float | None) -> None:
        """Look at this time whether peers without a fetching task are to be asked; None: never."""
        if self._next_look is not None:
            self._next_look.cancel()
            self._next_look = None
        if time is not None:
            self._next_look = asyncio.get_running_loop().call_at(time, self._staff)

    async def _keep_house(self) -> None:
        """Look after the registration and the delivery, until the session may park."""
        self.joining.begin_anew()
        while not self._may_park():
            await pause(self._housekeeping, self._housekeeping_seconds())
            self._watch_for_stall()
            await self.joining.keep_up()
        self.is_parked = True
        self._woken.clear()

    def _housekeeping_seconds(self) -> float | None:
        """Return for how long there is nothing to look after; None: until something happens."""
        rejoin = self.joining.seconds()
        if not self.stream.behind:
            return rejoin
        return HOUSEKEEPING_SECONDS if rejoin is None else min(rejoin, HOUSEKEEPING_SECONDS)

    def _may_park(self) -> bool:
        """Return whether nothing is left to do until the directory has news of the source."""
        return (
            not self.record.live
            and not self.plan.attached
            and self.plan.were_all_asked
            and not self.stream.outdated
            and self.stream.next > self.stream.known_upto
            and self.joining.has_tried
            and self._acknowledging.is_done(self)
        )

    def _note_epochs(self) -> None:
        """Tell the loops that wait for it that another epoch is known."""
        if not self.registered.is_set():
            return
        epochs = (self.stream.lineage.epoch, self.stream.newest_epoch)
        if epochs != self._noted_epochs:
            self._noted_epochs = epochs
            self._note_source_news()
            self.acknowledgements.news.note()

    def _watch_for_stall(self) -> None:
        now = asyncio.get_running_loop().time()
        if not self.stream.behind or self.inbox.full:
            self._stalled_at = None
        elif self._stalled_at is None or self._stalled_at[0] != self.stream.next:
            self._stalled_at = (self.stream.next, now)
        elif now - self._stalled_at[1] >= STALLED_SECONDS:
            missing = self.stream.missing()[0]
            waiting = tuple(_said(*one) for one in self.plan.waiting_for())
            log.warning(
                "%s: [%d, %d] is missing; waiting for %s",
                self.source, missing.first, missing.last, ", ".join(map(" says ".join, waiting)),
            )  # fmt: skip
            names = tuple(peer for peer, _ in waiting)
            self.events.add(event.Stalled(self.source, missing.first, missing.last, names, waiting))
            self._stalled_at = (self.stream.next, now + 60.0)
