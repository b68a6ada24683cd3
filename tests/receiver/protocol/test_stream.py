"""The merge of live and fetched batches, against a plain model."""

from __future__ import annotations

import random

import pytest

from quorate.protocol.fragments import LargeBatch, encode_large
from quorate.protocol.framing import BatchHeader, encode_batch, read_header, read_payloads
from quorate.protocol.identity import SourceName
from quorate.protocol.lineage import Lineage, Term
from quorate.protocol.ranges import Range
from quorate.receiver.protocol.stream import (
    BatchOutcome,
    BatchPart,
    Room,
    Stream,
)

SOURCE = SourceName("orders", 7)
ONE = Lineage((Term(1, 0),))


def batch(first: int, last: int, epoch: int = 1) -> tuple[BatchHeader, bytes]:
    payloads = [f"{epoch}:{n}".encode() for n in range(first, last + 1)]
    frame = encode_batch(SOURCE, epoch, first, payloads, 0)
    return read_header(frame), frame


def contents(pieces: list[BatchPart]) -> list[tuple[int, bytes]]:
    return [
        (n, payloads(piece)[n - piece.header.first])
        for piece in pieces
        for n in range(piece.first, piece.last + 1)
    ]


def payloads(piece: BatchPart) -> list[bytes]:
    frame = piece.frame
    if isinstance(frame, LargeBatch):
        return [frame.message()[0]]
    return read_payloads(frame, piece.header)


def large(sequence: int, epoch: int = 1) -> LargeBatch:
    return encode_large(SOURCE, epoch, sequence, b"%d" % sequence * 2**21, 0)


def numbers(pieces: list[BatchPart]) -> list[int]:
    return [n for n, _ in contents(pieces)]


def room(size: int = 1 << 30) -> Room:
    return Room(live_bytes_max=size, fetched_bytes_max=size)


def stream(start: int = 0, lineage: Lineage = ONE, **options: bool | int) -> Stream:
    return Stream(lineage, start, room=room(), **options)  # type: ignore[arg-type]


def test_what_comes_in_order_goes_out_at_once() -> None:
    one = stream()
    assert one.live(*batch(0, 4)) is BatchOutcome.TAKEN
    assert numbers(one.take_ready()) == [0, 1, 2, 3, 4]
    assert not one.behind
    assert one.missing() == []


def test_a_jump_waits_for_what_is_between() -> None:
    one = stream()
    one.live(*batch(5, 9))
    assert one.take_ready() == []
    assert one.behind
    assert one.missing() == [Range(0, 4)]
    assert one.fetched(*batch(0, 4), 0, 4) is BatchOutcome.TAKEN
    pieces = one.take_ready()
    assert numbers(pieces) == list(range(10))
    assert [piece.retransmitted for piece in pieces] == [True, False]


def test_batches_that_overlap_count_once() -> None:
    one = stream()
    one.live(*batch(0, 4))
    one.fetched(*batch(3, 7), 3, 7)
    one.live(*batch(6, 8))
    assert one.live(*batch(0, 8)) is BatchOutcome.DUPLICATE
    assert numbers(one.take_ready()) == list(range(9))


def test_only_what_was_asked_for_of_a_fetched_batch_counts() -> None:
    one = stream(start=2)
    one.fetched(*batch(0, 9), 2, 5)
    assert numbers(one.take_ready()) == [2, 3, 4, 5]


def test_held_back_until_stable() -> None:
    one = stream(hold_back=True)
    one.live(*batch(0, 4))
    assert one.take_ready() == []
    one.stable(2, epoch=1)
    assert numbers(one.take_ready()) == [0, 1, 2]
    one.stable(9, epoch=1)
    one.live(*batch(5, 9))
    assert numbers(one.take_ready()) == [3, 4, 5, 6, 7, 8, 9]


def test_what_another_lineage_calls_stable_says_nothing() -> None:
    one = stream(hold_back=True)
    one.live(*batch(0, 4))
    one.stable(4, epoch=2)
    assert one.take_ready() == []


