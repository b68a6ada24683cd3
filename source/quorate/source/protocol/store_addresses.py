"""The stores that a source deals with, and where they and others are, as far as it knows.

Pure. Which of them are wanted is decided elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from quorate.protocol.errors import InvalidArgument
from quorate.protocol.identity import StoreAddress
from quorate.protocol.layout import Layout


class Roster:
    """Of one source. Stores are called as policies call them."""

    def __init__(self, stores: Iterable[StoreAddress], previous: Iterable[Layout]) -> None:
        """stores: of the present configuration; previous: earlier ones."""
        self._known = {store.name: store for layout in previous for store in layout.stores}
        self._known |= {store.name: store for store in stores}
        self.addresses = {store.name: store.address for store in self._known.values()}
        """Where each store is, by name; grows."""
        self.stores: dict[str, StoreAddress] = {}
        """Those to deal with now."""
        self.version = 0
        """Grows whenever they change."""

    def deal_with(self, names: Sequence[str]) -> list[str] | None:
        """Deal with these, as far as it is known where they are, and with no others.

        Returns those that are dealt with no more; None if nothing changes.
        """
        wanted = [store for store in names if store in self._known]
        if wanted == list(self.stores):
            return None
        gone = [store for store in self.stores if store not in wanted]
        self.stores = {store: self._known[store] for store in wanted}
        self.version += 1
        return gone

    def learn(self, addresses: Iterable[tuple[str, str]]) -> None:
        """Name and address of stores that the configuration does not know, perhaps.

        Raises InvalidArgument if one of them is known by another name.
        """
        for name, address in addresses:
            if name in self._known or not address:
                continue
            taken = next((s.name for s in self._known.values() if s.address == address), None)
            if taken is not None:
                raise InvalidArgument(
                    "stores",
                    f"{address} is called {taken} here and {name} by the policy in force; a store "
                    "keeps the name that it has",
                )
            self._known[name] = StoreAddress(name, address)
            self.addresses[name] = address
