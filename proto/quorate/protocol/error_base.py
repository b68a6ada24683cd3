"""What every error of Quorate has; the errors themselves are in quorate.protocol.errors."""

from __future__ import annotations

import enum
from dataclasses import dataclass, fields
from typing import ClassVar


class Outcome(enum.Enum):
    """Whether the caller can know what became of what it asked for."""

    KNOWN = "known"
    UNKNOWN = "unknown"


_KINDS: dict[str, type[QuorateError]] = {}
"""By name."""


@dataclass(eq=False)
class QuorateError(Exception):
    """Base of all errors raised by Quorate."""

    retryable: ClassVar[bool] = False
    """The same call may succeed later without any change."""

    outcome: ClassVar[Outcome] = Outcome.KNOWN
    """KNOWN: it did not happen. UNKNOWN: it may have happened, or may yet."""

    def __init_subclass__(cls) -> None:
        _KINDS[cls.__name__] = cls

    def __str__(self) -> str:
        return self.describe()

    def describe(self) -> str:
        """What happened, why, and what to do."""
        raise NotImplementedError

    def facts(self) -> dict[str, str]:
        """The fields as text, for the wire and for logs."""
        return {field.name: str(getattr(self, field.name)) for field in fields(self)}

    @staticmethod
    def from_facts(kind: str, facts: dict[str, str]) -> QuorateError | None:
        """The error of that class name with those fields; None if there is no such class here."""
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
