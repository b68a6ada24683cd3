"""The questions of an audit to every store by itself, and the facts that the answers give.

The stores are first asked what is stable, and then what they hold. A message that arrives during
the questions is above what is stable, so no store seems to be the only one that has it. Nothing
here judges the facts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import grpc

from quorate.pipeline.audit.facts import Copy, SourceFacts, StoreFacts
from quorate.pipeline.stores.client import (
    channel_to,
    nobody,
)
from quorate.pipeline.stores.fetch import reason
from quorate.protocol.errors import InvalidArgument, QuorateError
from quorate.protocol.identity import SourceName
from quorate.protocol.limits import PROTOCOL_VERSION
from quorate.protocol.lineage import Lineage
from quorate.protocol.policy import Policy
from quorate.protocol.ranges import HeldRange, Range, RangeSet
from quorate.protocol.recovery import released_below
from quorate.protocol.wire import (
    begin_from_wire,
    begun_epoch,
    held_from_wire,
    lineage_from_wire,
    membership_from_wire,
    policy_from_wire,
    source_from_wire,
)
from quorate.transport.failures import error_from_blocking_call
from quorate.transport.status import status_of, status_request
from quorate.v1 import messages_pb2 as v1
from quorate.v1 import store_pb2 as store_v1
from quorate.v1.store_pb2_grpc import StoreStub

ANSWER_SECONDS_MAX = 10.0
"""Seconds that a store may take to answer one call."""

_Sources = dict[SourceName, store_v1.SourceInventory]


@dataclass(frozen=True, slots=True)
class Answers:
    """The answers of all stores."""

    stores: tuple[StoreFacts, ...]
    sources: tuple[SourceFacts, ...]

    def address_of(self) -> dict[str, str]:
        """Return the address of each store, by its own name."""
        return {store.name: store.address for store in self.stores}


def ask(addresses: Sequence[str], selects: Callable[[str], bool]) -> Answers:
    """Return what the stores answer about the sources of the selected topics.

    Raises Unreachable if no store answers, InvalidArgument if two addresses are one store.
    """
    status, silent = _statuses(addresses)
    held: dict[str, _Sources] = {}
    for address in status:
        try:
            held[address] = _inventory(address)
        except grpc.RpcError as error:
            silent[address] = error_from_blocking_call(address, error)
    if not held:
        raise nobody(silent)
    names = {address: status[address].store_name for address in held}
    _check_distinct(names, {address: status[address].incarnation for address in held})
    stores = tuple(
        StoreFacts(address, address, reason(silent[address]))
        if address in silent
        else StoreFacts(names[address], address, limbo=status[address].limbo_reason)
        for address in addresses
    )
    by_name = {address: _by_name(status[address]) for address in held}
    found = {name for of_store in held.values() for name in of_store if selects(name.topic)}
    sources = tuple(
        _source(
            name,
            stores,
            {names[at]: _status_of(status[at], by_name[at].get(name)) for at in held},
            {names[at]: of_store[name] for at, of_store in held.items() if name in of_store},
        )
        for name in sorted(found)
    )
    return Answers(stores, sources)


def _statuses(
    addresses: Sequence[str],
) -> tuple[dict[str, store_v1.StatusResponse], dict[str, QuorateError]]:
    calls = {
        address: StoreStub(channel_to(address)).Status(status_request(), timeout=ANSWER_SECONDS_MAX)
        for address in addresses
    }
    answered: dict[str, store_v1.StatusResponse] = {}
    silent: dict[str, QuorateError] = {}
    for address, call in calls.items():
        try:
            answered[address] = status_of(call)
        except grpc.RpcError as error:
            silent[address] = error_from_blocking_call(address, error)
    return answered, silent


def _inventory(address: str) -> _Sources:
    request = store_v1.InventoryRequest(protocol_version=PROTOCOL_VERSION)
    call = StoreStub(channel_to(address)).Inventory(request, timeout=ANSWER_SECONDS_MAX)
    return {
        source_from_wire(source.source): source
        for answer in call
        for source in answer.sources
        if begin_from_wire(source.begun).goes_on
    }


def _check_distinct(names: Mapping[str, str], incarnations: Mapping[str, bytes]) -> None:
    """Raise InvalidArgument if one store was asked twice. It would pass for two that agree."""
    for what in (names, incarnations):
        seen: dict[object, str] = {}
        for address, value in what.items():
            if value in seen:
                detail = f"{seen[value]} and {address} are one store or copies of one; name it once"
                raise InvalidArgument("stores", detail)
            seen[value] = address


def _by_name(status: store_v1.StatusResponse) -> dict[SourceName, store_v1.SourceStatus]:
    return {source_from_wire(source.information.source): source for source in status.sources}


def _status_of(
    status: store_v1.StatusResponse, source: store_v1.SourceStatus | None
) -> tuple[store_v1.SourceStatus, str]:
    """Return a store's status of a source, and the reason if the store is in limbo for it."""
    if source is None:
        return store_v1.SourceStatus(stable_upto=-1), status.limbo_reason
    return source, source.limbo_reason or status.limbo_reason


