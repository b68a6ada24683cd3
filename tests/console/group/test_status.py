"""What the stores say, put side by side: lags, holes, and when that is unhealthy."""

import asyncio
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest
from tests import seams
from tests.begun import begun_in
from typer.testing import CliRunner

from quorate.console.group.rules.queue_reports import Answers as QueueAnswers
from quorate.console.group.rules.source_status import Answers
from quorate.console.group.status import GroupStatus, compare, look_twice
from quorate.console.main import app
from quorate.protocol.errors import QuorateError, Unreachable
from quorate.protocol.identity import SourceName, StoreAddress
from quorate.protocol.policy import Group, IntergroupRule, IntragroupRule, Membership, Policy
from quorate.protocol.wire import membership_to_wire, policy_to_wire, source_to_wire
from quorate.v1.messages_pb2 import (
    DURABILITY_FSYNC,
    DURABILITY_STATE_ONLY,
    HeldRange,
    ReceiverPacing,
    SourceInformation,
    StoreEntry,
)
from quorate.v1.store_pb2 import ReceiverStatus, SourceStatus, StatusResponse

ORDERS = SourceName("orders", 0x10)


def source(upto: int, *, stable: int = 99, holes: tuple[HeldRange, ...] = ()) -> SourceStatus:
    return SourceStatus(
        information=SourceInformation(source=source_to_wire(ORDERS)),
        begun=begun_in(2),
        live=True,
        held=[HeldRange(first=0, last=upto, epoch=2)] if upto >= 0 else [],
        holes=holes,
        stable_upto=stable,
        receivers=[ReceiverStatus(session_id=0x20, epoch=1, acknowledged_upto=upto - 10)],
    )


def store(name: str, *sources: SourceStatus, limbo: bool = False) -> StatusResponse:
    return StatusResponse(
        store_name=name, incarnation=name.encode(), sources=sources, limbo=limbo, syncs=2
    )


def group(
    *answers: StatusResponse | QuorateError,
) -> dict[StoreAddress, StatusResponse | QuorateError]:
    return {
        StoreAddress(f"s{number}", f"host:{number}"): answer
        for number, answer in enumerate(answers)
    }


def test_a_group_that_agrees_is_healthy() -> None:
    status = compare(group(store("a", source(99)), store("b", source(99))), 0)
    assert status.healthy
    assert [row["state"] for row in status.stores] == ["ok", "ok"]
    (row,) = status.sources
    assert row["topic"] == "orders"
    assert row["session_id"] == "0x10"
    assert row["state"] == "live"
    assert row["newest"] == 99
    assert row["lag"] == {"a": 0, "b": 0}
    (receiver,) = status.receivers
    assert receiver["acknowledged_upto"] == 89
    assert receiver["lag"] == 10


@pytest.mark.parametrize(
    ("second", "healthy"),
    [((150, 199, 120), True), ((90, 199, 98), False)],
    ids=["each has what was stable before", "one has it alone"],
)
def test_stores_that_answer_one_after_the_other_lack_nothing(
    second: tuple[int, ...], healthy: bool
) -> None:
    """While a source sends, the last store to answer knows of messages that the first had not."""
    quorum = Policy((Group("stores", ("a", "b", "c"), IntragroupRule.QUORUM),))

    def at(name: str, upto: int) -> StatusResponse:
        one = source(upto, stable=upto)
        one.begun.membership.CopyFrom(membership_to_wire(Membership((quorum,), (quorum,))))
        return store(name, one)

    asked = 0

    async def ask() -> tuple[Answers, QueueAnswers]:
        nonlocal asked
        asked += 1
        uptos = (90, 99, 98) if asked == 1 else second
        return group(*map(at, "abc", uptos)), {}

    def judge(answers: Answers, queues: QueueAnswers, due: Mapping[SourceName, int]) -> GroupStatus:
        assert due == ({} if asked == 1 else {ORDERS: 99})
        return compare(answers, 1000, queues=queues, due=due)

    status = asyncio.run(look_twice(ask, judge))
    assert (status.healthy, asked) == (healthy, 2)


def test_a_group_that_lacks_nothing_is_looked_at_once() -> None:
    async def ask() -> tuple[Answers, QueueAnswers]:
        asked.append(1)
        return group(store("a", source(99)), Unreachable("host:1", "refused")), {}

    asked: list[int] = []
    status = asyncio.run(
        look_twice(ask, lambda answers, queues, due: compare(answers, 0, queues=queues, due=due))
    )
    assert (status.healthy, len(asked)) == (False, 1)


