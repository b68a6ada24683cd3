"""What stands between the streams and the application: the inbox, the cursor, the events."""

from __future__ import annotations

import asyncio

import pytest

from quorate.protocol.errors import Fenced
from quorate.protocol.framing import encode_batch, read_header
from quorate.protocol.identity import SourceName
from quorate.receiver.cursor import Cursor
from quorate.receiver.io.inbox import Inbox
from quorate.receiver.message import DeliveredBatch
from quorate.receiver.options import AcknowledgeMode
from quorate.receiver.protocol.consumed import Consumption
from quorate.receiver.protocol.stream import BatchPart

NAME = SourceName("orders", 7)


def batch(first: int, last: int, progress: Consumption | None = None) -> DeliveredBatch:
    payloads = [b"%d" % n for n in range(first, last + 1)]
    frame = encode_batch(NAME, 1, first, payloads, 99)
    return DeliveredBatch(
        BatchPart(first, last, read_header(frame), frame, retransmitted=True),
        progress or Consumption(0),
        lambda *_: None,
    )


def test_a_part_of_a_batch() -> None:
    part = batch(10, 19)._part(12, 14)
    assert part.payloads == [b"12", b"13", b"14"]
    assert [message.sequence for message in part.messages()] == [12, 13, 14]
    assert (len(part), part.epoch, part.timestamp_ns, part.retransmitted) == (3, 1, 99, True)
    assert part.size < batch(10, 19).size


def test_what_comes_again_comes_first_and_counts_while_it_waits() -> None:
    inbox = Inbox(bytes_max=1)
    delayed = batch(0, 0)
    inbox.delay(delayed)
    assert inbox.full
    assert inbox.take() is None
    inbox.put(batch(1, 1))
    inbox.due(delayed, wanted=True)
    assert [taken.first for taken in (inbox.take(), inbox.take()) if taken] == [0, 1]
    assert not inbox.full


def test_what_is_not_wanted_again_counts_no_more() -> None:
    inbox = Inbox(bytes_max=1)
    inbox.delay(batch(0, 0))
    inbox.due(batch(0, 0), wanted=False)
    assert (inbox.full, inbox.take()) == (False, None)


def test_what_is_withdrawn_does_not_come_again() -> None:
    inbox = Inbox(bytes_max=1 << 20)
    for first in range(3):
        inbox.delay(batch(first, first))
    for first in (0, 1):
        inbox.due(batch(first, first), wanted=True)
    inbox.take_back(NAME, 1)
    assert [taken.first for taken in (inbox.take(), inbox.take()) if taken] == [0]
    inbox.due(batch(2, 2), wanted=False)
    assert inbox._bytes == 0


async def test_full_until_taken() -> None:
    inbox = Inbox(bytes_max=1)
    was_full = inbox.full
    inbox.put(batch(0, 4))
    waiting = asyncio.ensure_future(inbox.space())
    await asyncio.sleep(0)
    assert (was_full, inbox.full) == (False, True)
    assert not waiting.done()
    assert inbox.take() is not None
    await waiting
    assert inbox._bytes == 0


async def test_what_was_taken_back_after_it_was_handed_over_is_not_told_of_again() -> None:
    inbox = Inbox(bytes_max=1 << 20)
    inbox.put(batch(0, 9))
    assert inbox.take() is not None
    assert inbox.take_back(NAME, 5) == 9
    # Other messages under these numbers, which are replaced before anyone takes them.
    inbox.put(batch(5, 9))
    assert inbox.take_back(NAME, 5) == 4


async def test_what_is_taken_back_was_not_handed_over() -> None:
    inbox = Inbox(bytes_max=1 << 20)
    for first in (0, 5, 10):
        inbox.put(batch(first, first + 4))
    assert inbox.take() is not None
    assert inbox.take_back(NAME, 7) == 4
    rest = inbox.take()
    assert rest is not None
    assert (rest.first, rest.last) == (5, 6)
    assert inbox.take() is None
    assert inbox._bytes == 0


async def test_a_failure_reaches_who_waits() -> None:
    inbox = Inbox(bytes_max=1)
    waiting = asyncio.ensure_future(inbox.filled())
    await asyncio.sleep(0)
    inbox.fail(Fenced("receiver", 1, 2))
    with pytest.raises(Fenced):
        await waiting


def test_automatic_counts_what_was_left() -> None:
    progress = Consumption(0)
    cursor = Cursor(AcknowledgeMode.AUTOMATIC)
    cursor.enter_messages(one := batch(0, 4, progress))
    for message in cursor.messages:
        one._taken = message.sequence
        if message.sequence == 2:
            break
    cursor.count()
    assert progress.upto() == 1
    rest = cursor.rest()
    assert rest is not None
    assert rest.payloads == [b"3", b"4"]
    cursor.enter(rest)
    cursor.count()
    assert progress.upto() == 2, "a batch that was taken whole is done with as a whole"
    cursor.leave()
    assert progress.upto() == 4


def test_explicit_counts_nothing_by_itself() -> None:
    progress = Consumption(0)
    cursor = Cursor(AcknowledgeMode.EXPLICIT)
    cursor.enter(one := batch(0, 4, progress))
    cursor.leave()
    assert progress.upto() == -1
    one.acknowledge()
    assert progress.upto() == 4
