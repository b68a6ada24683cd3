"""Patterns of topics: regular expressions of RE2 that must match a whole topic.

RE2 matches in time linear in the topic, so a pattern from outside cannot stop a store. This module
is the only place that compiles a pattern which a user or a client wrote.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable

import re2

from quorate.protocol.errors import InvalidArgument

PATTERN_LENGTH_MAX = 1024
"""Characters of the longest pattern."""
REPETITIONS_MAX = 1000
"""The most copies that all counted repetitions of a pattern, such as `{9}`, may ask for."""
UNICODE_CLASSES_MAX = 16
"""The most classes such as `\\pL` in a pattern. RE2 takes a third of a millisecond for each."""

_MEMORY_MAX = 64 * 1024
"""Bytes that RE2 may use for a pattern. It bounds the time that one match takes, to some 7 ms."""
_SHOWN_MAX = 60
_CACHED = 1024

_COUNTED = re.compile(r"\{(\d{1,9})(?:,(\d{0,9}))?\}")
_UNICODE_CLASS = re.compile(r"\\[pP]")


class TopicPattern:
    """A compiled pattern."""

    __slots__ = ("_regexp", "text")

    def __init__(self, text: str) -> None:
        """Compile the pattern. Raises InvalidArgument, which names what RE2 refuses."""
        _check_size(text)
        try:
            self._regexp = re2.compile(text, _options())
        except re2.error as error:
            raise _refused(text, _cause(error)) from None
        self.text = text

    def matches(self, topic: str) -> bool:
        """Return whether the pattern matches the whole topic."""
        return self._regexp.fullmatch(topic) is not None

    def is_found_in(self, text: str) -> bool:
        """Return whether the pattern matches some part of a text."""
        return self._regexp.search(_readable(text)) is not None

    def replaced(self, text: str, new: str, most: int) -> str | None:
        """Return the text with another one in the place of each match.

        None: it would have more than `most` characters.
        """
        text = _readable(text)
        parts: list[str] = []
        size = at = 0
        for match in self._regexp.finditer(text):
            parts += (text[at : match.start()], new)
            size += match.start() - at + len(new)
            at = match.end()
            if size > most:
                return None
        return "".join([*parts, text[at:]]) if size + len(text) - at <= most else None


@functools.lru_cache(maxsize=_CACHED)
def topic_pattern(text: str) -> TopicPattern:
    """Return the compiled pattern. Raises InvalidArgument, which names what RE2 refuses."""
    return TopicPattern(text)


def given_pattern(text: object) -> TopicPattern:
    """Return the compiled pattern that an application gave for the topics that it wants.

    Raises InvalidArgument, also for an empty one, which no topic matches.
    """
    if not isinstance(text, str):
        raise InvalidArgument("topic pattern", f"{text!r} is not text")
    if not text:
        raise InvalidArgument("topic pattern", "is empty; '.*' matches every topic")
    return topic_pattern(text)


def pattern_of(topics: Iterable[str]) -> str:
    """Return a pattern that matches these topics and no other."""
    return "|".join(map(re2.escape, topics))


def _readable(text: str) -> str:
    """Return a text that RE2 can read: JSON may have halves of characters, which become a `?`."""
    return text if text.isascii() else text.encode(errors="replace").decode()


def _options() -> re2.Options:
    options = re2.Options()
    options.log_errors = False
    options.never_capture = True
    options.max_mem = _MEMORY_MAX
    return options


def _check_size(text: str) -> None:
    """Raise InvalidArgument if RE2 might take long to compile the pattern."""
    if len(text) > PATTERN_LENGTH_MAX:
        raise _refused(text, f"it is longer than {PATTERN_LENGTH_MAX:,} characters")
    copies = sum(max(int(each[1]), int(each[2] or 0)) for each in _COUNTED.finditer(text))
    if copies > REPETITIONS_MAX:
        raise _refused(text, f"its repetitions ask for more than {REPETITIONS_MAX:,} copies")
    if len(_UNICODE_CLASS.findall(text)) > UNICODE_CLASSES_MAX:
        raise _refused(text, rf"it has more than {UNICODE_CLASSES_MAX} classes such as \pL")


def _cause(error: Exception) -> str:
    """Return RE2's own words for what it refuses."""
    said = error.args[0] if error.args else ""
    cause = said.decode(errors="replace") if isinstance(said, bytes) else str(said)
    if "perl operator" in cause or "escape sequence" in cause:
        cause += ". RE2 has neither lookaround nor backreferences"
    return cause


def _refused(text: str, cause: str) -> InvalidArgument:
    shown = text if len(text) <= _SHOWN_MAX else f"{text[:_SHOWN_MAX]}…"
    return InvalidArgument(
        "topic pattern", f"{shown!r} is not a regular expression of RE2: {cause}"
    )