def test_a_disk_that_can_not_be_read_and_gives_no_space_back_is_a_problem() -> None:
    held_up = store("b", source(99))
    held_up.retention.held_up = "Reading from /data/b/rocksdb failed"
    status = compare(group(store("a", source(99)), held_up), 0)
    (problem,) = status.problems
    assert "Store b frees no disk space" in problem
    assert "Reading from /data/b/rocksdb failed" in problem
    assert [row["release_held_up"] for row in status.stores] == ["", held_up.retention.held_up]


def test_who_answers_for_a_source_that_is_away() -> None:
    one, other = source(99), source(99)
    one.live = other.live = False
    one.proxy, one.reg_id, one.inactive_seconds = "b", 7, 12.34
    other.reg_id, other.inactive_seconds = 8, 30.0
    third = source(99)
    third.live, third.proxy, third.inactive_seconds = False, "c", 40.0
    status = compare(group(store("a", one), store("b", other)), 0)
    (row,) = status.sources
    assert (row["state"], row["proxy"]) == ("away", "b")
    (row,) = compare(group(store("a", one), store("c", third)), 0).sources
    assert row["proxy"] == "b", "one of them, in one row"
    (row,) = status.sources
    assert row["reg_ids"] == {"a": 7, "b": 8}
    assert row["silent_seconds"] == 12.3
    # Whoever has not heard yet that it is back has no say.
    other.live = True
    (row,) = compare(group(store("a", one), store("b", other)), 0).sources
    assert (row["state"], row["proxy"]) == ("live", None)


def test_a_store_that_is_away_is_unhealthy_and_still_a_row() -> None:
    status = compare(group(store("a", source(99)), Unreachable("host:1", "refused")), 0)
    assert not status.healthy
    assert status.stores[1]["state"] == "Unreachable"
    assert status.stores[1]["address"] == "host:1"
    assert status.stores[0].keys() == status.stores[1].keys()


def test_holes_are_unhealthy() -> None:
    holed = source(99, holes=(HeldRange(first=3, last=5),))
    status = compare(group(store("a", source(99)), store("b", holed)), 0)
    (problem,) = status.problems
    assert problem.startswith("Store b lacks [3, 5] of orders/0x10: ")
    assert problem.endswith(" `quorate repair` fetches them from the other stores now.")


def test_what_no_store_has_leads_on_to_accepting_its_loss() -> None:
    def broken(name: str) -> StatusResponse:
        made = source(99)
        del made.held[:]
        made.held.extend([HeldRange(first=0, last=29), HeldRange(first=60, last=99)])
        made.unreadable.append(HeldRange(first=30, last=59))
        return store(name, made)

    one, other = compare(group(broken("a"), broken("b")), 100).problems[:2]
    assert one.startswith("Store a cannot read [30, 59] of orders/0x10: ")
    assert other.startswith("Store b cannot read [30, 59] of orders/0x10: ")
    assert "No store that answered has [30, 59]" in one
    assert "`quorate loss accept 30-59 --source orders/0x10 --reason WHY`" in one
    (problem,) = compare(group(broken("a"), store("b", source(99))), 100).problems
    assert problem.endswith(" `quorate repair` fetches them from the other stores now.")


def test_a_lag_is_unhealthy_only_beyond_the_bound() -> None:
    answers = group(store("a", source(99)), store("b", source(89)))
    assert compare(answers, 10).healthy
    status = compare(answers, 9)
    (problem,) = status.problems
    assert problem.startswith("Store b is 10 stable messages behind in orders/0x10. ")


def test_a_store_that_keeps_state_only_lacks_nothing() -> None:
    keeping = source(-1)
    keeping.durability = DURABILITY_STATE_ONLY
    three = [store("a", source(99)), store("b", source(99)), store("c", keeping)]
    policy = Policy((Group("g", tuple("abc"), IntragroupRule.ALL_ACTIVE),))
    for each in three:
        each.sources[0].information.policy.CopyFrom(policy_to_wire(policy))
    status = compare(group(*three), 0)
    assert status.problems == [], "nor is it active, as far as messages go"
    (row,) = status.sources
    assert (row["state_only"], row["lag"]) == (["c"], {"a": 0, "b": 0})
    keeping.durability = DURABILITY_FSYNC
    assert not compare(group(*three[:2], store("c", keeping)), 0).healthy


