"""The dispatcher of one queue at one store: it waits for its turn, and then serves its term.

Every store of a group has one. Whichever registers as the source of the queue's stream dispatches,
and the others wait for it to end.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import Any

from quorate.client import Client, Source, SourceOptions, source_events
from quorate.protocol.delays import HOPELESS_SECONDS, RECONNECT, with_longest
from quorate.protocol.errors import Fenced, QueueElsewhere, QuorateError
from quorate.protocol.queues import QueueSettings
from quorate.queue.io.rivals import Rivals
from quorate.queue.io.term import Term
from quorate.queue.protocol.turns import Turns
from quorate.transport.delays import delay
from quorate.v1 import queue_pb2 as v1

_log = logging.getLogger("quorate.queue")

_ATTEMPT_SECONDS = 10.0
"""Seconds for one attempt to register. After that the dispatcher looks who else dispatches."""
_TRY_AGAIN = with_longest(RECONNECT, HOPELESS_SECONDS)
_OPTIONS = SourceOptions(registration_interval=1.0)
"""A store that does not answer is often the one whose dispatcher has failed."""


class Dispatcher:
    """The dispatcher of one queue at one store."""

    def __init__(self, settings: QueueSettings, client: Client, store: str, rivals: Rivals) -> None:
        """Begin as one that waits. store: the name of the store that it runs beside."""
        self.settings = settings
        self._client = client
        self._store = store
        self._rivals = rivals
        self._term: Term | None = None
        self._is_registering = False
        self._trouble = ""

    async def run(self) -> None:
        """Dispatch whenever it is this store's turn, until cancelled."""
        failures = 0
        while True:
            await self._until_due()
            try:
                await self._serve()
            except QuorateError as error:
                self._note(error)
            except Exception as error:
                # The queues beside this one go on.
                _log.exception("queue %s: store %s waits", self.settings.name, self._store)
                self._trouble = repr(error)
            failures = failures + 1 if self._trouble else 0
            await asyncio.sleep(delay(_TRY_AGAIN, failures))

    def _note(self, error: QuorateError) -> None:
        """Note why this store does not dispatch."""
        self._trouble = str(error)
        passes = error.retryable or isinstance(error, Fenced)
        _log.log(
            logging.INFO if passes else logging.WARNING,
            "queue %s: store %s waits: %s", self.settings.name, self._store, error,
        )  # fmt: skip

    async def _until_due(self) -> None:
        """Wait until no other store dispatches, and it is this store's turn."""
        name, loop = self.settings.name, asyncio.get_running_loop()
        turns = Turns(name, self._store, self._rivals.names)
        while True:
            heard = await self._rivals.heard()
            is_dispatched = any(name in queues for queues in heard.values())
            if is_dispatched:
                self._trouble = ""
            if turns.is_due(heard, is_dispatched, loop.time()):
                return

    async def _serve(self) -> None:
        """Register, and serve one term. Raises what ended it."""
        failed: asyncio.Future[QuorateError] = asyncio.get_running_loop().create_future()

        def told(event: source_events.Event) -> None:
            if isinstance(event, source_events.SourceFailed) and not failed.done():
                failed.set_result(event.error)

        stream = self.settings.stream
        self._is_registering = True
        try:
            async with asyncio.timeout(_ATTEMPT_SECONDS):
                source = await self._client.source(
                    stream.topic, session_id=stream.session_id, options=_OPTIONS, on_event=told
                )
        except TimeoutError:
            self._trouble = "too few stores took it as the source of the queue's stream"
            return
        finally:
            self._is_registering = False
        try:
            await self._dispatch(source, failed)
        finally:
            with suppress(QuorateError):
                await source.close(0)

    async def _dispatch(self, source: Source, failed: asyncio.Future[QuorateError]) -> None:
        _log.info("queue %s: store %s dispatches", self.settings.name, self._store)
        term = Term(self.settings, self._client, source)
        running = asyncio.create_task(term.run())
        self._term, self._trouble = term, ""
        try:
            either: list[asyncio.Future[Any]] = [running, failed]
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if failed.done():
                raise failed.result()
            running.result()
        finally:
            self._term = None
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            term.end(self._elsewhere("its term has ended"))

    @property
    def term(self) -> Term:
        """The term that is under way. Raises QueueElsewhere."""
        if self._term is None:
            raise self._elsewhere(self._trouble or "it waits for its turn")
        return self._term

    def _elsewhere(self, detail: str) -> QueueElsewhere:
        return QueueElsewhere(self.settings.name, self._store, detail.removesuffix("."))

    def status(self) -> v1.QueueStatus:
        """Return what people are told of the queue."""
        settings = self.settings
        topics = settings.topics if settings.topic_pattern is None else (settings.topic_pattern,)
        status = v1.QueueStatus(name=settings.name, topics=topics)
        if self._term is None:
            status.trouble = self._trouble
            status.registers = self._is_registering
        else:
            self._term.status(status)
        return status
