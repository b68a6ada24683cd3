"""The metrics of a store, in the format of Prometheus: made of its report when they are asked for.

docs/metrics.md lists them. A label never has more values than there are peers, queues, or
TOPICS_MAX. No session ID is a label: their number has no bound. Nothing is counted here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from quorate.protocol.figures import newest_in, numbers_in
from quorate.store.durations import Durations
from quorate.store.engine import Received
from quorate.v1 import store_pb2 as store_v1
from quorate.v1.queue_pb2 import QueueStatus

TOPICS_MAX = 100
"""The topics with metrics of their own: those of the sources that the store knew first."""
OTHER_TOPICS = ""
"""The label of all topics beyond these together. No topic has this name."""


@dataclass(slots=True)
class Facts:
    """The facts that metrics are made of."""

    report: store_v1.StatusResponse
    """The store's report, without its sources."""
    topics: dict[str, Topic]
    """The sums over the sources, by topic."""
    received: Received
    why_not_ready: str
    syncs: Durations
    loop_lag: Durations
    queues: Sequence[QueueStatus] = ()


@dataclass(slots=True)
class Topic:
    """Sums over the sources of a topic."""

    sources: int = 0
    live_sources: int = 0
    limbo_sources: int = 0
    receivers: int = 0
    messages: int = 0
    journal_bytes: int = 0
    stable: int = 0
    unstable: int = 0
    unstable_live: int = 0
    lacking: int = 0
    unreadable: int = 0
    lost: int = 0
    poisoned: int = 0
    set_aside: int = 0
    conflicts: int = 0
    receiver_lag: int = 0
    row_lag: int = 0
    row_lag_seconds: float = 0.0
    rowless: int = 0

    def add(self, source: store_v1.SourceStatus) -> None:
        """Add what a source has."""
        held = numbers_in(source.held)
        high = newest_in(source.held)
        self.sources += 1
        self.live_sources += source.live
        self.limbo_sources += source.limbo
        self.receivers += len(source.receivers)
        self.messages += held
        self.journal_bytes += source.journal_bytes
        unstable = max(0, high - source.stable_upto)
        self.stable += source.stable_upto + 1
        self.unstable += unstable
        self.unstable_live += unstable if source.live else 0
        self.lacking += numbers_in(source.holes)
        self.unreadable += numbers_in(source.unreadable)
        self.lost += numbers_in(source.accepted_losses)
        self.poisoned += numbers_in(source.poisoned)
        self.set_aside += source.set_aside
        self.conflicts += len(source.conflicts)
        behind = (high - each.acknowledged_upto for each in source.receivers)
        self.receiver_lag = max(self.receiver_lag, *behind, 0)
        if source.HasField("rows"):
            self.row_lag += max(0, source.stable_upto - source.rows.upto)
            self.row_lag_seconds = max(self.row_lag_seconds, source.rows.behind_seconds)
            self.rowless += source.rows.left_out


def topic_of(topics: dict[str, Topic], name: str) -> Topic:
    """Return the sums of a topic, or those of all topics beyond the bound."""
    if name not in topics and len(topics) >= TOPICS_MAX:
        name = OTHER_TOPICS
    return topics.setdefault(name, Topic())


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Described(Generic[T]):
    """A metric: its name, its kind, what it means, and where its value comes from."""

    name: str
    kind: type[Metric]
    help: str
    value: Callable[[T], Any]


GAUGE, COUNTER, HISTOGRAM = GaugeMetricFamily, CounterMetricFamily, HistogramMetricFamily