def _source(
    name: SourceName,
    stores: Iterable[StoreFacts],
    status: Mapping[str, tuple[store_v1.SourceStatus, str]],
    held: Mapping[str, store_v1.SourceInventory],
) -> SourceFacts:
    told = max(held.values(), key=lambda each: (each.stable_upto, begun_epoch(each.begun)))
    newest = max(
        (each.information for each in held.values()), key=lambda one: (one.epoch, one.version)
    )
    lineage = lineage_from_wire(told.begun.lineage)
    stable_upto = max(source.stable_upto for source, _ in status.values())
    policies = _policies(told, newest)
    called = _called(told, newest, stores)
    members = {called.get(store, store) for policy in policies for store in policy.stores}
    copies: dict[str, Copy] = {}
    unseen: dict[str, str] = {}
    by_name = {store.name: store for store in stores}
    for store in sorted({*held, *members}):
        if store in held:
            copies[store] = _copy(store, lineage, stable_upto, held[store], *status[store])
        elif store not in by_name:
            unseen[store] = "a policy names it, but it is not one of the stores that were asked"
        elif silence := by_name[store].silence:
            unseen[store] = silence
        elif limbo := by_name[store].limbo:
            unseen[store] = f"it does not know the source, and is in limbo: {limbo}"
        else:
            copies[store] = Copy(store)
    retained_from = max(
        released_below(
            lineage, lineage_from_wire(each.begun.lineage), each.retained_from, each.stable_upto
        )
        for each in held.values()
    )
    return SourceFacts(name, lineage, stable_upto, copies, policies, called, unseen, retained_from)


def _copy(
    store: str,
    lineage: Lineage,
    stable_upto: int,
    held: store_v1.SourceInventory,
    status: store_v1.SourceStatus,
    limbo: str,
) -> Copy:
    ranges = lineage.belonging(held_from_wire(held.held))
    above = RangeSet(_ranges(held_from_wire(status.held)))
    above.remove(0, stable_upto)
    return Copy(
        store,
        lineage_from_wire(held.begun.lineage),
        ranges,
        above,
        RangeSet(_ranges(held_from_wire(status.unreadable))),
        lineage.belonging(held_from_wire(held.accepted_losses)),
        held.stable_upto,
        limbo,
        held.live,
        {each.session_id: each.acknowledged_upto for each in status.receivers},
        held.durability != v1.DURABILITY_STATE_ONLY,
    )


def _ranges(held: Iterable[HeldRange]) -> Iterable[Range]:
    return (Range(each.first, each.last) for each in held)


def _policies(told: store_v1.SourceInventory, newest: v1.SourceInformation) -> tuple[Policy, ...]:
    """Return the policies by which messages are stable now."""
    if told.begun.HasField("membership"):
        return membership_from_wire(told.begun.membership).to_policies
    return (policy_from_wire(newest.policy),) if newest.policy.groups else ()


def _called(
    told: store_v1.SourceInventory, newest: v1.SourceInformation, stores: Iterable[StoreFacts]
) -> dict[str, str]:
    """Return, by its name in a policy, the own name of each store that was asked."""
    by_address = {store.address: store.name for store in stores}
    names = {store.name for store in stores}
    called: dict[str, str] = {}
    for entry in (*told.begun.membership.stores, *newest.stores):
        if entry.store_name in names:
            called[entry.name] = entry.store_name
        elif entry.address in by_address:
            called[entry.name] = by_address[entry.address]
        else:
            called.setdefault(entry.name, entry.name)
    return called
