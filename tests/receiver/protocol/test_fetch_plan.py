"""Whom to ask for what, and when nobody having it is proven."""

from __future__ import annotations

import random

import pytest
from tests import seams

from quorate.protocol.delays import RECONNECT
from quorate.protocol.framing import BatchHeader, encode_batch, read_header
from quorate.protocol.identity import SourceName
from quorate.protocol.limits import SEQUENCE_MAX
from quorate.protocol.lineage import NO_LINEAGE, Lineage, Term
from quorate.protocol.ranges import Range, RangeSet
from quorate.receiver.protocol import fetch_plan as plan_module
from quorate.receiver.protocol.fetch_plan import (
    SOURCE,
    Answer,
    FetchPlan,
    Request,
)
from quorate.receiver.protocol.stream import (
    Room,
    Stream,
)

NAME = SourceName("orders", 7)
ONE = Lineage((Term(1, 0),))
STORES = ("a", "b", "c")
NOW = 0.0


def batch(first: int, last: int, epoch: int = 1) -> tuple[BatchHeader, bytes]:
    payloads = [f"{epoch}:{n}".encode() for n in range(first, last + 1)]
    frame = encode_batch(NAME, epoch, first, payloads, 0)
    return read_header(frame), frame


def planned(
    known_upto: int = 9, *, hold_back: bool = False, attached: bool = True
) -> tuple[Stream, FetchPlan]:
    stream = Stream(ONE, 0, known_upto=known_upto, hold_back=hold_back, room=Room(1 << 30, 1 << 30))
    plan = FetchPlan(stream, STORES)
    plan.attached = plan.source_live = attached
    return stream, plan


def request(plan: FetchPlan, peer: str, now: float = 0.0) -> Request:
    asked = plan.request(peer, now)
    assert asked is not None
    return asked


def serve(plan: FetchPlan, asked: Request, last: int | None = None, high: int = 9) -> None:
    upto = min(asked.last, high) if last is None else last
    if upto >= asked.first:
        plan.fetched(asked, *batch(asked.first, upto), asked.first, upto, 0.0)
    plan.ended(asked, high, -1, ONE, 0.0)


def deny(plan: FetchPlan, asked: Request, answer: Answer = Answer.ABSENT, now: float = 0.0) -> None:
    plan.missing(asked, asked.first, asked.last, answer, "", now)
    plan.ended(asked, SEQUENCE_MAX, -1, NO_LINEAGE, now)


def test_nothing_is_asked_while_nothing_is_missing() -> None:
    _, plan = planned(known_upto=-1)
    assert [plan.request(peer, 0.0) for peer in (*STORES, SOURCE)] == [None] * 4
    assert plan.wake_at("a", 0.0) is None


def test_chunks_are_spread_over_the_stores(monkeypatch: pytest.MonkeyPatch) -> None:
    seams.FETCH_PLAN_CHUNK_MESSAGES_MAX.replace(monkeypatch, 4)
    _, plan = planned()
    asked = [request(plan, store) for store in STORES]
    assert [(one.first, one.last) for one in asked] == [(0, 3), (4, 7), (8, 9)]
    assert plan.is_front(asked[0])
    assert not plan.is_front(asked[1])


def test_what_a_peer_knows_is_heard_though_there_is_no_room_for_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seams.FETCH_PLAN_CHUNK_MESSAGES_MAX.replace(monkeypatch, 4)
    _, plan = planned()
    first, second = request(plan, "a"), request(plan, "b")
    assert not plan.needs_room(first), "it has the very next message"
    assert plan.needs_room(second)
    plan.missing(second, second.first, second.last, Answer.ABSENT, "", 0.0)
    assert not plan.needs_room(second), "only its end is left, with a lineage that may be needed"


def test_what_one_could_not_serve_goes_to_another() -> None:
    _, plan = planned()
    plan.failed(request(plan, "a"), 0.0)
    assert plan.request("a", 0.0) is None, "it rests"
    assert request(plan, "b").first == 0
    assert plan.wake_at("a", 0.0) == RECONNECT.first


def test_one_that_hung_does_not_hold_up_the_front_again() -> None:
    _, plan = planned()
    plan.failed(request(plan, "a"), 0.0)
    request(plan, "a", now=5.0)
    assert request(plan, "b", now=5.0).first == 0


def test_one_store_having_it_is_enough() -> None:
    stream, plan = planned()
    deny(plan, request(plan, "a"))
    deny(plan, request(plan, "b"), Answer.UNKNOWN)
    assert plan.gap(NOW) is None
    serve(plan, request(plan, "c"))
    assert stream.next == 10


