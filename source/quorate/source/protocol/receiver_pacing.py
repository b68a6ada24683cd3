"""Receiver-paced persistence at the source: what stores told of receivers, and what that allows.

Pure. Whom the source waits for is decided in quorate.protocol.pacing; this keeps what that needs,
sets the window's bound by it, and says whom the application should know of. A source that is not
paced has an `Unpaced`.
"""

from __future__ import annotations

import sys
from bisect import bisect_right
from collections.abc import Iterable, Set
from dataclasses import replace

from quorate.protocol.ends import Position, Told, living
from quorate.protocol.limits import SEQUENCE_MAX
from quorate.protocol.pacing import ReceiverPacing, waited_for
from quorate.protocol.policy import Policy
from quorate.protocol.ranges import RangeSet
from quorate.source import events
from quorate.source.options import FlightBehaviour, SourceOptions
from quorate.source.protocol.flight_window import Window
from quorate.source.protocol.retention import RetainedFrame
from quorate.v1.store_pb2 import WaitedFor

SIZES_MAX = 65_536
"""Of so many batches it is remembered where they end; for what is older, bytes are not counted."""

CALM_SECONDS = 5.0
"""A source that is faster than its receivers comes to its bound many times a second. What waits is
told once, and that it is over when it did not come to the bound for so long."""


class Unpaced:
    """The source waits for no receivers, and stores tell it nothing of them.

    What the methods mean says `Pacing`.
    """

    waits = False
    """Stores have to tell of receivers."""

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
    """The receivers of one source, as its stores tell of them."""

    waits = True

    def __init__(self, bound: ReceiverPacing, calm_seconds: float) -> None:
        """calm_seconds: for so long nobody must have lagged before the application is told that."""
        self.bound = bound
        self._calm_seconds = calm_seconds
        self._calm_since: float | None = None
        self._told: dict[str, Told] = {}
        self._living: dict[str, dict[int, int]] = {}
        """What follows from that for receivers that are not over."""
        self._positions: list[events.LaggingReceiver] = []
        """Of those that are waited for, the slowest first."""
        self._lasts: list[int] = []
        """The last numbers of batches; _sizes: bytes of messages up to there, as the window
        counts them."""
        self._sizes: list[int] = []
        self._size_before = 0
        self._lag_told: frozenset[int] = frozenset()
        """Of whom the application was told since all were near."""

    # What happens.

    def heard(self, store: str, told: Told) -> None:
        """A store says which receivers it knows, and where they are; in place of what it said."""
        # What ended stays so, also once all stores have forgotten it: one that does not stream may
        # have said before what it had of it.
        known = self._told.get(store)
        before = {} if known is None else known.ended
        named = {receiver for each in self._told.values() for receiver in each.positions}
        ended = {receiver: epoch for receiver, epoch in before.items() if receiver in named}
        self._told[store] = replace(told, ended={**ended, **told.ended})
        self._living = living(self._told)

    def left(self, store: str) -> None:
        """The stream goes to this store no more: what it knows of receivers counts no more."""
        self._told.pop(store, None)
        self._living = living(self._told)

    def restart(self, kept: Iterable[RetainedFrame]) -> None:
        """A new epoch; the window counts bytes anew, from these frames on."""
        self._lasts, self._sizes, self._size_before = [], [], 0
        for frame in kept:
            self.sent(frame.last, frame.payload_bytes_upto)

    def sent(self, last: int, size: int) -> None:
        """A batch up to this number; size: bytes of messages up to there."""
        self._lasts.append(last)
        self._sizes.append(size)
        if len(self._lasts) > SIZES_MAX:
            half = SIZES_MAX // 2
            self._size_before = self._sizes[half - 1]
            del self._lasts[:half], self._sizes[:half]

    # What follows.

    def apply(
        self, window: Window, policies: Iterable[Policy], streaming: Set[str], lost: RangeSet
    ) -> None:
        """Set how far may be sent.

        policies: in force. streaming: the stores that take the stream. lost: what an operator has
        accepted as lost; nobody acknowledges that.
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
            window.pace(self.bound.may_send_upto(upto), self._size_upto(upto) + self.bound.bytes)

    def knows_enough(self, policies: Iterable[Policy]) -> bool:
        """Whether any receiver that is waited for must have been told of.

        A receiver registers with a stable set, of which every blocking set has a store. Under `any`
        over several groups the stores that take the stream need not be one.
        """
        return all(policy.blocks(policy.stores & self._told.keys()) for policy in policies)

    def news(self, window: Window, now: float) -> list[events.Event]:
        """Time has passed: whether others lag, or nobody does any more."""
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
        """A send has come to the bound, or goes past it: tells of receivers that are news."""
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
        """The receivers that allow no further message."""
        return tuple(
            each
            for each in self._positions
            if window.next_sequence > self.bound.may_send_upto(each.acknowledged_upto)
            or window.sent_bytes >= self._size_upto(each.acknowledged_upto) + self.bound.bytes
        )

    def _near(self, window: Window) -> bool:
        """Whether the slowest has come close enough to be no news, should it lag again."""
        if not self._positions:
            return True
        upto = self._positions[0].acknowledged_upto
        return (
            window.next_sequence - 1 - upto <= self.bound.messages // 2
            and window.sent_bytes - self._size_upto(upto) <= self.bound.bytes // 2
        )

    def _size_upto(self, sequence: int) -> int:
        """Bytes of messages up to the last whole batch that ends here or before."""
        at = bisect_right(self._lasts, sequence)
        return self._sizes[at - 1] if at else self._size_before


def pacing_of(options: SourceOptions) -> Pacing | Unpaced:
    """As the options of a source ask for it."""
    if options.receiver_pacing is None:
        return Unpaced()
    # Who is told before it may send more wants to know at once; who waits anyway, not each time.
    notifies = options.flight_behaviour is FlightBehaviour.NOTIFY
    return Pacing(options.receiver_pacing, 0.0 if notifies else CALM_SECONDS)


def told_from_wire(wire: WaitedFor) -> Told:
    """What a store says of receivers."""
    return Told(
        {
            each.session_id: Position(each.acknowledged_upto, each.epoch, each.confirmed_epoch)
            for each in wire.receivers
        },
        {each.session_id: each.epoch for each in wire.ended},
        wire.may_miss,
    )
