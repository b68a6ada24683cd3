"""One connection to the monitor: HTTP as uvicorn speaks it, and the times that it may take."""

from __future__ import annotations

import asyncio

from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from quorate.store.monitor.visitors import Visitor, Visitors

REQUEST_SECONDS = 5
"""The time for a handshake of TLS, and for the first whole request."""
IDLE_SECONDS = 15
"""The time from an answer to the next whole request, and for a reader that reads nothing."""


class Connection(H11Protocol):
    """The protocol of one connection."""

    def __init__(
        self, config: Config, state: ServerState, visitors: Visitors, visitor: Visitor
    ) -> None:
        """Begin before anything has come. visitors: the visitor leaves them at the end."""
        super().__init__(config, state, {})
        self._visitors = visitors
        self._visitor = visitor
        self._waiting: asyncio.TimerHandle | None = None
        """Ends the connection unless a whole request comes; None: one is under way."""
        self._stuck: asyncio.TimerHandle | None = None
        """Ends the connection unless its reader reads; None: it does."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Give the first request its time."""
        super().connection_made(transport)
        self._visitor.close = transport.abort
        self._waiting = self.loop.call_later(REQUEST_SECONDS, transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        """Leave."""
        super().connection_lost(exc)
        for timer in (self._waiting, self._stuck):
            if timer is not None:
                timer.cancel()
        self._visitors.go(self._visitor)

    def handle_events(self) -> None:
        """Note when a whole request has come. A part of one gets no further time."""
        super().handle_events()
        if self._is_answering and self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None
            self._visitor.is_served = True

    def on_response_complete(self) -> None:
        """Give the next request its time."""
        super().on_response_complete()
        if not self._is_answering and self._waiting is None:
            self._waiting = self.loop.call_later(IDLE_SECONDS, self.transport.abort)
            self._visitor.is_served = False

    def pause_writing(self) -> None:
        """Give a reader that does not read some time."""
        super().pause_writing()
        self._stuck = self.loop.call_later(IDLE_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        """Go on with a reader that reads again."""
        super().resume_writing()
        if self._stuck is not None:
            self._stuck.cancel()
            self._stuck = None

    @property
    def _is_answering(self) -> bool:
        """Whether a request came whose answer is not complete."""
        return self.cycle is not None and not self.cycle.response_complete
