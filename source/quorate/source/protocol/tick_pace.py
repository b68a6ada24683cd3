"""The pace at which a source must act on the time: `SourceCore.tick`.

Pure. An idle source needs no tick: of a thousand, each would cost as much as a busy one. How ticks
are timed is not known here.
"""

from __future__ import annotations

import enum

from quorate.source.protocol.core import SourceCore
from quorate.source.protocol.registration import Phase


class TickPace(enum.Enum):
    """How soon the next tick is of use."""

    QUICK = "quick"
    """Several times a second: somebody waits for a decision that a tick makes."""
    SLOW = "slow"
    """About once a second: something is under way."""
    NONE = "none"
    """After the next input: each store has every message, and knows that it is stable."""


def tick_pace(core: SourceCore) -> TickPace:
    """Return how soon this source needs its next tick."""
    is_steady = (
        core.complete
        and core.registration.phase is Phase.STREAMING
        and not core.changing.brings_up
        and not core.window.lag_noted
    )
    if not is_steady:
        return TickPace.QUICK
    is_stable = core.stable_upto == core.window.next_sequence - 1
    if is_stable and core.streams.rest(core.stable_upto):
        return TickPace.NONE
    # A tick tells stores without messages how far the stream is stable.
    return TickPace.QUICK if core.streams.state_only() else TickPace.SLOW
