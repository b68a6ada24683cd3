"""The settings of a queue, and the names that follow from its own. No I/O."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import permutations
from math import inf

from quorate.protocol.errors import InvalidArgument
from quorate.protocol.filters.evaluate import Filter
from quorate.protocol.identity import SourceName, check_topic
from quorate.protocol.patterns import topic_pattern

_STREAMS = "quorate.queue."
"""The beginning of the topic of each queue's own stream."""
_NAME_LENGTH_MAX = 200
MAX_BACKLOG_MOST = 10_000
"""The most messages that a consumer may have at a time."""
DELAY_SECONDS_MAX = 30 * 86_400.0
"""The longest delay, in seconds, after which a message is handed out again."""
REASON_LENGTH_MAX = 200
"""The most characters of a reason that are kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueSettings:
    """The settings of one queue. Raises InvalidArgument."""

    name: str
    topics: tuple[str, ...] = ()
    """The topics whose messages the queue hands out, by name."""
    topic_pattern: str | None = None
    """The pattern of these topics, in the place of their names; later ones are among them, too."""
    where: str | None = None
    """A condition that its messages meet; None: all do."""
    lease_seconds: float = 60.0
    """How long a consumer has a message for itself."""
    tries: int = 5
    """How often a message is handed out, at most, before it becomes a dead letter."""
    dead_letters: str | None = None
    """The topic of dead letters; None: they are only counted, and logged."""
    by_key: bool = False
    """Whether the messages of one key are handed out in their order, one at a time."""
    window_messages: int = 20_000
    """Messages that are not settled, above which the dispatcher reads no further."""
    window_bytes: int = 64 * 1024 * 1024

    def __post_init__(self) -> None:
        check_queue(self.name)
        self._check_topics()
        if self.where is not None:
            Filter(self.where)
        if not 0 < self.lease_seconds < inf:
            raise InvalidArgument("lease_seconds", f"{self.lease_seconds} is not above 0")
        if self.tries < 1:
            raise InvalidArgument("tries", f"{self.tries} is not at least 1")
        if self.dead_letters is not None:
            self._check_dead_letters(self.dead_letters)

    def _check_topics(self) -> None:
        if bool(self.topics) == (self.topic_pattern is not None):
            raise InvalidArgument("topics", "name either topics or a topic_pattern")
        for topic in self.topics:
            check_topic(topic)
            if topic.startswith(_STREAMS):
                raise InvalidArgument("topics", f"{topic!r} is the stream of a queue")
        if len(set(self.topics)) < len(self.topics):
            raise InvalidArgument("topics", "names a topic twice")
        if self.has_topic(self.stream.topic):
            raise InvalidArgument(
                "topic_pattern",
                f"{self.topic_pattern!r} matches {self.stream.topic!r}, the queue's own stream; "
                "narrow it, for example to 'orders[.].*'",
            )

    def _check_dead_letters(self, topic: str) -> None:
        check_topic(topic)
        if self.has_topic(topic):
            raise InvalidArgument(
                "dead_letters", f"{topic!r} is a topic of the queue: dead letters would come back"
            )
        if topic.startswith(_STREAMS):
            raise InvalidArgument("dead_letters", f"{topic!r} is that of a queue")

    def has_topic(self, topic: str) -> bool:
        """Return whether the queue hands out the messages of a topic."""
        if self.topic_pattern is not None:
            return topic_pattern(self.topic_pattern).matches(topic)
        return topic in self.topics

    @property
    def stream(self) -> SourceName:
        """The source of the queue's own stream."""
        return SourceName(_STREAMS + self.name, 1)

    @property
    def dead_letters_session(self) -> int:
        """The session ID of the source of the queue's dead letters."""
        digest = hashlib.sha256(f"dead letters of {self.name}".encode()).digest()
        return int.from_bytes(digest[:8], "big") >> 1 or 1


def check_queue(name: str) -> str:
    """Return the name of a queue unchanged. Raises InvalidArgument."""
    is_text = isinstance(name, str)
    if not is_text or not re.fullmatch(r"[\w.:-]+", name) or len(name) > _NAME_LENGTH_MAX:
        raise InvalidArgument(
            "queue",
            f"{name!r} is no name: use letters, digits and _ . : -, {_NAME_LENGTH_MAX} at most",
        )
    return name


def check_consumer(name: str) -> str:
    """Return the name of a consumer unchanged. Raises InvalidArgument."""
    is_text = isinstance(name, str)
    if not is_text or not name or not name.isprintable() or len(name) > _NAME_LENGTH_MAX:
        raise InvalidArgument(
            "name",
            f"{name!r} is no name of a consumer: use printable characters, {_NAME_LENGTH_MAX} at "
            "most",
        )
    return name


def check_distinct_queues(queues: Sequence[QueueSettings]) -> None:
    """Raise InvalidArgument if two queues have one name, or one has the stream of another."""
    names = [each.name for each in queues]
    for name in names:
        if names.count(name) > 1:
            raise InvalidArgument("queue", f"{name!r} is there twice; give each queue its own name")
    for queue, other in permutations(queues, 2):
        if queue.has_topic(other.stream.topic):
            raise InvalidArgument(
                "topic_pattern",
                f"{queue.topic_pattern!r} matches {other.stream.topic!r}, the stream of the queue "
                f"{other.name!r}; narrow it",
            )