def test_the_source_is_asked_only_for_what_no_store_is_any_use_for() -> None:
    _, plan = planned()
    assert plan.request(SOURCE, 0.0) is None
    deny(plan, request(plan, "a"))
    plan.failed(request(plan, "b"), 0.0)
    assert plan.request(SOURCE, 0.0) is None
    serve(plan, request(plan, "c"), last=4, high=4)
    asked = request(plan, SOURCE)
    assert (asked.first, asked.last) == (5, 9)


def test_a_gap_needs_a_no_from_everyone() -> None:
    _, plan = planned()
    for store in STORES:
        deny(plan, request(plan, store))
    assert plan.gap(NOW) is None
    assert plan.waiting_for() == ((SOURCE, None, ""),)
    deny(plan, request(plan, SOURCE))
    gap = plan.gap(NOW)
    assert gap is not None
    assert (gap.first, gap.last, gap.cause) == (0, 9, Answer.ABSENT)
    assert [(name, answer) for name, answer, _ in gap.evidence] == [
        ("a", Answer.ABSENT),
        ("b", Answer.ABSENT),
        ("c", Answer.ABSENT),
        (SOURCE, Answer.ABSENT),
    ]


def test_a_source_that_is_gone_can_not_be_asked() -> None:
    _, plan = planned(attached=False)
    for store in STORES:
        deny(plan, request(plan, store))
    gap = plan.gap(NOW)
    assert gap is not None
    assert gap.evidence[-1][:2] == (SOURCE, Answer.AWAY)


@pytest.mark.parametrize("silence", ["failed", "not yet", "under way"])
def test_silence_is_not_a_no(silence: str) -> None:
    _, plan = planned(attached=False)
    deny(plan, request(plan, "a"))
    deny(plan, request(plan, "b"))
    asked = request(plan, "c")
    if silence == "failed":
        plan.failed(asked, 0.0)
    elif silence == "not yet":
        plan.ended(asked, -1, -1, ONE, 0.0)
    assert plan.gap(NOW) is None
    assert plan.waiting_for() == (("c", None, ""),)


def test_a_store_that_can_not_say_may_have_it() -> None:
    """In limbo, or corrupt: it is asked again, for ever, and never proves a gap."""
    stream, plan = planned(attached=False)
    deny(plan, request(plan, "a"))
    deny(plan, request(plan, "b"))
    for round_ in range(3):
        deny(plan, request(plan, "c", now=10.0 * round_), Answer.UNKNOWN, now=10.0 * round_)
        assert plan.gap(NOW) is None
        assert plan.waiting_for()[-1][:2] == ("c", Answer.UNKNOWN)
    serve(plan, request(plan, "c", now=30.0))
    assert stream.next == 10


def test_nobody_is_asked_for_poison() -> None:
    _, plan = planned()
    plan.missing(request(plan, "b"), 3, 6, Answer.POISONED, "says Ada", 0.0)
    assert plan.gap(NOW) is None, "it is not the front"
    for name in ("a", "c"):
        asked = plan.request(name, NOW)
        assert asked is None or not (asked.first <= 6 and asked.last >= 3)
    serve(plan, Request("b", 0, 2, 0))
    gap = plan.gap(NOW)
    assert gap is not None
    assert (gap.first, gap.last, gap.cause) == (3, 6, Answer.POISONED)
    assert gap.evidence == (("b", Answer.POISONED, "says Ada"),)


def test_an_accepted_loss_is_proof_by_itself() -> None:
    stream, plan = planned()
    asked = request(plan, "b")
    plan.fetched(asked, *batch(0, 2), 0, 2, 0.0)
    plan.missing(asked, 3, 6, Answer.LOST, "by the operator", 0.0)
    gap = plan.gap(NOW)
    assert gap is not None
    assert (gap.first, gap.last, gap.cause) == (3, 6, Answer.LOST)
    assert gap.evidence == (("b", Answer.LOST, "by the operator"),)
    stream.skip(gap.last)
    assert plan.gap(NOW) is None, "what follows may be anywhere"


def let_go(plan: FetchPlan, asked: Request, upto: int, now: float = 0.0) -> None:
    """The store let go of everything up to there, also of more than it was asked for."""
    plan.missing(asked, asked.first, upto, Answer.RELEASED, "", now)
    plan.ended(asked, 9, 9, ONE, now)


def test_what_one_store_let_go_another_may_still_have() -> None:
    stream, plan = planned(attached=False)
    let_go(plan, request(plan, "a"), 9)
    assert plan.gap(1e9) is None, "the others were not asked yet"
    assert plan.waiting_for() == (("b", None, ""), ("c", None, ""))
    deny(plan, request(plan, "b"))
    serve(plan, request(plan, "c"))
    assert stream.next == 10
    assert plan.gap(1e9) is None


