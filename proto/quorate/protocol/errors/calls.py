"""Errors of the caller: an argument, a message or an object that cannot be used."""

from __future__ import annotations

from dataclasses import dataclass

from quorate.protocol.errors.base import QuorateError
from quorate.protocol.exit_codes import USAGE

UNKNOWN_SIZE = 0
"""The size of a message that was rejected before its end was read."""


@dataclass(eq=False)
class InvalidArgument(QuorateError):
    """An argument, an option or a value of the wire that is not valid."""

    argument: str
    detail: str
    exit_code = USAGE

    def describe(self) -> str:
        return f"{self.argument}: {self.detail}."


@dataclass(eq=False)
class MessageTooLarge(QuorateError):
    """A message above the limit (see quorate.protocol.limits)."""

    size: int
    """Bytes, or UNKNOWN_SIZE."""
    limit: int
    """Bytes."""

    def describe(self) -> str:
        is_too_large = (
            f"has {self.size:,} bytes with its key and properties; the limit is {self.limit:,}"
            if self.size != UNKNOWN_SIZE
            else f"has more bytes than the limit of {self.limit:,}"
        )
        return (
            f"The message {is_too_large}. It was not accepted. Split it, or send a reference to "
            "the place where the data is."
        )


@dataclass(eq=False)
class Closed(QuorateError):
    """A call of an object that was closed."""

    what: str

    def describe(self) -> str:
        return f"{self.what} is closed. Open a new one."
