"""The patterns of filters: LIKE of SQL, and regular expressions, as tests of a text."""

from __future__ import annotations

from collections.abc import Callable

import re2

from quorate.protocol.errors import InvalidArgument, InvalidFilter
from quorate.protocol.filters.values import TEXT_LENGTH_MAX
from quorate.protocol.patterns import TopicPattern


def like(pattern: str, escape: str | None) -> Callable[[str], bool]:
    """Return the test whether a text fits a pattern of LIKE. Raises InvalidFilter."""
    pieces = _pieces(pattern, escape)
    return _simple(pieces) or matches(_as_regexp(pieces))


def _pieces(pattern: str, escape: str | None) -> list[str | None]:
    """Return the pattern as texts, `_` as an empty text and `%` as None."""
    pieces: list[str | None] = []
    characters = iter(pattern)
    gathered = ""
    for character in characters:
        if character == escape:
            following = next(characters, None)
            if following is None:
                raise InvalidFilter(0, f"the pattern {pattern!r} ends with its escape")
            gathered += following
        elif character in "%_":
            if gathered:
                pieces.append(gathered)
            pieces.append(None if character == "%" else "")
            gathered = ""
        else:
            gathered += character
    if gathered:
        pieces.append(gathered)
    return pieces


def _simple(pieces: list[str | None]) -> Callable[[str], bool] | None:
    """Return a quick test for `text`, `text%`, `%text` and `%text%`; None for other patterns."""
    match pieces:
        case [str(text)] if text:
            return text.__eq__
        case [str(text), None] if text:
            return lambda found: found.startswith(text)
        case [None, str(text)] if text:
            return lambda found: found.endswith(text)
        case [None, str(text), None] if text:
            return lambda found: text in found
    return None


def _as_regexp(pieces: list[str | None]) -> str:
    parts = (".*" if piece is None else re2.escape(piece) or "." for piece in pieces)
    return rf"(?s)\A{''.join(parts)}\z"


def matches(pattern: str) -> Callable[[str], bool]:
    """Return the test whether a regular expression of RE2 is found in a text.

    Raises InvalidFilter.
    """
    return _compiled(pattern).is_found_in


def replaced(pattern: str, new: str) -> Callable[[str], str | None]:
    """Return the function that puts a text in the place of each match in another text.

    None: the result is too long. Raises InvalidFilter.
    """
    compiled = _compiled(pattern)
    return lambda found: compiled.replaced(found, new, TEXT_LENGTH_MAX)


def _compiled(pattern: str) -> TopicPattern:
    try:
        return TopicPattern(pattern)
    except InvalidArgument as error:
        raise InvalidFilter(0, error.detail) from None
