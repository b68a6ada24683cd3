"""Conversion between the protocol's types and the messages of the wire contract.

Only messages that several parts use are here. A part builds all others itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from quorate.protocol.application import Application
from quorate.protocol.begin import BeginRecord
from quorate.protocol.bookmarks import Bookmark, Position
from quorate.protocol.errors import InvalidArgument
from quorate.protocol.identity import SourceName
from quorate.protocol.limits import NOTHING, SEQUENCE_MAX
from quorate.protocol.lineage import Lineage, Term
from quorate.protocol.pacing import ReceiverPacing
from quorate.protocol.policy import (
    Group,
    IntergroupRule,
    IntragroupRule,
    Membership,
    Policy,
    named_by,
)
from quorate.protocol.ranges import HeldRange
from quorate.protocol.recovery import Marker
from quorate.v1 import messages_pb2 as v1
from quorate.v1 import store_pb2 as store_v1

_INTRAGROUP = {
    IntragroupRule.QUORUM: v1.INTRAGROUP_RULE_QUORUM,
    IntragroupRule.ALL_ACTIVE: v1.INTRAGROUP_RULE_ALL_ACTIVE,
    IntragroupRule.ALL: v1.INTRAGROUP_RULE_ALL,
}
_INTERGROUP = {
    IntergroupRule.ANY: v1.INTERGROUP_RULE_ANY,
    IntergroupRule.MAJORITY: v1.INTERGROUP_RULE_MAJORITY,
    IntergroupRule.ALL_ACTIVE: v1.INTERGROUP_RULE_ALL_ACTIVE,
    IntergroupRule.ALL: v1.INTERGROUP_RULE_ALL,
}
_INTRAGROUP_BACK = {wire: rule for rule, wire in _INTRAGROUP.items()}
_INTERGROUP_BACK = {wire: rule for rule, wire in _INTERGROUP.items()}
_SHORT_LINEAGE = 4
"""The terms up to which a lineage is remembered as it was read."""


def source_to_wire(source: SourceName) -> v1.SourceName:
    """Return the message of a name."""
    return v1.SourceName(topic=source.topic, session_id=source.session_id)


def source_from_wire(wire: v1.SourceName) -> SourceName:
    """Return the name. Raises InvalidArgument if the peer sent an impossible one."""
    return SourceName(wire.topic, wire.session_id).checked()


def application_to_wire(application: Application) -> v1.Application | None:
    """Return the message of an application; None, if it says nothing, leaves the field unset."""
    if not application:
        return None
    return v1.Application(
        name=application.name,
        program=application.program,
        host=application.host,
        process_id=application.process_id,
    )


def application_from_wire(wire: v1.Application) -> Application:
    """Return the application. Raises InvalidArgument if a text is too long or not printable."""
    return Application(wire.name, wire.program, wire.host, wire.process_id).checked()


def lineage_to_wire(lineage: Lineage) -> list[v1.LineageEntry]:
    """Return one entry a term."""
    return [v1.LineageEntry(epoch=term.epoch, first_sequence=term.first) for term in lineage.terms]


def lineage_from_wire(wire: Iterable[v1.LineageEntry]) -> Lineage:
    """Return the lineage. Raises InvalidArgument if the peer's terms do not ascend."""
    numbers = tuple([(entry.epoch, entry.first_sequence) for entry in wire])
    return _short_lineage(numbers) if len(numbers) <= _SHORT_LINEAGE else _lineage(numbers)


def _lineage(numbers: tuple[tuple[int, int], ...]) -> Lineage:
    terms = tuple(Term(*each) for each in numbers)
    for before, after in zip((Term(0, -1), *terms), terms, strict=False):
        if not (before.epoch < after.epoch and before.first < after.first):
            raise InvalidArgument("lineage", f"{after} cannot follow {before}")
    return Lineage(terms)


# Cached: most sources have one of few lineages, and each store names it in each answer.
_short_lineage = lru_cache(maxsize=1024)(_lineage)


def held_to_wire(held: Iterable[HeldRange]) -> list[v1.HeldRange]:
    """Return one message a range."""
    return [v1.HeldRange(first=item.first, last=item.last, epoch=item.epoch) for item in held]


