"""Which answers are of a data directory that is not its store's present one, as they say."""

from __future__ import annotations

from quorate.protocol.incarnations import Incarnations, Word, replaced
from quorate.v1.store_pb2 import StoreReplaced


def word(store: str, disk: str, *former: str, **others: tuple[str, ...]) -> Word:
    """Of a store with this disk. others: what it says of other stores' present and former ones."""
    told = [StoreReplaced(store_name=store, former=map(str.encode, former))]
    for name, (present, *before) in others.items():
        told.append(
            StoreReplaced(
                store_name=name, incarnation=present.encode(), former=map(str.encode, before)
            )
        )
    return Word(disk.encode(), tuple(told))


def test_a_store_has_the_name_that_it_says_itself() -> None:
    assert word("a", "disk of a", b=("disk of b",)).store_name == "a"
    assert Word().store_name == ""


def test_those_that_agree_are_all_present() -> None:
    words = {
        "1": word("a", "disk of a", b=("disk of b",)),
        "2": word("b", "disk of b", a=("disk of a",)),
    }
    assert replaced(words) == set()


def test_who_says_nothing_of_itself_is_believed() -> None:
    assert replaced({"1": Word(b"disk of a"), "2": word("b", "disk of b"), "3": Word()}) == set()


def test_one_that_another_knows_as_a_former_one_does_not_count() -> None:
    """Whatever it is called by who asks."""
    former, a = word("c", "disk of c"), word("a", "disk of a", c=("copy", "disk of c"))
    assert replaced({"1": former}) == set(), "nobody knows better"
    assert replaced({"1": former, "2": a}) == {"1"}
    assert replaced({"1": word("c", "copy", "disk of c"), "2": a}) == set()


def test_who_has_not_heard_of_it_is_behind_as_it_says_itself_what_it_was() -> None:
    behind = word("b", "disk of b", c=("disk of c",))
    assert replaced({"b": behind, "c": word("c", "copy", "disk of c")}) == set()


def test_as_long_as_two_differ_and_nobody_knows_which_was_before_nothing_counts() -> None:
    assert replaced({"b": word("b", "disk of b", c=("other",)), "c": word("c", "disk")}) == {"c"}


def test_it_is_told_what_is_news() -> None:
    known = Incarnations()
    assert known.heard("c", b"disk", [b"before"], "a")
    assert not known.heard("c", b"disk", [b"before"], "a")
    assert known.heard("c", b"disk", [b"before"], "b")
    assert known.heard("c", b"", [b"long before"], "c")
    assert known.is_present("c", b"disk")
    assert not known.is_present("c", b"before")
