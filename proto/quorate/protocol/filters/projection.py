"""Fields of payloads that are kept, or left out: what is kept has the bytes that it had.

A payload becomes shorter, and never longer: what is left of it is some of its own bytes, in their
order. So numbers keep their digits, and a result needs no bound of its own. How a payload is cut is
in quorate.protocol.filters.cut_json and cut_msgpack.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from quorate.protocol.errors import InvalidArgument
from quorate.protocol.filters.branches import WHOLE, Branch
from quorate.protocol.filters.cut_json import left_of_json
from quorate.protocol.filters.cut_msgpack import left_of_msgpack
from quorate.protocol.filters.parse import DEPTH_MAX, LENGTH_MAX, Named, read_fields
from quorate.protocol.payloads import UNDECODABLE, PayloadFormat

_HELP = 'give a list such as ["id", "order.price"], or a text such as "-comment, -legs.notes"'

_LEFT_OF: Mapping[PayloadFormat, Callable[[bytes, Branch, bool], bytes]] = {
    PayloadFormat.JSON: left_of_json,
    PayloadFormat.MSGPACK: left_of_msgpack,
}


class Projection:
    """Fields of payloads: only they are kept, or all others are."""

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

    def of(self, payload: bytes, form: PayloadFormat = PayloadFormat.JSON) -> bytes:
        """Return what is left of a payload. One that is no object of its format stays as it is."""
        try:
            return _LEFT_OF[form](payload, self._root, self._keeps)
        except UNDECODABLE:
            return payload

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
            if further is WHOLE:
                return self._keeps
            branch = further
        return not self._keeps


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
        if further is WHOLE:
            return
        branch = further
    branch[last] = WHOLE
