"""The stores that have not reached the position of a subscription."""

from __future__ import annotations

from quorate.protocol.errors import PositionNotReached, Unreachable
from quorate.subscriber.protocol.unreached import Unreached

DOWN = Unreachable("b:1", "it is down")


def short(
    store: str, upto: int = 9, source: str = "orders/0x1", epoch: int = 1
) -> PositionNotReached:
    return PositionNotReached(store, source, f"{source}@2:12", epoch, upto)


def test_the_error_of_the_store_that_comes_nearest_once_each_has_said_so() -> None:
    unreached = Unreached(3)
    assert unreached.left("a", short("a", 7)) is None
    assert unreached.left("b", short("b", 8)) is None
    assert unreached.left("b", short("b", 8)) is None
    found = unreached.left("c", short("c", 5))
    assert found is not None
    assert (found.store, found.upto) == ("b", 8)


def test_a_store_in_a_later_epoch_comes_nearer() -> None:
    unreached = Unreached(2)
    unreached.left("a", short("a", 9, epoch=1))
    found = unreached.left("b", short("b", 4, epoch=2))
    assert found is not None
    assert found.store == "b"


def test_a_store_that_cannot_be_asked_any_more_may_have_it() -> None:
    unreached = Unreached(2)
    assert unreached.left("b", short("b")) is None
    assert unreached.left("b", DOWN) is None
    assert unreached.left("a", short("a")) is None
    assert unreached.left("b", short("b")) is not None


def test_stores_that_lack_different_sources_may_make_them_up_to_each_other() -> None:
    unreached = Unreached(2)
    assert unreached.left("a", short("a", source="orders/0x1")) is None
    assert unreached.left("b", short("b", source="orders/0x2")) is None
    assert unreached.left("a", short("a", source="orders/0x2")) is not None
