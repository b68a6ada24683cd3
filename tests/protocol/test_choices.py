"""An enum's member and its text mean the same in every option."""

from __future__ import annotations

import dataclasses
import enum
from typing import Any, get_args, get_type_hints

import pytest

from quorate.protocol.choices import choice_of, some_of
from quorate.protocol.errors import InvalidArgument
from quorate.protocol.layout import Layout, StoreGroup
from quorate.protocol.policy import Group, IntergroupRule, IntragroupRule, Policy
from quorate.receiver import Delivery, ReceiverOptions
from quorate.source import SourceOptions


def enums_of(options: type) -> list[tuple[type, str, type[enum.Enum]]]:
    """The fields of options that are enums, with the enum of each."""
    return [
        (options, field.name, kind)
        for field in dataclasses.fields(options)
        for kind in get_args(get_type_hints(options)[field.name])
        if isinstance(kind, type) and issubclass(kind, enum.Enum)
    ]


FIELDS = [*enums_of(SourceOptions), *enums_of(ReceiverOptions)]


@pytest.mark.parametrize(("options", "name", "kind"), FIELDS)
def test_each_field_takes_both(options: Any, name: str, kind: type[enum.Enum]) -> None:
    for member in kind:
        assert getattr(options(**{name: member}), name) is member
        assert getattr(options(**{name: member.value}), name) is member
    with pytest.raises(InvalidArgument, match=f"^{name}: 'neither' is none of "):
        options(**{name: "neither"})


def test_there_are_such_fields() -> None:
    assert {name for _, name, _ in FIELDS} == {
        "compression",
        "confirm_delivery",
        "consensus",
        "flight_behaviour",
        "stability_events",
        "without_quorum",
    }


@pytest.mark.parametrize("options", [SourceOptions, ReceiverOptions])
def test_no_field_takes_only_the_member(options: type) -> None:
    for name, kind in get_type_hints(options).items():
        assert not (isinstance(kind, type) and issubclass(kind, enum.Enum)), name


def test_a_layout_takes_both() -> None:
    assert Layout.of(StoreGroup("g", "h:1", "all"), rule="majority") == Layout.of(
        StoreGroup("g", "h:1", IntragroupRule.ALL), rule=IntergroupRule.MAJORITY
    )


@pytest.mark.parametrize("rule", IntragroupRule)
def test_a_group_takes_both(rule: IntragroupRule) -> None:
    written = Group("g", ("a", "b", "c"), rule=rule.value)
    assert written.rule is rule
    assert written == Group("g", ("a", "b", "c"), rule=rule)
    assert str(written) == f"g ({rule.value} of a, b, c)"
    assert Policy((written,)).stable({"a", "b"}) == (rule is not IntragroupRule.ALL)


@pytest.mark.parametrize("rule", IntergroupRule)
def test_a_policy_takes_both(rule: IntergroupRule) -> None:
    groups = (Group("g", ("a",)), Group("h", ("b",)), Group("i", ("c",)))
    written = Policy(groups, rule=rule.value)
    assert written.rule is rule
    assert written == Policy(groups, rule=rule)
    assert written.stable({"a", "b"}) == (rule is not IntergroupRule.ALL)
    assert str(written).startswith(f"{rule.value} of g (")


def test_a_rule_that_is_neither() -> None:
    group = Group("g", ("a",))
    with pytest.raises(InvalidArgument, match=r"^rule: 'most' is none of quorum, all-active, all"):
        Group("g", ("a",), rule="most")
    with pytest.raises(InvalidArgument, match=r"^rule: 'most' is none of any, majority, all-act"):
        Policy((group,), rule="most")


def test_what_is_neither() -> None:
    with pytest.raises(InvalidArgument, match=r"^delivery: 'soon' is none of live, stable\.$"):
        choice_of("delivery", Delivery, "soon")


def test_of_many_known_names_a_few_are_shown_the_likely_ones_first() -> None:
    known = [f"topic-{number:03}" for number in range(99)] + ["orders"]
    shown = some_of(known, "order")
    assert shown.startswith("orders, topic-000, ")
    assert shown.endswith("topic-008 and 90 more")
    assert some_of(["b", "a"], "c") == "b, a"
    assert some_of([], "c") == ""
