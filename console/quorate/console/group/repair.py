"""The calls that make stores repair, and that tell them the losses that an operator accepts.

Nothing here prints or asks people; quorate.console.commands.repair does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import grpc.aio

from quorate.console.group.channels import open_channel
from quorate.console.group.rules.source_status import name_of
from quorate.console.group.status import ask
from quorate.protocol.errors import InvalidArgument, QuorateError, Unreachable
from quorate.protocol.figures import counted
from quorate.protocol.identity import SourceName, StoreAddress, parse_session_id
from quorate.protocol.limits import NOTHING, PROTOCOL_VERSION, SEQUENCE_MAX
from quorate.protocol.ranges import Range, RangeSet
from quorate.protocol.wire import source_to_wire
from quorate.transport.failures import error_from_call
from quorate.v1.store_pb2 import (
    AcceptLossRequest,
    RepairProgress,
    RepairRequest,
    SourceStatus,
    StatusResponse,
)
from quorate.v1.store_pb2_grpc import StoreStub

Row = dict[str, Any]


def parse_source(text: str) -> SourceName:
    """Return the source of a text `TOPIC/SESSION`. Raises InvalidArgument."""
    topic, _, session = text.rpartition("/")
    if not topic:
        raise InvalidArgument("source", f"{text!r} is not of the form TOPIC/SESSION")
    return SourceName(topic, parse_session_id(session)).checked()


def parse_range(text: str) -> Range:
    """Return the range of a text `FIRST-LAST`, or of one number. Raises InvalidArgument."""
    first, _, last = text.partition("-")
    try:
        found = int(first), int(last or first)
    except ValueError:
        raise InvalidArgument("range", f"{text!r} is not of the form FIRST-LAST") from None
    if not 0 <= found[0] <= found[1] <= SEQUENCE_MAX:
        raise InvalidArgument("range", f"{text!r} is not a range: FIRST must not be above LAST")
    return Range(*found)


# Repair.


async def repair_all(
    stores: Sequence[StoreAddress],
    source: SourceName | None,
    thorough: bool,
    timeout: float,
    progress: Callable[[Row], None],
) -> list[Row]:
    """Make all stores repair at the same time. Return the final row of each store for each source.

    timeout: seconds that a store may be silent. progress: called with every row.
    """

    async def one(store: StoreAddress) -> list[Row]:
        try:
            return await _repair(store, source, thorough, timeout, progress)
        except QuorateError as error:
            row = _row(store, RepairProgress(verdict=str(error)))
            progress(row)
            return [row]

    return [row for rows in await asyncio.gather(*map(one, stores)) for row in rows]


async def _repair(
    store: StoreAddress,
    source: SourceName | None,
    thorough: bool,
    timeout: float,
    progress: Callable[[Row], None],
) -> list[Row]:
    request = RepairRequest(
        source=source_to_wire(source) if source is not None else None,
        thorough=thorough,
        protocol_version=PROTOCOL_VERSION,
    )
    last_words: list[Row] = []
    async with open_channel(store.address) as channel:
        call = StoreStub(channel).Repair(request)
        try:
            while True:
                async with asyncio.timeout(timeout):
                    answer = await call.read()
                if answer is grpc.aio.EOF:
                    break
                row = _row(store, answer)
                progress(row)
                if row["verdict"]:
                    last_words.append(row)
        except TimeoutError:
            raise Unreachable(store.address, f"it was silent for {timeout:g} s") from None
        except grpc.aio.AioRpcError as error:
            raise error_from_call(store.address, error) from error
        finally:
            call.cancel()
    # A blank store does not know what it lacks: it must not count as one that lacks nothing.
    status = await ask(store.address, timeout)
    if status.limbo:
        limbo = _row(store, RepairProgress(verdict=f"in limbo: {status.limbo_reason}"), limbo=True)
        progress(limbo)
        last_words.append(limbo)
    return last_words


def _row(store: StoreAddress, answer: RepairProgress, limbo: bool = False) -> Row:
    source = None
    if answer.HasField("source"):
        source = str(SourceName(answer.source.topic, answer.source.session_id))
    return {
        "store": store.name,
        "source": source,
        "filled_messages": answer.filled_messages,
        "filled_bytes": answer.filled_bytes,
        "checked_messages": answer.checked_messages,
        "lacking": answer.lacking,
        "divergent": answer.divergent,
        "complete": answer.complete,
        "limbo": limbo,
        "verdict": answer.verdict,
    }


# Losses that an operator accepts.


@dataclass(frozen=True, slots=True)
class Prospect:
    """The consequences of accepting a loss, in words, and the stores that still have messages."""

    lines: tuple[str, ...]
    still_held: tuple[str, ...]
    """The stores that have some of the messages, which are therefore not lost."""


def prospect_of_loss(
    answers: Mapping[StoreAddress, StatusResponse | QuorateError], source: SourceName, lost: Range
) -> Prospect:
    """Return the word of each store about a range that is to be accepted as lost."""
    lines = [f"{counted(len(lost), 'message')}, {lost} of {source}, would be lost for good."]
    still_held: list[str] = []
    for store, answer in answers.items():
        if isinstance(answer, QuorateError):
            lines.append(f"  {store.name} does not answer and may have them: {answer}")
            continue
        found = source_in(answer, source)
        if found is None:
            limbo = " (it is in limbo)" if answer.limbo else ""
            lines.append(f"  {answer.store_name} does not know the source{limbo}")
            continue
        held = RangeSet(Range(item.first, item.last) for item in found.held).both(RangeSet([lost]))
        unreadable = RangeSet(Range(item.first, item.last) for item in found.unreadable)
        parts = [f"has {', '.join(map(str, held))}"] if held else []
        if bad := unreadable.both(RangeSet([lost])):
            parts.append(f"cannot read {', '.join(map(str, bad))}")
        if lacks := RangeSet([lost]).minus(held).minus(unreadable):
            parts.append(f"lacks {', '.join(map(str, lacks))}")
        limbo = f" (in limbo: {found.limbo_reason})" if found.limbo else ""
        lines.append(f"  {answer.store_name} {' and '.join(parts)}{limbo}")
        if held:
            still_held.append(answer.store_name)
    return Prospect(tuple(lines), tuple(still_held))


def named_store(
    answers: Mapping[StoreAddress, StatusResponse | QuorateError],
    name: str,
    argument: str,
) -> StoreAddress:
    """Return the store of this name, its own or the configuration's, or at this address.

    argument: the argument of the command that named the store. Raises InvalidArgument.
    """
    known: list[str] = []
    for store, answer in answers.items():
        own = answer.store_name if isinstance(answer, StatusResponse) else store.name
        if name in (own, store.name, store.address):
            return store
        known.append(own)
    raise InvalidArgument(argument, f"{name!r} is none of {', '.join(known)}")


def prospect_of_leaving(
    answers: Mapping[StoreAddress, StatusResponse | QuorateError],
    store: StoreAddress,
    source: SourceName | None,
) -> Prospect:
    """Return the messages that would count as absent if a store left limbo as it is.

    Raises the error of a store that does not answer, InvalidArgument if it is not in limbo.
    """
    answer = answers[store]
    if isinstance(answer, QuorateError):
        raise answer
    asked = [each for each in answer.sources if source in (None, name_of(each))]
    if not answer.limbo and not any(each.limbo for each in asked):
        where = f" for {source}" if source is not None else ""
        detail = f"{answer.store_name} is not in limbo{where}: there is nothing to leave"
        raise InvalidArgument("NAME", detail)
    what = str(source) if source is not None else "every source, also unknown ones"
    lines = [
        f"Store {answer.store_name} would vouch for what it lacks of {what}, though it has heard "
        "from too few stores. Messages that it once had, and that no other store has, would be "
        "lost silently. Under the rule `all` the other stores have every stable message."
    ]
    names = {name_of(each) for each in answer.sources}
    for other in answers.values():
        if not isinstance(other, QuorateError):
            names |= {name_of(each) for each in other.sources}
    for name in sorted(names if source is None else {source}):
        has = ", ".join(
            f"{each.store_name} {_held_text(source_in(each, name))}"
            for each in answers.values()
            if not isinstance(each, QuorateError)
        )
        lines.append(f"  {name}: {has}")
    lines += [
        f"  {other.name} does not answer: {error}"
        for other, error in answers.items()
        if isinstance(error, QuorateError)
    ]
    return Prospect(tuple(lines), ())


def _held_text(found: SourceStatus | None) -> str:
    if found is None:
        return "does not know it"
    held = RangeSet(Range(item.first, item.last) for item in found.held)
    has = ", ".join(map(str, held)) or "nothing"
    return f"has {has}" + (" (in limbo)" if found.limbo else "")


def source_in(answer: StatusResponse, source: SourceName) -> SourceStatus | None:
    """Return a source in the status of a store; None if the store does not know it."""
    return next((each for each in answer.sources if name_of(each) == source), None)


async def accept(
    stores: Sequence[StoreAddress],
    source: SourceName | None,
    lost: Range | None,
    reason: str,
    timeout: float,
) -> list[Row]:
    """Make stores record an accepted loss. Return the answer of each.

    lost: the range; None makes the stores leave limbo.
    """
    request = AcceptLossRequest(
        source=source_to_wire(source) if source is not None else None,
        first=lost.first if lost is not None else NOTHING,
        last=lost.last if lost is not None else NOTHING,
        reason=reason,
        protocol_version=PROTOCOL_VERSION,
    )
    return await have_recorded(stores, request, timeout)


async def have_recorded(
    stores: Sequence[StoreAddress], request: AcceptLossRequest, timeout: float
) -> list[Row]:
    """Send stores what an operator decided. Return the answer of each."""

    async def one(store: StoreAddress) -> Row:
        async with open_channel(store.address) as channel:
            try:
                answer = await StoreStub(channel).AcceptLoss(request, timeout=timeout)
                return {
                    "store": store.name,
                    "recorded": True,
                    "detail": "; ".join(answer.records),
                }
            except grpc.aio.AioRpcError as error:
                detail = str(error_from_call(store.address, error))
                return {"store": store.name, "recorded": False, "detail": detail}

    return list(await asyncio.gather(*map(one, stores)))
