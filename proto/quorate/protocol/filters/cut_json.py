"""Fields of a payload in JSON, cut out of its text."""

from __future__ import annotations

import json
import re
from typing import Any

from quorate.protocol.filters.branches import WHOLE, Branch, behind, by_name

_BLANK = re.compile(r"[ \t\n\r]*")
_COLON = re.compile(r"[ \t\n\r]*:[ \t\n\r]*")
_BEHIND = re.compile(r"[ \t\n\r]*([],}])[ \t\n\r]*")
_read = json.JSONDecoder().raw_decode


def left_of_json(payload: bytes, root: Branch, keeps: bool) -> bytes:
    """Return what is left of an object in JSON.

    keeps: whether the paths name what is kept, not what is left out. Raises one of UNDECODABLE.
    """
    text = payload.decode()
    begin = _skip(text, 0)
    if not text.startswith("{", begin):
        raise ValueError
    left, end = _Cutting(text, keeps).object(begin, [root])
    if _skip(text, end) < len(text):
        raise ValueError
    return left.encode()


class _Cutting:
    """The cutting of one text.

    Each method reads one value, and returns what is left of it, and where it ends. It raises
    ValueError if the text is no JSON. `branches` has the steps that lead on from the value. There
    are several if both an index and a name of each object lead to it.
    """

    def __init__(self, text: str, keeps: bool) -> None:
        self._text = text
        self._keeps = keeps

    def object(self, begin: int, branches: list[Branch]) -> tuple[str, int]:
        text = self._text
        left: list[str] = []
        at = _skip(text, begin + 1)
        if text.startswith("}", at):
            return "{}", at + 1
        while True:
            name, end = _read(text, at)
            colon = _COLON.match(text, end)
            if type(name) is not str or colon is None:
                raise ValueError
            ahead = behind(branches, name)
            value, value_end = self._value(colon.end(), ahead)
            if value is not None:
                left.append(f"{text[at:end]}:{value}")
            is_last, at = _next(text, value_end, "}")
            if is_last:
                return f"{{{','.join(left)}}}", at

    def _array(self, begin: int, branches: list[Branch]) -> tuple[str, int]:
        text = self._text
        left: list[str] = []
        at = _skip(text, begin + 1)
        if text.startswith("]", at):
            return "[]", at + 1
        named = by_name(branches)
        index = 0
        while True:
            ahead = behind(branches, index)
            if text.startswith("{", at):
                ahead += named
            value, end = self._value(at, ahead)
            if value is not None:
                left.append(value)
            index += 1
            is_last, at = _next(text, end, "]")
            if is_last:
                return f"[{','.join(left)}]", at

    def _value(self, at: int, ahead: list[Any]) -> tuple[str | None, int]:
        """`ahead`: branches that lead into the value, or WHOLE. None: nothing is left."""
        text = self._text
        is_named = WHOLE in ahead
        if ahead and not is_named:
            if text.startswith("{", at):
                return self.object(at, ahead)
            if text.startswith("[", at):
                return self._array(at, ahead)
        _, end = _read(text, at)
        return text[at:end] if is_named is self._keeps else None, end


def _skip(text: str, at: int) -> int:
    blank = _BLANK.match(text, at)
    assert blank is not None
    return blank.end()


def _next(text: str, at: int, closing: str) -> tuple[bool, int]:
    """Return whether a value is the last, and where its object ends, or the next value begins."""
    found = _BEHIND.match(text, at)
    if found is None or found[1] not in (",", closing):
        raise ValueError
    if found[1] == closing:
        return True, found.end(1)
    return False, found.end()
