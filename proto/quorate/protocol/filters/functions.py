"""The functions that filters may call. Each gives NULL for arguments that it has no answer for.

Of an array the first element counts, but for functions of arrays.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from quorate.protocol.filters.values import TEXT_LENGTH_MAX, Value, number, single

_ABOUT_MESSAGES = {
    "BOOKMARK": "$session, $epoch and $sequence",
    "FALSE_VALUE": "FALSE",
    "MESSAGE_SIZE": "$size",
    "NAN_VALUE": "IS NAN",
    "SOW_KEY": "$key",
    "TOPIC_NAME": "$topic",
    "TRUE_VALUE": "TRUE",
}
_OF_ROWS = (
    "ANY", "AVG", "COUNT", "COUNT_DISTINCT", "GROUP_CONCAT", "MAX", "MIN", "STDDEV_POP",
    "STDDEV_SAMP", "SUM", "UNIQUE",
)  # fmt: skip
_WITHOUT_MEANING = (
    "AMPS_GROUP_NAME", "AMPS_INSTANCE_NAME", "CHAR_VALUE", "CLIENT_NAME", "CLIENT_VERSION",
    "CONNECTION_NAME", "CORRELATION_ID", "CRC64", "GEO_DISTANCE", "LAST_LEASED", "LAST_READ",
    "LAST_UPDATED", "LEASE_COUNT", "REMOTE_ADDRESS", "SOW_KEY_HASH", "UNIX_TIMESTAMP", "USER",
    "UUID7", "VALUE_LOOKUP",
)  # fmt: skip

NOT_SUPPORTED: dict[str, str] = {
    **{name: f"use {instead}" for name, instead in _ABOUT_MESSAGES.items()},
    **dict.fromkeys(_OF_ROWS, "a filter is about one message; sums and groups are for State.sql"),
    **dict.fromkeys(_WITHOUT_MEANING, "no part of a message says it"),
}
"""Functions that are known elsewhere and absent here, and why, or what to use."""

OF_PATTERNS = {"REGEXP_MATCH": 2, "REGEXP_REPLACE": 3}
"""Functions of regular expressions, and how many arguments they take. All arguments but the first
are texts in quotes, so that a pattern is compiled once."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FORMAT_LENGTH_MAX = 256
_TIME_FORMAT = re.compile(r"(?:[^%]|%[YmdHMSfjwyIp%])*")
"""The directives of times that are the same everywhere, and whose results are short."""


@dataclass(frozen=True, slots=True)
class Function:
    """A function, and how many arguments it takes."""

    compute: Callable[[Sequence[Value]], Value]
    least: int
    most: int | None
    """None: any number."""

    def takes(self, count: int) -> bool:
        """Return whether this is a right number of arguments."""
        return self.least <= count and (self.most is None or count <= self.most)

    @property
    def arity(self) -> str:
        """How many arguments it takes, in words."""
        if self.most is None:
            return f"at least {self.least}"
        if self.least == self.most:
            return f"{self.least}"
        return f"{self.least} to {self.most}"


def _strict(kinds: str, compute: Callable[..., Value]) -> Callable[[Sequence[Value]], Value]:
    """Wrap a function of texts (t), numbers (n) and whole numbers (i); others give NULL."""

    def computed(arguments: Sequence[Value]) -> Value:
        taken = []
        for kind, argument in zip(kinds, arguments, strict=False):
            value = _CHECKS[kind](single(argument))
            if value is None:
                return None
            taken.append(value)
        try:
            return _bounded(compute(*taken))
        except (ArithmeticError, ValueError):
            return None

    return computed


def _text(value: Value) -> Value:
    return value if type(value) is str else None


def _whole(value: Value) -> Value:
    value = number(value)
    if value is None or value != int(value) or abs(value) > TEXT_LENGTH_MAX:
        return None
    return int(value)


_CHECKS: dict[str, Callable[[Value], Value]] = {"t": _text, "n": number, "i": _whole}


def _bounded(value: Value) -> Value:
    if type(value) is str:
        return value if len(value) <= TEXT_LENGTH_MAX else None
    return value if type(value) is bool else number(value)


def _substring(text: str, start: int, length: int = TEXT_LENGTH_MAX) -> Value:
    """The first character has number 1. A negative start counts from the end, as in SQLite."""
    if length < 0:
        return None
    begin = start - 1 if start > 0 else len(text) + start if start < 0 else 0
    if begin < 0:
        length += begin
        begin = 0
    return text[begin : begin + max(0, length)]


def _replaced(text: str, old: str, new: str) -> Value:
    if not old:
        return text
    grown = len(text) + text.count(old) * max(0, len(new) - len(old))
    return text.replace(old, new) if grown <= TEXT_LENGTH_MAX else None


def _rounded(value: float, digits: int = 0) -> Value:
    """Halves are rounded away from zero."""
    if not -15 <= digits <= 15:
        return None
    scale = 10.0**digits
    result = math.floor(abs(value) * scale + 0.5) / scale
    return math.copysign(result, value)


def _concatenated(arguments: Sequence[Value]) -> Value:
    texts = [_text(single(each)) for each in arguments]
    if None in texts or sum(map(len, texts)) > TEXT_LENGTH_MAX:
        return None
    return "".join(texts)


def _first_known(arguments: Sequence[Value]) -> Value:
    return next((each for each in arguments if each is not None), None)


def _chosen(arguments: Sequence[Value]) -> Value:
    condition, then, otherwise = arguments
    return then if condition is True else otherwise


def _extreme(choose: Callable[[Any], Value]) -> Callable[[Sequence[Value]], Value]:
    def chosen(arguments: Sequence[Value]) -> Value:
        values = [single(each) for each in arguments]
        if all(type(each) is str for each in values):
            return choose(values)
        numbers = [number(each) for each in values]
        return None if None in numbers else choose(numbers)

    return chosen


