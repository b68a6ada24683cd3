"""Who a store is, who founds a group, and whom it remembers: the rules alone."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import product
from typing import Any

import pytest

from quorate.protocol.errors import NotFounded
from quorate.store.rules.peer_knowledge import (
    Heard,
    PeerAnswer,
)
from quorate.store.rules.store_identity import (
    NEW_REASON,
    Standing,
    knows,
    started,
)
from quorate.store.storage.records import (
    StoreRecord,
    pack_greeting,
    pack_store,
    unpack_greeting,
    unpack_store,
)
from quorate.v1.store_pb2 import Greeting

BLANK = StoreRecord(b"mine", 1, NEW_REASON, blank=True)
KNOWN = StoreRecord(b"mine", 3)


def standing(record: StoreRecord = BLANK) -> Standing:
    return Standing("a", record, {})


def heard(store: str, first: float, asked: float, **changes: object) -> Heard:
    answer = PeerAnswer(store, f"{store}:1", store.encode(), limbo=True, blank=True)
    return Heard(replace(answer, **changes), asked, asked + 0.5, first)  # type: ignore[arg-type]


class TestStarted:
    def test_a_blank_store_without_peers_named_is_refused(self) -> None:
        with pytest.raises(NotFounded, match="store init --new"):
            started("a", None, None, lambda: b"new")
        with pytest.raises(NotFounded):
            started("a", BLANK, None, lambda: b"new")

    def test_a_blank_store_that_has_no_peers_founds(self) -> None:
        assert started("a", None, (), lambda: b"new") == StoreRecord(b"new", 1)

    def test_a_blank_store_with_peers_starts_in_limbo(self) -> None:
        record = started("a", None, ("b:1",), lambda: b"new")
        assert record == StoreRecord(b"new", 1, NEW_REASON, blank=True)

    @pytest.mark.parametrize("peers", [None, (), ("b:1",)])
    def test_a_store_that_has_data_needs_nobody(self, peers: tuple[str, ...] | None) -> None:
        record = started("a", KNOWN, peers, lambda: b"new")
        assert record == replace(KNOWN, starts=4)


class TestFounders:
    def test_only_when_all_peers_are_blank_at_one_time(self) -> None:
        """Every combination of: answered, blank, heard again after all were first heard."""
        for states in product(("away", "blank", "blank again", "known"), repeat=2):
            answers = {}
            for at, (name, state) in enumerate(zip("bc", states, strict=True)):
                if state != "away":
                    asked = 10.0 if state == "blank again" else at / 10
                    item = heard(name, at / 10, asked, blank=state != "known")
                    answers[item.answer.address] = item
            founders = standing().founders(("b:1", "c:1"), answers)
            # b was first heard at 0 and c at 0.1: once b is asked after that, both were blank then.
            assert bool(founders) == (states[0] == "blank again" and states[1].startswith("blank"))
            if founders:
                assert [one.incarnation for one in founders] == [b"mine", b"b", b"c"]

    def test_who_was_blank_with_the_founders_is_one(self) -> None:
        founders = (Greeting(store_name="a", incarnation=b"mine"), Greeting(store_name="b"))
        item = heard("b", 0, 1, blank=False, limbo=False, founders=founders)
        assert standing().founders(("b:1", "c:1"), {"b:1": item}) == founders

    def test_whose_predecessor_was_a_founder_is_none(self) -> None:
        founders = (Greeting(store_name="a", incarnation=b"former"),)
        item = heard("b", 0, 1, blank=False, limbo=False, founders=founders)
        assert standing().founders(("b:1",), {"b:1": item}) == ()

    def test_one_that_took_over_a_part_of_what_a_group_had_founds_none(self) -> None:
        subject = standing()
        (row,) = subject.fill()
        assert row.value is not None
        assert not unpack_store(row.value).blank
        blank = {f"{name}:1": heard(name, 0.0, 10.0) for name in "bc"}
        assert subject.founders(("b:1", "c:1"), blank) == ()
        assert standing().founders(("b:1", "c:1"), blank) != ()

    def test_nobody_founds_twice(self) -> None:
        assert standing(KNOWN).founders(("b:1",), {"b:1": heard("b", 0, 1)}) == ()

    def test_a_founder_is_out_of_limbo_for_good(self) -> None:
        founders = (Greeting(store_name="a", incarnation=b"mine"),)
        subject = standing()
        (row,) = subject.found(founders)
        assert not subject.limbo
        assert row.value is not None
        assert unpack_store(row.value) == StoreRecord(b"mine", 1, founders=founders)


class TestMet:
    def test_a_stranger_is_remembered(self) -> None:
        subject = standing()
        greeting = Greeting(store_name="b", incarnation=b"b", starts=1)
        met = subject.met(greeting)
        assert (met.remembered, met.is_news, len(met.writes)) == (None, True, 1)
        again = subject.met(greeting)
        assert (again.remembered, again.is_news, again.writes) == (greeting, False, ())

    def test_another_incarnation_is_told_apart(self) -> None:
        subject = standing()
        subject.met(Greeting(store_name="b", incarnation=b"b", starts=9))
        new = Greeting(store_name="b", incarnation=b"new", former=[b"b"], starts=1)
        met = subject.met(new)
        assert met.is_news
        assert subject.peers["b"].incarnation == b"new"

    def test_who_does_not_name_what_is_known_is_told_and_nothing_else(self) -> None:
        """It may be late: whom another one has replaced, and whom nobody has met."""
        subject = standing()
        known = Greeting(store_name="b", incarnation=b"b", former=[b"a"], starts=9)
        subject.met(known)
        new = Greeting(store_name="b", incarnation=b"new", former=[b"a"], starts=1)
        met = subject.met(new)
        assert (met.remembered, met.is_news, met.writes, met.is_present) == (
            known,
            False,
            (),
            False,
        )
        assert subject.peers["b"] == known

    def test_who_answers_comes_after_what_was_known_when_it_was_asked(self) -> None:
        subject = standing()
        subject.met(Greeting(store_name="b", incarnation=b"old", starts=9))
        before = subject.moment
        met = subject.met(Greeting(store_name="b", incarnation=b"b", starts=1), before)
        assert met.is_news
        assert list(subject.peers["b"].former) == [b"old"]
        # Another question was on its way while that became known.
        late = Greeting(store_name="b", incarnation=b"late", starts=1)
        assert not subject.met(late, before).is_present
        assert subject.peers["b"].incarnation == b"b"
        assert subject.met(late, subject.moment).is_news

    def test_what_was_known_before_this_run_was_known_before_any_question(self) -> None:
        subject = Standing("a", BLANK, {"b": Greeting(store_name="b", incarnation=b"old")})
        assert subject.met(Greeting(store_name="b", incarnation=b"b"), subject.moment).is_news

    def test_who_asks_can_tell_whether_the_peer_has_noted_it(self) -> None:
        """Both ends come to the same, whatever was known and is named."""
        names = (b"one", b"two", b"three")
        for mine, theirs in product(names, names):
            for some, others in product(((), *((each,) for each in names)), repeat=2):
                subject = standing()
                subject.met(Greeting(store_name="b", incarnation=theirs, former=others))
                greeting = Greeting(store_name="b", incarnation=mine, former=some)
                met = subject.met(greeting)
                noted = subject.peers["b"].incarnation == mine
                assert knows(greeting, met.remembered) == noted
        assert knows(Greeting(incarnation=b"one"), None), "at once, if it knew nobody"

    def test_what_a_peer_knows_of_third_stores_is_learned(self) -> None:
        """Who was wiped must know again which of its peers were, before it vouches."""
        subject = standing()
        new = Greeting(store_name="c", incarnation=b"new", former=[b"old"], starts=3)
        met = subject.heard_of(new)
        assert (met.is_news, len(met.writes)) == (True, 1)
        assert subject.peers["c"] == new
        assert subject.heard_of(new).writes == ()
        # Who is behind changes nothing; who knows more of what was before adds it.
        assert subject.heard_of(Greeting(store_name="c", incarnation=b"old")).writes == ()
        more = Greeting(store_name="c", incarnation=b"old", former=[b"oldest"])
        met = subject.heard_of(more)
        assert (met.is_news, len(met.writes)) == (False, 1)
        assert subject.peers["c"].incarnation == b"new"
        assert set(subject.peers["c"].former) == {b"old", b"oldest"}
        newer = Greeting(store_name="c", incarnation=b"newer", former=[b"new"])
        assert subject.heard_of(newer).is_news
        assert set(subject.peers["c"].former) == {b"new", b"old", b"oldest"}

    def test_of_two_whose_order_nobody_knows_the_one_that_is_known_stays(self) -> None:
        subject = standing()
        subject.heard_of(Greeting(store_name="c", incarnation=b"one"))
        assert subject.heard_of(Greeting(store_name="c", incarnation=b"two")).writes == ()
        assert subject.peers["c"].incarnation == b"one"

    def test_what_others_say_of_this_store_is_not_for_here(self) -> None:
        assert standing().heard_of(Greeting(store_name="a", incarnation=b"x")).writes == ()

    def test_what_a_store_was_before_is_remembered_and_told(self) -> None:
        subject = standing()
        for incarnation, former in ((b"one", []), (b"two", [b"one"]), (b"three", [b"two"])):
            subject.met(Greeting(store_name="b", incarnation=incarnation, former=former, starts=1))
        said = {each.store_name: each for each in subject.known()}
        assert (said["b"].incarnation, set(said["b"].former)) == (b"three", {b"one", b"two"})
        assert said["a"].incarnation == b""

    def test_what_a_wiped_store_said_last_may_come_after_what_the_new_one_says(self) -> None:
        subject = standing()
        old = Greeting(store_name="b", incarnation=b"old", starts=1)
        new = Greeting(store_name="b", incarnation=b"new", starts=1)
        for greeting in (old, new, old, new):
            subject.met(greeting)
            assert subject.peers["b"] == old
        new.former.append(b"old")
        assert subject.met(new).is_news
        subject.met(old)
        assert subject.peers["b"] == new

    def test_whoever_comes_in_the_place_of_one_that_never_knew_what_it_was_is_told_all(
        self,
    ) -> None:
        """Else a peer that was put back, and knows only that, finds it out as a copy."""
        peer = standing()
        peer.met(Greeting(store_name="b", incarnation=b"one", starts=1))
        # Wiped again before an answer has come.
        peer.met(Greeting(store_name="b", incarnation=b"two", starts=1), peer.moment)
        peer = Standing("a", peer.record, {"b": unpack_greeting(pack_greeting(peer.peers["b"]))})
        record = StoreRecord(b"three", 1, limbo="new", blank=True)
        subject = Standing("b", record, {})
        remembered = peer.met(subject.greeting("b:1", 0)).remembered
        assert remembered is not None
        assert not subject.check_remembered(remembered)
        assert subject.record.former == (b"one", b"two")
        assert peer.met(subject.greeting("b:1", 0)).is_news

    def test_who_went_down_before_it_noted_what_it_was_is_told_again(self) -> None:
        peer = standing()
        old = Greeting(store_name="b", incarnation=b"old", starts=1)
        peer.met(old)
        for starts in (1, 2):  # the answer to the first is lost
            new = Greeting(store_name="b", incarnation=b"new", starts=starts)
            assert peer.met(new).remembered == old

    def test_a_former_incarnation_that_still_runs_takes_nobodys_place(self) -> None:
        subject = standing()
        old = Greeting(store_name="b", incarnation=b"old", starts=7)
        subject.met(old)
        new = Greeting(store_name="b", incarnation=b"new", former=[b"old"], starts=1)
        subject.met(new)
        met = subject.met(old)
        assert (met.is_news, met.writes) == (False, ())
        assert met.remembered is not None
        assert met.remembered.incarnation == b"new"
        assert subject.peers["b"].incarnation == b"new"

    def test_a_directory_that_was_put_back_does_not_make_its_peers_forget(self) -> None:
        """The answer that tells it may be lost, or it may go down before it has taken note."""
        subject = standing()
        known = Greeting(store_name="b", incarnation=b"b", starts=5, commits=35)
        subject.met(known)
        for starts, commits in ((4, 90), (6, 34)):
            back = Greeting(store_name="b", incarnation=b"b", starts=starts, commits=commits)
            met = subject.met(back)
            assert (met.remembered, met.writes, met.is_present) == (known, (), False)
        found_out = Greeting(store_name="b", incarnation=b"c", former=[b"b"], starts=7)
        assert subject.met(found_out).is_news
        assert subject.peers["b"].incarnation == b"c"

    def test_a_late_greeting_of_the_same_run_changes_nothing(self) -> None:
        subject = standing()
        known = Greeting(store_name="b", incarnation=b"b", starts=5, commits=35)
        subject.met(known)
        met = subject.met(Greeting(store_name="b", incarnation=b"b", starts=5, commits=34))
        assert (met.writes, met.is_present) == ((), True)
        assert subject.peers["b"] == known

    def test_a_restart_with_everything_is_the_same_store(self) -> None:
        subject = standing()
        subject.met(Greeting(store_name="b", incarnation=b"b", starts=5, commits=35))
        again = Greeting(store_name="b", incarnation=b"b", starts=6, commits=35)
        assert subject.met(again).is_present
        assert subject.peers["b"] == again


class TestRemembered:
    """What a peer remembers of a store tells it whether it is a copy, or was put back."""

    def reason(self, **remembered: Any) -> str:
        """As this store found 100 commits, at its fourth start."""
        values: dict[str, Any] = {"store_name": "a", "incarnation": b"mine"} | remembered
        subject = Standing("a", StoreRecord(b"mine", 4, former=(b"before",)), {}, 100)
        return subject.check_remembered(Greeting(**values))

    def test_what_it_was_itself_is_fine(self) -> None:
        assert not self.reason(starts=3, commits=100)
        assert not self.reason(starts=4, commits=100)
        assert not self.reason(incarnation=b"before", starts=99, commits=999)

    def test_more_starts_than_it_has_had(self) -> None:
        assert "start 4 and commit 100, and a peer remembers start 5" in self.reason(starts=5)

    def test_more_commits_than_it_has(self) -> None:
        assert "a peer remembers start 3 and commit 101" in self.reason(starts=3, commits=101)

    def test_until_it_has_asked_its_start_does_not_count(self) -> None:
        """A peer that knows of as many starts has met another run."""
        subject = Standing("a", StoreRecord(b"mine", 4), {}, 100)
        subject.begin_check(("b:1",))
        assert subject.greeting("a:1", 120) == Greeting(
            store_name="a", address="a:1", incarnation=b"mine", starts=3, commits=100
        )
        met = Greeting(store_name="a", incarnation=b"mine", starts=4, commits=100)
        assert "start 3 and commit 100, and a peer remembers start 4" in (
            subject.check_remembered(met)
        )
        subject.unchecked = ""
        assert not subject.check_remembered(met)
        assert subject.greeting("a:1", 120).commits == 120

    def test_a_renewed_incarnation_hides_nothing_from_the_run_that_renewed_it(self) -> None:
        known = Greeting(store_name="a", incarnation=b"mine", starts=4, commits=101)
        subject = Standing("a", StoreRecord(b"mine", 5), {}, 100)
        subject.renew(b"new")
        assert "commit 101" in subject.check_remembered(known)
        subject.enter_limbo("why", b"newest")
        assert not subject.check_remembered(known), "it was found out already"

    def test_in_this_run_peers_hear_of_more_commits(self) -> None:
        known = Greeting(store_name="a", incarnation=b"mine", starts=4, commits=150)
        subject = Standing("a", StoreRecord(b"mine", 4), {}, 100)
        subject.greeting("a:1", 20)
        assert "remembers start 4 and commit 150" in subject.check_remembered(known)
        subject.greeting("a:1", 150)
        assert not subject.check_remembered(known)

    def test_an_incarnation_that_it_has_never_heard_of(self) -> None:
        assert "put back" in self.reason(incarnation=b"later", former=[b"mine"])
        assert "put back" in self.reason(incarnation=b"unheard of")

    def test_who_is_in_limbo_replaces_whatever_the_peers_knew(self) -> None:
        subject = standing()
        former = Greeting(store_name="a", incarnation=b"former", former=[b"first"], starts=9)
        assert not subject.check_remembered(former)
        assert subject.record.former == (b"first", b"former")
        assert not subject.check_remembered(former)
        later = Greeting(store_name="a", incarnation=b"later", former=[b"mine"])
        assert subject.check_remembered(later), "unless it was replaced itself"

    def test_in_limbo_it_learns_at_once_what_to_name(self) -> None:
        subject = standing()
        former = Greeting(store_name="a", incarnation=b"former", former=[b"first"], starts=9)
        (row,) = subject.comes_after(former)
        assert row.value is not None
        assert unpack_store(row.value).former == (b"first", b"former")
        for nothing_new in (
            former,
            Greeting(store_name="a", incarnation=b"first"),
            Greeting(store_name="a", incarnation=b"mine"),
            Greeting(store_name="a", incarnation=b"later", former=[b"mine"]),
        ):
            assert subject.comes_after(nothing_new) == ()
        assert standing(KNOWN).comes_after(former) == (), "who vouches is found out"

    def test_what_it_had_no_time_to_note_it_hears_again_from_whoever_knows_it(self) -> None:
        """It was wiped, heard what it had been, left limbo, and lost its last commits."""
        record = StoreRecord(b"new", 2, former=(b"older",))
        subject = Standing("a", record, {})
        behind = Greeting(store_name="a", incarnation=b"mine", starts=3)
        assert "put back" in subject.check_remembered(behind)
        subject.learn_former(Greeting(store_name="a", incarnation=b"mine", former=[b"no"]))
        assert "put back" in subject.check_remembered(behind), "that was said of another"
        subject.learn_former(Greeting(store_name="a", incarnation=b"new", former=[b"mine"]))
        assert not subject.check_remembered(behind)
        assert subject.record.former == (b"mine", b"older")

    def test_found_out_it_is_another(self) -> None:
        subject = standing(KNOWN)
        (row,) = subject.enter_limbo("why", b"new")
        assert row.value is not None
        record = unpack_store(row.value)
        assert record == StoreRecord(b"new", 3, "why", former=(b"mine",))
        assert not subject.founders((), {}), "it had something once, so it founds nothing"


@pytest.mark.parametrize(
    "record",
    [
        BLANK,
        StoreRecord(b"x" * 16, 7, "", False, (Greeting(store_name="b"),), (b"one", b"", b"two")),
        StoreRecord(b"x", 2, former=(b"z", b"y"), by_hand=True),
    ],
)
def test_the_record_of_a_store_to_bytes_and_back(record: StoreRecord) -> None:
    assert unpack_store(pack_store(record)) == record


_EVENTS = ("commit", "commit", "sync", "greet", "greet late", "start", "start doubted", "copy")


@pytest.mark.parametrize("seed", range(10))
def test_who_comes_with_less_is_found_out_and_nobody_else(seed: int) -> None:
    """A directory that goes on is what its peers remember, whatever was not synced when it went
    down. One that was put back is found out by its starts, or else by its commits."""
    for number in range(100):
        world = _World(100 * seed + number)
        for event in world.chooser.choices(_EVENTS, k=20):
            world.do(event)
        assert not world.asks()
        known = world.peer.peers.get("b")
        if known is not None and known.incarnation == world.copy[0].incarnation:
            record, commits = world.copy
            world.start(record, commits)
            world.subject.begin_check(("a:1",))
            assert bool(world.asks()) == (record.starts < known.starts or commits < known.commits)


class _World:
    """A store b with its directory, and its peer a."""

    def __init__(self, seed: int) -> None:
        self.chooser = random.Random(seed)
        self.peer = standing(KNOWN)
        self.start(StoreRecord(b"0"), 0)
        self.copy = self.subject.record, 0
        self.late = self.greeting()

    def start(self, record: StoreRecord, commits: int, *, doubted: bool = False) -> None:
        self.subject = Standing("b", started("b", record, ("a:1",), lambda: b""), {}, commits)
        if doubted:
            self.subject.renew(b"%d" % self.subject.record.starts)
        self.commits = self.synced = commits

    def greeting(self) -> Greeting:
        return self.subject.greeting("b:1", self.synced)

    def asks(self) -> str:
        """The store asks its peer; why it is found out."""
        remembered = self.peer.met(self.greeting()).remembered
        return self.subject.check_remembered(remembered) if remembered is not None else ""

    def do(self, event: str) -> None:
        match event.split():
            case ["commit"]:
                self.commits += 1
            case ["sync"]:
                self.synced = self.commits
            case ["copy"]:
                self.copy = self.subject.record, self.synced
                self.late = self.greeting()
            case ["greet"]:
                assert not self.asks()
            case ["greet", "late"]:
                self.peer.met(self.late)
            case ["start", *doubted]:
                kept = self.chooser.randint(self.synced, self.commits)
                self.start(self.subject.record, kept, doubted=bool(doubted))
