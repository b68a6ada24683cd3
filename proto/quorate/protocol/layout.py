"""Layouts: the groups of stores that make a stream stable, and the replicas beside them.

The values are here, made from code. How people write a layout in a file or on the command line is
in quorate.protocol.layout_text; the meaning of a policy is in quorate.protocol.policy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from quorate.protocol.choices import choice_of
from quorate.protocol.errors import InvalidArgument
from quorate.protocol.identity import StoreAddress, check_distinct, parse_stores
from quorate.protocol.policy import Group, IntergroupRule, IntragroupRule, Policy, named_by

Stores = str | Sequence[StoreAddress]
"""`[name=]host:port[#reg_id],…`, or the addresses that such a text names."""


@dataclass(frozen=True, slots=True)
class StoreGroup:
    """One group of a layout: its members, its rule, and its backups."""

    name: str
    stores: Stores
    """The members."""
    rule: str | IntragroupRule = IntragroupRule.QUORUM
    """How many members must hold a message: quorum, all-active, all."""
    backups: Stores = ()
    """Stores that stand in, in this order, for members that do not answer."""


@dataclass(frozen=True, slots=True)
class Layout:
    """A policy, and the address of each store: those that the policy names, and replicas.

    A replica takes the messages and has no part in what is stable.
    """

    policy: Policy
    stores: tuple[StoreAddress, ...]

    def __post_init__(self) -> None:
        check_distinct(self.stores)
        names = {store.name for store in self.stores}
        unknown = (self.policy.stores | self.policy.backups) - names
        if unknown:
            raise InvalidArgument(
                "policy", f"names stores that are not given: {', '.join(sorted(unknown))}"
            )

    @property
    def also(self) -> tuple[StoreAddress, ...]:
        """The replicas: stores that the policy does not name."""
        named = named_by((self.policy,))
        return tuple(store for store in self.stores if store.name not in named)

    @property
    def readable(self) -> tuple[StoreAddress, ...]:
        """The stores from which readers of one store choose: all but the backups.

        A backup takes no messages until it is needed, and gets no more afterwards. It steps in only
        while members are left.
        """
        return tuple(store for store in self.stores if store.name not in self.policy.backups)

    @staticmethod
    def of(
        *groups: StoreGroup, rule: str | IntergroupRule = IntergroupRule.ANY, also: Stores = ()
    ) -> Layout:
        """Return the layout of these groups.

        - rule: how many of the groups must hold a message: any, majority, all-active, all.
        - also: the replicas.

        Raises InvalidArgument.
        """
        made, stores = [], []
        for group in groups:
            members = _addresses(f"group {group.name}, stores", group.stores)
            spares = _addresses(f"group {group.name}, backups", group.backups) or ()
            if not members:
                raise InvalidArgument(f"group {group.name}, stores", "none given")
            stores += [*members, *spares]
            made.append(
                Group(
                    group.name,
                    tuple(store.name for store in members),
                    choice_of(f"group {group.name}, rule", IntragroupRule, group.rule),
                    tuple(store.name for store in spares),
                )
            )
        check_distinct(stores)  # a policy knows only their names
        return Layout(
            Policy(tuple(made), choice_of("intergroup", IntergroupRule, rule)),
            (*stores, *_addresses("also", also)),
        )

    @staticmethod
    def plain(stores: Stores, policy: Policy | None = None, also: Stores = ()) -> Layout:
        """Return the layout of these stores under this policy, by default a majority of the stores.

        also: the replicas. Raises InvalidArgument.
        """
        addresses = _addresses("stores", stores)
        if not addresses:
            raise InvalidArgument("stores", "none given; name them as a=host:port,b=host:port,…")
        check_distinct(addresses)  # a policy knows only their names
        policy = policy or Policy.majority_of(store.name for store in addresses)
        return Layout(policy, (*addresses, *_addresses("also", also)))

    @staticmethod
    def from_toml(text: str) -> Layout:
        """Return the layout in a file as the command reads it too: stores, or [[groups]], and also.

        Other keys of the file are ignored. Raises ConfigurationInvalid with every problem.
        """
        # That module makes layouts, so it cannot be imported above.
        from quorate.protocol.layout_text import read_toml

        return read_toml(text)


def _addresses(where: str, stores: Stores) -> tuple[StoreAddress, ...]:
    if not isinstance(stores, str):
        return tuple(stores)
    if not stores.strip():
        return ()
    try:
        return parse_stores(stores)
    except InvalidArgument as error:
        raise InvalidArgument(where, error.detail) from None
