"""The rules of access: which identity may do what with which topics.

A caller has names, from its certificate or its token. Without a rule that permits a call, the call
is refused. Which call needs which verb is not known here, and no name is checked.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeVar

from quorate.protocol.errors import AccessDenied
from quorate.protocol.patterns import topic_pattern

ANYBODY = "*"
"""The name in a rule that stands for every caller that has a name."""

Number = TypeVar("Number", int, float)
Names = frozenset[str]
"""The names of one caller; empty: it has none, and nothing is permitted to it."""


class Verb(enum.StrEnum):
    """A kind of use of topics."""

    SEND = "send"
    RECEIVE = "receive"
    SUBSCRIBE = "subscribe"
    QUERY = "query"
    DELETE = "delete"
    CONSUME = "consume"
    """For queues: the subject is the name of the queue."""
    OPERATE = "operate"
    REPLICATE = "replicate"


@dataclass(frozen=True, slots=True)
class Subject:
    """A topic, or a pattern of topics, that a call is about."""

    text: str
    is_pattern: bool = False


EVERYTHING = Subject("", is_pattern=True)
"""All topics."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How much an identity may use of a store at a time. 0: as much as it likes."""

    connections: int = 0
    """Connections on which it has calls under way."""
    subscriptions: int = 0
    bytes_per_second: float = 0.0
    """Bytes that it sends in streams, and is sent."""


@dataclass(frozen=True, slots=True)
class AccessRule:
    """Identities that may do something with topics."""

    identities: frozenset[str]
    """The names of the callers, or ANYBODY."""
    verbs: frozenset[Verb]
    topics: tuple[str, ...] = ()
    """Patterns, of which one must match the whole topic; empty: all topics."""
    limits: Limits = Limits()
    """The limits of each of the identities. Of several rules the tightest limit counts."""

    def __post_init__(self) -> None:
        """Check the patterns. Raises InvalidArgument."""
        for pattern in self.topics:
            topic_pattern(pattern)

    def is_about(self, names: Names) -> bool:
        """Return whether the rule names the caller with these names."""
        return bool(names) and (ANYBODY in self.identities or not self.identities.isdisjoint(names))

    def permits(self, names: Names, verbs: Iterable[Verb], subject: Subject) -> bool:
        """Return whether the caller with these names may do one of these with the subject."""
        if self.verbs.isdisjoint(verbs) or not self.is_about(names):
            return False
        if not self.topics:
            return True
        if subject.is_pattern:
            # Whether one pattern covers another one is hard to tell: only the same one is sure to.
            return subject.text in self.topics
        return any(topic_pattern(pattern).matches(subject.text) for pattern in self.topics)


EVERY_VERB = AccessRule(frozenset({ANYBODY}), frozenset(Verb))
"""The rule where names are asked for, but no rule is given: who has a name may do everything."""


class Access:
    """The rules of one end. A call that none of them permits is denied."""

    def __init__(self, rules: Iterable[AccessRule]) -> None:
        """Take the rules. Their order does not matter."""
        self._rules = tuple(rules)

    def check(self, names: Names, verbs: tuple[Verb, ...], subjects: Iterable[Subject]) -> None:
        """Raise AccessDenied unless the caller may do one of these with each of the subjects."""
        for subject in subjects:
            if not any(rule.permits(names, verbs, subject) for rule in self._rules):
                raise AccessDenied(", ".join(sorted(names)), verbs[0].value, subject.text)

    def limits(self, names: Names) -> Limits:
        """Return the limits of the caller with these names."""
        found = [rule.limits for rule in self._rules if rule.is_about(names)]
        return Limits(
            _tightest(each.connections for each in found),
            _tightest(each.subscriptions for each in found),
            _tightest(each.bytes_per_second for each in found),
        )


def _tightest(limits: Iterable[Number]) -> Number:
    return min((limit for limit in limits if limit), default=0)