def test_what_is_not_stable_is_not_fetched_for_one_that_holds_back() -> None:
    one = stream(hold_back=True)
    one.exists(9, epoch=1)
    assert not one.behind
    one.stable(3, epoch=1)
    assert one.missing() == [Range(0, 3)]


def test_without_room_a_live_batch_is_left_to_be_fetched() -> None:
    one = Stream(ONE, 0, room=room(size=1))
    assert one.live(*batch(5, 9)) is BatchOutcome.NO_ROOM
    assert one.missing() == [Range(0, 9)]
    assert one.live(*batch(0, 4)) is BatchOutcome.TAKEN, "what is next needs no room"


def test_room_is_given_back() -> None:
    shared = room()
    one = Stream(ONE, 0, room=shared)
    one.live(*batch(5, 9))
    one.live(*batch(12, 15))
    assert shared.waiting_bytes > 0
    one.fetched(*batch(0, 4), 0, 4)
    one.release()
    assert shared.waiting_bytes == 0


def test_a_newer_epoch_waits_for_its_lineage() -> None:
    one = stream()
    assert one.live(*batch(0, 4, epoch=2)) is BatchOutcome.NEWER_EPOCH
    was_outdated = one.outdated
    assert one.adopt(Lineage((Term(2, 0),))) is None
    assert (was_outdated, one.outdated) == (True, False)
    assert one.live(*batch(0, 4, epoch=2)) is BatchOutcome.TAKEN


def test_a_void_batch_is_not_used() -> None:
    one = stream(lineage=Lineage((Term(1, 0), Term(3, 5))))
    assert one.fetched(*batch(5, 9), 5, 9) is BatchOutcome.VOID
    one.fetched(*batch(0, 9), 0, 9)
    assert numbers(one.take_ready()) == [0, 1, 2, 3, 4]


def test_a_new_epoch_withdraws_what_it_did_not_keep() -> None:
    one = stream()
    one.live(*batch(0, 9))
    one.live(*batch(12, 14))
    one.take_ready()
    assert one.adopt(Lineage((Term(1, 0), Term(2, 8)))) == Range(8, 9)
    assert one.missing() == []
    one.live(*batch(8, 11, epoch=2))
    assert [payload for _, payload in contents(one.take_ready())] == [
        b"2:8",
        b"2:9",
        b"2:10",
        b"2:11",
    ]


def test_an_older_lineage_is_ignored() -> None:
    one = stream(lineage=Lineage((Term(1, 0), Term(3, 5))))
    assert one.adopt(Lineage((Term(1, 0), Term(2, 2)))) is None
    assert one.lineage.epoch == 3


def test_a_skipped_gap_lets_the_rest_through() -> None:
    one = stream()
    one.live(*batch(5, 9))
    one.skip(4)
    assert numbers(one.take_ready()) == [5, 6, 7, 8, 9]


