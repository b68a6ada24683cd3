"""Which stores a source deals with, and where they are."""

from __future__ import annotations

import pytest
from tests.source.core_support import STORES

from quorate.protocol.errors import InvalidArgument
from quorate.protocol.layout import Layout
from quorate.source.protocol.store_addresses import Roster


def roster() -> Roster:
    return Roster(STORES, [Layout.plain("b=old:1,d=d:1")])


def test_the_present_configuration_says_where_a_store_is() -> None:
    assert roster().addresses == {"a": "a:1", "b": "b:1", "c": "c:1", "d": "d:1"}


def test_it_deals_with_those_that_are_wanted_and_known() -> None:
    subject = roster()
    assert subject.deal_with(["a", "x", "b"]) == []
    assert (list(subject.stores), subject.version) == (["a", "b"], 1)
    assert subject.deal_with(["a", "b", "y"]) is None
    assert subject.deal_with(["b", "d"]) == ["a"]
    assert (list(subject.stores), subject.version) == (["b", "d"], 2)


def test_it_learns_where_others_are_but_not_another_name_for_one() -> None:
    subject = roster()
    subject.learn([("x", "x:1"), ("y", ""), ("a", "elsewhere:1")])
    assert subject.deal_with(["x", "y", "a"]) == []
    assert subject.addresses["x"] == "x:1"
    assert subject.addresses["a"] == "a:1", "what is configured holds"
    with pytest.raises(InvalidArgument, match="x:1 is called x here and z by the policy") as raised:
        subject.learn([("z", "x:1")])
    assert "call it z here, too." in str(raised.value)
    with pytest.raises(InvalidArgument, match=r"leave its name out here. .* in previous_policies"):
        subject.learn([("x:1", "x:1")])


@pytest.mark.parametrize("earlier", ["x=c:1,b=b:1", "c:1,a:1"])
def test_an_earlier_configuration_calls_a_store_as_the_present_one_does(earlier: str) -> None:
    with pytest.raises(InvalidArgument, match=r"previous_policies: c:1 is called .* and c in"):
        Roster(STORES, [Layout.plain(earlier)])


def test_stores_of_earlier_configurations_may_have_moved() -> None:
    moved = Roster(STORES, [Layout.plain("a=b:1,b=c:1,c=old:1")])
    assert moved.addresses == {"a": "a:1", "b": "b:1", "c": "c:1"}
