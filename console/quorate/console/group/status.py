"""The status of a group: the answers of its stores side by side, and the problems.

Only reads; quorate.console.commands.status shows the result. One source at several stores is a
matter of quorate.console.group.rules.source_status.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any

from quorate.console.group.asking import answers_of
from quorate.console.group.channels import open_channel
from quorate.console.group.rules.agreement import same_store_twice
from quorate.console.group.rules.findings import Severity
from quorate.console.group.rules.queue_findings import undispatched
from quorate.console.group.rules.queue_reports import Answers as QueueAnswers
from quorate.console.group.rules.source_status import Answers, SourceView, views_of
from quorate.console.group.rules.store_findings import cause_of, troubles
from quorate.protocol.delays import HEALTH
from quorate.protocol.errors import (
    AccessDenied,
    NoQuorum,
    QuorateError,
    TlsFailed,
)
from quorate.protocol.figures import mean
from quorate.protocol.identity import SourceName, StoreAddress
from quorate.protocol.limits import NOTHING
from quorate.transport.delays import delay
from quorate.transport.failures import errors_of
from quorate.transport.status import read_status, status_request
from quorate.v1.messages_pb2 import (
    DURABILITY_FSYNC,
    DURABILITY_MEMORY,
    DURABILITY_OS,
    DURABILITY_STATE_ONLY,
)
from quorate.v1.store_pb2 import POISON_MARKED, LossRecord, StatusResponse
from quorate.v1.store_pb2_grpc import StoreStub

_DURABILITY = {
    DURABILITY_FSYNC: "fsync",
    DURABILITY_OS: "os",
    DURABILITY_MEMORY: "memory",
    DURABILITY_STATE_ONLY: "state-only",
}

Row = dict[str, Any]


@dataclass(slots=True)
class GroupStatus:
    """One row for each store, source and receiver, and the problems in words."""

    limit: int = 0
    """The most rows of each kind, and the most problems; 0: all."""
    stores: list[Row] = field(default_factory=list)
    sources: list[Row] = field(default_factory=list)
    groups: list[Row] = field(default_factory=list)
    """One row for each group of each policy in force of each source."""
    receivers: list[Row] = field(default_factory=list)
    paced: list[Row] = field(default_factory=list)
    """One row for each source that waits for its receivers, with the slowest of these."""
    replicas: list[Row] = field(default_factory=list)
    """One row for each source and each store that has no part in what is stable of it."""
    conflicts: list[Row] = field(default_factory=list)
    """One row for each source and each two stores that hold different content of it."""
    losses: list[Row] = field(default_factory=list)
    """One row for each loss that operators accepted on each store, ever."""
    problems: list[str] = field(default_factory=list)
    not_asked: dict[str, str] = field(default_factory=dict)
    """The addresses, if known, of stores that keep a source and were not asked, by name."""

    left_out: Counter[str] = field(default_factory=Counter)
    """How many rows of each kind, and how many problems, are beyond the limit."""

    @property
    def healthy(self) -> bool:
        """Whether there are no problems."""
        return not self.problems

    def bound(self) -> None:
        """Leave out what is beyond the limit. Of the losses the newest are shown."""
        if not self.limit:
            return
        self.losses.sort(key=lambda row: str(row["time"]), reverse=True)
        for kind in ("groups", "receivers", "paced", "replicas", "conflicts", "losses", "problems"):
            rows = getattr(self, kind)
            self.left_out[kind] += max(0, len(rows) - self.limit)
            del rows[self.limit :]


async def ask(address: str, timeout: float, topic_pattern: str = "") -> StatusResponse:
    """Return a store's own status.

    timeout: seconds for which the store may say nothing. topic_pattern: of the sources; empty: all.

    Raises Unreachable, NotAStore and other errors of the call.
    """
    async with open_channel(address) as channel:
        with errors_of(address):
            parts = StoreStub(channel).Status(status_request(topic_pattern))
            return await read_status(parts, timeout)


async def ask_all(
    stores: Sequence[StoreAddress], timeout: float, topic_pattern: str = ""
) -> dict[StoreAddress, StatusResponse | QuorateError]:
    """Return each store's status, or the error in its place."""

    return await answers_of(stores, lambda store: ask(store.address, timeout, topic_pattern))


