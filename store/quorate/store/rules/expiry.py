"""The pre-vote before a source expires (protocol.md 14.3). Pure."""

from __future__ import annotations

from quorate.protocol.identity import SourceName
from quorate.store.rules.ended_sources import View
from quorate.store.rules.lifetimes import Owner
from quorate.store.rules.named_stores import others
from quorate.store.rules.peer_knowledge import UNKNOWN, PeerAnswer, SourceKnowledge
from quorate.store.storage.records import Registration


def may_expire(record: Registration, view: View) -> bool:
    """Return whether a source may expire of which this store has heard nothing for its lifetime.

    No other store that may have a part of it has heard of its owner. And those that heard nothing
    for the whole lifetime are a blocking set: without them no message became stable.
    """
    told = {store: peer.knowledge(record.name) for store, peer in view.peers.items()}
    newest = max(told.values(), key=lambda known: known.begun.epoch, default=UNKNOWN).begun
    in_force, named = record.begun.policies, others(record, view.me)
    if newest.epoch > record.begun.epoch and newest.membership is not None:
        # This store missed that begin. Its stores need not be those of the own record.
        in_force, named = newest.membership.policies, newest.membership.stores
    if any(_hears_owner(known) and store in named for store, known in told.items()):
        return False
    silent = {view.me} | {s for s, peer in view.peers.items() if _is_silent(peer, record.name)}
    return bool(in_force) and all(policy.blocks(policy.stores & silent) for policy in in_force)


def _hears_owner(known: SourceKnowledge) -> bool:
    return known.owner is Owner.HEARD and not known.begun.ended


def _is_silent(peer: PeerAnswer, source: SourceName) -> bool:
    """Return whether the peer has heard nothing for the whole lifetime, or has an end."""
    known = peer.sources.get(source)
    if known is None:
        return not peer.limbo
    return known.owner is Owner.SILENT or known.begun.ended


def is_first_silent(source: SourceName, view: View) -> bool:
    """Return whether this store is the first by name of those that have heard nothing.

    It ends the source. If all tried, their promises would fence each other.
    """
    silent = (s for s, peer in view.peers.items() if peer.knowledge(source).owner is Owner.SILENT)
    return view.me < min(silent, default=view.me + " ")
