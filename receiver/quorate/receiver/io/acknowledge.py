"""The acknowledgements to the stores, in the background: every store of a source gets the same.

Which position may be sent is decided in quorate.receiver.protocol.consumed.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from typing import NamedTuple

from quorate.protocol.delays import LOOK
from quorate.protocol.errors import Fenced, QuorateError
from quorate.protocol.identity import SourceName
from quorate.protocol.limits import ACKNOWLEDGEMENTS_MAX, NOTHING
from quorate.protocol.wire import source_to_wire
from quorate.receiver.io.channels import (
    CALL_SECONDS,
    Peers,
)
from quorate.receiver.io.fetch import hear_stable
from quorate.receiver.io.source_session import (
    Session,
    pause,
)
from quorate.transport.delays import delay
from quorate.transport.failures import errors_of, failure_from_wire
from quorate.v1 import store_pb2 as store_v1

log = logging.getLogger("quorate.receiver")

REPEAT_SECONDS = 3.0
"""The interval, in seconds, at which every store is told the position again, even without news.

So a store that was wiped learns it, and a store that fences this receiver is heard.
"""
SHORT_SECONDS = 0.5
"""The interval, in seconds, for a store that took less than the position: it lacks messages
itself."""
EVERYONE_SECONDS = 0.25
"""The time, in seconds, for which a flush waits for every store. After that enough stores will
do."""
STABLE_SECONDS = 1.0
"""The time, in seconds, for which a flush waits for consumed messages to become stable."""


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


class Acknowledger:
    """The task that sends positions to the stores, to each at its own pace."""

    def __init__(
        self,
        peers: Peers,
        session_id: int,
        interval: float,
        sessions: dict[SourceName, Session],
        count_taken: Callable[[], None],
        alive_for: float,
    ) -> None:
        """Begin with nothing told.

        - count_taken: brings the count of what was consumed up to date.
        - alive_for: seconds of silence after which stores may take the receiver for gone.
        """
        self._repeat_seconds = alive_for / 3
        self._peers = peers
        self._session_id = session_id
        self._interval = interval
        self._sessions = sessions
        self._count_taken = count_taken
        self._told_upto: dict[_Told, tuple[int, float]] = {}
        """The position that each store was told last, and when."""
        self._taken: dict[_Told, int] = {}
        """The position that each store has taken."""
        self._kicks: dict[str, asyncio.Event] = {}
        self._kicked = asyncio.Event()
        self._progressed = asyncio.Event()

    async def run(self, tasks: asyncio.TaskGroup) -> None:
        """Run one task for each store of any source, until cancelled."""
        while True:
            self._count_taken()
            addresses = {
                address
                for session in self._ready()
                for name, address in session.record.stores
                if name in session.registration.joined
            }
            for address in addresses - self._kicks.keys():
                self._kicks[address] = asyncio.Event()
                self._kicks[address].set()
                tasks.create_task(self._tell(address))
            await pause(self._kicked, self._interval)

    async def flush(self, timeout: float) -> None:
        """Wait until enough stores have what was consumed so far.

        Consumed messages that do not become stable meanwhile are left out. Raise TimeoutError.
        """
        self._count_taken()
        async with asyncio.timeout(timeout):
            for session in self._ready():
                await self._hear_stable(session)
            everyone_until = asyncio.get_running_loop().time() + EVERYONE_SECONDS
            while not all(self._told(session, everyone_until) for session in self._ready()):
                for kick in (self._kicked, *self._kicks.values()):
                    kick.set()
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
        holders = {
            name
            for name, address in session.record.stores
            if self._taken.get(_told_at(address, session), NOTHING) >= position
        }
        everyone = asyncio.get_running_loop().time() < everyone_until
        if everyone and not holders >= session.registration.joined:
            return False
        return session.record.policy.stable(holders)

    def _ready(self) -> list[Session]:
        return [session for session in self._sessions.values() if session.registered.is_set()]

    async def _tell(self, address: str) -> None:
        while True:
            await pause(self._kicks[address], self._interval)
            due = self._due(address)
            if not due:
                continue
            try:
                each = list(due.items())
                for at in range(0, len(each), ACKNOWLEDGEMENTS_MAX):
                    await self._send(address, dict(each[at : at + ACKNOWLEDGEMENTS_MAX]))
            except Fenced:
                raise
            except QuorateError as error:
                log.info("store %s did not take an acknowledgement: %s", address, error)
            self._progressed.set()

    def _due(self, address: str) -> dict[SourceName, tuple[Session, str, int]]:
        now = asyncio.get_running_loop().time()
        repeat_seconds = min(REPEAT_SECONDS, self._repeat_seconds)
        due = {}
        for session in self._ready():
            position = session.acknowledgements.position(session.stream.stable_upto)
            if position is None:
                position = NOTHING
            names = [name for name, at in session.record.stores if at == address]
            if not names or names[0] not in session.registration.joined:
                continue
            told = _told_at(address, session)
            upto, at = self._told_upto.get(told, (NOTHING, 0.0))
            short = self._taken.get(told, NOTHING) < position
            if position > upto or now - at >= (SHORT_SECONDS if short else repeat_seconds):
                due[session.source] = (session, names[0], position)
        return due

    async def _send(self, address: str, due: dict[SourceName, tuple[Session, str, int]]) -> None:
        epochs = {source: session.registration.epoch for source, (session, _, _) in due.items()}
        told = {source: _told_at(address, session) for source, (session, _, _) in due.items()}
        request = store_v1.AcknowledgeRequest(
            session_id=self._session_id,
            acknowledgements=[
                store_v1.Acknowledgement(
                    source=source_to_wire(source),
                    epoch=epochs[source],
                    upto=position,
                    source_epoch=session.stream.lineage.epoch,
                    instance=session.registration.instance,
                )
                for source, (session, _, position) in due.items()
            ],
        )
        with errors_of(address):
            response = await self._peers.store(address).Acknowledge(request, timeout=CALL_SECONDS)
        for refused in response.refused:
            source = SourceName(refused.source.topic, refused.source.session_id)
            error = failure_from_wire(refused.failure, address)
            session, name, _ = due.pop(source)
            self._told_upto.pop(told[source], None)
            self._taken.pop(told[source], None)
            if not isinstance(error, Fenced):
                log.warning("%s: store %s refused an acknowledgement: %s", source, address, error)
            registration = session.registration
            registration.acknowledgement_refused(name, epochs[source], error)
            if registration.error is not None:
                raise registration.error
        now = asyncio.get_running_loop().time()
        for source, (_, _, position) in due.items():
            self._told_upto[told[source]] = (position, now)
            self._taken[told[source]] = position
        for shortened in response.shortened:
            source = SourceName(shortened.source.topic, shortened.source.session_id)
            if source in due:
                self._taken[told[source]] = shortened.upto
