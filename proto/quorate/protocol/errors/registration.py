"""Errors of registering: no quorum, an identity that is in use, fenced or ended, a wrong policy."""

from __future__ import annotations

from dataclasses import dataclass

from quorate.protocol.errors.base import Outcome, QuorateError
from quorate.protocol.exit_codes import CONFIGURATION, DENIED, OUTCOME_UNKNOWN, UNREACHABLE

FORMER_DIRECTORY = (
    "the other stores know its data directory as a former one; if two copies of the store run, "
    "stop one of them"
)
"""The reason why an answer does not count that came from a replaced data directory.

The store that answers may not know that its directory was replaced.
"""

STREAM_IS_OPEN = -1
"""The time until an identity is free, of an instance that sends to the store just now."""


@dataclass(eq=False)
class NotRegistered(QuorateError):
    """A request of a source that has no quorum of stores at the moment."""

    source: str
    detail: str
    retryable = True
    exit_code = UNREACHABLE

    def describe(self) -> str:
        return (
            f"Source {self.source} is not registered with enough stores ({self.detail}), so the "
            "message was not accepted. Try again: the source registers by itself when the stores "
            "are back."
        )


@dataclass(eq=False)
class NoQuorum(QuorateError):
    """An operation that too few stores took part in."""

    what: str
    answered: str
    silent: str
    detail: str
    limbo: str = ""
    """The stores of `answered` that are in limbo, and therefore do not count."""
    retryable = True
    exit_code = UNREACHABLE

    def describe(self) -> str:
        return f"{self.what} needs more stores than {self._heard()} ({self.detail}). {self._step()}"

    def _heard(self) -> str:
        if not self.answered and not self.silent:
            return "took part"
        if not self.answered:
            return f"answered. None did: {self.silent}"
        heard = f"answered{' outside limbo' if self.limbo else ''}. Answered: "
        heard += self.answered
        heard += f"; of these in limbo: {self.limbo}" if self.limbo else ""
        return heard + (f"; no answer: {self.silent}" if self.silent else "")

    def _step(self) -> str:
        steps = []
        if self.silent:
            steps.append("Start the stores that are down, or correct their addresses.")
        if self.limbo:
            steps.append(
                "A store in limbo does not know what it lacks: `quorate status` gives the reason, "
                "and the stores that it waits for. Its peers fill it when these are back. If no "
                "store has the messages any more, use `quorate loss accept`. If a store waits for "
                "one that is gone for good, or cannot be spared, use `quorate store readmit`."
            )
        return " ".join(steps) or "`quorate status` shows the state of the stores."


def no_turn(what: str) -> NoQuorum:
    """Return the error of a source or a receiver that its client had no time to register.

    what: the source or the receiver, in words.
    """
    detail = (
        "no store was asked, because its client was opening others, some at a time; give it a "
        "longer timeout"
    )
    return NoQuorum(f"Registering {what}", "", "", detail)


@dataclass(eq=False)
class InLimbo(QuorateError):
    """A request to a store that cannot vouch for what it lacks of the source (protocol.md 13.1)."""

    source: str
    store: str
    reason: str
    retryable = True
    exit_code = UNREACHABLE

    def describe(self) -> str:
        return (
            f"Store {self.store} cannot vouch for what it lacks of {self.source} ({self.reason}), "
            "so it refuses requests for now. It recovers by itself after it has heard from enough "
            "of its peers. `quorate status` names the stores that it waits for, and the next step "
            "if they cannot help."
        )


def _alive(free_in: float | None) -> str:
    if free_in is None:
        return "another process uses this topic and session ID now"
    return (
        "another process used this identity less than its activity timeout ago, which ends in "
        f"{free_in:.1f} s if that process stays silent"
    )


def _try_again(free_in: float | None) -> str:
    return "" if free_in is None else " Or try again after that time."


@dataclass(eq=False)
class SourceActive(QuorateError):
    """A registration under the identity of a source that is alive."""

    source: str
    store: str
    free_in_ms: int = STREAM_IS_OPEN
    """Milliseconds until the identity is free, if the other instance stays silent; STREAM_IS_OPEN:
    that instance sends to the store."""
    retryable = True

    @property
    def free_in(self) -> float | None:
        """Seconds until the identity is free, if the other instance stays silent.

        None: that instance has its stream to the store open.
        """
        return None if self.free_in_ms == STREAM_IS_OPEN else self.free_in_ms / 1000

    def describe(self) -> str:
        return (
            f"Store {self.store} has a living source {self.source}: {_alive(self.free_in)}. "
            f"Stop that process, or choose another session ID.{_try_again(self.free_in)} To fence "
            "it, open with take_over=True, or use `quorate send --take-over`."
        )


@dataclass(eq=False)
class ReceiverActive(QuorateError):
    """A registration under the identity of a receiver that is alive."""

    receiver: str
    store: str
    free_in_ms: int = 0
    """Milliseconds until the identity is free, if the other instance stays silent."""
    retryable = True

    @property
    def free_in(self) -> float:
        """Seconds until the identity is free, if the other instance stays silent."""
        return self.free_in_ms / 1000

    def describe(self) -> str:
        return (
            f"Store {self.store} has a living {self.receiver}: {_alive(self.free_in)}. "
            f"Stop that process, or choose another session ID.{_try_again(self.free_in)} To fence "
            "it, open with take_over=True."
        )


@dataclass(eq=False)
class RegIdInUse(QuorateError):
    """A registration with a RegID that another identity has."""

    reg_id: int
    store: str
    holder: str

    def describe(self) -> str:
        return (
            f"RegID {self.reg_id} belongs to {self.holder} on store {self.store}. "
            "Choose another RegID, or leave the choice to the store."
        )


