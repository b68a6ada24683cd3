"""A small model: stores that lag, die and are wiped, and a subscriber that moves between them.

The walk, the positions and the places of the subscriber are those of the product. What a store
records and hears is made up here, and so is the judge of what the subscriber is handed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from quorate.protocol.bookmarks import NO_PLACE, Place, Position, place_at
from quorate.protocol.errors import BrokenAnswer
from quorate.protocol.identity import SourceName
from quorate.protocol.lineage import NO_LINEAGE, Lineage, Term
from quorate.protocol.ranges import HeldRange, Range, RangeSet
from quorate.store.rules.ending import Ending
from quorate.store.rules.walk import Stream, Walk
from quorate.subscriber.protocol.follower import Follower
from quorate.subscriber.protocol.progress import Open, Progress

SOURCES = (SourceName("orders", 1), SourceName("orders", 2))
STORES = 3
QUORUM = 2
FIRST = Lineage((Term(1, 0),))
_ROWS_OF_A_STEP = 3

Step = tuple[str, int, int]
Passes = Callable[[int], bool]


@dataclass
class Truth:
    """What a source sent, and how much of it is stable."""

    lineage: Lineage = FIRST
    batches: list[HeldRange] = field(default_factory=list)
    stable_upto: int = -1
    retained_from: int = 0
    became_stable: dict[int, dict[int, int]] = field(default_factory=lambda: {1: {}})
    """By generation: the epoch of each number that became stable."""
    sent: set[tuple[int, int, int]] = field(default_factory=set)
    """Generation, epoch and number of each message that was ever sent."""
    released: dict[int, int] = field(default_factory=dict)
    """By generation: every number below was let go by some store."""

    @property
    def generation(self) -> int:
        return self.lineage.terms[0].epoch

    @property
    def high(self) -> int:
        return self.batches[-1].last if self.batches else -1

    def generation_of(self, epoch: int) -> int:
        return max(each for each in self.became_stable if each <= epoch)

    def send(self, count: int) -> None:
        first, epoch = self.high + 1, self.lineage.epoch
        self.batches.append(HeldRange(first, first + count - 1, epoch))
        self.sent |= {(self.generation, epoch, number) for number in range(first, first + count)}

    def begin(self, kept_upto: int) -> None:
        self.lineage = self.lineage.extended(kept_upto, self.lineage.epoch + 1)
        valid = [(each, self.lineage.valid(each)) for each in self.batches]
        self.batches = [
            HeldRange(part.first, part.last, each.epoch) for each, part in valid if part is not None
        ]

    def settle(self, upto: int) -> None:
        """Note that everything up to here is stable."""
        stable = self.became_stable[self.generation]
        for number in range(self.stable_upto + 1, upto + 1):
            stable[number] = self.lineage.epoch_at(number)
        self.stable_upto = max(self.stable_upto, upto)

    def let_go(self, below: int) -> None:
        """Retention lets go of all numbers below this one."""
        self.retained_from = max(self.retained_from, below)
        self.released[self.generation] = self.retained_from

    def begin_anew(self) -> None:
        self.lineage = Lineage((Term(self.lineage.epoch + 1, 0),))
        self.batches, self.stable_upto, self.retained_from = [], -1, 0
        self.became_stable[self.generation] = {}


@dataclass
class Kept:
    """What a store has of a source."""

    lineage: Lineage
    upto: int = -1
    retained_from: int = 0
    rows: dict[int, HeldRange] = field(default_factory=dict)
    """Batches by their places in the journal; some may be void."""

    def valid(self) -> list[tuple[Range, int]]:
        """Return what belongs to the stream, by number, each with its place in the journal."""
        parts = ((self.lineage.valid(row), at) for at, row in self.rows.items())
        return sorted((part, at) for part, at in parts if part is not None)

    @property
    def held(self) -> RangeSet:
        return RangeSet(part for part, _ in self.valid() if part.last >= self.retained_from)


class Store:
    """A store with a journal of its own order."""

    def __init__(self) -> None:
        self.serves = True
        self.kept: dict[SourceName, Kept] = {}
        self.journal: dict[int, SourceName] = {}
        self.end = 0
        self.changed: set[SourceName] = set()

    def wipe(self) -> None:
        """Lose all, and serve nobody until it was refilled."""
        self.serves, self.kept, self.journal, self.end = False, {}, {}, 0

    def hear(self, source: SourceName, truth: Truth) -> None:
        """Begin the newest epoch; of a stream that began anew nothing is kept."""
        kept = self.kept.get(source)
        if kept is None or not truth.lineage.reaches_back_to(kept.lineage.terms[0].epoch):
            for at in kept.rows if kept else ():
                del self.journal[at]
            self.kept[source] = Kept(truth.lineage)
        elif kept.lineage != truth.lineage:
            kept.lineage = truth.lineage
        else:
            return
        self.changed.add(source)

    def record(self, source: SourceName, truth: Truth, chosen: int) -> bool:
        """Write one of the batches that it lacks, and return whether there was one."""
        kept = self.kept.get(source)
        if kept is None or kept.lineage != truth.lineage:
            return False
        held = kept.held
        lacked = [
            each
            for each in truth.batches
            if held.contiguous_upto(each.first) < each.last and each.last >= kept.retained_from
        ]
        if not lacked:
            return False
        kept.rows[self.end] = lacked[chosen % len(lacked)]
        self.journal[self.end] = source
        self.end += 1
        self.changed.add(source)
        return True

    def hear_stable(self, source: SourceName, truth: Truth) -> None:
        kept = self.kept.get(source)
        if kept is not None and kept.lineage == truth.lineage and kept.upto < truth.stable_upto:
            kept.upto = truth.stable_upto
            self.changed.add(source)

    def let_go(self, source: SourceName, truth: Truth) -> None:
        kept = self.kept.get(source)
        if kept is None or kept.lineage != truth.lineage:
            return
        kept.retained_from = truth.retained_from
        for at in [at for at, row in kept.rows.items() if row.last < kept.retained_from]:
            del kept.rows[at], self.journal[at]
        self.changed.add(source)

    def stream(self, source: SourceName, *, stable: bool) -> Stream:
        kept = self.kept[source]
        held = kept.held
        upto = min(held.high, kept.upto) if stable else held.high
        return Stream(kept.lineage, upto, kept.retained_from, held)


class Judge:
    """Knows what the subscriber was handed, and whether that is right (I7)."""

    def __init__(self, truths: dict[SourceName, Truth], passes: Passes, *, stable: bool) -> None:
        self._truths = truths
        self._passes = passes
        self._stable = stable
        self.due: dict[SourceName, int] = {}
        self._generation: dict[SourceName, int] = {}
        self.handed: dict[SourceName, dict[int, int]] = {each: {} for each in SOURCES}
        self.ends: Position | None = None

    def _turn_to(self, source: SourceName, epoch: int, first: int) -> None:
        truth = self._truths[source]
        generation, before = truth.generation_of(epoch), self._generation.get(source)
        if generation == before:
            return
        assert before is None or generation > before, "a stream that ended goes on"
        if before is None:
            # The first message that is left, of a source that no position names.
            assert first <= truth.released.get(generation, 0), "a beginning is left out"
        self.due[source] = first if before is None else 0
        self._generation[source], self.handed[source] = generation, {}

    def give(self, source: SourceName, epoch: int, part: Range, numbers: Sequence[int]) -> None:
        """Judge a part of a stream, of which these numbers pass the filter."""
        self._turn_to(source, epoch, part.first)
        self._is_before_the_end(source, epoch, part)
        assert part.first == self.due[source], f"{part} is given where {self.due[source]} is due"
        assert list(numbers) == [
            each for each in range(part.first, part.last + 1) if self._passes(each)
        ]
        truth, generation = self._truths[source], self._generation[source]
        for number in range(part.first, part.last + 1):
            if self._stable:
                assert truth.became_stable[generation].get(number) == epoch, "it is not stable"
            assert (generation, epoch, number) in truth.sent, "nobody sent it"
            self.handed[source][number] = epoch
        self.due[source] = part.last + 1

    def _is_before_the_end(self, source: SourceName, epoch: int, part: Range) -> None:
        if self.ends is None:
            return
        end, truth = self.ends.get(source, NO_PLACE), self._truths[source]
        assert end != NO_PLACE, "a source that was not there at the end is given"
        generation, last = truth.generation_of(epoch), truth.generation_of(end.epoch)
        assert generation <= last, "a stream that began behind the end is given"
        if generation == last:
            assert part.last <= end.sequence, f"{part} is given, behind the end"
            assert epoch <= end.epoch, f"what epoch {epoch} has is behind the end"

    def gap(self, source: SourceName, epoch: int, part: Range) -> None:
        self._turn_to(source, epoch, part.first)
        self._is_before_the_end(source, epoch, part)
        assert part.first == self.due[source], "a gap is elsewhere"
        released = self._truths[source].released.get(self._generation[source], 0)
        assert part.last < released, "a gap where nothing was let go"
        self.due[source] = part.last + 1

    def withdraw(self, source: SourceName, part: Range) -> None:
        assert not self._stable, "what is stable was taken back"
        assert part.last == self.due[source] - 1, "what is void was not handed over last"
        for number in range(part.first, part.last + 1):
            self.handed[source].pop(number, None)
        self.due[source] = part.first

    def restart(self, source: SourceName, place: Place, not_consumed: int) -> None:
        """Judge where the application begins again, by its first message that is not consumed."""
        assert place.sequence < not_consumed, "what was not consumed is left out"
        between = range(place.sequence + 1, not_consumed)
        if place == NO_PLACE:
            del self.due[source], self._generation[source]
            self.handed[source] = {}
            return
        assert not any(map(self._passes, between)), "what was consumed comes again"
        generation = self._truths[source].generation_of(place.epoch)
        handed = self.handed[source] if generation == self._generation[source] else {}
        self.handed[source] = {each: handed[each] for each in handed if each <= place.sequence}
        self.due[source], self._generation[source] = place.sequence + 1, generation

    def range_was_handed(self) -> None:
        """Judge a range that is over: all up to its end was handed over."""
        assert self.ends is not None
        for source, end in self.ends.items():
            truth = self._truths[source]
            if end == NO_PLACE or truth.generation > truth.generation_of(end.epoch):
                continue  # nothing was due, or the stream is gone
            upto = max(
                (each for each in range(end.sequence + 1) if _is_kept(truth, end, each)),
                default=-1,
            )
            if source not in self._generation and upto < truth.released.get(truth.generation, 0):
                continue
            assert self._generation.get(source) == truth.generation, f"{source} is not given"
            assert self.due[source] > upto, f"{source} ends before {self.due[source]}, not {upto}"

    def all_was_handed(self) -> None:
        for source, truth in self._truths.items():
            upto = truth.stable_upto if self._stable else truth.high
            if source not in self._generation and upto < truth.released.get(truth.generation, 0):
                continue  # all was let go before the subscriber came to it
            assert self._generation.get(source) == truth.generation, f"{source} is not given"
            assert self.due[source] == upto + 1, f"{source} stops before {self.due[source]}"
            for number, epoch in self.handed[source].items():
                assert truth.lineage.epoch_at(number) == epoch, f"{number} is void"


def _is_kept(truth: Truth, end: Place, number: int) -> bool:
    """Whether a number that was before the end is in the stream still."""
    return truth.lineage.epoch_at(number) <= end.epoch


class Subscription:
    """The subscriber, and the call at the store that serves it."""

    def __init__(self, judge: Judge, passes: Passes, *, stable: bool) -> None:
        self.judge = judge
        self._passes = passes
        self._stable = stable
        self.follower = Follower(Position())
        self._progress = Progress()
        self._open: list[tuple[SourceName, int, Open, int]] = []
        self._serving: Store | None = None
        self._walk = Walk(Position(), 0, lambda _: True)
        self._history_ends, self._has_completed = 0, False
        self.is_over = False
        """Whether a store said that the end has been reached."""

    @property
    def serving(self) -> Store | None:
        """The store that serves it; None: none does."""
        return self._serving

    def move(self, store: Store) -> None:
        """Go on at a store, behind the position."""
        if self.is_over:
            return
        position = Position.parse(str(self.follower.position))
        self._serving = store
        ends = self.follower.ends
        ending = None if ends is None else Ending(Position.parse(str(ends)))
        self._walk = Walk(position, self._journal_at(store, position), lambda _: True, ending)
        self._walk.owed |= set(store.kept)
        store.changed.clear()
        self._history_ends, self._has_completed = store.end, False

    def end(self, before: int) -> None:
        """End where the store that serves it says: behind what it can give, or some before."""
        store = self._serving
        if store is None or self.follower.ends is not None or not store.serves:
            return
        ends: dict[SourceName, Place] = {}
        for source, kept in store.kept.items():
            upto = store.stream(source, stable=self._stable).upto
            ends[source] = place_at(kept.lineage, max(-1, upto - before))
        self.follower.ends = self.judge.ends = Position(ends)
        self.move(store)

    def leave(self) -> None:
        self._serving = None

    def _journal_at(self, store: Store, position: Position) -> int:
        firsts = [store.end]
        for source, kept in store.kept.items():
            first = position.place_of(source, kept.lineage).sequence + 1
            firsts += [at for part, at in kept.valid() if part.last >= first][:1]
        return min(firsts)

    def go_on_to_the_end(self) -> None:
        """Let the store walk on through all that is there."""
        store = self._serving
        assert store is not None
        self.go_on(1)
        while not self.is_over and any(at >= self._walk.journal_at for at in store.journal):
            self.go_on(_ROWS_OF_A_STEP)

    def go_on(self, rows: int) -> None:
        """Let the store walk on through so many rows, and then give what it owes."""
        store = self._serving
        if store is None or not store.serves:
            return
        try:
            self._walk.owed |= store.changed
            store.changed.clear()
            for at in sorted(at for at in store.journal if at >= self._walk.journal_at)[:rows]:
                self._pass(store, at)
            at_end = not any(at >= self._walk.journal_at for at in store.journal)
            if not self._has_completed and (at_end or self._walk.journal_at >= self._history_ends):
                self._has_completed = True
                self._walk.owed |= set(store.kept)
            owed, self._walk.owed = self._walk.owed, set()
            for source in sorted(owed & set(store.kept)):
                self._give_owed(store, source)
            if self._walk.is_over(lambda source: _lineage_at(store, source)):
                self.is_over = True
                self.leave()
        except BrokenAnswer as error:
            raise AssertionError(f"a store that keeps the rules is refused: {error}") from error

    def _pass(self, store: Store, at: int) -> None:
        source, walk = store.journal[at], self._walk
        walk.journal_at = at + 1
        stream, row = store.stream(source, stable=self._stable), store.kept[source].rows[at]
        self._turn(source, stream)
        if (part := walk.passes(source, stream, row)) is not None:
            walk.given(source, stream, part)
            self._take(source, row.epoch, part)

    def _give_owed(self, store: Store, source: SourceName) -> None:
        walk, kept = self._walk, store.kept[source]
        stream = store.stream(source, stable=self._stable)
        self._turn(source, stream)
        if (wanted := walk.owes(source, stream)) is None:
            return
        upto = wanted.first - 1
        for part, at in kept.valid():
            if part.last <= upto:
                continue
            if part.first > upto + 1 or at >= walk.journal_at or upto >= wanted.last:
                break
            given = Range(upto + 1, min(part.last, wanted.last))
            walk.given(source, stream, given)
            self._take(source, kept.rows[at].epoch, given)
            upto = given.last

    def _turn(self, source: SourceName, stream: Stream) -> None:
        if (void := self._walk.taken_back(source, stream)) is not None:
            epoch = stream.lineage.epoch_at(void.first - 1) if void.first else 0
            self.follower.taken_back("s", source, void.first, epoch)
            self._progress.withdrawn(source, void.first)
            self.judge.withdraw(source, void)
            self._open = [
                (of, number, batch, row)
                for of, number, batch, row in self._open
                if of != source or number < void.first
            ]
        while (missing := self._walk.missing(source, stream)) is not None:
            part, epoch = missing.part, stream.lineage.epoch_at(missing.part.last)
            self.follower.consecutive("s", source, epoch, part.first, part.last)
            self.judge.gap(source, epoch, part)

    def stutter(self, chosen: int) -> None:
        """Let a broken store give some batch of a named source once more, or too early."""
        store = self._serving
        if store is None:
            return
        rows = [
            (source, part)
            for source, kept in sorted(store.kept.items())
            if source in self.follower.position
            and self.follower.place(source).belongs_to(kept.lineage)
            for part, _ in kept.valid()
            if part.last <= store.stream(source, stable=self._stable).upto
        ]
        if not rows:
            return
        source, part = rows[chosen % len(rows)]
        if part.first == self.follower.place(source).sequence + 1:
            return
        epoch = store.kept[source].lineage.epoch_at(part.first)
        try:
            self.follower.consecutive("s", source, epoch, part.first, part.last)
        except BrokenAnswer:
            self.leave()
        else:
            self.judge.give(source, epoch, part, self._passing(part))

    def _passing(self, part: Range) -> list[int]:
        return [number for number in range(part.first, part.last + 1) if self._passes(number)]

    def _take(self, source: SourceName, epoch: int, part: Range) -> None:
        numbers = self._passing(part)
        before = self.follower.place(source) if part.first else NO_PLACE
        if len(numbers) == len(part):
            self.follower.consecutive("s", source, epoch, part.first, part.last)
        else:
            self.follower.moved("s", source, Place(epoch, part.last))
        self.judge.give(source, epoch, part, numbers)
        if numbers:
            batch = self._progress.handed(source, numbers, before, Place(epoch, part.last))
            self._open += [(source, each, batch, row) for row, each in enumerate(numbers)]

    def consume(self, chosen: int) -> None:
        """Consume one of the messages that are not consumed."""
        if self._open:
            _, _, batch, row = self._open.pop(chosen % len(self._open))
            batch.note(row)

    def restart(self) -> None:
        """End as an application does, and begin again where the bookmark store says."""
        position = Position.parse(str(self._progress.position(self.follower.position)))
        first = {source: number for source, number, *_ in reversed(self._open)}
        for source, number in first.items():
            self.judge.restart(source, position.get(source, NO_PLACE), number)
        self.follower = Follower(position, self.follower.ends)
        self._progress, self._open = Progress(), []
        self.is_over = False
        self.leave()


def _lineage_at(store: Store, source: SourceName) -> Lineage:
    return store.kept[source].lineage if source in store.kept else NO_LINEAGE


def play(steps: Iterable[Step], *, stable: bool, every: int) -> None:
    """Take these steps, let everything become whole, and judge all that was handed over.

    every: the filter passes the numbers that it does not divide; 0: all numbers.
    """

    def passes(number: int) -> bool:
        return not every or number % every != 0

    truths = {source: Truth() for source in SOURCES}
    stores = [Store() for _ in range(STORES)]
    subscription = Subscription(Judge(truths, passes, stable=stable), passes, stable=stable)
    subscription.move(stores[0])
    for step in steps:
        _step(step, truths, stores, subscription)
    for store in stores:
        store.serves = True
        _refill(store, truths, 0)
    for source, truth in truths.items():
        _settle(source, truth, stores)
        for store in stores:
            store.hear_stable(source, truth)
    if subscription.serving is not None:
        subscription.go_on_to_the_end()
        _judge_end(subscription)
    for store in stores:
        subscription.is_over = False
        subscription.move(store)
        subscription.go_on_to_the_end()
        _judge_end(subscription)


def _judge_end(subscription: Subscription) -> None:
    if subscription.judge.ends is None:
        subscription.judge.all_was_handed()
        return
    assert subscription.is_over, "the range is not completed"
    subscription.judge.range_was_handed()


def _step(
    step: Step,
    truths: Mapping[SourceName, Truth],
    stores: Sequence[Store],
    subscription: Subscription,
) -> None:
    name, one, other = step
    source, store = SOURCES[one % len(SOURCES)], stores[other % STORES]
    truth, others = truths[source], [each for each in stores if each is not store]
    match name:
        case "send" if any(source in each.kept for each in stores):
            truth.send(1 + other % 4)
        case "send" | "begin" | "anew" if all(each.serves for each in others):
            if name == "anew":
                truth.begin_anew()
            elif name == "begin" and truth.high > truth.stable_upto:
                lowest = max(truth.stable_upto, 0)
                truth.begin(lowest + other // STORES % (truth.high - lowest + 1))
            for each in others:
                each.hear(source, truth)
            if name == "anew":
                truth.send(1 + other % 2)
                _make_stable(source, truth, others)
        case "record" if store.serves:
            store.record(source, truth, one // 2)
        case "catch_up" if store.serves:
            while store.record(source, truth, one // 2):
                pass
        case "stable":
            _settle(source, truth, stores)
            for each in others:
                each.hear_stable(source, truth)
        case "make_stable" if all(each.serves for each in stores):
            _make_stable(source, truth, stores)
        case "hear" if store.serves:
            store.hear(source, truth)
        case "let_go" if store.serves:
            truth.let_go(truth.stable_upto + 1 - one // 2)
            store.let_go(source, truth)
        case "move" if store.serves:
            subscription.move(store)
            subscription.go_on(_ROWS_OF_A_STEP)
        case "end":
            subscription.end(one % 4)
        case "go_on":
            subscription.go_on(1 + one % _ROWS_OF_A_STEP)
        case "die" | "wipe" if all(each.serves for each in others):
            store.serves = False
            if name == "wipe":
                store.wipe()
            if subscription.serving is store:
                subscription.leave()
        case "return" if not store.serves:
            if not store.kept:
                _refill(store, truths, one)
            store.serves = True
        case "stutter":
            subscription.stutter(one)
        case "consume":
            subscription.consume(one)
        case "restart":
            subscription.restart()


def _settle(source: SourceName, truth: Truth, stores: Iterable[Store]) -> None:
    """Count what as many stores hold as make it stable; all of them began the newest epoch."""
    first = truth.stable_upto + 1
    reached = [
        store.kept[source].held.contiguous_upto(first)
        for store in stores
        if source in store.kept and store.kept[source].lineage == truth.lineage
    ]
    if len(reached) >= QUORUM:
        truth.settle(sorted(reached, reverse=True)[QUORUM - 1])


def _make_stable(source: SourceName, truth: Truth, stores: Sequence[Store]) -> None:
    """Let these stores record all, and hear that it is stable."""
    for store in stores:
        while store.record(source, truth, 0):
            pass
    _settle(source, truth, stores)
    for store in stores:
        store.hear_stable(source, truth)


def _refill(store: Store, truths: Mapping[SourceName, Truth], chosen: int) -> None:
    """Give a store all that there is, in an order of its own."""
    for source in SOURCES[:: -1 if chosen % 2 else 1]:
        store.hear(source, truths[source])
        while store.record(source, truths[source], chosen // 2):
            chosen += 1
        store.hear_stable(source, truths[source])
