r"""The bytes that a payload in JSON must have if a comparison of a filter is true of it.

They are regular expressions of RE2 over bytes. A payload without a match is left out before it is
decoded. One with a match may still not pass: the filter decides. A payload with a match of
`SPELLINGS` may write names and texts in another way, so it is never left out.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import floor

from quorate.protocol.filters.syntax import Field

SPELLINGS = r"\\u|\x00"
"""It is found in payloads with escapes for any characters, or in UTF-16 or UTF-32."""
MARKS = (b"\\", b"\0")
"""Payloads without one of these have no match of `SPELLINGS`."""

_SPACE = r"[ \t\n\r]*"
_ANY_NUMBER = "[-0-9IN]"
_WITH_EXPONENT = "[0-9][0-9.]*[eE]"
_INFINITE = "I"
_SIZE_BOUND = 2**32
"""Below this size, a fraction that is rounded up to a whole number begins with a 9."""
_ESCAPED = frozenset('"\\/')
"""Characters that may have short escapes, beside the unprintable ones."""


def compared(field: Field, operator: str, value: object) -> str | None:
    """Return what is found if a field compares so with a value; None: nothing is known.

    operator: one of = != < <= > >=.
    """
    return _field(field, [_value(operator, value)])


def one_of(field: Field, values: Iterable[object]) -> str | None:
    """Return what is found if a field is one of these values; None: nothing is known."""
    return _field(field, [_value("=", value) for value in values if value is not None])


def _field(field: Field, values: Iterable[str | None]) -> str | None:
    """Return what is found if a field has one of these values, or an array."""
    names = [step for step in field.path if isinstance(step, str)]
    if not names or not _is_plain(names[-1]) or not names[-1].isascii():
        return None
    known = [value for value in values if value is not None]
    # An element of an array may be the value: of those nothing more is asked.
    passing = "|".join([r"\[", *known]) if isinstance(field.path[-1], str) else r"\["
    return f'"{_exactly(names[-1])}"{_SPACE}:{_SPACE}(?:{passing})'


def _value(operator: str, value: object) -> str | None:
    """Return how a value begins that compares so with a known one; None: none does."""
    match value:
        case bool():
            return ("true" if value else "false") if operator == "=" else "true|false"
        case str():
            return f'"{_exactly(value)}"' if operator == "=" and _is_plain(value) else '"'
        case int() | float():
            return _number(operator, value)
    return None


def _number(operator: str, value: float) -> str:
    if operator == "!=" or not abs(value) < _SIZE_BOUND:
        return _ANY_NUMBER
    size = floor(abs(value))
    away_from_zero = (operator[0] == ">") == (value >= 0)
    if operator == "=":
        sizes = [*_equal(size), _WITH_EXPONENT]
    elif away_from_zero:
        sizes = [*_at_least(size), _WITH_EXPONENT, _INFINITE]
    else:
        sizes = [*_at_most(size), _WITH_EXPONENT]
    sign, other_sign = ("-", f"[0-9{_INFINITE}]") if value < 0 else ("", "-")
    found = f"{sign}(?:{'|'.join(sizes)})"
    # There is a zero of either sign.
    both_signs = value == 0 or not (operator == "=" or away_from_zero)
    return f"{found}|{other_sign}" if both_signs else found


def _at_least(size: int) -> list[str]:
    """Return how numbers begin that are not below a whole one, or are rounded up to it."""
    digits = str(size)
    larger = [
        f"{digits[:at]}[{int(digit) + 1}-9]{_any_digits(len(digits) - at - 1)}"
        for at, digit in enumerate(digits)
        if digit != "9"
    ]
    return [f"[1-9]{_any_digits(len(digits))}", *larger, digits, *_rounded_up(size)]


def _at_most(size: int) -> list[str]:
    """Return how numbers begin whose whole part is not above a whole one."""
    digits = str(size)
    smaller = [
        f"{digits[:at]}[0-{int(digit) - 1}]{_any_digits(len(digits) - at - 1)}"
        for at, digit in enumerate(digits)
        if digit != "0"
    ]
    shorter = [f"[0-9]{{1,{len(digits) - 1}}}"] if len(digits) > 1 else []
    return [f"{each}[^0-9]" for each in [*shorter, *smaller, digits]]


def _equal(size: int) -> list[str]:
    """Return how numbers begin whose whole part is this one, or that are rounded up to it."""
    return [f"{size}[^0-9]", *_rounded_up(size)]


def _rounded_up(size: int) -> list[str]:
    return [rf"{size - 1}\.9"] if size else []


def _any_digits(count: int) -> str:
    return f"[0-9]{{{count}}}" if count else ""


def _is_plain(text: str) -> bool:
    r"""Return whether JSON writes a text as it is, or with escapes like \u0041."""
    return not any(each < " " or each in _ESCAPED for each in text)


def _exactly(text: str) -> str:
    return "".join(f"\\x{byte:02x}" for byte in text.encode(errors="surrogatepass"))
