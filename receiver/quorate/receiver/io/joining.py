"""How a receiver joins the stores of one source: it asks, registers, and decides where to start.

It also registers with stores that were away, for as long as the receiver runs. The calls are in
quorate.receiver.io.register, and the rules in the protocol folder. The session of the source, in
quorate.receiver.io.source_session, acts on the start.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import uuid
from collections.abc import Awaitable, Callable, Mapping, Set

from quorate.protocol.delays import REGISTER, REJOIN, delay_after
from quorate.protocol.errors import QuorateError, StoreStopping, Unreachable
from quorate.receiver import events as event
from quorate.receiver.io.channels import Peers
from quorate.receiver.io.locate import locate
from quorate.receiver.io.register import Registrar
from quorate.receiver.options import ReceiverOptions
from quorate.receiver.protocol import registration
from quorate.receiver.protocol.directory import SourceRecord
from quorate.receiver.protocol.start_position import (
    StartPosition,
    StoreAnswer,
    chosen_again,
    decide_start,
    has_position,
)
from quorate.receiver.protocol.subscription import Subscription
from quorate.receiver.start import Start, StartKind
from quorate.transport.delays import pause
from quorate.transport.event_log import EventLog

log = logging.getLogger("quorate.receiver")


class SourceForgotten(Exception):
    """The source has closed, and its stores have forgotten it: nothing can be had of it."""


News = registration.Answered | registration.Joined


class Joining:
    """The joining of one receiver with the stores of one source."""

    def __init__(
        self,
        record: SourceRecord,
        *,
        peers: Peers,
        session_id: int,
        reg_ids: Mapping[str, int],
        take_over: bool,
        options: ReceiverOptions,
        events: EventLog[event.Event],
        subscribed: Callable[[], Awaitable[Subscription]],
        patience: float,
        start: Start,
        directory_changed: asyncio.Event,
        tell: Callable[[News], None],
    ) -> None:
        """Begin unregistered.

        - subscribed: waits until the receiver has subscribed, and returns what was there then.
        - patience: seconds for which to wait for the end of another instance's protection.
        - start: where to start if no store has a position of the receiver.
        - directory_changed: is set when there is news that makes another attempt worth while.
        - tell: gets each answer of a store, and the stores that have joined.
        """
        self._record = record
        self._peers = peers
        self._options = options
        self._events = events
        self._subscribed = subscribed
        self._start = start
        self._directory_changed = directory_changed
        self._tell = tell
        self.registration = registration.Registration(
            record.source,
            record.stores,
            record.policy,
            session_id,
            uuid.uuid4().bytes,
            options.registration_interval,
            take_over=take_over,
            drawn=record.drawn,
        )
        self.registration.protection.until = self._now() + patience
        self._registrar = Registrar(self.registration, peers, reg_ids, options, self._heard)
        self._start_as_asked: StartPosition
        self._rejoin_at = 0.0
        self._rejoins = 0
        """The attempts to register with the stores that are not joined yet."""

    async def ask(self) -> None:
        """Ask the stores where to start, without registering.

        A receiver that cannot open leaves a working instance alone. Raises SourceForgotten.
        """
        await self._hear_enough(self._registrar.ask)
        self._start_as_asked = await self._decide_start(self._options)

    async def register(self) -> StartPosition:
        """Register with the stores, and return where to start.

        The positions may have moved since the stores were asked. So that is decided again. Raises
        SourceForgotten.
        """
        await self._hear_enough(self._registrar.register)
        again = chosen_again(self._start_as_asked)
        return await self._decide_start(dataclasses.replace(self._options, choose_start=again))

    def source_is(self, record: SourceRecord) -> None:
        """Take a new entry of the source, which may name other stores."""
        self._record = record
        self.registration.source_has(record.stores, record.policy)

    @property
    def is_forgotten(self) -> bool:
        """Whether the source has closed, and too many of its stores have forgotten it."""
        return self.registration.is_forgotten and not self._record.live

    # Stores that were away.

    @property
    def lacks_stores(self) -> bool:
        """Whether some store does not know this instance."""
        return self.registration.joined != self.registration.stores.keys()

    @property
    def has_tried(self) -> bool:
        """Whether every store is joined, or was asked since `begin_anew`."""
        return self._rejoins > 0 or not self.lacks_stores

    def begin_anew(self) -> None:
        """Forget the attempts so far: the next one comes soon."""
        self._rejoins = 0
        self._delay()

    def hurry(self) -> None:
        """Let the next attempt come at once."""
        self._rejoin_at = 0.0

    def seconds(self) -> float | None:
        """Return the time until the next attempt; None: every store is joined."""
        return max(0.0, self._rejoin_at - self._now()) if self.lacks_stores else None

    async def keep_up(self) -> None:
        """Register with the stores that were away, if it is time for an attempt.

        Raises Fenced if another instance has replaced this one, and Deregistered.
        """
        if self.lacks_stores and self._now() >= self._rejoin_at:
            await self._registrar.keep_house()
            self._rejoins = self._rejoins + 1 if self.lacks_stores else 0
            self._delay()

    def _delay(self) -> None:
        self._rejoin_at = self._now() + delay_after(REJOIN, self._rejoins + 1)

    # Reports to the application.

    @property
    def source_reg_id(self) -> int:
        """The RegID of the source if all stores gave it the same one, otherwise 0."""
        reg_ids = {one.source_reg_id for one in self.registration.answers.values()}
        return reg_ids.pop() if len(reg_ids) == 1 else 0

    def waiting_for_stores(self) -> event.RegistrationWaiting:
        """Return which stores register this receiver, as they said so far, and which do not."""
        answers, limbo = self.registration.answers, self.registration.in_limbo
        names = [name for name, _ in self._record.stores]
        return event.RegistrationWaiting(
            self._record.source,
            tuple(name for name in names if name in answers and name not in limbo),
            tuple(name for name in names if name in limbo),
            tuple(name for name in names if name not in answers and name not in limbo),
        )

    def tell_complete(self, start: StartPosition) -> None:
        """Report that the receiver is registered, and where it starts."""
        answers, limbo = self.registration.answers, self.registration.in_limbo
        for name, answer in answers.items():
            self._tell_registered(name, answer)
        names = [name for name, _ in self._record.stores]
        log.info("%s: registered, starting at %d", self._record.source, start.first)
        self._events.add(
            event.RegistrationComplete(
                self._record.source,
                start.first,
                start.point.low,
                start.point.low_by_request_maximum,
                start.high,
                tuple(name for name in names if name in answers),
                tuple(name for name in names if name not in answers),
                tuple(name for name in names if name in limbo),
            )
        )

    def tell_joined(self, stores: Set[str]) -> None:
        """Report the stores that have joined since the registration was complete."""
        for store in sorted(stores):
            self._tell_registered(store, self.registration.answers[store])

    def _tell_registered(self, name: str, answer: StoreAnswer) -> None:
        self._events.add(
            event.StoreRegistered(
                self._record.source,
                name,
                answer.reg_id,
                answer.source_reg_id,
                answer.known,
                answer.acknowledged_upto,
                answer.limbo,
                answer.state_only,
            )
        )

    # Inside.

    async def _hear_enough(self, try_all: Callable[[], Awaitable[None]]) -> None:
        told: event.RegistrationWaiting | tuple[str, ...] | None = None
        while True:
            await try_all()
            if self.registration.enough:
                return
            if self.is_forgotten:
                raise SourceForgotten
            kept_out = self.registration.waiting_for_identity(self._now())
            waiting = kept_out[0] if kept_out is not None else self.waiting_for_stores()
            if waiting != told:
                told = waiting
                self._tell_waiting(kept_out)
            await pause(self._directory_changed, REGISTER.first)

    def _tell_waiting(self, kept_out: tuple[tuple[str, ...], float] | None) -> None:
        """Report what the registration waits for: other stores, or the end of a protection."""
        source = self._record.source
        if kept_out is not None:
            stores, seconds = kept_out
            log.warning(
                "%s: registration waits for another instance of this receiver, which %s protect; "
                "that ends in %.1f s",
                source, ", ".join(stores), seconds,
            )  # fmt: skip
            self._events.add(event.WaitingForIdentity(source, stores, seconds))
            return
        waiting = self.waiting_for_stores()
        log.warning(
            "%s: registration waits for more stores: possible with %s; in limbo: %s; not "
            "registered: %s",
            source,
            *(", ".join(names) or "none" for names in waiting.by_kind),
        )
        self._events.add(waiting)

    async def _decide_start(self, options: ReceiverOptions) -> StartPosition:
        seen = await self._subscribed()
        source, policy = self._record.source, self._record.policy
        located = dict[str, int]()
        if self._start.kind is StartKind.SINCE and not has_position(
            policy, self.registration.answers
        ):
            located = await self._located(self._start.value)
        answers = self.registration.answers
        return decide_start(source, policy, answers, options, seen, self._start, located)

    async def _located(self, time_ns: int) -> dict[str, int]:
        """Return the first number since this time, by store. Wait until a store says it."""
        seconds = self._options.registration_interval
        while True:
            addresses = {
                store: address
                for store, address in self._record.stores
                if store in self.registration.answers
            }
            located = await locate(self._peers, self._record.source, addresses, time_ns, seconds)
            if located:
                return located
            await pause(self._directory_changed, REGISTER.first)

    def _heard(self, told: registration.Event) -> None:
        """Act on an event of the registration."""
        source = self._record.source
        match told:
            case registration.Refused(store, error):
                self._refused(store, error)
            case registration.NewerFound(store):
                log.warning("store %s has a newer instance of the receiver of %s", store, source)
            case registration.Answered() | registration.Joined():
                self._tell(told)

    def _refused(self, store: str, error: QuorateError) -> None:
        source = self._record.source
        log.warning("%s: store %s does not register the receiver: %s", source, store, error)
        if isinstance(error, Unreachable | StoreStopping):
            self._events.add(event.StoreUnresponsive(source, store, str(error)))
        else:
            self._events.add(event.StoreRefused(source, store, error))

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()
