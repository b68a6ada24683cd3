"""The messages that were there when a receiver subscribed."""

from __future__ import annotations

import pytest
from tests.receiver.fakes import NAME

from quorate.protocol.limits import NOTHING
from quorate.protocol.lineage import Lineage, Term
from quorate.receiver.protocol.subscription import Seen, Subscription

ONE = Lineage((Term(1, 0),))


def subscription(*seen: Seen) -> Subscription:
    made = Subscription()
    for each in seen:
        made.heard(NAME, each)
    made.made()
    return made


def test_the_highest_word_of_all_stores_counts() -> None:
    made = subscription(Seen(1, 5), Seen(1, 8), Seen(0, 0))
    assert made.newest(NAME, ONE) == 7


def test_a_source_that_comes_later_is_new_as_a_whole() -> None:
    made = subscription()
    made.heard(NAME, Seen(1, 8))
    assert made.newest(NAME, ONE) == NOTHING


@pytest.mark.parametrize(
    ("begun_epoch", "lineage", "newest"),
    [
        (1, ONE.extended(4, 2), 4),  # 5 to 7 were not kept: others have come in epoch 2
        (1, ONE.extended(7, 2), 7),
        (1, Lineage((Term(3, 0),)), NOTHING),  # the stream was ended, and began anew
        (2, ONE.extended(4, 2), 7),
        (3, ONE.extended(4, 2), 7),  # a begin of a minority
        (0, ONE, NOTHING),
    ],
)
def test_numbers_of_later_epochs_are_other_messages(
    begun_epoch: int, lineage: Lineage, newest: int
) -> None:
    assert subscription(Seen(begun_epoch, 8)).newest(NAME, lineage) == newest
