"""The base class of all errors, and how an error becomes facts for the wire and for logs.

No error is declared here: each family has a module of its own beside this one.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import ClassVar

from quorate.protocol.exit_codes import FAILED


class Outcome(enum.Enum):
    """Whether the caller can know what became of its request."""

    KNOWN = "known"
    UNKNOWN = "unknown"


_KINDS: dict[str, type[QuorateError]] = {}
"""All error classes by name."""


@dataclass(eq=False)
class QuorateError(Exception):
    """Base of all errors raised by Quorate."""

    retryable: ClassVar[bool] = False
    """True: an unchanged call may succeed later."""

    outcome: ClassVar[Outcome] = Outcome.KNOWN
    """KNOWN: the request did not happen. UNKNOWN: it may have happened, or may yet happen."""

    exit_code: ClassVar[int] = FAILED
    """The exit code of a program that ends with this error (see quorate.protocol.exit_codes)."""

    def __init_subclass__(cls) -> None:
        _KINDS[cls.__name__] = cls

    def __str__(self) -> str:
        return self.describe()

    def describe(self) -> str:
        """Return the text for people: what happened, why, and what to do next."""
        raise NotImplementedError

    def facts(self) -> dict[str, str]:
        """Return the fields as text, for the wire and for logs."""
        return {field.name: str(getattr(self, field.name)) for field in fields(self)}

    @staticmethod
    def from_facts(kind: str, facts: dict[str, str]) -> QuorateError | None:
        """Return the error of this class name with these fields.

        Return None for an unknown class, or if a field is missing or no number where one is due.
        """
        cls = _KINDS.get(kind)
        if cls is None:
            return None
        try:
            return cls(
                **{
                    field.name: int(facts[field.name]) if field.type == "int" else facts[field.name]
                    for field in fields(cls)
                }
            )
        except (KeyError, ValueError):
            return None


def joined(reasons: Iterable[object]) -> str:
    """Return several reasons as one text for an error, each without its final full stop."""
    return "; ".join(str(reason).removesuffix(".") for reason in reasons)