STORE: tuple[Described[Facts], ...] = (
    Described("ready", GAUGE, "1 if clients should be sent to the store, otherwise 0.",
              lambda facts: not facts.why_not_ready),
    Described("limbo", GAUGE, "1 if the store as a whole is in limbo, otherwise 0.",
              lambda facts: facts.report.limbo),
    Described("starts", GAUGE, "Starts of the store with this data directory.",
              lambda facts: facts.report.starts),
    Described("uptime_seconds", GAUGE, "Seconds since the store started.",
              lambda facts: facts.report.uptime_seconds),
    Described("received_batches", COUNTER, "Batches that sources sent in streams.",
              lambda facts: facts.received.batches),
    Described("received_messages", COUNTER, "Messages of these batches that went on a stream.",
              lambda facts: facts.received.messages),
    Described("received_bytes", COUNTER, "Bytes of these batches.",
              lambda facts: facts.received.bytes),
    Described("refused_requests", COUNTER, "Requests and batches that the store refused.",
              lambda facts: facts.report.rejected),
    Described("denied_calls", COUNTER, "Calls that no rule of access permitted.",
              lambda facts: facts.report.denied),
    Described("sync_seconds", HISTOGRAM, "Seconds that each sync of the disk took.",
              lambda facts: facts.syncs),
    Described("event_loop_lag_seconds", HISTOGRAM, "Seconds by which the event loop was late.",
              lambda facts: facts.loop_lag),
    Described("journal_batches", COUNTER, "Batches that the journal ever had.",
              lambda facts: facts.report.position),
    Described("disk_used_bytes", GAUGE, "Bytes of the data directory on the disk.",
              lambda facts: facts.report.disk_bytes),
    Described("disk_free_bytes", GAUGE, "Bytes that are free on the disk.",
              lambda facts: facts.report.disk_free_bytes),
    Described("disk_free_warning_bytes", GAUGE, "Free bytes below which the store warns.",
              lambda facts: facts.report.disk_free_warning_bytes),
    Described("disk_free_min_bytes", GAUGE, "Free bytes below which the store stops.",
              lambda facts: facts.report.disk_free_min_bytes),
    Described("subscriptions", GAUGE, "Subscriptions that run.",
              lambda facts: facts.report.subscription_count),
    Described("undecoded_payloads", COUNTER,
              "Payloads that are not of the format of their topic, of those that filters of "
              "subscriptions looked into.",
              lambda facts: facts.report.undecoded),
    Described("repaired_messages", COUNTER, "Messages that repair fetched from peers.",
              lambda facts: facts.report.repair.messages),
    Described("repaired_bytes", COUNTER, "Bytes that repair fetched from peers.",
              lambda facts: facts.report.repair.bytes),
    Described("divergent_sources", GAUGE, "Sources that differ from those of a peer.",
              lambda facts: facts.report.repair.divergent),
    Described("scrubbed_messages", COUNTER, "Messages that were read to check them.",
              lambda facts: facts.report.repair.scrub.messages),
    Described("released_messages", COUNTER, "Messages that retention let go.",
              lambda facts: facts.report.retention.messages),
    Described("released_bytes", COUNTER, "Bytes that retention let go.",
              lambda facts: facts.report.retention.bytes),
    Described("retention_held_up", GAUGE, "1 if something keeps retention from freeing space.",
              lambda facts: bool(facts.report.retention.held_up)),
    Described("accepted_losses", GAUGE, "Losses that operators accepted at this store.",
              lambda facts: sum(not each.poison for each in facts.report.accepted_losses)),
)  # fmt: skip

PEER: tuple[Described[store_v1.PeerStatus], ...] = (
    Described("peer_reachable", GAUGE, "1 if the peer answered the last question, otherwise 0.",
              lambda peer: peer.reachable),
    Described("peer_limbo", GAUGE, "1 if the peer as a whole is in limbo, otherwise 0.",
              lambda peer: peer.limbo),
)  # fmt: skip

TOPIC: tuple[Described[Topic], ...] = (
    Described("sources", GAUGE, "Sources that the store knows.", lambda topic: topic.sources),
    Described("live_sources", GAUGE, "Sources that stream to the store.",
              lambda topic: topic.live_sources),
    Described("limbo_sources", GAUGE, "Sources for which the store is in limbo.",
              lambda topic: topic.limbo_sources),
    Described("receivers", GAUGE, "Receivers that are registered.",
              lambda topic: topic.receivers),
    Described("messages", GAUGE, "Messages that the store holds.", lambda topic: topic.messages),
    Described("journal_bytes", GAUGE, "Bytes of these messages in the journal.",
              lambda topic: topic.journal_bytes),
    Described("unstable_messages", GAUGE, "Messages that are not known to be stable.",
              lambda topic: topic.unstable),
    Described("unstable_live_messages", GAUGE, "Of these, messages of sources that stream.",
              lambda topic: topic.unstable_live),
    Described("stable_messages", GAUGE,
              "Messages that are known to be stable, also those that retention let go.",
              lambda topic: topic.stable),
    Described("lacking_messages", GAUGE, "Messages in holes, which repair still has to fetch.",
              lambda topic: topic.lacking),
    Described("unreadable_messages", GAUGE, "Messages that the disk does not give back.",
              lambda topic: topic.unreadable),
    Described("lost_messages", GAUGE, "Messages whose loss an operator accepted.",
              lambda topic: topic.lost),
    Described("poisoned_messages", GAUGE, "Messages that an operator marked as poison.",
              lambda topic: topic.poisoned),
    Described("set_aside_messages", GAUGE, "Messages set aside: they belong to no stream.",
              lambda topic: topic.set_aside),
    Described("conflicts", GAUGE, "Ranges for which stores have different content.",
              lambda topic: topic.conflicts),
    Described("receiver_lag_messages", GAUGE, "Messages that the slowest receiver is behind.",
              lambda topic: topic.receiver_lag),
    Described("row_lag_messages", GAUGE, "Stable messages of which no rows are made yet.",
              lambda topic: topic.row_lag),
    Described("row_lag_seconds", GAUGE, "Seconds that rows take to have what is stable.",
              lambda topic: topic.row_lag_seconds),
    Described("rowless_messages", GAUGE, "Messages that make no row: they lack a key.",
              lambda topic: topic.rowless),
)  # fmt: skip

