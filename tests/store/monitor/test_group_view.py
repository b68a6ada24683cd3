"""The view of a group, made of what its stores report; and the events from one to the next."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from tests.begun import begun_in

from quorate.protocol.identity import SourceName
from quorate.protocol.layout import Layout
from quorate.protocol.wire import policy_to_wire, source_to_wire
from quorate.store.monitor.group_events import BEHIND_MESSAGES, Level, events_between
from quorate.store.monitor.group_view import SOURCES_MAX, GroupView, Report, view_of
from quorate.v1 import messages_pb2 as v1
from quorate.v1 import store_pb2 as store_v1
from quorate.v1.queue_pb2 import ConsumerStatus, QueueStatus

ORDERS = SourceName("orders", 7)


def source(high: int = 9, name: SourceName = ORDERS, **changes: Any) -> store_v1.SourceStatus:
    information = v1.SourceInformation(source=source_to_wire(name))
    values: dict[str, Any] = {
        "information": information,
        "held": [v1.HeldRange(first=0, last=high)],
        "stable_upto": high,
        "begun": begun_in(1),
        "live": True,
    }
    return store_v1.SourceStatus(**values | changes)


def report(name: str, *sources: store_v1.SourceStatus, **changes: Any) -> store_v1.StatusResponse:
    return store_v1.StatusResponse(store_name=name, sources=sources, **changes)


def view(
    *reports: store_v1.StatusResponse,
    at: float = 1.0,
    before: GroupView | None = None,
    queues: Mapping[str, Sequence[QueueStatus]] = MappingProxyType({}),
    **away: str,
) -> GroupView:
    """Return the view of these stores.

    - queues: what each tells of queues.
    - away: the problem of each that does not answer.
    """
    answers: dict[str, Any] = {
        f"{each.store_name}:1": Report(each, queues.get(each.store_name, ())) for each in reports
    }
    answers |= {f"{name}:1": problem for name, problem in away.items()}
    known = {f"{name}:1": name for name in away}
    return view_of(answers, "a", at, known, before)


def texts(before: GroupView, after: GroupView) -> list[tuple[Level, str]]:
    return [(each.level, each.text) for each in events_between(before, after)]


def test_stores_are_joined_by_source() -> None:
    receivers = [store_v1.ReceiverStatus(session_id=5, acknowledged_upto=upto) for upto in (3, 6)]
    shown = view(
        report("b", source(7, stable_upto=5, receivers=receivers[:1])),
        report("a", source(9, stable_upto=7, receivers=receivers[1:])),
    )
    assert [store.name for store in shown.stores] == ["a", "b"]
    (orders,) = shown.sources
    assert (orders.high, orders.stable, orders.first) == (9, 7, 0)
    assert {name: held.high for name, held in orders.stores.items()} == {"a": 9, "b": 7}
    (receiver,) = orders.receivers
    assert (receiver.session, receiver.acknowledged, receiver.behind) == ("0x5", 6, 3)


def test_a_view_is_json() -> None:
    shown = view(report("a", source()), b="gone")
    assert json.loads(json.dumps(shown.as_json())) == shown.as_json()


def test_rates_come_from_two_views() -> None:
    first = view(report("a", source(9), position=10))
    assert first.sources[0].messages_per_second == 0
    second = view(report("a", source(29), position=20), at=3.0, before=first)
    assert second.sources[0].messages_per_second == 10
    assert second.stores[0].batches_per_second == 5


def test_a_store_that_lost_its_disk_has_no_negative_rate() -> None:
    first = view(report("a", source(9), position=10))
    second = view(report("a", position=2), at=3.0, before=first)
    assert second.stores[0].batches_per_second == 0


def test_of_many_sources_those_with_problems_are_shown() -> None:
    many = [source(name=SourceName("t", number)) for number in range(1, SOURCES_MAX + 50)]
    bad = source(name=SourceName("z", 1), holes=[v1.HeldRange(first=2, last=3)])
    shown = view(report("a", *many, bad))
    assert len(shown.sources) == SOURCES_MAX
    assert shown.source_count == SOURCES_MAX + 50
    assert shown.sources[-1].topic == "z"


def test_nothing_happens_while_nothing_changes() -> None:
    before = view(report("a", source(9)))
    assert texts(before, view(report("a", source(500)), before=before)) == []


def test_a_store_that_goes_and_comes_back_by_its_name() -> None:
    both = view(report("a"), report("b", uptime_seconds=50))
    one = view(report("a"), b="connection refused")
    assert texts(both, one) == [(Level.BAD, "Store b does not answer: connection refused")]
    assert texts(one, both) == [(Level.GOOD, "Store b answers again")]
    again = view(report("a"), report("b", uptime_seconds=2))
    assert texts(both, again) == [(Level.PLAIN, "Store b was started again")]


def test_limbo_and_a_full_disk() -> None:
    well = view(report("a", disk_free_bytes=9, disk_free_warning_bytes=5))
    bad = view(
        report("a", limbo=True, limbo_reason="wiped", disk_free_bytes=4, disk_free_warning_bytes=5)
    )
    assert texts(well, bad) == [
        (Level.BAD, "Store a is in limbo: wiped"),
        (Level.BAD, "The disk of store a is almost full"),
    ]
    assert texts(bad, well) == [(Level.GOOD, "Store a has left limbo")]


def test_sources_come_go_and_are_taken_over() -> None:
    none = view(report("a"))
    live = view(report("a", source()))
    silent = view(report("a", source(live=False)))
    taken = view(report("a", source(begun=begun_in(2))))
    assert texts(none, live) == [(Level.PLAIN, "Source orders/0x7 is new")]
    assert texts(live, silent) == [(Level.PLAIN, "Source orders/0x7 no longer streams")]
    assert texts(silent, taken) == [
        (Level.PLAIN, "Source orders/0x7 has begun epoch 2"),
        (Level.GOOD, "Source orders/0x7 streams"),
    ]


def test_a_store_that_lacks_messages_until_it_is_repaired() -> None:
    whole = view(report("a", source()))
    holed = view(report("a", source(holes=[v1.HeldRange(first=2, last=4)])))
    assert texts(whole, holed) == [(Level.BAD, "Store a lacks 3 messages of orders/0x7")]
    assert texts(holed, whole) == [(Level.GOOD, "Store a has all messages of orders/0x7 again")]


def test_a_receiver_that_falls_behind_and_catches_up() -> None:
    high = 3 * BEHIND_MESSAGES

    def behind(count: int) -> GroupView:
        receiver = store_v1.ReceiverStatus(session_id=5, acknowledged_upto=high - count)
        return view(report("a", source(high, receivers=[receiver])))

    near, far = behind(0), behind(BEHIND_MESSAGES + 1)
    assert texts(near, far) == [(Level.BAD, "Receiver 0x5 of orders/0x7 is 10,001 behind")]
    assert texts(far, behind(BEHIND_MESSAGES - 1)) == []
    assert texts(far, near) == [(Level.GOOD, "Receiver 0x5 of orders/0x7 has caught up")]


def test_names_that_people_gave_are_shown_as_far_as_a_store_knows_them() -> None:
    pricing = v1.Application(name="pricing", host="h", process_id=7)
    risk = v1.Application(program="risk.py", host="h", process_id=8)
    known = store_v1.ReceiverStatus(session_id=5, application=risk)
    shown = view(
        report("a", source(receivers=[store_v1.ReceiverStatus(session_id=5)])),
        report("b", source(application=pricing, receivers=[known])),
    )
    (orders,) = shown.sources
    assert orders.application == "pricing (h:7)"
    assert orders.receivers[0].application == "risk.py (h:8)"


def test_subscribers_of_all_stores_are_shown_the_furthest_behind_first() -> None:
    risk = v1.Application(name="risk", host="h", process_id=8)
    one = store_v1.SubscriptionStatus(client="ipv4:h:1", topic="orders", behind=3, seconds=9.0)
    other = store_v1.SubscriptionStatus(
        client="ipv4:h:2", pattern="o.*", behind=7, application=risk
    )
    shown = view(report("a", subscriptions=[one]), report("b", subscriptions=[other]))
    assert [(each.store, each.topics, each.behind) for each in shown.subscribers] == [
        ("b", "o.*", 7),
        ("a", "orders", 3),
    ]
    assert [each.application for each in shown.subscribers] == ["risk (h:8)", ""]


def test_the_rate_of_a_subscriber_comes_from_two_views_of_the_same_subscription() -> None:
    def told(number: int, read: int) -> store_v1.StatusResponse:
        one = store_v1.SubscriptionStatus(client="ipv4:h:1", topic="t", number=number, read=read)
        return report("a", subscriptions=[one])

    first = view(told(1, 100))
    assert first.subscribers[0].messages_per_second == 0
    assert view(told(1, 150), at=3.0, before=first).subscribers[0].messages_per_second == 25
    other = view(told(2, 150), at=3.0, before=first)
    assert other.subscribers[0].messages_per_second == 0, "it is another subscription"


def dispatched(**changes: Any) -> QueueStatus:
    consumers = [ConsumerStatus(name="w")]
    return QueueStatus(name="work", dispatches=True, consumers=consumers, **changes)


ELSEWHERE = QueueStatus(name="work", trouble="the store is fenced")


def test_a_queue_is_shown_as_its_dispatcher_has_it_with_its_rate() -> None:
    def shown(at: float, before: GroupView | None, **told: QueueStatus) -> GroupView:
        queues = {name: [status] for name, status in told.items()}
        return view(report("a"), report("b"), at=at, before=before, queues=queues)

    first = shown(1.0, None, a=ELSEWHERE, b=dispatched(ready=3, leased=2, waiting=1, done=10))
    (work,) = first.queues
    assert (work.name, work.dispatcher, work.consumers) == ("work", "b", 1)
    assert work.problem == "", "one store dispatches it, whatever keeps the other one"
    assert (work.ready, work.leased, work.waiting, work.dead) == (3, 2, 1, 0)
    assert work.messages_per_second == 0
    second = shown(3.0, first, a=ELSEWHERE, b=dispatched(done=25, dead=5))
    assert second.queues[0].messages_per_second == 10
    assert texts(first, second) == [(Level.BAD, "5 messages of the queue work were given up")]
    moved = shown(5.0, second, a=dispatched(done=90), b=ELSEWHERE)
    assert moved.queues[0].messages_per_second == 0, "the counts began anew"
    assert texts(second, moved) == [(Level.GOOD, "Store a dispatches the queue work")]
    nobody = shown(7.0, moved, a=QueueStatus(name="work"), b=ELSEWHERE)
    assert nobody.queues[0].dispatcher == ""
    assert texts(moved, nobody) == [
        (Level.BAD, "No store dispatches the queue work: the store is fenced")
    ]


def sent_to(*stores: str, high: int = 9, **changes: Any) -> store_v1.SourceStatus:
    """Return a source with a quorum of a and b that sends to these stores."""
    status = source(high, stable_upto=9, **changes)
    information = status.information
    information.policy.CopyFrom(policy_to_wire(Layout.plain("a=a:1,b=b:1").policy))
    for name in stores:
        # Its configuration calls the store dr otherwise, and the address tells which it is.
        information.stores.add(name="far" if name == "dr" else name, address=f"{name}:1")
    return status


def test_a_store_beside_the_policy_is_shown_as_a_replica_with_its_lag() -> None:
    names = ("a", "b", "dr")
    shown = view(*(report(n, sent_to(*names, high=4 if n == "dr" else 9)) for n in names))
    assert [each.is_replica for each in shown.stores] == [False, False, True]
    assert [each.behind for each in shown.stores] == [0, 0, 5]
    (orders,) = shown.sources
    assert [held.is_replica for held in orders.stores.values()] == [False, False, True]


def test_a_store_with_a_part_in_one_policy_is_no_replica() -> None:
    member = source(name=SourceName("trades", 1))
    shown = view(report("a", sent_to("a", "dr")), report("dr", sent_to("a", "dr"), member))
    assert not any(each.is_replica for each in shown.stores)
    orders, trades = shown.sources
    assert (orders.stores["dr"].is_replica, trades.stores["dr"].is_replica) == (True, False)


def test_a_store_that_let_messages_go_is_not_behind_for_that() -> None:
    gone = sent_to("a", "b", held=[], retained_from=10)
    assert view(report("a", sent_to("a", "b")), report("b", gone)).stores[1].behind == 0
