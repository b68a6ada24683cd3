"""The view of a whole group that the page shows, made of what each of its stores reports. Pure.

A view is plain data, as JSON has it. Rates come from two views, one after the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field

from quorate.protocol.errors import InvalidArgument
from quorate.protocol.figures import mean, newest_in, numbers_in, rate
from quorate.protocol.identity import SourceName
from quorate.protocol.wire import (
    application_from_wire,
    begun_epoch,
    begun_newness,
    named_in_policies,
    source_from_wire,
)
from quorate.v1 import store_pb2 as store_v1
from quorate.v1.queue_pb2 import QueueStatus

SOURCES_MAX = 200
"""The sources that a view has: those with a problem first, then those that send most."""
RECEIVERS_MAX = 50
"""The receivers of a source that a view has: those that are furthest behind."""

SUBSCRIBERS_MAX = 50
"""The subscribers of a store that a view has: those that are furthest behind."""


@dataclass(slots=True)
class StoreView:
    """One store."""

    name: str
    address: str
    problem: str = ""
    """Why the store does not answer; empty: it does."""
    limbo: str = ""
    """Why the store as a whole is in limbo; empty: it is not."""
    version: str = ""
    uptime_seconds: float = 0.0
    disk_used_bytes: int = 0
    disk_free_bytes: int = 0
    is_disk_low: bool = False
    subscribers: int = 0
    messages: int = 0
    lacking: int = 0
    """The messages in holes."""
    batches: int = 0
    """The batches that the journal ever had."""
    batches_per_second: float = 0.0
    sync_seconds: float = 0.0
    """The mean time of a sync since the store started."""
    is_replica: bool = False
    """Whether the store is a replica for all of its sources."""
    behind: int = 0
    """The stable messages that it does not have yet, of the source where these are most."""


@dataclass(slots=True)
class ReceiverView:
    """One receiver of a source."""

    session: str
    acknowledged: int
    behind: int
    application: str = ""
    """The name, or the program, and where it runs; empty: unknown."""


@dataclass(slots=True)
class HeldView:
    """The messages of a source that a store holds."""

    high: int
    """The highest number that it holds or let go; -1: none."""
    lacking: int = 0
    limbo: str = ""
    is_replica: bool = False
    """Whether the source sends to the store beside its policies."""


@dataclass(slots=True)
class SourceView:
    """One source, as its stores have it."""

    topic: str
    session: str
    epoch: int = 0
    is_live: bool = False
    first: int = -1
    high: int = -1
    """The highest number that any store holds; -1: none."""
    stable: int = -1
    """The highest number that is known to be stable; -1: none."""
    messages_per_second: float = 0.0
    idle_seconds: float = 0.0
    application: str = ""
    """The name, or the program, and where it runs; empty: unknown."""
    stores: dict[str, HeldView] = field(default_factory=dict)
    receivers: list[ReceiverView] = field(default_factory=list)
    receiver_count: int = 0

    @property
    def has_problem(self) -> bool:
        """Whether a store lacks messages of it, or is in limbo for it."""
        return any(held.lacking or held.limbo for held in self.stores.values())


@dataclass(slots=True)
class SubscriberView:
    """One subscription."""

    store: str
    client: str
    """The address of the client, as gRPC has it."""
    topics: str
    """The topic, or the pattern of the topics."""
    behind: int
    """The messages that it has yet to read."""
    seconds: float
    """The time since it was opened."""
    application: str
    """The name, or the program, and where it runs; empty: unknown."""
    number: int
    """Its place among the subscriptions since its store started."""
    read: int
    """The messages that it has read, with those that its filter left out."""
    messages_per_second: float = 0.0


@dataclass(slots=True)
class QueueView:
    """One queue, as its dispatcher has it."""

    name: str
    dispatcher: str = ""
    """The name of the store that dispatches it; empty: none does."""
    problem: str = ""
    """Why no store dispatches it; empty: one does, or none says why."""
    ready: int = 0
    """The messages that wait for a consumer."""
    leased: int = 0
    """The messages that consumers have."""
    waiting: int = 0
    """The messages that wait for a delay, for an earlier one of their key, or for their end."""
    done: int = 0
    """The messages that consumers have done, since the dispatcher began."""
    dead: int = 0
    """The messages that were given up, since the dispatcher began."""
    consumers: int = 0
    messages_per_second: float = 0.0
    """The messages that are done or given up."""


@dataclass(slots=True)
class GroupView:
    """The view of a group at one time."""

    at: float
    """Seconds since 1970 UTC."""
    by: str
    """The name of the store that made it."""
    stores: list[StoreView]
    sources: list[SourceView]
    source_count: int
    """How many sources there are. The view may have fewer."""
    subscribers: list[SubscriberView] = field(default_factory=list)
    """The subscribers of all stores, those that are furthest behind first."""
    queues: list[QueueView] = field(default_factory=list)
    """The queues, by name."""

    def as_json(self) -> dict[str, object]:
        """Return the view as JSON has it."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Report:
    """The report of one store."""

    status: store_v1.StatusResponse
    queues: Sequence[QueueStatus] = ()


