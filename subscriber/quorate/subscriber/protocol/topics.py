"""The topics of a subscription, and the one condition that holds for them. Pure.

Several topics with conditions of their own become one pattern and one condition. So they are one
subscription: their messages come in the order of the journal, and a pause holds for all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from quorate.protocol.errors import InvalidArgument, InvalidFilter
from quorate.protocol.filters.evaluate import Filter
from quorate.protocol.identity import check_topic
from quorate.protocol.patterns import (
    PATTERN_LENGTH_MAX,
    given_pattern,
    pattern_of,
    topic_pattern,
)

GivenTopics = str | Mapping[str, str | None]
"""One topic, or several, each with its condition; None: all its messages."""


@dataclass(frozen=True, slots=True)
class Topics:
    """The topics of a subscription."""

    topic: str
    """The one topic; empty: there is a pattern."""
    pattern: str
    selects: Callable[[str], bool]
    where: Filter | None
    """The condition for the messages of all topics; None: all of them."""


def read_topics(topic: GivenTopics | None, pattern: str | None, where: str | None) -> Topics:
    """Return the topics that an application named. Raises InvalidArgument, InvalidFilter."""
    if (topic is None) == (pattern is None):
        raise InvalidArgument("topic", "give either a topic or a topic_pattern")
    passes = None if where is None else Filter(where)
    if isinstance(topic, Mapping):
        return _several(topic, where)
    if topic is not None:
        return Topics(check_topic(topic), "", topic.__eq__, passes)
    assert pattern is not None
    return Topics("", pattern, given_pattern(pattern).matches, passes)


def _several(conditions: Mapping[str, str | None], where: str | None) -> Topics:
    if not conditions:
        raise InvalidArgument("topic", "an empty mapping names no topic; name one")
    pattern = pattern_of(map(check_topic, conditions))
    if len(pattern) > PATTERN_LENGTH_MAX:
        raise InvalidArgument(
            "topic",
            f"its {len(conditions):,} topics have {len(pattern):,} characters as a pattern, and "
            f"{PATTERN_LENGTH_MAX:,} are the most; name fewer, or give a topic_pattern",
        )
    for topic, condition in conditions.items():
        _check_condition(topic, condition)
    topic_pattern(pattern)
    return Topics("", pattern, conditions.__contains__, _composed(conditions, where))


def _check_condition(topic: str, condition: str | None) -> None:
    try:
        if condition is not None:
            Filter(condition)
    except InvalidFilter as error:
        detail = f"{error.detail}; it is the condition of the topic {topic!r}"
        raise InvalidFilter(error.position, detail) from None


def _composed(conditions: Mapping[str, str | None], where: str | None) -> Filter | None:
    """Return one condition: that of each topic for its messages, and `where` for all."""
    parts = [] if where is None else [f"({where})"]
    if any(condition is not None for condition in conditions.values()):
        of_topics = (_of_topic(topic, condition) for topic, condition in conditions.items())
        parts.append(f"({' OR '.join(of_topics)})")
    if not parts:
        return None
    try:
        return Filter(" AND ".join(parts))
    except InvalidFilter as error:
        raise InvalidArgument(
            "topic",
            f"the conditions of its {len(conditions):,} topics are too much for one filter: "
            f"{error.detail}; shorten them, or open several subscriptions",
        ) from None


def _of_topic(topic: str, condition: str | None) -> str:
    named = "$topic = '{}'".format(topic.replace("'", "''"))
    return named if condition is None else f"{named} AND ({condition})"
