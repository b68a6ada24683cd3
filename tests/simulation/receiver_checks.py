"""What must hold for receivers in the simulated world: part of what is checked.

Knows what every instance of every receiver was handed, consumed and acknowledged; two of one
identity may run at once. What is stable, and what streams there are, the checker knows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.simulation.endings import Life
from tests.simulation.world import World

from quorate.protocol.policy import Policy
from quorate.receiver.protocol.fetch_plan import (
    Answer,
    ProvenGap,
)

if TYPE_CHECKING:
    from tests.simulation.checker import Checker


@dataclass
class Had:
    """What the instances of one receiver had of one stream, all together."""

    handed: dict[int, set[bytes]] = field(default_factory=dict)
    consumed: dict[int, set[bytes]] = field(default_factory=dict)
    """What it was done with."""
    done_upto: int = -1
    """Everything up to here was consumed as it is stable."""
    skipped: set[int] = field(default_factory=set)
    """What was let go, or lost, before it could be handed over, as it was told."""


@dataclass
class Running:
    """One instance, from its start to its end."""

    life: Life
    """Of which stream it was handed messages last."""
    had: Had
    next: int = 0
    """What it must be handed next."""
    handed: dict[int, bytes] = field(default_factory=dict)
    """What it was handed, without what was withdrawn."""

    def passing_over(self, upto: int) -> int:
        """What it must be handed next, if that was not let go; at most this."""
        following = self.next
        while following < upto and following in self.had.skipped:
            following += 1
        return following


@dataclass(frozen=True)
class RegisteredAs:
    """As what an instance is registered, and the policy by which that are enough stores."""

    session_id: int
    epoch: int
    policy: Policy


@dataclass
class _Identity:
    stable_only: bool
    had: dict[int, Had] = field(default_factory=dict)
    """By stream."""
    running: dict[int, Running] = field(default_factory=dict)
    """By instance."""


class ReceiverChecks:
    """All receivers of one source."""

    def __init__(self, world: World, checker: Checker) -> None:
        self._world = world
        self._checker = checker
        self._require = checker.require
        self._identities: dict[str, _Identity] = {}
        self._registered: dict[tuple[str, int], tuple[int, bytes]] = {}
        """By store and receiver: the ballot that is registered."""
        self._had: dict[tuple[str, int], tuple[int, bytes]] = {}
        """The same of stores whose data was destroyed, as it was then, until they vouch again."""

    def added(self, name: str, *, stable_only: bool) -> None:
        self._identities[name] = _Identity(stable_only)

    def running(self, name: str, instance: int, epoch: int = 0) -> Running:
        """An instance, as it counts in that epoch: what it was handed of a stream that is over says
        nothing of the next. An epoch of 0 says nothing."""
        identity, life = self._identities[name], self._checker.life_of(epoch)
        known = identity.running.get(instance)
        if known is not None and (not epoch or life is known.life):
            return known
        if known is not None:
            self._require(
                life.number > known.life.number,
                "I3",
                f"{name} is told of epoch {epoch}, of stream {life.number}, after stream "
                f"{known.life.number}",
            )
        if identity.had and life.number not in identity.had:
            self._world.reach("receiver follows a stream that begins anew", name)
        had = identity.had.setdefault(life.number, Had())
        running = identity.running[instance] = Running(life, had)
        return running

    def started_at(
        self,
        name: str,
        instance: int,
        registered_as: RegisteredAs,
        first: int,
        epoch: int = 0,
        *,
        is_new: bool = False,
    ) -> None:
        """An instance starts: never above what was consumed before.

        epoch: of the lineage that it starts in. is_new: no store knows it; it starts at what is
        still there.
        """
        running = self.running(name, instance, epoch)
        life = running.life
        has_it = self._registered_at(registered_as)
        told = self._checker.endings.receiver_forgotten_at(name)
        if not self._checker.receiver_is_over(name):
            if registered_as.policy.stable(has_it):
                self._checker.endings.receiver_starts(name)
        elif has_it & told:
            # One that was told has registered it since: it has heard that it begins anew.
            self._begin_anew(name, running)
            if self._checker.is_gone() or self._none_remembers(name, life, has_it & told):
                # Whoever heard last that the stream is over has said where it was in that.
                running.had.skipped.update(range(first))
        else:
            # What it starts with was answered before: it goes on where it was then, is over like
            # those before, and will notice. The next one begins anew.
            self._world.reach("receiver over before it started", name)
        had = running.had
        if is_new:
            had.skipped.update(range(min(first, life.retained_from)))
        for sequence in range(had.done_upto + 1, first):
            if sequence in life.lost:
                continue
            consumed = had.consumed.get(sequence, set())
            stable = life.stable_contents.get(sequence)
            self._require(
                sequence in had.skipped or (stable is not None and stable in consumed),
                "I4",
                f"{name} starts at {first}, but of {sequence} it consumed {consumed}, and "
                f"{stable!r} is stable",
            )
        running.next = first

    def _begin_anew(self, name: str, running: Running) -> None:
        """What an instance before was done with says nothing any more, and what one does that goes
        on, for nobody told it yet, neither. That it was handed it remains so."""
        self._world.reach("receiver begins anew, after it was deregistered", name)
        anew = Had(running.had.handed)
        running.had = self._identities[name].had[running.life.number] = anew
        self._checker.endings.receiver_starts(name)

    def _none_remembers(self, name: str, life: Life, told: set[str]) -> bool:
        """Whether a stream is over, and these have deleted that, with all that they knew of its
        receivers, or were told that one of them is over when they had.

        They have nothing to tell the next one, which may hear where it was from a store that knows
        of neither end. It loses nothing by that: what is in a stream that is over is nobody's.
        """
        if life is self._checker.life_of(0) and not self._checker.is_over():
            return False
        has_deleted = told - self._checker.endings.receiver_remembered_at(name)
        return told == {each for each in has_deleted if self._checker.tells_end(each, life)}

    def _registered_at(self, registered_as: RegisteredAs) -> set[str]:
        """The stores that have it now; what they answered may be long ago.

        One that has lost its data since counts with what it had, as with messages, until it vouches
        again: a receiver that waits for others goes on by what it was answered, rightly, for so
        many stores may be lost; and nobody can tell it.
        """
        who = registered_as.session_id, registered_as.epoch
        had = {
            store for (store, receiver), (epoch, _) in self._had.items() if (receiver, epoch) == who
        }
        return self._checker.registered_at(*who) | had

    def registered_anew(self, name: str, instance: int, registered_as: RegisteredAs) -> None:
        """An instance that goes on has registered once more, if enough stores have it. It is none
        that was deregistered, and in whose place another one has begun anew."""
        running = self._identities[name].running.get(instance)
        if running is None or not registered_as.policy.stable(self._registered_at(registered_as)):
            return
        self._checker.endings.receiver_starts(name)
        had, former = self._identities[name].had[running.life.number], running.had
        self._require(
            had is former, "I4", f"{name} goes on though another one began anew in its place"
        )

    def ended(self, name: str, instance: int) -> None:
        """The instance is no more, or knows that it was replaced."""
        self._identities[name].running.pop(instance, None)

    def delivered(
        self, name: str, instance: int, epoch: int, sequence: int, content: bytes
    ) -> None:
        running = self.running(name, instance, epoch)
        self._checker.same(epoch, sequence, content, name)
        expected = running.passing_over(sequence)
        self._require(
            sequence == expected, "I3", f"{name} is handed {sequence} where {expected} should come"
        )
        running.next = sequence + 1
        running.handed[sequence] = content
        running.had.handed.setdefault(sequence, set()).add(content)
        stable = running.life.stable_contents.get(sequence)
        if self._identities[name].stable_only and stable != content:
            self._require(
                self._checker.may_be_stable(running.life, sequence, content),
                "I3",
                f"{name} is handed unstable {sequence}",
            )

    def consumed(self, name: str, instance: int, epoch: int, sequence: int) -> None:
        running = self._identities[name].running.get(instance)
        if running is None or sequence not in running.handed:
            return
        if self._checker.life_of(epoch) is running.life:
            content = running.handed[sequence]
            running.had.consumed.setdefault(sequence, set()).add(content)

    def acknowledges(self, name: str, instance: int, upto: int, epoch: int = 0) -> None:
        """Stores are told a position: everything before it was consumed, and is what is stable.

        epoch: of the lineage that it counts in.
        """
        running = self.running(name, instance, epoch)
        had, life = running.had, running.life
        for sequence in range(had.done_upto + 1, upto + 1):
            if sequence in life.lost:
                continue
            stable = life.stable_contents.get(sequence)
            self._require(
                sequence in had.skipped
                or (stable is not None and stable in had.consumed.get(sequence, ())),
                "I4",
                f"{name} acknowledges {upto}, but of {sequence} it consumed "
                f"{had.consumed.get(sequence)}, and {stable!r} is stable",
            )
        had.done_upto = max(had.done_upto, upto)

    def withdrawn(self, name: str, instance: int, first: int, last: int, epoch: int = 0) -> None:
        """It is told that these do not belong to the stream, which is in that epoch now."""
        before = self._identities[name].running.get(instance)
        running = self.running(name, instance, epoch)
        if running is not before:
            return  # all of the former stream
        self._require(
            not self._identities[name].stable_only, "I3", f"{name} delivers what is stable only"
        )
        for sequence in range(first, last + 1):
            self._require(
                running.handed.pop(sequence, None) is not None or sequence in running.had.skipped,
                "I3",
                f"{name} is told that {sequence} is withdrawn, which it does not have",
            )
        running.next = first

    def gap(self, name: str, instance: int, gap: ProvenGap, epoch: int = 0) -> None:
        """It is told of a gap: only of what was let go, or accepted as lost.

        epoch: of the lineage that it counts in.
        """
        running = self.running(name, instance, epoch)
        numbers = range(gap.first, gap.last + 1)
        let_go = gap.cause is Answer.RELEASED and gap.last < running.life.retained_from
        self._require(
            let_go or running.life.lost.issuperset(numbers),
            "I3",
            f"{name} is told that [{gap.first}, {gap.last}] is lost: {gap.evidence}",
        )
        # What comes before may still be on its way to the application.
        running.had.skipped.update(numbers)
        what = "let go" if let_go else "accepted as lost"
        self._world.reach(f"gap of what was {what}", name)

    # Which instance stores listen to.

    def registered(
        self, store: str, receiver: int, ballot: tuple[int, bytes], *, remembered: bool
    ) -> None:
        """The store has answered that it registered this ballot.

        remembered: it knew the receiver, or up to where it had ended; else ballots begin anew.
        """
        known = self._registered.get((store, receiver), ballot) if remembered else ballot
        self._registered[store, receiver] = max(ballot, known)

    def moved(self, store: str, receiver: int, ballot: tuple[int, bytes]) -> None:
        """The store takes an acknowledgement of an instance."""
        known = self._registered.get((store, receiver), ballot)
        self._require(
            ballot >= known,
            "I5",
            f"{store} takes a position of {ballot} of {receiver:#x} after registering {known}",
        )

    def forgotten(self, store: str, receiver: int = 0) -> None:
        """The store does not know one receiver any more, or any at all."""
        for known in list(self._registered):
            if known[0] == store and receiver in (0, known[1]):
                del self._registered[known]

    def destroyed(self, store: str) -> None:
        """The store loses what it has of receivers."""
        self._had |= {known: each for known, each in self._registered.items() if known[0] == store}
        self.forgotten(store)

    def over(self, store: str, ended: Mapping[int, int]) -> None:
        """The store hears up to which epochs these are over: that ends also what it had."""
        for receiver, upto in ended.items():
            if self._had.get((store, receiver), (upto + 1, b""))[0] <= upto:
                del self._had[store, receiver]

    def vouches_again(self, store: str) -> None:
        """What counts is what it has."""
        self._had = {known: each for known, each in self._had.items() if known[0] != store}

    # The end.

    def unfinished(self, upto: int) -> str:
        """What is still to be handed to whom, of everything up to there; empty once nothing is."""
        present = self._checker.life_of(0)
        for name, identity in self._identities.items():
            if not identity.running:
                return f"{name} is not registered"
            for running in identity.running.values():
                if running.life is not present and upto >= 0:
                    return f"{name} was handed nothing of the stream that began anew"
                if running.passing_over(upto + 1) <= upto:
                    return f"{name} was handed everything before {running.next} of {upto}"
                for sequence, content in running.handed.items():
                    if present.stable_contents.get(sequence) != content:
                        return f"{name} keeps {content!r} as {sequence}, which is another"
        return ""

    def check_end(self) -> None:
        """Everything is done: each was handed all that is stable."""
        present = self._checker.life_of(0)
        for name, identity in self._identities.items():
            had = identity.had.get(present.number, Had())
            for sequence, content in present.stable_contents.items():
                self._require(
                    sequence in had.skipped
                    or sequence in present.lost
                    or content in had.handed.get(sequence, ()),
                    "I3",
                    f"{name} was never handed {content!r}, which is {sequence}",
                )
