"""Receiver-paced persistence at the source: the stores' reports of receivers and their effect.

Pure. quorate.protocol.pacing decides for which receivers the source waits. This module keeps the
reports, sets the window's bound, and reports receivers that lag. A source that is not paced has an
`Unpaced`.
"""

from __future__ import annotations

import sys
from bisect import bisect_right
from collections.abc import Iterable, Set
from dataclasses import replace

from quorate.protocol.ends import Position, Told, living
from quorate.protocol.limits import SEQUENCE_MAX
from quorate.protocol.pacing import ReceiverPacing, may_send_upto, waited_for
from quorate.protocol.policy import Policy
from quorate.protocol.ranges import RangeSet
from quorate.source import events
from quorate.source.options import FlightBehaviour, SourceOptions
from quorate.source.protocol.flight_window import Window
from quorate.source.protocol.retention import RetainedFrame
from quorate.v1.store_pb2 import WaitedFor

SIZES_MAX = 65_536
"""The number of batches whose ends are remembered. Bytes of older batches are not counted."""

CALM_SECONDS = 5.0
"""The time, in seconds, without reaching the bound after which the lag counts as over.

A source that is faster than its receivers reaches the bound many times a second; the application is
told once.
"""


class Unpaced:
    """The pacing of a source that waits for no receivers; stores report none to it.

    `Pacing` documents the methods.
    """

    waits = False
    """Whether stores have to report receivers."""

    def heard(self, *_: object) -> None:
        pass

    def left(self, *_: object) -> None:
        pass

    def restart(self, *_: object) -> None:
        pass

    def sent(self, *_: object) -> None:
        pass

    def apply(self, *_: object) -> None:
        pass

    def knows_enough(self, _: object) -> bool:
        return True

    def news(self, *_: object) -> list[events.Event]:
        return []

    def noted(self, _: object) -> list[events.Event]:
        return []


