"""Flags win over variables, variables over the file; what is unknown is refused."""

import re
from pathlib import Path
from typing import Any

import pytest
from tests.test_documents import ROOT

from quorate.console.ui.exits import OUTPUT_KEY
from quorate.console.ui.output import Output
from quorate.console.ui.settings import check_variables, resolve
from quorate.protocol.errors import ConfigurationInvalid, InvalidArgument


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return {"XDG_CONFIG_HOME": str(tmp_path)}


def write(environment: dict[str, str], text: str) -> None:
    path = Path(environment["XDG_CONFIG_HOME"]) / "quorate" / "config.toml"
    path.parent.mkdir()
    path.write_text(text)


def addresses(stores: Any) -> list[str]:
    return [store.address for store in stores]


def test_each_layer_gives_way_to_the_one_before(environment: dict[str, str]) -> None:
    write(environment, 'stores = ["file:1", "file:2"]\noutput = "jsonl"\ntimeout = 3')
    assert addresses(resolve({}, environment=environment).stores) == ["file:1", "file:2"]
    environment["QUORATE_STORES"] = "env:1"
    environment["QUORATE_TIMEOUT"] = "4.5"
    settings = resolve({}, environment=environment)
    assert addresses(settings.stores) == ["env:1"]
    assert settings.timeout == 4.5
    assert settings.output is Output.JSONL
    settings = resolve({}, stores="a=flag:1", output=Output.JSON, environment=environment)
    assert addresses(settings.stores) == ["flag:1"]
    assert settings.stores[0].name == "a"
    assert settings.output is Output.JSON


def test_defaults(environment: dict[str, str]) -> None:
    settings = resolve({}, stores="a:1", environment=environment)
    assert settings.output is Output.TABLE
    assert settings.timeout == 30.0


def test_no_stores_is_a_usage_error_that_says_where_to_name_them(
    environment: dict[str, str],
) -> None:
    with pytest.raises(InvalidArgument, match=r"--stores .*, in QUORATE_STORES, .*config\.toml"):
        resolve({}, environment=environment)


def test_an_unknown_variable_is_refused_with_a_suggestion(environment: dict[str, str]) -> None:
    environment["QUORATE_STORE"] = "a:1"
    with pytest.raises(ConfigurationInvalid, match="did you mean QUORATE_STORES") as caught:
        resolve({}, environment=environment)
    assert "QUORATE_STORE" in caught.value.problems


def test_make_and_the_files_of_deploy_set_only_variables_that_are_known() -> None:
    """Stores that tests start would refuse any other one, and so would a service."""
    files = [ROOT / "Makefile", ROOT / ".ci" / "run"]
    files += [path for path in (ROOT / "deploy").rglob("*") if path.is_file()]
    text = "\n".join(path.read_text() for path in files)
    text = re.sub("#.*", "", text)
    names = set(re.findall(r"\bQUORATE_[A-Z_]+\b", text))
    assert names
    check_variables(dict.fromkeys(names, ""))


def test_every_problem_of_the_file_is_told_at_once(environment: dict[str, str]) -> None:
    write(environment, 'store = ["a:1"]\ntimeout = -1\noutput = "xml"')
    with pytest.raises(ConfigurationInvalid) as caught:
        resolve({}, stores="a:1", environment=environment)
    assert "store: unknown; did you mean stores?" in caught.value.problems
    assert "timeout: " in caught.value.problems
    assert "output: " in caught.value.problems


def test_a_file_that_is_named_must_exist(environment: dict[str, str], tmp_path: Path) -> None:
    environment["QUORATE_CONFIG"] = str(tmp_path / "nowhere.toml")
    with pytest.raises(ConfigurationInvalid, match="does not exist"):
        resolve({}, stores="a:1", environment=environment)


def test_a_file_that_is_not_toml_is_a_configuration_error(environment: dict[str, str]) -> None:
    write(environment, "stores: [a:1]")
    with pytest.raises(ConfigurationInvalid, match=r"config\.toml"):
        resolve({}, environment=environment)


