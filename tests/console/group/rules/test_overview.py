"""The numbers of `quorate top`: what moves between two looks, and what comes first."""

from __future__ import annotations

from dataclasses import replace

from tests.console.group.rules.test_listing import named
from tests.console.group.test_status import group, source, store

from quorate.console.group.rules.assessment import Look
from quorate.console.group.rules.findings import Bounds, Kind
from quorate.console.group.rules.overview import Moment, overview
from quorate.protocol.errors import QuorateError, Unreachable
from quorate.protocol.identity import StoreAddress
from quorate.v1.messages_pb2 import HeldRange
from quorate.v1.queue_pb2 import QueueStatus
from quorate.v1.store_pb2 import StatusResponse, SubscriptionStatus


def moment(at: float, *answers: StatusResponse | QuorateError) -> Moment:
    return Moment(Look(group(*answers), {}, {}), at)


def with_counts(upto: int, messages: int, size: int) -> StatusResponse:
    made = store("a", source(upto, stable=upto))
    made.messages, made.bytes = messages, size
    return made


def test_rates_are_what_came_between_two_looks() -> None:
    before, now = with_counts(99, 100, 1 << 10), with_counts(299, 250, 5 << 10)
    now.retention.messages = 50
    seen = overview(moment(14.0, now), moment(10.0, before), Bounds())
    (a,) = seen.stores
    assert (a["messages/s"], a["KiB/s"]) == (50.0, 1.0)
    assert seen.sources[0]["messages/s"] == 50.0
    alone = overview(moment(14.0, now), None, Bounds())
    assert alone.stores[0]["messages/s"] is None
    assert alone.sources[0]["messages/s"] is None
    anew = overview(moment(14.0, before), moment(10.0, now), Bounds())
    assert anew.stores[0]["messages/s"] == 0.0, "the store was started anew"


def test_a_store_that_was_away_has_no_rate_and_one_that_is_away_has_nothing() -> None:
    away = Unreachable("host:0", "refused")
    seen = overview(moment(2.0, store("a")), moment(0.0, away), Bounds())
    assert seen.stores[0]["messages/s"] is None
    seen = overview(moment(2.0, away), moment(0.0, store("a")), Bounds())
    (row,) = seen.stores
    assert (row["store"], row["state"], row["lag"]) == ("s0", "Unreachable", None)
    assert [each.kind for each in seen.findings] == [Kind.UNREACHABLE]


def test_what_a_store_lacks_and_its_limbo() -> None:
    holed = source(89, holes=(HeldRange(first=3, last=5), HeldRange(first=7, last=7)))
    holed.limbo = True
    seen = overview(moment(0.0, store("a", source(99)), store("b", holed)), None, Bounds())
    a, b = seen.stores
    assert (a["state"], a["lag"], a["lacking"], a["holes"]) == ("ok", 0, 0, 0)
    assert (b["state"], b["lag"], b["lacking"], b["holes"]) == ("limbo for 1", 10, 10, 2)
    whole = overview(moment(0.0, store("a", limbo=True)), None, Bounds())
    assert whole.stores[0]["state"] == "limbo"


def test_busy_sources_and_slow_receivers_come_first() -> None:
    def at(*uptos: int) -> StatusResponse:
        return store("a", *(named("t", number, upto) for number, upto in enumerate(uptos, 1)))

    seen = overview(moment(2.0, at(99, 119, 99)), moment(0.0, at(99, 100, 99)), Bounds())
    assert [row["session_id"] for row in seen.sources] == ["0x2", "0x1", "0x3"]
    late = at(99, 99)
    late.sources[1].receivers[0].acknowledged_upto = 5
    seen = overview(moment(2.0, late), None, Bounds())
    assert [row["lag"] for row in seen.receivers] == [94, 10]


def test_slow_subscribers_come_first() -> None:
    slow, fast = (SubscriptionStatus(topic="t", behind=behind) for behind in (7, 0))
    look = replace(moment(0.0, store("a")).look, subscriptions={"a": [fast, slow]})
    assert [r["lag"] for r in overview(Moment(look, 0.0), None, Bounds()).subscribers] == [7, 0]


def test_the_rate_of_a_subscriber_is_that_of_the_same_subscription() -> None:
    def read(at: float, **counts: int) -> Moment:
        told = [
            SubscriptionStatus(client=client, topic="t", number=1, read=count)
            for client, count in counts.items()
        ]
        return Moment(replace(moment(at, store("a")).look, subscriptions={"a": told}), at)

    seen = overview(read(2.0, x=150, y=40), read(0.0, x=100), Bounds())
    assert [row["messages/s"] for row in seen.subscribers] == [25.0, None]


def test_queues_with_their_rates_and_those_that_nobody_dispatches_first() -> None:
    def told(at: float, dispatcher: str, done: int) -> Moment:
        queues = {
            StoreAddress(name, f"{name}:1"): [
                QueueStatus(name="idle"),
                QueueStatus(name="work", dispatches=name == dispatcher, ready=3, done=done, dead=2),
            ]
            for name in "ab"
        }
        return Moment(replace(moment(at, store("a")).look, queues=queues), at)

    idle, work = overview(told(2.0, "b", 30), told(0.0, "b", 10), Bounds()).queues
    assert (idle["queue"], idle["dispatcher"]) == ("idle", None)
    assert work == {
        "queue": "work", "dispatcher": "b", "messages/s": 10.0, "ready": 3, "leased": 0,
        "waiting": 0, "dead": 2, "consumers": 0,
    }  # fmt: skip
    moved = overview(told(2.0, "a", 30), told(0.0, "b", 10), Bounds())
    assert moved.queues[1]["messages/s"] is None, "the counts began anew"
    assert overview(told(0.0, "a", 3), None, Bounds()).queues[1]["messages/s"] is None


def test_a_tail_counts_as_stuck_only_after_a_while() -> None:
    stuck = store("a", source(120))
    soon = overview(moment(1.0, stuck), moment(0.0, stuck), Bounds())
    assert soon.findings == []
    late = overview(moment(2.0, stuck), moment(0.0, stuck), Bounds())
    assert [each.kind for each in late.findings] == [Kind.TAIL]
