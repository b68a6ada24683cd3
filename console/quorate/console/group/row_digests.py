"""The digests of the rows of a topic, asked of all stores until they hold at one position.

Only reads. The rules for digests are in quorate.console.group.rules.row_findings.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial

from quorate.console.group.asking import answers_of
from quorate.console.group.channels import open_channel
from quorate.console.group.rules.row_findings import RowDigest
from quorate.protocol.bookmarks import NO_PLACE, Position
from quorate.protocol.errors import QuorateError
from quorate.protocol.identity import StoreAddress
from quorate.protocol.limits import PROTOCOL_VERSION
from quorate.protocol.wire import position_from_wire, position_to_wire
from quorate.transport.failures import errors_of
from quorate.v1.store_pb2 import DigestStateRequest
from quorate.v1.store_pb2_grpc import StoreStub

_ROUNDS = 5
_READING_SECONDS = 60.0
"""Seconds for which a store may read the rows of one topic."""
_CLOCKS_DIFFER_NS = 60_000_000_000
"""Rows that expire in so short a time are not compared: a store whose clock is ahead lacks them."""


async def digests_of(
    stores: Sequence[StoreAddress], topic: str, timeout: float
) -> dict[str, RowDigest]:
    """Return the digest of each store that gives one, by the store's name.

    While sources send, positions differ: then the stores are asked again, a few times.

    timeout: seconds to wait until a store has made the rows of the others' position.
    """
    at_least, found = Position(), dict[StoreAddress, RowDigest]()
    for _ in range(_ROUNDS):
        at_ns = time.time_ns() + _CLOCKS_DIFFER_NS
        answers = await answers_of(stores, partial(_ask, topic, at_least, at_ns, timeout))
        found = {
            store: answer
            for store, answer in answers.items()
            if not isinstance(answer, QuorateError)
        }
        positions = [each.position for each in found.values()]
        if all(each == positions[0] for each in positions):
            break
        at_least = _behind_all(positions)
    return {store.name: digest for store, digest in found.items()}


async def _ask(
    topic: str, at_least: Position, at_ns: int, timeout: float, store: StoreAddress
) -> RowDigest:
    request = DigestStateRequest(
        protocol_version=PROTOCOL_VERSION,
        topic=topic,
        at_least=position_to_wire(at_least),
        wait_seconds=timeout,
        at_ns=at_ns,
    )
    async with open_channel(store.address) as channel:
        with errors_of(store.address):
            answer = await StoreStub(channel).DigestState(
                request, timeout=timeout + _READING_SECONDS
            )
    return RowDigest(position_from_wire(answer.position), answer.digest, answer.count)


def _behind_all(positions: Sequence[Position]) -> Position:
    """Return the position that has all that is before any of these."""
    sources = {source for position in positions for source in position}
    return Position(
        {
            source: max(position.get(source, NO_PLACE) for position in positions)
            for source in sources
        }
    )
