"""The call Status: one store's report of itself and its sources. Nothing is changed here.

A report goes in parts, and the event loop gets a turn between them: a store may have many sources.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable, Container, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from quorate.protocol.application import Application
from quorate.protocol.identity import SourceName
from quorate.protocol.patterns import topic_pattern
from quorate.protocol.ranges import Range
from quorate.protocol.wire import (
    application_to_wire,
    begin_to_wire,
    source_to_wire,
)
from quorate.store.engine import Engine
from quorate.store.rpc.operator import Upkeep
from quorate.store.rpc.running import furthest_behind, running_of
from quorate.store.rpc.state import rows_status
from quorate.store.rules.capacity import Capacity
from quorate.store.rules.lifetimes import Who
from quorate.store.rules.receivers import (
    ended_receivers,
    status_of,
)
from quorate.store.rules.source_state import SourceState
from quorate.store.rules.subscriptions import Subscriptions
from quorate.store.storage.data_directory import DataDirectory
from quorate.store.storage.records import ReceiverRecord, Registration
from quorate.store.tasks.peer_polling import Peers
from quorate.store.tasks.retention import Releasing
from quorate.store.tasks.state import StateMaking
from quorate.store.turns import Turn
from quorate.v1 import messages_pb2 as v1
from quorate.v1 import store_pb2 as store_v1

if TYPE_CHECKING:
    from google.protobuf.internal.containers import RepeatedCompositeFieldContainer

PART_MAX = 256
"""The most sources and receivers of one part of a report, unless one source has more."""


@cache
def _version() -> str:
    """Return the version that is installed; to look it up takes a millisecond."""
    return version("quorate")


@dataclass(frozen=True, slots=True)
class StoreFacts:
    """The facts that do not change while a store runs."""

    name: str
    address: str
    durability: v1.Durability
    disk_free_warning_bytes: int
    disk_free_min_bytes: int
    shared_settings: Mapping[str, str]
    """The settings that all stores of a group should have in common, by name."""
    certificate_ends: Callable[[], float | None]
    """Returns when the certificate ends, in seconds since 1970; None: that is not known."""
    started: float = field(default_factory=time.monotonic)


class Reports:
    """The reports of one store."""

    def __init__(
        self,
        facts: StoreFacts,
        engine: Engine,
        peers: Peers,
        directory: DataDirectory,
        releasing: Releasing,
        upkeep: Upkeep,
        making: StateMaking,
        subscriptions: Subscriptions,
        capacity: Capacity,
    ) -> None:
        self._subscriptions = subscriptions
        self._capacity = capacity
        self._lasting = _Lasting(engine.durability)
        self._still = dict[SourceName, _Still]()
        self._making = making
        self._facts = facts
        self._engine = engine
        self._peers = peers
        self._directory = directory
        self._releasing = releasing
        self._upkeep = upkeep

    async def parts(
        self, pattern: str, subscriptions_max: int = 0
    ) -> AsyncIterator[store_v1.StatusResponse]:
        """Yield the parts of a report: first the store, then sources, and last the sums over all.

        - pattern: of the topics of the sources and the subscriptions; empty: all.
        - subscriptions_max: how many subscriptions to report at most, with the last part.

        Raises InvalidArgument.
        """
        selected = topic_pattern(pattern) if pattern else None
        yield await self._store()
        sums, turn = _Sums(), Turn()
        sources = list(self._engine.core.sources.values())
        part, size = store_v1.StatusResponse(), 0
        for state in sources:
            sums.add(state)
            if selected is None or selected.matches(state.name.topic):
                status = part.sources.add()
                for receiver in list(state.receivers.items()):
                    await turn.pause()
                    self._add_receiver(status, state.name, *receiver)
                self._add_source(status, state)
                size += 1 + len(status.receivers)
            if size >= PART_MAX:
                yield part
                part, size = store_v1.StatusResponse(), 0
            await turn.pause()
        self._forget_all_but(self._engine.core.sources)
        part.MergeFrom(sums.as_part(len(sources)))
        if subscriptions_max:
            by_topic: dict[str, list[SourceState]] = {}
            for state in self._engine.core.sources.values():
                by_topic.setdefault(state.name.topic, []).append(state)
            selects = None if selected is None else selected.matches
            running = await running_of(self._subscriptions, by_topic, selects)
            part.subscriptions.extend(furthest_behind(running, subscriptions_max))
        yield part

    async def _store(self) -> store_v1.StatusResponse:
        facts, engine = self._facts, self._engine
        used = await asyncio.to_thread(disk_bytes, self._directory.path)
        writer, standing = engine.writer, engine.core.standing
        response = store_v1.StatusResponse(
            store_name=facts.name,
            address=facts.address,
            version=_version(),
            incarnation=standing.record.incarnation,
            limbo=bool(standing.limbo),
            limbo_reason=engine.limbo_reason(None),
            starts=standing.record.starts,
            peers=self._peers.status(),
            uptime_seconds=time.monotonic() - facts.started,
            durability=facts.durability,
            data_directory=str(self._directory.path),
            disk_bytes=used,
            disk_free_bytes=self._directory.free_bytes(),
            disk_free_warning_bytes=facts.disk_free_warning_bytes,
            disk_free_min_bytes=facts.disk_free_min_bytes,
            position=engine.core.streams.position,
            syncs=writer.sync_durations.count,
            sync_seconds=writer.sync_durations.seconds,
            rejected=engine.rejected,
            retention=self._releasing.status(),
            clock_ns=time.time_ns(),
            certificate_ends=facts.certificate_ends() or 0.0,
            shared_settings=facts.shared_settings,
            denied=engine.denied.count,
            denied_seconds_ago=engine.denied.seconds_ago(time.monotonic()),
            subscription_count=len(self._subscriptions),
            undecoded=self._subscriptions.undecoded,
            capacity=store_v1.CapacityStatus(
                bytes_max=self._capacity.bytes_max,
                sources_max=self._capacity.sources_max,
                receivers_max=self._capacity.receivers_max,
                refused=self._capacity.refused,
                kept_because=self._releasing.whole_kept_because,
            ),
        )
        return self._upkeep.add_status(response)

    def _add_source(self, status: store_v1.SourceStatus, state: SourceState) -> None:
        """Write the status of a source, all but its receivers.

        A store may have very many sources. Of one that has not changed since it was written last,
        all but the times is kept encoded.
        """
        name, number = state.name, self._engine.news.last(state.name)
        still = self._still.get(name)
        if still is not None and still.state is state and still.number == number:
            status.MergeFromString(still.encoded)
        else:
            self._still.pop(name, None)
            self._write_source(status, state)
            if _is_still(state, status):
                self._lasting.forget(name)
                self._still[name] = _Still(state, number, status.SerializeToString())
        status.inactive_seconds = self._engine.core.identities.lives.silent(Who(name))
        if kept_because := self._releasing.kept_because(name):
            status.kept_because = kept_because

    def _write_source(self, status: store_v1.SourceStatus, state: SourceState) -> None:
        """Write what lasts until the source changes. An empty field costs nothing here."""
        engine, name, held = self._engine, state.name, state.held
        status.MergeFromString(self._lasting.encoded(state))
        status.live = state.live
        status.stable_upto = held.stable_upto
        status.set_aside = held.set_aside
        status.retained_from = held.retained_from
        status.archived_upto = held.archived_upto
        status.journal_bytes = state.journal_bytes
        status.released_bytes = held.released_bytes
        for part in state.held_by_epoch():
            status.held.add(first=part.first, last=part.last, epoch=part.epoch)
        _add_ranges(status.holes, state.holes())
        _add_ranges(status.unreadable, state.unreadable)
        _add_ranges(status.poisoned, state.poisoned)
        if state.losses:
            _add_ranges(status.accepted_losses, state.lost())
        if state.ended:
            status.ended_receivers.extend(ended_receivers(state))
        if proxy := engine.proxy(name):
            status.proxy = proxy
        if limbo := engine.limbo_reason(state):
            status.limbo = True
            status.limbo_reason = limbo
        for each in self._upkeep.repair.conflicts(state):
            status.conflicts.add(other=each.other, first=each.part.first, last=each.part.last)
        if (rows := self._making.progress_of(name)) is not None:
            status.rows.CopyFrom(rows_status(rows, self._making.behind_seconds(state)))

    def _forget_all_but(self, sources: Container[SourceName]) -> None:
        """Forget the sources that the store no longer has."""
        self._lasting.forget_all_but(sources)
        for name in [name for name in self._still if name not in sources]:
            del self._still[name]

    def _add_receiver(
        self,
        status: store_v1.SourceStatus,
        source: SourceName,
        session_id: int,
        receiver: ReceiverRecord,
    ) -> None:
        """Add the status of a receiver, with what only people want to know of it."""
        each = status_of(session_id, receiver)
        if (shown := application_to_wire(receiver.application)) is not None:
            each.application.CopyFrom(shown)
        lives = self._engine.core.identities.lives
        each.inactive_seconds = lives.silent(Who(source, session_id))
        status.receivers.append(each)


@dataclass(slots=True)
class _Sums:
    """The sums over all sources of a store."""

    messages: int = 0
    bytes: int = 0
    journal_bytes: int = 0
    receivers: int = 0

    def add(self, state: SourceState) -> None:
        held = state.held
        self.messages += held.ranges.count()
        self.bytes += held.bytes
        self.journal_bytes += state.journal_bytes
        self.receivers += len(state.receivers)

    def as_part(self, sources: int) -> store_v1.StatusResponse:
        return store_v1.StatusResponse(
            source_count=sources,
            messages=self.messages,
            bytes=self.bytes,
            capacity=store_v1.CapacityStatus(bytes=self.journal_bytes, receivers=self.receivers),
        )


@dataclass(frozen=True, slots=True)
class _Still:
    """The status of a source that is still."""

    state: SourceState
    number: int
    """The source's last change."""
    encoded: bytes