def _of_array(compute: Callable[[list[Any]], Value]) -> Callable[[Sequence[Value]], Value]:
    def computed(arguments: Sequence[Value]) -> Value:
        (array,) = arguments
        if type(array) is not list:
            return None
        numbers = [each for each in map(number, array) if each is not None]
        return number(compute(numbers)) if numbers else None

    return computed


def _count(arguments: Sequence[Value]) -> Value:
    (array,) = arguments
    return len(array) if type(array) is list else None


def _joined(arguments: Sequence[Value]) -> Value:
    array, *separators = arguments
    separator = single(separators[0]) if separators else ","
    if type(array) is not list or type(separator) is not str:
        return None
    texts = (each if type(each) is str else _as_json(each) for each in array)
    return _bounded(separator.join(texts))


def _as_json(value: Value) -> str:
    """Return a value as JSON. Bytes, which MessagePack has, become null."""
    return json.dumps(value, default=lambda _: None, skipkeys=True)


def _bucket(value: float, low: float, high: float, count: int) -> Value:
    """Return the number of the part of [low, high) with a value; 0: below; count + 1: above."""
    if count < 1 or not low < high:
        return None
    if not low <= value < high:
        return 0 if value < low else count + 1
    return int((value - low) / (high - low) * count) + 1


def _time_text(pattern: str, seconds: float) -> Value:
    """Return seconds since 1970 UTC as a text."""
    if len(pattern) > _FORMAT_LENGTH_MAX or not _TIME_FORMAT.fullmatch(pattern):
        return None
    return (_EPOCH + timedelta(seconds=seconds)).strftime(pattern)


def _encoded(text: str) -> bytes:
    return text.encode(errors="surrogatepass")


def _seconds(text: str, pattern: str) -> Value:
    """Return the seconds since 1970 UTC that a text names."""
    if len(pattern) > _FORMAT_LENGTH_MAX or not _TIME_FORMAT.fullmatch(pattern):
        return None
    return (datetime.strptime(text, pattern).replace(tzinfo=UTC) - _EPOCH).total_seconds()


def _texts(name: str, kinds: str, least: int, compute: Callable[..., Value]) -> None:
    FUNCTIONS[name] = Function(_strict(kinds, compute), least, len(kinds))


FUNCTIONS: dict[str, Function] = {
    "CONCAT": Function(_concatenated, 1, None),
    "COALESCE": Function(_first_known, 1, None),
    "IF": Function(_chosen, 3, 3),
    "GREATEST": Function(_extreme(max), 1, None),
    "LEAST": Function(_extreme(min), 1, None),
    "ARRAY_COUNT": Function(_count, 1, 1),
    "ARRAY_MAX": Function(_of_array(max), 1, 1),
    "ARRAY_MIN": Function(_of_array(min), 1, 1),
    "ARRAY_SUM": Function(_of_array(sum), 1, 1),
    "ARRAY_TO_STRING": Function(_joined, 1, 2),
}
"""All functions by name."""

MAKE_LONGER = frozenset({"CONCAT", "REPLACE", "ARRAY_TO_STRING"})
"""The functions whose texts may be far longer than those that they are given."""

_texts("LENGTH", "t", 1, len)
_texts("UPPER", "t", 1, str.upper)
_texts("LOWER", "t", 1, str.lower)
_texts("TRIM", "t", 1, lambda text: text.strip(" "))
_texts("LTRIM", "t", 1, lambda text: text.lstrip(" "))
_texts("RTRIM", "t", 1, lambda text: text.rstrip(" "))
_texts("REVERSE", "t", 1, lambda text: text[::-1])
_texts("LEFT", "ti", 2, lambda text, count: text[: max(0, count)])
_texts("RIGHT", "ti", 2, lambda text, count: text[-count:] if count > 0 else "")
_texts("SUBSTR", "tii", 2, _substring)
_texts("INSTR", "tt", 2, lambda text, part: text.find(part) + 1)
_texts("INSTR_I", "tt", 2, lambda text, part: text.lower().find(part.lower()) + 1)
_texts("STREQUAL_I", "tt", 2, lambda text, other: text.casefold() == other.casefold())
_texts("CRC32", "t", 1, lambda text: zlib.crc32(_encoded(text)))
_texts("MD5", "t", 1, lambda text: hashlib.md5(_encoded(text), usedforsecurity=False).hexdigest())
_texts("STRFTIME", "tn", 2, _time_text)
_texts("STRPTIME", "tt", 2, _seconds)
_texts("REPLACE", "ttt", 3, _replaced)
_texts("ABS", "n", 1, abs)
_texts("CEILING", "n", 1, math.ceil)
_texts("FLOOR", "n", 1, math.floor)
_texts("ROUND", "ni", 1, _rounded)
_texts("EXP", "n", 1, math.exp)
_texts("LN", "n", 1, math.log)
_texts("LOG2", "n", 1, math.log2)
_texts("LOG10", "n", 1, math.log10)
_texts("SQRT", "n", 1, math.sqrt)
_texts("SIGN", "n", 1, lambda value: (value > 0) - (value < 0))
_texts("POWER", "nn", 2, lambda base, power: float(base) ** float(power))
_texts("WIDTH_BUCKET", "nnni", 4, _bucket)
_texts("SIN", "n", 1, math.sin)
_texts("COS", "n", 1, math.cos)
_texts("TAN", "n", 1, math.tan)
_texts("ASIN", "n", 1, math.asin)
_texts("ACOS", "n", 1, math.acos)
_texts("ATAN", "n", 1, math.atan)
_texts("ATAN2", "nn", 2, math.atan2)
