"""The listings of topics, sources, receivers and subscribers, over all stores."""

from __future__ import annotations

import pytest
from tests.console.group.test_status import group, source, store

from quorate.console.group.rules.listing import (
    RECEIVER_COLUMNS,
    SOURCE_COLUMNS,
    SUBSCRIBER_COLUMNS,
    TOPIC_COLUMNS,
    Choice,
    Row,
    application_text,
    receiver_rows,
    source_rows,
    subscriber_rows,
    topic_rows,
)
from quorate.console.group.rules.source_status import SourceView, views_of
from quorate.errors import InvalidArgument
from quorate.v1.messages_pb2 import Application
from quorate.v1.store_pb2 import DELIVERED_STABLE, SourceStatus, StatusResponse, SubscriptionStatus

RISK = Application(name="risk", program="risk.py", host="host-7", process_id=47)
RISK_ROW = {"name": "risk", "program": "risk.py", "host": "host-7", "process_id": 47}


def named(topic: str, session_id: int, upto: int, **fields: object) -> SourceStatus:
    made = source(upto)
    made.information.source.topic = topic
    made.information.source.session_id = session_id
    made.MergeFrom(SourceStatus(**fields))  # type: ignore[arg-type]
    return made


def stores() -> tuple[StatusResponse, StatusResponse]:
    orders = named("orders", 0x10, 120, inactive_seconds=7.0, journal_bytes=5)
    orders.receivers[0].inactive_seconds = 9.0
    same = named("orders", 0x10, 110, inactive_seconds=3.0, journal_bytes=9, application=RISK)
    same.receivers[0].inactive_seconds = 2.0
    same.receivers[0].application.CopyFrom(RISK)
    other = named("orders", 0x11, 99, inactive_seconds=50.0)
    other.live = False
    del other.receivers[:]
    trades = named("trades", 0x10, 99, inactive_seconds=20.0)
    return store("a", orders, other, trades), store("b", same)


def views() -> list[SourceView]:
    return views_of(group(*stores()))


def test_one_source_at_several_stores_is_one_row() -> None:
    first, second, third = source_rows(views())
    assert tuple(first) == SOURCE_COLUMNS
    assert first == {
        "topic": "orders",
        "session_id": "0x10",
        "application": RISK_ROW,
        "state": "live",
        "epoch": 2,
        "first": 0,
        "newest": 120,
        "stable_upto": 99,
        "unstable": 21,
        "stores": ["a", "b"],
        "lag": {"a": 0, "b": 0},
        "receivers": 1,
        "idle_seconds": 3.0,
        "bytes": 9,
    }
    assert (second["state"], second["application"], second["receivers"]) == ("away", None, 0)
    assert third["topic"] == "trades"


def test_topics_add_up_their_sources() -> None:
    orders, trades = topic_rows(views())
    assert tuple(orders) == TOPIC_COLUMNS
    assert orders == {
        "topic": "orders",
        "sources": 2,
        "live": 1,
        "receivers": 1,
        "messages": 221,
        "bytes": 9,
        "unstable": 21,
        "idle_seconds": 3.0,
    }
    assert trades["sources"] == 1


def test_receivers_of_all_sources() -> None:
    first, second = receiver_rows(views())
    assert tuple(first) == RECEIVER_COLUMNS
    assert first["application"] == RISK_ROW
    assert (first["acknowledged_upto"], first["lag"], first["idle_seconds"]) == (110, 10, 2.0)
    assert first["stores"] == ["a", "b"]
    assert (second["topic"], second["application"]) == ("trades", None)


def test_subscribers_of_all_stores() -> None:
    slow = SubscriptionStatus(
        client="ipv4:h:1", topic="orders", delivered=DELIVERED_STABLE, behind=7, application=RISK
    )
    fast = SubscriptionStatus(client="ipv4:h:2", pattern="o.*", seconds=1.26)
    rows = subscriber_rows({"a": [slow], "b": [fast]})
    assert [tuple(row) for row in rows] == [SUBSCRIBER_COLUMNS] * 2
    assert rows[0]["application"] == RISK_ROW
    assert (rows[1]["topics"], rows[1]["pattern"], rows[1]["seconds"]) == ("o.*", True, 1.3)


def chosen(choice: Choice) -> list[str]:
    rows: list[Row] = source_rows(views())
    return [f"{row['topic']}/{row['session_id']}" for row in choice.of(rows)]


def test_rows_are_chosen_and_sorted() -> None:
    assert chosen(Choice()) == ["orders/0x10", "orders/0x11", "trades/0x10"]
    assert chosen(Choice(session_id=0x10)) == ["orders/0x10", "trades/0x10"]
    assert chosen(Choice(idle_seconds=20.0)) == ["orders/0x11", "trades/0x10"]
    assert chosen(Choice(state="away")) == ["orders/0x11"]
    assert chosen(Choice(application="HOST-7")) == ["orders/0x10"]
    assert chosen(Choice(sort="idle_seconds")) == ["orders/0x10", "trades/0x10", "orders/0x11"]
    assert chosen(Choice(sort="-idle_seconds")) == ["orders/0x11", "trades/0x10", "orders/0x10"]
    assert chosen(Choice(sort="-stores"))[0] == "orders/0x10"
    assert chosen(Choice(sort="lag"))[0] == "orders/0x10"
    assert chosen(Choice(sort="application")) == ["orders/0x10", "orders/0x11", "trades/0x10"]


def test_a_column_that_there_is_not() -> None:
    with pytest.raises(InvalidArgument, match="did you mean bytes"):
        Choice(sort="-byte").check(SOURCE_COLUMNS)
    Choice(sort="-bytes").check(SOURCE_COLUMNS)


def test_how_an_application_is_shown() -> None:
    assert application_text(RISK_ROW) == "risk (host-7:47)"
    assert application_text(None) == ""
