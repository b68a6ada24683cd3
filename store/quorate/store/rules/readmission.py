"""Readmission: when a store may leave limbo for a source, and what it takes over (protocol.md 13).

Peers outside limbo must be, without this store, a stable set and a blocking set of every policy in
force. Then they know every promise that counts and every message that may be stable. The store
takes over everything up to the floor, the highest number that may be stable.

The store itself counts as a holder for the floor. A message that it acknowledged before may be
stable on it and on one peer, without any other store knowing yet. Pure: answers in, decision out;
quorate.store.rules.acceptor makes it durable.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from quorate.protocol.begin import NOT_BEGUN, BeginRecord
from quorate.protocol.identity import SourceName
from quorate.protocol.limits import NOTHING
from quorate.protocol.policy import Policy
from quorate.protocol.ranges import HeldRange, RangeSet
from quorate.protocol.recovery import (
    Decision,
    Lost,
    Marker,
    NeedMore,
    Promise,
    decide,
)
from quorate.store.rules.identity_records import End
from quorate.store.rules.peer_knowledge import (
    PeerAnswer,
    SourceKnowledge,
)
from quorate.store.rules.receiver_positions import (
    ReceiverKnowledge,
    positions,
)
from quorate.store.rules.receiver_tombstones import (
    merged,
    spent_epoch,
)
from quorate.store.rules.state_only import not_kept_elsewhere
from quorate.store.storage.maintenance_records import LossRecord
from quorate.v1.messages_pb2 import SourceInformation


@dataclass(frozen=True, slots=True)
class Stay:
    """The store stays in limbo for now."""

    reason: str
    """The reason, as text for people."""


@dataclass(frozen=True, slots=True)
class Ask:
    """Peers must be asked about this very source first, as they did not mention it.

    An end that all stores have adopted is mentioned only if asked for.
    """

    addresses: frozenset[str]


@dataclass(frozen=True, slots=True)
class Adoption:
    """The state to take over before the store vouches again, durable in one commit."""

    promised_epoch: int
    promised_to: bytes
    """The instance that may ask for that promise once more; empty: none."""
    begun: BeginRecord = NOT_BEGUN
    information: SourceInformation | None = None
    clean: bool = False
    stable_upto: int = NOTHING
    floor: int = NOTHING
    fetch: RangeSet = field(default_factory=RangeSet)
    """The numbers up to the floor that the store lacks."""
    holders: Mapping[str, RangeSet] = field(default_factory=dict)
    """The numbers that each peer holds, by the peer's address."""
    receivers: Mapping[int, ReceiverKnowledge] = field(default_factory=dict)
    """By session ID."""
    losses: tuple[HeldRange, ...] = ()
    poison: tuple[LossRecord, ...] = ()
    retained_from: int = 0
    """The number below which some store has let go; nothing below is fetched."""
    marker: Marker | None = None
    """The newest that was committed with what is taken over, or was let go."""
    ended_receivers: Mapping[int, End] = field(default_factory=dict)
    """By session ID."""
    spent_receiver_epoch: int = 0
    """The highest in which any receiver was over."""


def names_of(
    store: str, addresses: Collection[str], informations: Iterable[SourceInformation | None]
) -> set[str]:
    """Return the names that policies may have for a store: its own, and those that sources use."""
    called = {
        entry.name
        for information in informations
        if information is not None
        for entry in information.stores
        if entry.address in addresses or entry.store_name == store
    }
    return {store, *called}


def reg_id_of(store: str, addresses: Collection[str], information: SourceInformation | None) -> int:
    """The RegID that a source has at this store, or wants there, as it says; 0: it says none."""
    names = names_of(store, addresses, (information,))
    entries = information.stores if information is not None else ()
    return next((entry.reg_id for entry in entries if entry.name in names and entry.reg_id), 0)


