"""Deregistration: the end of a source, or of one of its receivers, at the stores of a group.

The command that asks for it, and shows it, is quorate.console.commands.deregister.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from quorate.console.group.asking import answers_of
from quorate.console.group.channels import open_channel
from quorate.console.group.status import (
    ask_all,
    too_few,
)
from quorate.protocol.errors import (
    FORMER_DIRECTORY,
    InLimbo,
    InvalidArgument,
    NoQuorum,
    QuorateError,
    Unreachable,
    joined,
)
from quorate.protocol.figures import numbers_in
from quorate.protocol.identity import SourceName, StoreAddress
from quorate.protocol.incarnations import replaced
from quorate.protocol.limits import PROTOCOL_VERSION
from quorate.protocol.policy import Policy
from quorate.protocol.stream_end import AskPromise, StreamEnd
from quorate.protocol.wire import source_to_wire
from quorate.transport.deregister import ANSWER_SECONDS_MAX
from quorate.transport.failures import errors_of
from quorate.transport.stream_end import end_source, word_of
from quorate.v1.store_pb2 import (
    DeregisterRequest,
    DeregisterResponse,
    SourceStatus,
    StatusResponse,
)
from quorate.v1.store_pb2_grpc import StoreStub

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Found:
    """The identity that the stores are to forget, as those that answered know it."""

    epoch: int
    """The highest epoch that a store knows. Its instance owns the identity."""
    stores: tuple[StoreAddress, ...]
    """Every store that may have it: those that were named, and those that the source has."""
    names: Mapping[str, str]
    """By address, the names that the source's policies have for its stores."""
    known_by: tuple[str, ...]
    live: bool
    messages: int
    """The most that a store holds of the source."""


async def find(
    stores: Sequence[StoreAddress], source: SourceName, receiver: int, timeout: float
) -> Found:
    """Ask the stores; raises InvalidArgument if none knows it, and if none of those that answer
    does, why others do not."""
    answers = await ask_all(stores, timeout)
    known = {
        store: status
        for store, answer in answers.items()
        if not isinstance(answer, QuorateError)
        and (status := _status(answer, source)) is not None
        and (not receiver or _epoch(status, receiver))
    }
    if not known:
        who = f"receiver {receiver:#x} of {source}" if receiver else f"source {source}"
        failed = [isinstance(answer, QuorateError) for answer in answers.values()]
        if any(failed):
            unknown = "" if all(failed) else ", which no store that answered knows,"
            raise too_few(f"Deregistering {who}{unknown}", answers)
        raise InvalidArgument("--receiver" if receiver else "--source", f"no store knows {who}")
    return Found(
        max(_epoch(status, receiver) for status in known.values()),
        _all_stores(stores, known),
        {
            entry.address: entry.name
            for status in known.values()
            for entry in status.information.stores
        },
        tuple(store.name for store in known),
        any(status.live for status in known.values()),
        max(numbers_in(status.held) for status in known.values()),
    )


def _status(answer: StatusResponse, source: SourceName) -> SourceStatus | None:
    wire = source_to_wire(source)
    return next((each for each in answer.sources if each.information.source == wire), None)


def _epoch(status: SourceStatus, receiver: int) -> int:
    if not receiver:
        return status.promised_epoch
    # Also where it has ended: whoever did not hear of it is told when this is done again.
    epochs = [each.epoch for each in status.receivers if each.session_id == receiver]
    epochs += [each.epoch for each in status.ended_receivers if each.session_id == receiver]
    return max(epochs, default=0)


def _all_stores(
    named: Sequence[StoreAddress], known: Mapping[StoreAddress, SourceStatus]
) -> tuple[StoreAddress, ...]:
    by_address = {store.address: store for store in named}
    for status in known.values():
        for entry in status.information.stores:
            by_address.setdefault(entry.address, StoreAddress(entry.name, entry.address))
    return tuple(by_address.values())