@pytest.mark.parametrize("hold_back", [False, True])
@pytest.mark.parametrize("seed", range(60))
def test_any_order_of_anything_gives_the_stream(seed: int, hold_back: bool) -> None:
    """Chunks reordered, repeated, cut anywhere, over changes of the epoch."""
    rng = random.Random(seed)
    shared = room(size=rng.choice([1 << 30, 600]))
    lineage = ONE
    truth = dict.fromkeys(range(40), 1)
    one = Stream(lineage, 0, hold_back=hold_back, room=shared)
    handed: dict[int, bytes] = {}
    stable = -1

    def collect() -> None:
        for number, payload in contents(one.take_ready()):
            assert number == len(handed), "in order, without holes"
            assert not hold_back or number <= one.stable_upto
            handed[number] = payload

    for step in range(400):
        if step in (150, 280):
            kept = rng.randint(max(stable, 5), len(truth) - 1)
            epoch = lineage.epoch + 1
            lineage = lineage.extended(kept, epoch)
            old = one.adopt(lineage)
            assert (old is not None) == (len(handed) > kept + 1)
            for number in range(kept + 1, len(handed)):
                del handed[number]
            truth = {n: e for n, e in truth.items() if n <= kept}
            truth |= dict.fromkeys(range(kept + 1, kept + 40), epoch)
        first = rng.randrange(len(truth))
        last = min(first + rng.randrange(12), len(truth) - 1)
        epoch = truth[first]
        while truth[last] != epoch:
            last -= 1
        header, frame = batch(first, last, epoch)
        if lineage.epoch > 1 and rng.random() < 0.1:
            one.live(*batch(first, last + 3, epoch=rng.randint(1, lineage.epoch - 1)))
        elif rng.random() < 0.5:
            one.live(header, frame)
        else:
            one.fetched(header, frame, first + rng.randrange(2), last)
        if rng.random() < 0.1:
            stable = rng.randint(stable, len(truth) - 1)
            one.stable(stable, lineage.epoch)
        collect()

    one.stable(len(truth) - 1, lineage.epoch)
    one.exists(len(truth) - 1, lineage.epoch)
    for hole in one.missing():
        for number in range(hole.first, hole.last + 1):
            one.fetched(*batch(number, number, truth[number]), number, number)
    collect()
    assert handed == {n: f"{epoch}:{n}".encode() for n, epoch in truth.items()}
    assert shared.waiting_bytes == 0


# -- large batches --------------------------------------------------------------------------


def arrives(one: Stream, batch: LargeBatch) -> bool:
    return one.arrives(batch.header, batch.size)


def test_a_large_batch_that_arrives_is_fetched_from_nobody() -> None:
    one = stream()
    assert arrives(one, large(0))
    one.stable(3, 1)
    assert not one.behind
    assert one.missing() == [Range(1, 3)]
    assert one.arrived(large(0)) is BatchOutcome.TAKEN
    assert numbers(one.take_ready()) == [0]
    assert one.behind


def test_a_large_batch_that_breaks_off_is_fetched() -> None:
    one = stream()
    assert arrives(one, large(0))
    one.broke_off()
    one.broke_off()
    assert one.missing() == [Range(0, 0)]
    assert one.fetched(large(0).header, large(0), 0, 0) is BatchOutcome.TAKEN
    assert not arrives(one, large(0)), "it is known"


def test_a_large_batch_that_was_fetched_meanwhile_counts_once() -> None:
    one = stream()
    assert arrives(one, large(0))
    one.fetched(large(0).header, large(0), 0, 0)
    assert one.arrived(large(0)) is BatchOutcome.DUPLICATE
    assert numbers(one.take_ready()) == [0]


def test_the_next_large_batch_always_has_room_and_another_one_if_nothing_waits() -> None:
    shared = room(2**20)
    one = Stream(ONE, 0, room=shared)
    other = Stream(ONE, 0, room=shared)
    assert arrives(one, large(5)), "nothing waits"
    assert shared.waiting_bytes == large(5).size
    assert not arrives(other, large(5))
    assert other.missing() == [Range(0, 5)]
    assert arrives(other, large(0))
    one.broke_off()
    other.broke_off()
    assert shared.waiting_bytes == 0


def test_a_large_batch_of_an_epoch_that_was_replaced_is_void() -> None:
    one = stream()
    assert arrives(one, large(3))
    one.adopt(Lineage((Term(1, 0), Term(2, 2))))
    assert one.arrived(large(3)) is BatchOutcome.VOID
    assert not arrives(one, large(3))


def test_a_large_batch_waits_for_what_is_before_it_and_for_stability() -> None:
    one = Stream(ONE, 0, room=room(2**20), hold_back=True)
    assert arrives(one, large(0))
    assert one.arrived(large(0)) is BatchOutcome.TAKEN
    assert numbers(one.take_ready()) == []
    one.stable(0, 1)
    assert numbers(one.take_ready()) == [0]
