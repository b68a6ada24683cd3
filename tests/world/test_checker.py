"""The checker: it lets pass what is right, and finds each kind of wrong."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Any

import pytest
from tests.world.checker import Violated, check, check_rows
from tests.world.seen import (
    Circumstances,
    End,
    Handed,
    LetGo,
    Life,
    Live,
    Opened,
    Row,
    Rows,
    Seen,
    Stream,
    Taken,
    ToldOfEnd,
)

from quorate.client.receiver_events import Withdrawn
from quorate.protocol.identity import SourceName

WHOLE = [Handed(0, b"a"), Handed(1, b"b"), Handed(2, b"c")]
SECOND = [Handed(0, b"d", 5), Handed(1, b"e", 5)]


def taken(before: int, messages: Sequence[Handed]) -> Taken:
    return Taken({0: -1, 1: before}, list(messages))


def life(epoch: int, messages: Sequence[Handed], told_at: float, published: float) -> Life:
    stable = {message.number: message.payload for message in messages}
    return Life(epoch, told_at, stable, len(stable) - 1, published)


def seen(**given: Any) -> Seen:
    """Return what is seen in a world without faults, but for what is given."""
    opened = Opened([1])
    usual: dict[str, Any] = {
        "sent": {message.payload: opened for message in WHOLE},
        "lives": [Life(0), life(1, WHOLE, 1.0, 10.0)],
        "taken": [taken(-1, WHOLE[:2]), taken(1, WHOLE[1:])],
        "replayed": WHOLE,
        "read": WHOLE,
    }
    return Seen([Stream(**{**usual, **given})])


def ended(**given: Any) -> Seen:
    """Return what is seen in a world where an operator ends a source, but for what is given."""
    first, second = Opened([1]), Opened([5])
    usual: dict[str, Any] = {
        "sent": {
            **{message.payload: first for message in WHOLE},
            **{message.payload: second for message in SECOND},
        },
        "lives": [Life(0), life(1, WHOLE, 1.0, 10.0), life(5, SECOND, 14.0, 16.0)],
        "ends": [End("an operator", 11.0, 1, 12.0, is_done=True)],
        "told_of_ends": [ToldOfEnd(13.0, 1)],
        "taken": [Taken({0: -1}, [*WHOLE[:2], *SECOND])],
        "replayed": [*WHOLE, *SECOND],
        "read": SECOND,
    }
    return Seen([Stream(**{**usual, **given})])


def test_what_is_right_passes() -> None:
    check(seen(), 0)
    check(ended(), 0)


@pytest.mark.parametrize(
    ("wrong", "rule"),
    [
        ({"read": WHOLE[:2]}, "2 was stable"),
        ({"read": [*WHOLE[:2], Handed(2, b"x")]}, "2 was stable"),
        ({"read": WHOLE[1:]}, "the reader was handed 1 after -1"),
        ({"taken": [taken(-1, [WHOLE[0], WHOLE[2]])]}, "handed 2 after 0"),
        ({"taken": [taken(-1, WHOLE[1:])]}, "handed 1 after -1"),
        ({"taken": [taken(-1, WHOLE[:1]), taken(0, WHOLE[2:])]}, "handed 2 after 0"),
        ({"taken": [taken(-1, [Handed(0, b"x")])]}, "0 has two contents"),
        ({"replayed": [WHOLE[0], *WHOLE]}, "subscriber was handed 0 after 0"),
        ({"replayed": [WHOLE[0], WHOLE[2]]}, "subscriber was handed 2 after 0"),
        ({"replayed": [Handed(0, b"x")]}, "0 has two contents"),
        ({"conflicts": ["0: b'a', then b'b'"]}, "stable twice"),
        ({"told_of_ends": [ToldOfEnd(11.0, 1)]}, "told of an end, and nobody"),
        ({"lives": [Life(0), life(1, WHOLE[:2], 1.0, 10.0)], "sent": {}}, "sent in another life"),
    ],
)
def test_the_checker_finds_what_is_wrong(wrong: dict[str, Any], rule: str) -> None:
    with pytest.raises(Violated, match=rule):
        check(seen(**wrong), 0)


@pytest.mark.parametrize(
    ("wrong", "rule"),
    [
        ({"ends": [], "told_of_ends": []}, "epoch 5 began anew, and nobody had ended"),
        ({"ends": [], "read": WHOLE}, "nobody had ended"),
        ({"ends": [End("its owner", 15.0, 5, inf)], "told_of_ends": []}, "epoch 5 began anew"),
        ({"read": [*SECOND, Handed(2, b"c", 1)]}, "2 of the ended epoch 1 was read back"),
        ({"read": [*SECOND, Handed(2, b"c", 5)]}, "2 of epoch 5 was sent in another life"),
        ({"replayed": [*SECOND, *WHOLE]}, "the subscriber was handed 0 of an epoch that had ended"),
        ({"taken": [taken(-1, [*SECOND, WHOLE[0]])]}, "a receiver was handed 0 of an epoch that"),
        ({"taken": [taken(-1, SECOND[1:])]}, "handed 1 after -1"),
        ({"sent": {m.payload: Opened([1, 5]) for m in [*WHOLE, *SECOND]}}, "went on in the stream"),
        (
            {"ends": [End("an operator", 15.0, 5, 15.5, is_done=True), End("its owner", 11.0, 1)]},
            "an operator ended it, and it went on",
        ),
        (
            {"lives": [Life(0), life(1, WHOLE, 1.0, 13.0), life(5, SECOND, 14.0, 16.0)]},
            "messages were stable in a stream that an operator had ended before",
        ),
    ],
)
def test_the_checker_finds_what_is_wrong_about_ends(wrong: dict[str, Any], rule: str) -> None:
    with pytest.raises(Violated, match=rule):
        check(ended(**wrong), 0)


def let_go(first: int, **given: Any) -> Seen:
    """Return what is seen in a world that keeps two messages, and has let go of those before."""
    gone = [LetGo(0, first - 1, 12)] if first else []
    usual = {
        "taken": [Taken({1: -1}, WHOLE[first:], gone)],
        "replayed": WHOLE[first:],
        "skipped": gone,
        "read": WHOLE[first:],
        "read_gaps": gone,
    }
    told = seen(**{**usual, **given})
    told.circumstances = Circumstances(kept_messages=2)
    return told


def test_messages_that_retention_lets_go_need_not_be_read() -> None:
    check(let_go(0), 0)
    check(let_go(1), 0)


@pytest.mark.parametrize(
    ("wrong", "rule"),
    [
        (let_go(1, read_gaps=[]), "the reader was handed 1 after -1"),
        (let_go(1, skipped=[]), "the subscriber was handed 1 after -1"),
        (let_go(1, skipped=[LetGo(0, 0, -9)]), r"told that \[0, 0\] of -9 were let go"),
        (let_go(1, taken=[taken(-1, WHOLE[1:])]), "a receiver was handed 1 after -1"),
        (seen(skipped=[LetGo(0, 0, 12)]), r"told that \[0, 0\] of 12 were let go"),
    ],
)
def test_the_checker_finds_what_was_let_go_too_early(wrong: Seen, rule: str) -> None:
    with pytest.raises(Violated, match=rule):
        check(wrong, 0)


TAKEN_BACK = Withdrawn(SourceName("orders", 1), 1, 1, 2)


@pytest.mark.parametrize(
    ("live", "rule"),
    [
        ([WHOLE[0], Handed(1, b"x"), TAKEN_BACK, *WHOLE[1:]], "handed 1 of epoch 1 after it was"),
        ([WHOLE[0], Handed(1, b"x"), TAKEN_BACK, Handed(1, b"b", 2)], ""),
        ([WHOLE[0], Handed(1, b"x")], "two contents"),
        ([WHOLE[0], Handed(1, b"x", 2)], "1 as b'x'"),
        ([WHOLE[0], WHOLE[2]], "a live receiver was handed 2 after 0"),
        ([WHOLE[0], WHOLE[0]], "a live receiver was handed 0 after 0"),
    ],
)
def test_the_checker_finds_what_is_wrong_at_live_receivers(live: list[Any], rule: str) -> None:
    others = [Live({1: -1}, [WHOLE[0]]), Live({1: 0}, [*WHOLE[1:]])]
    told = seen(live=[*others, Live({1: -1}, live)])
    if not rule:
        check(told, 0)
        return
    with pytest.raises(Violated, match=rule):
        check(told, 0)


READ = [Handed(0, b"o 1 1"), Handed(1, b"o 1 2"), Handed(2, b"gone o 1 2"), Handed(3, b"o 1 6")]
ROWS = {b"1": Row(1, 3, b"o 1 6")}


@pytest.mark.parametrize(
    ("rows", "rule"),
    [
        ({"a": Rows(b"d", ROWS), "b": Rows(b"d", ROWS)}, ""),
        ({"a": Rows(b"d", ROWS), "b": Rows(b"e", ROWS)}, "other digests"),
        ({"a": Rows(b"d", {b"1": Row(1, 0, b"o 1 1")})}, "key b'1' at a is"),
        ({"a": Rows(b"d", {**ROWS, b"2": Row(1, 1, b"o 1 2")})}, "key b'2' at a is"),
        ({"a": Rows(b"d", {})}, "key b'1' at a is None"),
    ],
)
def test_the_checker_finds_rows_that_are_wrong(rows: dict[str, Rows], rule: str) -> None:
    if not rule:
        check_rows([Stream(read=READ)], rows, "rows")
        return
    with pytest.raises(Violated, match=rule):
        check_rows([Stream(read=READ)], rows, "rows")


def test_what_was_let_go_may_be_newer_than_what_was_read() -> None:
    other = Stream(
        session_id=2,
        read=[Handed(0, b"o 2 1", time_ns=1), Handed(3, b"o 2 4", time_ns=9)],
        read_gaps=[LetGo(1, 2, 3)],
    )
    early, late = Handed(0, b"o 1 2", time_ns=8), Handed(0, b"o 1 2", time_ns=10)
    rows = {b"4": Row(2, 3, b"o 2 4")}
    check_rows([Stream(read=[early]), other], {"a": Rows(b"d", rows)}, "its row was deleted")
    check_rows([Stream(), other], {"a": Rows(b"d", {**rows, b"1": Row(2, 1, b"o 2 6")})}, "rows")
    with pytest.raises(Violated, match="key b'2' at a is None"):
        check_rows([Stream(read=[late]), other], {"a": Rows(b"d", rows)}, "rows")


def test_a_source_that_was_silent_for_long_may_end() -> None:
    of_long_ago = [Life(0), life(1, WHOLE, 1.0, 10.0), life(5, SECOND, 14.0, 16.0)]
    silent = ended(ends=[], told_of_ends=[], lives=of_long_ago)
    silent.circumstances = Circumstances(lifetime=4.0)
    check(silent, 0)


def test_an_error_that_no_application_should_get_is_found() -> None:
    whole = seen()
    whole.failures.append("the source got Closed()")
    with pytest.raises(Violated, match="the source got"):
        check(whole, 0)
