"""How people write a layout: as TOML in a file, as text on the command line.

The reader of a file collects every problem, each with the path of its key. The values themselves
are in quorate.protocol.layout.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from quorate.protocol.choices import choice_of, did_you_mean
from quorate.protocol.errors import ConfigurationInvalid, InvalidArgument
from quorate.protocol.identity import StoreAddress, parse_stores
from quorate.protocol.layout import Layout, StoreGroup
from quorate.protocol.policy import IntergroupRule, IntragroupRule
from quorate.protocol.toml import values_of

R = TypeVar("R", IntergroupRule, IntragroupRule)

# On the command line: NAME[/RULE]=STORES[+BACKUPS]


def parse_group(text: str) -> StoreGroup:
    """Return the group of a text `name[/rule]=host:port,…[+host:port,…]`.

    The backups stand behind the plus sign. Raises InvalidArgument.
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


# As TOML: stores = […], or [[groups]] with name, stores, rule, backups; intergroup = "…". Beside
# either: also = […], the replicas.


def read_toml(text: str) -> Layout:
    """Return the layout of a file's text. Raises ConfigurationInvalid with every problem."""
    try:
        values = values_of(text)
    except ValueError as error:
        raise ConfigurationInvalid("of groups", f"  {error}") from None
    layout, problems = read_layout_keys(values)
    if layout is None:
        problems = problems or ["groups: must be given, or stores"]
        raise ConfigurationInvalid("of groups", "\n".join(f"  {each}" for each in problems))
    return layout


LAYOUT_KEYS = ("stores", "groups", "intergroup", "also")
"""The keys of a layout, in a file or in a table of [[previous]]."""


def read_layout_keys(values: Mapping[str, Any], where: str = "") -> tuple[Layout | None, list[str]]:
    """Return the layout of the key `stores` or `groups`, and every problem with its path.

    The layout is None if there are problems, or neither key. where: the prefix of the paths.
    """
    try:
        also = read_stores(values["also"]) if "also" in values else ()
    except InvalidArgument as error:
        return None, [f"{where}also: {error.detail}"]
    if "groups" not in values:
        problems = [
            f"{where}{key}: needs {needed}"
            for key, needed in (
                ("intergroup", f"[[{where}groups]]"),
                ("also", f"{where}stores, or [[{where}groups]]"),
            )
            if key in values and (key == "intergroup" or "stores" not in values)
        ]
        if "stores" not in values or problems:
            return None, problems
        try:
            return Layout.plain(read_stores(values["stores"]), also=also), []
        except InvalidArgument as error:
            return None, [f"{where}stores: {error.detail}"]
    if "stores" in values:
        return None, [
            f"{where}stores: cannot stand beside [[{where}groups]]; name the stores in a group"
        ]
    return read_layout(values["groups"], values.get("intergroup"), where, also)


def read_previous(values: Any) -> tuple[tuple[Layout, ...], list[str]]:
    """Return earlier layouts, each a table with stores, or with groups and intergroup.

    Also return every problem with its path.
    """
    if not isinstance(values, list) or not all(isinstance(value, Mapping) for value in values):
        return (), ["previous: is not a list of tables; write [[previous]] first"]
    layouts: list[Layout] = []
    problems: list[str] = []
    for number, value in enumerate(values):
        where = f"previous.{number}."
        problems += [
            f"{where}{key}: unknown{did_you_mean(key, LAYOUT_KEYS)}"
            for key in value
            if key not in LAYOUT_KEYS
        ]
        layout, wrong = read_layout_keys(value, where)
        problems += wrong
        if layout is not None:
            layouts.append(layout)
        elif not wrong:
            problems.append(f"{where}stores: must be given, or [[previous.groups]]")
    return tuple(layouts), problems


def read_stores(value: Any) -> tuple[StoreAddress, ...]:
    """Return the stores of a text, or of a list of texts. Raises InvalidArgument."""
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        value = ",".join(value)
    if not isinstance(value, str):
        raise InvalidArgument("stores", f"{value!r} is not a list of name=host:port")
    return parse_stores(value)


def read_layout(
    groups: Any, intergroup: Any, where: str = "", also: tuple[StoreAddress, ...] = ()
) -> tuple[Layout | None, list[str]]:
    """Return the layout that a file's values make, or None and every problem with its path.

    - groups: the list of tables.
    - intergroup: the rule over them; None stands for `any`.
    - where: the prefix of their paths.
    - also: the replicas.
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
        return Layout.of(*made, rule=rule, also=also), []
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
    try:
        return choice_of(where, kind, value)
    except InvalidArgument as error:
        problems.append(f"{where}: {error.detail}")
        return None