QUEUE: tuple[Described[QueueStatus], ...] = (
    Described("queue_dispatches", GAUGE, "1 if this store dispatches the queue, otherwise 0.",
              lambda queue: queue.dispatches),
)  # fmt: skip

DISPATCHED: tuple[Described[QueueStatus], ...] = (
    Described("queue_ready_messages", GAUGE, "Messages that wait for a consumer.",
              lambda queue: queue.ready),
    Described("queue_leased_messages", GAUGE, "Messages that consumers have.",
              lambda queue: queue.leased),
    Described("queue_waiting_messages", GAUGE,
              "Messages that wait for a delay, for an earlier one of their key, or for their end.",
              lambda queue: queue.waiting),
    Described("queue_consumers", GAUGE, "Consumers that are there.",
              lambda queue: len(queue.consumers)),
    Described("queue_done_messages", COUNTER, "Messages that consumers have done.",
              lambda queue: queue.done),
    Described("queue_retried_messages", COUNTER, "Tries that failed, or whose lease ended.",
              lambda queue: queue.retried),
    Described("queue_dead_messages", COUNTER, "Messages that were given up: dead letters.",
              lambda queue: queue.dead),
)  # fmt: skip
"""The figures of a queue that this store dispatches. Its counters begin anew with a dispatcher."""

CERTIFICATE: Described[Facts] = Described(
    "certificate_end_timestamp_seconds",
    GAUGE,
    "The time at which the store's certificate ends, in seconds since 1970.",
    lambda facts: facts.report.certificate_ends,
)
BUILD: Described[Facts] = Described(
    "build_info", GAUGE, "Always 1. The labels say the version and the store's name.", lambda _: 1
)


def full_name(described: Described[Any]) -> str:
    """Return the name that a metric has in the output."""
    return f"quorate_{described.name}" + ("_total" if described.kind is COUNTER else "")


def exposition(facts: Facts) -> bytes:
    """Return all metrics as Prometheus reads them."""
    registry = CollectorRegistry()
    registry.register(_Made([*_families(facts)]))
    ProcessCollector(registry=registry)
    return generate_latest(registry)


class _Made(Collector):
    """Families that are made already."""

    def __init__(self, families: list[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families


def _families(facts: Facts) -> Iterable[Metric]:
    yield _family(BUILD, [((facts.report.version, facts.report.store_name), facts)],
                  ("version", "store"))  # fmt: skip
    for described in STORE:
        yield _family(described, [((), facts)])
    if facts.report.certificate_ends:
        yield _family(CERTIFICATE, [((), facts)])
    for of_peer in PEER:
        peers = (((peer.address,), peer) for peer in facts.report.peers)
        yield _family(of_peer, peers, ("peer",))
    dispatched = [queue for queue in facts.queues if queue.dispatches]
    for listed, queues in ((QUEUE, facts.queues), (DISPATCHED, dispatched)):
        for of_queue in listed:
            yield _family(of_queue, (((queue.name,), queue) for queue in queues), ("queue",))
    for of_topic in TOPIC:
        topics = (((name,), topic) for name, topic in facts.topics.items())
        yield _family(of_topic, topics, ("topic",))


def _family(
    described: Described[T],
    subjects: Iterable[tuple[tuple[str, ...], T]],
    labels: tuple[str, ...] = (),
) -> Metric:
    """Return a family with a sample for each subject, by the values of its labels."""
    name = f"quorate_{described.name}"
    if described.kind is HISTOGRAM:
        histogram = HistogramMetricFamily(name, described.help, labels=labels)
        for values, subject in subjects:
            durations = described.value(subject)
            buckets = [(_bound(upto), count) for upto, count in durations.cumulative()]
            histogram.add_metric(values, buckets, durations.seconds)
        return histogram
    family = (CounterMetricFamily if described.kind is COUNTER else GaugeMetricFamily)(
        name, described.help, labels=labels
    )
    for values, subject in subjects:
        family.add_metric(values, float(described.value(subject)))
    return family


def _bound(upto: float) -> str:
    return "+Inf" if upto == float("inf") else repr(upto)
