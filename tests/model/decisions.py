"""Conclusions from rows: the messages that a store holds, and the decision of an attempt.

Moves and messages do not live here, but in `rules.py`.
"""

from __future__ import annotations

from tests.model.state import (
    ENDS,
    NEVER,
    RECEIVER,
    ROW_OF,
    RULES,
    SOURCE,
    Attempt,
    Ballot,
    Begun,
    Row,
    World,
    ballot_at,
)


class Decisions:
    """The decisions in a world under all rules but those left out."""

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

    def said(self, kind: str, row: Row) -> int:
        if kind == "owner":
            return self.prefix(row)
        return self.position(row) if kind == "receiver" else 0

    def newer(self, begun: Begun, row: Row) -> bool:
        return not row.begun or self.key(row.begun.ballot) < self.key(begun.ballot)

    def began(self, row: Row, begun: Begun) -> Row:
        """Return the row of a store that begins. An end leaves what is void until it is settled."""
        held = row.held
        if begun.ended and not self.on("settled end"):
            held = frozenset()
        elif not begun.ended and self.on("lineage"):
            held = frozenset(each for each in held if self.belongs(begun.lineage, *each))
        return Row(max(row.promised, begun.ballot), begun, held)

    def decided(
        self, attempt: Attempt, kind: str, answers: list[tuple[Row, Row]], highest: bool
    ) -> Begun:
        """Return what an attempt begins after these answers."""
        if kind in ENDS:
            return self._end_of(attempt, kind, answers)
        if kind == "owner":
            return self._stream_of(attempt, [rows[SOURCE] for rows in answers], highest)
        return self._position_of(attempt, answers)

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