Reports = Mapping[str, Report | str]
"""The report of each store, by address; a text says why there is none."""


def view_of(
    reports: Reports, by: str, at: float, known: Mapping[str, str], before: GroupView | None
) -> GroupView:
    """Return the view of a group.

    - by: the name of the store that makes it.
    - at: seconds since 1970.
    - known: the last known name of each store, by its address.
    - before: the view before this one; None: there is none, so there are no rates.
    """
    sources: dict[SourceName, SourceView] = {}
    stores = []
    subscribers: list[SubscriberView] = []
    queues: dict[str, QueueView] = {}
    newest: dict[SourceName, store_v1.SourceStatus] = {}
    for address, told in reports.items():
        if isinstance(told, str):
            stores.append(StoreView(known.get(address, address), address, told))
            continue
        report = told.status
        for queue in told.queues:
            _add_queue(queues.setdefault(queue.name, QueueView(queue.name)), report, queue)
        stores.append(_store(report, address))
        subscribers += _subscribers(report)
        for status in report.sources:
            name = source_from_wire(status.information.source)
            view = sources.setdefault(name, SourceView(name.topic, f"{name.session_id:#x}"))
            _add(view, report.store_name, status)
            before_it = newest.setdefault(name, status)
            if begun_newness(status.begun) > begun_newness(before_it.begun):
                newest[name] = status
    stores.sort(key=lambda store: store.name)
    names = {store.address: store.name for store in stores}
    for name, view in sources.items():
        for replica in _replicas(newest[name], names) & view.stores.keys():
            view.stores[replica].is_replica = True
        _settle(view)
    for store in stores:
        _settle_store(store, sources.values())
    if before is not None and at > before.at:
        _add_rates(stores, sources.values(), before, at - before.at)
        _add_rates_of_readers(subscribers, queues.values(), before, at - before.at)
    shown = sorted(
        sources.values(),
        key=lambda view: (not view.has_problem, -view.messages_per_second, not view.is_live),
    )[:SOURCES_MAX]
    shown.sort(key=lambda view: (view.topic, view.session))
    subscribers.sort(key=lambda each: (-each.behind, each.store, each.client))
    listed = [queue for _, queue in sorted(queues.items())]
    return GroupView(at, by, stores, shown, len(sources), subscribers, listed)


def _subscribers(report: store_v1.StatusResponse) -> list[SubscriberView]:
    return [
        SubscriberView(
            report.store_name,
            each.client,
            each.topic or each.pattern,
            each.behind,
            each.seconds,
            str(application_from_wire(each.application)),
            each.number,
            each.read,
        )
        for each in report.subscriptions
    ]


def _add_queue(view: QueueView, report: store_v1.StatusResponse, queue: QueueStatus) -> None:
    """Add what one store reports of a queue. Only its dispatcher knows more than the trouble."""
    if not queue.dispatches:
        view.problem = view.problem or ("" if view.dispatcher else queue.trouble)
        return
    view.dispatcher, view.problem = report.store_name, ""
    view.ready, view.leased, view.waiting = queue.ready, queue.leased, queue.waiting
    view.done, view.dead, view.consumers = queue.done, queue.dead, len(queue.consumers)


