"""The name that policies have for a store: its own, or the one that a source gave its address."""

from __future__ import annotations

from quorate.v1.messages_pb2 import SourceInformation


def policy_name(store: str, address: str, information: SourceInformation | None) -> str:
    """Return the name that a source's policies have for a store; its own if they do not name it."""
    if information is None:
        return store
    for entry in information.stores:
        if entry.name == store:
            return store
    return next((entry.name for entry in information.stores if entry.address == address), store)
