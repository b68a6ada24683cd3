"""docs/policies.md says what is: its tables are counted, its three ways to write a layout agree."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Set
from itertools import combinations
from pathlib import Path

from tests.documents import Document

from quorate.console.ui.settings import resolve
from quorate.source import Group, IntergroupRule, IntragroupRule, Layout, Policy

PAGE = Document("policies")


def rule_of(cell: str) -> str:
    (name,) = re.findall(r"^`([\w-]+)`", cell)
    return str(name)


def sends(policy: Policy, up: Set[str]) -> bool:
    return policy.stable(up, up)


def starts(policy: Policy, up: Set[str]) -> bool:
    return policy.stable(up, up) and policy.blocks(up)


def may_be_down(
    policy: Policy, units: Iterable[Iterable[str]], enough: Callable[[Policy, Set[str]], bool]
) -> int:
    """How many of these units may be down, whichever they are."""
    units = [frozenset(unit) for unit in units]
    for count in range(1, len(units) + 1):
        for down in combinations(units, count):
            if not enough(policy, policy.stores - frozenset().union(*down)):
                return count - 1
    return len(units)


def test_what_a_group_survives() -> None:
    rows = PAGE.table("`rule`")
    assert [rule_of(row[0]) for row in rows] == [rule.value for rule in IntragroupRule]
    for row in rows:
        for size, said in zip((3, 4, 5), row[2:], strict=True):
            stores = tuple("abcde"[:size])
            policy = Policy((Group("one", stores, IntragroupRule(rule_of(row[0]))),))
            for enough in (sends, starts):
                assert may_be_down(policy, stores, enough) == int(said), (row[0], size)


def test_what_several_groups_survive() -> None:
    rows = PAGE.table("`intergroup`")
    assert [rule_of(row[0]) for row in rows] == [rule.value for rule in IntergroupRule]
    groups = tuple(Group(name, tuple(f"{name}{n}" for n in range(3))) for name in "xyz")
    for row in rows:
        policy = Policy(groups, IntergroupRule(rule_of(row[0])))
        each = [[store] for store in policy.stores]
        whole = [group.stores for group in groups]
        counted = [
            may_be_down(policy, units, enough)
            for units in (each, whole)
            for enough in (sends, starts)
        ]
        assert counted == [int(said) for said in row[2:]], row[0]


def test_two_locations_are_never_enough() -> None:
    """No rule over two groups lets a source start without the one and without the other."""
    for rule in IntergroupRule:
        for within in IntragroupRule:
            groups = tuple(
                Group(name, tuple(f"{name}{n}" for n in range(3)), within) for name in "xy"
            )
            policy = Policy(groups, rule)
            assert may_be_down(policy, [group.stores for group in groups], starts) == 0


def test_a_layout_is_the_same_however_it_is_written(tmp_path: Path) -> None:
    names: dict[str, Layout] = {}
    exec(PAGE.blocks("python")[0], names)
    layout = Layout.from_toml(PAGE.blocks("toml")[0])
    assert names["layout"] == layout
    spares = [group.backups for group in layout.policy.groups]
    assert spares == [("london-4",), (), ()], "which are not compared with the rest of a policy"
    assert [group.backups for group in names["layout"].policy.groups] == spares

    (command,) = PAGE.blocks("console")[0].replace("\\\n", "").splitlines()
    _, name, _, *options = shlex.split(command.removeprefix("$ "))
    given = [options[n + 1] for n, option in enumerate(options) if option == "--group"]
    intergroup = options[options.index("--intergroup") + 1]
    nowhere = tmp_path / "config.toml"
    nowhere.write_text("")
    settings = resolve(
        {}, groups=given, intergroup=intergroup, environment={"QUORATE_CONFIG": str(nowhere)}
    )
    assert (name, settings.layout) == ("send", layout)
