"""Who a store is, who founds a group, and whom it remembers: the rules alone."""

from __future__ import annotations

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
from quorate.store.rules.store_runs import RUNS_MAX
from quorate.store.storage.records import (
    StoreRecord,
    StoreRun,
    pack_greeting,
    pack_store,
    unpack_greeting,
    unpack_store,
)
from quorate.v1.store_pb2 import Greeting
from quorate.v1.store_pb2 import StoreRun as WireRun

RUN = StoreRun(b"run")
BLANK = StoreRecord(b"mine", 1, NEW_REASON, blank=True)
KNOWN = StoreRecord(b"mine", 3)


def drawn(run: bytes, commits_before: int = 0) -> WireRun:
    return WireRun(drawn=run, commits_before=commits_before)


def standing(record: StoreRecord = BLANK) -> Standing:
    return Standing("a", replace(record, runs=(RUN,)), {})


def heard(store: str, first: float, asked: float, **changes: object) -> Heard:
    answer = PeerAnswer(store, f"{store}:1", store.encode(), limbo=True, blank=True)
    return Heard(replace(answer, **changes), asked, asked + 0.5, first)  # type: ignore[arg-type]


class TestStarted:
    def test_a_blank_store_without_peers_named_is_refused(self) -> None:
        with pytest.raises(NotFounded, match="store init --new"):
            started("a", None, None, lambda: b"new", RUN)
        with pytest.raises(NotFounded):
            started("a", BLANK, None, lambda: b"new", RUN)

    def test_a_blank_store_that_has_no_peers_founds(self) -> None:
        assert started("a", None, (), lambda: b"new", RUN) == StoreRecord(b"new", 1, runs=(RUN,))

    def test_a_blank_store_with_peers_starts_in_limbo(self) -> None:
        record = started("a", None, ("b:1",), lambda: b"new", RUN)
        assert record == StoreRecord(b"new", 1, NEW_REASON, blank=True, runs=(RUN,))

    @pytest.mark.parametrize("peers", [None, (), ("b:1",)])
    def test_a_store_that_has_data_needs_nobody(self, peers: tuple[str, ...] | None) -> None:
        record = started("a", KNOWN, peers, lambda: b"new", RUN)
        assert record == replace(KNOWN, starts=4, runs=(RUN,))

    def test_what_was_drawn_at_the_last_starts_is_known(self) -> None:
        record = KNOWN
        for number in range(RUNS_MAX + 3):
            record = started("a", record, (), lambda: b"new", StoreRun(b"%d" % number, number))
        assert len(record.runs) == RUNS_MAX
        assert record.runs[-1] == StoreRun(b"%d" % (RUNS_MAX + 2), RUNS_MAX + 2)
        assert record.runs[0] == StoreRun(b"3", 3)


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

    def test_nobody_founds_twice(self) -> None:
        assert standing(KNOWN).founders(("b:1",), {"b:1": heard("b", 0, 1)}) == ()

    def test_a_founder_is_out_of_limbo_for_good(self) -> None:
        founders = (Greeting(store_name="a", incarnation=b"mine"),)
        subject = standing()
        (row,) = subject.found(founders)
        assert not subject.limbo
        assert row.value is not None
        assert unpack_store(row.value) == StoreRecord(b"mine", 1, founders=founders, runs=(RUN,))