def leave(
    store: str,
    address: str,
    name: SourceName,
    own: SourceKnowledge,
    answers: Sequence[PeerAnswer],
    configured: Collection[str],
    takes_data: bool = True,
    asked: Collection[str] = frozenset(),
) -> Stay | Ask | Adoption:
    """Whether this store may leave limbo for a source.

    own: the knowledge of this store itself.

    answers: the latest answer of each peer, to a greeting with the present incarnation.

    configured: the addresses of all peers.

    takes_data: whether it keeps messages of the topic. A state-only store fetches only messages
    that would not be stable without it.

    asked: the addresses of the peers that answered a question about this very source.
    """
    known = {answer.address: answer.knowledge(name) for answer in answers}
    vouching = {answer.address for answer in answers if answer.vouches(name)}
    newest = max([own, *known.values()], key=lambda each: each.begun.newness)
    promised_epoch, promised_to = _highest_promise([own, *known.values()])
    if newest.begun.membership is None:
        if silent := sorted(set(configured) - vouching):
            return Stay(f"nothing was begun as far as is known, and {_not_heard(silent)}")
        return Adoption(promised_epoch, promised_to)

    policies = newest.begun.policies
    if not policies:
        return Stay(f"the begin of epoch {newest.begun.epoch} names no store that could be asked")
    everyone = frozenset().union(*(policy.stores for policy in policies))
    informations = [each.information for each in (own, *known.values())]
    me = _called(names_of(store, (address,), informations), everyone, store)
    called = {
        answer.address: _called(
            names_of(answer.store, (answer.address, answer.advertised), informations),
            everyone,
            answer.store,
        )
        for answer in answers
    }
    trusted = {called[each] for each in vouching} - {me}
    for policy in policies:
        sure = trusted & policy.stores
        if not (policy.stable(sure) and policy.blocks(sure)):
            silent = sorted(policy.stores - trusted - {me})
            return Stay(_not_heard(silent) if silent else _can_not_be_spared(store, policy))
    told = {answer.address for answer in answers if name in answer.sources}
    if unasked := {each for each in vouching - told if called[each] in everyone} - {*asked}:
        return Ask(frozenset(unasked))
    # For receivers, stores in limbo (this one too) do not count, nor stores that the stream has
    # left. They may have missed a receiver's end.
    sure_of_receivers = [
        knowledge
        for address, knowledge in known.items()
        if address in vouching
        and called[address] in everyone - {me}
        and not knowledge.begun.is_older_than(newest.begun.generation)
    ]
    promises = _promises(me, own, called, known, trusted, newest)
    match decide(policies[-1], promises):
        case NeedMore(missing):
            return Stay(_not_heard(missing))
        case Lost(lost, might_have):
            who = ", ".join(might_have)
            return Stay(f"{lost} may have been stable, and no peer has it; it might be on {who}")
        case Decision() as decision:
            pass
    fetch = _lacking(decision, me)
    if not takes_data:
        others = {each: decision.holders[each] for each in trusted}
        fetch = not_kept_elsewhere(fetch, policies, others)
    losses = [item for each in (own, *known.values()) for item in each.accepted_losses]
    return Adoption(
        promised_epoch,
        promised_to,
        newest.begun,
        _newest_information(informations),
        newest.clean,
        decision.stable_upto,
        decision.floor,
        fetch,
        {each: decision.holders[called[each]] for each in known},
        positions(sure_of_receivers, newest.begun.lineage),
        tuple(dict.fromkeys(losses)),
        tuple(record for each in known.values() for record in each.poison),
        decision.retained_from,
        decision.marker,
        merged(sure_of_receivers),
        spent_epoch(known.values()),
    )


def may_concern(store: str, address: str, name: SourceName, answers: Sequence[PeerAnswer]) -> bool:
    """Whether this store may have known a source, as far as its peers can tell.

    Stores have many names, so that a name that is nobody else's may be this one's.
    """
    known = [answer.sources[name] for answer in answers if name in answer.sources]
    informations = [each.information for each in known]
    others = {
        entry.name
        for information in informations
        if information is not None
        for entry in information.stores
        if entry.store_name not in ("", store)
    }
    for answer in answers:
        others |= names_of(answer.store, (answer.address, answer.advertised), informations)
    others -= names_of(store, (address,), informations)
    return any(
        not each.begun.policies or any(policy.stores - others for policy in each.begun.policies)
        for each in known
    )


def _highest_promise(known: Sequence[SourceKnowledge]) -> tuple[int, bytes]:
    epoch = max(each.promised_epoch for each in known)
    promised_to = {each.promised_to for each in known if each.promised_epoch == epoch}
    # Two instances of one epoch: the former self of this store may have promised it to either.
    return epoch, promised_to.pop() if len(promised_to) == 1 else b""


def _called(names: set[str], everyone: frozenset[str], otherwise: str) -> str:
    """The one name of a store that the policies use."""
    return min(names & everyone, default=otherwise)


def _promises(
    me: str,
    own: SourceKnowledge,
    called: Mapping[str, str],
    known: Mapping[str, SourceKnowledge],
    trusted: set[str],
    newest: SourceKnowledge,
) -> dict[str, Promise]:
    """All that is known, as the answers to a registration; this store itself is in limbo."""
    everything = {me: own, **{called[each]: knowledge for each, knowledge in known.items()}}
    return {
        store: Promise(
            _confirmed(each.begun, newest.begun),
            each.held,
            each.stable_upto,
            limbo=store not in trusted,
            markers=each.markers,
            losses=each.accepted_losses,
            retained_from=each.retained_from,
        )
        for store, each in everything.items()
    }


def _confirmed(begun: BeginRecord, newest: BeginRecord) -> BeginRecord:
    """Return a begin record, with the policies of the newest one if it is of the same epoch."""
    if begun.epoch != newest.epoch:
        return begun
    return replace(begun, membership=newest.membership)


def _lacking(decision: Decision, me: str) -> RangeSet:
    if decision.floor < 0:
        return RangeSet()
    lacking = RangeSet(decision.holders[me].holes(decision.retained_from, decision.floor))
    return lacking.minus(decision.losses)


def _newest_information(
    informations: Iterable[SourceInformation | None],
) -> SourceInformation | None:
    return max(
        (each for each in informations if each is not None),
        key=lambda each: (each.epoch, each.version),
        default=None,
    )


def _not_heard(stores: Iterable[str]) -> str:
    return f"these have not answered, or are in limbo themselves: {', '.join(stores) or 'none'}"


def _can_not_be_spared(store: str, policy: Policy) -> str:
    return (
        f"all others have answered, and are not enough without it by {policy}. Put back a disk "
        "that is whole, or have it go on with what the others have: "
        f"`quorate store readmit {store} --reason WHY`"
    )
