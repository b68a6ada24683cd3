"""What a receiver takes of which live stream, and when it leaves one for the next: no calls."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from tests.receiver.fakes import NAME

from quorate.protocol.delays import HOPELESS_SECONDS, RECONNECT
from quorate.protocol.errors import CorruptBatch, LiveStreamOver, QuorateError, Unreachable
from quorate.protocol.fragments import encode_large, fragments_of
from quorate.protocol.framing import encode_batch
from quorate.protocol.identity import SourceName
from quorate.protocol.limits import NOTHING
from quorate.protocol.lineage import Lineage, Term
from quorate.protocol.policy import Policy
from quorate.protocol.ranges import Range
from quorate.protocol.wire import policy_to_wire, source_to_wire
from quorate.receiver.protocol.directory import SourceRecord
from quorate.receiver.protocol.fetch_plan import FetchPlan
from quorate.receiver.protocol.live_stream import (
    Attached,
    Detached,
    Event,
    Following,
    Gone,
    Heard,
    NotAttached,
)
from quorate.receiver.protocol.stream import (
    Room,
    Stream,
)
from quorate.v1 import messages_pb2 as v1

STORES = (("a", "a:1"), ("b", "b:1"), ("c", "c:1"))
POLICY = Policy.majority_of("abc")
HERE, THERE = "here:1", "there:1"
RECORD = SourceRecord(NAME, HERE, 1, 1, POLICY, STORES, live=True, proxy="a")
OTHER = SourceName("orders", 99)
ONE = Lineage((Term(1, 0),))
TWO = ONE.extended(4, 2)
THREE = TWO.extended(4, 3)
BROKEN = Unreachable(HERE, "the connection broke")


class Followed:
    """A receiver that has everything up to 4, of epoch 1, and follows the live stream."""

    def __init__(self) -> None:
        room = Room(live_bytes_max=1 << 30, fetched_bytes_max=1 << 30)
        self.stream = Stream(ONE, 5, known_upto=4, stable_upto=4, room=room)
        self.plan = FetchPlan(self.stream, "abc")
        self.core = Following(RECORD, self.stream, self.plan)
        assert self.core.attach() == HERE

    def told(self) -> list[Event]:
        told, self.core.events = self.core.events, []
        return told

    def comes_in(self) -> bool:
        """So the stores are not asked for what is new."""
        return self.plan.attached

    def attached(self, epoch: int = 1, *, stable_upto: int = NOTHING) -> int | None:
        return self.core.take(attached(epoch, stable_upto=stable_upto))

    def keepalive(self, stable_upto: int) -> None:
        assert self.core.take(v1.Frame(keepalive=v1.Keepalive(), stable_upto=stable_upto)) is None

    def ended(self, error: QuorateError = BROKEN) -> float | None:
        return self.core.ended(error)


@pytest.fixture
def followed() -> Followed:
    return Followed()


def information(
    epoch: int, version: int = 1, source: SourceName = NAME, address: str = HERE
) -> v1.SourceInformation:
    return v1.SourceInformation(
        source=source_to_wire(source),
        address=address,
        epoch=epoch,
        policy=policy_to_wire(POLICY),
        stores=[v1.StoreEntry(name=name, address=address) for name, address in STORES],
        version=version,
    )


def attached(
    epoch: int, *, source: SourceName = NAME, stable_upto: int = NOTHING, confirm: bool = False
) -> v1.Frame:
    what = v1.Attached(
        information=information(epoch, source=source), next_sequence=8, confirm=confirm
    )
    return v1.Frame(attached=what, stable_upto=stable_upto)


def batch(
    epoch: int, first: int, *, source: SourceName = NAME, stable_upto: int = NOTHING
) -> v1.Frame:
    encoded = encode_batch(source, epoch, first, [b"it"], 0)
    return v1.Frame(batch=encoded, stable_upto=stable_upto)


def says(epoch: int, version: int = 1, address: str = HERE) -> v1.Frame:
    what = information(epoch, version, address=address)
    return v1.Frame(information=what, stable_upto=NOTHING)


def goodbye(last: int, stable_upto: int = NOTHING) -> v1.Frame:
    return v1.Frame(goodbye=v1.Goodbye(last_sequence=last), stable_upto=stable_upto)


# The answer to attach.


def test_an_attachment_says_how_far_the_stream_reaches_and_is_stable(followed: Followed) -> None:
    assert not followed.comes_in()
    assert followed.attached(stable_upto=6) is None
    assert followed.comes_in()
    assert (followed.stream.known_upto, followed.stream.stable_upto) == (7, 6)
    assert followed.told() == [Attached(HERE, 1, 8, wants_confirmation=False)]


def test_a_source_that_wants_to_be_told_says_so(followed: Followed) -> None:
    followed.core.take(attached(1, confirm=True))
    assert followed.told() == [Attached(HERE, 1, 8, wants_confirmation=True)]


def test_the_lineage_is_learned_before_anything_else_is_heard(followed: Followed) -> None:
    frame = attached(2, stable_upto=7)
    assert followed.core.take(frame) == 2
    assert followed.stream.newest_epoch == 2, "those that fetch ask for its lineage"
    assert not followed.comes_in()
    assert (followed.stream.known_upto, followed.stream.stable_upto) == (4, 4)
    followed.stream.adopt(TWO)
    assert followed.core.take(frame) is None
    assert followed.comes_in()
    assert (followed.stream.known_upto, followed.stream.stable_upto) == (7, 7)


def test_what_the_source_says_of_itself_is_told_before_its_lineage_is_known(
    followed: Followed,
) -> None:
    newer = replace(RECORD, epoch=2)
    followed.attached(2)
    assert followed.told() == [Heard(newer)]
    followed.core.source_is(newer)
    followed.stream.adopt(TWO)
    followed.attached(2)
    assert followed.told() == [Attached(HERE, 2, 8, wants_confirmation=False)]


def test_an_epoch_that_is_over_is_not_attached_to(followed: Followed) -> None:
    followed.stream.heard_of_epoch(2)
    with pytest.raises(Unreachable, match="it is in epoch 1, which is over"):
        followed.attached(1)
    assert not followed.comes_in()
    assert followed.told() == []


def test_an_epoch_that_is_over_before_its_lineage_is_known_is_not_attached_to(
    followed: Followed,
) -> None:
    assert followed.attached(2) == 2
    followed.told()
    followed.stream.adopt(THREE)
    with pytest.raises(Unreachable, match="it is in epoch 2, which is over"):
        followed.attached(2)
    assert not followed.comes_in()


def test_another_source_at_its_address_is_not_attached_to(followed: Followed) -> None:
    with pytest.raises(Unreachable, match=f"it serves {OTHER}, not {NAME}"):
        followed.core.take(attached(1, source=OTHER))
    assert not followed.comes_in()
    assert followed.told() == []


# What comes then.


def test_a_batch_is_handed_on_and_says_what_is_stable(followed: Followed) -> None:
    followed.attached()
    assert followed.core.take(batch(1, 5, stable_upto=5)) is None
    assert [(each.first, each.last) for each in followed.stream.take_ready()] == [(5, 5)]
    assert followed.stream.stable_upto == 5


def test_a_batch_of_a_newer_epoch_waits_for_its_lineage(followed: Followed) -> None:
    followed.attached()
    frame = batch(2, 5, stable_upto=5)
    assert followed.core.take(frame) == 2
    assert followed.stream.take_ready() == []
    assert followed.stream.stable_upto == 4
    followed.stream.adopt(TWO)
    assert followed.core.take(frame) is None
    assert [each.header.epoch for each in followed.stream.take_ready()] == [2]
    assert followed.stream.stable_upto == 5


def test_a_batch_of_another_source_is_not_taken(followed: Followed) -> None:
    followed.attached()
    with pytest.raises(CorruptBatch, match=f"it is of {OTHER}"):
        followed.core.take(batch(1, 5, source=OTHER, stable_upto=5))
    assert followed.stream.take_ready() == []
    assert followed.stream.stable_upto == 4


def test_a_corrupt_batch_is_not_taken(followed: Followed) -> None:
    followed.attached()
    frame = batch(1, 5, stable_upto=5)
    turned = bytearray(frame.batch)
    turned[-1] ^= 1
    frame.batch = bytes(turned)
    with pytest.raises(CorruptBatch, match=HERE):
        followed.core.take(frame)
    assert followed.stream.take_ready() == []
    assert followed.stream.stable_upto == 4


def test_stable_is_what_is_stable_in_the_epoch_that_the_live_stream_is_in(
    followed: Followed,
) -> None:
    followed.attached()
    followed.keepalive(5)
    assert followed.stream.stable_upto == 5
    followed.stream.adopt(THREE)
    followed.keepalive(6)
    assert followed.stream.stable_upto == 4, "6 was stable in epoch 1, which ended after 4"
    followed.core.take(batch(1, 6, stable_upto=6))
    assert followed.stream.stable_upto == 4
    followed.core.take(says(3))
    followed.keepalive(6)
    assert followed.stream.stable_upto == 6


def test_a_batch_says_what_is_stable_in_its_own_epoch(followed: Followed) -> None:
    followed.attached()
    followed.stream.adopt(TWO)
    followed.core.take(says(2))
    followed.core.take(batch(1, 5, stable_upto=5))
    assert followed.stream.stable_upto == 4
    assert followed.stream.take_ready() == []


def test_a_batch_says_which_epoch_the_live_stream_is_in(followed: Followed) -> None:
    followed.attached()
    followed.stream.adopt(TWO)
    followed.core.take(batch(2, 5))
    followed.keepalive(5)
    assert followed.stream.stable_upto == 5
    assert followed.core.why_leave() is None


def test_nothing_is_stable_by_what_another_attachment_said(followed: Followed) -> None:
    followed.attached()
    followed.ended()
    followed.core.attach()
    followed.keepalive(5)
    assert followed.stream.stable_upto == 4


def test_a_source_that_says_what_is_not_known_of_it_is_heard(followed: Followed) -> None:
    followed.attached()
    followed.told()
    followed.core.take(says(1, version=2, address=THERE))
    # Whether it lives, and who answers for it, is said by the stores.
    assert followed.told() == [Heard(replace(RECORD, version=2, address=THERE))]
    followed.core.source_is(replace(RECORD, version=2, address=THERE))
    followed.core.take(says(1, version=2, address=THERE))
    followed.core.take(says(1, version=1))
    assert followed.told() == []


def test_a_goodbye_says_how_far_the_stream_reaches(followed: Followed) -> None:
    followed.attached()
    followed.told()
    assert followed.core.take(goodbye(11, stable_upto=9)) is None
    assert (followed.stream.known_upto, followed.stream.stable_upto) == (11, 9)
    assert followed.told() == [Gone(11)]


def test_a_goodbye_says_nothing_of_another_lineage(followed: Followed) -> None:
    followed.attached()
    followed.stream.adopt(TWO)
    followed.core.take(goodbye(11, stable_upto=9))
    assert (followed.stream.known_upto, followed.stream.stable_upto) == (4, 4)


# When it is left.


def test_a_live_stream_that_is_as_it_should_be_is_not_left(followed: Followed) -> None:
    assert followed.core.why_leave() is None
    followed.attached()
    assert followed.core.why_leave() is None


def test_a_source_that_was_fenced_is_left(followed: Followed) -> None:
    followed.attached()
    followed.stream.heard_of_epoch(2)
    why = followed.core.why_leave()
    assert str(why) == str(
        LiveStreamOver(HERE, "the source there is in epoch 1, and 2 was begun elsewhere")
    )


def test_a_source_that_begins_a_newer_epoch_is_not_left(followed: Followed) -> None:
    followed.attached()
    followed.core.take(says(2))
    followed.stream.heard_of_epoch(2)
    assert followed.core.why_leave() is None


def test_a_source_that_was_not_attached_to_yet_is_waited_for(followed: Followed) -> None:
    followed.stream.heard_of_epoch(2)
    assert followed.core.why_leave() is None


def test_a_source_that_moved_is_left(followed: Followed) -> None:
    followed.core.source_is(replace(RECORD, address=THERE, version=2))
    why = followed.core.why_leave()
    assert str(why) == str(LiveStreamOver(HERE, f"the source moved to {THERE}"))
    followed.ended()
    assert followed.core.attach() == THERE
    assert followed.core.why_leave() is None


def test_a_source_that_is_silent_is_left(followed: Followed) -> None:
    silence = Unreachable(HERE, "it said nothing for 5 s")
    followed.core.silent(THERE, silence)
    assert followed.core.why_leave() is None
    followed.core.silent(HERE, silence)
    assert followed.core.why_leave() is silence
    followed.ended()
    followed.core.attach()
    assert followed.core.why_leave() is None, "the next attachment may be heard"


def test_the_end_is_told_as_what_it_is(followed: Followed) -> None:
    followed.ended()
    assert followed.told() == [NotAttached(BROKEN)]
    followed.core.attach()
    followed.attached()
    followed.told()
    followed.ended()
    assert followed.told() == [Detached(BROKEN)]
    assert not followed.comes_in()
    followed.core.attach()
    followed.ended()
    assert followed.told() == [NotAttached(BROKEN)]


@pytest.mark.parametrize(
    ("live", "longest"), [(True, RECONNECT.longest), (False, HOPELESS_SECONDS)]
)
def test_attempts_in_vain_become_rarer(followed: Followed, live: bool, longest: float) -> None:
    followed.core.source_is(replace(RECORD, live=live))
    followed.core.attach()
    pauses = [followed.ended() for _ in range(12)]
    first = RECONNECT.first if live else RECONNECT.longest
    doubling = int(math.log2(longest / first)) + 1
    assert pauses[:doubling] == [first * 2**n for n in range(doubling)]
    assert set(pauses[doubling:]) == {longest}


def test_a_source_that_lives_again_is_sought_soon(followed: Followed) -> None:
    followed.core.source_is(replace(RECORD, live=False))
    followed.core.attach()
    for _ in range(12):
        followed.ended()
    followed.core.source_is(RECORD)
    assert followed.ended() is None, "there is news: at once"
    followed.core.attach()
    assert followed.ended() == 2 * RECONNECT.first


def test_a_source_that_lives_is_never_waited_for_for_long(followed: Followed) -> None:
    followed.core.source_is(replace(RECORD, live=False))
    for _ in range(12):
        followed.core.attach()
        followed.ended()
    followed.core.source_is(RECORD)
    followed.core.attach()
    assert followed.ended() == RECONNECT.longest


def test_after_an_attachment_the_next_comes_soon(followed: Followed) -> None:
    for _ in range(12):
        followed.ended()
        followed.core.attach()
    followed.attached()
    assert followed.ended() == RECONNECT.first


# -- large batches --------------------------------------------------------------------------


def fragments(epoch: int, sequence: int, stable_upto: int = NOTHING) -> list[v1.Frame]:
    batch = encode_large(NAME, epoch, sequence, bytes(3 * 2**20), 0)
    return [
        v1.Frame(fragment=v1.Fragment(at=at, size=batch.size, data=data), stable_upto=stable_upto)
        for at, data in fragments_of(batch)
    ]


def test_fragments_become_a_message_with_keepalives_between(followed: Followed) -> None:
    followed.attached()
    for frame in fragments(1, 5, stable_upto=5):
        followed.core.take(frame)
        followed.keepalive(5)
        assert Range(6, 7) in followed.stream.missing(), "5 is not"
    pieces = followed.stream.take_ready()
    assert [(piece.first, piece.retransmitted) for piece in pieces] == [(5, False)]


def test_the_lineage_is_learned_before_a_large_batch_is_taken(followed: Followed) -> None:
    first, *rest = fragments(2, 5)
    followed.attached()
    assert followed.core.take(first) == 2
    followed.stream.adopt(TWO)
    for frame in (first, *rest):
        assert followed.core.take(frame) is None
    assert [piece.first for piece in followed.stream.take_ready()] == [5]


@pytest.mark.parametrize("how", ["the attachment ends", "it begins again", "another batch comes"])
def test_a_large_batch_that_breaks_off_is_fetched(followed: Followed, how: str) -> None:
    followed.attached()
    frames = fragments(1, 5)
    for frame in frames[:3]:
        followed.core.take(frame)
    match how:
        case "the attachment ends":
            followed.ended()
        case "it begins again":
            for frame in frames:
                followed.core.take(frame)
            assert [piece.first for piece in followed.stream.take_ready()] == [5]
            return
        case _:
            followed.core.take(batch(1, 8))
            followed.core.take(frames[3])
    assert followed.stream.behind
    request = followed.plan.request("a", 0.0)
    assert request is not None
    assert request.first == 5


def test_a_corrupt_large_batch_ends_the_attachment(followed: Followed) -> None:
    followed.attached()
    *frames, last = fragments(1, 5)
    for frame in frames:
        followed.core.take(frame)
    last.fragment.data = bytes([1]) * len(last.fragment.data)
    with pytest.raises(CorruptBatch) as raised:
        followed.core.take(last)
    followed.ended(raised.value)
    assert followed.stream.behind


def test_a_large_batch_of_another_source_is_refused(followed: Followed) -> None:
    followed.attached()
    other = encode_large(OTHER, 1, 5, bytes(3 * 2**20), 0)
    at, data = next(fragments_of(other))
    with pytest.raises(CorruptBatch, match="it is of"):
        followed.core.take(v1.Frame(fragment=v1.Fragment(at=at, size=other.size, data=data)))
