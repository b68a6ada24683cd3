"""Dead letters: messages that were handed out too often, or that a consumer has discarded."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import replace

from quorate.client import Client, Outgoing, Source, SourceOptions
from quorate.protocol.errors import MessageTooLarge
from quorate.protocol.limits import MESSAGE_BYTES_MAX
from quorate.protocol.queues import QueueSettings
from quorate.queue.io.lot import Lot
from quorate.queue.protocol.track import Entry

_log = logging.getLogger("quorate.queue")


class Burial:
    """The dead letters of one term. They are published before the queue's stream says so."""

    def __init__(self, settings: QueueSettings, client: Client) -> None:
        """Begin without any. The topic's source opens with the first one."""
        self._settings = settings
        self._client = client
        self._source: Source | None = None
        self._dying: list[Entry] = []
        self._is_due = asyncio.Event()

    def add(self, entries: Sequence[Entry]) -> None:
        """Publish these messages as dead letters."""
        if entries:
            self._dying += entries
            self._is_due.set()

    async def next(self) -> list[Entry]:
        """Return messages that are published as dead letters by now. Raises what a source does."""
        await self._is_due.wait()
        self._is_due.clear()
        dying, self._dying = self._dying, []
        for entry in dying:
            _log.info(
                "queue %s gives up %r after %d tries: %s",
                self._settings.name, entry, entry.tried.count, entry.tried.reason,
            )  # fmt: skip
        if self._settings.dead_letters is not None:
            source = await self._opened(self._settings.dead_letters)
            for entry in dying:
                letter = self._letter(entry)
                try:
                    await source.send_many([letter], wait_quorum=True)
                except MessageTooLarge:
                    # The bookmark leads to the original.
                    await source.send_many([replace(letter, payload=b"")], wait_quorum=True)
            await source.flush()
        return dying

    async def close(self) -> None:
        """Close the source. A letter that is not stable yet is sent again in the next term."""
        if self._source is not None:
            await self._source.close(0)

    async def _opened(self, topic: str) -> Source:
        if self._source is None:
            self._source = await self._client.source(
                topic,
                session_id=self._settings.dead_letters_session,
                take_over=True,
                options=SourceOptions(message_bytes_max=MESSAGE_BYTES_MAX),
                timeout=None,
            )
        return self._source

    def _letter(self, entry: Entry) -> Outgoing:
        lot, row = entry.batch, entry.row
        assert isinstance(lot, Lot)
        own = lot.attributes[row] if lot.attributes else None
        about = {
            "queue": self._settings.name,
            "queue_bookmark": f"{entry.source}@{entry.epoch}:{entry.sequence}",
            "queue_tries": str(entry.tried.count),
            "queue_reason": entry.tried.reason,
        }
        properties = dict(own.properties) if own is not None else {}
        properties |= {name: value.encode() for name, value in about.items()}
        return Outgoing(lot.payloads[row], own.key if own is not None else None, properties)
