"""The error of a receiver that too few stores have registered: which stores, and why."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Set

from quorate.protocol.errors import NoQuorum, joined
from quorate.receiver.io.source_session import Session
from quorate.receiver.io.watch_directory import Watcher


def no_quorum(
    what: str,
    given: Mapping[str, str],
    watchers: Iterable[Watcher],
    heard: Collection[Watcher],
    sessions: Iterable[Session],
) -> NoQuorum:
    """Return the error of a receiver with which too few stores have registered.

    - what: the topics, as text.
    - given: the names of the stores that it was given, by address.
    - heard: the watchers whose stores have answered.
    """
    unheard = [watcher for watcher in watchers if watcher not in heard]
    details = [str(watcher.error) for watcher in unheard if watcher.error]
    names = dict(given)
    limbo: set[str] = set()
    silent = {watcher.address for watcher in unheard}
    for session in sessions:
        waiting = session.joining.waiting_for_stores()
        for name, address in session.record.stores:
            if names.setdefault(address, name) == address:
                names[address] = name  # the store was given without a name
            limbo |= {address} if name in waiting.limbo else set()
            silent |= {address} if name in waiting.silent else set()
        details.append(
            f"{waiting.source} can be registered with "
            f"{', '.join(waiting.vouching) or 'no store'}"
            f", in limbo: {', '.join(waiting.limbo) or 'none'}"
            f", not registered: {', '.join(waiting.silent) or 'none'}"
        )
    answered = {watcher.address for watcher in heard} | limbo
    return NoQuorum(
        f"The receiver of {what}",
        _joined(names, answered - silent),
        _joined(names, silent),
        joined(details) or "no store's directory was heard in time",
        _joined(names, limbo - silent),
    )


def _joined(names: Mapping[str, str], addresses: Set[str]) -> str:
    """Return the names of the stores at these addresses, in the order in which they were given."""
    return ", ".join(name for address, name in names.items() if address in addresses)
