"""Bookmarks and positions: one text form each, and what they mean in a stream of today."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.protocol.bookmarks import NO_PLACE, Bookmark, Place, Position
from quorate.protocol.errors import InvalidArgument
from quorate.protocol.identity import SourceName
from quorate.protocol.limits import SEQUENCE_MAX
from quorate.protocol.lineage import Lineage, Term

ORDERS = SourceName("orders", 1)
TOPICS = st.text(st.characters(categories=["L", "N", "P", "S"]), min_size=1, max_size=20)
BOOKMARKS = st.builds(
    Bookmark,
    st.builds(SourceName, TOPICS, st.integers(1, 2**64 - 2)),
    st.integers(1, 2**64 - 1),
    st.integers(0, SEQUENCE_MAX),
)


@given(BOOKMARKS)
def test_a_bookmark_comes_back_from_its_text(bookmark: Bookmark) -> None:
    assert Bookmark.parse(str(bookmark)) == bookmark


@given(st.lists(BOOKMARKS, unique_by=lambda each: each.source))
def test_a_position_comes_back_from_its_text(bookmarks: list[Bookmark]) -> None:
    position = Position.of(bookmarks)
    assert Position.parse(str(position)) == position
    assert eval(repr(position), {"Position": Position}) == position


def test_the_text_is_as_people_write_it() -> None:
    bookmark = Bookmark(ORDERS, 7, 3836)
    assert str(bookmark) == "orders/0x1@7:3836"
    assert Bookmark.parse(" orders/1@7:3836 ") == bookmark


@pytest.mark.parametrize(
    "text",
    ["", "orders", "orders/1", "orders/1@7", "orders/1@7:", "orders/1@x:1", "orders/1@0:1",
     "/1@7:1", "orders/0@7:1", "orders/1@7:-1", f"orders/1@7:{2**63}", "orders/1@7:１"],
)  # fmt: skip
def test_what_is_no_bookmark_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgument):
        Bookmark.parse(text)


@pytest.mark.parametrize("text", ["", "{}", "[1]", '["orders/1@7:1", "orders/1@7:2"]', "[", '"x"'])
def test_what_is_no_position_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgument):
        Position.parse(text)


def test_a_source_that_began_anew_is_new() -> None:
    position = Position({ORDERS: Place(3, 100)})
    assert position.place_of(ORDERS, Lineage((Term(2, 0), Term(3, 50)))) == Place(3, 100)
    assert position.place_of(ORDERS, Lineage((Term(9, 0),))) == NO_PLACE
    assert position.place_of(SourceName("orders", 2), Lineage((Term(1, 0),))) == NO_PLACE


def test_a_message_belongs_to_the_stream_in_its_epoch() -> None:
    lineage = Lineage((Term(2, 0), Term(5, 50)))
    assert Place(2, 49).belongs_to(lineage)
    assert not Place(2, 50).belongs_to(lineage)
    assert Place(5, 50).belongs_to(lineage)