class Pacing:
    """The receivers of one source, as its stores report them."""

    waits = True

    def __init__(self, bound: ReceiverPacing, calm_seconds: float) -> None:
        """Begin without reports. calm_seconds: the time without lag before its end is reported."""
        self.bound = bound
        self._calm_seconds = calm_seconds
        self._calm_since: float | None = None
        self._told: dict[str, Told] = {}
        self._living: dict[str, dict[int, int]] = {}
        """The positions of receivers that have not ended, derived from the reports, by store."""
        self._positions: list[events.LaggingReceiver] = []
        """The receivers that the source waits for, the slowest first."""
        self._lasts: list[int] = []
        """The last numbers of batches. _sizes has the bytes of messages up to each, as the window
        counts."""
        self._sizes: list[int] = []
        self._size_before = 0
        self._lag_told: frozenset[int] = frozenset()
        """The receivers that were reported as lagging since all were near."""

    # Inputs.

    def heard(self, store: str, told: Told) -> None:
        """Replace what a store reports of receivers and their positions."""
        # A receiver that ended stays ended, also once all stores have forgotten its end. A store
        # that does not stream may have reported it before the end.
        known = self._told.get(store)
        before = {} if known is None else known.ended
        named = {receiver for each in self._told.values() for receiver in each.positions}
        ended = {receiver: epoch for receiver, epoch in before.items() if receiver in named}
        self._told[store] = replace(told, ended={**ended, **told.ended})
        self._living = living(self._told)

    def left(self, store: str) -> None:
        """Drop a store that the stream no longer goes to, with its reports."""
        self._told.pop(store, None)
        self._living = living(self._told)

    def restart(self, kept: Iterable[RetainedFrame]) -> None:
        """Begin a new epoch: the window counts bytes anew, from these frames on."""
        self._lasts, self._sizes, self._size_before = [], [], 0
        for frame in kept:
            self.sent(frame.last, frame.payload_bytes_upto)

    def sent(self, last: int, size: int) -> None:
        """Note a batch that was sent. last: its last number; size: bytes of messages up to
        there."""
        self._lasts.append(last)
        self._sizes.append(size)
        if len(self._lasts) > SIZES_MAX:
            half = SIZES_MAX // 2
            self._size_before = self._sizes[half - 1]
            del self._lasts[:half], self._sizes[:half]

    # Results.

    def apply(
        self, window: Window, policies: Iterable[Policy], streaming: Set[str], lost: RangeSet
    ) -> None:
        """Set how far the window may send.

        policies: the policies in force. streaming: the stores that take the stream. lost: the
        ranges whose loss an operator has accepted; no receiver acknowledges them.
        """
        unsure = {store for store, each in self._told.items() if each.may_miss}
        positions = {
            receiver: lost.contiguous_upto(upto + 1)
            for receiver, upto in waited_for(policies, self._living, streaming - unsure).items()
        }
        slowest_first = sorted(positions.items(), key=lambda item: (item[1], item[0]))
        self._positions = [events.LaggingReceiver(*item) for item in slowest_first]
        if not self._positions:
            window.pace(SEQUENCE_MAX, sys.maxsize)
        else:
            upto = self._positions[0].acknowledged_upto
            window.pace(may_send_upto(self.bound, upto), self._size_upto(upto) + self.bound.bytes)

    def knows_enough(self, policies: Iterable[Policy]) -> bool:
        """Return whether the stores that reported must know every receiver to wait for.

        A receiver registers with a stable set, and every blocking set has a store of it. Under
        `any` over several groups the stores that take the stream need not be a blocking set.
        """
        return all(policy.blocks(policy.stores & self._told.keys()) for policy in policies)

    def news(self, window: Window, now: float) -> list[events.Event]:
        """Return the events that time brings: other receivers lag, or none does any longer."""
        if not window.lag_noted:
            return []
        if not self._near(window):
            return self.noted(window)
        if self._calm_since is None:
            self._calm_since = now
        if now < self._calm_since + self._calm_seconds:
            return []
        window.lag_noted, self._lag_told, self._calm_since = False, frozenset(), None
        upto_of_all = self._positions[0].acknowledged_upto if self._positions else None
        return [events.ReceiversCaughtUp(upto_of_all)]

    def noted(self, window: Window) -> list[events.Event]:
        """Report receivers that lag and were not reported yet, when a send reaches the bound."""
        lagging = self._lagging(window)
        who = frozenset(each.session_id for each in lagging)
        if lagging:
            self._calm_since = None
        if not lagging or who <= self._lag_told:
            return []
        window.lag_noted = True
        self._lag_told |= who
        upto = lagging[0].acknowledged_upto
        return [
            events.ReceiversLag(
                lagging, window.next_sequence - 1 - upto, window.sent_bytes - self._size_upto(upto)
            )
        ]

    def _lagging(self, window: Window) -> tuple[events.LaggingReceiver, ...]:
        """Return the receivers whose positions allow no further message."""
        return tuple(
            each
            for each in self._positions
            if window.next_sequence > may_send_upto(self.bound, each.acknowledged_upto)
            or window.sent_bytes >= self._size_upto(each.acknowledged_upto) + self.bound.bytes
        )

    def _near(self, window: Window) -> bool:
        """Return whether the slowest is so close that its next lag is worth a new report."""
        if not self._positions:
            return True
        upto = self._positions[0].acknowledged_upto
        return (
            window.next_sequence - 1 - upto <= self.bound.messages // 2
            and window.sent_bytes - self._size_upto(upto) <= self.bound.bytes // 2
        )

    def _size_upto(self, sequence: int) -> int:
        """Return the bytes of messages up to the last whole batch that ends here or before."""
        at = bisect_right(self._lasts, sequence)
        return self._sizes[at - 1] if at else self._size_before


def pacing_of(options: SourceOptions) -> Pacing | Unpaced:
    """Return the pacing that the options ask for."""
    if options.receiver_pacing is None:
        return Unpaced()
    # With NOTIFY the application watches its receivers and wants each change at once. With BLOCK
    # sends wait anyway, and a report each time would be too many.
    notifies = FlightBehaviour(options.flight_behaviour) is FlightBehaviour.NOTIFY
    return Pacing(options.receiver_pacing, 0.0 if notifies else CALM_SECONDS)


def told_from_wire(wire: WaitedFor) -> Told:
    """Return what a store reports of receivers."""
    return Told(
        {
            each.session_id: Position(each.acknowledged_upto, each.epoch, each.confirmed_epoch)
            for each in wire.receivers
        },
        {each.session_id: each.epoch for each in wire.ended},
        wire.may_miss,
    )
