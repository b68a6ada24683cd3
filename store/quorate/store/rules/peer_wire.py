"""Conversion of a store's knowledge of a source, to and from the wire contract between stores."""

from __future__ import annotations

from functools import lru_cache

from quorate.protocol.wire import (
    begin_from_wire,
    begin_to_wire,
    held_from_wire,
    held_to_wire,
    markers_from_wire,
    markers_to_wire,
    source_to_wire,
)
from quorate.store.rules.lifetimes import Owner
from quorate.store.rules.peer_knowledge import (
    SourceKnowledge,
)
from quorate.store.rules.receivers import (
    ended_receivers,
    statuses,
)
from quorate.store.rules.source_state import SourceState
from quorate.store.storage.maintenance_records import loss_from_wire, loss_to_wire
from quorate.v1 import store_pb2 as store_v1
from quorate.v1.messages_pb2 import DURABILITY_STATE_ONLY

_CACHED = 8192
"""The inventories of sources that a store remembers as they were read."""


def knowledge_of(state: SourceState, limbo: bool) -> SourceKnowledge:
    """Return a store's knowledge of a source, as its peers would hear it."""
    return knowledge_from_wire(source_inventory(state, limbo))


def source_inventory(state: SourceState, limbo: bool) -> store_v1.SourceInventory:
    """Return a store's knowledge of a source as a wire message."""
    record = state.registration
    return store_v1.SourceInventory(
        source=source_to_wire(state.name),
        promised_epoch=record.promised_epoch,
        promised_to=record.promised_to,
        begun=begin_to_wire(record.begun),
        held=held_to_wire(state.held_by_epoch()),
        stable_upto=state.held.stable_upto,
        limbo=limbo,
        live=state.live,
        clean=record.clean,
        information=record.information,
        receivers=statuses(state),
        accepted_losses=held_to_wire(state.lineage.parted(state.lost())),
        poison=map(loss_to_wire, state.poison),
        reg_id=state.reg_id,
        retained_from=state.held.retained_from,
        markers=markers_to_wire(state.markers),
        ended_receivers=ended_receivers(state),
        may_miss_receivers=record.may_miss_receivers,
        spent_receiver_epoch=record.spent_receiver_epoch,
        journal_bytes=state.journal_bytes,
        archived_upto=state.held.archived_upto,
    )


def knowledge_from_wire(wire: store_v1.SourceInventory) -> SourceKnowledge:
    """Return the knowledge of a source in a wire message."""
    return _knowledge(wire.SerializeToString())


# Cached: every few seconds each peer says the same of each source that is idle.
@lru_cache(maxsize=_CACHED)
def _knowledge(serialized: bytes) -> SourceKnowledge:
    wire = store_v1.SourceInventory.FromString(serialized)
    return SourceKnowledge(
        wire.promised_epoch,
        wire.promised_to,
        begin_from_wire(wire.begun),
        held_from_wire(wire.held),
        wire.stable_upto,
        wire.limbo,
        wire.live,
        wire.clean,
        wire.information if wire.HasField("information") else None,
        tuple(wire.receivers),
        held_from_wire(wire.accepted_losses),
        tuple(map(loss_from_wire, wire.poison)),
        wire.settled,
        wire.proxy,
        wire.reg_id,
        wire.retained_from,
        markers_from_wire(wire.markers),
        wire.durability != DURABILITY_STATE_ONLY,
        tuple(wire.ended_receivers),
        wire.may_miss_receivers,
        wire.spent_receiver_epoch,
        wire.finished,
        Owner(wire.owner),
    )
