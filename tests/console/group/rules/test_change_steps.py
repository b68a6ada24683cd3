"""A change of the stores, step by step: what is refused, what is warned of, and what is awaited."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from tests.begun import begun_in

from quorate.console.group.rules.change_risks import check, risks
from quorate.console.group.rules.change_situation import Situation
from quorate.console.group.rules.change_steps import Step, steps
from quorate.console.group.rules.store_change import StoreChange
from quorate.protocol.errors import InvalidArgument, QuorateError, Unreachable
from quorate.protocol.identity import SourceName, StoreAddress
from quorate.protocol.policy import Group, IntragroupRule, Membership, Policy
from quorate.protocol.wire import source_to_wire
from quorate.v1.messages_pb2 import HeldRange, SourceInformation, StoreEntry
from quorate.v1.store_pb2 import PeerStatus, SourceStatus, StatusResponse

Answer = StatusResponse | QuorateError

ORDERS = SourceName("orders", 1)
ABC, ABCD, AB, ABD = map(Policy.majority_of, ("abc", "abcd", "ab", "abd"))
GIB = 1 << 30
ADD_D = StoreChange(new=StoreAddress("d", "d:1"))
REMOVE_C = StoreChange(old="c")
C_BY_D = StoreChange(old="c", new=StoreAddress("d", "d:1"))
WIPED_C = StoreChange(old="c", new=StoreAddress("c", "c:1"))
MOVED_C = StoreChange(old="c", new=StoreAddress("c", "c:2"))


def orders(*policies: Policy, upto: int = 99, live: bool = True, reached: str = "") -> SourceStatus:
    """The source, with messages up to 99 stable. reached: the addresses that it uses, as a:1 b:1"""
    entries = reached.split() or [f"{name}:1" for name in "abcd"]
    stores = [StoreEntry(name=each[0], address=each, store_name=each[0]) for each in entries]
    return SourceStatus(
        information=SourceInformation(source=source_to_wire(ORDERS), stores=stores),
        begun=begun_in(2, Membership(policies[:1], policies)),
        live=live,
        held=[HeldRange(first=0, last=upto, epoch=2)] if upto >= 0 else [],
        stable_upto=99,
    )


def store(name: str, peers: str, *sources: SourceStatus, **fields: object) -> StatusResponse:
    return StatusResponse(
        store_name=name,
        incarnation=name.encode(),
        peers=[
            PeerStatus(address=f"{peer}:1", store_name=peer, reachable=True)
            for peer in peers
            if peer != name
        ],
        sources=sources,
        disk_free_bytes=GIB,
        **fields,  # type: ignore[arg-type]
    )


def group(
    change: StoreChange, peers: str, source: SourceStatus | None, *more: tuple[str, Answer]
) -> Situation:
    """Stores a, b and c with these peers and this source, and further or other ones by address."""
    sources = () if source is None else (source,)
    found: dict[str, Answer] = {f"{name}:1": store(name, peers, *sources) for name in "abc"}
    found.update(more)
    answers = {StoreAddress(address[0], address): answer for address, answer in found.items()}
    return Situation(change, answers)


def gone(address: str) -> tuple[str, Answer]:
    return address, Unreachable(address, "refused")


def waiting(found: Sequence[Step]) -> list[str]:
    return [step.waits_for for step in found]


def first(situation: Situation) -> Step:
    return next(step for step in steps(situation) if not step.done)


# Which record counts.


def test_a_store_that_was_left_does_not_hear_that_the_begin_was_confirmed() -> None:
    left = store("a", "abcd", orders(ABC, ABD))
    situation = group(C_BY_D, "abcd", orders(ABD), ("a:1", left), ("d:1", store("d", "abcd")))
    assert not situation.unmoved


# A store that loses its disk meanwhile.


def test_a_store_in_limbo_is_told_of_the_one_that_comes() -> None:
    blank = store("a", "abc", limbo=True, limbo_reason="it is new")
    filled = store("d", "abcd", orders(ABCD))
    step = first(group(ADD_D, "abc", orders(ABCD), ("a:1", blank), ("d:1", filled)))
    assert step.waits_for == "a to get 100 messages"
    assert step.lines == (
        "a is in limbo. Change its file, and restart it:",
        'a: peers = ["b:1", "c:1", "d:1"]',
    )


def test_a_store_in_limbo_for_a_source_is_told_of_the_one_that_comes() -> None:
    doubted = orders(ABCD, upto=-1)
    doubted.limbo = True
    filled = store("d", "abcd", orders(ABCD))
    step = first(
        group(ADD_D, "abc", orders(ABCD), ("a:1", store("a", "abc", doubted)), ("d:1", filled))
    )
    assert step.lines[0] == "a is in limbo. Change its file, and restart it:"


def test_a_store_in_limbo_is_told_so_while_sources_wait_for_it() -> None:
    blank = store("a", "abc", limbo=True, limbo_reason="it is new")
    filled = store("d", "abcd", orders(ABC, ABCD))
    step = first(group(ADD_D, "abc", orders(ABC, ABCD), ("a:1", blank), ("d:1", filled)))
    assert step.waits_for == "1 of 1 sources: orders/0x1 (changing)"
    assert step.lines[-1] == 'a: peers = ["b:1", "c:1", "d:1"]'


# Adding.


def test_a_store_is_added_step_by_step() -> None:
    step = first(group(ADD_D, "abc", orders(ABC), gone("d:1")))
    assert step.waits_for == "d to answer at d:1"
    assert 'peers = ["a:1", "b:1", "c:1"]' in step.lines

    blank = store("d", "abcd", limbo=True, limbo_reason="it is new")
    step = first(group(ADD_D, "abc", orders(ABC), ("d:1", blank)))
    assert step.waits_for == "d to leave limbo: it is new"

    ready = store("d", "abcd")
    step = first(group(ADD_D, "abc", orders(ABC), ("d:1", ready)))
    assert step.waits_for == "1 of 1 sources: orders/0x1 (runs with the former policy)"
    assert step.lines == (
        "Open orders/0x1 again with these lines:",
        'stores = ["a=a:1", "b=b:1", "c=c:1", "d=d:1"]',
        "",
        "[[previous]]",
        'stores = ["a=a:1", "b=b:1", "c=c:1"]',
    )

    step = first(group(ADD_D, "abc", orders(ABC, ABCD), ("d:1", ready)))
    assert step.waits_for == "1 of 1 sources: orders/0x1 (changing)"
    assert step.lines[1] == 'stores = ["a=a:1", "b=b:1", "c=c:1", "d=d:1"]'
    changing = group(ADD_D, "abc", orders(ABC, ABCD), ("d:1", ready))
    check(changing)
    assert "Group stores then has 4 stores." in " ".join(risks(changing))

    filling = store("d", "abcd", orders(ABCD, upto=89))
    step = first(group(ADD_D, "abc", orders(ABCD), ("d:1", filling)))
    assert step.waits_for == "d to get 10 messages"

    filled = store("d", "abcd", orders(ABCD))
    step = first(group(ADD_D, "abc", orders(ABCD), ("d:1", filled)))
    assert step.waits_for == "a to name d; b to name d; c to name d"
    assert 'a: peers = ["b:1", "c:1", "d:1"]' in step.lines

    situation = group(ADD_D, "abcd", orders(ABCD), ("d:1", filled))
    assert waiting(steps(situation)) == [""] * 5
    with pytest.raises(InvalidArgument, match="d is in already"):
        check(situation)


def test_a_group_without_sources_can_grow() -> None:
    situation = group(ADD_D, "abc", None, ("d:1", store("d", "abcd")))
    check(situation)
    assert first(situation).waits_for == "a to name d; b to name d; c to name d"


def test_a_restart_of_all_stores_is_not_taken_for_a_group_without_sources() -> None:
    silent = [gone(f"{name}:1") for name in "abc"]
    situation = group(ADD_D, "abc", None, *silent, ("d:1", store("d", "abcd")))
    assert first(situation).waits_for == "a, b, c to answer"


def test_one_store_alone_does_not_prove_that_a_source_has_moved() -> None:
    """Store a alone answers. Stores b and d may know a later begin, which names c again."""
    alone = group(REMOVE_C, "abd", orders(ABD), gone("b:1"), gone("c:1"), gone("d:1"))
    assert first(alone).waits_for == "b, d to answer"
    two = group(REMOVE_C, "abd", orders(ABD), gone("c:1"), gone("d:1"))
    assert [step.done for step in steps(two)][:3] == [True, True, True]


# Removing.


def test_a_store_is_removed_step_by_step() -> None:
    step = first(group(REMOVE_C, "abc", orders(ABC)))
    assert step.lines[1] == 'stores = ["a=a:1", "b=b:1"]'

    step = first(group(REMOVE_C, "abc", orders(AB, upto=99)))
    assert step.waits_for == "c at c:1 to stop"

    step = first(group(REMOVE_C, "abc", orders(AB), gone("c:1")))
    assert step.waits_for == "a to forget c at c:1; b to forget c at c:1"
    assert 'a: peers = ["b:1"]' in step.lines

    situation = group(REMOVE_C, "ab", orders(AB), gone("c:1"))
    assert waiting(steps(situation)) == [""] * 4
    with pytest.raises(InvalidArgument, match="c has left already"):
        check(situation)


def test_a_store_is_not_stopped_while_the_others_lack_messages() -> None:
    lacking = store("b", "abc", orders(AB, upto=49))
    step = first(group(REMOVE_C, "abc", orders(AB), ("b:1", lacking)))
    assert step.waits_for == "b to get 50 messages"


def test_the_last_store_and_an_unknown_one_are_not_removed() -> None:
    only = Situation(
        StoreChange(old="a"),
        {StoreAddress("a", "a:1"): store("a", "", orders(Policy.majority_of("a")))},
    )
    with pytest.raises(InvalidArgument, match="a is the last store"):
        check(only)
    with pytest.raises(InvalidArgument, match="no store is called z; known are a, b, c"):
        check(group(StoreChange(old="z"), "abc", orders(ABC)))


def test_a_removal_that_leaves_no_stable_set_is_refused() -> None:
    with pytest.raises(InvalidArgument, match=r"could not go from .* only a can take part"):
        check(group(REMOVE_C, "abc", orders(ABC), gone("b:1")))
    doubtful = store("b", "abc", limbo=True)
    with pytest.raises(InvalidArgument, match="start the others first"):
        check(group(REMOVE_C, "abc", orders(ABC), ("b:1", doubtful)))


# Replacing.


def test_a_store_that_is_gone_is_replaced_by_another_one() -> None:
    step = first(group(C_BY_D, "abc", orders(ABC), gone("c:1"), gone("d:1")))
    # The store that is gone is no peer of the new one: it would wait for its answer.
    assert 'peers = ["a:1", "b:1"]' in step.lines
    ready = store("d", "abd")
    situation = group(C_BY_D, "abc", orders(ABC), gone("c:1"), ("d:1", ready))
    check(situation)
    assert first(situation).lines[1] == 'stores = ["a=a:1", "b=b:1", "d=d:1"]'
    filled = ("d:1", store("d", "abd", orders(ABD)))
    step = first(group(C_BY_D, "abc", orders(ABD), gone("c:1"), filled))
    assert step.waits_for.startswith("a to name d and to forget c at c:1; b to name d")
    assert waiting(steps(group(C_BY_D, "abd", orders(ABD), gone("c:1"), filled))) == [""] * 6


def test_a_store_with_a_lost_disk_is_filled_under_its_name() -> None:
    gone_c = group(WIPED_C, "abc", orders(ABC), gone("c:1"))
    check(gone_c)
    assert first(gone_c).waits_for == "c to answer at c:1"
    filling = store("c", "abc", orders(ABC, upto=9), limbo=True, limbo_reason="it is new")
    assert first(group(WIPED_C, "abc", orders(ABC), ("c:1", filling))).title == "c is out of limbo"
    filling.limbo = False
    step = first(group(WIPED_C, "abc", orders(ABC), ("c:1", filling)))
    assert step.waits_for == "c to get 90 messages"
    with pytest.raises(InvalidArgument, match="c runs and lacks nothing"):
        check(group(WIPED_C, "abc", orders(ABC)))


def test_a_store_that_moves_keeps_its_place() -> None:
    situation = group(MOVED_C, "abc", orders(ABC), gone("c:2"))
    check(situation)
    assert first(situation).waits_for == "c at c:1 to stop"
    assert first(group(MOVED_C, "abc", orders(ABC), gone("c:1"), gone("c:2"))).waits_for == (
        "c to answer at c:2"
    )
    there = ("c:2", store("c", "abc", orders(ABC)))
    step = first(group(MOVED_C, "abc", orders(ABC), gone("c:1"), there))
    assert step.waits_for == "orders/0x1 to reach c there and not at c:1"
    moved = orders(ABC, reached="a:1 b:1 c:2")
    there = ("c:2", store("c", "abc", moved))
    answers = [(f"{name}:1", store(name, "abc", moved)) for name in "ab"]
    for _, answer in answers:
        next(peer for peer in answer.peers if peer.store_name == "c").reachable = False
    step = first(group(MOVED_C, "abc", moved, gone("c:1"), there, *answers))
    assert step.waits_for.startswith("a to name c and to forget c at c:1; b to name c")


@pytest.mark.parametrize(("heard_ago", "waits_for"), [(3.0, "a to name c and"), (1.0, "")])
def test_a_store_that_moved_is_no_peer_until_it_was_heard_there(
    heard_ago: float, waits_for: str
) -> None:
    moved = orders(ABC, reached="a:1 b:1 c:2")
    there = ("c:2", store("c", "abc", moved, uptime_seconds=2.0))
    answers = [(f"{name}:1", store(name, "abc", moved)) for name in "ab"]
    for _, answer in answers:
        next(peer for peer in answer.peers if peer.store_name == "c").heard_seconds_ago = heard_ago
    found = steps(group(MOVED_C, "abc", moved, gone("c:1"), there, *answers))
    assert found[-1].waits_for.startswith(waits_for)
    assert found[-1].done is not bool(waits_for)


def test_two_stores_under_one_name_are_not_taken_for_one_that_moved() -> None:
    other = store("c", "abc", orders(ABC))
    other.incarnation = b"another"
    step = first(group(MOVED_C, "abc", orders(ABC), ("c:2", other)))
    assert step.waits_for == "c at c:1 to stop"


def test_a_peer_that_the_command_was_not_told_of_is_left_alone() -> None:
    situation = group(REMOVE_C, "abe", orders(AB), gone("c:1"))
    assert waiting(steps(situation)) == [""] * 4
    for _, answer in situation.at.values():
        for peer in answer.peers:
            if peer.store_name == "e":
                peer.reachable = False
    assert waiting(steps(situation)) == [""] * 4


# Stores that cannot come.


def test_a_store_of_another_group_is_refused() -> None:
    stranger = store("d", "xyz", orders(Policy.majority_of("dxy")))
    with pytest.raises(InvalidArgument, match="d at d:1 belongs to another group"):
        check(group(ADD_D, "abc", orders(ABC), ("d:1", stranger)))


def test_a_store_that_calls_itself_otherwise_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="the store at d:1 calls itself e, not d"):
        check(group(ADD_D, "abc", orders(ABC), ("d:1", store("e", "abce"))))


def test_a_name_that_is_taken_is_refused() -> None:
    change = StoreChange(new=StoreAddress("c", "c:9"))
    with pytest.raises(InvalidArgument, match="a store called c serves c:1"):
        check(group(change, "abc", orders(ABC), gone("c:9")))


# What could go wrong.


def test_a_store_that_is_down_or_in_limbo_is_a_risk() -> None:
    doubtful = store("b", "abc", limbo=True, limbo_reason="it is new")
    found = risks(group(ADD_D, "abc", orders(ABC), gone("a:1"), ("b:1", doubtful), gone("d:1")))
    assert any("Store a at a:1 does not answer" in risk for risk in found)
    assert any("Store b is in limbo" in risk for risk in found)
    assert not any("Store d" in risk for risk in found)


def test_a_source_that_does_not_run_cannot_move() -> None:
    found = risks(group(REMOVE_C, "abc", orders(ABC, live=False)))
    assert any(risk.startswith("orders/0x1 does not run") for risk in found)
    found = risks(group(REMOVE_C, "abc", orders(ABC)))
    assert any(risk.startswith("Each source that runs has to be opened again") for risk in found)


def test_an_even_number_of_stores_is_a_risk() -> None:
    found = risks(group(ADD_D, "abc", orders(ABC), gone("d:1")))
    assert any("then has 4 stores" in risk for risk in found)


def test_messages_that_only_the_leaving_store_has_aside_are_a_risk() -> None:
    aside = orders(ABC)
    aside.set_aside = 7
    found = risks(group(REMOVE_C, "abc", orders(ABC), ("c:1", store("c", "abc", aside))))
    assert any("Store c has set 7 messages aside" in risk for risk in found)


def test_a_disk_that_is_too_small_is_a_risk() -> None:
    small = store("d", "abcd")
    small.disk_free_bytes = 5
    large = store("a", "abc", orders(ABC), disk_bytes=10)
    found = risks(group(ADD_D, "abc", orders(ABC), ("a:1", large), ("d:1", small)))
    assert any("The disk of d has 5 bytes left" in risk for risk in found)


def test_a_lost_disk_under_the_rule_all_needs_a_readmission() -> None:
    strict = Policy((Group("g", ("a", "b", "c"), IntragroupRule.ALL),))
    found = risks(group(WIPED_C, "abc", orders(strict), gone("c:1")))
    assert any("quorate store readmit c" in risk for risk in found)
    found = risks(group(WIPED_C, "abc", orders(ABC), gone("c:1")))
    assert not any("readmit" in risk for risk in found)
