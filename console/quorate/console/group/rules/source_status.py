"""One source in the answers of several stores: what each has and lacks, and the problems.

Only reads; part of quorate.console.group.status. Rows are made on request: a group may have many
sources, and people look at a few.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

from quorate.console.group.rules.conflict_status import Dispute, disputes
from quorate.console.group.rules.findings import Finding, Kind, Severity
from quorate.console.group.rules.lacks_status import lacks
from quorate.console.group.rules.policy_status import Asked, GroupView, Members, declared_policy
from quorate.protocol import ends
from quorate.protocol.errors import QuorateError
from quorate.protocol.identity import SourceName, StoreAddress
from quorate.protocol.limits import NOTHING
from quorate.protocol.pacing import waited_for
from quorate.protocol.ranges import Range, RangeSet
from quorate.protocol.wire import begun_epoch, begun_newness, membership_from_wire, pacing_from_wire
from quorate.v1.messages_pb2 import DURABILITY_STATE_ONLY, HeldRange
from quorate.v1.store_pb2 import SourceStatus, StatusResponse

Row = dict[str, Any]

Answers = Mapping[StoreAddress, StatusResponse | QuorateError]
"""Each store's status, or the error in its place."""

_NAME = attrgetter("information.source.topic", "information.source.session_id")

RANGES_MAX = 100
"""The most ranges of one kind that a row names."""


def name_of(source: SourceStatus) -> SourceName:
    """Return the source's name in a store's status."""
    return SourceName(*_NAME(source))


def held_upto(source: SourceStatus) -> int:
    """Return the newest message of the source that the store holds or has released; -1 for none."""
    newest = source.held[-1].last if source.held else NOTHING
    return max(newest, source.retained_from - 1)


