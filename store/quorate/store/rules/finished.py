"""Finished sources: those that drew their session ID, have closed, and have nothing left.

No later source has such a session ID, so a store need not remember it. But a store that forgot it
alone would be a store that knows nothing among stores that do. So a finished source stays as it is
until every other store of it says that it is finished there, too. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set

from quorate.protocol.identity import SourceName
from quorate.store.rules.peer_knowledge import PeerAnswer, SourceKnowledge
from quorate.store.rules.source_state import SourceState


def is_finished(state: SourceState, doubt: str) -> bool:
    """Return whether a source of a topic without keys is finished at this store.

    doubt: why the store cannot vouch for what it lacks of the source; empty: it vouches. A source
    of which an operator accepted a loss is never finished: the record of that stays.
    """
    record = state.registration
    information = record.information
    return (
        information is not None
        and information.drawn
        and record.clean
        and not state.live
        and 0 < record.begun.epoch == record.promised_epoch
        and not (doubt or state.accepted)
        and _has_nothing_left(state)
    )


def _has_nothing_left(state: SourceState) -> bool:
    """Return whether all that was sent has left the store, by retention here or elsewhere."""
    held = state.held
    is_released = held.retained_from > held.stable_upto or not state.takes_data
    return is_released and not held.ranges


def closed_elsewhere(state: SourceState, told: Iterable[SourceKnowledge]) -> bool:
    """Return whether a source has closed while this store was away.

    So says a peer where this very instance is finished, and this store has heard how far its
    stream was stable.
    """
    record = state.registration
    here = (record.begun.epoch, record.promised_epoch, record.promised_to)
    return not (record.clean or state.live) and any(
        known.finished
        and here == (known.begun.epoch, known.promised_epoch, known.promised_to)
        and state.held.stable_upto >= known.stable_upto
        for known in told
    )


def is_over_everywhere(
    source: SourceName, named: Set[str], heard: Mapping[str, PeerAnswer]
) -> bool:
    """Return whether no other store has anything of a source that is finished here.

    - named: the other stores that its policies and its information name.
    - heard: what peers said after the source was finished here, by those names.
    """
    return named <= heard.keys() and all(_is_over(answer, source) for answer in heard.values())


def _is_over(peer: PeerAnswer, source: SourceName) -> bool:
    known = peer.sources.get(source)
    if known is None:
        return not peer.limbo
    return known.finished or known.begun.ended
