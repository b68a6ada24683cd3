"""Random streams with skips, duplicates, overlaps, new epochs, repair and restarts."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from tests.store.support import ORDERS, World, batch, payload

from quorate.protocol.framing import read_header, read_payloads
from quorate.protocol.limits import NOTHING
from quorate.protocol.lineage import Lineage, Term
from quorate.protocol.ranges import Range
from quorate.store.storage.reader import read

LONGEST = 6


class StoreWorld(RuleBasedStateMachine):
    """One source of one store, and beside it what must be true of its stream."""

    @initialize()
    def start(self) -> None:
        self.world = World()
        self.lineage = Lineage((Term(1, 0),))
        self.held: dict[int, bytes] = {}
        self.stable_upto = NOTHING
        self.world.promise(1)
        self.world.begin(self.lineage)
        self.stream = self.world.open(1)

    def frame(self, first: int, length: int) -> bytes:
        """A batch of the stream from first on, as far as its epoch goes."""
        epoch = self.lineage.epoch_at(first)
        last = first + length - 1
        while self.lineage.epoch_at(last) != epoch:
            last -= 1
        return batch(first, last, epoch, salt=f"{epoch} ")

    def note(self, first: int, last: int) -> None:
        for sequence in range(first, last + 1):
            self.held[sequence] = payload(sequence, f"{self.lineage.epoch_at(sequence)} ")

    @rule(length=st.integers(1, LONGEST), stable=st.integers(0, LONGEST))
    def append_next(self, length: int, stable: int) -> None:
        first = self.stream.expected
        frame = self.frame(first, length)
        self.stable_upto = max(self.stable_upto, first - stable)
        self.world.append(self.stream, frame, first - stable)
        self.note(first, read_header(frame).last)
        # What comes with a batch that is held already is made durable with the next write.
        self.world.write([self.world.core.sources[ORDERS].held_row()])

    @rule(back=st.integers(1, 20), length=st.integers(1, LONGEST))
    def append_again(self, back: int, length: int) -> None:
        first = max(0, self.stream.expected - back)
        frame = self.frame(first, length)
        self.world.append(self.stream, frame)
        self.note(first, read_header(frame).last)

    @rule(length=st.integers(1, LONGEST))
    def skip(self, length: int) -> None:
        first = self.stream.expected
        last = first + length - 1
        self.stable_upto = max(self.stable_upto, last)
        self.world.write(self.world.core.streams.keepalive(self.stream, self.stable_upto))
        self.world.write(self.world.core.streams.skip(self.stream, first, last))

    @rule(begin=st.integers(0, 40), length=st.integers(1, LONGEST))
    def repair(self, begin: int, length: int) -> None:
        holes = self.world.core.sources[ORDERS].holes()
        for hole in holes[:1]:
            first = max(0, hole.first - begin % 3)
            frame = self.frame(first, length)
            part = self.world.fill(frame, hole)
            if part is not None:
                self.note(first, part.last)

    @rule(keep=st.integers(0, 10), left_out=st.booleans())
    def new_epoch(self, keep: int, left_out: bool) -> None:
        """A later source keeps some of the tail; sometimes it never heard of the last epoch."""
        high = max(self.held, default=NOTHING)
        lineage = self.lineage
        if left_out and len(lineage.terms) > 1 and lineage.terms[-1].first > self.stable_upto:
            lineage = Lineage(lineage.terms[:-1])
        kept_upto = max(self.stable_upto, high - keep, lineage.terms[-1].first - 1)
        epoch = self.lineage.epoch + 1
        self.world.promise(epoch)
        before = self.lineage
        self.lineage = lineage.extended(kept_upto, epoch)
        self.world.begin(self.lineage)
        self.held = {
            sequence: message
            for sequence, message in self.held.items()
            if before.epoch_at(sequence) == self.lineage.epoch_at(sequence)
        }
        self.reopen(0)

    @rule(restart=st.booleans(), retained=st.integers(0, 20))
    def come_back(self, restart: bool, retained: int) -> None:
        if restart:
            self.world = self.world.restarted()
        self.reopen(max(0, min(self.stream.expected, self.stable_upto + 1) - retained))

    def reopen(self, retained_from: int) -> None:
        self.stream = self.world.open(
            self.lineage.epoch, retained_from=retained_from, stable_upto=self.stable_upto
        )

    @invariant()
    def everything_held_is_read_back(self) -> None:
        state = self.world.core.sources[ORDERS]
        found: dict[int, bytes] = {}
        for item in state.held.ranges:
            first = item.first
            while first <= item.last:
                chunk = read(self.world.storage, state.reg_id, ORDERS, Range(first, item.last), 3)
                for stored in chunk:
                    assert not stored.problem, stored
                    header = read_header(stored.frame)
                    messages = read_payloads(stored.frame, header)
                    for sequence in range(stored.part.first, stored.part.last + 1):
                        found[sequence] = messages[sequence - header.first]
                first = chunk[-1].part.last + 1
        assert found == self.held

    @invariant()
    def what_is_lacking_is_known(self) -> None:
        state = self.world.core.sources[ORDERS]
        lacking = {n for hole in state.holes() for n in range(hole.first, hole.last + 1)}
        assert lacking == set(range(state.held.next_sequence)) - set(self.held)
        assert max(lacking, default=NOTHING) <= self.stable_upto
        assert state.held.stable_upto == self.stable_upto
        after = self.world.restarted().core.sources[ORDERS]
        assert (after.held, after.registration) == (state.held, state.registration)


TestStoreWorld = StoreWorld.TestCase
TestStoreWorld.settings = settings(max_examples=60, stateful_step_count=25)
