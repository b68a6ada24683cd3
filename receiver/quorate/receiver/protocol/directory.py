"""The directory: the sources of a topic, merged from what every store says of it.

No I/O. Which of them a receiver follows is not decided here.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from quorate.protocol.identity import SourceName
from quorate.protocol.policy import Policy
from quorate.protocol.wire import policy_from_wire, source_from_wire
from quorate.v1 import messages_pb2 as v1


@dataclass(frozen=True, slots=True)
class SourceRecord:
    """The entry of one source in the directory."""

    source: SourceName
    address: str
    epoch: int
    version: int
    policy: Policy
    stores: tuple[tuple[str, str], ...]
    """The name and address of each of its stores."""
    live: bool
    """Whether some store says that the source streams to it in this epoch."""
    proxy: str = ""
    """The store that answers for the source while it is away; empty: none."""
    paced: bool = False
    """Whether the source waits for its receivers."""
    drawn: bool = False
    """Whether no later source has its session ID."""

    @property
    def order(self) -> tuple[int, int]:
        """The order of two entries of a source: the higher one is newer."""
        return self.epoch, self.version


@dataclass(slots=True)
class _Known:
    newest: SourceRecord
    live_on: dict[str, int] = field(default_factory=dict)
    """The stores to which the source streams, each with the epoch in which it does."""

    proxy_on: dict[str, tuple[int, str]] = field(default_factory=dict)
    """The stores that name a proxy of the source, each with the epoch and the proxy's name."""

    proxy: str = ""
    """The proxy whose announcement is kept."""

    def record(self) -> SourceRecord:
        newest = self.newest
        live = newest.epoch in self.live_on.values()
        if (newest.live, newest.proxy) == (live, self.proxy):
            return newest
        return replace(newest, live=live, proxy=self.proxy)

    def heard(self, store: str, record: SourceRecord) -> None:
        self._drop(store)
        if record.live:
            self.live_on[store] = record.epoch
        if record.proxy:
            self.proxy_on[store] = (record.epoch, record.proxy)
        self._keep_announcement()

    def lost(self, store: str) -> None:
        self._drop(store)
        self._keep_announcement()

    def _drop(self, store: str) -> None:
        self.live_on.pop(store, None)
        self.proxy_on.pop(store, None)

    def _keep_announcement(self) -> None:
        """Keep the announcement of the newest epoch while it stands; else the first by name."""
        epoch = self.newest.epoch
        live = epoch in self.live_on.values()
        proxies = {name for known, name in self.proxy_on.values() if known == epoch and not live}
        if self.proxy not in proxies:
            self.proxy = min(proxies, default="")


class Directory:
    """The merge of all entries: of two for one source, the higher epoch and version counts."""

    def __init__(self) -> None:
        self._known: dict[SourceName, _Known] = {}

    def heard(self, store: str, record: SourceRecord) -> SourceRecord | None:
        """Take an entry from a store. Return the merged entry if that is new."""
        known = self._known.get(record.source)
        before = known.record() if known else None
        if known is None:
            known = self._known[record.source] = _Known(record)
        elif record.order > known.newest.order:
            known.newest = record
        known.heard(store, record)
        after = known.record()
        return after if after != before else None

    def forget(self, source: SourceName) -> None:
        """Drop all entries of a source that its stores have forgotten."""
        self._known.pop(source, None)

    def lost(self, store: str) -> list[SourceRecord]:
        """Drop a store's entries, because it can no longer be heard. Return the entries that
        change."""
        changed = []
        for known in self._known.values():
            before = known.record()
            known.lost(store)
            if known.record() != before:
                changed.append(known.record())
        return changed


def record_from_wire(
    information: v1.SourceInformation, *, live: bool, proxy: str = ""
) -> SourceRecord:
    """Return the entry. Raise InvalidArgument if the peer sent an impossible one."""
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
        information.drawn,
    )