def _is_still(state: SourceState, status: store_v1.SourceStatus) -> bool:
    """Return whether the status that was written of a source lasts until the source changes."""
    return not (
        state.live or state.receivers or status.limbo or status.conflicts or status.HasField("rows")
    )


@dataclass(frozen=True, slots=True)
class _Encoded:
    """The lasting part of a source's status, and what it was made of. None of that changes."""

    registration: Registration
    application: Application
    reg_id: int
    encoded: bytes

    def is_of(self, state: SourceState) -> bool:
        """Return whether the source still is what this was made of."""
        return (
            self.registration is state.registration
            and self.application is state.application
            and self.reg_id == state.reg_id
        )


class _Lasting:
    """The lasting part of each source's status, encoded once.

    It has the policies and the stores of the source, and so it is most of the status.
    """

    def __init__(self, durability: Callable[[str], v1.Durability]) -> None:
        """durability: returns that of a topic."""
        self._durability = durability
        self._encoded: dict[SourceName, _Encoded] = {}

    def encoded(self, state: SourceState) -> bytes:
        """Return the encoded SourceStatus that has the lasting fields alone."""
        record, application = state.registration, state.application
        known = self._encoded.get(record.name)
        if known is not None and known.is_of(state):
            return known.encoded
        encoded = store_v1.SourceStatus(
            information=record.information
            or v1.SourceInformation(source=source_to_wire(record.name)),
            reg_id=state.reg_id,
            promised_epoch=record.promised_epoch,
            begun=begin_to_wire(record.begun),
            may_miss_receivers=record.may_miss_receivers,
            clean=record.clean,
            durability=self._durability(record.name.topic),
            application=application_to_wire(application),
        ).SerializeToString()
        self._encoded[record.name] = _Encoded(record, application, state.reg_id, encoded)
        return encoded

    def forget(self, source: SourceName) -> None:
        """Forget a source, of which more is kept elsewhere."""
        self._encoded.pop(source, None)

    def forget_all_but(self, sources: Container[SourceName]) -> None:
        """Forget the sources that the store no longer has."""
        for name in [name for name in self._encoded if name not in sources]:
            del self._encoded[name]


def disk_bytes(directory: Path) -> int:
    """Return the bytes that the files of a directory take on the disk."""
    total = 0
    for root, _, names in os.walk(directory):
        for name in names:
            try:
                total += os.stat(os.path.join(root, name)).st_blocks * 512
            except FileNotFoundError:  # RocksDB removes files at any time
                continue
    return total


def _add_ranges(
    into: RepeatedCompositeFieldContainer[v1.HeldRange], ranges: Iterable[Range]
) -> None:
    for item in ranges:
        into.add(first=item.first, last=item.last)