async def until_healthy(look: Callable[[], Awaitable[GroupStatus]], seconds: float) -> GroupStatus:
    """Look again and again until the group is healthy, for so long at most; return the last status.

    Raises the error of the last look, if that failed.
    """
    end = time.monotonic() + seconds
    looks = 0
    while True:
        looks += 1
        left = end - time.monotonic()
        try:
            if (status := await look()).healthy or left <= 0:
                return status
        except QuorateError as error:
            if left <= 0 or not error.retryable:
                raise
        await asyncio.sleep(min(delay(HEALTH, looks), left))


async def look_twice(
    ask: Callable[[], Awaitable[tuple[Answers, QueueAnswers]]],
    judge: Callable[[Answers, QueueAnswers, Mapping[SourceName, int]], GroupStatus],
) -> GroupStatus:
    """Return the judgement of one look; of a second look, if stores seemed to lack messages.

    The stores answer one after the other. So one store may report messages as stable that another
    one took only after its answer. The second look counts what was stable at the first look.
    """
    answers, queues = await ask()
    status = judge(answers, queues, {})
    if status.healthy:
        return status
    live = [view for view in views_of(answers) if view.is_live]
    if not any(any(view.lacking.values()) for view in live):
        return status
    return judge(*await ask(), {view.name: view.stable_upto for view in live})


def too_few(what: str, answers: Mapping[StoreAddress, object]) -> QuorateError:
    """Return the error for an operation that too few stores answered; of one store, its own."""
    failures = {
        store: answer for store, answer in answers.items() if isinstance(answer, QuorateError)
    }
    first = next(iter(failures.values()))
    # Where all stores refuse, or cannot be spoken with, more stores would not help.
    if len(answers) == 1 or all(
        isinstance(answer, TlsFailed | AccessDenied) for answer in answers.values()
    ):
        return first
    return NoQuorum(
        what,
        ", ".join(store.name for store in answers if store not in failures),
        ", ".join(store.name for store in failures),
        "; ".join(f"{store.name}: {cause_of(error)}" for store, error in failures.items()),
    )


def compare(
    answers: Answers,
    lag_max: int,
    limit: int = 0,
    without: str = "",
    queues: QueueAnswers = MappingProxyType({}),
    due: Mapping[SourceName, int] | None = None,
) -> GroupStatus:
    """Return rows and problems.

    lag_max: stable messages. A store that is behind by more in a source is a problem.

    limit: the most rows of each kind, and the most problems. Sources with problems come first. 0:
    all.

    without: the name of a store that is to stop. A source that would lose its quorum by that is a
    problem. Empty: none is to stop.

    queues: what each store reports of its queues. One that no store dispatches is a problem.

    due: the number up to which stores should have all that is stable, of some sources.
    """
    status = GroupStatus(limit)
    for answer in answers.values():
        if isinstance(answer, QuorateError):
            status.problems.append(str(answer))
        else:
            status.losses += [_loss_row(answer.store_name, loss) for loss in answer.accepted_losses]
            status.problems += map(str, troubles(answer))
    reached = [answer for answer in answers.values() if isinstance(answer, StatusResponse)]
    status.problems += map(str, same_store_twice(reached))
    status.problems += map(str, undispatched(queues))
    views = views_of(answers, due)
    lacking: Counter[str] = Counter()
    for view in views:
        lacking.update({s: n for s, n in view.lacking.items() if view.counts(s)})
    status.stores = [
        _silent_row(store, answer)
        if isinstance(answer, QuorateError)
        else _store_row(store, answer, lacking[answer.store_name]) | _role(answer.store_name, views)
        for store, answer in answers.items()
    ]
    _add_sources(status, views, lag_max, without)
    status.bound()
    return status


