"""The meaning of a filter: a tree becomes one function of a message.

The tree is walked once, when the filter is made; for each message only small functions run. Nothing
here raises for what a message has. How the payload becomes a document is the caller's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

from quorate.protocol.errors import InvalidFilter
from quorate.protocol.filters import syntax
from quorate.protocol.filters.functions import FUNCTIONS
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


class Filtered(Protocol):
    """A message as filters look at it. A filter asks only for the members that it needs."""

    @property
    def topic(self) -> str:
        """The topic."""

    @property
    def session(self) -> int:
        """The session ID of its source."""

    @property
    def sequence(self) -> int:
        """Its sequence number."""

    @property
    def epoch(self) -> int:
        """The epoch in which it was sent."""

    @property
    def time(self) -> float:
        """Seconds since 1970 UTC."""

    @property
    def size(self) -> int:
        """Bytes of the payload."""

    @property
    def key(self) -> str | None:
        """The key as text; None: none, or it is no text."""

    @property
    def deleted(self) -> bool:
        """Whether it deletes the row of its key."""

    @property
    def expires(self) -> float | None:
        """Seconds since 1970 UTC; None: it does not expire."""

    @property
    def properties(self) -> Mapping[str, str]:
        """The properties that are text."""

    @property
    def document(self) -> Any:
        """The decoded payload; None: it is none that can be decoded."""


Evaluate = Callable[[Filtered], Value]


class Filter:
    """A filter, ready for use. It is true, false or NULL of a message; only true passes."""

    __slots__ = ("_evaluate", "members", "needs_document", "text", "undecoded")

    def __init__(self, text: str) -> None:
        """Parse the text. Raises InvalidFilter, which says where and what was expected."""
        self.text = text
        tree = parse(text)
        paths = list(_paths(tree))
        self.needs_document = bool(paths)
        """Whether it looks into payloads, so that they have to be decoded."""
        self.members = frozenset(path[0] for path in paths if isinstance(path[0], str))
        """The names of members that it looks at, of a payload that is an object."""
        self.undecoded = 0
        """How many payloads so far are not of their format, of those that it looked into."""
        self._evaluate = _function(tree)

    def passes(self, message: Filtered) -> bool:
        """Return whether it is true of a message."""
        try:
            return self._evaluate(message) is True
        except RecursionError:
            return False  # as NULL: arrays in arrays, some hundred levels deep

    def truth(self, message: Filtered) -> Truth:
        """Return whether it is true, false or NULL of a message."""
        try:
            value = self._evaluate(message)
        except RecursionError:
            return None
        return value if value is True or value is False else None


def field_of(text: str) -> tuple[syntax.Field | syntax.MessageField | syntax.Property, Evaluate]:
    """Return the field that a text names, and the function that reads it. Raises InvalidFilter."""
    tree = parse(text)
    if not isinstance(tree, syntax.Field | syntax.MessageField | syntax.Property):
        raise InvalidFilter(0, "it is an expression, not the name of a field")
    return tree, _function(tree)


def _paths(node: Node) -> Iterator[tuple[str | int, ...]]:
    """Yield the path of each field of payloads in a tree."""
    if isinstance(node, syntax.Field):
        yield node.path
        return
    for part in (getattr(node, name) for name in node.__slots__):
        for each in part if isinstance(part, tuple) else (part,):
            if hasattr(each, "__slots__") and isinstance(each, Node):
                yield from _paths(each)


def _function(node: Node) -> Evaluate:
    return _FUNCTIONS[type(node)](node)


def _literal(node: syntax.Literal) -> Evaluate:
    value = node.value

    def literal(_: Filtered) -> Value:
        return value

    return literal


def _field(node: syntax.Field) -> Evaluate:
    if len(node.path) == 1:
        name = node.path[0]

        def of_object(message: Filtered) -> Value:
            document = message.document
            return document.get(name) if type(document) is dict else None

        return of_object

    def of_path(message: Filtered) -> Value:
        return value_at(message.document, node.path)

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
    return {
        About.TOPIC: lambda message: message.topic,
        About.SESSION: lambda message: message.session,
        About.SEQUENCE: lambda message: message.sequence,
        About.EPOCH: lambda message: message.epoch,
        About.TIME: lambda message: message.time,
        About.SIZE: lambda message: message.size,
        About.KEY: lambda message: message.key,
        About.DELETED: lambda message: message.deleted,
        About.EXPIRES: lambda message: message.expires,
    }[node.about]


def _property(node: syntax.Property) -> Evaluate:
    name = node.name
    return lambda message: message.properties.get(name)


def _arithmetic(node: syntax.Arithmetic) -> Evaluate:
    compute, left, right = arithmetic(node.operator), _function(node.left), _function(node.right)
    return lambda message: compute(left(message), right(message))


def _negative(node: syntax.Negative) -> Evaluate:
    value = _function(node.value)

    def negative(message: Filtered) -> Value:
        found = number(single(value(message)))
        return None if found is None else -found

    return negative


def _comparison(node: syntax.Comparison) -> Evaluate:
    holds, left = COMPARISONS[node.operator], _function(node.left)
    if isinstance(node.right, syntax.Literal) and node.right.value is not None:
        return _compared_with(left, holds, node.right.value)
    right = _function(node.right)
    return lambda message: compare(holds, left(message), right(message))


def _compared_with(left: Evaluate, holds: Callable[[Any, Any], bool], right: Value) -> Evaluate:
    """Compare with a known value: the common case, in which kinds need no second look."""
    kind = kind_of(right)
    kinds = (int, float) if kind is int else (kind,)

    def compared(message: Filtered) -> Truth:
        value = left(message)
        if type(value) in kinds and value == value:
            return holds(value, right)
        return compare(holds, value, right)

    return compared


def _between(node: syntax.Between) -> Evaluate:
    value, low, high = _function(node.value), _function(node.low), _function(node.high)
    at_least, at_most = COMPARISONS[">="], COMPARISONS["<="]

    def between(message: Filtered) -> Truth:
        found, bottom, top = value(message), low(message), high(message)
        if type(found) is list:
            return any_of(_both(at_least, at_most, each, bottom, top) for each in found)
        return _both(at_least, at_most, found, bottom, top)

    return between


def _both(at_least: Any, at_most: Any, value: Value, low: Value, high: Value) -> Truth:
    above, below = compare(at_least, value, low), compare(at_most, value, high)
    if above is False or below is False:
        return False
    return True if above and below else None


def _one_of(node: syntax.OneOf) -> Evaluate:
    value, equal = _function(node.value), COMPARISONS["="]
    if all(isinstance(each, syntax.Literal) and each.value is not None for each in node.options):
        return _one_of_known(value, [each.value for each in node.options])  # type: ignore[union-attr]
    options = [_function(each) for each in node.options]

    def one_of(message: Filtered) -> Truth:
        found = value(message)
        return any_of(compare(equal, found, option(message)) for option in options)

    return one_of


def _one_of_known(value: Evaluate, options: list[Any]) -> Evaluate:
    equal = COMPARISONS["="]
    by_kind: dict[Any, set[Any]] = {}
    for option in options:
        by_kind.setdefault(kind_of(option), set()).add(option)
    kinds = set(by_kind)

    def one_of(message: Filtered) -> Truth:
        found = value(message)
        kind = kind_of(found)
        if kind in by_kind and kind is not list and found == found:
            if found in by_kind[kind]:
                return True
            # An option of another kind is neither equal nor different.
            return False if len(kinds) == 1 else None
        return any_of(compare(equal, found, option) for option in options)

    return one_of


def _has_affix(node: syntax.HasAffix) -> Evaluate:
    value, options = _function(node.value), [_function(each) for each in node.options]
    has = str.startswith if node.affix is Affix.BEGINS else str.endswith

    def tested(found: Value, option: Value) -> Truth:
        if type(found) is list:
            return any_of(tested(each, option) for each in found)
        return has(found, option) if type(found) is str and type(option) is str else None

    def has_affix(message: Filtered) -> Truth:
        found = value(message)
        return any_of(tested(found, option(message)) for option in options)

    return has_affix


def _tested(value: Evaluate, test: Callable[[str], bool]) -> Evaluate:
    """Test a text, or any text of an array."""

    def tested(found: Value) -> Truth:
        if type(found) is str:
            return test(found)
        return any_of(map(tested, found)) if type(found) is list else None

    return lambda message: tested(value(message))


def _like(node: syntax.Like) -> Evaluate:
    return _tested(_function(node.value), like(node.pattern, node.escape))


def _matches(node: syntax.Matches) -> Evaluate:
    return _tested(_function(node.value), matches(node.pattern))


def _is_null(node: syntax.IsNull) -> Evaluate:
    value = _function(node.value)
    return lambda message: value(message) is None


def _is_nan(node: syntax.IsNan) -> Evaluate:
    value = _function(node.value)

    def is_nan(message: Filtered) -> Truth:
        found = single(value(message))
        return type(found) is float and found != found

    return is_nan


def _replaced(node: syntax.Replaced) -> Evaluate:
    value, replace = _function(node.value), replaced(node.pattern, node.new)

    def with_others(message: Filtered) -> Value:
        found = single(value(message))
        return replace(found) if type(found) is str else None

    return with_others


def _not(node: syntax.Not) -> Evaluate:
    value = _function(node.value)
    return lambda message: negated(value(message))


def _all_of(node: syntax.AllOf) -> Evaluate:
    parts = [_function(each) for each in node.parts]

    def all_of(message: Filtered) -> Truth:
        found: Truth = True
        for part in parts:
            truth = part(message)
            if truth is False:
                return False
            if truth is not True:
                found = None
        return found

    return all_of


def _any_of(node: syntax.AnyOf) -> Evaluate:
    parts = [_function(each) for each in node.parts]

    return lambda message: any_of(part(message) for part in parts)


def _call(node: syntax.Call) -> Evaluate:
    compute = FUNCTIONS[node.name].compute
    arguments = [_function(each) for each in node.arguments]
    return lambda message: compute([argument(message) for argument in arguments])


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
