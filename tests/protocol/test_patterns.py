from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from functools import partial

import pytest
import re2
from tests.store.watchdog import slowness

from quorate.protocol.errors import InvalidArgument
from quorate.protocol.patterns import PATTERN_LENGTH_MAX, TopicPattern, pattern_of, topic_pattern


@pytest.mark.parametrize(
    ("pattern", "matched", "others"),
    [
        ("orders", ["orders"], ["order", "orders.eu", "xorders"]),
        (r"orders\..*", ["orders.eu", "orders."], ["orders"]),
        ("a|ab", ["a", "ab"], ["abc"]),
        ("(?i)trades", ["TRADES"], ["trade"]),
        (r"\pL+", ["éa"], ["é1"]),
        (".{2}", ["é😀"], ["é"]),
    ],
)
def test_a_pattern_matches_whole_topics(
    pattern: str, matched: list[str], others: list[str]
) -> None:
    compiled = topic_pattern(pattern)
    assert [topic for topic in (*matched, *others) if compiled.matches(topic)] == matched


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        ("(", r"'\(' is not a regular expression of RE2: missing \)"),
        ("a(?=b)", r"invalid perl operator: \(\?=\. RE2 has neither lookaround nor"),
        (r"(a)\1", r"invalid escape sequence: \\1\. RE2 has neither lookaround nor backreferences"),
        ("a" * (PATTERN_LENGTH_MAX + 1), "it is longer than 1,024 characters"),
        ("(.{30}){30}" * 20, "its repetitions ask for more than 1,000 copies"),
        (r"\pL" * 17, r"it has more than 16 classes such as \\pL"),
        (".{900}a", "pattern too large"),
    ],
)
def test_what_re2_refuses_is_said(pattern: str, said: str) -> None:
    with pytest.raises(InvalidArgument, match=said) as caught:
        topic_pattern(pattern)
    assert len(str(caught.value)) < 250


def test_topics_are_matched_literally() -> None:
    topics = ["a,b", "c.d", "e (f)|g", "ü\\"]
    compiled = topic_pattern(pattern_of(topics))
    assert all(map(compiled.matches, topics))
    assert not any(map(compiled.matches, ["a", "cxd", "e", "g"]))


HOSTILE = [
    "(a+)+",
    "(.*)*x",
    "((a?){30}){30}",
    "(.?){900}x",
    "([[:alpha:]]*){0,30}" * 30,
    r"(\w{2}a+\w+)*" * 70,
    "(.?.?)*" * 140,
    "[^a]{2}" * 146,
    r"(?i:\pL\pN)" * 8,
    "(" * 500 + "a" + ")*" * 500,
]


TRIES = 5


def compiled(pattern: str) -> TopicPattern | None:
    """Compile the pattern anew. Return None if it is refused."""
    re2.purge()  # it keeps what it compiled, with what it found
    try:
        return TopicPattern(pattern)
    except InvalidArgument:
        return None


def least_seconds(calls: Sequence[Callable[[], object]]) -> float:
    """Return the processor seconds of the quickest of these calls, 0 without any.

    What else the machine does makes some of them slower.
    """
    took = []
    for call in calls:
        began = time.thread_time()
        call()
        took.append(time.thread_time() - began)
    return min(took, default=0.0)


@pytest.mark.parametrize("pattern", HOSTILE)
def test_no_pattern_takes_longer_than_a_turn(pattern: str) -> None:
    """A store compiles a pattern, and matches a topic, in one turn of its event loop."""
    turn_seconds = 0.01 * slowness()
    assert least_seconds([lambda: compiled(pattern)] * TRIES) < turn_seconds
    fresh = [made for _ in range(TRIES) if (made := compiled(pattern)) is not None]
    for topic in ["a" * 254 + "!", "é" * 127, "😀" * 63, "ab" * 127]:
        assert least_seconds([partial(one.matches, topic) for one in fresh]) < turn_seconds


def test_a_backtracking_engine_would_need_for_ever() -> None:
    """`(a+)+` takes `re` twice as long with each letter. So a topic of 254 letters never ends."""
    began = time.thread_time()
    re.fullmatch("(a+)+", "a" * 18 + "!")
    slow = time.thread_time() - began
    began = time.thread_time()
    topic_pattern("(a+)+").matches("a" * 254 + "!")
    assert time.thread_time() - began < slow
