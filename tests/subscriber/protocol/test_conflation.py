"""Conflation by a clock of the test's own: the newest data, the first bookmark, nothing lost."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.protocol.bookmarks import NO_PLACE, Bookmark, Place, Position
from quorate.protocol.identity import SourceName
from quorate.subscriber.protocol.conflation import Conflated, Conflation
from quorate.subscriber.protocol.progress import Progress

ORDERS, TRADES = SourceName("orders", 1), SourceName("trades", 1)
SOURCES = (ORDERS, TRADES)
EPOCH = 3


@dataclass(frozen=True)
class Message:
    """A message of the journal; its place there is `at`."""

    at: int
    source: SourceName
    number: int
    key: str | None
    size: int = 1


class Given:
    """A subscription with conflation, as its shell drives the rules."""

    def __init__(self, interval: float = 1.0, **bounds: int) -> None:
        self.conflation: Conflation[Message] = Conflation(interval, **bounds)
        self.consumed = Progress()
        self.behind = Position()
        self.now = 0.0

    def batch(self, *messages: Message) -> Iterator[Conflated[Message]]:
        """Take messages of one source, and yield what is due before the next one."""
        source, numbers = messages[0].source, [each.number for each in messages]
        before = self.behind.get(source, NO_PLACE)
        behind = Place(EPOCH, numbers[-1])
        consumed = self.consumed.handed(source, numbers, before, behind)
        self.behind = self.behind.moved(source, behind)
        self.conflation.begin(source, EPOCH, numbers, self.behind, consumed)
        for each in messages:
            self.conflation.take(self.now, each.key, each, each.size)
            yield from self.due()

    def due(self) -> Iterator[Conflated[Message]]:
        while (conflated := self.conflation.hand_over(self.now)) is not None:
            yield conflated

    def the_rest(self) -> Iterator[Conflated[Message]]:
        """End the window, and yield what is due."""
        self.conflation.end()
        return self.due()

    @property
    def position(self) -> Position:
        return self.conflation.position

    @property
    def consumed_position(self) -> Position:
        return self.consumed.position(self.behind)


def trades(at: int, number: int, key: str) -> Message:
    return Message(at, TRADES, number, key)


def orders(first: int, keys: str) -> list[Message]:
    """Messages with these keys; `-`: none."""
    return [
        Message(first + row, ORDERS, first + row, None if key == "-" else key)
        for row, key in enumerate(keys)
    ]


def shown(conflated: Iterator[Conflated[Message]]) -> list[tuple[int, int, int]]:
    """Of each: the number of the newest, that of the bookmark, and how many it stands for."""
    return [(each.newest.number, each.bookmark.sequence, each.count) for each in conflated]


def test_the_newest_data_with_the_first_bookmark_at_the_end_of_the_window() -> None:
    taken = Given(interval=1.0)
    taken.now = 5.0
    assert list(taken.batch(*orders(0, "aba"))) == []
    assert taken.conflation.ends_at == 6.0
    taken.now = 5.99
    assert list(taken.due()) == []
    taken.now = 6.0
    assert shown(taken.due()) == [(1, 1, 1), (2, 0, 2)]
    assert taken.conflation.ends_at is None


def test_a_window_begins_with_the_first_message_that_waits() -> None:
    taken = Given(interval=1.0)
    list(taken.batch(*orders(0, "a")))
    taken.now = 0.9
    list(taken.batch(*orders(1, "b")))
    assert taken.conflation.ends_at == 1.0
    taken.now = 1.0
    assert len(list(taken.due())) == 2
    taken.now = 3.0
    list(taken.batch(*orders(2, "a")))
    assert taken.conflation.ends_at == 4.0


def test_the_position_stays_before_a_window_until_all_of_it_is_handed_over() -> None:
    taken = Given(keys_max=2)
    # The first window ends within the batch, and the second one begins there.
    assert shown(taken.batch(*orders(0, "aabbb"))) == [(1, 0, 2), (2, 2, 1)]
    assert taken.position == {ORDERS: Place(EPOCH, 2)}
    list(taken.batch(trades(5, 0, "b")))
    due = taken.batch(*orders(5, "c"))
    assert next(due).newest == trades(5, 0, "b")
    assert taken.position == {ORDERS: Place(EPOCH, 2)}
    assert next(due).newest.number == 5
    assert taken.position == taken.behind == {ORDERS: Place(EPOCH, 5), TRADES: Place(EPOCH, 0)}


def test_a_position_behind_what_came_after_the_window() -> None:
    taken = Given()
    list(taken.batch(*orders(0, "a")))
    list(taken.the_rest())
    moved = Position({ORDERS: Place(EPOCH, 7)})
    taken.conflation.move(moved)
    assert taken.position == moved
    list(taken.batch(*orders(8, "a")))
    assert taken.position == moved


def test_without_a_key_it_is_due_at_once_behind_all_that_waits() -> None:
    taken = Given()
    assert shown(taken.batch(*orders(0, "aa-b"))) == [(1, 0, 2), (2, 2, 1)]
    assert taken.position == {ORDERS: Place(EPOCH, 2)}
    assert taken.conflation.ends_at == 1.0
    assert shown(taken.batch(*orders(4, "-")))[-1] == (4, 4, 1)


def test_consumed_counts_all_messages_of_a_window_once_all_of_it_is() -> None:
    taken = Given()
    for batch in (orders(0, "ab"), [trades(2, 0, "a"), trades(3, 1, "a")], orders(2, "a")):
        list(taken.batch(*batch))
    of_b, of_a = taken.the_rest()
    assert of_a.count == 4
    assert of_a.bookmark == Bookmark(ORDERS, EPOCH, 0)
    for _ in range(2):
        of_a.consumed()
        assert taken.consumed_position == {}
    of_b.consumed()
    assert taken.consumed_position == taken.behind


def test_nothing_is_counted_without_a_bookmark_store() -> None:
    conflation: Conflation[str] = Conflation(1.0)
    conflation.begin(ORDERS, EPOCH, [0, 1], Position({ORDERS: Place(EPOCH, 1)}), None)
    for text in ("first", "second"):
        conflation.take(0.0, "a", text, 1)
    conflated = conflation.hand_over(1.0)
    assert conflated is not None
    conflated.consumed()
    assert (conflated.newest, conflated.count) == ("second", 2)


@pytest.mark.parametrize(
    ("bounds", "taken_until_the_end"),
    [({"keys_max": 3}, 5), ({"bytes_max": 10}, 7), ({"messages_max": 9}, 9)],
)
def test_memory_is_bounded(bounds: Mapping[str, int], taken_until_the_end: int) -> None:
    # Of each key only the newest message is in memory, and counts.
    sizes = [1, 1, 1, 1, 1, 8, 2, 1, 1, 1]
    keys = "aabbcbbcaa" if "keys_max" in bounds else "aabbabaaaaa"
    taken = Given(**bounds)
    for number, size in enumerate(sizes):
        message = Message(number, ORDERS, number, keys[number], size)
        if list(taken.batch(message)):
            break
    assert number + 1 == taken_until_the_end
    assert taken.position == taken.behind
    # The next window counts from nothing.
    assert list(taken.batch(Message(number + 1, ORDERS, number + 1, "a"))) == []


# Against a model: a journal, of which an application takes a part, and goes on elsewhere.


@dataclass
class Journal:
    """What a store has, in its order."""

    messages: list[Message] = field(default_factory=list)

    def add(self, source: SourceName, key: str | None) -> Message:
        number = sum(each.source == source for each in self.messages)
        message = Message(len(self.messages), source, number, key)
        self.messages.append(message)
        return message

    def first_of(self, bookmark: Bookmark) -> Message:
        named = bookmark.source, bookmark.sequence
        (found,) = (each for each in self.messages if (each.source, each.number) == named)
        return found

    def behind_bookmark(self, bookmark: Bookmark) -> list[Message]:
        return self.messages[self.first_of(bookmark).at + 1 :]

    def behind(self, position: Position) -> list[Message]:
        return [
            each
            for each in self.messages
            if each.number > position.get(each.source, NO_PLACE).sequence
        ]


def last_values(messages: list[Message]) -> dict[str, int]:
    """Of each key the newest message."""
    return {each.key: each.at for each in messages if each.key is not None}


BATCHES = st.lists(
    st.tuples(
        st.sampled_from(SOURCES),
        st.lists(st.sampled_from([*"abc", None]), min_size=1, max_size=5),
        st.floats(0, 0.7),
        st.booleans(),
    ),
    max_size=12,
)
BOUNDS = st.fixed_dictionaries(
    {}, optional={"keys_max": st.integers(1, 4), "messages_max": st.integers(1, 6)}
)


@given(BATCHES, BOUNDS)
def test_going_on_at_any_place_gives_the_last_value_of_each_key(
    batches: list[tuple[SourceName, list[str | None], float, bool]], bounds: dict[str, int]
) -> None:
    journal, taken = Journal(), Given(**bounds)
    handed: list[Conflated[Message]] = []
    positions = [(0, taken.position)]

    def hand(conflated: Iterable[Conflated[Message]]) -> None:
        for each in conflated:
            handed.append(each)
            positions.append((len(handed), taken.position))

    for source, keys, seconds, is_notice in batches:
        taken.now += seconds
        hand(taken.due())
        hand(taken.batch(*(journal.add(source, key) for key in keys)))
        positions.append((len(handed), taken.position))
        if is_notice:
            hand(taken.the_rest())
    hand(taken.the_rest())
    assert taken.position == taken.behind

    # Each key's newest data comes last, in the journal's order, and each message counts once.
    newest = [each.newest for each in handed]
    assert [each.at for each in newest] == sorted({each.at for each in newest})
    assert last_values(newest) == last_values(journal.messages)
    assert sum(each.count for each in handed) == len(journal.messages)
    assert [each for each in newest if each.key is None] == [
        each for each in journal.messages if each.key is None
    ]
    for each in handed:
        assert journal.first_of(each.bookmark).key == each.newest.key

    # An application that goes on at any position or bookmark has the same values in the end.
    for count, position in positions:
        again = journal.behind(position)
        assert last_values([*newest[:count], *again]) == last_values(journal.messages)
        assert set(newest[count:]) <= set(again)
    for count, each in enumerate(handed, 1):
        again = journal.behind_bookmark(each.bookmark)
        assert last_values([*newest[:count], *again]) == last_values(journal.messages)
        assert set(newest[count:]) <= set(again)


@given(BATCHES, BOUNDS, st.data())
def test_what_is_not_consumed_comes_again(
    batches: list[tuple[SourceName, list[str | None], float, bool]],
    bounds: dict[str, int],
    data: st.DataObject,
) -> None:
    journal, taken = Journal(), Given(**bounds)
    handed: list[Conflated[Message]] = []
    for source, keys, seconds, _ in batches:
        taken.now += seconds
        handed += taken.due()
        handed += taken.batch(*(journal.add(source, key) for key in keys))
    waiting = list(taken.the_rest())
    left = list(handed)
    for each in data.draw(st.permutations(handed)):
        again = journal.behind(taken.consumed_position)
        assert {other.newest for other in left} <= set(again)
        each.consumed()
        left.remove(each)
    again = journal.behind(taken.consumed_position)
    assert {each.newest for each in waiting} <= set(again)
    assert {journal.first_of(each.bookmark) for each in waiting} <= set(again)
    for each in waiting:
        each.consumed()
    assert taken.consumed_position == taken.behind


@given(BATCHES, BOUNDS)
def test_who_consumes_in_order_has_the_last_values_again(
    batches: list[tuple[SourceName, list[str | None], float, bool]], bounds: dict[str, int]
) -> None:
    journal, taken = Journal(), Given(**bounds)
    handed: list[Conflated[Message]] = []
    positions: list[tuple[int, Position]] = []
    for source, keys, seconds, _ in batches:
        taken.now += seconds
        for each in (*taken.due(), *taken.batch(*(journal.add(source, key) for key in keys))):
            each.consumed()
            handed.append(each)
            positions.append((len(handed), taken.consumed_position))
    newest = [each.newest for each in handed]
    for count, position in positions:
        upto = [*newest[:count], *journal.behind(position)]
        assert last_values(upto) == last_values(journal.messages)
