"""How many new identities one client may register in a while.

Pure: time comes in as an argument. Identities that the store knows do not count, so that a client
that comes back is never held up. The caller decides which identities are new.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from quorate.protocol.errors import TooManyRegistrations

BURST_SECONDS = 10.0
"""A client that was quiet may register at once what it may register in so many seconds."""
_CLIENTS_MAX = 4096


@dataclass(slots=True)
class _Client:
    left: float
    """The new identities that the client may register now."""
    at: float


class Newcomers:
    """The new identities that clients registered lately."""

    def __init__(self, store: str, per_second: float) -> None:
        """per_second: new identities for each client; 0: as many as come."""
        self._store = store
        self._per_second = per_second
        self._clients: OrderedDict[str, _Client] = OrderedDict()

    def take(self, host: str, now: float) -> None:
        """Count a new identity of a client on this host. Raises TooManyRegistrations."""
        if not self._per_second:
            return
        most = max(1.0, self._per_second * BURST_SECONDS)
        client = self._clients.pop(host, None) or _Client(most, now)
        self._clients[host] = client
        if len(self._clients) > _CLIENTS_MAX:
            self._clients.popitem(last=False)
        client.left = min(most, client.left + (now - client.at) * self._per_second)
        client.at = now
        if client.left < 1.0:
            raise TooManyRegistrations(host, self._store, f"{self._per_second:g}")
        client.left -= 1.0
