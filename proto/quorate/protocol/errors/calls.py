"""Errors of the caller: an argument, a message or an object that cannot be used."""

from __future__ import annotations

from dataclasses import dataclass

from quorate.protocol.errors.base import QuorateError
from quorate.protocol.exit_codes import USAGE
from quorate.protocol.limits import MESSAGE_BYTES_MAX

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
class InvalidFilter(QuorateError):
    """A filter that does not parse, or that asks for what filters do not have."""

    position: int
    """Characters before the place of the mistake."""
    detail: str
    exit_code = USAGE

    def describe(self) -> str:
        return (
            f"The filter is not valid after {self.position} characters: {self.detail}. Correct the "
            "filter there."
        )


@dataclass(eq=False)
class MessageTooLarge(QuorateError):
    """A message above the limit of a source or of a store."""

    size: int
    """Bytes, or UNKNOWN_SIZE."""
    limit: int
    """Bytes."""
    setting: str = "SourceOptions.message_bytes_max"
    """The setting that has the limit, and whose it is."""
    refused: str = ""
    """The message that a store refused, though its source has accepted it; empty: none has."""

    def describe(self) -> str:
        is_too_large = (
            f"has {self.size:,} bytes with its key and properties; the limit is {self.limit:,}"
            if self.size != UNKNOWN_SIZE
            else f"has more bytes than the limit of {self.limit:,}"
        )
        if self.refused:
            return (
                f"{self.refused} {is_too_large} ({self.setting}). The source has accepted it, and "
                "goes on with its other stores. Raise the limit of this store."
            )
        raised = "Raise the limit, split" if self.limit < MESSAGE_BYTES_MAX else "Split"
        return (
            f"The message {is_too_large} ({self.setting}). It was not accepted. {raised} the "
            "message, or send a reference to the place where the data is."
        )


@dataclass(eq=False)
class Closed(QuorateError):
    """A call of an object that was closed."""

    what: str

    def describe(self) -> str:
        return f"{self.what} is closed. Open a new one."


@dataclass(eq=False)
class UsedBeforeFork(QuorateError):
    """A call in a process that was forked from one that had connections to stores."""

    parent: int
    exit_code = USAGE

    def describe(self) -> str:
        return (
            f"This process was forked from process {self.parent}, which had connections already. "
            "The threads that serve them exist in the parent only, so nothing was done. Connect in "
            "the child, and not in the parent before the fork; or start the child with the method "
            "spawn of multiprocessing."
        )


@dataclass(eq=False)
class WaitsForItself(QuorateError):
    """A blocking call on the background thread, which it would wait for."""

    call: str
    exit_code = USAGE

    def describe(self) -> str:
        return (
            f"{self.call} was made on Quorate's background thread, as in on_event. It would wait "
            "for that thread for ever, so nothing was done. Leave the call to a thread of the "
            "application, for example through a queue."
        )