class TestMet:
    def test_a_stranger_is_remembered(self) -> None:
        subject = standing()
        greeting = Greeting(store_name="b", incarnation=b"b", starts=1, run=drawn(b"1"))
        met = subject.met(greeting)
        assert (met.remembered, met.is_news, len(met.writes)) == (None, True, 1)
        again = subject.met(greeting)
        assert (again.remembered, again.is_news, again.writes) == (greeting, False, ())

    def test_another_incarnation_is_told_apart(self) -> None:
        subject = standing()
        subject.met(Greeting(store_name="b", incarnation=b"b", starts=9, run=drawn(b"1")))
        new = Greeting(store_name="b", incarnation=b"new", former=[b"b"], starts=1, run=drawn(b"2"))
        met = subject.met(new)
        assert met.is_news
        assert subject.peers["b"].incarnation == b"new"

    def test_who_does_not_name_what_is_known_is_told_and_nothing_else(self) -> None:
        """It may be late: whom another one has replaced, and whom nobody has met."""
        subject = standing()
        known = Greeting(store_name="b", incarnation=b"b", former=[b"a"], starts=9, run=drawn(b"1"))
        subject.met(known)
        new = Greeting(store_name="b", incarnation=b"new", former=[b"a"], starts=1, run=drawn(b"2"))
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
        subject.met(Greeting(store_name="b", incarnation=b"old", starts=9, run=drawn(b"1")))
        before = subject.moment
        met = subject.met(
            Greeting(store_name="b", incarnation=b"b", starts=1, run=drawn(b"2")), before
        )
        assert met.is_news
        assert list(subject.peers["b"].former) == [b"old"]
        # Another question was on its way while that became known.
        late = Greeting(store_name="b", incarnation=b"late", starts=1, run=drawn(b"3"))
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
                greeting = Greeting(store_name="b", incarnation=mine, former=some, run=drawn(b"2"))
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

    def test_of_two_that_each_took_the_other_for_what_it_was_the_one_that_is_known_stays(
        self,
    ) -> None:
        """None comes after itself: it would take for void what it says."""
        subject = standing()
        known = Greeting(store_name="c", incarnation=b"one", former=[b"older", b"other"])
        subject.heard_of(known)
        other = Greeting(store_name="c", incarnation=b"other", former=[b"oldest", b"one"])
        met = subject.heard_of(other)
        assert (met.is_news, len(met.writes)) == (False, 1)
        assert subject.peers["c"].incarnation == b"one"
        assert set(subject.peers["c"].former) == {b"older", b"oldest", b"other"}
        assert subject.heard_of(other).writes == ()
        # The one that is left hears so, and is another one from then on.
        left = Standing("c", StoreRecord(b"other", limbo="why", former=(b"oldest", b"one")), {})
        assert left.check_remembered(subject.peers["c"])
        left.enter_limbo("why", b"new")
        assert subject.met(left.greeting("c:1", 0)).is_news

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
        old = Greeting(store_name="b", incarnation=b"old", starts=1, run=drawn(b"1"))
        new = Greeting(store_name="b", incarnation=b"new", starts=1, run=drawn(b"2"))
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
        peer.met(Greeting(store_name="b", incarnation=b"one", starts=1, run=drawn(b"1")))
        # Wiped again before an answer has come.
        peer.met(
            Greeting(store_name="b", incarnation=b"two", starts=1, run=drawn(b"2")), peer.moment
        )
        peer = Standing("a", peer.record, {"b": unpack_greeting(pack_greeting(peer.peers["b"]))})
        record = StoreRecord(b"three", 1, limbo="new", blank=True, runs=(StoreRun(b"3"),))
        subject = Standing("b", record, {})
        remembered = peer.met(subject.greeting("b:1", 0)).remembered
        assert remembered is not None
        assert not subject.check_remembered(remembered)
        assert subject.record.former == (b"one", b"two")
        assert peer.met(subject.greeting("b:1", 0)).is_news

    def test_who_went_down_before_it_noted_what_it_was_is_told_again(self) -> None:
        peer = standing()
        old = Greeting(store_name="b", incarnation=b"old", starts=1, run=drawn(b"1"))
        peer.met(old)
        for starts, run in ((1, b"2"), (2, b"3")):  # the answer to the first is lost
            new = Greeting(store_name="b", incarnation=b"new", starts=starts, run=drawn(run))
            assert peer.met(new).remembered == old

    def test_a_former_incarnation_that_still_runs_takes_nobodys_place(self) -> None:
        subject = standing()
        old = Greeting(store_name="b", incarnation=b"old", starts=7, run=drawn(b"1"))
        subject.met(old)
        new = Greeting(
            store_name="b", incarnation=b"new", former=[b"old"], starts=1, run=drawn(b"2")
        )
        subject.met(new)
        met = subject.met(old)
        assert (met.is_news, met.writes) == (False, ())
        assert met.remembered is not None
        assert met.remembered.incarnation == b"new"
        assert subject.peers["b"].incarnation == b"new"

    def test_a_copy_does_not_take_the_place_of_what_is_known(self) -> None:
        subject = standing()
        known = Greeting(store_name="b", incarnation=b"b", starts=5, run=drawn(b"1"))
        subject.met(known)
        met = subject.met(Greeting(store_name="b", incarnation=b"b", starts=5, run=drawn(b"2")))
        assert (met.remembered, met.writes) == (known, ())
        assert subject.peers["b"] == known

    def test_a_directory_that_was_put_back_does_not_make_its_peers_forget(self) -> None:
        """The answer that tells it may be lost, or it may go down before it has taken note."""
        subject = standing()
        known = Greeting(store_name="b", incarnation=b"b", starts=5, run=drawn(b"1"), commits=35)
        subject.met(known)
        for starts, run in ((6, b"2"), (7, b"3")):
            back = Greeting(store_name="b", incarnation=b"b", starts=starts, run=drawn(run, 21))
            back.commits = 40
            met = subject.met(back)
            assert (met.remembered, met.writes) == (known, ())
        found_out = Greeting(
            store_name="b", incarnation=b"c", former=[b"b"], starts=7, run=drawn(b"3")
        )
        assert subject.met(found_out).is_news
        assert subject.peers["b"].incarnation == b"c"

    def test_a_restart_with_everything_is_the_same_store(self) -> None:
        subject = standing()
        subject.met(
            Greeting(store_name="b", incarnation=b"b", starts=5, run=drawn(b"1"), commits=35)
        )
        again = Greeting(
            store_name="b",
            incarnation=b"b",
            starts=6,
            run=drawn(b"2", 35),
            commits=35,
        )
        subject.met(again)
        assert subject.peers["b"] == again

    @pytest.mark.parametrize(
        ("runs", "is_it"),
        [
            (((b"5", 0), (b"6", 35)), True),
            (((b"other", 0), (b"6", 35)), False),
            (((b"6", 35),), True),  # nobody knows any more what was drawn at the fifth start
            (((b"4", 0), (b"5", 0), (b"other", 35), (b"7", 35)), True),
            (((b"5", 0), (b"other", 35), (b"another", 35), (b"7", 35)), False),
            # It wrote as much anew, in one run or in several, or more, since it was put back.
            (((b"5", 0), (b"6", 34)), False),
            (((b"5", 0), (b"6", 34), (b"7", 35)), False),
            (((b"5", 0), (b"6", 30), (b"7", 33), (b"8", 90)), False),
            (((b"7", 34), (b"8", 40)), False),  # and was longer away than its runs are known
            (((b"5", 0), (b"6", 35), (b"7", 35)), True),
            (((b"5", 0), (b"6", 36), (b"7", 90)), True),
            (((b"7", 35), (b"8", 90)), True),  # as far as anybody knows
        ],
    )
    def test_who_has_not_been_through_a_run_that_was_met_was_put_back(
        self, runs: tuple[tuple[bytes, int], ...], is_it: bool
    ) -> None:
        """Or not through all that is known of it: also if it was started more often since, and has
        as many commits as anybody was told."""
        subject = standing()
        known = Greeting(store_name="b", incarnation=b"b", starts=5, run=drawn(b"5"), commits=35)
        subject.met(known)
        last, before = runs[-1]
        record = StoreRecord(b"b", int(last), runs=tuple(StoreRun(*run) for run in runs))
        back = Standing("b", record, {})
        met = subject.met(back.greeting("b:1", 100))
        assert bool(met.writes) == is_it
        assert (subject.peers["b"].run == drawn(last, before)) == is_it
        assert not subject.peers["b"].former_runs, "nobody else has a use for them"
        assert (back.check_remembered(known) == "") == is_it

    @pytest.mark.parametrize("renewals", [1, 2])
    @pytest.mark.parametrize("was_put_back", [True, False])
    def test_the_runs_are_compared_also_if_the_incarnation_was_renewed(
        self, was_put_back: bool, renewals: int
    ) -> None:
        """By each end, and also if the peer hears of it from another one first."""
        known = Greeting(store_name="b", incarnation=b"b", starts=5, run=drawn(b"5"), commits=35)
        record = StoreRecord(b"b", 5, runs=(StoreRun(b"4"), StoreRun(b"5", 20)))
        for number in range(renewals):
            run = StoreRun(b"%d" % (6 + number), 34 if was_put_back else 35)
            subject = Standing("b", started("b", record, (), lambda: b"", run), {})
            (row,) = subject.renew(b"new %d" % number)
            assert row.value is not None
            record = unpack_store(row.value)
        greeting = subject.greeting("b:1", 90)
        # One that had met it when it had less takes it for what it says, and tells others.
        other = standing()
        other.met(Greeting(store_name="b", incarnation=b"b", starts=5, run=drawn(b"5"), commits=30))
        assert other.met(greeting).is_news
        for told in (False, True):
            peer = standing()
            peer.met(known)
            if told:
                assert peer.heard_of(other.peers["b"]).is_news, "its sources have to hear of it"
            peer = Standing("a", BLANK, {"b": unpack_greeting(pack_greeting(peer.peers["b"]))})
            met = peer.met(greeting)
            assert met.remembered is not None
            assert met.is_present == (not was_put_back)
            assert peer.met(greeting).is_present == (not was_put_back)
            assert bool(subject.check_remembered(met.remembered)) == was_put_back
            if not told:
                assert knows(greeting, met.remembered) == (not was_put_back)

    def test_with_the_runs_of_who_was_wiped_or_found_out_nothing_is_compared(self) -> None:
        peer = standing()
        known = Greeting(store_name="b", incarnation=b"b", starts=5, run=drawn(b"5"), commits=35)
        peer.met(known)
        wiped = Standing("b", StoreRecord(b"new", 1, limbo="new", runs=(StoreRun(b"1"),)), {})
        record = StoreRecord(b"b", 5, runs=(StoreRun(b"other"),))
        found_out = Standing("b", record, {})
        found_out.renew(b"renewed")
        assert found_out.check_remembered(known)
        found_out.enter_limbo("why", b"new")
        for subject in (wiped, found_out):
            assert not subject.check_remembered(known)
            subject.renew(b"renewed again")  # in limbo, with what it has taken over
            assert not subject.check_remembered(known)
            other = Standing("a", BLANK, {"b": known})
            assert other.met(subject.greeting("b:1", 0)).is_news
            assert knows(subject.greeting("b:1", 0), known)
            third = Standing("a", BLANK, {"b": known})
            assert third.heard_of(other.peers["b"]).is_news
            assert third.peers["b"].run == other.peers["b"].run


