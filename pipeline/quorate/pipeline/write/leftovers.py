"""Reading on the stores how far the sources of a write came, without registering as them.

No other reader of the pipeline looks at messages that are not stable. This one does: an attempt
that died may have left rows that become stable later.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import grpc

from quorate.pipeline.stores.client import (
    channel_to,
)
from quorate.pipeline.timeouts import ANSWER_SECONDS_MAX
from quorate.protocol.answers import AnswerReading, Corrupt, Piece, fetch_request
from quorate.protocol.delays import REPEAT
from quorate.protocol.errors import BrokenAnswer, NoQuorum, QuorateError, joined
from quorate.protocol.identity import SourceName
from quorate.protocol.layout import Layout
from quorate.protocol.limits import PROTOCOL_VERSION
from quorate.protocol.ranges import Range
from quorate.protocol.wire import source_from_wire
from quorate.transport.delays import retrying_blocking
from quorate.transport.failures import error_from_blocking_call
from quorate.v1 import messages_pb2 as v1
from quorate.v1.store_pb2 import InventoryRequest, InventoryResponse
from quorate.v1.store_pb2_grpc import StoreStub


def newest_markers(
    layout: Layout, wanted: Callable[[SourceName], bool], timeout: float
) -> dict[SourceName, list[bytes]]:
    """Return the different markers of the newest batch of each wanted source, as stores have it.

    Asks until the stores that answered are a blocking set, so that they have every message that may
    be stable. Raises NoQuorum if they are not after `timeout` seconds.
    """

    def ask_all() -> dict[SourceName, list[bytes]]:
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
        raise NoQuorum(
            "committing a batch",
            ", ".join(sorted(answered)),
            ", ".join(sorted(silent)),
            joined(silent.values()),
        )

    return retrying_blocking(REPEAT, patience=timeout)(ask_all)


def _highs(address: str, wanted: Callable[[SourceName], bool]) -> Iterator[tuple[SourceName, int]]:
    """Yield each wanted source, and its highest number at this store that belongs to its stream."""
    request = InventoryRequest(protocol_version=PROTOCOL_VERSION)
    answers: Iterator[InventoryResponse] = StoreStub(channel_to(address)).Inventory(
        request, timeout=ANSWER_SECONDS_MAX
    )
    for answer in answers:
        for source in answer.sources:
            if source.held and wanted(name := source_from_wire(source.source)):
                yield name, source.held[-1].last


def _marker(address: str, source: SourceName, number: int) -> bytes:
    """Return the marker of the batch with this number, which the store has.

    Raises QuorateError or grpc.RpcError: why the store does not tell.
    """
    wanted = Range(number, number)
    request = fetch_request(source, wanted)
    reading = AnswerReading(address, source, wanted)
    responses = StoreStub(channel_to(address)).Fetch(request, timeout=ANSWER_SECONDS_MAX)
    match next(reading.answers(next(responses, None))):
        case Piece(header=header):
            return header.marker
        case Corrupt(error=error):
            raise error
        case v1.Missing(detail=detail) if detail:
            why = detail
        case _:
            why = "it has no more"
    raise BrokenAnswer(address, f"it lists {number} of {source}, but: {why}")
