"""The stores that a source names: in its policies, and in its information. Pure."""

from __future__ import annotations

from quorate.store.storage.records import Registration


def others(record: Registration, me: str) -> frozenset[str]:
    """Return every other store that may have a part of a source.

    The record in force names them, apart from members that a backup stands in for. The source has
    left the other stores that its last information names.
    """
    in_force, names = record.begun.policies, _informed(record)
    if in_force:
        names &= {store for policy in in_force for store in policy.backups}
        names |= {store for policy in in_force for store in policy.stores}
    return frozenset(names - {me})


def known_to_receivers(record: Registration, me: str) -> frozenset[str]:
    """Return every other store that receivers of a source may deal with.

    These are also the stores that the source named last. Receivers go on with them.
    """
    return others(record, me) | (_informed(record) - {me})


def _informed(record: Registration) -> set[str]:
    information = record.information
    return {store.name for store in information.stores} if information is not None else set()