class TestRemembered:
    """What a peer remembers of a store tells it whether it is a copy, or was put back."""

    SELF = StoreRecord(
        b"mine", 4, former=(b"before",), runs=(StoreRun(b"third", 90), StoreRun(b"run", 100))
    )

    def reason(self, record: StoreRecord = SELF, **remembered: Any) -> str:
        values: dict[str, Any] = {
            "store_name": "a",
            "incarnation": b"mine",
            "run": drawn(b"other"),
        } | remembered
        return Standing("a", record, {}).check_remembered(Greeting(**values))

    def test_what_it_was_itself_is_fine(self) -> None:
        assert not self.reason(starts=3, commits=100, run=drawn(b"third"))
        assert not self.reason(starts=4, commits=900, run=drawn(b"run"))
        assert not self.reason(incarnation=b"before", starts=99, commits=999)

    def test_more_starts_than_it_has_had(self) -> None:
        assert "is a copy, or was put back" in self.reason(starts=4)
        assert "seen 5 starts" in self.reason(starts=5)

    def test_more_commits_than_it_had_when_it_started(self) -> None:
        assert "had 100 commits when its start 4 began" in self.reason(
            starts=3, run=drawn(b"third"), commits=101
        )

    def test_more_commits_than_it_had_when_the_run_was_over_that_the_peer_has_met(self) -> None:
        record = replace(self.SELF, starts=5, runs=(*self.SELF.runs, StoreRun(b"next", 200)))
        third: Any = {"starts": 3, "run": drawn(b"third")}
        assert not self.reason(record, **third, commits=100)
        assert "its start 4 began, and a peer knew of 101" in self.reason(
            record, **third, commits=101
        )
        assert not self.reason(record, starts=4, run=drawn(b"run"), commits=101)
        # What followed is forgotten: what is known of later ones has to do.
        assert not self.reason(record, starts=1, run=drawn(b"first"), commits=90)
        assert "its start 3 began" in self.reason(record, starts=1, run=drawn(b"first"), commits=91)

    def test_a_run_that_it_has_not_been_through(self) -> None:
        assert "met its start 3" in self.reason(starts=3)
        assert not self.reason(starts=2), "nobody knows any more what was drawn then"

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
        record = StoreRecord(b"new", 2, former=(b"older",), runs=(RUN,))
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
        assert record == StoreRecord(b"new", 3, "why", former=(b"mine",), runs=(RUN,))
        assert not subject.founders((), {}), "it had something once, so it founds nothing"


@pytest.mark.parametrize(
    "record",
    [
        BLANK,
        StoreRecord(b"x" * 16, 7, "", False, (Greeting(store_name="b"),), (b"one", b"", b"two")),
        StoreRecord(b"x", 2, former=(b"y",), runs=(StoreRun(b"one"), StoreRun(b"two", 1 << 40))),
        StoreRecord(b"x", 2, former=(b"z", b"y"), runs=(StoreRun(b"one"),), renewed=(b"y",)),
    ],
)
def test_the_record_of_a_store_to_bytes_and_back(record: StoreRecord) -> None:
    assert unpack_store(pack_store(record)) == record


def test_of_two_that_each_took_the_other_for_what_it_was_before_one_is_found_out() -> None:
    """Both were in limbo, and heard what peers knew before these had heard of both."""
    mine = Standing("a", StoreRecord(b"one", limbo="wiped", former=(b"other",)), {})
    theirs = Greeting(store_name="a", incarnation=b"other", former=[b"one"])
    assert mine.check_remembered(theirs)
    replaced = Greeting(store_name="a", incarnation=b"other")
    assert not mine.check_remembered(replaced)