def test_messages_that_are_not_stable_yet_are_no_lag() -> None:
    status = compare(group(store("a", source(150)), store("b", source(99))), 0)
    assert status.healthy


def test_a_store_that_holds_nothing_lags_by_everything() -> None:
    status = compare(group(store("a", source(99)), store("b", source(-1))), 1000)
    assert status.sources[0]["lag"] == {"a": 0, "b": 100}


def test_limbo_is_unhealthy() -> None:
    doubted = source(99)
    doubted.limbo, doubted.limbo_reason = True, "waits for b"
    whole = store("a", doubted, limbo=True)
    whole.limbo_reason = "new"
    (problem,) = compare(group(whole), 0).problems
    assert problem.startswith("Store a is in limbo: new. ")
    status = compare(group(store("a", doubted)), 0)
    (problem,) = status.problems
    assert problem.startswith("Store a is in limbo for orders/0x10: waits for b. ")
    assert status.sources[0]["limbo"] == {"a": "waits for b"}


def test_one_store_under_two_addresses_is_unhealthy() -> None:
    status = compare(group(store("a"), store("a")), 0)
    assert not status.healthy


POLICY = Policy(
    (
        Group("left", ("a", "b", "c"), backups=("x",)),
        Group("right", ("d",), IntragroupRule.ALL),
    ),
    IntergroupRule.ALL,
)


def grouped(upto: int, *policies: Policy) -> SourceStatus:
    """A source under these policies, which it comes from all and goes to the last."""
    made = source(upto)
    made.information.policy.CopyFrom(policy_to_wire(POLICY))
    # Policies name the stores otherwise than they do themselves.
    made.information.stores.extend(
        StoreEntry(name=name, address=f"host:{number}") for number, name in enumerate("abcd")
    )
    made.begun.membership.CopyFrom(membership_to_wire(Membership(policies, policies[-1:])))
    return made


def test_groups_with_their_rules_and_who_holds_everything() -> None:
    answers = group(
        *(store(f"node{n}", grouped(upto, POLICY)) for n, upto in enumerate((99, 99, 5, 99)))
    )
    status = compare(answers, 100)
    left, right = status.groups
    assert (left["group"], left["rule"], left["intergroup"]) == ("left", "quorum", "all")
    assert (left["stores"], left["holding"], left["backups"]) == (
        ["a", "b", "c"],
        ["a", "b"],
        ["x"],
    )
    assert left["stand_in_for"] == {}
    assert left["satisfied"]
    assert left["role"] == "in force"
    assert (right["group"], right["rule"], right["satisfied"]) == ("right", "all", True)
    assert status.healthy


def streaming(policy: Policy, *live: str) -> dict[StoreAddress, StatusResponse | QuorateError]:
    """Return the answers of the stores of a policy, of which the source streams to some."""
    answers = []
    for number, name in enumerate("abcd"):
        made = grouped(99, policy)
        made.live = name in live
        answers.append(store(f"node{number}", made))
    return group(*answers)


def test_a_store_that_a_source_can_do_without_is_no_problem() -> None:
    quorum = Policy((Group("g", ("a", "b", "c")),))
    assert compare(streaming(quorum, *"abc"), 0, without="node0").healthy
    assert compare(streaming(quorum), 0, without="node0").healthy, "the source is away"
    assert compare(streaming(quorum, *"ab"), 0, without="node2").healthy, "it is not used"


def test_a_store_whose_stop_would_take_the_quorum_away_is_a_problem() -> None:
    quorum = Policy((Group("g", ("a", "b", "c")),))
    (problem,) = compare(streaming(quorum, *"ab"), 0, without="node1").problems
    assert problem == (
        "Without store node1, orders/0x10 would lose its quorum. Its policy asks for "
        "g (quorum of a, b, c); it would stream to node0. Wait until the source streams to the "
        "other stores before you stop this one."
    )
    assert compare(streaming(quorum, *"ab"), 0).healthy, "no store is to stop"
    every = Policy((Group("g", ("a", "b", "c"), IntragroupRule.ALL),))
    assert not compare(streaming(every, *"abc"), 0, without="node0").healthy


