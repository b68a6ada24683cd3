"""Following a source's live stream: attach, read, and attach again when it ends or moves."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import grpc.aio

from quorate.protocol.errors import CorruptBatch, QuorateError, Unreachable
from quorate.protocol.framing import check_batch
from quorate.protocol.limits import PROTOCOL_VERSION
from quorate.protocol.wire import source_to_wire
from quorate.receiver import events as event
from quorate.receiver.confirming import Confirming
from quorate.receiver.directory import record_from_wire
from quorate.receiver.options import Delivery
from quorate.receiver.peers import errors_of
from quorate.receiver.session import Session, pause
from quorate.transport.channels import SILENCE_SECONDS_MAX
from quorate.v1 import messages_pb2 as v1
from quorate.v1 import source_pb2 as source_v1

log = logging.getLogger("quorate.receiver")

PAUSE_SECONDS = 0.05
PAUSE_SECONDS_LIVE = 1.0
"""Longest pause between attempts while some store says that the source lives."""
PAUSE_SECONDS_AWAY = 10.0
"""Longest pause while none does: the directory says when it returns."""

_LEVELS = {
    Delivery.LIVE: source_v1.DELIVERY_LEVEL_LIVE,
    Delivery.STABLE: source_v1.DELIVERY_LEVEL_STABLE,
}


async def follow(session: Session) -> None:
    """Keep the live stream coming in, until cancelled."""
    seconds = PAUSE_SECONDS
    while True:
        record = session.record
        stream = _LiveStream(session)
        try:
            await stream.run()
        except QuorateError as error:
            if stream.attached:
                log.info("%s: live stream ended: %s", session.source, error)
                session.events.tell(event.SourceDetached(session.source, str(error)))
            else:
                log.debug("%s: %s", session.source, error)
        session.plan.attached = False
        session.wake()
        if stream.attached or session.record != record:
            seconds = PAUSE_SECONDS
        longest = PAUSE_SECONDS_LIVE if session.record.live else PAUSE_SECONDS_AWAY
        if session.record == record:
            await pause(session.directory_changed, min(seconds, longest))
        seconds = min(seconds * 2, longest)


class _LiveStream:
    """One attachment."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._address = session.record.address
        self._where = f"from {self._address}"
        self._epoch = 0
        self._call: Any = None
        self._reading_since: float | None = None
        self._confirming: asyncio.Task[None] | None = None
        self._ended_because = ""
        self.attached = False

    async def run(self) -> None:
        """Raises when it ends."""
        session = self._session
        stub = session.peers.source(self._address)
        self._call = stub.Attach(
            source_v1.AttachRequest(
                source=source_to_wire(session.source),
                session_id=session.session_id,
                delivery=_LEVELS[session.delivery],
                protocol_version=PROTOCOL_VERSION,
            )
        )
        watchdog = asyncio.create_task(self._watch())
        try:
            with errors_of(self._address):
                while True:
                    await session.inbox.space()
                    await self._take(await self._read())
        except asyncio.CancelledError:
            # Cancelling the call looks the same to its reader as being cancelled itself.
            task = asyncio.current_task()
            if not self._ended_because or (task is not None and task.cancelling()):
                raise
            raise Unreachable(self._address, self._ended_because) from None
        finally:
            watchdog.cancel()
            self._call.cancel()
            session.confirm = None
            if self._confirming is not None:
                self._confirming.cancel()

    async def _read(self) -> Any:
        # No timer for each frame: the watchdog looks at the time now and then.
        self._reading_since = asyncio.get_running_loop().time()
        frame = await self._call.read()
        self._reading_since = None
        if frame is grpc.aio.EOF:
            raise Unreachable(self._address, "it ended the live stream")
        return frame

    async def _watch(self) -> None:
        """End it when it is silent, or when the source is elsewhere by now."""
        loop = asyncio.get_running_loop()
        session = self._session
        while True:
            await pause(session.directory_changed, 1.0)
            self._ended_because = self._why_end(loop.time())
            if self._ended_because:
                self._call.cancel()
                return

    def _why_end(self, now: float) -> str:
        record, since = self._session.record, self._reading_since
        if record.address != self._address:
            return f"the source moved to {record.address}"
        newest = self._session.stream.newest_epoch
        if self.attached and self._epoch < newest:
            # A source says so first when it begins another: this one was fenced, and lives on.
            return f"it is in epoch {self._epoch}, and {newest} was begun elsewhere"
        if since is not None and now - since > SILENCE_SECONDS_MAX:
            return f"it said nothing for {SILENCE_SECONDS_MAX:.0f} s"
        return ""

    async def _take(self, frame: Any) -> None:
        session = self._session
        match frame.WhichOneof("kind"):
            case "batch":
                batch = frame.batch  # each look at the field makes a copy
                header = check_batch(batch, self._where)
                if header.source != session.source:
                    raise CorruptBatch(self._where, f"it is of {header.source}")
                self._epoch = max(self._epoch, header.epoch)
                await session.take_live(header, batch, frame.stable_upto)
                return
            case "attached":
                await self._begin(frame.attached)
            case "information":
                self._epoch = max(self._epoch, frame.information.epoch)
                self._hear(frame.information)
            case "goodbye":
                last = frame.goodbye.last_sequence
                session.stream.exists(last, self._epoch)
                session.events.tell(event.SourceGone(session.source, last))
        session.tell_stable(frame.stable_upto, self._epoch)

    def _hear(self, information: v1.SourceInformation) -> None:
        # Whether it lives, for the stores, is theirs to say.
        record = record_from_wire(
            information, live=self._session.record.live, proxy=self._session.record.proxy
        )
        if record.order > self._session.record.order:
            self._session.update(record)

    async def _begin(self, attached: v1.Attached) -> None:
        session = self._session
        record = record_from_wire(attached.information, live=session.record.live)
        if record.source != session.source:
            raise Unreachable(self._address, f"it serves {record.source}, not {session.source}")
        if record.epoch < session.stream.newest_epoch:
            raise Unreachable(self._address, f"it is in epoch {record.epoch}, which is over")
        self._epoch = record.epoch
        self._hear(attached.information)
        await session.learn_lineage(record.epoch)
        session.stream.exists(attached.next_sequence - 1, record.epoch)
        session.plan.attached = self.attached = True
        session.events.tell(
            event.SourceAttached(
                session.source, self._address, record.epoch, attached.next_sequence
            )
        )
        session.hand_on()
        options = session.options
        if options.allow_confirmed_delivery and (attached.confirm or options.confirm_delivery):
            confirming = Confirming(session, self._address)
            session.confirm = confirming.tell
            self._confirming = asyncio.create_task(confirming.run())