@dataclass(slots=True)
class SourceView:
    """One source at the stores that answered."""

    name: SourceName
    at: Mapping[str, SourceStatus]
    """The status of the source by the stores that know it."""
    asked: Asked
    due_upto: int | None = None
    """The number up to which stores should have all that is stable; None: up to the last one. The
    stores answer one after the other, so newer stable messages may not be in each answer."""
    stable_upto: int = field(init=False)
    newest: SourceStatus = field(init=False)
    """The status at a store that has the newest begin. A store that the source has left may never
    hear that it was confirmed."""
    members: Members = field(init=False)
    state_only: list[str] = field(init=False)
    """The stores that keep no messages of the source."""
    unknown_to: list[str] = field(init=False)
    """The stores of its policies that answered, and that do not know the source."""
    lacking: dict[str, int] = field(init=False)
    """How many stable messages each store lacks, and should have."""
    lag: dict[str, int] = field(init=False)
    """How many stable messages are behind the newest one of each store, in numbers."""
    _due_upto: int = field(init=False)
    _needed_from: int = field(init=False)

    def __post_init__(self) -> None:
        self._read_stores()
        self.members = self.asked.members(self.newest)
        self.lacking = {store: self._lacking(source) for store, source in self.at.items()}
        self.lag = {
            store: max(0, self._due_upto - held_upto(source))
            for store, source in self.at.items()
            if store not in self.state_only
        }
        self._add_unknown_to()

    def _read_stores(self) -> None:
        """Read what all stores together say. A group may have many sources, so this is one loop."""
        self.state_only = []
        stable_upto, needed_from, newest = NOTHING, 0, (-1, 0)
        for store, source in self.at.items():
            if (newness := begun_newness(source.begun)) > newest:
                self.newest, newest = source, newness
            stable_upto = max(stable_upto, source.stable_upto)
            needed_from = max(needed_from, source.retained_from)
            if source.durability == DURABILITY_STATE_ONLY:
                self.state_only.append(store)
        self.state_only.sort()
        self.stable_upto, self._needed_from = stable_upto, needed_from
        self._due_upto = stable_upto if self.due_upto is None else min(self.due_upto, stable_upto)

    @property
    def _due(self) -> int:
        """How many stable messages stores should have."""
        return max(0, self._due_upto + 1 - self._needed_from)

    def _add_unknown_to(self) -> None:
        answers = self.asked.answers
        self.unknown_to = sorted(
            store
            for store in self.members.own_names - self.at.keys()
            if store in answers and answers[store].durability != DURABILITY_STATE_ONLY
        )
        for store in self.unknown_to:
            self.lacking[store] = self.lag[store] = self._due

    def _lacking(self, source: SourceStatus) -> int:
        """Return how many stable messages a store lacks that no store has released."""
        first, last = self._needed_from, self._due_upto
        if first > last:
            return 0
        if any(item.first <= first and last <= item.last for item in source.held[:1]):
            return 0
        has = RangeSet(Range(item.first, item.last) for item in source.held)
        for item in source.accepted_losses:
            has.add(item.first, item.last)
        return sum(len(hole) for hole in has.holes(first, last))

    @property
    def groups(self) -> GroupView:
        """The groups of the policies in force, by what these stores hold."""
        return GroupView(
            self.name,
            self.members,
            frozenset(store for store in self.at if not self.lacking[store]),
            frozenset(
                store
                for store, each in self.at.items()
                if each.live and store not in self.state_only
            ),
        )

    @property
    def disputes(self) -> list[Dispute]:
        """The conflicts of the source: stores that hold different content."""
        return disputes(self.name, self.at)

    def counts(self, store: str) -> bool:
        """Return whether the group relies on the messages that this store has."""
        return store not in self.state_only and store not in self.members.replicas

    def replica_rows(self) -> list[Row]:
        """Return a row for each replica that keeps the source."""
        return [
            {
                "topic": self.name.topic,
                "session_id": f"{self.name.session_id:#x}",
                "store": store,
                "newest": held_upto(self.at[store]),
                "lag": lag,
            }
            for store, lag in sorted(self.lag.items())
            if store in self.members.replicas
        ]

    def group_rows(self) -> list[Row]:
        """Return a row for each group of each policy in force."""
        return self.groups.rows(declared_policy(self.newest))

    @property
    def is_live(self) -> bool:
        """Whether the source streams to one of the stores."""
        return any(source.live for source in self.at.values())

    @property
    def held_upto(self) -> int:
        """The newest message that a store holds or has released; -1 for none."""
        return max(map(held_upto, self.at.values()))

    @property
    def tail(self) -> int:
        """How many of the newest messages are not known to be stable."""
        return max(0, self.held_upto - self.stable_upto)

    def findings(self, lag_max: int, without: str = "") -> Iterator[Finding]:
        """Yield what is wrong with the messages.

        lag_max: stable messages that a store may be behind. without: the name of a store that is to
        stop; empty: none is.
        """
        for each in self.disputes:
            yield each.finding()
        yield from lacks(self.name, self.at)
        for store, lag in self.lag.items():
            if lag > lag_max and store in self.members.replicas:
                yield Finding(
                    Severity.NOTE, Kind.REPLICA, str(self.name),
                    f"Replica {store} is {lag:,} stable messages behind in {self.name}.",
                    "If all other stores were lost, these messages would be lost, too.",
                    "Wait if the replica has just come back. Otherwise look at the network to it, "
                    "at its log and at its disk.",
                )  # fmt: skip
            elif lag > lag_max:
                yield Finding(
                    Severity.WARNING, Kind.LAG, str(self.name),
                    f"Store {store} is {lag:,} stable messages behind in {self.name}.",
                    "Fewer stores have these messages than should.",
                    "Wait if the store has just come back. Otherwise look at its log and its disk.",
                )  # fmt: skip
        if self.stable_upto > NOTHING:
            yield from self.groups.findings()
        if without:
            yield from self.groups.findings_without(without)

    def row(self) -> Row:
        """Return what is shown of the source itself."""
        at, live = self.at, self.is_live
        proxies = filter(None, (source.proxy for source in at.values()))
        return {
            "topic": self.name.topic,
            "session_id": f"{self.name.session_id:#x}",
            "state": "live" if live else "away",
            "proxy": None if live else min(proxies, default=None),
            "epoch": begun_epoch(self.newest.begun),
            "first": min(
                (source.held[0].first for source in at.values() if source.held),
                default=max(source.retained_from for source in at.values()),
            ),
            "newest": self.held_upto,
            "stable_upto": self.stable_upto,
            "stores": sorted(at),
            "reg_ids": {store: source.reg_id for store, source in at.items()},
            "silent_seconds": round(min(source.inactive_seconds for source in at.values()), 1),
            "limbo": {store: each.limbo_reason for store, each in at.items() if each.limbo},
            "lag": self.lag,
            "lacking": {s: count for s, count in self.lacking.items() if self.counts(s)},
            "replicas": sorted(self.members.replicas & self.at.keys()),
            "state_only": self.state_only,
            "holes": {store: _texts(each.holes) for store, each in at.items() if each.holes},
            "unreadable": {
                store: _texts(each.unreadable) for store, each in at.items() if each.unreadable
            },
            "lost": {
                store: _texts(source.accepted_losses)
                for store, source in at.items()
                if source.accepted_losses
            },
            "retained_from": {store: source.retained_from for store, source in at.items()},
            "archived_upto": {store: source.archived_upto for store, source in at.items()},
            "journal_bytes": {store: source.journal_bytes for store, source in at.items()},
            "released_bytes": {store: source.released_bytes for store, source in at.items()},
            "kept_because": {
                store: source.kept_because for store, source in at.items() if source.kept_because
            },
            "rows": {
                store: {
                    "upto": source.rows.upto,
                    "left_out": source.rows.left_out,
                    "lacks_upto": source.rows.lacks_upto,
                    "behind": max(0, source.stable_upto - source.rows.upto),
                    "behind_seconds": round(source.rows.behind_seconds, 3),
                }
                for store, source in at.items()
                if source.HasField("rows")
            },
            "set_aside": {store: source.set_aside for store, source in at.items()},
        }

    def receiver_rows(self) -> list[Row]:
        """Return a row for each receiver of the source."""
        positions: dict[int, dict[str, int]] = {}
        epochs: dict[int, tuple[int, bool]] = {}
        living = self._living()
        for store, source in self.at.items():
            for receiver in source.receivers:
                if receiver.session_id not in living[store]:
                    continue  # it was deregistered, and the store has not heard of it yet
                upto = living[store][receiver.session_id]
                positions.setdefault(receiver.session_id, {})[store] = upto
                epoch = receiver.epoch, not receiver.not_waited_for
                epochs[receiver.session_id] = max(epoch, epochs.get(receiver.session_id, epoch))
        newest = self.held_upto
        return [
            {
                "topic": self.name.topic,
                "source": f"{self.name.session_id:#x}",
                "session_id": f"{session_id:#x}",
                "acknowledged_upto": max(by_store.values()),
                "lag": newest - max(by_store.values()),
                "waited_for": epochs[session_id][1],
                "stores": by_store,
            }
            for session_id, by_store in sorted(positions.items())
        ]

    def _living(self) -> dict[str, dict[int, int]]:
        return ends.living(
            {
                store: ends.Told(
                    {
                        each.session_id: ends.Position(
                            each.acknowledged_upto, each.epoch, each.confirmed_epoch
                        )
                        for each in source.receivers
                    },
                    {each.session_id: each.epoch for each in source.ended_receivers},
                )
                for store, source in self.at.items()
            }
        )

    def paced_rows(self) -> list[Row]:
        """Return a row with the slowest receiver, if the source waits for its receivers."""
        information = self.newest.information
        pacing = pacing_from_wire(information)
        if pacing is None:
            return []
        # The source's own rule. Only the source knows how many bytes that is.
        called = {
            self.asked.names.get(entry.address, entry.store_name): entry.name
            for entry in information.stores
        }
        living = self._living()
        told = {
            called.get(store, store): {
                each.session_id: living[store][each.session_id]
                for each in source.receivers
                if not each.not_waited_for and each.session_id in living[store]
            }
            for store, source in self.at.items()
        }
        streaming = {
            called.get(store, store)
            for store, source in self.at.items()
            if source.live and not source.may_miss_receivers
        }
        policies = membership_from_wire(self.newest.begun.membership).to_policies
        waited = waited_for(policies, told, streaming)
        slowest, upto = min(waited.items(), key=lambda item: item[1], default=(None, NOTHING))
        newest = self.held_upto
        behind = newest - upto if slowest is not None else 0
        return [
            {
                "topic": self.name.topic,
                "source": f"{self.name.session_id:#x}",
                "slowest_receiver": f"{slowest:#x}" if slowest is not None else None,
                "acknowledged_upto": upto if slowest is not None else None,
                "behind": behind,
                "messages_max": pacing.messages,
                "bytes_max": pacing.bytes,
                "state": "held up" if behind >= pacing.messages else "goes on",
            }
        ]


def views_of(answers: Answers, due: Mapping[SourceName, int] | None = None) -> list[SourceView]:
    """Return each source of the answers, by name.

    due: the number up to which stores should have all that is stable, of some sources.
    """
    due = due or {}
    names = {
        store.address: answer.store_name
        for store, answer in answers.items()
        if isinstance(answer, StatusResponse)
    }
    answered = {
        answer.store_name: answer
        for answer in answers.values()
        if isinstance(answer, StatusResponse)
    }
    asked = Asked(tuple(answers), answered, names)
    at: dict[tuple[str, int], dict[str, SourceStatus]] = {}
    for store, answer in answered.items():
        for source in answer.sources:
            at.setdefault(_NAME(source), {})[store] = source
    return [
        SourceView(name := SourceName(*key), at[key], asked, due.get(name)) for key in sorted(at)
    ]


def _texts(ranges: Iterable[HeldRange]) -> list[str]:
    """Return the ranges as people read them, and of very many how many are left out."""
    named = list(ranges)
    texts = [f"[{item.first}, {item.last}]" for item in named[:RANGES_MAX]]
    if left := len(named) - len(texts):
        texts.append(f"… and {left:,} more ranges")
    return texts
