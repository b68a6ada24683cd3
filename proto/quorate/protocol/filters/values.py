"""The values of filters, as SQL has them: comparing, computing and three truths.

A value is a number, a text, a truth, an array, or None for NULL. A text that is less than a number
or a division by zero has no sense. It is NULL, and no error: who writes a filter does not write the
payloads.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

Value = Any
"""A number, a text, a truth, a list of values, an object, bytes, or None for NULL."""
Truth = bool | None

TEXT_LENGTH_MAX = 1 << 20
"""Characters of the longest text that a function makes; a longer one counts as NULL."""

INTEGER_BITS_MAX = 256
"""Whole numbers with more bits than this count as NULL, so that no product grows without end."""

COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def kind_of(value: Value) -> type | None:
    """Return int for any number, str, bool or list; None for what cannot be compared."""
    kind = type(value)
    if kind is float:
        return int
    return kind if kind in (int, str, bool, list) else None


def compare(holds: Callable[[Any, Any], bool], left: Value, right: Value) -> Truth:
    """Return whether a comparison holds. Of an array it holds if it does for any element."""
    if left is None or right is None:
        return None
    kind = kind_of(left)
    if kind is list:
        return any_of(compare(holds, each, right) for each in left)
    other = kind_of(right)
    if other is list:
        return any_of(compare(holds, left, each) for each in right)
    if kind is None or kind is not other or left != left or right != right:
        return None
    return holds(left, right)


def any_of(truths: Any) -> Truth:
    """Return whether one is true; NULL if none is and one is NULL."""
    found: Truth = False
    for truth in truths:
        if truth is True:
            return True
        if truth is None:
            found = None
    return found


def negated(truth: Value) -> Truth:
    """Return the other truth. NULL, and what is no truth, stays NULL."""
    if truth is True:
        return False
    return True if truth is False else None


def number(value: Value) -> Value:
    """Return a number as it may go on; NULL for what is none, is not finite or is too large."""
    kind = type(value)
    if kind is int:
        return value if value.bit_length() <= INTEGER_BITS_MAX else None
    return value if kind is float and math.isfinite(value) else None


def _divided(left: Any, right: Any) -> Value:
    if not right:
        return None
    if type(left) is int and type(right) is int:
        quotient = abs(left) // abs(right)
        return quotient if (left < 0) == (right < 0) else -quotient
    return left / right


def _remainder(left: Any, right: Any) -> Value:
    if not right:
        return None
    if type(left) is int and type(right) is int:
        rest = abs(left) % abs(right)
        return -rest if left < 0 else rest
    return math.fmod(left, right)


_ARITHMETIC: dict[str, Callable[[Any, Any], Value]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": _divided,
    "%": _remainder,
}


def arithmetic(name: str) -> Callable[[Value, Value], Value]:
    """Return the function of an operator: + - * / %. Of an array the first element counts."""
    compute = _ARITHMETIC[name]

    def computed(left: Value, right: Value) -> Value:
        left, right = number(single(left)), number(single(right))
        if left is None or right is None:
            return None
        try:
            return number(compute(left, right))
        except OverflowError:
            return None

    return computed


def single(value: Value) -> Value:
    """Return the first element of an array, or the value itself."""
    if type(value) is list:
        return value[0] if value else None
    return value
