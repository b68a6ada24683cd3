"""The delays between attempts: the one place that says how long anything waits to try again.

Pure: the library tenacity computes a delay from the number of the attempt. The loops that wait are
in quorate.transport.delays, and chance is there, too.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf

from tenacity import RetryCallState
from tenacity.wait import wait_exponential

from quorate.protocol.choices import check_kinds
from quorate.protocol.errors import InvalidArgument


@dataclass(frozen=True, slots=True, kw_only=True)
class Delays:
    """How long to wait between attempts. Raises InvalidArgument if a value makes no sense.

    Example: `Delays(first=0.1, factor=3, longest=5)` waits 0.1, 0.3, 0.9, 2.7, 5, 5, … seconds.
    Chance shortens each of them.
    """

    first: float = 0.05
    """The delay, in seconds, after the first failed attempt."""
    factor: float = 2.0
    """The number by which each delay is longer than the one before; 1: all are equal."""
    longest: float = 2.0
    """The longest delay, in seconds."""
    jitter: float = 0.5
    """The part of a delay, from 0 to 1, that is left to chance. So many clients of one store do not
    come back at one moment."""
    give_up_after: float | None = None
    """Seconds without success after which no further attempt is made; None: there is no end."""

    def __post_init__(self) -> None:
        check_kinds(self, "delays.")
        for name in ("first", "longest"):
            if not 0 <= getattr(self, name) < inf:
                raise InvalidArgument(f"delays.{name}", f"{getattr(self, name)} is no time")
        if not 1 <= self.factor < inf:
            raise InvalidArgument("delays.factor", f"{self.factor} is not at least 1")
        if not 0 <= self.jitter <= 1:
            raise InvalidArgument("delays.jitter", f"{self.jitter} is not between 0 and 1")
        if self.give_up_after is not None and not self.give_up_after > 0:
            raise InvalidArgument("delays.give_up_after", f"{self.give_up_after} is not above 0")


def delay_after(delays: Delays, failures: int) -> float:
    """Return the delay, in seconds and without chance, after so many failures in a row."""
    wait = wait_exponential(multiplier=delays.first, exp_base=delays.factor, max=delays.longest)
    state = RetryCallState(None, None, (), {})  # type: ignore[arg-type]
    state.attempt_number = max(1, failures)
    return float(wait(state))


def with_longest(delays: Delays, longest: float) -> Delays:
    """Return these delays with another longest one, in seconds."""
    return replace(delays, longest=longest)


RECONNECT = Delays()
"""A peer that does not answer is tried again: a store, a source, a directory."""

HOPELESS_SECONDS = 10.0
"""The longest delay while waiting is not expected to help: another service answers, or the stores
say that the source is away."""

REPEAT = Delays(first=0.1, factor=1.5, longest=0.5)
"""A request is repeated that a peer will take soon: another quorum, an end, a message."""

REGISTER = Delays(first=0.5, factor=1.0, longest=0.5, jitter=0.0)
"""A receiver's registration that too few stores have answered is tried again."""

REJOIN = Delays(first=1.0, longest=8.0)
"""A running receiver registers with stores that were away."""

REST = Delays(first=0.02, factor=1.0, longest=0.02, jitter=1.0)
"""A receiver's registration takes a higher epoch, because a store holds one."""

LOOK = Delays(first=0.01, factor=2.0, longest=0.1, jitter=0.0)
"""The state of a peer, or of a database, is looked at again: no event tells when it changes."""

LIMBO = Delays(first=0.2, factor=1.05, longest=2.0, jitter=0.0)
"""A store in limbo asks its peers again."""

REPAIR = Delays(first=1.0, factor=2.0, longest=10.0, jitter=0.0)
"""A store tries a repair again that failed."""

HEALTH = Delays(first=0.2, factor=1.3, longest=2.0, jitter=0.2)
"""A group that has a problem is looked at again."""