def test_what_all_let_go_or_never_had_is_a_gap_at_once_with_its_cause() -> None:
    stream, plan = planned(attached=False)
    let_go(plan, request(plan, "a"), 5)
    let_go(plan, request(plan, "b"), 3)
    deny(plan, request(plan, "c"))
    asked = request(plan, "b", 1.0)
    assert (asked.first, asked.last) == (4, 9)
    plan.missing(asked, 4, 9, Answer.ABSENT, "", 0.0)
    plan.ended(asked, 9, 9, ONE, 0.0)
    gap = plan.gap(NOW)
    assert gap is not None
    assert (gap.first, gap.last, gap.cause) == (0, 5, Answer.RELEASED)
    assert [answer for _, answer, _ in gap.evidence] == [
        Answer.RELEASED,
        Answer.RELEASED,
        Answer.ABSENT,
        Answer.AWAY,
    ]
    stream.skip(gap.last)
    asked = request(plan, "a", 1.0)
    assert (asked.first, asked.last) == (6, 9)
    deny(plan, asked, now=1.0)
    gap = plan.gap(NOW)
    assert gap is not None
    assert (gap.first, gap.last, gap.cause) == (6, 9, Answer.ABSENT), "that was not let go"


@pytest.mark.parametrize("other", ["away", "in limbo"])
def test_what_was_let_go_is_not_waited_for_without_end(other: str) -> None:
    _, plan = planned(attached=False)
    let_go(plan, request(plan, "a"), 9)
    let_go(plan, request(plan, "b"), 4)

    def still_not_from_c(now: float) -> None:
        asked = request(plan, "c", now)
        if other == "away":
            plan.failed(asked, now)
        else:
            deny(plan, asked, Answer.UNKNOWN, now)

    still_not_from_c(0.0)
    assert plan.gap(0.0) is None
    assert plan.gap(plan_module.RELEASED_SECONDS - 0.1) is None
    still_not_from_c(plan_module.RELEASED_SECONDS)
    deny(plan, request(plan, "b", 6.0), now=6.0)
    gap = plan.gap(plan_module.RELEASED_SECONDS)
    assert gap is not None
    assert (gap.first, gap.last, gap.cause) == (0, 9, Answer.RELEASED)


def test_what_was_let_go_is_never_asked_for_again() -> None:
    _, plan = planned()
    let_go(plan, request(plan, "a"), 9)
    assert plan.request("a", 1e6) is None
    assert request(plan, "b", 1e6).first == 0


def test_an_accepted_loss_that_is_there_after_all_is_no_gap() -> None:
    stream, plan = planned(attached=False)
    plan.missing(request(plan, "b"), 0, 9, Answer.LOST, "", 0.0)
    header, frame = batch(0, 9)
    assert stream.fetched(header, frame, 0, 9).name == "TAKEN"
    assert plan.gap(NOW) is None


def test_a_newer_lineage_voids_an_accepted_loss() -> None:
    stream, plan = planned(attached=False)
    asked = request(plan, "b")
    plan.missing(asked, 0, 9, Answer.LOST, "", 0.0)
    newer = Lineage((Term(2, 0),))
    stream.heard_of_epoch(2)
    plan.ended(asked, 9, 9, newer, 0.0)
    assert stream.behind
    assert plan.gap(NOW) is None


def test_a_stream_that_begins_anew_voids_all_that_was_said() -> None:
    """Its source was deregistered, or expired: what was let go was of another stream."""
    stream, plan = planned(attached=False)
    for store in STORES:
        let_go(plan, request(plan, store), 5)
    assert plan.gap(NOW) is not None
    stream.heard_of_epoch(4)
    stream.adopt(Lineage((Term(4, 0),)))
    stream.exists(9, 4)
    assert plan.gap(NOW) is None
    asked = request(plan, "a", 1.0)
    assert asked.first == 0
    # One that has not heard of it yet says once more what it let go.
    plan.missing(asked, 0, 5, Answer.RELEASED, "", 1.0)
    plan.ended(asked, 9, 9, ONE, 1.0)
    for store in "bc":
        asked = request(plan, store, 1.0)
        plan.missing(asked, asked.first, asked.last, Answer.ABSENT, "", 1.0)
        plan.ended(asked, SEQUENCE_MAX, -1, Lineage((Term(4, 0),)), 1.0)
    assert plan.gap(NOW) is None


