"""The meaning of a filter: a tree becomes one function of messages.

The tree is walked once, when the filter is made. Each node becomes a function of several messages,
which returns the value of each of them. So Python's own loops run through the messages, and what a
node costs is spread over all of them. AND and OR leave out the messages that are decided already.

Nothing here raises for what a message has. How payloads become documents is the caller's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Protocol

from quorate.protocol.errors import InvalidArgument, InvalidFilter
from quorate.protocol.filters import syntax
from quorate.protocol.filters.functions import FUNCTIONS, MAKE_LONGER
from quorate.protocol.filters.parse import parse
from quorate.protocol.filters.patterns import like, matches, replaced
from quorate.protocol.filters.syntax import About, Affix, Node
from quorate.protocol.filters.values import (
    COMPARISONS,
    Truth,
    Value,
    any_of,
    arithmetic,
    compare,
    kind_of,
    negated,
    number,
    single,
)

Rows = Sequence[int]
"""The places of some messages, ascending."""

_ROWS_AT_ONCE = 256
"""The messages that a filter looks at in one go: other threads wait meanwhile."""

_LONG_TEXTS_AT_ONCE = 64
"""The texts that a filter makes in one go, if each may have `values.TEXT_LENGTH_MAX` characters."""


class Messages(Protocol):
    """Messages as filters look at them. A filter asks only for the parts that it needs."""

    def facts(self, about: About, rows: Rows) -> list[Value]:
        """Return a fact of each of these messages besides its payload.

        The types are those of `About`. A key that is no text is None.
        """

    def properties(self, name: str, rows: Rows) -> list[str | None]:
        """Return a property of each of these messages; None: it lacks it, or it is no text."""

    def documents(self, rows: Rows) -> list[Any]:
        """Return the decoded payload of each; None: it is none that can be decoded."""


Evaluate = Callable[[Messages, Rows], list[Value]]


class Filter:
    """A filter, ready for use. It is true, false or NULL of a message; only true passes."""

    __slots__ = (
        "_evaluate", "_rows_at_once", "members", "needs_document", "needs_payloads", "text",
        "undecoded",
    )  # fmt: skip

    def __init__(self, text: str) -> None:
        """Parse the text. Raises InvalidFilter, which says where and what was expected."""
        if not isinstance(text, str):
            raise InvalidArgument("where", f"{text!r} is not text")
        self.text = text
        tree = parse(text)
        nodes = list(_nodes(tree))
        paths = [node.path for node in nodes if isinstance(node, syntax.Field)]
        self.needs_document = bool(paths)
        """Whether it looks into payloads, so that they have to be decoded."""
        self.needs_payloads = self.needs_document or syntax.MessageField(About.SIZE) in nodes
        """Whether it looks at payloads, into them or at their sizes."""
        self.members = members_of(paths)
        """The names of members that it looks at, of a payload that is an object."""
        self.undecoded = 0
        """How many payloads so far are not of their format, of those that it looked into."""
        self._evaluate = _function(tree)
        long_texts = sum(map(_makes_longer, nodes))
        self._rows_at_once = max(
            1, _LONG_TEXTS_AT_ONCE // long_texts if long_texts else _ROWS_AT_ONCE
        )

    def passing(self, messages: Messages, rows: Rows) -> list[int]:
        """Return the places of those of these messages of which it is true."""
        truths = self.truths(messages, rows)
        return [row for row, truth in zip(rows, truths, strict=True) if truth is True]

    def truths(self, messages: Messages, rows: Rows) -> list[Truth]:
        """Return whether it is true, false or NULL of each of these messages."""
        truths: list[Truth] = []
        for at in range(0, len(rows), self._rows_at_once):
            truths += self._truths(messages, rows[at : at + self._rows_at_once])
        return truths

    def _truths(self, messages: Messages, rows: Rows) -> list[Truth]:
        try:
            values = self._evaluate(messages, rows)
        except RecursionError:  # arrays in arrays, some hundred levels deep
            if len(rows) == 1:
                return [None]
            return [truth for row in rows for truth in self._truths(messages, [row])]
        return [value if value is True or value is False else None for value in values]


def members_of(paths: Iterable[tuple[str | int, ...]]) -> frozenset[str]:
    """Return the names of the members of an object that these fields are in."""
    return frozenset(path[0] for path in paths if isinstance(path[0], str))


def field_of(text: str) -> tuple[syntax.Field | syntax.MessageField | syntax.Property, Evaluate]:
    """Return the field that a text names, and the function that reads it. Raises InvalidFilter."""
    tree = parse(text)
    if not isinstance(tree, syntax.Field | syntax.MessageField | syntax.Property):
        raise InvalidFilter(0, "it is an expression, not the name of a field")
    return tree, _function(tree)


def _nodes(node: Node) -> Iterator[Node]:
    """Yield all nodes of a tree."""
    yield node
    for part in (getattr(node, name) for name in node.__slots__):
        for each in part if isinstance(part, tuple) else (part,):
            if hasattr(each, "__slots__") and isinstance(each, Node):
                yield from _nodes(each)


def _makes_longer(node: Node) -> bool:
    """Return whether a node makes texts that are longer than those that it is given."""
    return isinstance(node, syntax.Replaced) or (
        isinstance(node, syntax.Call) and node.name in MAKE_LONGER
    )


def _function(node: Node) -> Evaluate:
    return _FUNCTIONS[type(node)](node)


def _literal(node: syntax.Literal) -> Evaluate:
    value = node.value
    return lambda _, rows: [value] * len(rows)


def _field(node: syntax.Field) -> Evaluate:
    if len(node.path) == 1:
        name = node.path[0]

        def of_objects(messages: Messages, rows: Rows) -> list[Value]:
            return [
                document.get(name) if type(document) is dict else None
                for document in messages.documents(rows)
            ]

        return of_objects

    def of_path(messages: Messages, rows: Rows) -> list[Value]:
        return [value_at(document, node.path) for document in messages.documents(rows)]

    return of_path


def value_at(value: Value, path: tuple[str | int, ...]) -> Value:
    """Return the value of a field; None: it is missing.

    path: names of objects' fields, and indexes of arrays.
    """
    for position, step in enumerate(path):
        if type(step) is int:
            if type(value) is not list or step >= len(value):
                return None
            value = value[step]
        elif type(value) is dict:
            value = value.get(step)
        elif type(value) is list:
            # A name of an array is that of each of its objects.
            return [value_at(each, path[position:]) for each in value if type(each) is dict] or None
        else:
            return None
    return value


def _message_field(node: syntax.MessageField) -> Evaluate:
    about = node.about
    return lambda messages, rows: messages.facts(about, rows)


def _property(node: syntax.Property) -> Evaluate:
    name = node.name
    return lambda messages, rows: list(messages.properties(name, rows))


def _of_each(compute: Callable[..., Value], *parts: Node) -> Evaluate:
    """Compute from the values of these nodes, message by message."""
    functions = [_function(part) for part in parts]
    return lambda messages, rows: list(
        map(compute, *(function(messages, rows) for function in functions))
    )


def _arithmetic(node: syntax.Arithmetic) -> Evaluate:
    return _of_each(arithmetic(node.operator), node.left, node.right)


def _negative(node: syntax.Negative) -> Evaluate:
    def negative(value: Value) -> Value:
        found = number(single(value))
        return None if found is None else -found

    return _of_each(negative, node.value)


def _comparison(node: syntax.Comparison) -> Evaluate:
    holds = COMPARISONS[node.operator]
    if isinstance(node.right, syntax.Literal) and node.right.value is not None:
        return _compared_with(_function(node.left), holds, node.right.value)
    return _of_each(partial(compare, holds), node.left, node.right)


def _compared_with(left: Evaluate, holds: Callable[[Any, Any], bool], right: Value) -> Evaluate:
    """Compare with a known value: the common case, in which kinds need no second look."""
    kind = kind_of(right)
    kinds = (int, float) if kind is int else (kind,)

    def compared(messages: Messages, rows: Rows) -> list[Value]:
        return [
            holds(value, right)
            if type(value) in kinds and value == value
            else compare(holds, value, right)
            for value in left(messages, rows)
        ]

    return compared


def _between(node: syntax.Between) -> Evaluate:
    at_least, at_most = COMPARISONS[">="], COMPARISONS["<="]

    def between(value: Value, low: Value, high: Value) -> Truth:
        if type(value) is list:
            return any_of(_both(at_least, at_most, each, low, high) for each in value)
        return _both(at_least, at_most, value, low, high)

    return _of_each(between, node.value, node.low, node.high)


def _both(at_least: Any, at_most: Any, value: Value, low: Value, high: Value) -> Truth:
    above, below = compare(at_least, value, low), compare(at_most, value, high)
    if above is False or below is False:
        return False
    return True if above and below else None


def _one_of(node: syntax.OneOf) -> Evaluate:
    equal = COMPARISONS["="]
    if all(isinstance(each, syntax.Literal) and each.value is not None for each in node.options):
        options = [each.value for each in node.options]  # type: ignore[union-attr]
        return _of_each(_is_one_of_known(options), node.value)

    def one_of(value: Value, *options: Value) -> Truth:
        return any_of(compare(equal, value, option) for option in options)

    return _of_each(one_of, node.value, *node.options)


def _is_one_of_known(options: list[Any]) -> Callable[[Value], Truth]:
    equal = COMPARISONS["="]
    by_kind: dict[Any, set[Any]] = {}
    for option in options:
        by_kind.setdefault(kind_of(option), set()).add(option)
    kinds = set(by_kind)

    def one_of(value: Value) -> Truth:
        kind = kind_of(value)
        if kind in by_kind and kind is not list and value == value:
            if value in by_kind[kind]:
                return True
            # An option of another kind is neither equal nor different.
            return False if len(kinds) == 1 else None
        return any_of(compare(equal, value, option) for option in options)

    return one_of


def _has_affix(node: syntax.HasAffix) -> Evaluate:
    has = str.startswith if node.affix is Affix.BEGINS else str.endswith

    def tested(found: Value, option: Value) -> Truth:
        if type(found) is list:
            return any_of(tested(each, option) for each in found)
        return has(found, option) if type(found) is str and type(option) is str else None

    def has_affix(value: Value, *options: Value) -> Truth:
        return any_of(tested(value, option) for option in options)

    return _of_each(has_affix, node.value, *node.options)


def _tested(test: Callable[[str], bool], value: Node) -> Evaluate:
    """Test a text, or any text of an array."""

    def tested(found: Value) -> Truth:
        if type(found) is str:
            return test(found)
        return any_of(map(tested, found)) if type(found) is list else None

    return _of_each(tested, value)


def _like(node: syntax.Like) -> Evaluate:
    return _tested(like(node.pattern, node.escape), node.value)


def _matches(node: syntax.Matches) -> Evaluate:
    return _tested(matches(node.pattern), node.value)


def _is_null(node: syntax.IsNull) -> Evaluate:
    value = _function(node.value)
    return lambda messages, rows: [found is None for found in value(messages, rows)]


def _is_nan(node: syntax.IsNan) -> Evaluate:
    def is_nan(value: Value) -> Truth:
        found = single(value)
        return type(found) is float and found != found

    return _of_each(is_nan, node.value)


def _replaced(node: syntax.Replaced) -> Evaluate:
    replace = replaced(node.pattern, node.new)

    def with_others(value: Value) -> Value:
        found = single(value)
        return replace(found) if type(found) is str else None

    return _of_each(with_others, node.value)


def _not(node: syntax.Not) -> Evaluate:
    return _of_each(negated, node.value)


def _all_of(node: syntax.AllOf) -> Evaluate:
    parts = [_function(each) for each in node.parts]

    def all_of(messages: Messages, rows: Rows) -> list[Value]:
        found: list[Value] = [True] * len(rows)
        for part in parts:
            places, left = _left(found, False, rows)
            for place, truth in zip(places, part(messages, left), strict=True):
                if truth is False:
                    found[place] = False
                elif truth is not True:
                    found[place] = None
        return found

    return all_of


def _any_of(node: syntax.AnyOf) -> Evaluate:
    parts = [_function(each) for each in node.parts]

    def any_true(messages: Messages, rows: Rows) -> list[Value]:
        found: list[Value] = [False] * len(rows)
        for part in parts:
            places, left = _left(found, True, rows)
            for place, truth in zip(places, part(messages, left), strict=True):
                if truth is True:
                    found[place] = True
                elif truth is None:
                    found[place] = None
        return found

    return any_true


def _left(found: Sequence[Value], decided: bool, rows: Rows) -> tuple[Rows, Rows]:
    """Return the messages that are not decided yet: where their truths are, and their places."""
    if decided not in found:
        return range(len(rows)), rows
    places = [place for place, truth in enumerate(found) if truth is not decided]
    return places, [rows[place] for place in places]


def _call(node: syntax.Call) -> Evaluate:
    compute = FUNCTIONS[node.name].compute
    return _of_each(lambda *arguments: compute(arguments), *node.arguments)


_FUNCTIONS: dict[type, Callable[[Any], Evaluate]] = {
    syntax.Literal: _literal,
    syntax.Field: _field,
    syntax.MessageField: _message_field,
    syntax.Property: _property,
    syntax.Arithmetic: _arithmetic,
    syntax.Negative: _negative,
    syntax.Comparison: _comparison,
    syntax.Between: _between,
    syntax.OneOf: _one_of,
    syntax.HasAffix: _has_affix,
    syntax.Like: _like,
    syntax.Matches: _matches,
    syntax.IsNull: _is_null,
    syntax.IsNan: _is_nan,
    syntax.Replaced: _replaced,
    syntax.Not: _not,
    syntax.AllOf: _all_of,
    syntax.AnyOf: _any_of,
    syntax.Call: _call,
}