def test_a_store_that_was_not_asked_cannot_be_the_one_to_stop() -> None:
    arguments = ["status", "--stores", "a=127.0.0.1:1", "--without", "b"]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 2
    assert "'b' is none of the stores: a" in result.stderr


def test_a_backup_that_stands_in() -> None:
    left, right = POLICY.groups
    present = Policy((replace(left, stores=("a", "x", "c"), backups=("b",)), right), POLICY.rule)
    answers = group(*(store(f"node{n}", grouped(99, present)) for n in range(4)))
    for answer in answers.values():
        assert isinstance(answer, StatusResponse)
        answer.sources[0].information.declared.CopyFrom(policy_to_wire(POLICY))
    rows = compare(answers, 100).groups
    assert [row["stand_in_for"] for row in rows] == [{"x": "b"}, {}]
    # A policy that is no variant of it, as while the stream moves.
    other = Policy((Group("left", ("a", "b")), right), POLICY.rule)
    for answer in answers.values():
        assert isinstance(answer, StatusResponse)
        answer.sources[0].information.declared.CopyFrom(policy_to_wire(other))
    assert [row["stand_in_for"] for row in compare(answers, 100).groups] == [{}, {}]


def test_a_group_that_does_not_hold_what_is_stable_and_what_that_means() -> None:
    answers = group(
        *(store(f"node{n}", grouped(upto, POLICY)) for n, upto in enumerate((99, 99, 99, 5)))
    )
    status = compare(answers, 100)
    assert [row["satisfied"] for row in status.groups] == [True, False]
    (problem,) = status.problems
    assert "Its policy asks for all of left (quorum of a, b, c" in problem
    assert "held by a, b, c" in problem


def test_stores_that_nobody_asked_are_named_and_no_problem() -> None:
    one = store("node0", grouped(99, POLICY))
    status = compare(group(one), 100)
    assert status.problems == []
    assert status.not_asked == {"b": "host:1", "c": "host:2", "d": "host:3"}
    assert [row["satisfied"] for row in status.groups] == [None, None]
    away = Unreachable("host:1", "refused")
    lagging = store("node0", grouped(99, POLICY)), away, store("node2", grouped(5, POLICY))
    status = compare(group(*lagging), 100)
    assert status.not_asked == {"d": "host:3"}
    assert [row["satisfied"] for row in status.groups] == [False, None]
    assert "Too few stores hold the stable messages" in status.problems[-1], (
        "whatever the other one has"
    )


def reached_elsewhere(upto: int, number: int) -> StatusResponse:
    """A store of a source that reaches it elsewhere than whoever asks does, and knows its name."""
    made = store(f"node{number}", grouped(upto, POLICY))
    del made.sources[0].information.stores[:]
    made.sources[0].information.stores.extend(
        StoreEntry(name=name, address=f"inside:{at}", store_name=f"node{at}")
        for at, name in enumerate("abcd")
    )
    return made


def test_stores_that_are_asked_at_other_addresses_than_the_sources_were_asked() -> None:
    uptos = (99, 97, 97, 99)
    status = compare(group(*(reached_elsewhere(upto, n) for n, upto in enumerate(uptos))), 100)
    assert status.not_asked == {}
    (problem,) = status.problems
    assert "Too few stores hold the stable messages" in problem
    assert "held by a, d" in problem
    assert [row["satisfied"] for row in status.groups] == [False, True]
    # One that does not answer was asked, too, if it was named.
    answers = group(*(reached_elsewhere(99, number) for number in (0, 1, 3)))
    answers[StoreAddress("node2", "host:9")] = Unreachable("host:9", "refused")
    assert compare(answers, 100).not_asked == {}


def test_people_are_told_which_stores_were_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    async def ask_all(
        _: Sequence[StoreAddress], __: float, ___: str
    ) -> dict[StoreAddress, StatusResponse | QuorateError]:
        return group(store("node0", grouped(99, POLICY)))

    seams.GROUP_STATUS_ASK_ALL.replace(monkeypatch, ask_all)
    result = CliRunner().invoke(app, ["status", "--stores", "host:1"])
    assert result.exit_code == 0, result.stderr
    assert "Not asked, " in result.stderr
    assert "b (host:1), c (host:2), d (host:3). Name them in --stores" in result.stderr
    assert "The stores that were asked are healthy." in result.stderr


