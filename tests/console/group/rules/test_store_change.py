"""The policy that a change of the stores leads to, and the lines of configuration for it."""

from __future__ import annotations

import pytest

from quorate.console.group.rules.store_change import StoreChange, layout_lines
from quorate.protocol.errors import InvalidArgument
from quorate.protocol.identity import StoreAddress
from quorate.protocol.layout import Layout
from quorate.protocol.layout_text import read_previous
from quorate.protocol.policy import Group, IntergroupRule, IntragroupRule, Policy
from quorate.protocol.toml import values_of

ABC = Policy.majority_of("abc")
TWO = Policy(
    (
        Group("here", ("a", "b"), IntragroupRule.ALL_ACTIVE, ("x",)),
        Group("there", ("c",)),
    ),
    IntergroupRule.ALL_ACTIVE,
)
D = StoreAddress("d", "d.example:7301")
ADDRESSES = {name: f"{name}.example:7301" for name in "abcdx"}


def test_a_store_that_comes_is_the_last_one_of_its_group() -> None:
    assert StoreChange(new=D).target(ABC, ()) == Policy.majority_of("abcd")
    target = StoreChange(new=D, group="there").target(TWO, ())
    assert [group.stores for group in target.groups] == [("a", "b"), ("c", "d")]
    assert target.rule is IntergroupRule.ALL_ACTIVE


@pytest.mark.parametrize(("group", "why"), [("", "must name one of"), ("z", "'z' is none of")])
def test_of_several_groups_one_has_to_be_named(group: str, why: str) -> None:
    with pytest.raises(InvalidArgument, match=f"{why} here, there"):
        StoreChange(new=D, group=group).target(TWO, ())


def test_a_store_leaves_its_group_and_an_empty_group_goes_with_it() -> None:
    assert StoreChange(old="c").target(ABC, {"c"}) == Policy.majority_of("ab")
    target = StoreChange(old="c").target(TWO, {"c"})
    assert [group.name for group in target.groups] == ["here"]
    assert StoreChange(old="x").target(TWO, {"x"}).backups == frozenset()
    with pytest.raises(InvalidArgument, match="a is the last store of"):
        StoreChange(old="a").target(Policy.majority_of("a"), {"a"})


def test_a_store_takes_the_place_of_another_one_also_as_a_backup() -> None:
    assert StoreChange(old="b", new=D).target(ABC, {"b"}).groups[0].stores == ("a", "d", "c")
    assert StoreChange(old="x", new=D).target(TWO, {"x"}).groups[0].backups == ("d",)


def test_a_store_that_keeps_its_name_changes_no_policy() -> None:
    moved = StoreChange(old="c", new=StoreAddress("c", "elsewhere.example:7301"))
    assert moved.target(ABC, {"c"}) is ABC


def test_a_store_that_policies_call_otherwise_is_meant_by_its_own_name() -> None:
    by_address = Policy.majority_of(("10.0.0.1:1", "10.0.0.2:1"))
    target = StoreChange(old="a").target(by_address, {"10.0.0.1:1"})
    assert target == Policy.majority_of(("10.0.0.2:1",))


@pytest.mark.parametrize("policy", [ABC, TWO])
def test_the_lines_are_read_as_the_same_layout(policy: Policy) -> None:
    text = "\n".join([*layout_lines(policy, ADDRESSES), *layout_lines(ABC, ADDRESSES, "previous")])
    layout = Layout.from_toml(text)
    assert layout.policy == policy
    assert layout.policy.backups == policy.backups
    assert {each.name: each.address for each in layout.stores}.items() <= ADDRESSES.items()
    (previous,), problems = read_previous(values_of(text)["previous"])
    assert (previous.policy, problems) == (ABC, [])


def test_a_group_as_previous_layout_is_read_too() -> None:
    lines = [*layout_lines(ABC, ADDRESSES), *layout_lines(TWO, ADDRESSES, "previous")]
    (previous,), problems = read_previous(values_of("\n".join(lines))["previous"])
    assert (previous.policy, problems) == (TWO, [])


def test_a_store_without_a_name_is_written_as_its_address() -> None:
    policy = Policy.majority_of(("10.0.0.1:1",))
    assert layout_lines(policy, {"10.0.0.1:1": "10.0.0.1:1"}) == ['stores = ["10.0.0.1:1"]']
