"""The shell of a live stream: it calls the source and passes on what the source says.

The protocol folder decides when to attach and when to leave.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any, NoReturn

import grpc.aio

from quorate.protocol.delivery import Delivery
from quorate.protocol.errors import LiveStreamOver, QuorateError
from quorate.protocol.limits import PROTOCOL_VERSION
from quorate.protocol.wire import source_to_wire
from quorate.receiver import events as event
from quorate.receiver.io.confirm import Confirming
from quorate.receiver.io.source_session import Session
from quorate.receiver.options import ConfirmDelivery
from quorate.receiver.protocol import live_stream
from quorate.transport.delays import pause, shortened
from quorate.transport.failures import errors_of
from quorate.v1 import source_pb2 as source_v1

log = logging.getLogger("quorate.receiver")

_LEVELS = {
    Delivery.LIVE: source_v1.DELIVERY_LEVEL_LIVE,
    Delivery.STABLE: source_v1.DELIVERY_LEVEL_STABLE,
}


async def follow(session: Session) -> None:
    """Keep the live stream coming in, until cancelled."""
    if not session.record.live:
        # The directory will report its return.
        await pause(session.directory_changed, session.options.delays.longest)
    while True:
        stream = _LiveStream(session, session.following.attach())
        try:
            await stream.run()
        except QuorateError as error:
            seconds = session.following.ended(error)
        stream.tell()
        session.wake()
        session.look()
        if seconds is not None:
            await pause(session.directory_changed, shortened(session.options.delays, seconds))


class _LiveStream:
    """One attachment to the live stream."""

    def __init__(self, session: Session, address: str) -> None:
        self._session = session
        self._following = session.following
        self._address = address
        self._call: Any = None
        self._confirming: asyncio.Task[None] | None = None
        self._left_because: QuorateError | None = None

    async def run(self) -> NoReturn:
        """Run until the attachment ends. Raise why."""
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
        session.look_at_attachment = self._look
        self._look()
        try:
            with errors_of(self._address):
                while True:
                    await session.inbox.space()
                    await self._take(await self._read())
        except asyncio.CancelledError:
            # To its reader, a cancelled call looks like its own cancellation.
            task = asyncio.current_task()
            if self._left_because is None or (task is not None and task.cancelling()):
                raise
            raise self._left_because from None
        finally:
            session.look_at_attachment = None
            self._call.cancel()
            session.confirm = None
            if self._confirming is not None:
                self._confirming.cancel()

    async def _read(self) -> Any:
        frame = await self._call.read()
        if frame is grpc.aio.EOF:
            raise LiveStreamOver(self._address, "the source ended it")
        self._session.peers.heard(self._address)
        return frame

    def _look(self) -> None:
        """Leave the attachment if it is silent, or if the source is elsewhere.

        The session calls this when there is news. A task that waits for it would cost each receiver
        ten objects.
        """
        session = self._session
        if not session.directory_changed.is_set():
            return  # a look before this one has acted on the news
        session.directory_changed.clear()
        self._left_because = self._left_because or self._following.why_leave()
        if self._left_because is not None:
            self._call.cancel()

    async def _take(self, frame: Any) -> None:
        session = self._session
        while (epoch := self._following.take(frame)) is not None:
            self.tell()
            await session.learn_lineage(epoch)
        self.tell()
        session.hand_on()

    def tell(self) -> None:
        """Pass on the events of the attachment."""
        told = self._following.events
        if told:
            self._following.events = []
            for each in told:
                self._tell(each)

    def _tell(self, told: live_stream.Event) -> None:
        session = self._session
        source, tell = session.source, session.events.add
        match told:
            case live_stream.Heard(record):
                session.update(record)
            case live_stream.Attached(address, epoch, next_sequence, wants_confirmation):
                tell(event.SourceAttached(source, address, epoch, next_sequence))
                self._confirm(asked=wants_confirmation)
            case live_stream.Gone(last_sequence):
                tell(event.SourceGone(source, last_sequence))
            case live_stream.Detached(error):
                log.info("%s: live stream ended: %s", source, error)
                tell(event.SourceDetached(source, str(error)))
            case live_stream.NotAttached(error):
                log.debug("%s: %s", source, error)

    def _confirm(self, *, asked: bool) -> None:
        session, options = self._session, self._session.options
        wanted = ConfirmDelivery(options.confirm_delivery)
        if wanted is ConfirmDelivery.ALWAYS or (asked and wanted is ConfirmDelivery.IF_ASKED):
            confirming = Confirming(session, self._address)
            session.confirm = confirming.tell
            self._confirming = asyncio.create_task(confirming.run())