def test_a_source_that_never_had_a_message_is_held_as_it_should_be() -> None:
    made = grouped(-1, POLICY)
    made.stable_upto = -1
    answers = group(store("node0", made), *(store(f"node{n}") for n in (1, 2, 3)))
    assert compare(answers, 100).problems == []


def test_a_stream_that_moves_shows_the_policies_it_comes_from_and_goes_to() -> None:
    old = Policy((Group("old", ("a", "b", "c")),))
    answers = group(*(store(f"node{n}", grouped(99, old, POLICY)) for n in range(4)))
    rows = compare(answers, 100).groups
    assert [(row["group"], row["role"]) for row in rows] == [
        ("old", "leaving"),
        ("left", "changing"),
        ("right", "changing"),
    ]


def paced(name: str, upto: int, acknowledged_upto: int, **receiver: bool) -> StatusResponse:
    status = source(upto)
    policy = Policy.majority_of(("a", "b"))
    status.begun.membership.CopyFrom(membership_to_wire(Membership((policy,), (policy,))))
    status.information.receiver_pacing.CopyFrom(ReceiverPacing(messages=50, bytes=1000))
    del status.receivers[:]
    status.receivers.add(session_id=0x20, epoch=1, acknowledged_upto=acknowledged_upto, **receiver)
    status.receivers.add(session_id=0x21, epoch=1, acknowledged_upto=95)
    return store(name, status)


def test_who_holds_up_a_source_that_waits_for_its_receivers() -> None:
    status = compare(group(paced("a", 99, 49), paced("b", 99, 40)), 0)
    assert status.paced == [
        {
            "topic": "orders",
            "source": "0x10",
            "slowest_receiver": "0x20",
            "acknowledged_upto": 49,
            "behind": 50,
            "messages_max": 50,
            "bytes_max": 1000,
            "state": "held up",
        }
    ]
    (row,) = compare(group(paced("a", 99, 50), paced("b", 99, 40)), 0).paced
    assert (row["behind"], row["state"]) == (49, "goes on")
    unbound = compare(
        group(paced("a", 99, 9, not_waited_for=True), paced("b", 99, 9, not_waited_for=True)), 0
    )
    assert unbound.paced[0]["slowest_receiver"] == "0x21"
    assert [row["waited_for"] for row in unbound.receivers] == [False, True]
    assert compare(group(store("a", source(99))), 0).paced == []


def test_who_was_deregistered_is_not_shown_though_a_store_was_away() -> None:
    """Nor does it hold anybody up."""
    away, knowing = paced("a", 99, 9), paced("b", 99, 50)
    knowing.sources[0].ended_receivers.add(session_id=0x20, epoch=1)
    del knowing.sources[0].receivers[0]
    status = compare(group(away, knowing), 0)
    assert [row["session_id"] for row in status.receivers] == ["0x21"]
    assert status.paced[0]["slowest_receiver"] == "0x21"
    # It has begun anew, and the store that was away takes that for the old one.
    knowing.sources[0].receivers.add(
        session_id=0x20, epoch=2, acknowledged_upto=3, confirmed_epoch=2
    )
    away.sources[0].receivers[0].epoch = 2
    away.sources[0].receivers[0].confirmed_epoch = 1
    row = compare(group(away, knowing), 0).receivers[0]
    assert (row["acknowledged_upto"], row["stores"]) == (3, {"a": -1, "b": 3})


def test_a_store_that_may_miss_receivers_does_not_say_that_one_is_gone() -> None:
    unsure, other = paced("a", 99, 9), paced("b", 99, 50)
    del unsure.sources[0].receivers[:]
    assert compare(group(unsure, other), 0).paced[0]["slowest_receiver"] is None
    unsure.sources[0].may_miss_receivers = True
    assert compare(group(unsure, other), 0).paced[0]["slowest_receiver"] == "0x20"


def named(number: int, upto: int) -> SourceStatus:
    made = source(upto)
    made.information.source.session_id = number
    made.begun.membership.CopyFrom(membership_to_wire(Membership((), (POLICY,))))
    return made


