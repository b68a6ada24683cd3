"""The rows about journals: by store, topic and source, and the subscriptions."""

from __future__ import annotations

import pytest

from quorate.console.group.journal import Answers, By, listed
from quorate.protocol.errors import Unreachable
from quorate.protocol.identity import SourceName, StoreAddress
from quorate.protocol.wire import source_to_wire
from quorate.v1.store_pb2 import (
    DELIVERED_LIVE,
    JournalResponse,
    JournalSource,
    SubscriptionStatus,
)

SECOND = 10**9


def source(topic: str, session: int, last: int, size: int, **facts: object) -> JournalSource:
    """A source with the messages 10 to `last`, sent in the second of their number."""
    return JournalSource(
        source=source_to_wire(SourceName(topic, session)),
        first=10,
        last=last,
        messages=last - 9,
        first_ns=10 * SECOND,
        last_ns=last * SECOND,
        bytes=size,
        **{"archived_upto": -1, **facts},  # type: ignore[arg-type]
    )


def empty(topic: str, session: int) -> JournalSource:
    return JournalSource(
        source=source_to_wire(SourceName(topic, session)), first=-1, last=-1, archived_upto=-1
    )


STORE = JournalResponse(
    store_name="a",
    disk_bytes=5_000,
    sources=[
        source("orders", 1, 29, 100, archived_upto=19, kept_because="an archive has little"),
        source("orders", 2, 19, 50, compressed=True),
        source("trades", 1, 10, 400, archived_upto=10),
        empty("trades", 2),
    ],
    subscriptions=[
        SubscriptionStatus(client="1.2.3.4:5", topic="orders", seconds=1.26, behind=3),
        SubscriptionStatus(
            client="1.2.3.4:6",
            pattern="t.*",
            delivered=DELIVERED_LIVE,
            where="a = 1",
            behind=7,
            undecoded=4,
        ),
    ],
    subscription_count=2,
    subscription_bound=100,
)
OTHER = JournalResponse(store_name="b", sources=[source("orders", 1, 59, 300)])
ANSWERS: Answers = {
    StoreAddress("s1", "h:1"): STORE,
    StoreAddress("s2", "h:2"): OTHER,
    StoreAddress("s3", "h:3"): Unreachable("h:3", "gone"),
}


def test_by_store() -> None:
    found = listed(ANSWERS, By.STORE, 0)
    assert found.rows[0] == {
        "store": "a",
        "from": "1970-01-01T00:00:10+00:00",
        "to": "1970-01-01T00:00:29+00:00",
        "sources": 4,
        "messages": 31,
        "bytes": 550,
        "compressed": "some",
        "not_archived": 20,
        "held_up": 1,
        "kept_because": "an archive has little",
        "disk_bytes": 5_000,
        "subscriptions": 2,
        "subscriptions_max": 100,
    }
    assert [row["store"] for row in found.rows] == ["a", "b"]
    assert found.rows[1]["subscriptions_max"] is None
    assert found.problems == [str(Unreachable("h:3", "gone"))]


def test_by_topic_the_largest_first_and_its_stores_together() -> None:
    rows = listed(ANSWERS, By.TOPIC, 0).rows
    assert [(row["topic"], row["store"]) for row in rows] == [
        ("trades", "a"),
        ("orders", "a"),
        ("orders", "b"),
    ]
    trades, orders, _ = rows
    assert (trades["sources"], trades["messages"], trades["not_archived"]) == (2, 1, 0)
    assert (trades["compressed"], orders["compressed"]) == ("no", "some")


def test_by_source() -> None:
    rows = listed(ANSWERS, By.SOURCE, 0).rows
    assert rows[1] == {
        "topic": "orders",
        "session_id": "0x1",
        "store": "a",
        "from": "1970-01-01T00:00:10+00:00",
        "to": "1970-01-01T00:00:29+00:00",
        "first": 10,
        "last": 29,
        "messages": 20,
        "bytes": 100,
        "compressed": "no",
        "archived_upto": 19,
        "kept_because": "an archive has little",
    }
    (nothing,) = (row for row in rows if not row["messages"])
    assert (nothing["from"], nothing["to"], nothing["kept_because"]) == (None, None, None)


def test_the_subscriptions_that_are_furthest_behind_come_first() -> None:
    behind, other = listed(ANSWERS, By.STORE, 0).subscriptions
    assert behind == {
        "store": "a",
        "client": "1.2.3.4:6",
        "topics": "t.*",
        "pattern": True,
        "delivered": "live",
        "where": "a = 1",
        "seconds": 0.0,
        "behind": 7,
        "undecoded": 4,
    }
    assert (other["topics"], other["pattern"], other["where"], other["seconds"]) == (
        "orders",
        False,
        None,
        1.3,
    )


@pytest.mark.parametrize(("by", "rows"), [(By.STORE, 2), (By.TOPIC, 3), (By.SOURCE, 5)])
def test_it_shows_so_many_rows_and_says_how_many_are_left_out(by: By, rows: int) -> None:
    found = listed(ANSWERS, by, 1)
    assert len(found.rows) == len(found.subscriptions) == 1
    assert found.left_out == {"rows": rows - 1, "subscriptions": 1}
    assert not +listed(ANSWERS, by, 0).left_out
