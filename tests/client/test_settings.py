"""The ways to say which stores there are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from quorate.client import Layout, StoreAddress, StoreGroup, connect, connect_blocking
from quorate.client.settings import read_layout
from quorate.errors import ConfigurationInvalid, InvalidArgument

THREE = "a=h1:7301,b=h2:7301,c=h3:7301"
TOML = """
intergroup = "majority"

[[groups]]
name = "london"
stores = ["a=h1:7301", "b=h2:7301", "c=h3:7301"]
"""


@pytest.mark.parametrize(
    "given",
    [
        THREE,
        THREE.split(","),
        [StoreAddress.parse(store) for store in THREE.split(",")],
        Layout.plain(THREE),
    ],
    ids=["text", "texts", "addresses", "layout"],
)
def test_a_majority_of_stores(given: object) -> None:
    assert read_layout(given) == Layout.plain(THREE)  # type: ignore[arg-type]


def test_a_file(tmp_path: Path) -> None:
    file = tmp_path / "stores.toml"
    file.write_text(TOML)
    layout = Layout.of(StoreGroup("london", THREE), rule="majority")
    assert read_layout(file) == read_layout(str(file)) == layout


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationInvalid, match=r"none\.toml is not valid:\n  No such file"):
        connect(tmp_path / "none.toml")


@pytest.mark.parametrize("wrong", ["", "h1", [], ["a=h1:1", "a=h2:1"], "a=h1:1,b=h1:1"])
def test_what_is_no_list_of_stores(wrong: str) -> None:
    with pytest.raises(InvalidArgument, match="store"):
        connect(wrong)
    with pytest.raises(InvalidArgument, match="store"):
        connect_blocking(wrong)
    with pytest.raises(InvalidArgument, match="store"):
        connect(THREE, previous_policies=[wrong])


@pytest.mark.parametrize("seconds", [-1, float("nan"), "1"])
def test_what_is_no_timeout(seconds: Any) -> None:
    with pytest.raises(InvalidArgument, match="timeout"):
        connect(THREE, timeout=seconds)
