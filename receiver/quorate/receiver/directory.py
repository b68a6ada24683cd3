"""The directory: which sources have a topic, merged from what every store says of it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import grpc.aio

from quorate.protocol.errors import QuorateError, Unreachable
from quorate.protocol.identity import SourceName
from quorate.protocol.limits import PROTOCOL_VERSION
from quorate.protocol.policy import Policy
from quorate.protocol.wire import policy_from_wire, source_from_wire
from quorate.receiver.peers import Peers, errors_of
from quorate.v1 import messages_pb2 as v1
from quorate.v1 import store_pb2 as store_v1

log = logging.getLogger("quorate.receiver")


@dataclass(frozen=True, slots=True)
class SourceRecord:
    """What is known of a source."""

    source: SourceName
    address: str
    epoch: int
    version: int
    policy: Policy
    stores: tuple[tuple[str, str], ...]
    """Name and address of each of its stores."""
    live: bool
    """Some store says that the source streams to it, in this epoch."""
    proxy: str = ""
    """The store that answers for the source while it is away; empty: none."""
    paced: bool = False
    """The source waits for its receivers."""

    @property
    def order(self) -> tuple[int, int]:
        """The higher of two is the newer."""
        return self.epoch, self.version


def record_from_wire(
    information: v1.SourceInformation, *, live: bool, proxy: str = ""
) -> SourceRecord:
    """Raises InvalidArgument if the peer sent an impossible one."""
    return SourceRecord(
        source_from_wire(information.source),
        information.address,
        information.epoch,
        information.version,
        policy_from_wire(information.policy),
        tuple((store.name, store.address) for store in information.stores),
        live,
        proxy,
        information.HasField("receiver_pacing"),
    )


@dataclass(slots=True)
class _Known:
    newest: SourceRecord
    live_on: dict[str, int] = field(default_factory=dict)
    """Stores that the source streams to, with the epoch it does so in."""

    proxy_on: dict[str, tuple[int, str]] = field(default_factory=dict)
    """Stores that say who answers for the source, with the epoch and the name."""

    def record(self) -> SourceRecord:
        epoch = self.newest.epoch
        live = epoch in self.live_on.values()
        proxies = {name for known, name in self.proxy_on.values() if known == epoch and not live}
        return replace(self.newest, live=live, proxy=min(proxies, default=""))

    def heard(self, store: str, record: SourceRecord) -> None:
        self.lost(store)
        if record.live:
            self.live_on[store] = record.epoch
        if record.proxy:
            self.proxy_on[store] = (record.epoch, record.proxy)

    def lost(self, store: str) -> None:
        self.live_on.pop(store, None)
        self.proxy_on.pop(store, None)


class Directory:
    """The merge: of two records the one of the higher epoch and version counts. No I/O."""

    def __init__(self) -> None:
        self._known: dict[SourceName, _Known] = {}

    def heard(self, store: str, record: SourceRecord) -> SourceRecord | None:
        """A store says this. Returns the merged record if it is new."""
        known = self._known.get(record.source)
        before = known.record() if known else None
        if known is None:
            known = self._known[record.source] = _Known(record)
        elif record.order > known.newest.order:
            known.newest = record
        known.heard(store, record)
        after = known.record()
        return after if after != before else None

    def lost(self, store: str) -> list[SourceRecord]:
        """The store can not be heard any more. Returns the records that this changes."""
        changed = []
        for known in self._known.values():
            before = known.record()
            known.lost(store)
            if known.record() != before:
                changed.append(known.record())
        return changed


class Watcher:
    """Listens to one store's directory for as long as it runs."""

    def __init__(
        self,
        peers: Peers,
        address: str,
        request: store_v1.WatchRequest,
        changed: Callable[[str, SourceRecord | None], None],
    ) -> None:
        """changed: is told of each entry; and of None when the store can not be heard any more."""
        self._peers = peers
        self._request = store_v1.WatchRequest()
        self._request.CopyFrom(request)
        self._request.protocol_version = PROTOCOL_VERSION
        self._changed = changed
        self.address = address
        self.topics: tuple[str, ...] = ()
        """Every topic that the store has, for a helpful error."""
        self.complete = asyncio.Event()
        """Everything known at the time of the call was said."""
        self.error: QuorateError | None = None
        """Why it can not be heard, if so."""
        self.tried = asyncio.Event()
        """The first attempt has succeeded or failed."""

    async def run(self) -> None:
        """Reconnects for ever; a store that will never do is tried rarely."""
        pause = 0.05
        while True:
            try:
                with errors_of(self.address):
                    await self._listen()
                error: QuorateError = Unreachable(self.address, "it ended the directory's stream")
            except QuorateError as failure:
                error = failure
            if self.complete.is_set():
                pause = 0.05
            if self.error is None or type(error) is not type(self.error):
                log.warning("directory of %s: %s", self.address, error)
            self.complete.clear()
            self.error = error
            self.tried.set()
            self._changed(self.address, None)
            await asyncio.sleep(pause)
            pause = min(pause * 2, 2.0 if error.retryable else 10.0)

    async def _listen(self) -> None:
        call = self._peers.store(self.address).Watch(self._request)
        while (response := await call.read()) is not grpc.aio.EOF:
            if response.WhichOneof("kind") == "entry":
                entry = response.entry
                record = record_from_wire(entry.information, live=entry.live, proxy=entry.proxy)
                self._changed(self.address, record)
            else:
                self.topics = tuple(response.snapshot_end.topics)
                self.error = None
                self.complete.set()
                self.tried.set()
