"""Options and arguments as an application gives them: their kinds, and the texts of enums.

Only the reading of a value is here; each enum is beside the option that takes it. Options in a file
are in quorate.protocol.option_text.
"""

from __future__ import annotations

import difflib
import enum
from collections.abc import Callable, Sequence
from dataclasses import fields
from functools import cache
from numbers import Integral, Real
from types import UnionType
from typing import Any, Self, TypeVar, Union, get_args, get_origin, get_type_hints

from quorate.protocol.errors import InvalidArgument

E = TypeVar("E", bound=enum.Enum)
Options = TypeVar("Options")


def choice_of(argument: str, kind: type[E], value: object) -> E:
    """Return the member that this value is, or that has this text.

    Raises InvalidArgument, which names the argument and every text.
    """
    try:
        return kind(value)
    except ValueError:
        known = ", ".join(str(member.value) for member in kind)
        raise InvalidArgument(argument, f"{value!r} is none of {known}") from None


def options_of(kind: type[Options], value: Options | None) -> Options:
    """Return these options; None: the defaults. Raises InvalidArgument for anything else."""
    if value is None:
        return kind()
    if not isinstance(value, kind):
        raise InvalidArgument("options", f"{value!r} is not made by {kind.__name__}")
    return value


def read_choices(options: object, **kinds: type[enum.Enum]) -> None:
    """Replace texts by members in the fields of a frozen dataclass, while it is made.

    kinds: the enum of each field. Raises InvalidArgument.
    """
    for name, kind in kinds.items():
        object.__setattr__(options, name, choice_of(name, kind, getattr(options, name)))


WORDS = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}
"""The words for the kinds of plain values."""


def kinds_in(hint: Any) -> tuple[Any, ...]:
    """Return the kinds of values that an annotation names: those of a union, or the one."""
    return get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)


def check_kinds(options: object, prefix: str = "") -> None:
    """Raise InvalidArgument if a field of a dataclass has a value of another kind than it says.

    prefix: what stands before the name of a field in the error. Fields with an enum are left to
    `read_choices`.
    """
    made: type = type(options)
    for name, kinds in _kinds_of(made).items():
        value = getattr(options, name)
        if kinds and not any(_is(kind, value) for kind in kinds):
            wanted = " or ".join(_in_words(kind) for kind in kinds if kind is not type(None))
            raise InvalidArgument(f"{prefix}{name}", f"{value!r} is not {wanted}")


@cache
def _kinds_of(options: type) -> dict[str, tuple[Any, ...]]:
    """Return the kinds of values that each field takes. None are listed if one is an enum."""
    found = {}
    for name, hint in get_type_hints(options).items():
        kinds = kinds_in(hint)
        takes_choice = any(isinstance(kind, type) and issubclass(kind, enum.Enum) for kind in kinds)
        found[name] = () if takes_choice or name.startswith("_") else kinds
    return found


def _is(kind: Any, value: object) -> bool:
    if kind in (int, float):
        number = Integral if kind is int else Real
        return isinstance(value, number) and not isinstance(value, bool)
    if get_origin(kind) is not None:
        return callable(value)
    return isinstance(value, kind)


def _in_words(kind: Any) -> str:
    if get_origin(kind) is not None:
        return "a function"
    return WORDS.get(kind) or f"made by {kind.__name__}"


def check_function(argument: str, value: Callable[..., object] | None) -> None:
    """Raise InvalidArgument unless the value is a function, or None."""
    if value is not None and not callable(value):
        raise InvalidArgument(argument, f"{value!r} is not a function")


def check_flag(argument: str, value: object) -> None:
    """Raise InvalidArgument unless the value is True or False: any text would count as true."""
    if not isinstance(value, bool):
        raise InvalidArgument(argument, f"{value!r} is neither True nor False")


def did_you_mean(name: str, known: Sequence[str]) -> str:
    """Return what to say after an unknown name: the one that is meant, or all that are known."""
    close = difflib.get_close_matches(name, known, n=1)
    return f"; did you mean {close[0]}?" if close else f"; known are {', '.join(known)}"


NAMES_SHOWN_MAX = 10


def some_of(known: Sequence[str], name: str) -> str:
    """Return a few of the known names for people, those first that are like an unknown one."""
    close = difflib.get_close_matches(name, known, n=NAMES_SHOWN_MAX)
    shown = [*close, *(each for each in known if each not in close)][:NAMES_SHOWN_MAX]
    left = len(known) - len(shown)
    return ", ".join(shown) + (f" and {left:,} more" if left else "")


class RemembersGiven:
    """A base of options: remembers which of them the application named."""

    __slots__ = ("_given",)
    _given: frozenset[str]

    def __new__(cls, *in_order: object, **named: object) -> Self:
        """Make options, and note the names of the arguments."""
        made = super().__new__(cls)
        names = [each.name for each in fields(cls)]  # type: ignore[arg-type]
        given = frozenset(names[: len(in_order)]) | frozenset(named)
        object.__setattr__(made, "_given", given)
        return made


def named_in(options: RemembersGiven) -> dict[str, Any]:
    """Return the options that the application named, by name."""
    return {name: getattr(options, name) for name in options._given}