def test_what_a_store_lacks_is_counted_by_what_it_does_not_have() -> None:
    """Wherever the hole is; and of a source that the store has never heard of, all of it."""
    majority = Policy.majority_of(("a", "b", "c"))
    full, holed = source(99), source(99, holes=(HeldRange(first=3, last=5),))
    for each in (full, holed):
        each.begun.membership.CopyFrom(membership_to_wire(Membership((), (majority,))))
        each.retained_from = 2
    del holed.held[:]
    holed.held.extend([HeldRange(first=0, last=2), HeldRange(first=6, last=89)])
    status = compare(group(store("a", full), store("b", holed), store("c")), 1000)
    assert [(row["store"], row["lacking"]) for row in status.stores] == [
        ("a", 0),
        ("b", 3 + 10),
        ("c", 98),
    ]
    (row,) = status.sources
    assert row["lacking"] == {"a": 0, "b": 13, "c": 98}
    assert row["lag"] == {"a": 0, "b": 10, "c": 98}
    problems = compare(group(store("a", full), store("b", holed), store("c")), 97).problems
    assert any("Store c is 98 stable messages behind in orders/0x10." in each for each in problems)


def test_lists_are_bounded_and_say_what_they_leave_out() -> None:
    """Sources with a problem come first."""
    answers = group(
        store("a", *(named(number, 99) for number in range(1, 8))),
        store("b", *(named(number, 49 if number in (4, 6, 7) else 99) for number in range(1, 8))),
    )
    status = compare(answers, 0, limit=2)
    assert [row["session_id"] for row in status.sources] == ["0x4", "0x6"]
    assert [row["source"] for row in status.receivers] == ["0x4", "0x6"]
    assert status.left_out["sources"] == 5
    assert status.left_out["problems"] == len(compare(answers, 0).problems) - 2 > 0
    assert "Store b is 50 stable messages behind in orders/0x4." in status.problems[0]
    assert not status.healthy
    whole = compare(answers, 0)
    assert (len(whole.sources), sum(whole.left_out.values())) == (7, 0)


def test_of_many_ranges_some_are_named() -> None:
    holed = source(99)
    holed.holes.extend(HeldRange(first=at, last=at) for at in range(0, 600, 2))
    (row,) = compare(group(store("a", holed)), 0).sources
    assert row["holes"]["a"][98:] == ["[196, 196]", "[198, 198]", "… and 200 more ranges"]


def test_a_disk_that_is_low_is_a_problem_before_it_is_full() -> None:
    low = store("a", source(99))
    low.disk_free_bytes, low.data_directory = 900 * 1024 * 1024, "/data/a"
    low.disk_free_warning_bytes, low.disk_free_min_bytes = 1024 * 1024 * 1024, 64 * 1024 * 1024
    (problem,) = compare(group(low), 0).problems
    assert problem.startswith("Store a has 900 MiB left on its disk, and stops at 64 MiB. ")
    low.disk_free_bytes = 1024 * 1024 * 1024
    assert compare(group(low), 0).healthy


def test_the_work_grows_with_the_sources_and_not_with_their_square() -> None:
    def calls(count: int) -> int:
        answers = group(*(store(n, *(named(i, 99) for i in range(1, count + 1))) for n in "abc"))
        events = Counter[str]()
        sys.setprofile(lambda _, event, __: events.update((event,)))
        try:
            assert len(compare(answers, 0, limit=100).sources) == 100
        finally:
            sys.setprofile(None)
        return events["call"] + events["c_call"]

    assert calls(1000) < 5 * calls(250), "sixteen times would be quadratic"


def test_topics_are_selected_by_name_or_by_pattern(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    async def ask_all(
        _: Sequence[StoreAddress], __: float, pattern: str
    ) -> dict[StoreAddress, StatusResponse | QuorateError]:
        asked.append(pattern)
        return group(store("a", source(99)))

    seams.GROUP_STATUS_ASK_ALL.replace(monkeypatch, ask_all)
    for arguments, pattern in (
        ((), ""),
        (("--topic", "a.b", "--topic", "c"), r"a\.b|c"),
        (("--topics-pattern", "or.*"), "or.*"),
    ):
        result = CliRunner().invoke(app, ["status", "--stores", "host:1", *arguments])
        assert result.exit_code == 0, result.stderr
        assert asked.pop() == pattern
    result = CliRunner().invoke(app, ["status", "--stores", "host:1", "--topics-pattern", "("])
    assert result.exit_code == 2
    assert "--topics-pattern: '(' is not a regular expression of RE2" in result.stderr
