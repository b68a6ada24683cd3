"""Operators and functions that docs/replay.md lists are those of the code; examples hold."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.protocol.filters.messages import Seen, passes

from quorate.protocol.filters.evaluate import Filter
from quorate.protocol.filters.functions import FUNCTIONS, NOT_SUPPORTED, OF_PATTERNS

GRAMMAR = Path(__file__).parents[3] / "proto" / "quorate" / "protocol" / "filters" / "filter.lark"
DOCUMENT = (Path(__file__).parents[3] / "docs" / "replay.md").read_text()
SECTION = DOCUMENT[DOCUMENT.index("## Operators and functions of filters") :]
OPERATORS, CALLS, ABSENT = SECTION.split("|---|---|")[1:]
"""The tables of operators, of functions, and of those that are not supported."""


def spans(text: str) -> list[str]:
    return re.findall(r"`([^`]+)`", text)


def operators() -> list[tuple[list[str], str]]:
    """The operators and the example of each row."""
    rows = (row.split(" | ") for row in OPERATORS.split("\n\n")[0].splitlines()[1:])
    return [(spans(names), spans(example)[0]) for names, example, _ in rows]


CALLED = spans(CALLS.split("\n\n")[0])


@pytest.mark.parametrize("example", [*(example for _, example in operators()), *CALLED])
def test_each_example_is_true(example: str) -> None:
    assert passes(Filter(example), Seen({}))


def test_each_function_has_an_example_and_no_other_one() -> None:
    names = {name for each in CALLED for name in re.findall(r"([A-Z_0-9]+)\(", each)}
    assert names == {*FUNCTIONS, *OF_PATTERNS}


def test_each_function_that_is_not_supported_is_named() -> None:
    named = {each for row in ABSENT.splitlines() for each in spans(row.split(" | ")[0])}
    assert named == set(NOT_SUPPORTED)


def test_each_operator_is_in_the_list_and_in_its_example() -> None:
    listed = {name for names, _ in operators() for name in names}
    words = {word for name in listed for word in name.split() if word.isalpha()}
    grammar = GRAMMAR.read_text()
    values = {"TRUE", "FALSE"}
    parts_of_others = {"ESCAPE"}
    assert words == set(re.findall(r'"([A-Z]+)"i', grammar)) - values - parts_of_others
    signs = {name for name in listed if not name[0].isalpha()}
    assert signs == set(re.findall(r'"([-+*/%=<>!]+)"', grammar)) - {'"'}
    for names, example in operators():
        assert any(set(name.split()) <= set(example.split()) for name in names)
