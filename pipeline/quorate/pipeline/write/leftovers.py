"""The markers that the sources of a write left at the stores, read without taking a source over.

This also reads what is not yet stable, unlike all other reading: an attempt that died may have left
rows that become stable later. Nothing here writes, and nothing here judges a marker.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import grpc

from quorate.pipeline.stores.client import (
    ANSWER_SECONDS_MAX,
    channel_to,
)
from quorate.protocol.answers import AnswerReading, Corrupt, Piece, fetch_request
from quorate.protocol.errors import BrokenAnswer, NoQuorum, QuorateError
from quorate.protocol.identity import SourceName
from quorate.protocol.layout import Layout
from quorate.protocol.limits import PROTOCOL_VERSION
from quorate.protocol.ranges import Range
from quorate.protocol.wire import source_from_wire
from quorate.transport.failures import error_from_blocking_call
from quorate.v1 import messages_pb2 as v1
from quorate.v1.store_pb2 import InventoryRequest, InventoryResponse
from quorate.v1.store_pb2_grpc import StoreStub

_RETRY_SECONDS = 0.2


def newest_markers(
    layout: Layout, wanted: Callable[[SourceName], bool], timeout: float
) -> dict[SourceName, list[bytes]]:
    """Return the application markers of the newest batch of each wanted source, at all stores.

    The function asks until the answering stores are a blocking set. Together these have everything
    that may be stable.
    timeout: seconds after which it raises NoQuorum.
    """
    deadline = time.monotonic() + timeout
    while True:
        found: dict[SourceName, dict[int, bytes]] = {}
        silent: dict[str, QuorateError] = {}
        for store in layout.stores:
            try:
                for source, high in _highs(store.address, wanted):
                    known = found.setdefault(source, {})
                    if high not in known:
                        known[high] = _marker(store.address, source, high)
            except grpc.RpcError as error:
                silent[store.name] = error_from_blocking_call(store.address, error)
            except QuorateError as error:
                silent[store.name] = error
        answered = {store.name for store in layout.stores} - set(silent)
        if layout.policy.blocks(answered & layout.policy.stores):
            return {source: list(markers.values()) for source, markers in found.items()}
        if time.monotonic() > deadline:
            raise NoQuorum(
                "committing a batch",
                ", ".join(sorted(answered)),
                ", ".join(sorted(silent)),
                "; ".join(map(str, silent.values())),
            )
        time.sleep(_RETRY_SECONDS)


def _highs(address: str, wanted: Callable[[SourceName], bool]) -> Iterator[tuple[SourceName, int]]:
    """Yield the highest number that this store holds of the stream of each wanted source."""
    request = InventoryRequest(protocol_version=PROTOCOL_VERSION)
    answers: Iterator[InventoryResponse] = StoreStub(channel_to(address)).Inventory(
        request, timeout=ANSWER_SECONDS_MAX
    )
    for answer in answers:
        if answer.HasField("source") and answer.source.held:
            name = source_from_wire(answer.source.source)
            if wanted(name):
                yield name, answer.source.held[-1].last


def _marker(address: str, source: SourceName, number: int) -> bytes:
    """Return the marker of the batch with this number, which the store listed.

    Raises BrokenAnswer, CorruptBatch, and grpc.RpcError.
    """
    request = FetchRequest(
        source=source_to_wire(source), first=number, last=number, protocol_version=PROTOCOL_VERSION
    )
    reading = AnswerReading(address, Range(number, number))
    for response in StoreStub(channel_to(address)).Fetch(request, timeout=ANSWER_SECONDS_MAX):
        for kind, answer in reading.answers(response):
            if kind != "fetched":
                why = answer.missing.detail or "it has no more"
                raise BrokenAnswer(address, f"it lists {number} of {source}, but answers: {why}")
            header = check_batch(answer.fetched.batch, f"from {address}")
            if header.source != source or not header.first <= number <= header.last:
                raise CorruptBatch(
                    f"from {address}", f"it is not the batch that was asked for: {header}"
                )
            return header.marker
        case Corrupt(error=error):
            raise error
        case v1.Missing(detail=detail) if detail:
            why = detail
        case _:
            why = "it has no more"
    raise BrokenAnswer(address, f"it lists {number} of {source}, but: {why}")