async def deregister(
    found: Found, source: SourceName, receiver: int, timeout: float
) -> tuple[list[Row], list[QuorateError]]:
    """End the identity at its stores; a row for each, and what went wrong."""
    answers = await (
        answers_of(found.stores, lambda store: _ask(store, found.epoch, source, receiver, timeout))
        if receiver
        else _end(found, source, timeout)
    )
    words = {
        store.address: word_of(answer)
        for store, answer in answers.items()
        if not isinstance(answer, QuorateError)
    }
    former = replaced(words)
    rows: list[Row] = []
    errors: list[QuorateError] = []
    for store, answer in answers.items():
        row: Row = {"store": store.name, "address": store.address}
        if store.address in former:
            answer = InLimbo(str(source), store.name, FORMER_DIRECTORY)
        if isinstance(answer, QuorateError):
            row |= {"done": False, "reg_id": None, "last_sequence": None, "error": str(answer)}
            errors.append(answer)
        else:
            last = answer.last_sequence if answer.last_sequence >= 0 else None
            row |= {"done": True, "reg_id": answer.reg_id or None, "last_sequence": last}
            row |= {"error": None}
        rows.append(row)
    return rows, errors


async def _end(
    found: Found, source: SourceName, timeout: float
) -> dict[StoreAddress, DeregisterResponse | QuorateError]:
    """End a source. Return what each store answered; where too few did, an error says so."""
    names = {found.names.get(store.address, store.name): store for store in found.stores}
    end = StreamEnd(str(source), names, (Policy.majority_of(names),))
    end.addresses |= {name: store.address for name, store in names.items()}
    answers: dict[StoreAddress, DeregisterResponse | QuorateError] = {}
    request = DeregisterRequest(
        source=source_to_wire(source),
        epoch=found.epoch + 1,
        instance=uuid.uuid4().bytes,
        protocol_version=PROTOCOL_VERSION,
    )

    async def ask(address: str, asked: DeregisterRequest) -> DeregisterResponse:
        return await _call(address, asked, ANSWER_SECONDS_MAX)

    def address_of(name: str) -> StoreAddress:
        return names.get(name) or StoreAddress(name, end.addresses.get(name, ""))

    def told(name: str, answer: DeregisterResponse) -> None:
        answers[address_of(name)] = answer

    with suppress(TimeoutError):
        async with asyncio.timeout(timeout):
            await end_source(end, request, ask, told)
    for name in end.stores:
        if not end.done or address_of(name) not in answers:
            store = address_of(name)
            answers[store] = end.failures.get(name) or _missing(end, source, name, store)
    # As they were named, not as they answered.
    return {store: answers[store] for store in map(address_of, end.stores)}


def _missing(end: StreamEnd, source: SourceName, name: str, store: StoreAddress) -> QuorateError:
    """Return why a store has not ended a source, though it did not fail."""
    promised = [each for each in end.stores if not isinstance(end.step(each), AskPromise)]
    silent = [each for each in end.stores if each not in promised]
    if end.refused:
        silent = []  # They were not waited for: the others have refused.
    elif end.done or name in silent:
        return Unreachable(store.address, "no answer")
    return NoQuorum(
        f"Deregistering source {source}",
        ", ".join(promised),
        ", ".join(silent),
        joined(end.failures.values()) or "no answer in time",
    )


async def _ask(
    store: StoreAddress, epoch: int, source: SourceName, receiver: int, timeout: float
) -> DeregisterResponse:
    request = DeregisterRequest(
        source=source_to_wire(source),
        receiver_session_id=receiver,
        epoch=epoch,
        protocol_version=PROTOCOL_VERSION,
    )
    return await _call(store.address, request, timeout)


async def _call(address: str, request: DeregisterRequest, timeout: float) -> DeregisterResponse:
    async with open_channel(address) as channel:
        with errors_of(address):
            answer: DeregisterResponse = await StoreStub(channel).Deregister(
                request, timeout=timeout
            )
    return answer
