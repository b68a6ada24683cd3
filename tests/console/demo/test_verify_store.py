"""The verifier must say so whenever a store holds anything but the input."""

from collections.abc import Callable

import pytest

from quorate.console.demo.verify_store import Contents, verify_stores
from quorate.protocol.identity import SourceName
from quorate.protocol.lineage import Lineage, Term

SESSION = 7
SOURCE = SourceName("one", SESSION)
EXPECTED = {"one": [f"content-{number}" for number in range(20)]}
LINEAGE = Lineage((Term(1, 0), Term(2, 12)))

Stores = dict[str, dict[SourceName, Contents]]


def stores() -> Stores:
    return {
        name: {SOURCE: Contents(LINEAGE, list(enumerate(EXPECTED["one"])))} for name in ("a", "b")
    }


def problems(contents: Stores) -> list[str]:
    verdicts, among = verify_stores(contents, EXPECTED, SESSION)
    return [text for verdict in verdicts for text in verdict.problems.shown] + among.shown


def test_stores_that_hold_the_input_are_good() -> None:
    verdicts, among = verify_stores(stores(), EXPECTED, SESSION)
    assert among.count == 0
    assert [(each.messages, each.epochs, each.problems.count) for each in verdicts] == [
        (20, 2, 0),
        (20, 2, 0),
    ]


def hole(messages: list[tuple[int, str]]) -> None:
    del messages[5:8]


def missing_end(messages: list[tuple[int, str]]) -> None:
    messages.pop()


def altered(messages: list[tuple[int, str]]) -> None:
    messages[4] = (4, "tampered")


def twice(messages: list[tuple[int, str]]) -> None:
    messages.insert(4, messages[3])


def too_much(messages: list[tuple[int, str]]) -> None:
    messages.append((20, "extra"))


@pytest.mark.parametrize(
    ("tamper", "says"),
    [
        (hole, "b: one/0x7 lacks [5, 7]"),
        (missing_end, "b: one/0x7 lacks [19, 19]"),
        (altered, "b: one/0x7 has other content under 4 than the input"),
        (twice, "b: one/0x7 has 3 twice or out of order"),
        (too_much, "b: one/0x7 has 20, which was never published"),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_tampering_is_seen(tamper: Callable[[list[tuple[int, str]]], None], says: str) -> None:
    contents = stores()
    tamper(contents["b"][SOURCE].messages)
    found = problems(contents)
    assert says in found
    assert any("a and b differ in one/0x7" in text for text in found)


def test_a_store_without_the_source_is_seen() -> None:
    contents = stores()
    contents["b"].clear()
    assert "b: it does not know one/0x7" in problems(contents)


def test_a_store_with_another_lineage_is_seen() -> None:
    contents = stores()
    contents["b"][SOURCE].lineage = Lineage((Term(1, 0),))
    assert problems(contents) == ["a and b differ in the lineage of one/0x7"]


def test_a_source_that_never_was_is_seen() -> None:
    contents = stores()
    contents["b"][SourceName("one", 8)] = Contents(LINEAGE)
    assert problems(contents) == ["b: it holds one/0x8, which was never published"]


def test_a_corrupt_batch_is_seen() -> None:
    contents = stores()
    contents["b"][SOURCE].corrupt.append("a batch is corrupt")
    assert problems(contents) == ["b: a batch is corrupt"]
