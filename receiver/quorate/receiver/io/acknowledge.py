"""The acknowledgements to the stores, in the background: every store of a source gets the same.

Which position may be sent is decided in quorate.receiver.protocol.consumed.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from dataclasses import dataclass, field
from math import floor, inf
from typing import NamedTuple

from quorate.protocol.delays import LOOK, Delays
from quorate.protocol.errors import Deregistered, Fenced, QuorateError
from quorate.protocol.identity import SourceName
from quorate.protocol.limits import ACKNOWLEDGEMENTS_MAX, NOTHING
from quorate.protocol.wire import source_to_wire
from quorate.receiver.cursor import Cursor
from quorate.receiver.io.channels import (
    CALL_SECONDS,
    Peers,
)
from quorate.receiver.io.fetch import hear_stable
from quorate.receiver.io.source_session import Session
from quorate.transport.delays import delay, pause
from quorate.transport.failures import errors_of, failure_from_wire
from quorate.v1 import store_pb2 as store_v1

log = logging.getLogger("quorate.receiver")

REPEAT_SECONDS = 3.0
"""The time, in seconds, after which a store is told every position again, even without news.

So a store that was wiped learns it, and a store that fences this receiver is heard.
"""
REPEATS_LONGEST = 16
"""The time between two later repetitions, in REPEAT_SECONDS.

A store that comes back is told at once. So a thousand idle receivers need to say little.
"""
TOGETHER_SECONDS_MIN = 2.0
"""The shortest time, in seconds, to a repetition that receivers of a client make together."""
SHORT_SECONDS = 0.5
"""The interval, in seconds, for a store that took less than the position: it lacks messages
itself."""
EVERYONE_SECONDS = 0.25
"""The time, in seconds, for which a flush waits for every store. After that enough stores will
do."""
STABLE_SECONDS = 1.0
"""The time, in seconds, for which a flush waits for consumed messages to become stable."""


def repeat_seconds(repeats: int) -> float:
    """Return the seconds to the next repetition, after so many of them."""
    return REPEAT_SECONDS * (REPEATS_LONGEST if repeats else 1)


def repeat_time(now: float, seconds: float) -> float:
    """Return when to repeat a position: in so many seconds, or up to one second earlier.

    All receivers of a client repeat at whole seconds of its clock. So their calls share a frame.
    Short times stay as they are.
    """
    return floor(now + seconds) if seconds >= TOGETHER_SECONDS_MIN else now + seconds


class _Told(NamedTuple):
    """The key of what a store was told.

    A stream that begins anew has a new key: its stores were told nothing, and late answers do not
    count.
    """

    address: str
    source: SourceName
    began_anew: int


def _told_at(address: str, session: Session) -> _Told:
    return _Told(address, session.source, session.acknowledgements.began_anew)


@dataclass(slots=True)
class _Store:
    """The news for one store, and the times at which it is told again."""

    address: str
    news: set[SourceName] = field(default_factory=set)
    """The sources of which there may be something to tell."""
    short: set[SourceName] = field(default_factory=set)
    """The sources of which the store took less than the position."""
    short_at: float = inf
    repeat_at: float = inf
    repeats: int = 0
    alive_for: float = inf
    """Seconds of silence after which the store may take the receiver for gone."""
    failures: int = 0
    """The calls in a row that have failed."""
    telling: asyncio.Task[None] | None = None
    """The task that tells the store what is due; None: nothing was due at the last look."""
    next_look: asyncio.TimerHandle | None = None
    hurried: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the store is not to be waited for because it failed."""

    @property
    def look_at(self) -> float:
        return min(self.short_at, self.repeat_at)

    def repeat_soon(self, now: float) -> None:
        self.repeats = 0
        self._delay_repeat(now)

    def repeated(self, now: float) -> None:
        self.repeats += 1
        self._delay_repeat(now)

    def _delay_repeat(self, now: float) -> None:
        seconds = min(repeat_seconds(self.repeats), self.alive_for / 3)
        self.repeat_at = repeat_time(now, seconds)


_Due = dict[SourceName, tuple[Session, str, int]]
"""The positions to tell a store: for each source its session, the store's name there, and the
number."""


