"""The watchers of the stores' directories: each entry goes to the receiver's own directory.

How entries are merged is not known here.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import lru_cache

from quorate.protocol.delays import HOPELESS_SECONDS, Delays, with_longest
from quorate.protocol.errors import Closed, QuorateError, Unreachable
from quorate.protocol.identity import SourceName
from quorate.protocol.limits import PROTOCOL_VERSION
from quorate.receiver.io.channels import Peers
from quorate.receiver.protocol.directory import (
    SourceRecord,
    record_from_wire,
)
from quorate.receiver.protocol.subscription import Seen
from quorate.transport.bundle import BundledCall
from quorate.transport.delays import delay
from quorate.v1 import store_pb2 as store_v1

_log = logging.getLogger("quorate.receiver")


class Watcher:
    """The watcher of one store's directory."""

    def __init__(
        self,
        peers: Peers,
        address: str,
        request: store_v1.WatchRequest,
        changed: Callable[[str, SourceRecord | None], None],
        seen: Callable[[str, SourceName, Seen], None],
        heard: Callable[[str], None],
        delays: Delays,
    ) -> None:
        """Begin unconnected.

        - changed: gets each entry, and None once the store can no longer be heard.
        - seen: gets the end of the source's stream at the store, before `changed` gets the entry.
        - heard: is called when the store has sent every entry that it had.
        - delays: between attempts to reach the store.
        """
        self._peers = peers
        self._request = store_v1.WatchRequest()
        self._request.CopyFrom(request)
        self._request.protocol_version = PROTOCOL_VERSION
        self._changed = changed
        self._seen = seen
        self._heard = heard
        self._delays = delays
        self.address = address
        self.topics: tuple[str, ...] = ()
        """Every topic that the store has, for a helpful error."""
        self.complete = asyncio.Event()
        """Set once the store has sent every entry that it had at the time of the call."""
        self.error: QuorateError | None = None
        """The reason why the store cannot be heard; None: it can."""
        self._call: BundledCall | None = None
        self.tried = asyncio.Event()
        """Set once the first attempt has succeeded or failed."""

    async def run(self) -> None:
        """Reconnect for ever. A store that cannot be of use is tried rarely."""
        failures = 0
        while True:
            error = await self._listen()
            if self.complete.is_set():
                failures = 0
            if self.error is None or type(error) is not type(self.error):
                _log.warning("the directory of store %s cannot be heard: %s", self.address, error)
            self.complete.clear()
            self.error = error
            self.tried.set()
            self._changed(self.address, None)
            failures += 1
            delays = (
                self._delays if error.retryable else with_longest(self._delays, HOPELESS_SECONDS)
            )
            await asyncio.sleep(delay(delays, failures))

    def silent(self, silence: Unreachable) -> None:
        """Note that the store is silent: nothing that it said counts any more."""
        if self._call is not None:
            self._call.end(silence)

    async def _listen(self) -> QuorateError:
        """Take entries until the call ends. Return why."""
        self._call = call = self._peers.bundle(self.address).watch(self._request)
        try:
            while True:
                self._take(await call.read())
        except QuorateError as error:
            return error
        finally:
            call.end(Closed("The watch of the directory"))
            self._call = None

    def _take(self, response: store_v1.WatchResponse) -> None:
        if response.WhichOneof("kind") == "entry":
            entry = response.entry
            record = record_from_wire(entry.information, live=entry.live, proxy=entry.proxy)
            seen = Seen(entry.begun_epoch, entry.next_sequence)
            self._seen(self.address, record.source, seen)
            self._changed(self.address, record)
        else:
            self.topics = _topics(response.snapshot_end.SerializeToString())
            self.error = None
            self.complete.set()
            self.tried.set()
            self._heard(self.address)


# Cached: receivers that open together hear the same of a store, and keep it.
@lru_cache(maxsize=16)
def _topics(serialized: bytes) -> tuple[str, ...]:
    return tuple(store_v1.SnapshotEnd.FromString(serialized).topics)
