"""The stores of a simulated world: who they are, by which policy, and how that changes.

Nothing runs here. The operator of `changes` carries a change through, and `cast` starts everybody.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import NamedTuple

from quorate.console.group.rules.store_change import StoreChange
from quorate.protocol.identity import StoreAddress
from quorate.protocol.layout import Layout, StoreGroup

LAYOUTS = ("majority", "majority", "majority", "all-active", "any", "all", "backup")
"""The policies that a world may have, by the names of `layout_of`."""
BACKUP_SECONDS = 1.0
"""The time after which a source uses a backup."""


class Opening(NamedTuple):
    """The stores with which an application is opened."""

    layout: Layout
    previous: tuple[Layout, ...] = ()


def address_of(name: str) -> str:
    """Return the address at which the store of this name listens."""
    return f"127.0.0.1:{100 + ord(name) - ord('a') + 1}"


def addresses_of(names: str) -> tuple[StoreAddress, ...]:
    """Return the stores of these one-letter names."""
    return tuple(StoreAddress(name, address_of(name)) for name in names)


def layout_of(kind: str) -> Layout:
    """Return a layout that a world begins with."""
    match kind:
        case "all-active":
            return Layout.of(StoreGroup("stores", addresses_of("abc"), "all-active"))
        case "any":
            return Layout.of(
                StoreGroup("here", addresses_of("ab")), StoreGroup("there", addresses_of("c"))
            )
        case "all":
            return Layout.of(
                StoreGroup("here", addresses_of("abc")),
                StoreGroup("there", addresses_of("d")),
                rule="all",
            )
        case "backup":
            return Layout.of(StoreGroup("stores", addresses_of("abc"), backups=addresses_of("d")))
    return Layout.plain(addresses_of("abc"))


@dataclass
class Change:
    """A change of the stores that is under way."""

    asked: StoreChange
    opening: Opening
    """Applications are opened with this from the step on in which sources move."""
    peers: list[str]
    """The stores that are each other's peers at the end."""
    has_moved: bool = False
    """Whether applications are opened with the new layout."""


class StoresOfWorld:
    """The stores that there are, and those that applications and stores are configured with."""

    def __init__(self, kind: str) -> None:
        """Begin with the stores of a layout."""
        self.opening = Opening(layout_of(kind))
        self.names = [store.name for store in self.opening.layout.stores]
        """The stores that run, or are to run."""
        self.peers = {name: list(self.names) for name in self.names}
        """By store: the stores that its configuration names, itself among them."""
        self.change: Change | None = None
        self.changes_done = 0
        self._next = ord("e")

    def text_for(self, store: str) -> str:
        """Return the stores that the configuration of one names, as text."""
        return ",".join(f"{name}={address_of(name)}" for name in self.peers[store])

    def addresses(self) -> tuple[StoreAddress, ...]:
        """Return the stores that an operator names to a command."""
        return addresses_of("".join(self.names))

    def tolerates_without(self, store: str) -> bool:
        """Return whether the other stores have all that may be stable, and can let it back in."""
        others = {name for name in self.names if name != store}
        openings = [self.opening, *((self.change.opening,) if self.change else ())]
        return all(
            opening.layout.policy.blocks(others)
            and opening.layout.policy.stable(others, active=others)
            for opening in openings
        )

    def begin_change(self, random: Random, leaves: Callable[[str], bool]) -> Change | None:
        """Begin a change that is drawn; None: none can be made. leaves: whether a store may leave.

        Further stores come to the only group, and go from it, if there are enough.
        """
        policy = self.opening.layout.policy
        members = [name for name in sorted(policy.stores) if leaves(name)]
        kinds = ["replace"]
        if len(policy.groups) == 1 and not policy.backups:
            kinds.append("add" if len(policy.stores) == 3 else "remove")
        kind = random.choice(kinds)
        if not members:
            return None
        new = addresses_of(chr(self._next))[0] if kind != "remove" else None
        old = random.choice(members) if kind != "add" else ""
        self._next += 1
        asked = StoreChange(old=old, new=new)
        target = asked.target(policy, (old,) if old else ())
        stores = tuple(
            each
            for each in (*self.opening.layout.stores, *((new,) if new else ()))
            if each.name != old
        )
        peers = [each.name for each in stores]
        opening = Opening(Layout(target, stores), (self.opening.layout,))
        self.change = Change(asked, opening, peers)
        return self.change

    def end_change(self) -> None:
        """Note that the change is done: applications need not know of the former layout."""
        self.change = None
        self.changes_done += 1
        self.opening = Opening(self.opening.layout)
