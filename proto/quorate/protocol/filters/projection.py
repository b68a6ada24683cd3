"""Fields of JSON payloads that are kept, or left out: what is kept has the bytes that it had.

A payload becomes shorter, and never longer: what is left of it is some of its own bytes, in their
order. So numbers keep their digits, and a result needs no bound of its own.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any, Final

from quorate.protocol.errors import InvalidArgument
from quorate.protocol.filters.parse import DEPTH_MAX, LENGTH_MAX, Named, read_fields

_HELP = 'give a list such as ["id", "order.price"], or a text such as "-comment, -legs.notes"'

Branch = dict[str | int, "Branch | None"]
"""The next steps of paths; None: a path ends there, at all that is behind the step."""

_WHOLE: Final = None
_BLANK = re.compile(r"[ \t\n\r]*")
_COLON = re.compile(r"[ \t\n\r]*:[ \t\n\r]*")
_BEHIND = re.compile(r"[ \t\n\r]*([],}])[ \t\n\r]*")
_read = json.JSONDecoder().raw_decode


class Projection:
    """Fields of JSON payloads: only they are kept, or all others are."""

    __slots__ = ("_keeps", "_root", "text")

    def __init__(self, fields: str | Sequence[str]) -> None:
        """Take a list of fields, or a text with commas between them. - leaves a field out.

        Raises InvalidArgument.
        """
        named = _named(fields)
        left_out = {each.is_left_out for each in named}
        if len(left_out) > 1:
            raise InvalidArgument(
                "select",
                "it names fields to keep and fields to leave out; what is not kept is left out, "
                "so name only one kind",
            )
        self.text = fields if isinstance(fields, str) else ", ".join(fields)
        if len(self.text) > LENGTH_MAX:
            raise InvalidArgument("select", f"it has more than {LENGTH_MAX:,} characters")
        self._keeps = left_out == {False}
        self._root: Branch = {}
        for each in named:
            _add(self._root, each.path)

    def of(self, payload: bytes) -> bytes:
        """Return what is left of a payload. One that is no JSON object stays as it is."""
        try:
            text = payload.decode()
            begin = _skip(text, 0)
            if not text.startswith("{", begin):
                return payload
            left, end = self._object(text, begin, [self._root])
            if _skip(text, end) < len(text):
                return payload
        except (ValueError, RecursionError):
            return payload
        return left.encode()

    def keeps(self, path: tuple[str | int, ...]) -> bool:
        """Return whether a field is still there, at the same path, in each payload that has it."""
        branch = self._root
        for step in path:
            # Elements of an array that are left out let others move up.
            moves = self._keeps or any(type(other) is int for other in branch)
            if type(step) is int and moves:
                return False
            if step not in branch:
                return not self._keeps
            further = branch[step]
            if further is _WHOLE:
                return self._keeps
            branch = further
        return not self._keeps

    # Each of these reads one value of a text, and returns what is left of it, and where it ends.
    # They raise ValueError if the text is no JSON. `branches` has the steps that lead on from the
    # value. There are several if both an index and a name of each object lead to it.

    def _object(self, text: str, begin: int, branches: list[Branch]) -> tuple[str, int]:
        left: list[str] = []
        at = _skip(text, begin + 1)
        if text.startswith("}", at):
            return "{}", at + 1
        while True:
            name, end = _read(text, at)
            colon = _COLON.match(text, end)
            if type(name) is not str or colon is None:
                raise ValueError
            ahead = [branch[name] for branch in branches if name in branch]
            value, value_end = self._value(text, colon.end(), ahead)
            if value is not None:
                left.append(f"{text[at:end]}:{value}")
            is_last, at = _behind(text, value_end, "}")
            if is_last:
                return f"{{{','.join(left)}}}", at

    def _array(self, text: str, begin: int, branches: list[Branch]) -> tuple[str, int]:
        left: list[str] = []
        at = _skip(text, begin + 1)
        if text.startswith("]", at):
            return "[]", at + 1
        # A name of an array is that of each of its objects.
        by_name = [branch for branch in branches if any(type(step) is str for step in branch)]
        index = 0
        while True:
            ahead = [branch[index] for branch in branches if index in branch]
            if text.startswith("{", at):
                ahead += by_name
            value, end = self._value(text, at, ahead)
            if value is not None:
                left.append(value)
            index += 1
            is_last, at = _behind(text, end, "]")
            if is_last:
                return f"[{','.join(left)}]", at

    def _value(self, text: str, at: int, ahead: list[Any]) -> tuple[str | None, int]:
        """`ahead`: branches that lead into the value, or _WHOLE. None: nothing is left."""
        is_named = _WHOLE in ahead
        if ahead and not is_named:
            if text.startswith("{", at):
                return self._object(text, at, ahead)
            if text.startswith("[", at):
                return self._array(text, at, ahead)
        _, end = _read(text, at)
        return text[at:end] if is_named is self._keeps else None, end


def _named(fields: str | Sequence[str]) -> list[Named]:
    named = read_fields("select", fields, _HELP)
    if any(len(each.path) > DEPTH_MAX for each in named):
        raise InvalidArgument("select", f"a path in it has more than {DEPTH_MAX} steps")
    return named


def _add(branch: Branch, path: tuple[str | int, ...]) -> None:
    """Add a path, unless an earlier one ends on its way. Those behind its end are forgotten."""
    *way, last = path
    for step in way:
        further = branch.setdefault(step, {})
        if further is _WHOLE:
            return
        branch = further
    branch[last] = _WHOLE


def _skip(text: str, at: int) -> int:
    blank = _BLANK.match(text, at)
    assert blank is not None
    return blank.end()


def _behind(text: str, at: int, closing: str) -> tuple[bool, int]:
    """Return whether a value is the last, and where its object ends, or the next value begins."""
    found = _BEHIND.match(text, at)
    if found is None or found[1] not in (",", closing):
        raise ValueError
    if found[1] == closing:
        return True, found.end(1)
    return False, found.end()
