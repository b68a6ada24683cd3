"""Options as an application gives them: whole, or one that takes an enum's member or its text.

Only the reading of a value is here; each enum is beside the option that takes it.
"""

from __future__ import annotations

import enum
from typing import TypeVar

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
