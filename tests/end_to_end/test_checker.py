"""The checker finds what it is there to find."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from tests.end_to_end.checker import Content, Receiver, Violation, check, stored
from tests.store.support import running

Line = list[Any]


def _named(first: int, last: int) -> list[str]:
    return [f"a:{number}" for number in range(first, last + 1)]


class Seen:
    """What was seen of ten messages, nothing of which is wrong until a test makes it so."""

    def __init__(self) -> None:
        self.stores: dict[str, Content] = {
            store: {number: (f"a:{number}", 1) for number in range(10)} for store in ("s1", "s2")
        }
        self.source: list[Line] = [
            ["opened", 1, 0],
            ["accepted", 0, _named(0, 8)],
            ["stable", 7],
            ["receipt", 9, "a:9", 1],
        ]
        self.receiver: list[list[Line]] = [
            [
                ["starts", 0],
                ["delivered", 0, _named(0, 2), 1],
                ["taken", 2],
                ["delivered", 3, _named(3, 3), 1],
            ],
            [["starts", 3], ["delivered", 3, _named(3, 5), 1], ["delivered", 6, _named(6, 9), 1]],
        ]
        self.stable = True
        self.losses: list[range] = []

    def lose(self, *numbers: int) -> None:
        for content in self.stores.values():
            for number in numbers:
                del content[number]

    def check(self) -> None:
        check(
            self.stores,
            9,
            {"source": [self.source]},
            {"receiver": Receiver(self.receiver, self.stable)},
            self.losses,
        )

    def is_refused(self, because: str) -> None:
        with pytest.raises(Violation, match=re.escape(because)):
            self.check()


@pytest.fixture
def seen() -> Seen:
    seen = Seen()
    seen.check()
    return seen


def test_a_loss(seen: Seen) -> None:
    seen.lose(4)
    seen.is_refused("s1 lacks 4")


def test_a_loss_at_one_store(seen: Seen) -> None:
    del seen.stores["s2"][4]
    seen.is_refused("s2 lacks 4")


def test_a_loss_that_was_accepted_is_none(seen: Seen) -> None:
    seen.lose(4)
    seen.losses = [range(4, 5)]
    seen.receiver[1] = [
        ["starts", 3],
        ["delivered", 3, _named(3, 3), 1],
        ["gap", 4, 4, "ABSENT", ""],
        ["delivered", 5, _named(5, 9), 1],
    ]
    seen.check()
    seen.losses = [range(4, 5), range(5, 6)]
    seen.receiver[1][2][2] = 6
    seen.receiver[1][3][1:3] = [7, _named(7, 9)]
    seen.is_refused("[4, 6] can not be had")


def test_a_stable_message_that_another_took_the_place_of(seen: Seen) -> None:
    for content in seen.stores.values():
        content[5] = ("b:1", 2)
    seen.is_refused("a:5 was stable as 5, there is b:1")


def test_a_receipt_for_what_is_not_there(seen: Seen) -> None:
    for content in seen.stores.values():
        content[9] = ("b:1", 2)
    seen.is_refused("had a receipt for ('a:9', 1) as 9")


def test_an_end_that_is_missing(seen: Seen) -> None:
    seen.lose(9)
    seen.is_refused("s1 lacks 9")


def test_more_than_there_should_be(seen: Seen) -> None:
    seen.stores["s1"][10] = ("a:10", 1)
    seen.is_refused("s1 has [10]")


def test_stores_that_differ(seen: Seen) -> None:
    seen.stores["s1"][8] = ("b:8", 1)
    seen.is_refused("s1 has ('b:8', 1) as 8")


def test_stores_that_differ_in_the_epoch_only(seen: Seen) -> None:
    seen.stores["s1"][8] = ("a:8", 2)
    seen.is_refused("s1 has ('a:8', 2) as 8")


def test_a_message_that_is_there_twice(seen: Seen) -> None:
    for content in seen.stores.values():
        content[8] = ("a:3", 1)
    seen.is_refused("a:3 is there twice, as 3 and as 8")


def test_a_number_that_was_given_twice(seen: Seen) -> None:
    seen.source.append(["accepted", 8, ["a:11"]])
    seen.is_refused("8 was given to two messages")


def test_messages_that_changed_places(seen: Seen) -> None:
    for content in seen.stores.values():
        content[8], content[9] = ("a:9", 1), ("a:8", 1)
    seen.source.pop()
    seen.is_refused("a:8 was accepted as 8 and is there as 9")


def test_a_receiver_that_is_handed_them_out_of_order(seen: Seen) -> None:
    seen.receiver[1][1:] = reversed(seen.receiver[1][1:])
    seen.is_refused("run 2: begins at 6 after 2")


def test_a_receiver_that_steps_back_unasked(seen: Seen) -> None:
    seen.receiver[1].append(["delivered", 6, _named(6, 9), 1])
    seen.is_refused("is handed 6 where 10 should follow")


def test_a_silent_skip(seen: Seen) -> None:
    seen.receiver[1][1] = ["delivered", 3, _named(3, 4), 1]
    seen.is_refused("is handed 6 where 5 should follow")


def test_a_silent_skip_between_two_runs(seen: Seen) -> None:
    seen.receiver[1] = [["starts", 5], ["delivered", 5, _named(5, 9), 1]]
    seen.is_refused("run 2: begins at 5 after 2")


def test_a_restart_behind_what_was_handed_and_not_acknowledged(seen: Seen) -> None:
    """3 was under way when it was killed: nobody knows what became of that."""
    seen.receiver[1] = [["starts", 4], ["delivered", 4, _named(4, 9), 1]]
    seen.is_refused("run 2: begins at 4 after 2")
    seen.receiver[0].append(["taken", 3])
    seen.check()


def test_a_skip_that_the_application_chose(seen: Seen) -> None:
    seen.receiver[1] = [["starts", 5], ["delivered", 5, _named(5, 9), 1], ["taken", 9]]
    seen.receiver.append([["starts", 4], ["delivered", 4, _named(4, 9), 1]])
    seen.is_refused("run 2: begins at 5 after 2")
    seen.receiver[1].insert(0, ["chose", 5, 4, 4, 9])
    seen.check()
    seen.receiver[1][0][1] = 4
    seen.is_refused("run 2: begins at 5 after 2")


def test_a_receiver_that_never_got_the_end(seen: Seen) -> None:
    seen.receiver[1].pop()
    seen.is_refused("was never handed [6, 7, 8]")


def test_other_content_than_there_is(seen: Seen) -> None:
    seen.receiver[1][1] = ["delivered", 3, ["a:3", "b:4", "a:5"], 1]
    seen.is_refused("run 2: was handed [(4, ('b:4', 1))], there is [('a:4', 1)]")


def test_a_gap_though_the_stores_have_it(seen: Seen) -> None:
    seen.receiver[1][1:2] = [["gap", 3, 5, "ABSENT", ""]]
    seen.is_refused("[3, 5] can not be had")


def _replace_the_end(seen: Seen) -> None:
    """A second source has put others in the place of 8 and 9, which nobody called stable."""
    for content in seen.stores.values():
        content[8], content[9] = ("b:1", 2), ("b:2", 2)
    seen.source.pop()
    seen.stable = False


def test_what_was_withdrawn_may_be_told_of_late(seen: Seen) -> None:
    _replace_the_end(seen)
    anew = ["delivered", 8, ["b:1", "b:2"], 2]
    seen.receiver[1] += [["withdrawn", 8, 9], anew]
    seen.check()
    seen.receiver[1][-2:] = [anew, ["withdrawn", 8, 9]]
    seen.check()


def test_what_was_replaced_and_not_withdrawn(seen: Seen) -> None:
    _replace_the_end(seen)
    seen.is_refused("run 2: was handed [(8, ('a:8', 1)), (9, ('a:9', 1))]")
    seen.receiver[1].append(["delivered", 8, ["b:1", "b:2"], 2])
    seen.is_refused("is handed 8 where 10 should follow")


def test_what_was_handed_over_as_stable_and_is_not_there(seen: Seen) -> None:
    _replace_the_end(seen)
    seen.receiver[1].append(["taken", 9])
    seen.receiver.append([["starts", 8], ["delivered", 8, ["b:1", "b:2"], 2]])
    seen.check()
    seen.stable = True
    seen.is_refused("run 2: was handed [(8, ('a:8', 1)), (9, ('a:9', 1))]")


async def test_a_store_that_never_heard_of_the_source_has_nothing_of_it(tmp_path: Path) -> None:
    async with running(tmp_path):
        pass
    assert stored(tmp_path, 1) == {}
