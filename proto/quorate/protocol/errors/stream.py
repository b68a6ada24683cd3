"""Errors of a stream: batches that conflict, are corrupt or out of order, or missing."""

from __future__ import annotations

from dataclasses import dataclass

from quorate.protocol.errors.base import QuorateError


@dataclass(eq=False)
class ContentConflict(QuorateError):
    """Other content under sequence numbers that a store holds already."""

    source: str
    first: int
    last: int
    store: str

    def describe(self) -> str:
        return (
            f"Store {self.store} holds other content for {self.source} "
            f"[{self.first}, {self.last}]. Nothing was overwritten. "
            "Two sources may have used one identity, or an old disk or publish store was put back. "
            "`quorate status` names the stores that differ. Say which one is kept: `quorate "
            f"conflict settle --source {self.source} --keep STORE --reason WHY`."
        )


@dataclass(eq=False)
class BatchRefused(QuorateError):
    """Messages that the check of a store does not allow."""

    source: str
    first: int
    last: int
    store: str
    reason: str

    def describe(self) -> str:
        return (
            f"Store {self.store} refuses [{self.first}, {self.last}] of {self.source}: "
            f"{self.reason}. Its operator checks what sources send. A source ends once too few "
            "stores take its messages. Open it anew, without those that are refused."
        )


@dataclass(eq=False)
class OutOfOrder(QuorateError):
    """A batch that does not begin where the stream at the store ends."""

    source: str
    expected: int
    first: int
    store: str

    def describe(self) -> str:
        return (
            f"Store {self.store} expected {self.source} to go on at {self.expected} but got "
            f"{self.first}. The batch was not taken; the stream must be opened anew."
        )


@dataclass(eq=False)
class MissingMessages(QuorateError):
    """A registration that finds no copy of messages that may have been stable (protocol.md 4.9)."""

    source: str
    first: int
    last: int
    might_have: str
    retryable = True

    def describe(self) -> str:
        return (
            f"{self.source} cannot go on: [{self.first}, {self.last}] may have been stable, and "
            "no store that answered has it. These stores might have it: "
            f"{self.might_have or 'no known store'}. Start one of them again. If they are gone "
            "for good, use `quorate loss accept`."
        )


@dataclass(eq=False)
class CorruptBatch(QuorateError):
    """A batch whose bytes are not what its source made."""

    where: str
    detail: str

    def describe(self) -> str:
        return (
            f"A batch {self.where} is corrupt ({self.detail}). It was not used. "
            "Another copy serves if there is one; check this machine's memory, disk and network."
        )


@dataclass(eq=False)
class OtherLineage(QuorateError):
    """A fetched batch whose epoch does not belong to the stream of the store that gave it."""

    address: str
    source: str
    first: int
    last: int
    epoch: int
    retryable = True

    def describe(self) -> str:
        return (
            f"{self.address} answered for {self.source} [{self.first}, {self.last}] with a batch "
            f"of epoch {self.epoch}, which does not belong to its stream. The batch was not used; "
            "it is asked for again later. If it happens again, check whether two stores run under "
            "that store's name."
        )


@dataclass(eq=False)
class NotLost(QuorateError):
    """An accepted loss that names messages which a store has, or which were never sent."""

    source: str
    first: int
    last: int
    store: str
    detail: str

    def describe(self) -> str:
        return (
            f"[{self.first}, {self.last}] of {self.source} is not recorded as lost at "
            f"{self.store}: {self.detail}. Check `quorate status`, and name only messages that no "
            "store has."
        )
