"""What the store's tests of large batches share."""

from __future__ import annotations

import random

from tests.store.support import ORDERS, Client, Stream

from quorate.protocol.answers import Answer, AnswerReading, LargePiece, fetch_request
from quorate.protocol.fragments import LargeBatch, encode_large, fragments_of
from quorate.protocol.identity import SourceName
from quorate.protocol.limits import FRAGMENT_BYTES, NOTHING
from quorate.protocol.ranges import Range
from quorate.store.storage.interface import Reads, Table
from quorate.v1 import messages_pb2 as v1

COUNT = 5
"""The fragments of each large batch here."""


def large(
    sequence: int, source: SourceName = ORDERS, epoch: int = 1, salt: int = 0, count: int = COUNT
) -> LargeBatch:
    """A large batch of one message."""
    payload = random.Random(sequence + salt).randbytes(count * FRAGMENT_BYTES - 1000)
    return encode_large(source, epoch, sequence, payload, 1_700_000_000_000_000_000)


def frames(batch: LargeBatch, stable_upto: int = NOTHING) -> list[v1.Frame]:
    """The frames of a large batch."""
    return [
        v1.Frame(fragment=v1.Fragment(at=at, size=batch.size, data=data), stable_upto=stable_upto)
        for at, data in fragments_of(batch)
    ]


async def send(stream: Stream, batch: LargeBatch, stable_upto: int = NOTHING) -> None:
    """Send a large batch, and wait until it is durable."""
    for frame in frames(batch, stable_upto):
        await stream.send(frame)
    await stream.durable(batch.header.last)


async def fetched(
    client: Client, first: int = 0, last: int = 2**62, source: SourceName = ORDERS
) -> list[Answer]:
    """What a store answers, with each large batch put together."""
    reading = AnswerReading(client.address, source, Range(first, last))
    answers: list[Answer] = []
    async for response in client.stub.Fetch(fetch_request(source, Range(first, last))):
        answers += reading.answers(response)
    assert reading.is_over
    return answers


def frames_of(answers: list[Answer]) -> list[bytes]:
    """The large batches among these answers, each as one value."""
    return [each.batch.joined() for each in answers if isinstance(each, LargePiece)]


def fragments_in(reads: Reads) -> int:
    """The number of fragments on the disk."""
    return len(reads.scan(Table.FRAGMENTS, b"", b"\xff" * 12, 1000))
