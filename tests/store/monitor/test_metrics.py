"""Metrics: the list in docs/metrics.md, bounded labels, names as Prometheus wants them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from tests.store.monitor.support import samples

from quorate.store.durations import Durations
from quorate.store.engine import Received
from quorate.store.monitor import metrics
from quorate.store.monitor.metrics import OTHER_TOPICS, TOPICS_MAX, Facts, Topic, topic_of
from quorate.v1 import messages_pb2 as v1
from quorate.v1 import store_pb2 as store_v1
from quorate.v1.queue_pb2 import QueueStatus

DOCUMENT = Path(__file__).parents[3] / "docs" / "metrics.md"

LISTED: dict[str, tuple[metrics.Described[Any], ...]] = {
    "store": (metrics.BUILD, *metrics.STORE, metrics.CERTIFICATE),
    "peer": metrics.PEER,
    "queue": (*metrics.QUEUE, *metrics.DISPATCHED),
    "topic": metrics.TOPIC,
}
KINDS = {metrics.GAUGE: "gauge", metrics.COUNTER: "counter", metrics.HISTOGRAM: "histogram"}


def facts(**changes: Any) -> Facts:
    report = store_v1.StatusResponse(store_name="s1", version="0.1.0", certificate_ends=1.5)
    report.peers.append(store_v1.PeerStatus(address="b:1", reachable=True))
    values: dict[str, Any] = {
        "report": report,
        "topics": {"orders": Topic()},
        "received": Received(),
        "why_not_ready": "",
        "syncs": Durations(),
        "loop_lag": Durations(),
        "queues": [QueueStatus(name="work", dispatches=True, ready=3, done=7)],
    }
    return Facts(**values | changes)


def test_the_document_lists_every_metric() -> None:
    row = r"^\| `(quorate_\w+)` \| (\w+) \| (\w+) \| (.+) \|$"
    rows = re.findall(row, DOCUMENT.read_text(), re.M)
    assert rows == [
        (metrics.full_name(each), KINDS[each.kind], label, each.help)
        for label, listed in LISTED.items()
        for each in listed
    ]


def test_the_output_has_every_metric_that_is_listed() -> None:
    names = {name for name, _ in samples(metrics.exposition(facts()).decode())}
    for listed in LISTED.values():
        for each in listed:
            name = metrics.full_name(each)
            assert (f"{name}_count" if each.kind is metrics.HISTOGRAM else name) in names


def test_a_store_without_a_certificate_has_no_end_of_one() -> None:
    text = metrics.exposition(facts(report=store_v1.StatusResponse())).decode()
    assert "certificate_end" not in text


def test_only_the_dispatcher_has_figures_of_a_queue() -> None:
    found = samples(metrics.exposition(facts()).decode())
    assert found["quorate_queue_dispatches", ("work",)] == 1
    assert found["quorate_queue_ready_messages", ("work",)] == 3
    assert found["quorate_queue_done_messages_total", ("work",)] == 7
    other = samples(metrics.exposition(facts(queues=[QueueStatus(name="work")])).decode())
    assert other["quorate_queue_dispatches", ("work",)] == 0
    assert not any(name.startswith("quorate_queue_ready") for name, _ in other)


def test_durations_are_counted_up_to_each_bound() -> None:
    syncs = Durations()
    for seconds in (0.0001, 0.0002, 0.3, 7.0):
        syncs.observe(seconds)
    found = samples(metrics.exposition(facts(syncs=syncs)).decode())
    buckets = {bound: found["quorate_sync_seconds_bucket", (bound,)] for bound in
               ("0.0001", "0.00025", "0.25", "0.5", "5.0", "+Inf")}  # fmt: skip
    assert list(buckets.values()) == [1, 2, 2, 3, 3, 4]
    assert found["quorate_sync_seconds_sum", ()] == 7.3003


def test_topics_beyond_the_bound_are_counted_together() -> None:
    topics: dict[str, Topic] = {}
    for number in range(TOPICS_MAX + 20):
        source = store_v1.SourceStatus(held=[v1.HeldRange(first=0, last=9)], stable_upto=7)
        topic_of(topics, f"topic-{number:03}").add(source)
    assert len(topics) == TOPICS_MAX + 1
    assert topics[OTHER_TOPICS].sources == 20
    assert topics[OTHER_TOPICS].messages == 200
    assert topics["topic-000"].unstable == 2


def test_the_sums_of_a_topic() -> None:
    topic = Topic()
    receivers = [store_v1.ReceiverStatus(acknowledged_upto=upto) for upto in (19, 4)]
    topic.add(
        store_v1.SourceStatus(
            held=[v1.HeldRange(first=0, last=9), v1.HeldRange(first=15, last=19)],
            holes=[v1.HeldRange(first=10, last=14)],
            stable_upto=14,
            live=True,
            limbo=True,
            receivers=receivers,
            rows=store_v1.RowsStatus(upto=9, left_out=2, behind_seconds=1.5),
        )
    )
    assert (topic.messages, topic.lacking, topic.unstable) == (15, 5, 5)
    assert (topic.sources, topic.live_sources, topic.limbo_sources, topic.receivers) == (1, 1, 1, 2)
    assert (topic.receiver_lag, topic.row_lag, topic.rowless) == (15, 5, 2)
    assert topic.row_lag_seconds == 1.5
