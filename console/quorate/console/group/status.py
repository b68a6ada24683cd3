"""The status of a group: the answers of its stores side by side, and the problems.

Only reads; quorate.console.commands.status shows the result.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from quorate.console.group.lacks_status import lacks
from quorate.console.group.policy_status import (
    group_rows,
    unasked,
)
from quorate.protocol import ends
from quorate.protocol.errors import NoQuorum, NotAStore, QuorateError, Unreachable
from quorate.protocol.identity import SourceName, StoreAddress
from quorate.protocol.limits import NOTHING, PROTOCOL_VERSION
from quorate.protocol.pacing import waited_for
from quorate.protocol.wire import membership_from_wire, pacing_from_wire
from quorate.transport.channels import open_channel
from quorate.transport.failures import errors_of
from quorate.v1.messages_pb2 import (
    DURABILITY_FSYNC,
    DURABILITY_MEMORY,
    DURABILITY_OS,
    DURABILITY_STATE_ONLY,
    HeldRange,
    Membership,
    SourceInformation,
)
from quorate.v1.store_pb2 import LossRecord, SourceStatus, StatusRequest, StatusResponse
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

    stores: list[Row] = field(default_factory=list)
    sources: list[Row] = field(default_factory=list)
    groups: list[Row] = field(default_factory=list)
    """One row for each group of each policy in force of each source."""
    receivers: list[Row] = field(default_factory=list)
    paced: list[Row] = field(default_factory=list)
    """One row for each source that waits for its receivers, with the slowest of these."""
    losses: list[Row] = field(default_factory=list)
    """One row for each loss that operators accepted on each store, ever."""
    problems: list[str] = field(default_factory=list)
    not_asked: dict[str, str] = field(default_factory=dict)
    """The addresses, if known, of stores that keep a source and were not asked, by name."""

    @property
    def healthy(self) -> bool:
        """Whether there are no problems."""
        return not self.problems


async def ask(address: str, timeout: float) -> StatusResponse:
    """Return a store's own status. Raises Unreachable, NotAStore and other errors of the call."""
    async with open_channel(address) as channel:
        with errors_of(address):
            request = StatusRequest(protocol_version=PROTOCOL_VERSION)
            response: StatusResponse = await StoreStub(channel).Status(request, timeout=timeout)
            return response


async def ask_all(
    stores: Sequence[StoreAddress], timeout: float
) -> dict[StoreAddress, StatusResponse | QuorateError]:
    """Return each store's status, or the error in its place."""

    async def one(store: StoreAddress) -> StatusResponse | QuorateError:
        try:
            return await ask(store.address, timeout)
        except QuorateError as error:
            return error

    return dict(zip(stores, await asyncio.gather(*map(one, stores)), strict=True))


def too_few(
    what: str, answers: Mapping[StoreAddress, StatusResponse | QuorateError]
) -> QuorateError:
    """Return the error for an operation that too few stores answered; of one store, its own."""
    failures = {
        store: answer for store, answer in answers.items() if isinstance(answer, QuorateError)
    }
    if len(answers) == 1:
        return next(iter(failures.values()))
    return NoQuorum(
        what,
        ", ".join(store.name for store in answers if store not in failures),
        ", ".join(store.name for store in failures),
        "; ".join(f"{store.name}: {_cause(error)}" for store, error in failures.items()),
    )


def _cause(error: QuorateError) -> str:
    """Return the cause of an error without its next step, which is the same for all stores."""
    return error.detail if isinstance(error, Unreachable | NotAStore) else str(error)


def compare(
    answers: Mapping[StoreAddress, StatusResponse | QuorateError], lag_max: int
) -> GroupStatus:
    """Return rows and problems.

    lag_max: stable messages. A store that lacks more of a source is a problem.
    """
    status = GroupStatus()
    answered: dict[str, StatusResponse] = {}
    for store, answer in answers.items():
        if isinstance(answer, QuorateError):
            status.stores.append(_silent_row(store, answer))
            status.problems.append(str(answer))
        else:
            status.stores.append(_store_row(store, answer))
            answered[answer.store_name] = answer
            status.losses += [_loss_row(answer.store_name, loss) for loss in answer.accepted_losses]
            if answer.repair.divergent:
                status.problems.append(
                    f"Store {answer.store_name} holds other content than another store for "
                    f"{answer.repair.divergent} of its sources: `quorate repair` names them."
                )
            if why := answer.retention.held_up:
                status.problems.append(
                    f"Store {answer.store_name} frees no disk space of released messages: {why}"
                )
            status.problems += _in_limbo(answer)
    incarnations = [answer.incarnation for answer in answered.values()]
    reached = sum(isinstance(answer, StatusResponse) for answer in answers.values())
    if len(set(incarnations)) < reached:
        status.problems.append(
            "Two addresses answer as one store: they have the same name or the same incarnation."
        )
    names = {
        store.address: answer.store_name
        for store, answer in answers.items()
        if isinstance(answer, StatusResponse)
    }
    for source in sorted(_sources(answered.values())):
        _compare_source(source, answered, names, answers, lag_max, status)
    return status


