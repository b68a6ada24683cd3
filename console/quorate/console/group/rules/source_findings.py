"""Findings about one source: its quorum, its tail, its receivers, and what keeps its messages.

Pure. Messages that stores lack are in quorate.console.group.rules.lacks_status, conflicts in
quorate.console.group.rules.conflict_status.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from quorate.console.group.rules.agreement import lineages_differ
from quorate.console.group.rules.findings import Bounds, Finding, Kind, Severity
from quorate.console.group.rules.row_findings import rows_behind
from quorate.console.group.rules.source_status import Row, SourceView
from quorate.protocol.figures import counted
from quorate.protocol.identity import SourceName
from quorate.protocol.limits import NOTHING
from quorate.v1.store_pb2 import SubscriptionStatus

Tails = Mapping[SourceName, int]
"""How far each source that streams and has a tail is stable, at an earlier look."""


def tails(views: Iterable[SourceView]) -> dict[SourceName, int]:
    """Return the tails of the sources that stream."""
    return {view.name: view.stable_upto for view in views if view.is_live and view.tail}


def of_source(view: SourceView, bounds: Bounds, earlier: Tails) -> Iterator[Finding]:
    """Yield what is wrong with a source. earlier: the tails at an earlier look."""
    yield from view.findings(bounds.lag_max)
    yield from lineages_differ(view.name, view.at)
    if view.is_live:
        yield from view.groups.cut_off()
    yield from _tail(view, earlier)
    yield from _receivers(view, bounds)
    yield from _kept(view)
    yield from rows_behind(view, bounds)


def _tail(view: SourceView, earlier: Tails) -> Iterator[Finding]:
    if not view.tail:
        return
    name = view.name
    if not view.is_live:
        yield Finding(
            Severity.WARNING, Kind.TAIL, str(name),
            f"{name} is away, and its last {view.tail:,} messages are not known to be stable.",
            "Receivers of stable messages wait for them. Only the source can make them stable.",
            f"Start the application of the source again. If it is gone for good: `quorate "
            f"deregister --source {name}` ends it, with all its messages.",
        )  # fmt: skip
    elif earlier.get(name) == view.stable_upto:
        yield Finding(
            Severity.CRITICAL, Kind.TAIL, str(name),
            f"{name} streams, and nothing behind {view.stable_upto:,} becomes stable; "
            f"{view.tail:,} messages wait.",
            "Receivers of stable messages get nothing, and the flight window of the source fills.",
            "Look at the stores of its policy, in `quorate status` and in their logs, and at the "
            "events of the source.",
        )  # fmt: skip


def _receivers(view: SourceView, bounds: Bounds) -> Iterator[Finding]:
    for row in view.receiver_rows():
        if row["lag"] > bounds.receiver_lag_max:
            end = f"`quorate deregister --source {view.name} --receiver {row['session_id']}`"
            yield Finding(
                Severity.WARNING, Kind.RECEIVER, str(view.name),
                f"Receiver {row['session_id']} is {counted(row['lag'], 'message')} behind in "
                f"{view.name}.",
                "It is away or too slow. Retention may let messages go before it gets them, or "
                "keep them for it.",
                f"Start its application, or make it faster. If it is gone for good: {end}.",
            )  # fmt: skip
        yield from _gone(view, row)


def _gone(view: SourceView, receiver: Row) -> Iterator[Finding]:
    """Yield the messages that every store has let go before a receiver acknowledged them."""
    position = receiver["acknowledged_upto"]
    kept_from = min(
        (source.retained_from for store, source in view.at.items() if view.counts(store)),
        default=0,
    )
    # A receiver that has acknowledged nothing may be new: it begins with what is there.
    if NOTHING < position < kept_from - 1:
        yield Finding(
            Severity.NOTE, Kind.RECEIVER, str(view.name),
            f"The stores have let go of [{position + 1}, {kept_from - 1}] of {view.name}, which "
            f"receiver {receiver['session_id']} has not acknowledged.",
            "It is told of a gap with the cause `RELEASED`, and goes on behind it. A subscriber "
            "still finds them in an archive.",
            'If it needs each message, set `retain_until = ["acknowledged"]` at the stores.',
        )  # fmt: skip


def _kept(view: SourceView) -> Iterator[Finding]:
    """Yield why stores keep messages that are over a bound of retention."""
    stores_by_reason: dict[str, list[str]] = {}
    for store, source in view.at.items():
        if source.kept_because:
            stores_by_reason.setdefault(source.kept_because, []).append(store)
    for reason, stores in stores_by_reason.items():
        yield Finding(
            Severity.WARNING, Kind.HELD, str(view.name),
            f"Retention releases nothing of {view.name} at {', '.join(sorted(stores))}: {reason}.",
            "The source takes more of the disk than its bound says.",
            _release(view.name, reason),
        )  # fmt: skip


def _release(name: SourceName, reason: str) -> str:
    """Return the next step for a reason, in the words of the store."""
    kind, _, rest = reason.partition(" ")
    if kind == "receiver":
        session = rest.partition(" ")[0]
        return (
            "Start the application of the receiver. If it is gone for good: `quorate deregister "
            f"--source {name} --receiver {session}`."
        )
    if "archive has it" in reason:
        return "Run `quorate archive`."
    if "subscription of" in reason:
        return "Make the subscriber faster, or stop it. It is waited for a bounded time only."
    return "See to the cause that the store names."


def of_subscription(store: str, each: SubscriptionStatus, bounds: Bounds) -> Iterator[Finding]:
    """Yield whether a subscription at a store is far behind."""
    if each.behind > bounds.subscriber_lag_max:
        yield Finding(
            Severity.WARNING, Kind.SUBSCRIBER, store,
            f"The subscription of {each.client} to {each.topic or each.pattern} at store {store} "
            f"is {counted(each.behind, 'message')} behind.",
            "It reads an old part of the journal, or its application is too slow.",
            "Look at it again. If it falls back further, make its application faster.",
        )  # fmt: skip
