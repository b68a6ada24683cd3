"""The rows that peers made: asked for, and read from the wire.

A store needs them where retention has let messages go before it had made rows of them. The module
quorate.store.tasks.state_takeover takes them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable

from quorate.protocol.bookmarks import Place
from quorate.protocol.columns import Body
from quorate.protocol.errors import (
    InvalidArgument,
    NotAStore,
    TopicHasNoKeys,
    Unreachable,
    VersionMismatch,
)
from quorate.protocol.framing import head_bytes
from quorate.protocol.identity import SourceName
from quorate.protocol.limits import WHOLE_BATCH_BYTES_MAX
from quorate.protocol.row_parts import RowJoining
from quorate.store.storage.state_records import Candidate, Progress
from quorate.transport.channels import OpenChannel
from quorate.transport.failures import errors_of
from quorate.v1 import store_pb2 as store_v1
from quorate.v1.store_pb2_grpc import StoreStub

ANSWER_SECONDS_MAX = 10.0
"""A peer that says nothing for longer counts as away."""

HAS_NONE = (TopicHasNoKeys, InvalidArgument, NotAStore, VersionMismatch)
"""The errors of a peer that has no such rows: of other keys, or of another version."""

Ask = Callable[
    [str, store_v1.StateCandidatesRequest],
    AsyncGenerator[store_v1.StateCandidatesResponse, None],
]
"""Asks the store at an address."""


async def ask_peer(
    open_channel: OpenChannel, address: str, request: store_v1.StateCandidatesRequest
) -> AsyncGenerator[store_v1.StateCandidatesResponse, None]:
    """Yield what the store at an address answers, to its end. Raises QuorateError."""
    async with open_channel(address) as channel:
        call = StoreStub(channel).StateCandidates(request)
        joining = RowJoining(address)
        try:
            with errors_of(address):
                while True:
                    async with asyncio.timeout(ANSWER_SECONDS_MAX):
                        answer = await call.read()
                    if not isinstance(answer, store_v1.StateCandidatesResponse):
                        raise Unreachable(address, "it ended the answer")
                    if (
                        answer.HasField("part")
                        and (row := joining.take(answer.part.data, answer.part.ends)) is not None
                        and answer.candidates
                    ):
                        answer.candidates[0].row = row
                    yield answer
                    if answer.end:
                        return
        finally:
            call.cancel()


def progress_of(topic: str, wire: store_v1.RowsPlace) -> Progress:
    """Return how far the rows of a peer have come in a source of a topic."""
    source = SourceName(topic, wire.session_id)
    place = Place(wire.place.epoch, wire.place.sequence)
    return Progress(source, place, wire.rows.left_out, wire.rows.lacks_upto)


def candidate_of(wire: store_v1.StateCandidate) -> Candidate:
    """Return the candidate of a message. Raises CorruptBatch."""
    body = wire.row
    return Candidate(
        wire.session_id,
        wire.epoch,
        wire.sequence,
        wire.time_ns,
        wire.expires_ns,
        Body(body, 0, 1).payloads.at if body else 0,
        body,
    )


def is_too_large(source: SourceName, candidate: Candidate) -> bool:
    """Return whether a candidate is too large for one row of the disk."""
    return len(candidate.body) > WHOLE_BATCH_BYTES_MAX - head_bytes(source)