def test_the_output_is_known_to_errors_even_when_settings_fail(
    environment: dict[str, str],
) -> None:
    environment["QUORATE_OUTPUT"] = "json"
    meta: dict[str, Any] = {}
    with pytest.raises(InvalidArgument):
        resolve(meta, environment=environment)
    assert meta[OUTPUT_KEY] is Output.JSON


GROUPS = """
    intergroup = "majority"
    [[groups]]
    name = "left"
    stores = ["a=file:1", "b=file:2", "c=file:3"]
    backups = ["d=file:4"]
    [[groups]]
    name = "right"
    stores = ["file:5"]
    rule = "all"
    [[previous]]
    stores = ["a=file:1", "b=file:2", "z=file:9"]
    [[previous]]
    [[previous.groups]]
    name = "old"
    stores = ["file:7"]
"""


def test_groups_in_the_file(environment: dict[str, str]) -> None:
    write(environment, GROUPS)
    settings = resolve({}, environment=environment)
    assert str(settings.layout.policy) == (
        "majority of left (quorum of a, b, c; backups d) and right (all of file:5)"
    )
    assert addresses(settings.stores) == [f"file:{n}" for n in range(1, 6)]
    assert [str(layout.policy) for layout in settings.previous] == [
        "stores (quorum of a, b, z)",
        "old (quorum of file:7)",
    ]


def test_groups_on_the_command_line_win_over_the_file(environment: dict[str, str]) -> None:
    write(environment, GROUPS)
    groups = ["x/all-active=flag:1,flag:2", "y=flag:3+flag:4"]
    settings = resolve({}, groups=groups, intergroup="all", environment=environment)
    assert str(settings.layout.policy) == (
        "all of x (all-active of flag:1, flag:2) and y (quorum of flag:3; backups flag:4)"
    )
    assert addresses(resolve({}, stores="flag:1", environment=environment).stores) == ["flag:1"]


def test_replicas_by_flag_and_in_the_file(environment: dict[str, str]) -> None:
    flags = resolve({}, stores="a=h:1", also="dr=h:9", environment=environment)
    assert addresses(flags.layout.also) == ["h:9"]
    grouped = resolve({}, groups=["g=a=h:1"], also="dr=h:9", environment=environment)
    assert addresses(grouped.layout.also) == ["h:9"]
    write(environment, 'stores = ["a=h:1"]\nalso = ["dr=h:9"]')
    assert addresses(resolve({}, environment=environment).layout.also) == ["h:9"]
    other = resolve({}, also="east=h:8,west=h:7", environment=environment).layout
    assert addresses(other.stores) == ["h:1", "h:8", "h:7"]
    assert addresses(other.also) == ["h:8", "h:7"]
    by_variable = resolve(
        {}, also="dr=h:9", environment={**environment, "QUORATE_STORES": "b=h:2"}
    ).layout
    assert addresses(by_variable.stores) == ["h:2", "h:9"]
    assert str(by_variable.policy) == "stores (quorum of b)"


@pytest.mark.parametrize(
    "flags",
    [
        {"stores": "a:1", "groups": ["g=a:1"]},
        {"intergroup": "all"},
        {"also": "dr=h:9"},
        {"stores": "a:1", "also": "h"},
        {"stores": "a=h:1", "also": "a=h:2"},
        {"groups": ["g=a:1"], "intergroup": "most"},
    ],
)
def test_flags_that_do_not_go_together(environment: dict[str, str], flags: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument):
        resolve({}, **flags, environment=environment)


def test_everything_wrong_with_groups_is_said_at_once(environment: dict[str, str]) -> None:
    write(
        environment,
        """
        stores = ["a:1"]
        timeout = -1
        [[groups]]
        name = "g"
        stores = ["a:1"]
        [[previous]]
        intergroup = "all"
        [[previous]]
        color = "red"
        [[previous]]
        [[previous.groups]]
        stores = ["nowhere"]
        """,
    )
    with pytest.raises(ConfigurationInvalid) as caught:
        resolve({}, environment=environment)
    paths = [line.strip().partition(":")[0] for line in caught.value.problems.splitlines()]
    assert sorted(paths) == [
        "previous.0.intergroup",
        "previous.1.color",
        "previous.1.stores",
        "previous.2.groups.0.name",
        "previous.2.groups.0.stores.0",
        "stores",
        "timeout",
    ]
