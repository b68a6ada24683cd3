"""How people write groups of stores: in code, as TOML, on the command line."""

from __future__ import annotations

import re
import tomllib

import pytest

from quorate.protocol.errors import ConfigurationInvalid, InvalidArgument
from quorate.protocol.identity import StoreAddress
from quorate.protocol.layout import Layout, StoreGroup
from quorate.protocol.layout_text import parse_group, read_layout
from quorate.protocol.policy import Group, IntergroupRule, IntragroupRule, Policy

LONDON = StoreGroup("london", "l1=h:1,l2=h:2,l3=h:3", "all-active", backups="l4=h:4")
POLICY = Policy(
    (
        Group("london", ("l1", "l2", "l3"), IntragroupRule.ALL_ACTIVE, ("l4",)),
        Group("paris", ("h:5",)),
    ),
    IntergroupRule.MAJORITY,
)


def test_groups_in_code() -> None:
    layout = Layout.of(LONDON, StoreGroup("paris", [StoreAddress("h:5", "h:5")]), rule="majority")
    assert layout.policy == POLICY
    assert layout.policy.backups == {"l4"}
    assert [store.address for store in layout.stores] == ["h:1", "h:2", "h:3", "h:4", "h:5"]


def test_nobody_reads_from_a_backup() -> None:
    layout = Layout.of(StoreGroup("stores", "a=a:1,b=b:1", backups="c=c:1"), also="d=d:1")
    assert [store.name for store in layout.readable] == ["a", "b", "d"]


def test_stores_alone_are_one_group() -> None:
    assert Layout.plain("h:1,h:2,h:3").policy == Policy.majority_of(("h:1", "h:2", "h:3"))


@pytest.mark.parametrize(
    ("groups", "path"),
    [
        ([StoreGroup("a", "h:1", "most")], "group a, rule"),
        ([StoreGroup("a", "h:1,nowhere")], "group a, stores"),
        ([StoreGroup("a", "")], "group a, stores"),
        ([StoreGroup("a", "h:1", backups="nowhere")], "group a, backups"),
        ([StoreGroup("a", "h:1"), StoreGroup("b", "h:1")], "stores"),
        ([StoreGroup("a", "x=h:1"), StoreGroup("b", "y=h:1")], "stores"),
        ([StoreGroup("a", "h:1"), StoreGroup("a", "h:2")], "policy"),
        ([], "policy"),
    ],
)
def test_what_makes_no_layout_is_refused(groups: list[StoreGroup], path: str) -> None:
    with pytest.raises(InvalidArgument) as raised:
        Layout.of(*groups)
    assert raised.value.argument == path


def test_a_policy_must_not_name_stores_that_are_nowhere() -> None:
    with pytest.raises(InvalidArgument, match="not given: b"):
        Layout.plain("a=h:1", Policy.majority_of("ab"))
    with pytest.raises(InvalidArgument, match="not given: c"):
        Layout.plain("a=h:1", Policy((Group("g", ("a",), backups=("c",)),)))


@pytest.mark.parametrize(
    ("text", "group"),
    [
        ("g=h:1", StoreGroup("g", "h:1")),
        ("g/all=a=h:1,b=h:2", StoreGroup("g", "a=h:1,b=h:2", "all")),
        ("g=h:1,h:2+h:3", StoreGroup("g", "h:1,h:2", backups="h:3")),
    ],
)
def test_groups_on_the_command_line(text: str, group: StoreGroup) -> None:
    assert Layout.of(parse_group(text)) == Layout.of(group)


@pytest.mark.parametrize("text", ["", "g", "g=", "g/=h:1", "g=h:1+", "=h:1"])
def test_what_is_no_group_on_the_command_line(text: str) -> None:
    with pytest.raises(InvalidArgument, match="not of the form"):
        parse_group(text)


def read(text: str) -> tuple[Layout | None, list[str]]:
    values = tomllib.loads(text)
    return read_layout(values.get("groups"), values.get("intergroup"))


