"""The call Status: one store's report of itself and its sources. Nothing is changed here."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path

from quorate.protocol.ranges import Range
from quorate.protocol.wire import held_to_wire, lineage_to_wire, source_to_wire
from quorate.store.engine import Engine
from quorate.store.rules.lifetimes import Who
from quorate.store.rules.receivers import (
    ended_receivers,
    statuses,
)
from quorate.store.rules.source_state import SourceState
from quorate.store.tasks.retention import Releasing
from quorate.v1 import messages_pb2 as v1
from quorate.v1 import store_pb2 as store_v1


@dataclass(frozen=True, slots=True)
class StoreFacts:
    """The facts that do not change while a store runs."""

    name: str
    address: str
    data_directory: Path
    durability: v1.Durability
    started: float = field(default_factory=time.monotonic)


def status(
    facts: StoreFacts,
    engine: Engine,
    peers: Iterable[store_v1.PeerStatus],
    disk_bytes: int,
    disk_free_bytes: int,
    releasing: Releasing,
) -> store_v1.StatusResponse:
    """Return the whole status. It is called on the event loop."""
    sources = engine.core.sources.values()
    writer = engine.writer
    standing = engine.core.standing
    return store_v1.StatusResponse(
        store_name=facts.name,
        address=facts.address,
        version=version("quorate"),
        incarnation=standing.record.incarnation,
        limbo=bool(standing.limbo),
        limbo_reason=engine.limbo_reason(None),
        starts=standing.record.starts,
        peers=peers,
        uptime_seconds=time.monotonic() - facts.started,
        durability=facts.durability,
        data_directory=str(facts.data_directory),
        disk_bytes=disk_bytes,
        disk_free_bytes=disk_free_bytes,
        position=engine.core.streams.position,
        messages=sum(len(item) for state in sources for item in state.held.ranges),
        bytes=sum(state.held.bytes for state in sources),
        syncs=writer.syncs,
        sync_seconds=writer.sync_seconds,
        rejected=engine.rejected,
        sources=[_source(state, engine, releasing) for state in sources],
        retention=releasing.status(),
    )


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


def _source(state: SourceState, engine: Engine, releasing: Releasing) -> store_v1.SourceStatus:
    limbo, entry = engine.limbo_reason(state), engine.entry(state.name)
    record = state.registration
    information = record.information or v1.SourceInformation(source=source_to_wire(state.name))
    return store_v1.SourceStatus(
        information=information,
        reg_id=state.reg_id,
        promised_epoch=record.promised_epoch,
        begun_epoch=record.begun_epoch,
        live=state.live,
        held=held_to_wire(state.held_by_epoch()),
        holes=_ranges(state.holes()),
        unreadable=_ranges(state.unreadable),
        accepted_losses=_ranges(state.lost()),
        stable_upto=state.held.stable_upto,
        set_aside=state.held.set_aside,
        receivers=statuses(state),
        ended_receivers=ended_receivers(state),
        may_miss_receivers=record.may_miss_receivers,
        lineage=lineage_to_wire(record.lineage),
        inactive_seconds=engine.core.identities.lives.silent(Who(state.name)),
        proxy=entry.proxy if entry is not None else "",
        limbo=bool(limbo),
        limbo_reason=limbo,
        membership=record.membership,
        clean=record.clean,
        retained_from=state.held.retained_from,
        archived_upto=state.held.archived_upto,
        journal_bytes=state.journal_bytes,
        released_bytes=state.held.released_bytes,
        kept_because=releasing.kept_because(state.name),
        durability=engine.durability(state.name.topic),
    )


def _ranges(ranges: Iterable[Range]) -> list[v1.HeldRange]:
    return [v1.HeldRange(first=item.first, last=item.last) for item in ranges]
