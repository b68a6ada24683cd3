"""The calls that settle a conflict: each store in it sets its side aside, but for the kept one.

Nothing here prints or asks people; quorate.console.commands.conflict does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import grpc.aio

from quorate.console.group.channels import open_channel
from quorate.console.group.repair import named_store, source_in
from quorate.console.group.rules.conflict_status import disputes, in_dispute
from quorate.protocol.errors import InvalidArgument, QuorateError
from quorate.protocol.identity import SourceName, StoreAddress
from quorate.protocol.limits import PROTOCOL_VERSION
from quorate.protocol.ranges import RangeSet
from quorate.protocol.wire import source_to_wire
from quorate.transport.failures import error_from_call
from quorate.v1.messages_pb2 import HeldRange
from quorate.v1.store_pb2 import SettleConflictRequest, StatusResponse
from quorate.v1.store_pb2_grpc import StoreStub

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Settlement:
    """The consequences of keeping the content of one store."""

    source: SourceName
    keep: str
    """The kept store, by its own name."""
    kept_at: StoreAddress
    losing: Mapping[StoreAddress, RangeSet]
    """The numbers in conflict at each store that sets its side aside."""
    kept: RangeSet
    """The numbers for which the content of the kept store is kept."""
    lines: tuple[str, ...]
    """The consequences in words."""


def settlement(
    answers: Mapping[StoreAddress, StatusResponse | QuorateError], source: SourceName, keep: str
) -> Settlement:
    """Return what follows if the content of this store is kept.

    keep: the name of the store. Raises InvalidArgument if there is nothing to settle, and the error
    of the kept store if it does not answer.
    """
    kept_at = named_store(answers, keep, "--keep")
    answer = answers[kept_at]
    if isinstance(answer, QuorateError):
        raise answer
    kept_status = source_in(answer, source)
    if kept_status is None:
        raise InvalidArgument("--keep", f"store {answer.store_name} does not know {source}")
    lines = [f"The content of store {answer.store_name} is kept for {source}."]
    losing: dict[StoreAddress, RangeSet] = {}
    kept = in_dispute(kept_status, "", "", kept_status)
    at = {answer.store_name: kept_status}
    for store, other in answers.items():
        if isinstance(other, QuorateError):
            lines.append(f"  {store.name} does not answer, and is not changed: {other}")
            continue
        found = source_in(other, source)
        if store == kept_at or found is None:
            continue
        at[other.store_name] = found
        ranges = in_dispute(found, other.store_name, answer.store_name, kept_status)
        if ranges:
            losing[store], kept = ranges, kept.union(ranges)
            lines.append(
                f"  {other.store_name} sets {', '.join(map(str, ranges))} aside, and fetches what "
                f"{answer.store_name} has"
            )
    if not kept:
        known = "; ".join(str(each.finding()) for each in disputes(source, at))
        detail = f"store {answer.store_name} is in no conflict for {source}"
        raise InvalidArgument("--keep", f"{detail}. {known}" if known else detail)
    return Settlement(source, answer.store_name, kept_at, losing, kept, tuple(lines))


async def settle(found: Settlement, reason: str, timeout: float) -> list[Row]:
    """Make the stores settle a conflict. Return the answer of each; the kept store is last."""

    async def one(store: StoreAddress, ranges: RangeSet) -> Row:
        request = SettleConflictRequest(
            source=source_to_wire(found.source),
            keep=found.keep,
            ranges=[HeldRange(first=item.first, last=item.last) for item in ranges],
            reason=reason,
            protocol_version=PROTOCOL_VERSION,
        )
        row: Row = {"store": store.name, "recorded": False, "set_aside": 0}
        async with open_channel(store.address) as channel:
            try:
                answer = await StoreStub(channel).SettleConflict(request, timeout=timeout)
            except grpc.aio.AioRpcError as error:
                return row | {"detail": str(error_from_call(store.address, error))}
        return row | {
            "recorded": True,
            "set_aside": answer.set_aside,
            "detail": answer.record,
        }

    rows = await asyncio.gather(*(one(store, ranges) for store, ranges in found.losing.items()))
    # The kept store compares anew: by then no other store has its former side.
    return [*rows, await one(found.kept_at, found.kept)]