def _in_limbo(answer: StatusResponse) -> list[str]:
    """Return the problems of a store in limbo: as a whole, or for each source."""
    store = f"Store {answer.store_name} is in limbo"
    if answer.limbo:
        return [f"{store}: {answer.limbo_reason}."]
    return [
        f"{store} for {name_of(source)}: {source.limbo_reason}."
        for source in answer.sources
        if source.limbo
    ]


def _silent_row(store: StoreAddress, error: QuorateError) -> Row:
    row = dict.fromkeys(_store_row(store, StatusResponse()))
    return {**row, "store": store.name, "address": store.address, "state": type(error).__name__}


def _store_row(store: StoreAddress, answer: StatusResponse) -> Row:
    return {
        "store": answer.store_name,
        "address": store.address,
        "state": "limbo" if answer.limbo else "ok",
        "version": answer.version,
        "uptime_seconds": round(answer.uptime_seconds, 1),
        "durability": _DURABILITY.get(answer.durability, "?"),
        "sources": len(answer.sources),
        "messages": answer.messages,
        "bytes": answer.bytes,
        "syncs": answer.syncs,
        "sync_milliseconds": round(1000 * answer.sync_seconds / max(answer.syncs, 1), 2),
        "rejected": answer.rejected,
        "starts": answer.starts,
        "limbo": answer.limbo_reason,
        "peers_away": [peer.address for peer in answer.peers if not peer.reachable],
        "disk_free_bytes": answer.disk_free_bytes,
        "lacking": answer.repair.lacking,
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
        "incarnation": answer.incarnation.hex(),
        "data_directory": answer.data_directory,
    }


def name_of(source: SourceStatus) -> SourceName:
    """Return the source's name in a store's status."""
    return SourceName(source.information.source.topic, source.information.source.session_id)


def _sources(answers: Iterable[StatusResponse]) -> set[SourceName]:
    return {name_of(source) for answer in answers for source in answer.sources}


def held_upto(source: SourceStatus) -> int:
    """Return the newest message of the source that the store holds or has released; -1 for none."""
    newest = source.held[-1].last if source.held else NOTHING
    return max(newest, source.retained_from - 1)


def _compare_source(
    name: SourceName,
    answers: Mapping[str, StatusResponse],
    names: Mapping[str, str],
    asked: Collection[StoreAddress],
    lag_max: int,
    status: GroupStatus,
) -> None:
    at = {
        store: source
        for store, answer in answers.items()
        for source in answer.sources
        if name_of(source) == name
    }
    stable_upto = max(source.stable_upto for source in at.values())
    lags = {
        store: stable_upto - min(held_upto(source), stable_upto) for store, source in at.items()
    }
    state_only = sorted(
        store for store, source in at.items() if source.durability == DURABILITY_STATE_ONLY
    )
    behind = {store: lag for store, lag in lags.items() if store not in state_only}
    holes = {store: _texts(source.holes) for store, source in at.items() if source.holes}
    unreadable = {
        store: _texts(source.unreadable) for store, source in at.items() if source.unreadable
    }
    newest = max(at.values(), key=lambda source: source.begun_epoch)
    live = any(source.live for source in at.values())
    status.sources.append(
        {
            "topic": name.topic,
            "session_id": f"{name.session_id:#x}",
            "state": "live" if live else "away",
            "proxy": None if live else max(source.proxy for source in at.values()) or None,
            "epoch": newest.begun_epoch,
            "first": min(
                (source.held[0].first for source in at.values() if source.held),
                default=max(source.retained_from for source in at.values()),
            ),
            "newest": max(map(held_upto, at.values())),
            "stable_upto": stable_upto,
            "stores": sorted(at),
            "reg_ids": {store: source.reg_id for store, source in at.items()},
            "silent_seconds": round(min(source.inactive_seconds for source in at.values()), 1),
            "limbo": {store: source.limbo_reason for store, source in at.items() if source.limbo},
            "lag": behind,
            "state_only": state_only,
            "holes": holes,
            "unreadable": unreadable,
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
            "set_aside": {store: source.set_aside for store, source in at.items()},
        }
    )
    status.problems += lacks(name, at)
    for store, lag in behind.items():
        if lag > lag_max:
            status.problems.append(f"Store {store} is {lag:,} stable messages behind in {name}.")
    not_asked = unasked(newest, asked, names)
    status.not_asked |= not_asked
    rows, problems = group_rows(
        name,
        newest,
        frozenset(s for s, lag in lags.items() if not lag and s not in {*holes, *unreadable}),
        frozenset(s for s, source in at.items() if source.live and s not in state_only),
        names,
        not_asked.keys(),
    )
    status.groups += rows
    status.problems += problems if stable_upto > NOTHING else []
    _compare_receivers(name, at, status)
    status.paced += _paced_rows(name, newest.information, newest.membership, at, names)


