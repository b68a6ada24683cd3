"""Options as an application gives them: whole, or one that takes an enum's member or its text.

Only the reading of a value is here; each enum is beside the option that takes it. Options in a file
are in quorate.protocol.option_text.
"""

from __future__ import annotations

import difflib
import enum
from collections.abc import Sequence
from dataclasses import fields
from typing import Any, Self, TypeVar

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


def did_you_mean(name: str, known: Sequence[str]) -> str:
    """Return what to say after an unknown name: the one that is meant, or all that are known."""
    close = difflib.get_close_matches(name, known, n=1)
    return f"; did you mean {close[0]}?" if close else f"; known are {', '.join(known)}"


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
