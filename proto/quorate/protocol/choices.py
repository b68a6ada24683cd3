"""Options that take one of an enum's members, or its text.

Only the reading of a value is here; each enum is beside the option that takes it.
"""

from __future__ import annotations

import enum
from typing import TypeVar

from quorate.protocol.errors import InvalidArgument

E = TypeVar("E", bound=enum.Enum)


def choice_of(argument: str, kind: type[E], value: object) -> E:
    """Return the member that this value is, or that has this text.

    Raises InvalidArgument, which names the argument and every text.
    """
    try:
        return kind(value)
    except ValueError:
        known = ", ".join(str(member.value) for member in kind)
        raise InvalidArgument(argument, f"{value!r} is none of {known}") from None


def read_choices(options: object, **kinds: type[enum.Enum]) -> None:
    """Replace texts by members in the fields of a frozen dataclass, while it is made.

    kinds: the enum of each field. Raises InvalidArgument.
    """
    for name, kind in kinds.items():
        object.__setattr__(options, name, choice_of(name, kind, getattr(options, name)))