class Acknowledger:
    """The task that sends positions to the stores, to each at its own pace.

    Without news it waits: for a session that notes some, or for the time of a repetition.
    """

    def __init__(
        self,
        peers: Peers,
        session_id: int,
        interval: float,
        sessions: dict[SourceName, Session],
        cursor: Cursor,
        alive_for: float,
        delays: Delays,
    ) -> None:
        """Begin with nothing told.

        - cursor: the application's place; it is asked to count what was consumed.
        - alive_for: seconds of silence after which stores may take the receiver for gone.
        - delays: before a store is told again that failed.
        """
        self._alive_for = alive_for
        self._delays = delays
        self._peers = peers
        self._session_id = session_id
        self._interval = interval
        self._sessions = sessions
        self._cursor = cursor
        self._told_upto: dict[_Told, int] = {}
        """The position that each store was told last."""
        self._taken: dict[_Told, int] = {}
        """The position that each store has taken."""
        self._stores: dict[str, _Store] = {}
        self._tasks: asyncio.TaskGroup
        self._loop = asyncio.get_running_loop()
        self._noted: deque[Session] = deque()
        self._rung = asyncio.Event()
        self._hurried = asyncio.Event()
        self._progressed = asyncio.Event()

    def noted(self, session: Session) -> None:
        """Note that there may be something to tell of a session. Any thread may call this."""
        self._noted.append(session)
        # The application may acknowledge messages when the loop has ended.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._rung.set)

    def repeat(self, address: str) -> None:
        """Tell the store at this address every position soon: it may have come back without."""
        if (store := self._stores.get(address)) is not None:
            store.repeat_at = self._loop.time()
            store.hurried.set()
            self._look_after(store)

    def is_done(self, session: Session) -> bool:
        """Return whether all that came was consumed, and all joined stores were told so."""
        acknowledgements, stream = session.acknowledgements, session.stream
        if acknowledgements.consumed_upto() < stream.next - 1:
            return False
        position = acknowledgements.position(stream.stable_upto)
        is_nothing = position is None and stream.next == acknowledgements.start
        return is_nothing or (
            position == stream.next - 1
            and self._holders(session, position) >= session.registration.joined
        )

    async def run(self, tasks: asyncio.TaskGroup) -> None:
        """Run a task for each store that is to be told something, until cancelled."""
        self._tasks = tasks
        try:
            while True:
                is_under_way = self._cursor.is_under_way
                self._look()
                await pause(self._hurried, self._interval)
                if not (is_under_way or self._noted):
                    await self._rung.wait()
                self._rung.clear()
        finally:
            for store in self._stores.values():
                if store.next_look is not None:
                    store.next_look.cancel()
            self._stores = {}

    def _look(self) -> None:
        """Give the news of the sessions to the stores' tasks."""
        self._cursor.count()
        while self._noted:
            session = self._noted.popleft()
            session.acknowledgements.news.looks()
            session.consumed.set()
            for name, address in session.record.stores:
                if name in session.registration.joined:
                    store = self._stores.get(address)
                    if store is None:
                        store = self._stores[address] = _Store(address)
                    store.news.add(session.source)
                    self._look_after(store)

    async def flush(self, timeout: float) -> None:
        """Wait until enough stores have what was consumed so far.

        Consumed messages that do not become stable meanwhile are left out. Raise TimeoutError.
        """
        self._cursor.count()
        async with asyncio.timeout(timeout):
            for session in self._ready():
                await self._hear_stable(session)
            everyone_until = asyncio.get_running_loop().time() + EVERYONE_SECONDS
            while not all(self._told(session, everyone_until) for session in self._ready()):
                self._rung.set()
                for hurried in (self._hurried, *(one.hurried for one in self._stores.values())):
                    hurried.set()
                await pause(self._progressed, self._interval)
        await self._confirm()

    async def _confirm(self) -> None:
        """Confirm to sources that ask for it what was consumed, if that is quick."""
        telling = [session.confirm() for session in self._ready() if session.confirm is not None]
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(EVERYONE_SECONDS):
                await asyncio.gather(*telling)

    async def _hear_stable(self, session: Session) -> None:
        consumed = session.acknowledgements.consumed_upto()
        deadline = asyncio.get_running_loop().time() + STABLE_SECONDS
        looks = 0
        while consumed > session.stream.stable_upto:
            await hear_stable(session)
            if not session.plan.attached or asyncio.get_running_loop().time() > deadline:
                return
            looks += 1
            await asyncio.sleep(delay(LOOK, looks))

    def _told(self, session: Session, everyone_until: float) -> bool:
        position = session.acknowledgements.position(session.stream.stable_upto)
        if position is None:
            return True
        holders = self._holders(session, position)
        everyone = asyncio.get_running_loop().time() < everyone_until
        if everyone and not holders >= session.registration.joined:
            return False
        return session.record.policy.stable(holders)

    def _holders(self, session: Session, position: int) -> set[str]:
        """Return the stores that have taken this position."""
        return {
            name
            for name, address in session.record.stores
            if self._taken.get(_told_at(address, session), NOTHING) >= position
        }

    def _ready(self) -> list[Session]:
        return [
            session
            for session in self._sessions.values()
            if session.registered.is_set() and not session.joining.is_forgotten
        ]

    def _look_after(self, store: _Store) -> None:
        """Tell a store what is due now, and plan the next look at it.

        Most stores have nothing due most of the time. A task for each would cost more than all else
        that an idle receiver has.
        """
        if store.telling is not None:
            return  # The task looks again before it ends.
        due = self._due(store)
        if due:
            self._begin_to_tell(store, due)
        else:
            self._look_later(store)

    def _begin_to_tell(self, store: _Store, due: _Due) -> None:
        telling = self._tell(store, due)
        try:
            store.telling = self._tasks.create_task(telling)
        except RuntimeError:
            telling.close()  # The receiver ends, and this planned look came before its cleaning up.

    def _look_later(self, store: _Store) -> None:
        """Look after a store again when it is to be told something although nothing happens."""
        if store.next_look is not None:
            store.next_look.cancel()
            store.next_look = None
        is_run = self._stores.get(store.address) is store
        if is_run and store.look_at < inf:
            store.next_look = self._loop.call_at(store.look_at, self._look_after, store)

    async def _tell(self, store: _Store, due: _Due) -> None:
        """Tell a store what is due, until nothing is."""
        while due:
            try:
                each = list(due.items())
                for at in range(0, len(each), ACKNOWLEDGEMENTS_MAX):
                    await self._send(store, dict(each[at : at + ACKNOWLEDGEMENTS_MAX]))
            except (Fenced, Deregistered):
                raise
            except QuorateError as error:
                address = store.address
                self._peers.failed(address, "acknowledging", error, again=store.failures > 0)
                store.failures += 1
                store.news |= due.keys()
                for session, _, _ in due.values():
                    self._told_upto.pop(_told_at(address, session), None)
                await pause(store.hurried, delay(self._delays, store.failures))
            else:
                store.failures = 0
            self._progressed.set()
            due = self._due(store)
        store.telling = None
        self._look_later(store)

    def _due(self, store: _Store) -> _Due:
        """Return the positions that this store is to be told now."""
        now, address = self._loop.time(), store.address
        repeats = now >= store.repeat_at
        if repeats:
            sessions = self._ready()
            store.repeated(now)
        else:
            # A session whose source was forgotten is over.
            named = (self._sessions.get(source) for source in store.news | store.short)
            sessions = [session for session in named if session is not None]
        again = store.short if repeats or now >= store.short_at else set()
        store.news = set()
        due: _Due = {}
        for session in sessions:
            position = session.acknowledgements.position(session.stream.stable_upto)
            if position is None:
                position = NOTHING
            names = [name for name, at in session.record.stores if at == address]
            if not names or names[0] not in session.registration.joined:
                continue
            told = _told_at(address, session)
            if told not in self._told_upto:
                self._begin(store, session, names[0], now)
                # The store knows from the registration that nothing is consumed yet.
                self._told_upto[told] = NOTHING
            is_due = repeats or session.source in again
            if is_due or position > self._told_upto[told]:
                due[session.source] = (session, names[0], position)
        if again:
            store.short, store.short_at = set(), inf
        return due

    def _begin(self, store: _Store, session: Session, name: str, now: float) -> None:
        """Begin to repeat the position of a session to a store."""
        answer = session.registration.answers.get(name)
        asked = answer.alive_for if answer is not None else inf
        store.alive_for = min(store.alive_for, self._alive_for, asked)
        store.repeat_soon(now)

    async def _send(self, store: _Store, due: _Due) -> None:
        address = store.address
        told = {source: _told_at(address, session) for source, (session, _, _) in due.items()}
        request = store_v1.AcknowledgeRequest(
            session_id=self._session_id,
            acknowledgements=[
                store_v1.Acknowledgement(
                    source=source_to_wire(source),
                    epoch=session.registration.epoch,
                    upto=position,
                    source_epoch=session.stream.lineage.epoch,
                    instance=session.registration.instance,
                )
                for source, (session, _, position) in due.items()
            ],
        )
        with errors_of(address):
            response = await self._peers.bundle(address).acknowledge(request, CALL_SECONDS)
        self._peers.answered(address)
        for refused in response.refused:
            source = SourceName(refused.source.topic, refused.source.session_id)
            error = failure_from_wire(refused.failure, address)
            if source not in due:
                continue  # the store names a source that it was not asked about
            session, name, _ = due.pop(source)
            self._told_upto.pop(told[source], None)
            self._taken.pop(told[source], None)
            if not (
                isinstance(error, Fenced | Deregistered) or session.registration.forgets(error)
            ):
                log.warning("%s: store %s refused an acknowledgement: %s", source, address, error)
            registration = session.registration
            registration.acknowledgement_refused(name, error)
            if registration.error is not None:
                raise registration.error
            session.rejoin()
        for source, (_, _, position) in due.items():
            self._told_upto[told[source]] = position
            self._taken[told[source]] = position
        for shortened in response.shortened:
            source = SourceName(shortened.source.topic, shortened.source.session_id)
            if source in due:
                self._taken[told[source]] = shortened.upto
                store.short.add(source)
                store.short_at = self._loop.time() + SHORT_SECONDS
        for session, _, _ in due.values():
            session.look()