def held_from_wire(wire: Iterable[v1.HeldRange]) -> tuple[HeldRange, ...]:
    """Return the ranges. Raises InvalidArgument if the peer sent an impossible one."""
    held = tuple(HeldRange(item.first, item.last, item.epoch) for item in wire)
    for item in held:
        if not 0 <= item.first <= item.last:
            raise InvalidArgument("held range", f"[{item.first}, {item.last}] is not a range")
    return held


def markers_to_wire(markers: Iterable[Marker]) -> list[store_v1.Marker]:
    """Return one message a marker."""
    return [
        store_v1.Marker(sequence=marker.sequence, epoch=marker.epoch, value=marker.value)
        for marker in markers
    ]


def markers_from_wire(wire: Iterable[store_v1.Marker]) -> tuple[Marker, ...]:
    """Return the markers."""
    return tuple(Marker(marker.sequence, marker.epoch, marker.value) for marker in wire)


def policy_to_wire(policy: Policy) -> v1.Policy:
    """Return the message of a policy."""
    return v1.Policy.FromString(_serialized(policy))


# Cached: the sources of a client have few policies, and each source says its own several times.
@lru_cache(maxsize=256)
def _serialized(policy: Policy) -> bytes:
    wire = v1.Policy(
        groups=[
            v1.Group(
                name=group.name,
                stores=group.stores,
                rule=_INTRAGROUP[IntragroupRule(group.rule)],
                backups=group.backups,
            )
            for group in policy.groups
        ],
        rule=_INTERGROUP[IntergroupRule(policy.rule)],
    )
    return wire.SerializeToString()


def policy_from_wire(wire: v1.Policy) -> Policy:
    """Return the policy.

    Raises InvalidArgument if the peer sent an impossible policy, or a rule not known here.
    """
    return _policy(wire.SerializeToString())


# Cached: stores tell each other of all their sources, and these have few policies.
@lru_cache(maxsize=256)
def _policy(serialized: bytes) -> Policy:
    wire = v1.Policy.FromString(serialized)
    if wire.rule not in _INTERGROUP_BACK:
        raise InvalidArgument("policy", f"has an intergroup rule not known here: {wire.rule}")
    for group in wire.groups:
        if group.rule not in _INTRAGROUP_BACK:
            raise InvalidArgument("policy", f"has an intragroup rule not known here: {group.rule}")
    return Policy(
        tuple(
            Group(
                group.name,
                tuple(group.stores),
                _INTRAGROUP_BACK[group.rule],
                tuple(group.backups),
            )
            for group in wire.groups
        ),
        _INTERGROUP_BACK[wire.rule],
    )


def membership_to_wire(membership: Membership) -> v1.Membership:
    """Return the message of a membership."""
    # Two memberships that differ in their addresses alone count as equal.
    return v1.Membership.FromString(_serialized_membership(membership, membership.addresses))


@lru_cache(maxsize=256)
def _serialized_membership(membership: Membership, addresses: tuple[tuple[str, str], ...]) -> bytes:
    wire = v1.Membership(
        from_policies=[policy_to_wire(policy) for policy in membership.from_policies],
        to_policies=[policy_to_wire(policy) for policy in membership.to_policies],
        stores=[v1.StoreEntry(name=name, address=at) for name, at in addresses],
    )
    return wire.SerializeToString()


def membership_from_wire(wire: v1.Membership) -> Membership:
    """Return the membership.

    Raises InvalidArgument if the peer sent an impossible policy, or a rule not known here.
    """
    return _membership(wire.SerializeToString())


@lru_cache(maxsize=256)
def _membership(serialized: bytes) -> Membership:
    wire = v1.Membership.FromString(serialized)
    return Membership(
        tuple(policy_from_wire(policy) for policy in wire.from_policies),
        tuple(policy_from_wire(policy) for policy in wire.to_policies),
        tuple((store.name, store.address) for store in wire.stores),
    )


def begin_to_wire(begun: BeginRecord) -> v1.BeginRecord:
    """Return the message of a begin record."""
    membership = begun.membership
    wire = v1.BeginRecord()
    if membership is not None:
        # Two memberships that differ in their addresses alone count as equal.
        wire = v1.BeginRecord.FromString(_serialized_begin(membership, membership.addresses))
    for term in begun.lineage.terms:
        wire.lineage.add(epoch=term.epoch, first_sequence=term.first)
    wire.generation = begun.generation
    return wire


@lru_cache(maxsize=256)
def _serialized_begin(membership: Membership, addresses: tuple[tuple[str, str], ...]) -> bytes:
    named = v1.Membership.FromString(_serialized_membership(membership, addresses))
    return v1.BeginRecord(membership=named).SerializeToString()