def _store(report: store_v1.StatusResponse, address: str) -> StoreView:
    return StoreView(
        report.store_name,
        address,
        limbo=(report.limbo_reason or "limbo") if report.limbo else "",
        version=report.version,
        uptime_seconds=report.uptime_seconds,
        disk_used_bytes=report.disk_bytes,
        disk_free_bytes=report.disk_free_bytes,
        is_disk_low=report.disk_free_bytes < report.disk_free_warning_bytes,
        subscribers=report.subscription_count,
        messages=report.messages,
        lacking=sum(numbers_in(status.holes) for status in report.sources),
        batches=report.position,
        sync_seconds=mean(report.sync_seconds, report.syncs),
    )


def _add(view: SourceView, store: str, status: store_v1.SourceStatus) -> None:
    """Add what one store reports of a source."""
    high = max(newest_in(status.held), status.retained_from - 1)
    first = min((each.first for each in status.held), default=-1)
    view.stores[store] = HeldView(
        high, numbers_in(status.holes), (status.limbo_reason or "limbo") if status.limbo else ""
    )
    if first >= 0:
        view.first = first if view.first < 0 else min(view.first, first)
    is_first = len(view.stores) == 1
    view.idle_seconds = (
        status.inactive_seconds if is_first else min(view.idle_seconds, status.inactive_seconds)
    )
    view.epoch = max(view.epoch, begun_epoch(status.begun))
    view.is_live |= status.live
    view.high = max(view.high, high)
    view.stable = max(view.stable, status.stable_upto)
    view.application = view.application or str(application_from_wire(status.application))
    acknowledged = {each.session: each for each in view.receivers}
    for receiver in status.receivers:
        session = f"{receiver.session_id:#x}"
        found = acknowledged.get(session)
        application = str(application_from_wire(receiver.application))
        if found is None:
            upto = receiver.acknowledged_upto
            view.receivers.append(ReceiverView(session, upto, 0, application))
        else:
            found.application = found.application or application
            found.acknowledged = max(found.acknowledged, receiver.acknowledged_upto)


def _settle(view: SourceView) -> None:
    """Work out what follows from the reports of all stores."""
    for receiver in view.receivers:
        receiver.behind = max(0, view.high - receiver.acknowledged)
    view.stores = dict(sorted(view.stores.items()))
    view.receiver_count = len(view.receivers)
    view.receivers.sort(key=lambda receiver: (-receiver.behind, receiver.session))
    del view.receivers[RECEIVERS_MAX:]


def _replicas(newest: store_v1.SourceStatus, names: Mapping[str, str]) -> set[str]:
    """Return the own names of the stores that a source sends to beside its policies.

    names: the own names of stores, by address.
    """
    try:
        named = named_in_policies(newest)
    except InvalidArgument:  # a rule that this version does not know
        return set()
    others = (each for each in newest.information.stores if named and each.name not in named)
    return {each.store_name or names.get(each.address, each.name) for each in others}


def _settle_store(store: StoreView, sources: Iterable[SourceView]) -> None:
    """Work out what a store is for its sources, and how far it is behind."""
    keeping = [(view, view.stores[store.name]) for view in sources if store.name in view.stores]
    store.is_replica = bool(keeping) and all(held.is_replica for _, held in keeping)
    store.behind = max((max(0, view.stable - held.high) for view, held in keeping), default=0)


def _add_rates(
    stores: Iterable[StoreView], sources: Iterable[SourceView], before: GroupView, seconds: float
) -> None:
    batches = {store.address: store.batches for store in before.stores if not store.problem}
    for store in stores:
        earlier = batches.get(store.address, store.batches)
        store.batches_per_second = rate(store.batches, earlier, seconds)
    highs = {(view.topic, view.session): view.high for view in before.sources}
    for view in sources:
        earlier = highs.get((view.topic, view.session), view.high)
        view.messages_per_second = rate(view.high, earlier, seconds)


def _add_rates_of_readers(
    subscribers: Iterable[SubscriberView],
    queues: Iterable[QueueView],
    before: GroupView,
    seconds: float,
) -> None:
    read = {(each.store, each.client, each.number): each.read for each in before.subscribers}
    for subscriber in subscribers:
        key = (subscriber.store, subscriber.client, subscriber.number)
        earlier = read.get(key, subscriber.read)
        subscriber.messages_per_second = rate(subscriber.read, earlier, seconds)
    settled = {(each.name, each.dispatcher): each.done + each.dead for each in before.queues}
    for queue in queues:
        now = queue.done + queue.dead
        earlier = settled.get((queue.name, queue.dispatcher), now)
        queue.messages_per_second = rate(now, earlier, seconds)