def test_a_gap_is_only_what_all_deny() -> None:
    _, plan = planned(attached=False)
    for store, last in zip(STORES, (9, 3, 6), strict=True):
        asked = request(plan, store)
        plan.missing(asked, 0, last, Answer.ABSENT, "", 0.0)
        plan.ended(asked, last, -1, ONE, 0.0)
    gap = plan.gap(NOW)
    assert gap is not None
    assert (gap.first, gap.last) == (0, 3)


def test_a_no_is_asked_again_after_a_while() -> None:
    _, plan = planned()
    deny(plan, request(plan, "a"))
    assert plan.request("a", 1.0) is None
    assert plan.wake_at("a", 1.0) == pytest.approx(2.0)
    assert plan.request("a", 2.0) is not None


def test_a_store_that_lags_is_asked_again_soon() -> None:
    _, plan = planned()
    serve(plan, request(plan, "a"), high=3)
    for store in ("b", "c"):
        deny(plan, request(plan, store))
    assert plan.gap(NOW) is None
    assert plan.request("a", 0.01) is None
    assert plan.request("a", 0.06) is not None


def test_a_void_batch_is_not_a_no_and_does_not_come_at_once_again() -> None:
    stream, plan = planned(attached=False)
    stream.adopt(Lineage((Term(1, 0), Term(2, 5))))
    stream.exists(9, 2)
    asked = request(plan, "a")
    plan.fetched(asked, *batch(0, 9), 0, 9, 0.0)
    assert stream.next == 5
    asked = request(plan, "b")
    plan.fetched(asked, *batch(5, 9), 5, 9, 0.0)
    plan.ended(asked, 9, 9, ONE, 0.0)
    assert plan.gap(NOW) is None
    assert plan.request("b", 0.01) is None
    assert stream.stable_upto == -1


def test_a_newer_lineage_is_sought_from_everyone() -> None:
    stream, plan = planned(known_upto=-1)
    stream.heard_of_epoch(2)
    asked = [request(plan, peer) for peer in (*STORES, SOURCE)]
    plan.ended(asked[0], -1, -1, ONE, 0.0)
    assert plan.request("a", 0.05) is None
    assert plan.wake_at("a", 0.05) == pytest.approx(0.1)
    assert plan.ended(asked[1], -1, -1, Lineage((Term(2, 0),)), 0.0) is None
    assert not stream.outdated


def test_without_a_live_stream_stores_are_polled() -> None:
    stream, plan = planned(known_upto=-1, attached=False)
    plan.source_live = True
    asked = request(plan, "a")
    assert plan.request("b", 0.0) is None, "one at a time is enough"
    serve(plan, asked, high=4)
    assert stream.next == 5
    assert plan.wake_at("a", 0.1) == pytest.approx(0.5)
    assert request(plan, "b").first == 5


def test_stores_that_have_just_answered_are_polled_later() -> None:
    _, plan = planned(known_upto=-1, attached=False)
    plan.source_live = True
    plan.were_asked(STORES, 1.0)
    assert not any(plan.request(store, 1.4) for store in STORES)
    assert plan.wake_at("a", 1.4) == pytest.approx(1.5)
    request(plan, "a", 1.5)


def test_what_is_missing_is_asked_for_at_once_of_stores_that_have_just_answered() -> None:
    _, plan = planned(attached=False)
    plan.source_live = True
    plan.were_asked(STORES, 1.0)
    assert request(plan, "a", 1.0).first == 0


def test_one_that_holds_back_polls_for_what_is_stable() -> None:
    stream, plan = planned(known_upto=-1, hold_back=True, attached=False)
    asked = request(plan, "a")
    assert (asked.first, asked.last) == (0, 0)
    plan.ended(asked, 9, 4, ONE, 0.0)
    assert stream.missing() == [Range(0, 4)]


