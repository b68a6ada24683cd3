"""The journals of a group's stores: what each has by store, topic or source, and who reads it.

Only reads; quorate.console.commands.journal shows the result.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from quorate.console.group.asking import answers_of
from quorate.console.group.channels import open_channel
from quorate.console.group.rules.listing import subscription_row
from quorate.protocol.errors import QuorateError
from quorate.protocol.identity import StoreAddress
from quorate.protocol.limits import PROTOCOL_VERSION
from quorate.transport.failures import errors_of
from quorate.v1.store_pb2 import (
    JournalRequest,
    JournalResponse,
    JournalSource,
)
from quorate.v1.store_pb2_grpc import StoreStub

Row = dict[str, Any]
Answers = Mapping[StoreAddress, JournalResponse | QuorateError]


class By(enum.StrEnum):
    """The parts that a journal is listed by."""

    STORE = "store"
    TOPIC = "topic"
    SOURCE = "source"


@dataclass(slots=True)
class Journals:
    """The rows about the journals of a group, and the stores that gave none."""

    rows: list[Row] = field(default_factory=list)
    subscriptions: list[Row] = field(default_factory=list)
    """One row for each subscription that runs, those that are furthest behind first."""
    problems: list[str] = field(default_factory=list)
    """Why a store gave no report, in words."""
    left_out: Counter[str] = field(default_factory=Counter)
    """How many rows are beyond the limit."""


async def ask_all(
    stores: Sequence[StoreAddress], timeout: float, topic_pattern: str, subscriptions_max: int
) -> dict[StoreAddress, JournalResponse | QuorateError]:
    """Return the report of each store, or the error in its place.

    - topic_pattern: of the topics; empty: all.
    - subscriptions_max: how many subscriptions each store reports at most; 0: all.
    """
    request = JournalRequest(
        protocol_version=PROTOCOL_VERSION,
        topic_pattern=topic_pattern,
        subscriptions_max=subscriptions_max,
    )

    async def one(store: StoreAddress) -> JournalResponse:
        whole = JournalResponse()
        async with open_channel(store.address) as channel:
            with errors_of(store.address):
                async for part in StoreStub(channel).Journal(request, timeout=timeout):
                    whole.MergeFrom(part)
        return whole

    return await answers_of(stores, one)


def listed(answers: Answers, by: By, limit: int) -> Journals:
    """Return the rows of the reports. limit: the most rows of each kind; 0: all."""
    found = Journals()
    for answer in answers.values():
        if isinstance(answer, QuorateError):
            found.problems.append(str(answer))
            continue
        store = answer.store_name
        match by:
            case By.STORE:
                found.rows.append(_store_row(answer))
            case By.TOPIC:
                found.rows += [
                    {"topic": topic, "store": store, **_sums(sources)}
                    for topic, sources in _by_topic(answer.sources).items()
                ]
            case By.SOURCE:
                found.rows += [_source_row(store, source) for source in answer.sources]
        found.subscriptions += [subscription_row(store, each) for each in answer.subscriptions]
        found.left_out["subscriptions"] += answer.subscriptions_left_out
    if by is not By.STORE:
        _largest_first(found.rows)
    found.subscriptions.sort(key=lambda row: -row["behind"])
    if limit:
        for kind, rows in (("rows", found.rows), ("subscriptions", found.subscriptions)):
            found.left_out[kind] += max(0, len(rows) - limit)
            del rows[limit:]
    return found


def _largest_first(rows: list[Row]) -> None:
    """Sort the rows so that those of one topic or source are together, the largest first."""
    largest: Counter[str] = Counter()
    for row in rows:
        largest[_subject(row)] = max(row["bytes"], largest[_subject(row)])
    rows.sort(key=lambda row: (-largest[_subject(row)], _subject(row), row["store"]))


def _subject(row: Row) -> str:
    return f"{row['topic']}/{row.get('session_id', '')}"


def _by_topic(sources: Iterable[JournalSource]) -> dict[str, list[JournalSource]]:
    found: dict[str, list[JournalSource]] = {}
    for each in sources:
        found.setdefault(each.source.topic, []).append(each)
    return found


def _store_row(answer: JournalResponse) -> Row:
    return {
        "store": answer.store_name,
        **_sums(answer.sources),
        "disk_bytes": answer.disk_bytes,
        "subscriptions": answer.subscription_count,
        "subscriptions_max": answer.subscription_bound or None,
    }


def _sums(sources: Sequence[JournalSource]) -> Row:
    """Return what is said of several sources together."""
    kept = [each.kept_because for each in sources if each.kept_because]
    return {
        "from": _time(min((each.first_ns for each in sources if each.first_ns), default=0)),
        "to": _time(max((each.last_ns for each in sources), default=0)),
        "sources": len(sources),
        "messages": sum(each.messages for each in sources),
        "bytes": sum(each.bytes for each in sources),
        "compressed": _compressed(sources),
        "not_archived": sum(map(_not_archived, sources)),
        "held_up": len(kept),
        "kept_because": kept[0] if kept else None,
    }


def _compressed(sources: Sequence[JournalSource]) -> str:
    """Return whether the sources with messages compress their batches: no, yes, or some."""
    found = {each.compressed for each in sources if each.messages}
    return "some" if len(found) == 2 else "yes" if True in found else "no"


def _not_archived(source: JournalSource) -> int:
    """Return how many numbers of a source the store has, and no archive."""
    if not source.messages:
        return 0
    return max(0, source.last - max(source.archived_upto, source.first - 1))


def _source_row(store: str, source: JournalSource) -> Row:
    name = source.source
    return {
        "topic": name.topic,
        "session_id": f"{name.session_id:#x}",
        "store": store,
        "from": _time(source.first_ns),
        "to": _time(source.last_ns),
        "first": source.first,
        "last": source.last,
        "messages": source.messages,
        "bytes": source.bytes,
        "compressed": "yes" if source.compressed else "no",
        "archived_upto": source.archived_upto,
        "kept_because": source.kept_because or None,
    }


def _time(time_ns: int) -> str | None:
    """Return a time as text; None: it is unknown."""
    if not time_ns:
        return None
    return datetime.fromtimestamp(time_ns / 1e9, UTC).isoformat(timespec="seconds")
