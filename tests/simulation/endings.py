"""What ends identities in the simulated world, and whether it may: part of what is checked.

Sees the same signs of life as the stores, but in the world's own time, and the rows of ends on
their disks. Decides nothing; which content must be where is for tests.simulation.checker.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from tests.simulation.rules import Setup
from tests.simulation.world import World

from quorate.store.rules.identity_records import (
    ENDED_KEYS,
    ended_of,
    unpack_end,
)
from quorate.store.rules.lifetimes import (
    CONFIRM_SECONDS,
    Lifetimes,
    Observed,
    Who,
)
from quorate.store.rules.source_state import SourceState
from quorate.store.storage.interface import (
    Table,
    Write,
)
from quorate.store.storage.records import Registration

AGES = 20.0
"""So many seconds pass for what lives and ends while one passes for everything else: lifetimes are
days where a partition is minutes."""
GRACE_SECONDS = 1e6
FOR_EVER = Lifetimes()
NONE_PROMISED: Mapping[str, int] = MappingProxyType({})
VOTE_SECONDS = 3.0
"""So long ago, in the time of the world, others may have said that they do not hear the source."""
LOOK_SECONDS_MAX = 5.0
"""A store dates a sign of life by its last look around, which may be so long ago."""


@dataclass(frozen=True)
class Mortality:
    """How a store is configured for those that go, in the time of what lives and ends."""

    sources: Lifetimes = FOR_EVER
    receivers: Lifetimes = FOR_EVER
    grace: float = GRACE_SECONDS
    """For so long the messages of a deleted source are kept aside."""

    @property
    def is_kept(self) -> bool:
        """Somebody has to look who is over."""
        return self.sources != FOR_EVER or self.receivers != FOR_EVER

    def of(self, who: Who) -> Lifetimes:
        return self.receivers if who.receiver else self.sources


IMMORTAL = Mortality()


class Ageing(Observed):
    """Time as a simulated store saw it pass."""

    def __init__(self, now: float, wall: float) -> None:
        super().__init__(now * AGES, wall)

    def look(self, steady: float) -> None:
        super().look(steady * AGES)


@dataclass(eq=False)
class Life:
    """One stream of the source, from its first message until it is deleted on purpose."""

    number: int = 0
    begins_in: int = 0
    """The first epoch of the stream; 0: the first stream."""
    stable_contents: dict[int, bytes] = field(default_factory=dict)
    stable_in: dict[int, int] = field(default_factory=dict)
    """By epoch: how far it was reported stable."""
    newest: int = 0
    """The newest epoch that made a message stable."""
    retained_from: int = 0
    """What is below some store has let go: nobody has to have it."""
    had: set[str] = field(default_factory=set)
    """Stores that ever had messages of it."""
    lost: set[int] = field(default_factory=set)
    """Numbers of which every copy was destroyed, as an operator has accepted."""


class Endings:
    """Signs of life, goodbyes and ends, of one source and its receivers."""

    def __init__(
        self,
        world: World,
        mortality: Mortality,
        require: Callable[[bool, str, str], None],
    ) -> None:
        """mortality: as the stores are configured. require: holds, or which rule does not."""
        self._world = world
        self._mortality = mortality
        self._require = require
        self._signs: dict[tuple[str, int], float] = {}
        self._streams: Counter[str] = Counter()
        self._open_since: dict[str, float] = {}
        """By store to which the source streams: since when."""
        self._restarted: set[str] = set()
        """Stores that know by the wall clock alone how long some are silent."""
        self.ends: dict[str, Registration] = {}
        """By store where the source has ended: the newest end."""
        self._decided: dict[int, Collection[Setup]] = {}
        """By epoch in which some store began an end: the rules that the end names."""
        self._begun: dict[int, set[str]] = {}
        """By such an epoch: the stores on whose disks the end is for good."""
        self.complete: set[int] = set()
        """The epochs of the ends that are on enough disks to stand for ever."""
        self._wanted: set[int] = set()
        """The epochs of the ends that somebody may want: an owner, an operator, or a store."""
        self._fenced: set[int] = set()
        """The wanted epochs whose owner had been fenced by stores that it needs."""
        self._receivers_over: Counter[int] = Counter()
        """By receiver: the newest epoch that somebody has said is over."""
        self._forgotten_at: dict[str, set[str]] = {}
        """By receiver: the stores that have said that they forgot it, since it started last."""
        self._ends: dict[str, set[str]] = {}
        """By store: the receivers that it has said so of and whose end it remembers, as it knew the
        source then, and has not deleted that since."""

    # Signs of life.

    def sign(self, store: str, receiver: int = 0) -> None:
        """The source, or a receiver, is heard by this store."""
        self._signs[store, receiver] = self._world.now

    def stream(self, store: str, *, opens: bool) -> None:
        """The source's stream to this store opens, or is over."""
        self.sign(store)
        self._streams[store] += 1 if opens else -1
        if self._streams[store] > 0:
            self._open_since.setdefault(store, self._world.now)
        else:
            self._open_since.pop(store, None)

    def stops(self, store: str) -> None:
        """A process of the store ends, and with it every stream to it."""
        self._open_since.pop(store, None)
        if self._streams.pop(store, 0) > 0:
            self.sign(store)
        self._restarted.add(store)

    def deregisters(
        self, epoch: int, promised: Mapping[str, int] = NONE_PROMISED, rules: Sequence[Setup] = ()
    ) -> None:
        """The owner of this epoch wants all stores to forget the source.

        promised: by store, the newest epoch. rules: in force. Whoever is fenced by stores without
        which nothing is stable ends nothing.
        """
        self._wanted.add(epoch + 1)
        fencing = {store for store, newest in promised.items() if newest > epoch}
        if rules and not any(setup.stable(setup.without(fencing)) for setup in rules):
            self._fenced.add(epoch + 1)
            self._world.reach("deregistered by a fenced owner", "%s", epoch)

    def is_over(
        self, life: Life, begun: Mapping[int, Collection[str]], rules: Collection[Setup]
    ) -> bool:
        """Whether the stream has ended, and nobody has gone on with it.

        begun: by epoch, the stores. rules: all that were ever in force. An epoch that a minority
        began, and that made nothing stable, did not go on with it.
        """
        went_on = [
            epoch
            for epoch in life.stable_in
            if any(setup.stable(begun.get(epoch, ())) for setup in rules)
        ]
        return max(1, life.newest, *went_on) < max(self._decided, default=0)

    def receiver_over(self, receiver: int, epoch: int) -> None:
        """It says that its registrations up to this epoch are over, or an operator does; it may
        register in a higher one at any time."""
        self._receivers_over[receiver] = max(epoch, self._receivers_over[receiver])

    def receiver_starts(self, name: str) -> None:
        """An instance of the receiver has registered."""
        self._forgotten_at.pop(name, None)

    def receiver_forgotten(self, name: str, store: str) -> None:
        """A store has told the receiver that it is forgotten."""
        self._forgotten_at.setdefault(name, set()).add(store)
        if store not in self.ends:
            self._ends.setdefault(store, set()).add(name)

    def receiver_not_forgotten(self, name: str, stores: Iterable[str]) -> None:
        """The receiver hears that what said so was not these any more."""
        told = self._forgotten_at.get(name, set())
        for store in stores:
            told.discard(store)
            self._ends.get(store, set()).discard(name)

    def receiver_remembered_at(self, name: str) -> set[str]:
        """The stores that remember that it is over."""
        return {store for store, names in self._ends.items() if name in names}

    def receiver_forgotten_at(self, name: str) -> set[str]:
        """The stores that have said so since it started last."""
        return self._forgotten_at.get(name, set())

    def receiver_is_over(self, name: str, setups: Iterable[Setup]) -> bool:
        """Whether it was deregistered at so many stores that nobody may register it without
        hearing of it: a stable set by all these rules, without which there is none."""
        told = self.receiver_forgotten_at(name)
        return bool(told) and all(setup.knows_everything(told) for setup in setups)

    # Ends.

    def expires(self, store: str, epoch: int, rules: Sequence[Setup]) -> None:
        """A store wants the source to end in this epoch, as its state lifetime is over.

        rules: in force.
        """
        self._wanted.add(epoch)
        self._world.reach("ends as its time is over", "%s %s", store, epoch)
        self._check_silent(store, 0, self._mortality.sources, "I1")
        self._require(self._streams[store] <= 0, "I1", f"{store} ends a source that streams to it")
        since = self._world.now - VOTE_SECONDS
        hear = {each for each, at in self._open_since.items() if at < since}
        self._require(
            not any(setup.stable(hear) for setup in rules),
            "I1",
            f"{store} ends a source that streams to {sorted(hear)}",
        )

    def ended(
        self, store: str, end: Registration, rules: Collection[Setup], *, honest: bool
    ) -> bool:
        """A store is about to begin an end. Return whether that is news at this store.

        - rules: those that the end names.
        - honest: nothing that a store promised was destroyed.
        """
        epoch, known = end.begun.epoch, self.ends.get(store)
        self.ends[store] = end
        if known is not None and known.begun.epoch == epoch:
            return False
        self._ends.pop(store, None)
        self._world.reach("ended", "%s %s", store, epoch)
        self._require(epoch in self._wanted, "I1", f"{store} ends epoch {epoch}, as nobody wanted")
        is_fenced = epoch in self._fenced and honest
        self._require(not is_fenced, "I5", f"{store} ends epoch {epoch} for a fenced owner")
        self._decided.setdefault(epoch, rules)
        return True

    def ended_for_good(self, store: str, epoch: int) -> None:
        """An end is on the disk of a store."""
        begun = self._begun.setdefault(epoch, set())
        begun.add(store)
        rules = self._decided.get(epoch, ())
        if rules and all(setup.stable(begun) for setup in rules):
            self.complete.add(epoch)

    def receivers_ended(self, store: str, writes: Iterable[Write]) -> dict[int, int]:
        """Up to which epochs receivers are over, as the store is about to remember: that is never
        its own finding."""
        ended = {}
        lowest, highest = ENDED_KEYS
        for write in writes:
            is_end = write.table is Table.META and lowest <= write.key <= highest
            if not is_end or write.value is None:
                continue
            (_, receiver), epoch = ended_of(write.key), unpack_end(write.value).epoch
            said = self._receivers_over[receiver]
            self._require(
                epoch <= said,
                "I4",
                f"{store} has it that {receiver:#x} is over up to {epoch}; that is so up to {said}",
            )
            ended[receiver] = epoch
        return ended

    def receiver_expired(self, store: str, receiver: int) -> None:
        """The store deletes a receiver by itself, and not the source with it."""
        self._world.reach("receiver deleted as its time is over", "%s %#x", store, receiver)
        self._check_silent(store, receiver, self._mortality.receivers, "I4")

    def _check_silent(self, store: str, receiver: int, lifetimes: Lifetimes, rule: str) -> None:
        kept_for = lifetimes.kept_for
        if store in self._restarted:
            # That clock may be wrong; but it is not believed before the store was up for so long.
            kept_for = min(kept_for, max(CONFIRM_SECONDS, lifetimes.activity_timeout))
        silent = (self._world.now - self._signs.get((store, receiver), 0.0)) * AGES
        self._require(
            0.0 < kept_for <= silent + LOOK_SECONDS_MAX,
            rule,
            f"{store} deletes {receiver or 'the source'}, silent for {silent:.1f} of {kept_for} s",
        )

    def found(self, store: str, end: Registration) -> None:
        """An end is on the disk of a store that starts: that may have been put back."""
        self.ends[store] = end

    def tells_end(self, store: str, state: SourceState | None, life: Life) -> bool:
        """Whether a store knows that the stream has ended. state: what it knows of the source."""
        known = self.ends.get(store) or (state.registration if state is not None else None)
        return known is not None and known.begun.generation > max(1, life.newest)

    def raised(self, store: str) -> None:
        """The row of an end is gone: the source is live again."""
        self.ends.pop(store, None)