def test_groups_in_a_file() -> None:
    layout, problems = read("""
        intergroup = "majority"
        [[groups]]
        name = "london"
        stores = ["l1=h:1", "l2=h:2", "l3=h:3"]
        rule = "all-active"
        backups = ["l4=h:4"]
        [[groups]]
        name = "paris"
        stores = ["h:5"]
    """)
    assert problems == []
    assert layout is not None
    assert layout.policy == POLICY
    assert len(layout.stores) == 5


def test_a_layout_from_text() -> None:
    assert Layout.from_toml('[[groups]]\nname = "a"\nstores = ["h:1"]').stores[0].address == "h:1"
    with pytest.raises(ConfigurationInvalid, match=r"groups\.0\.stores: must be given"):
        Layout.from_toml('[[groups]]\nname = "a"')
    with pytest.raises(ConfigurationInvalid, match="groups: must be given, or stores"):
        Layout.from_toml("")
    with pytest.raises(ConfigurationInvalid, match="line 1"):
        Layout.from_toml("what?")


def test_everything_that_is_wrong_with_a_file_is_said_at_once_with_its_path() -> None:
    layout, problems = read("""
        intergroup = "most"
        [[groups]]
        stores = ["h:1", "nowhere", 5]
        rule = "some"
        color = "red"
        [[groups]]
        name = "b"
        backups = "h:1"
    """)
    assert layout is None
    paths = [problem.partition(":")[0] for problem in problems]
    assert sorted(paths) == [
        "groups.0.color",
        "groups.0.name",
        "groups.0.rule",
        "groups.0.stores.1",
        "groups.0.stores.2",
        "groups.1.backups",
        "groups.1.stores",
        "intergroup",
    ]


def test_what_is_wrong_with_the_groups_together() -> None:
    layout, problems = read("""
        [[groups]]
        name = "a"
        stores = ["h:1"]
        [[groups]]
        name = "b"
        stores = ["h:1"]
    """)
    assert layout is None
    assert problems == ["groups: h:1 is given twice; name each store once"]
    assert read_layout({"name": "a"}, None)[1] == [
        "groups: is not a list of tables; write [[groups]]"
    ]


@pytest.mark.parametrize(
    ("one", "other", "why"),
    [
        ("a=h:1", "a=h:2", "stores: h:1 and h:2 are both called a; give each store a name"),
        ("a=h:1", "b=h:1", "stores: h:1 is given twice"),
    ],
)
def test_stores_with_one_name_or_one_address(one: str, other: str, why: str) -> None:
    stores = tuple(map(StoreAddress.parse, (one, other)))
    with pytest.raises(InvalidArgument, match=why):
        Layout.plain(stores)
    for groups in (
        [StoreGroup("g", stores)],
        [StoreGroup("g", one), StoreGroup("h", other)],
        [StoreGroup("g", one, backups=other)],
    ):
        with pytest.raises(InvalidArgument, match=why):
            Layout.of(*groups)


def test_replicas_stand_beside_the_policy() -> None:
    for layout in (
        Layout.plain("a=h:1,b=h:2", also="dr=h:9"),
        Layout.of(StoreGroup("g", "a=h:1,b=h:2"), also="dr=h:9"),
        Layout.from_toml('stores = ["a=h:1", "b=h:2"]\nalso = ["dr=h:9"]'),
        Layout.from_toml('also = ["dr=h:9"]\n[[groups]]\nname = "g"\nstores = ["a=h:1", "b=h:2"]'),
    ):
        assert layout.policy.stores == {"a", "b"}
        assert [store.name for store in layout.also] == ["dr"]
        assert [store.name for store in layout.stores] == ["a", "b", "dr"]
    backed = Layout.of(StoreGroup("g", "a=h:1", backups="b=h:2"))
    assert backed.also == ()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('also = ["dr=h:9"]', "also: needs stores, or [[groups]]"),
        ('stores = ["a=h:1"]\nalso = [7]', "also: "),
        ('stores = ["a=h:1"]\nalso = ["a=h:9"]', "a"),
    ],
)
def test_replicas_that_make_no_sense_are_refused(text: str, problem: str) -> None:
    with pytest.raises(ConfigurationInvalid, match=re.escape(problem)):
        Layout.from_toml(text)
