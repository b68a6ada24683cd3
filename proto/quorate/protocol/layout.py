"""Layouts: the groups of stores that make a stream stable, with where each store is.

How people write them: in code, as TOML, on the command line. Everything that is wrong with one is
said at once, with the path of each key. What a policy means is in quorate.protocol.policy.
"""

from __future__ import annotations

import enum
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from quorate.protocol.errors import ConfigurationInvalid, InvalidArgument
from quorate.protocol.identity import StoreAddress, parse_stores
from quorate.protocol.policy import Group, IntergroupRule, IntragroupRule, Policy

Stores = str | Sequence[StoreAddress]
"""`[name=]host:port[#reg_id],…`, or the same taken apart."""

R = TypeVar("R", bound=enum.Enum)


@dataclass(frozen=True, slots=True)
class StoreGroup:
    """One group of a layout: its members, its rule, and its spares."""

    name: str
    stores: Stores
    """The members."""
    rule: str | IntragroupRule = IntragroupRule.QUORUM
    """How many of them must hold a message: quorum, all-active, all."""
    backups: Stores = ()
    """Stores that stand in, in this order, for members that do not answer."""


@dataclass(frozen=True, slots=True)
class Layout:
    """A policy, and where the stores are that it names, its backups too."""

    policy: Policy
    stores: tuple[StoreAddress, ...]

    def __post_init__(self) -> None:
        names = {store.name for store in self.stores}
        addresses = {store.address for store in self.stores}
        if len(names) < len(self.stores) or len(addresses) < len(self.stores):
            raise InvalidArgument("stores", "a store is named twice")
        unknown = (self.policy.stores | self.policy.backups) - names
        if unknown:
            raise InvalidArgument(
                "policy", f"names stores that are not given: {', '.join(sorted(unknown))}"
            )

    @staticmethod
    def of(*groups: StoreGroup, rule: str | IntergroupRule = IntergroupRule.ANY) -> Layout:
        """The layout of these groups.

        rule: how many of the groups must hold a message: any, majority, all-active, all.
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
                    _rule(f"group {group.name}, rule", IntragroupRule, group.rule),
                    tuple(store.name for store in spares),
                )
            )
        return Layout(Policy(tuple(made), _rule("intergroup", IntergroupRule, rule)), tuple(stores))

    @staticmethod
    def plain(stores: Stores, policy: Policy | None = None) -> Layout:
        """These stores under that policy; without one, a majority of them makes stable.

        Raises InvalidArgument.
        """
        addresses = _addresses("stores", stores)
        if not addresses:
            raise InvalidArgument("stores", "none given; name them as host:port,host:port,…")
        policy = policy or Policy.majority_of(store.name for store in addresses)
        return Layout(policy, addresses)

    @staticmethod
    def from_toml(text: str) -> Layout:
        """The layout in a file that the command can read, too: [[groups]] and intergroup.

        Raises ConfigurationInvalid with every problem; other keys are not looked at.
        """
        try:
            values = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise ConfigurationInvalid("of groups", f"  {error}") from None
        layout, problems = read_layout(values.get("groups", []), values.get("intergroup"))
        if layout is None:
            raise ConfigurationInvalid("of groups", "\n".join(f"  {each}" for each in problems))
        return layout


def _addresses(where: str, stores: Stores) -> tuple[StoreAddress, ...]:
    if not isinstance(stores, str):
        return tuple(stores)
    if not stores.strip():
        return ()
    try:
        return parse_stores(stores)
    except InvalidArgument as error:
        raise InvalidArgument(where, error.detail) from None


def _rule(where: str, kind: type[R], value: object) -> R:
    try:
        return kind(value)
    except ValueError:
        known = ", ".join(str(rule.value) for rule in kind)
        raise InvalidArgument(where, f"{value!r} is none of {known}") from None


# On the command line: NAME[/RULE]=STORES[+BACKUPS]


def parse_group(text: str) -> StoreGroup:
    """`name[/rule]=host:port,…[+host:port,…]`, the backups behind the plus sign.

    Raises InvalidArgument.
    """
    match = re.fullmatch(
        r"\s*(?P<name>[\w.-]+)(?:/(?P<rule>[\w-]+))?=(?P<stores>[^+]+)(?:\+(?P<backups>[^+]+))?",
        text,
    )
    if match is None:
        raise InvalidArgument(
            "group",
            f"{text!r} is not of the form name[/rule]=host:port,…[+backups], as "
            "london/quorum=l1=10.0.0.1:7301,l2=10.0.0.2:7301,l3=10.0.0.3:7301+l4=10.0.0.4:7301",
        )
    return StoreGroup(
        match["name"], match["stores"], match["rule"] or "quorum", match["backups"] or ""
    )


# As TOML: [[groups]] with name, stores, rule, backups; intergroup = "…"


def read_layout(groups: Any, intergroup: Any, where: str = "") -> tuple[Layout | None, list[str]]:
    """The layout that a file's values make; or None and every problem, each with its path.

    groups: the list of tables; intergroup: the rule over them, None for `any`; where: what comes
    in front of their paths.
    """
    problems: list[str] = []
    made: list[StoreGroup] = []
    if not isinstance(groups, list) or not all(isinstance(group, Mapping) for group in groups):
        return None, [f"{where}groups: is not a list of tables; write [[{where}groups]]"]
    for number, group in enumerate(groups):
        made += _read_group(group, f"{where}groups.{number}", problems)
    rule = IntergroupRule.ANY
    if intergroup is not None:
        rule = _tried(f"{where}intergroup", problems, IntergroupRule, intergroup) or rule
    if problems:
        return None, problems
    try:
        return Layout.of(*made, rule=rule), []
    except InvalidArgument as error:
        return None, [f"{where}groups: {error.detail}"]


_GROUP_KEYS = ("name", "stores", "rule", "backups")


def _read_group(group: Mapping[str, Any], path: str, problems: list[str]) -> Iterable[StoreGroup]:
    before = len(problems)
    problems += [
        f"{path}.{key}: unknown; known are {', '.join(_GROUP_KEYS)}"
        for key in group
        if key not in _GROUP_KEYS
    ]
    name = group.get("name")
    if not isinstance(name, str) or not name:
        problems.append(f"{path}.name: must be given, as text")
    stores = _read_stores(group, "stores", path, problems)
    if not stores and "stores" not in group:
        problems.append(f"{path}.stores: must be given, as a list of [name=]host:port")
    backups = _read_stores(group, "backups", path, problems)
    rule = IntragroupRule.QUORUM
    if "rule" in group:
        rule = _tried(f"{path}.rule", problems, IntragroupRule, group["rule"]) or rule
    return [StoreGroup(str(name), stores, rule, backups)] if len(problems) == before else []


def _read_stores(
    group: Mapping[str, Any], key: str, path: str, problems: list[str]
) -> tuple[StoreAddress, ...]:
    stores: list[StoreAddress] = []
    value = group.get(key, [])
    if not isinstance(value, list):
        problems.append(f"{path}.{key}: is not a list of [name=]host:port")
        return ()
    for number, text in enumerate(value):
        try:
            stores.append(StoreAddress.parse(text if isinstance(text, str) else repr(text)))
        except InvalidArgument as error:
            problems.append(f"{path}.{key}.{number}: {error.detail}")
    return tuple(stores)


def _tried(where: str, problems: list[str], kind: type[R], value: object) -> R | None:
    make: Callable[[str, type[R], object], R] = _rule
    try:
        return make(where, kind, value)
    except InvalidArgument as error:
        problems.append(f"{where}: {error.detail}")
        return None