def _texts(ranges: Iterable[HeldRange]) -> list[str]:
    return [f"[{item.first}, {item.last}]" for item in ranges]


def _loss_row(store: str, loss: LossRecord) -> Row:
    source = SourceName(loss.source.topic, loss.source.session_id)
    when = datetime.fromtimestamp(loss.time_ns / 1e9, UTC)
    return {
        "store": store,
        "source": str(source) if loss.HasField("source") else None,
        "lost": f"[{loss.first}, {loss.last}]" if loss.first != NOTHING else "left limbo",
        "reason": loss.reason,
        "time": when.isoformat(timespec="seconds"),
        "epoch": loss.lineage[-1].epoch if loss.lineage else 0,
    }


def _compare_receivers(
    name: SourceName, at: Mapping[str, SourceStatus], status: GroupStatus
) -> None:
    positions: dict[int, dict[str, int]] = {}
    epochs: dict[int, tuple[int, bool]] = {}
    living = _living(at)
    for store, source in at.items():
        for receiver in source.receivers:
            if receiver.session_id not in living[store]:
                continue  # it was deregistered, and the store has not heard of it yet
            upto = living[store][receiver.session_id]
            positions.setdefault(receiver.session_id, {})[store] = upto
            said = (receiver.epoch, not receiver.not_waited_for)
            epochs[receiver.session_id] = max(said, epochs.get(receiver.session_id, said))
    newest = max(map(held_upto, at.values()))
    for session_id, by_store in sorted(positions.items()):
        status.receivers.append(
            {
                "topic": name.topic,
                "source": f"{name.session_id:#x}",
                "session_id": f"{session_id:#x}",
                "acknowledged_upto": max(by_store.values()),
                "lag": newest - max(by_store.values()),
                "waited_for": epochs[session_id][1],
                "stores": by_store,
            }
        )


def _living(at: Mapping[str, SourceStatus]) -> dict[str, dict[int, int]]:
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
            for store, source in at.items()
        }
    )


def _paced_rows(
    name: SourceName,
    information: SourceInformation,
    membership: Membership,
    at: Mapping[str, SourceStatus],
    names: Mapping[str, str],
) -> list[Row]:
    pacing = pacing_from_wire(information)
    if pacing is None:
        return []
    # The source's own rule. Only the source knows how many bytes that is.
    called = {
        names.get(entry.address, entry.store_name): entry.name for entry in information.stores
    }
    living = _living(at)
    told = {
        called.get(store, store): {
            each.session_id: living[store][each.session_id]
            for each in source.receivers
            if not each.not_waited_for and each.session_id in living[store]
        }
        for store, source in at.items()
    }
    streaming = {
        called.get(store, store)
        for store, source in at.items()
        if source.live and not source.may_miss_receivers
    }
    waited = waited_for(membership_from_wire(membership).to_policies, told, streaming)
    slowest, upto = min(waited.items(), key=lambda item: item[1], default=(None, NOTHING))
    behind = max(map(held_upto, at.values())) - upto if slowest is not None else 0
    return [
        {
            "topic": name.topic,
            "source": f"{name.session_id:#x}",
            "slowest_receiver": f"{slowest:#x}" if slowest is not None else None,
            "acknowledged_upto": upto if slowest is not None else None,
            "behind": behind,
            "messages_max": pacing.messages,
            "bytes_max": pacing.bytes,
            "state": "held up" if behind >= pacing.messages else "goes on",
        }
    ]