def begin_from_wire(wire: v1.BeginRecord, lineage: Lineage | None = None) -> BeginRecord:
    """Return the begin record. Raises InvalidArgument if the peer sent an impossible one.

    lineage: that of the record, if it was read before; None: it is still to be read.
    """
    if len(wire.lineage) <= _SHORT_LINEAGE:
        return _short_begin(wire.SerializeToString())
    return _begin(wire, lineage)


def _begin(wire: v1.BeginRecord, lineage: Lineage | None = None) -> BeginRecord:
    return BeginRecord(
        lineage_from_wire(wire.lineage) if lineage is None else lineage,
        membership_from_wire(wire.membership) if wire.HasField("membership") else None,
        wire.generation,
    )


# Cached: the sources of a client have few such records, and each store names them in each answer.
@lru_cache(maxsize=1024)
def _short_begin(serialized: bytes) -> BeginRecord:
    return _begin(v1.BeginRecord.FromString(serialized))


def begun_epoch(wire: v1.BeginRecord) -> int:
    """Return the epoch of a begin record; 0: nothing was begun. The rest of it is not read."""
    return wire.lineage[-1].epoch if wire.lineage else 0


def begun_newness(wire: v1.BeginRecord) -> tuple[int, int]:
    """Return the key by which the newest begin record is the greatest, as `BeginRecord.newness`."""
    policies = (*wire.membership.from_policies, *wire.membership.to_policies)
    return begun_epoch(wire), -len({policy.SerializeToString() for policy in policies})


def named_in_policies(told: store_v1.SourceStatus) -> frozenset[str]:
    """Return the stores that the policies of a source name, by its own names for them.

    A store that the source sends to beside these is a replica. Raises InvalidArgument.
    """
    information = told.information
    policies = [policy_from_wire(information.declared)] if information.HasField("declared") else []
    if told.begun.HasField("membership"):
        policies += membership_from_wire(told.begun.membership).policies
    elif information.policy.groups:
        policies.append(policy_from_wire(information.policy))
    return named_by(policies)


def pacing_to_wire(pacing: ReceiverPacing | None) -> v1.ReceiverPacing | None:
    """Return the message of a pacing; None leaves the field unset."""
    return v1.ReceiverPacing(messages=pacing.messages, bytes=pacing.bytes) if pacing else None


def pacing_from_wire(wire: v1.SourceInformation | None) -> ReceiverPacing | None:
    """Return a source's pacing. Raises InvalidArgument.

    Return None for a source that does not wait for its receivers, or that is unknown.
    """
    if wire is None or not wire.HasField("receiver_pacing"):
        return None
    asked = wire.receiver_pacing
    return ReceiverPacing(messages=asked.messages, bytes=asked.bytes)


def position_to_wire(position: Position) -> store_v1.Position:
    """Return the message of a position."""
    return store_v1.Position(places=map(bookmark_to_wire, position.bookmarks()))


def bookmark_to_wire(bookmark: Bookmark) -> store_v1.Place:
    """Return the message of a bookmark."""
    return store_v1.Place(
        source=source_to_wire(bookmark.source), epoch=bookmark.epoch, sequence=bookmark.sequence
    )


def bookmarks_to_wire(bookmarks: Iterable[Bookmark]) -> store_v1.Position:
    """Return the message of bookmarks, in their order."""
    return store_v1.Position(places=map(bookmark_to_wire, bookmarks))


def bookmark_from_wire(place: store_v1.Place) -> Bookmark:
    """Return the bookmark of a message. Raises InvalidArgument."""
    if not NOTHING <= place.sequence <= SEQUENCE_MAX:
        raise InvalidArgument("bookmark", f"{place.sequence} is not a sequence number")
    return Bookmark(source_from_wire(place.source), place.epoch, place.sequence)


def bookmarks_from_wire(position: store_v1.Position) -> list[Bookmark]:
    """Return bookmarks, in their order. Raises InvalidArgument, also if there are none."""
    if not position.places:
        raise InvalidArgument("bookmarks", "none is given")
    return list(map(bookmark_from_wire, position.places))


def position_from_wire(position: store_v1.Position) -> Position:
    """Return the position of a message. Raises InvalidArgument."""
    return Position.of(map(bookmark_from_wire, position.places))
