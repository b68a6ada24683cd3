"""The stores that a source deals with, and the addresses of all stores that it knows.

Pure. The registration decides which of them are wanted.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from quorate.protocol.addresses import place_of
from quorate.protocol.errors import InvalidArgument
from quorate.protocol.identity import StoreAddress
from quorate.protocol.layout import Layout


class Roster:
    """The stores of one source, under the names that its policies use."""

    def __init__(self, stores: Iterable[StoreAddress], previous: Iterable[Layout]) -> None:
        """Begin with the stores of the present configuration and of earlier ones.

        Raises InvalidArgument if an earlier one calls a store of the present one otherwise.
        """
        self._known = {store.name: store for store in stores}
        self._check_names(store for layout in previous for store in layout.stores)
        earlier = {store.name: store for layout in previous for store in layout.stores}
        self._known = earlier | self._known
        self.addresses = {store.name: store.address for store in self._known.values()}
        """The address of each store, by name. No entry is ever removed."""
        self.stores: dict[str, StoreAddress] = {}
        """The stores to deal with now, by name."""
        self.version = 0
        """A number that grows whenever the stores to deal with change."""

    def deal_with(self, names: Sequence[str]) -> list[str] | None:
        """Deal with these stores, if their addresses are known, and with no others.

        Return the stores that are no longer dealt with; None: nothing changes.
        """
        wanted = [store for store in names if store in self._known]
        if wanted == list(self.stores):
            return None
        gone = [store for store in self.stores if store not in wanted]
        self.stores = {store: self._known[store] for store in wanted}
        self.version += 1
        return gone

    def learn(self, addresses: Iterable[tuple[str, str]]) -> None:
        """Learn names and addresses of stores that the configuration may not have.

        Raise InvalidArgument if one of these addresses is known under another name.
        """
        for name, address in addresses:
            if name in self._known or not address:
                continue
            if (taken := self._name_at(address)) is not None:
                raise InvalidArgument(
                    "stores",
                    f"{address} is called {taken} here and {name} by the policy in force. "
                    + _next_step(name, place_of(address)),
                )
            self._known[name] = StoreAddress(name, address)
            self.addresses[name] = address

    def _check_names(self, earlier: Iterable[StoreAddress]) -> None:
        for store in earlier:
            taken = self._name_at(store.address)
            if taken is not None and taken != store.name and store.name not in self._known:
                raise InvalidArgument(
                    "previous_policies",
                    f"{store.address} is called {store.name} there and {taken} in stores. A store "
                    "keeps the name that it has, or that it lacks: write it alike in both",
                )

    def _name_at(self, address: str) -> str | None:
        """Return the name of the store at this address, as far as it is known."""
        place = place_of(address)
        return next((s.name for s in self._known.values() if place_of(s.address) == place), None)


def _next_step(name: str, place: str) -> str:
    """Return what to do about a store that has another name in the policy in force.

    place: its address in the usual spelling, which is the name of a store without a name.
    """
    if name != place:
        return f"A store keeps the name that it has: call it {name} here, too"
    return (
        "That policy has it without a name: leave its name out here. If the address of a store "
        "has changed, name the former addresses in previous_policies (in a file: [[previous]])"
    )
