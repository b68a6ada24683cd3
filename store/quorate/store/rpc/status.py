"""The call Status: one store's report of itself and its sources. Nothing is changed here.

A report goes in parts, and the event loop gets a turn between them: a store may have many sources.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import version
from pathlib import Path

from quorate.protocol.patterns import topic_pattern
from quorate.protocol.ranges import Range
from quorate.protocol.wire import application_to_wire, held_to_wire, lineage_to_wire, source_to_wire
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
from quorate.store.tasks.peer_polling import Peers
from quorate.store.tasks.retention import Releasing
from quorate.store.tasks.state import StateMaking
from quorate.store.turns import Turn
from quorate.v1 import messages_pb2 as v1
from quorate.v1 import store_pb2 as store_v1

SOURCES_AT_ONCE = 64
"""The sources of one part of a report."""


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
        sums, turn = store_v1.StatusResponse(), Turn()
        sums.source_count = len(self._engine.core.sources)
        part = store_v1.StatusResponse()
        for state in list(self._engine.core.sources.values()):
            sums.messages += state.held.ranges.count()
            sums.bytes += state.held.bytes
            sums.capacity.bytes += state.journal_bytes
            sums.capacity.receivers += len(state.receivers)
            if selected is None or selected.matches(state.name.topic):
                part.sources.append(await self._source(state, turn))
            if len(part.sources) >= SOURCES_AT_ONCE:
                yield part
                part = store_v1.StatusResponse()
            await turn.pause()
        sums.MergeFrom(part)
        if subscriptions_max:
            by_topic: dict[str, list[SourceState]] = {}
            for state in self._engine.core.sources.values():
                by_topic.setdefault(state.name.topic, []).append(state)
            selects = None if selected is None else selected.matches
            running = await running_of(self._subscriptions, by_topic, selects)
            sums.subscriptions.extend(furthest_behind(running, subscriptions_max))
        yield sums

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

    async def _source(self, state: SourceState, turn: Turn) -> store_v1.SourceStatus:
        receivers = await self._receivers(state, turn)
        engine = self._engine
        limbo, record, held = engine.limbo_reason(state), state.registration, state.held
        information = record.information or v1.SourceInformation(source=source_to_wire(state.name))
        rows = self._making.progress_of(state.name)
        return store_v1.SourceStatus(
            rows=None if rows is None else rows_status(rows, self._making.behind_seconds(state)),
            information=information,
            reg_id=state.reg_id,
            promised_epoch=record.promised_epoch,
            begun_epoch=record.begun_epoch,
            live=state.live,
            held=held_to_wire(state.held_by_epoch()),
            holes=_ranges(state.holes()),
            unreadable=_ranges(state.unreadable),
            accepted_losses=_ranges(state.lost()),
            poisoned=_ranges(state.poisoned),
            stable_upto=held.stable_upto,
            set_aside=held.set_aside,
            receivers=receivers,
            ended_receivers=ended_receivers(state),
            may_miss_receivers=record.may_miss_receivers,
            lineage=lineage_to_wire(record.lineage),
            inactive_seconds=engine.core.identities.lives.silent(Who(state.name)),
            proxy=engine.proxy(state.name),
            limbo=bool(limbo),
            limbo_reason=limbo,
            membership=record.membership,
            clean=record.clean,
            retained_from=held.retained_from,
            archived_upto=held.archived_upto,
            journal_bytes=state.journal_bytes,
            released_bytes=held.released_bytes,
            kept_because=self._releasing.kept_because(state.name),
            durability=engine.durability(state.name.topic),
            conflicts=[
                store_v1.Conflict(other=each.other, first=each.part.first, last=each.part.last)
                for each in self._upkeep.repair.conflicts(state)
            ],
            application=application_to_wire(state.application),
        )

    async def _receivers(self, state: SourceState, turn: Turn) -> list[store_v1.ReceiverStatus]:
        """Return every receiver, with what only people want to know of it."""
        found, lives = list[store_v1.ReceiverStatus](), self._engine.core.identities.lives
        for session_id, receiver in list(state.receivers.items()):
            await turn.pause()
            each = status_of(session_id, receiver)
            if (shown := application_to_wire(receiver.application)) is not None:
                each.application.CopyFrom(shown)
            each.inactive_seconds = lives.silent(Who(state.name, session_id))
            found.append(each)
        return found


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


def _ranges(ranges: Iterable[Range]) -> list[v1.HeldRange]:
    return [v1.HeldRange(first=item.first, last=item.last) for item in ranges]