def _add_sources(
    status: GroupStatus, views: Sequence[SourceView], lag_max: int, without: str
) -> None:
    """Add the problems of all sources, and the rows of those that are shown."""
    ailing: list[SourceView] = []
    well: list[SourceView] = []
    for view in views:
        findings = view.findings(lag_max, without)
        problems = [str(each) for each in findings if each.severity is not Severity.NOTE]
        (ailing if problems else well).append(view)
        status.problems += problems
        status.not_asked |= view.members.unasked
    shown = [*ailing, *well][: status.limit or None]
    status.left_out["sources"] = len(views) - len(shown)
    for view in shown:
        status.sources.append(view.row())
        status.groups += view.group_rows()
        status.receivers += view.receiver_rows()
        status.paced += view.paced_rows()
        status.replicas += view.replica_rows()
        status.conflicts += [each.row() for each in view.disputes]


def _role(store: str, views: Sequence[SourceView]) -> Row:
    """Return what a store is for its sources, and how far it is behind in one of them at most."""
    keeping = [view for view in views if store in view.lag]
    replicating = [view for view in keeping if store in view.members.replicas]
    return {
        "role": "replica" if replicating and len(replicating) == len(keeping) else "member",
        "lag": max((view.lag[store] for view in keeping), default=0),
    }


def _silent_row(store: StoreAddress, error: QuorateError) -> Row:
    row = dict.fromkeys(_store_row(store, StatusResponse(), 0) | _role("", ()))
    return {**row, "store": store.name, "address": store.address, "state": type(error).__name__}


def _store_row(store: StoreAddress, answer: StatusResponse, lacking: int) -> Row:
    return {
        "store": answer.store_name,
        "address": store.address,
        "state": "limbo" if answer.limbo else "ok",
        "version": answer.version,
        "uptime_seconds": round(answer.uptime_seconds, 1),
        "durability": _DURABILITY.get(answer.durability, "?"),
        "sources": answer.source_count,
        "messages": answer.messages,
        "bytes": answer.bytes,
        "syncs": answer.syncs,
        "sync_milliseconds": round(1000 * mean(answer.sync_seconds, answer.syncs), 2),
        "rejected": answer.rejected,
        "starts": answer.starts,
        "limbo": answer.limbo_reason,
        "peers_away": [peer.address for peer in answer.peers if not peer.reachable],
        "disk_free_bytes": answer.disk_free_bytes,
        "disk_free_warning_bytes": answer.disk_free_warning_bytes,
        "lacking": lacking,
        "repair": answer.repair.now,
        "repair_bytes_per_second": round(answer.repair.bytes_per_second),
        "repaired_messages": answer.repair.messages,
        "divergent": answer.repair.divergent,
        "checked": round(answer.repair.scrub.part, 3),
        "checked_passes": answer.repair.scrub.passes,
        "found_unreadable": answer.repair.scrub.unreadable,
        "released_messages": answer.retention.messages,
        "released_bytes": answer.retention.bytes,
        "release_held_up": answer.retention.held_up,
        "capacity": {
            field.name: getattr(answer.capacity, field.name)
            for field in answer.capacity.DESCRIPTOR.fields
        },
        "incarnation": answer.incarnation.hex(),
        "data_directory": answer.data_directory,
    }


def _what(loss: LossRecord) -> str:
    if loss.first == NOTHING:
        return "left limbo"
    part = f"[{loss.first}, {loss.last}]"
    if loss.poison:
        is_marked = loss.poison == POISON_MARKED
        return f"nothing: {part} is {'poison' if is_marked else 'no longer poison'}"
    return f"nothing: {part} is kept as {loss.kept} has it" if loss.kept else part


def _loss_row(store: str, loss: LossRecord) -> Row:
    source = SourceName(loss.source.topic, loss.source.session_id)
    when = datetime.fromtimestamp(loss.time_ns / 1e9, UTC)
    return {
        "store": store,
        "source": str(source) if loss.HasField("source") else None,
        "lost": _what(loss),
        "reason": loss.reason,
        "time": when.isoformat(timespec="seconds"),
        "epoch": loss.lineage[-1].epoch if loss.lineage else 0,
    }