class World:
    """Stores that hold part of a stream and fail in every way, and a receiver that recovers it."""

    def __init__(self, seed: int) -> None:
        self.rng = rng = random.Random(seed)
        self.size = rng.randint(20, 200)
        self.lineage = ONE.extended(rng.randint(0, self.size - 2), 2)
        self.held = {peer: RangeSet() for peer in (*STORES, SOURCE)}
        for held in self.held.values():
            for _ in range(rng.randint(0, 6)):
                first = rng.randrange(self.size)
                held.add(first, min(first + rng.randrange(60), self.size - 1))
        self.stream = Stream(
            rng.choice([ONE, self.lineage]),
            0,
            known_upto=self.size - 1,
            room=Room(1 << 30, 1 << 30),
        )
        self.stream.heard_of_epoch(2)
        self.plan = FetchPlan(self.stream, STORES)
        self.plan.source_live = rng.random() < 0.7
        self.under_way: list[Request] = []
        self.now = 0.0
        self.handed: list[int] = []
        self.gaps = RangeSet()
        self.doubtful = True
        """Peers can not always say whether they lack a message."""

    def has(self, peer: str, number: int) -> bool:
        return number in self.held[peer]

    def run(self, *, faults: bool) -> None:
        self.now += self.rng.random() * 0.1
        peer = self.rng.choice((*STORES, SOURCE))
        if not any(one.peer == peer for one in self.under_way):
            asked = self.plan.request(peer, self.now)
            if asked is not None:
                self.under_way.append(asked)
        if self.under_way:
            asked = self.rng.choice(self.under_way)
            if faults and self.rng.random() < 0.2:
                self.plan.failed(asked, self.now)
            else:
                self.answer(asked)
            self.under_way.remove(asked)
        self.collect()

    def answer(self, asked: Request) -> None:
        number, high = asked.first, self.held[asked.peer].high
        # The first lookup of a fetch may find what the last one no longer would: batches are cut
        # anywhere, and come one by one.
        while number <= min(asked.last, high):
            last = number
            same = self.has(asked.peer, number)
            while (
                last < min(asked.last, high, number + 9)
                and self.has(asked.peer, last + 1) == same
                and self.lineage.epoch_at(last + 1) == self.lineage.epoch_at(number)
            ):
                last += 1
            if same:
                header, frame = batch(number, last, self.lineage.epoch_at(number))
                self.plan.fetched(asked, header, frame, number, last, self.now)
            else:
                certain = not self.doubtful or self.rng.random() < 0.5
                answer = Answer.ABSENT if certain else Answer.UNKNOWN
                self.plan.missing(asked, number, last, answer, "", self.now)
            number = last + 1
        self.plan.ended(asked, high, -1, self.lineage, self.now)

    def collect(self) -> None:
        for piece in self.stream.take_ready():
            self.handed += range(piece.first, piece.last + 1)
        while (gap := self.plan.gap(self.now)) is not None:
            asked = (*STORES, SOURCE) if self.plan.source_live else STORES
            for number in range(gap.first, gap.last + 1):
                assert not any(self.has(peer, number) for peer in asked), "a gap needs proof"
            self.gaps.add(gap.first, gap.last)
            self.stream.skip(gap.last)
            for piece in self.stream.take_ready():
                self.handed += range(piece.first, piece.last + 1)


@pytest.mark.parametrize("seed", range(150))
def test_everything_that_anyone_has_is_recovered(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    seams.FETCH_PLAN_CHUNK_MESSAGES_MAX.replace(
        monkeypatch, random.Random(seed).choice([3, 17, 999])
    )
    world = World(seed)
    for _ in range(200):
        world.run(faults=True)
    world.doubtful = False
    for _ in range(1500):
        world.run(faults=False)
    assert world.handed == sorted(set(world.handed)), "in order, each once"
    asked = (*STORES, SOURCE) if world.plan.source_live else STORES
    common = min(world.held[peer].high for peer in asked)
    for number in range(world.size):
        anywhere = any(world.has(peer, number) for peer in asked)
        if number in world.gaps:
            assert not anywhere
        elif number < world.stream.next:
            assert number in world.handed
    # Only a peer that does not reach so far yet may keep a receiver waiting.
    first = world.stream.next
    if first < world.size:
        assert first > common
        assert not any(world.has(peer, first) for peer in asked)


def test_what_a_store_was_asked_for_that_left_and_came_back_is_asked_again() -> None:
    _, plan = planned()
    asked = request(plan, "a")
    plan.set_stores(("b", "c"))
    plan.set_stores(STORES)
    again = request(plan, "b")
    assert (again.first, again.last) == (asked.first, asked.last)


@pytest.mark.parametrize("late", [False, True])
def test_what_stores_lacked_before_others_left_proves_nothing(late: bool) -> None:
    """Those that stay were given it before: a, which has it, leaves."""
    _, plan = planned(attached=False)
    for store in ("b", "c"):
        asked = request(plan, store)
        if late and store == "c":
            plan.set_stores(("b", "c"))
        plan.missing(asked, 0, 9, Answer.ABSENT, "", 0.0)
        plan.ended(asked, 9, 9, ONE, 0.0)
    plan.set_stores(("b", "c"))
    assert plan.gap(0.0) is None
    for store in ("b", "c"):
        asked = request(plan, store)
        plan.missing(asked, 0, 9, Answer.ABSENT, "", 0.0)
        plan.ended(asked, 9, 9, ONE, 0.0)
    gap = plan.gap(0.0)
    assert gap is not None
    assert (gap.first, gap.last) == (0, 9)
