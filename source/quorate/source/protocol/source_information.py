"""The registration information of a source, as receivers and stores get it.

Pure. The core decides when it has changed and when it is sent.
"""

from __future__ import annotations

from collections.abc import Iterable

from quorate.protocol.identity import SourceName, StoreAddress
from quorate.protocol.wire import pacing_to_wire, policy_to_wire, source_to_wire
from quorate.source.options import SourceOptions
from quorate.source.protocol.registration import Registration
from quorate.v1.messages_pb2 import Lifetimes, SourceInformation, StoreEntry


def describe(
    name: SourceName,
    address: str,
    registration: Registration,
    stores: Iterable[StoreAddress],
    version: tuple[int, int],
    options: SourceOptions,
) -> SourceInformation:
    """Return what receivers and stores need to know of a source.

    address: where receivers attach. stores: those that the source deals with now. version: the
    epoch to report, and the number of changes within it.
    """
    epoch, changes = version
    entries = []
    for store in stores:
        grant = registration.grant(store.name)
        entries.append(
            StoreEntry(
                name=store.name,
                address=store.address,
                reg_id=grant.reg_id if grant else store.reg_id,
                store_name=grant.store_name if grant else "",
            )
        )
    declared = registration.declared if registration.policy != registration.declared else None
    return SourceInformation(
        source=source_to_wire(name),
        address=address,
        epoch=epoch,
        policy=policy_to_wire(registration.policy),
        declared=policy_to_wire(declared) if declared else None,
        stores=entries,
        version=changes,
        receiver_pacing=pacing_to_wire(options.receiver_pacing),
        drawn=registration.drawn,
    )


def lifetimes_of(options: SourceOptions) -> Lifetimes:
    """Return the lifetimes that the source asks of its stores; 0: the store's configuration
    decides."""
    return Lifetimes(
        activity_timeout_seconds=options.activity_timeout or 0.0,
        state_lifetime_seconds=options.state_lifetime or 0.0,
    )
