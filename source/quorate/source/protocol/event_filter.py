"""A filter that reports each change of a source to its application once.

Pure. Every method takes the present state and returns the events that are new. Other modules decide
what the state is.
"""

from __future__ import annotations

from collections.abc import Set
from math import inf

from quorate.protocol.errors import (
    ContentConflict,
    Fenced,
    InLimbo,
    NotRegistered,
    QuorateError,
    StoreStopping,
    Unreachable,
)
from quorate.protocol.limits import NOTHING
from quorate.protocol.policy import Policy
from quorate.protocol.tracker import StabilityTracker
from quorate.source import events
from quorate.source.options import SourceOptions
from quorate.source.protocol.flight_window import Window
from quorate.source.protocol.retention import Retention
from quorate.source.protocol.store_cursors import Streams

News = list[events.Event]


class Notices:
    """The events that one source's application already had."""

    def __init__(self, declared: Policy, options: SourceOptions, stable_upto: int) -> None:
        self._declared = declared
        self._options = options
        self._policy = declared
        self._waiting: tuple[tuple[str, ...], bool] = ((), False)
        self._kept_out = False
        self._limbo: dict[str, str] = {}
        self._state_only: set[str] = set()
        self._unresponsive: dict[str, str] = {}
        """The kind of reason that was last reported, by store."""
        self._refusals: set[tuple[str, str]] = set()
        self._overdue_upto = NOTHING
        self._stable_upto = stable_upto
        self._reclaimed_upto: int | None = None

    # -- registration -----------------------------------------------------------------------

    def waiting(self, missing: tuple[str, ...], seconds: float) -> News:
        """Report that a registration waits for these stores, and when it no longer waits for
        all."""
        told = (missing, seconds > 0)
        before, self._waiting = self._waiting, told
        return [events.WaitingForStores(missing, seconds)] if missing and told != before else []

    def kept_out(self, waiting: tuple[tuple[str, ...], float] | None) -> News:
        """Report that a registration waits for the end of another instance's protection.

        waiting: the stores that protect it, and the seconds until that ends.
        """
        told = waiting is not None
        before, self._kept_out = self._kept_out, told
        if waiting is None or before:
            return []
        stores, seconds = waiting
        return [events.WaitingForIdentity(stores, seconds if seconds < inf else None)]

    def in_limbo(self, store: str, reason: str) -> News:
        """Report a store in limbo, which cannot vouch for what it lacks."""
        if self._limbo.get(store) == reason:
            return []
        self._limbo[store] = reason
        return [events.StoreInLimbo(store, reason)]

    def begun(self, store: str) -> None:
        """Forget the reports about a store that has begun: the next trouble with it is news."""
        self._limbo.pop(store, None)
        self._refusals = {refusal for refusal in self._refusals if refusal[0] != store}

    @staticmethod
    def complete(first: int, epoch: int, streams: Streams, policy: Policy) -> News:
        """Report that enough stores take the stream: it accepts messages from this number on."""
        taking, connected = streams.open_stores(), streams.connected()
        return [
            events.RegistrationComplete(
                first,
                epoch,
                tuple(store for store in streams.cursors if store in taking),
                tuple(store for store in streams.cursors if store not in connected),
                policy.groups_holding(taking, taking),
            )
        ]

    @staticmethod
    def quorum_lost(taking: Set[str], policy: Policy) -> News:
        """Report that too few stores still take the stream."""
        return [events.QuorumLost(tuple(sorted(taking)), policy.groups_holding(taking, taking))]

    def unresponsive(
        self,
        store: str,
        error: QuorateError,
        taking: Set[str],
        policy: Policy,
        *,
        quorum_lost: bool,
    ) -> News:
        """Report a store that does not take the stream, once for each kind of reason.

        taking: the stores that do take it.
        """
        kind = type(error).__name__
        if self._unresponsive.get(store) == kind and not quorum_lost:
            return []
        self._unresponsive[store] = kind
        left = policy.groups_holding(taking, taking)
        return [events.StoreUnresponsive(store, error, quorum_lost, left)]

    def left(self, store: str) -> None:
        """Forget a store that the source no longer deals with."""
        self._unresponsive.pop(store, None)

    def opened(self, store: str, taking: Set[str], policy: Policy, *, takes_data: bool) -> News:
        """Report a store whose stream is open again, or that keeps no messages.

        taking: the stores that take the stream. takes_data: whether this store takes messages.
        """
        news: News = []
        if self._unresponsive.pop(store, None) is not None:
            news.append(events.StoreReturned(store, policy.groups_holding(taking, taking)))
        if takes_data:
            self._state_only.discard(store)
        elif store not in self._state_only:
            self._state_only.add(store)
            news.append(events.StoreKeepsState(store))
        return news

    def refused(self, store: str, error: QuorateError) -> News:
        """Report a store that refused to promise or begin. A store that did not answer did not
        refuse."""
        passing = isinstance(error, Unreachable | StoreStopping | InLimbo | NotRegistered | Fenced)
        refusal = (store, type(error).__name__)
        if passing or refusal in self._refusals:
            return []
        self._refusals.add(refusal)
        return [events.RegistrationRefused(store, error)]

    def policy_in_force(self, policy: Policy) -> News:
        """Report the backups that stepped in or back, now that the record names this policy
        alone."""
        before = {*self._policy.stand_ins(self._declared)}
        self._policy = policy
        now = {*policy.stand_ins(self._declared)}
        return [
            *(events.BackupSteppedBack(*each) for each in sorted(before - now)),
            *(events.BackupSteppedIn(*each) for each in sorted(now - before)),
        ]

    # -- messages ---------------------------------------------------------------------------

    def stored(
        self, store: str, before: int | None, tracker: StabilityTracker, policy: Policy
    ) -> News:
        """Report what a store has acknowledged beyond `before`."""
        upto = tracker.acknowledged_upto(store)
        before = NOTHING if before is None else before
        if upto is None or upto <= before:
            return []
        holders = set(tracker.holders(upto))
        group = policy.group_of(store)
        return [
            events.StoreStable(
                store,
                group.name if group else "",
                before + 1,
                upto,
                group is not None and group.holds(holders, tracker.active),
                policy.stable(holders, tracker.active),
                upto <= tracker.stable_upto,
            )
        ]

    def stable(self, upto: int, tracker: StabilityTracker, policy: Policy) -> News:
        """Report what has become stable up to here."""
        first = self._stable_upto + 1
        if upto < first:
            return []
        self._stable_upto = upto
        stores = tracker.holders(upto)
        groups = policy.groups_holding({*stores}, tracker.active)
        return [events.MessageStable(first, upto, stores, groups)]

    def known_stable(self, upto: int) -> None:
        """Note that everything up to here was stable before, so that it is not reported."""
        self._stable_upto = max(self._stable_upto, upto)

    @staticmethod
    def flight_exceeded(window: Window) -> News:
        """Report that as much is unstable as the flight window allows and a message was
        accepted."""
        if window.exceeded_noted:
            return []
        window.exceeded_noted = True
        return [
            events.FlightExceeded(
                window.next_sequence - 1 - window.stable_upto,
                window.sent_bytes - window.stable_bytes,
            )
        ]

    @staticmethod
    def flight_relieved(window: Window, stable_upto: int) -> News:
        """Report that the exceeded flight window has room again, if it has."""
        if window.exceeded:
            return []
        window.exceeded_noted = False
        return [events.FlightRelieved(stable_upto)]

    def overdue(self, retention: Retention, stable_upto: int, now: float) -> News:
        """Report the messages that passed the stability lifetime without becoming stable."""
        lifetime = self._options.stability_lifetime
        oldest = retention.oldest_unsettled()
        if oldest is None or now - oldest.packed_at < lifetime:
            return []
        overdue = [
            item
            for item in retention.unsettled()
            if item.last > self._overdue_upto and now - item.packed_at >= lifetime
        ]
        if not overdue:
            return []
        self._overdue_upto = overdue[-1].last
        first = max(overdue[0].first, stable_upto + 1)
        return [events.NotStable(first, overdue[-1].last, events.NotStableCause.TIMEOUT)]

    @staticmethod
    def contradicted(store: str, error: QuorateError) -> News:
        """Report messages that most stores refuse, because they hold other content."""
        if not isinstance(error, ContentConflict):
            return []
        cause = events.NotStableCause.REFUSED
        return [events.NotStable(error.first, error.last, cause, store)]

    @staticmethod
    def failed(error: QuorateError, stable_upto: int, accepted_upto: int) -> News:
        """Report the end of the source, after the messages that it does not know to be stable."""
        news: News = []
        if accepted_upto > stable_upto:
            cause = events.NotStableCause.ENDED
            news.append(events.NotStable(stable_upto + 1, accepted_upto, cause))
        return [*news, events.SourceFailed(error)]

    def retained_from(self, first: int) -> None:
        """Note where the retention begins. Earlier messages were reported, or were never kept."""
        self._reclaimed_upto = max(first - 1, self._reclaimed_upto or NOTHING)

    def reclaimed(self, retention: Retention) -> News:
        """Report the messages that left the retention; forced: a store still lacked them."""
        if self._reclaimed_upto is None:
            return []
        first, last = self._reclaimed_upto + 1, retention.first - 1
        self._reclaimed_upto = max(last, self._reclaimed_upto)
        forced = retention.take_forced()
        if last < first:
            return []
        news: News = []
        normally = [(first, last)]
        if forced is not None:
            news.append(events.Reclaimed(forced.first, forced.last, forced=True))
            normally = [(first, forced.first - 1), (forced.last + 1, last)]
        if self._options.reclaim_events:
            news += [events.Reclaimed(a, b, forced=False) for a, b in normally if a <= b]
        return news
