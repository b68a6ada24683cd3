"""The rules of ballots, ends and readmission as a model: its state, its moves and what each move does.

The model is written from the design, not from the product, and shares no code with it. `checks.py` says
what must hold in every state. Time, networks and disks do not live here: a move is one message taken by
one party, or one fault. A message that is lost or late is a move that is never made, or made later.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

RULES = {
    "promise": "A store that promised a ballot refuses every lower one.",
    "instance": "A ballot is (epoch, instance): two instances never share one.",
    "durable promise": "A promise is on the disk before the store answers.",
    "durable instance": "The instance is on the disk beside the epoch.",
    "durable begin": "A begin is on the disk before the store answers.",
    "blocking set": "A decision needs the answers of a blocking set.",
    "newest begin": "The newest begin among the answers names the stream.",
    "lineage": "A message counts only if the lineage names its ballot for its number.",
    "floor": "Nothing that may have been stable is given away.",
    "begun counts": "Only a store that began the ballot counts as a holder.",
    "generation": "An end begins an empty stream: what is older is void.",
    "settled end": "The data go only once the end is on a stable set.",
    "limbo": "A store that lost its disk does not say that it lacks something.",
    "readmit: peers": "A store leaves limbo after a stable and blocking set of peers answered.",
    "readmit: promise": "It takes the highest promise of its peers.",
    "readmit: begin": "It takes the newest begin of its peers.",
    "readmit: fetch": "It fetches all that may be stable, known to be so or not.",
    "readmit: incarnation": "Peers name its new incarnation, and answers of the former one are void.",
    "pre-vote": "An expiry begins after a blocking set has not heard of the owner.",
    "pre-vote: in time": "A pre-vote is over sooner than a lifetime.",
    "pre-vote again": "A store that has heard of the owner since then refuses the expiry's promise.",
    "start is life": "The start of a store counts as a sign of life of every owner.",
    "forget: all": "A row of an end stays until every store has adopted it.",
    "forget: fence": "A store that forgets a row keeps its ballot as a fence.",
    "position: end": "A position of an ended generation of the receiver is void.",
    "position: parent": "A position of an ended generation of the source is void.",
    "position: newest": "The newest begin of the receiver names the position, not the highest answer.",
}
"""Each rule by its name. A model leaves some of them out."""

Ballot = tuple[int, int]
"""Epoch and instance."""
NEVER: Ballot = (0, -1)
SOURCE, RECEIVER = 0, 1
ROW_OF = {"owner": SOURCE, "end": SOURCE, "expiry": SOURCE, "receiver": RECEIVER, "receiver end": RECEIVER}
"""Which row of a store an attempt of each kind registers in."""
ENDS = frozenset({"end", "expiry", "receiver end"})
IDLE, PRE_VOTE, PROMISE, BEGIN = range(4)


class World(NamedTuple):
    """How many stores there are, who registers, and how many faults there may be."""

    attempts: tuple[str, ...]
    messages: int = 1
    wipes: int = 0
    crashes: int = 0
    stores: int = 3
    founded: bool = False
    """Whether every store has begun the source already, so that receivers need no owner."""
    forgets: bool = False
    """Whether stores forget the rows of ends. It makes very many states."""

    @property
    def quorum(self) -> int:
        return self.stores // 2 + 1

    @property
    def blocking(self) -> int:
        return self.stores - self.quorum + 1


class Begun(NamedTuple):
    """A begin record. The lineage of a receiver is its ballot and the position where it started."""

    ballot: Ballot
    generation: Ballot
    parent: Ballot
    lineage: tuple[tuple[Ballot, int], ...]
    ended: bool


FOUNDED = Begun((1, -1), (1, -1), NEVER, (((1, -1), 0),), False)


class Row(NamedTuple):
    """What one store has on disk of one identity. A receiver holds its position as a number."""

    promised: Ballot = NEVER
    begun: Begun | None = None
    held: frozenset[tuple[int, Ballot]] = frozenset()
    adopted_by: frozenset[int] = frozenset()


class Store(NamedTuple):
    """One store. `heard` is the owner that it heard of last, as 1 + its index, negative once forgotten."""

    rows: tuple[Row, Row]
    known: tuple[int, ...]
    limbo: bool = False
    asked: frozenset[int] = frozenset()
    heard: int = 0


class Attempt(NamedTuple):
    """One registration by one instance. `told` has what each store answered in this phase."""

    told: tuple[tuple[int, Any] | None, ...]
    seen: tuple[int, ...]
    phase: int = IDLE
    ballot: Ballot = NEVER
    begun: Begun | None = None
    confirmed: int = 0
    acknowledged: int = 0
    complete: bool = False
    unheard: bool = False
    after: Ballot = NEVER


class State(NamedTuple):
    """A whole world at one moment."""

    stores: tuple[Store, ...]
    attempts: tuple[Attempt, ...]
    wipes: int
    crashes: int


Move = tuple[Any, ...]
"""The name of a method of `Model`, and its arguments."""


class Broken(Exception):
    """What must hold in every state does not hold."""


def put(values: tuple[Any, ...], index: int, value: Any) -> tuple[Any, ...]:
    """Return the tuple with one value replaced."""
    return (*values[:index], value, *values[index + 1 :])


def ballot_at(lineage: tuple[tuple[Ballot, int], ...], number: int) -> Ballot:
    """Return the ballot that the lineage names for a number."""
    return next((ballot for ballot, first in reversed(lineage) if first <= number), NEVER)


class Model:
    """The moves of a world under all rules but those left out."""

    def __init__(self, world: World, left_out: frozenset[str] = frozenset()) -> None:
        assert left_out <= RULES.keys()
        self.world = world
        self.left_out = left_out
        self.kinds = world.attempts
        self.expires = "expiry" in world.attempts

    def on(self, rule: str) -> bool:
        return rule not in self.left_out

    def key(self, ballot: Ballot) -> Ballot:
        return ballot if self.on("instance") else (ballot[0], 0)

    def first(self) -> State:
        count = self.world.stores
        zeros = (0,) * count
        source = self._began(Row(), FOUNDED) if self.world.founded else Row()
        store, attempt = Store((source, Row()), zeros), Attempt((None,) * count, zeros)
        return State(
            (store,) * count, (attempt,) * len(self.kinds), self.world.wipes, self.world.crashes
        )

    # What a store may do.

    def moves(self, state: State) -> Iterator[Move]:
        """Yield every move that is possible."""
        for index in range(len(self.kinds)):
            yield from self._moves_of_attempt(state, index)
        limbo = sum(store.limbo for store in state.stores)
        tolerated = self.world.stores - self.world.quorum
        voting = any(attempt.phase == PRE_VOTE for attempt in state.attempts)
        lapses = self.expires and not (voting and self.on("pre-vote: in time"))
        for name, store in enumerate(state.stores):
            if state.wipes and not store.limbo and limbo < tolerated:
                yield "wipe", name
            if state.crashes and not store.limbo:
                yield "crash", name
            if lapses and store.heard:
                yield "lapse", name
            if store.limbo and len(store.asked) >= self._enough():
                yield "leave", name
            for peer, other in enumerate(state.stores):
                if peer != name and not other.limbo:
                    yield from self._moves_between(name, store, peer, other)

    def _enough(self) -> int:
        full = max(self.world.quorum, self.world.blocking)
        return full if self.on("readmit: peers") else 1

    def _moves_between(self, name: int, store: Store, peer: int, other: Store) -> Iterator[Move]:
        if store.limbo:
            if peer not in store.asked:
                yield "ask", name, peer
            return
        if not self.world.forgets:
            return
        for which, (mine, yours) in enumerate(zip(store.rows, other.rows, strict=True)):
            if mine.begun and mine.begun.ended and peer not in mine.adopted_by:
                end = mine.begun.ballot
                has = yours.begun.generation >= end if yours.begun else yours.promised >= end
                if has or not self.on("forget: all"):
                    yield "note", name, peer, which

    def _newer(self, begun: Begun, row: Row) -> bool:
        return not row.begun or self.key(row.begun.ballot) < self.key(begun.ballot)

    def _moves_of_attempt(self, state: State, index: int) -> Iterator[Move]:
        attempt, kind = state.attempts[index], self.kinds[index]
        which = ROW_OF[kind]
        if attempt.phase == IDLE:
            epochs = {store.rows[which].promised[0] for store in state.stores if not store.limbo}
            yield from (("start", index, epoch + 1) for epoch in sorted(epochs))
            return
        if attempt.phase == PROMISE and self._decides(attempt):
            yield "decide", index, True
            if kind == "owner":
                yield "decide", index, False
        for name, store in enumerate(state.stores):
            if store.limbo:
                continue
            row = store.rows[which]
            free = self.key(row.promised) <= self.key(attempt.ballot)
            unheard = kind != "expiry" or store.heard <= 0
            if attempt.phase == PRE_VOTE and attempt.told[name] is None and unheard:
                yield "pre_vote", index, name
            elif attempt.phase == PROMISE and attempt.told[name] is None and free:
                if unheard or not self.on("pre-vote again") or not self.on("pre-vote"):
                    yield "promise", index, name
            elif attempt.phase == BEGIN and free:
                yield from self._moves_after_begin(state, index, name)

    def _decides(self, attempt: Attempt) -> bool:
        needed = self.world.blocking if self.on("blocking set") else 1
        return sum(told is not None for told in attempt.told) >= needed

    def _moves_after_begin(self, state: State, index: int, name: int) -> Iterator[Move]:
        attempt, store, kind = state.attempts[index], state.stores[name], self.kinds[index]
        row = store.rows[ROW_OF[kind]]
        if row.begun != attempt.begun or attempt.told[name] is None:
            assert attempt.begun
            if not row.begun or self.key(row.begun.ballot) <= self.key(attempt.ballot):
                yield "begin", index, name
            if kind == "owner" and not self.on("begun counts"):
                number = self.prefix(row, attempt.begun.lineage)
                if number < attempt.begun.lineage[-1][1] and self._content(state, attempt, number):
                    yield "take", index, name
            return
        if kind in ENDS:
            if row.held and attempt.complete:
                yield "erase", index, name
            if len(row.adopted_by) == self.world.stores - 1:
                yield "forget", index, name
        elif kind == "receiver":
            if self.position(row) < self.world.messages and self._streams(state, attempt):
                yield "acknowledge", index, name
        else:
            number = self.prefix(row)
            if number < self.world.messages and self._content(state, attempt, number):
                yield "take", index, name
            if self.expires and store.heard != index + 1:
                yield "live", index, name

    def _content(self, state: State, attempt: Attempt, number: int) -> bool:
        """Return whether the owner wrote the message, or a store has what the owner kept."""
        assert attempt.begun
        wanted = ballot_at(attempt.begun.lineage, number)
        return wanted == attempt.ballot or any(
            (number, wanted) in store.rows[SOURCE].held for store in state.stores
        )

    def _streams(self, state: State, receiver: Attempt) -> bool:
        """Return whether the generation of the source that the receiver opened has messages."""
        assert receiver.begun
        generations = {
            attempt.begun.generation
            for attempt, kind in zip(state.attempts, self.kinds, strict=True)
            if kind == "owner" and attempt.begun and attempt.complete
        }
        founded = {FOUNDED.generation} if self.world.founded else set[Ballot]()
        return receiver.begun.parent in generations | founded

    # What a row says.

    def belongs(self, lineage: tuple[tuple[Ballot, int], ...], number: int, ballot: Ballot) -> bool:
        return not self.on("lineage") or self.key(ballot_at(lineage, number)) == self.key(ballot)

    def prefix(self, row: Row, lineage: tuple[tuple[Ballot, int], ...] | None = None) -> int:
        """Return how many messages from 0 on the store holds of the stream."""
        if lineage is None:
            lineage = row.begun.lineage if row.begun else ()
        numbers = {number for number, ballot in row.held if self.belongs(lineage, number, ballot)}
        return next(number for number in range(len(numbers) + 1) if number not in numbers)

    def position(self, row: Row) -> int:
        """Return the receiver's position at the store."""
        if not row.begun or row.begun.ended:
            return 0
        ballot, start = row.begun.lineage[-1]
        return max([start, *(number for number, held in row.held if held == ballot)])

    # What a move does.

    def apply(self, state: State, move: Move) -> State:
        method: Callable[..., State] = getattr(self, "_" + move[0])
        return self._note_silence(method(state, *move[1:]))

    def _note_silence(self, state: State) -> State:
        """Record for each expiry under way that some stable set has not heard of an owner."""
        if not self.expires or self._living(state):
            return state
        attempts = (
            attempt._replace(unheard=True) if attempt.phase in (PRE_VOTE, PROMISE) else attempt
            for attempt in state.attempts
        )
        return state._replace(attempts=tuple(attempts))

    def _living(self, state: State) -> int:
        """Return the owner, as 1 + its index, that a stable set has heard of."""
        for index, attempt in enumerate(state.attempts):
            heard = sum(abs(store.heard) == index + 1 for store in state.stores)
            if attempt.complete and heard >= self.world.quorum:
                return index + 1
        return 0

    def _start(self, state: State, index: int, epoch: int) -> State:
        kind, attempt = self.kinds[index], state.attempts[index]
        after = max(
            (other.ballot for other, of in zip(state.attempts, self.kinds, strict=True)
             if of in ENDS and ROW_OF[of] == SOURCE and other.complete),
            default=NEVER,
        )  # fmt: skip
        phase = PRE_VOTE if kind == "expiry" and self.on("pre-vote") else PROMISE
        attempt = attempt._replace(phase=phase, ballot=(epoch, index), after=after)
        return state._replace(attempts=put(state.attempts, index, attempt))

    def _hear(self, state: State, index: int, name: int, said: Any) -> State:
        """Let the attempt take an answer, with the incarnations that the store knows."""
        attempt, known = state.attempts[index], state.stores[name].known
        told = put(attempt.told, name, (known[name], said))
        seen = tuple(map(max, attempt.seen, known))
        if self.on("readmit: incarnation"):
            told = tuple(
                answer if answer and answer[0] == newest else None
                for answer, newest in zip(told, seen, strict=True)
            )
        attempt = attempt._replace(told=told, seen=seen)
        if attempt.phase == BEGIN:
            attempt = self._count(attempt)
        return state._replace(attempts=put(state.attempts, index, attempt))

    def _count(self, attempt: Attempt) -> Attempt:
        """Return the attempt with what its acknowledgements make stable."""
        have = sorted((answer[1] for answer in attempt.told if answer), reverse=True)
        if len(have) < self.world.quorum:
            return attempt
        confirmed = max(attempt.confirmed, have[self.world.quorum - 1])
        return attempt._replace(confirmed=confirmed, complete=True)

    def _pre_vote(self, state: State, index: int, name: int) -> State:
        state = self._hear(state, index, name, True)
        attempt = state.attempts[index]
        if sum(told is not None for told in attempt.told) < self.world.blocking:
            return state
        attempt = attempt._replace(phase=PROMISE, told=(None,) * self.world.stores)
        return state._replace(attempts=put(state.attempts, index, attempt))

    def _set_row(self, state: State, name: int, which: int, row: Row) -> State:
        store = state.stores[name]
        store = store._replace(rows=put(store.rows, which, row))
        return state._replace(stores=put(state.stores, name, store))

    def _promise(self, state: State, index: int, name: int) -> State:
        attempt, kind, store = state.attempts[index], self.kinds[index], state.stores[name]
        if kind == "expiry" and not attempt.unheard:
            raise Broken("an expiry disturbs an owner that a stable set hears of")
        which = ROW_OF[kind]
        if self.on("promise"):
            row = store.rows[which]._replace(promised=attempt.ballot)
            state = self._set_row(state, name, which, row)
        if kind == "owner":
            state = self._live(state, index, name)
        return self._hear(state, index, name, store.rows)

    def _live(self, state: State, index: int, name: int) -> State:
        if not self.expires:
            return state
        store = state.stores[name]._replace(heard=index + 1)
        return state._replace(stores=put(state.stores, name, store))

    def _decide(self, state: State, index: int, highest: bool) -> State:
        attempt, kind = state.attempts[index], self.kinds[index]
        answers: list[tuple[Row, Row]] = [told[1] for told in attempt.told if told]
        if kind in ENDS:
            begun = self._end_of(attempt, kind, answers)
        elif kind == "owner":
            begun = self._stream_of(attempt, [rows[SOURCE] for rows in answers], highest)
        else:
            begun = self._position_of(attempt, answers)
        acknowledged = begun.lineage[-1][1] if kind == "receiver" else 0
        nothing = (None,) * self.world.stores
        attempt = attempt._replace(
            phase=BEGIN, begun=begun, told=nothing, acknowledged=acknowledged
        )
        return state._replace(attempts=put(state.attempts, index, attempt))

    def _newest(self, rows: list[Row]) -> Begun | None:
        begun = [row.begun for row in rows if row.begun]
        if not self.on("newest begin"):
            begun = [each for each in begun if not each.ended] or begun
            return max(begun, key=lambda each: (len(each.lineage), each.ballot), default=None)
        return max(begun, key=lambda each: self.key(each.ballot), default=None)

    def _end_of(self, attempt: Attempt, kind: str, answers: list[tuple[Row, Row]]) -> Begun:
        before = self._newest([rows[ROW_OF[kind]] for rows in answers])
        if before and not self.on("generation"):
            return before._replace(ballot=attempt.ballot, ended=True)
        return Begun(attempt.ballot, attempt.ballot, NEVER, ((attempt.ballot, 0),), True)

    def _stream_of(self, attempt: Attempt, rows: list[Row], highest: bool) -> Begun:
        """Return what an owner begins: the stream as far as it is kept, then its own ballot."""
        newest = self._newest(rows)
        lineage = newest.lineage if newest else ()
        have = [self.prefix(row, lineage) for row in rows]
        kept = max(have)
        if not highest:
            silent = self.world.stores - len(rows)
            while kept and sum(each >= kept for each in have) + silent < self.world.quorum:
                kept -= 1
            kept = kept if self.on("floor") else 0
        kept_lineage = tuple(each for each in lineage if each[1] < kept)
        generation = newest.generation if newest else attempt.ballot
        return Begun(
            attempt.ballot, generation, NEVER, (*kept_lineage, (attempt.ballot, kept)), False
        )

    def _position_of(self, attempt: Attempt, answers: list[tuple[Row, Row]]) -> Begun:
        """Return what a receiver begins: its generation, and where it starts."""
        stream = self._newest([rows[SOURCE] for rows in answers])
        parent = stream.generation if stream else NEVER
        rows = [rows[RECEIVER] for rows in answers]
        newest = self._newest(rows)
        same = [row for row in rows if newest and row.begun and row.begun.ballot == newest.ballot]
        if not self.on("position: newest"):
            same = rows
        start = max((self.position(row) for row in same), default=0)
        if newest and newest.parent != parent and self.on("position: parent"):
            start = 0
        if newest and newest.ended:
            start = 0
            if not self.on("position: end"):
                start = max([0, *(number for row in rows for number, _ in row.held)])
        generation = newest.generation if newest else attempt.ballot
        return Begun(attempt.ballot, generation, parent, ((attempt.ballot, start),), False)

    def _began(self, row: Row, begun: Begun) -> Row:
        """Return the row of a store that begins. An end leaves what is void until it is settled."""
        held = row.held
        if begun.ended and not self.on("settled end"):
            held = frozenset()
        elif not begun.ended and self.on("lineage"):
            held = frozenset(each for each in held if self.belongs(begun.lineage, *each))
        return Row(max(row.promised, begun.ballot), begun, held)

    def _said(self, kind: str, row: Row) -> int:
        if kind == "owner":
            return self.prefix(row)
        return self.position(row) if kind == "receiver" else 0

    def _begin(self, state: State, index: int, name: int) -> State:
        attempt, kind = state.attempts[index], self.kinds[index]
        which = ROW_OF[kind]
        if kind == "expiry" and 0 < self._living(state) and self._outlives(state, attempt):
            raise Broken("an owner that a stable set hears of loses its stream to an expiry")
        row = state.stores[name].rows[which]
        assert attempt.begun
        if row.begun != attempt.begun:
            row = self._began(row, attempt.begun)
            state = self._set_row(state, name, which, row)
        if kind == "owner":
            state = self._live(state, index, name)
        return self._hear(state, index, name, self._said(kind, row))

    def _outlives(self, state: State, expiry: Attempt) -> bool:
        return state.attempts[self._living(state) - 1].ballot < expiry.ballot

    def _take(self, state: State, index: int, name: int) -> State:
        attempt, row = state.attempts[index], state.stores[name].rows[SOURCE]
        assert attempt.begun
        lineage = attempt.begun.lineage
        number = self.prefix(row, lineage)
        held = row.held | {(number, ballot_at(lineage, number))}
        row = row._replace(held=held)
        state = self._set_row(self._live(state, index, name), name, SOURCE, row)
        return self._hear(state, index, name, self.prefix(row, lineage))

    def _acknowledge(self, state: State, index: int, name: int) -> State:
        attempt, row = state.attempts[index], state.stores[name].rows[RECEIVER]
        position = self.position(row) + 1
        row = row._replace(held=frozenset({(position, attempt.ballot)}))
        attempt = attempt._replace(acknowledged=max(attempt.acknowledged, position))
        state = state._replace(attempts=put(state.attempts, index, attempt))
        return self._hear(self._set_row(state, name, RECEIVER, row), index, name, position)

    def _erase(self, state: State, index: int, name: int) -> State:
        which = ROW_OF[self.kinds[index]]
        row = state.stores[name].rows[which]._replace(held=frozenset())
        return self._set_row(state, name, which, row)

    def _forget(self, state: State, index: int, name: int) -> State:
        which = ROW_OF[self.kinds[index]]
        row = state.stores[name].rows[which]
        fence = row.promised if self.on("forget: fence") else NEVER
        return self._set_row(state, name, which, Row(fence))

    def _note(self, state: State, name: int, peer: int, which: int) -> State:
        row = state.stores[name].rows[which]
        row = row._replace(adopted_by=row.adopted_by | {peer})
        return self._set_row(state, name, which, row)

    # Faults, and the way back.

    def _wipe(self, state: State, name: int) -> State:
        store = state.stores[name]
        known = put((0,) * self.world.stores, name, store.known[name] + 1)
        limbo = self.on("limbo")
        heard = store.heard if self.on("start is life") else -abs(store.heard)
        wiped = Store((Row(), Row()), known, limbo, frozenset(), heard)
        return state._replace(stores=put(state.stores, name, wiped), wipes=state.wipes - 1)

    def _crash(self, state: State, name: int) -> State:
        """Let a store start anew. Its disk has everything, unless a rule is left out."""
        store = state.stores[name]
        rows = tuple(self._lost_power(row) for row in store.rows)
        heard = store.heard if self.on("start is life") else -abs(store.heard)
        store = store._replace(rows=rows, heard=heard)
        return state._replace(stores=put(state.stores, name, store), crashes=state.crashes - 1)

    def _lost_power(self, row: Row) -> Row:
        if not self.on("durable instance"):
            row = row._replace(promised=(row.promised[0], -1))
        if not self.on("durable begin"):
            row = row._replace(begun=None)
        if not self.on("durable promise"):
            row = row._replace(promised=row.begun.ballot if row.begun else NEVER)
        return row

    def _lapse(self, state: State, name: int) -> State:
        store = state.stores[name]._replace(heard=0)
        return state._replace(stores=put(state.stores, name, store))

    def _ask(self, state: State, name: int, peer: int) -> State:
        """Let a store in limbo take what a peer says, and the peer note the new incarnation."""
        store, other = state.stores[name], state.stores[peer]
        rows = tuple(map(self._merged, store.rows, other.rows))
        known = tuple(map(max, store.known, other.known))
        store = store._replace(rows=rows, known=known, asked=store.asked | {peer})
        other = other._replace(known=put(other.known, name, store.known[name]))
        return state._replace(stores=put(put(state.stores, name, store), peer, other))

    def _merged(self, mine: Row, yours: Row) -> Row:
        begun = mine.begun
        if yours.begun and self._newer(yours.begun, mine) and self.on("readmit: begin"):
            begun = yours.begun
        promised = max(mine.promised, yours.promised)
        if not self.on("readmit: promise"):
            promised = begun.ballot if begun else NEVER
        held = mine.held | yours.held if self.on("readmit: fetch") else mine.held
        return Row(promised, begun, held)

    def _leave(self, state: State, name: int) -> State:
        store = state.stores[name]
        rows = tuple(self._began(row, row.begun)._replace(promised=row.promised) if row.begun else row for row in store.rows)  # fmt: skip
        store = store._replace(rows=rows, limbo=False, asked=frozenset())
        return state._replace(stores=put(state.stores, name, store))