@dataclass(eq=False)
class Fenced(QuorateError):
    """A request of an instance whose identity a newer instance has registered (protocol.md 4.1)."""

    who: str
    epoch: int
    promised: int
    outcome = Outcome.UNKNOWN
    exit_code = OUTCOME_UNKNOWN

    def describe(self) -> str:
        return self._describe("registered")

    def _describe(self, did: str) -> str:
        return (
            f"{self.who} of epoch {self.epoch} is fenced: another instance {did} the same "
            f"identity with epoch {self.promised}. Only the newer instance can go on: close this "
            "one. Its last messages that are not stable, and its last acknowledgements, may or "
            "may not count."
        )


@dataclass(eq=False)
class TakenOver(Fenced):
    """A request of an instance whose identity another instance was told to take over.

    The older instance stays ended, and never registers anew.
    """

    outcome = Outcome.UNKNOWN
    exit_code = OUTCOME_UNKNOWN

    def describe(self) -> str:
        return self._describe("took over")


@dataclass(eq=False)
class EpochTooFar(QuorateError):
    """A request with an epoch that is too far above those that a store knows of the identity."""

    who: str
    store: str
    epoch: int
    admitted: int
    """The highest epoch that the store takes now."""

    def describe(self) -> str:
        return (
            f"Epoch {self.epoch} of {self.who} is too far above the epochs that store {self.store} "
            f"knows: it takes epochs up to {self.admitted} now. Sources and receivers get further "
            "in several steps. A client of your own must ask for the admitted epoch first."
        )


@dataclass(eq=False)
class TooManyRegistrations(QuorateError):
    """A registration of a new identity by a client that registered very many just before."""

    client: str
    store: str
    per_second: str
    retryable = True
    exit_code = UNREACHABLE

    def describe(self) -> str:
        return (
            f"Clients at {self.client} register too many new sources and receivers with store "
            f"{self.store}, which takes {self.per_second} each second. Sources and receivers wait, "
            "and try again. Use session IDs again, or raise new_identities_per_second at the store."
        )


@dataclass(eq=False)
class StoreFull(QuorateError):
    """A registration of a new identity at a store that keeps as many as it may."""

    store: str
    what: str
    """`sources` or `receivers`."""
    most: int
    retryable = True
    exit_code = UNREACHABLE

    def describe(self) -> str:
        return (
            f"Store {self.store} keeps {self.most:,} {self.what}, and may keep no more. "
            "Deregister those that are gone for good "
            f"(`quorate {self.what} --sort -idle_seconds` lists them), or raise "
            f"{self.what}_max at the store."
        )


@dataclass(eq=False)
class Deregistered(QuorateError):
    """A request of an instance whose identity has ended."""

    who: str

    def describe(self) -> str:
        return (
            f"{self.who} is deregistered, or its state lifetime is over: the stores forget it. It "
            "cannot be used again. Open a new one, which starts from the beginning."
        )


@dataclass(eq=False)
class SourceDeleted(QuorateError):
    """The return of an instance whose stream has ended meanwhile."""

    source: str
    upto: int

    def describe(self) -> str:
        return (
            f"The stream of {self.source} has ended: its state lifetime was over, or it was "
            f"deregistered. This instance knows messages up to {self.upto} of the ended stream, "
            "and cannot go on. Open the source again: it starts from the beginning. If it has a "
            "publish store on disk, use an empty one: the present one belongs to the ended stream."
        )


@dataclass(eq=False)
class PolicyNotInForce(QuorateError):
    """A registration whose configuration does not follow on the policy in force."""

    source: str
    in_force: str
    configured: str
    unnamed: str = ""
    """The stores of the policy in force, as text for previous_policies, if they have no names."""
    exit_code = CONFIGURATION

    def describe(self) -> str:
        return (
            f"Source {self.source} is kept by {self.in_force}. This configuration names "
            f"{self.configured} instead, and does not name the former as previous. Nothing was "
            "changed. If this is an old configuration, use the one in force. To move the stream, "
            f"name the policy in force in previous_policies (in a file: [[previous]]).{self._names}"
        )

    @property
    def _names(self) -> str:
        if not self.unnamed:
            return ""
        return (
            " Stores without names are known by their addresses. If only an address has changed, "
            f'open the source once with previous_policies=["{self.unnamed}"]. Give stores names '
            "from the first day on (a=host:port): then a change of an address changes nothing."
        )


@dataclass(eq=False)
class NeverStable(QuorateError):
    """A policy under which no message can become stable, because too few stores keep messages."""

    source: str
    policy: str
    state_only: str
    exit_code = CONFIGURATION

    def describe(self) -> str:
        return (
            f"No message of source {self.source} can become stable under {self.policy}. "
            f"These stores keep no messages of this topic (durability = state-only): "
            f"{self.state_only}. Name enough stores in the policy that keep messages, or "
            "configure these stores to keep them."
        )


@dataclass(eq=False)
class UnknownTopic(QuorateError):
    """A topic that has no source, or a source of a known topic that has ended."""

    topic: str
    known: str
    retryable = True

    def describe(self) -> str:
        if self.topic in self.known.split(", "):
            return (
                f"Topic {self.topic!r} is known, but its source is not there: it has ended, or has "
                "yet to register. Start the source, or follow another one of the topic."
            )
        return (
            f"No store has a source for topic {self.topic!r}. Known topics: "
            f"{self.known or 'none'}. Check the spelling, or start the source first."
        )


@dataclass(eq=False)
class TopicRefused(QuorateError):
    """A topic that a store's configuration does not admit."""

    topic: str
    store: str
    admitted: str
    exit_code = DENIED

    def describe(self) -> str:
        return (
            f"Store {self.store} does not take topic {self.topic!r}; its configuration admits: "
            f"{self.admitted}. Use such a topic, or add this one to the store's topics."
        )
