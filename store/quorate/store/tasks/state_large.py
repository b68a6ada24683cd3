"""The writing and removing of large rows, part by part, for the maker of rows and its sweep.

What is written is decided in quorate.store.storage.large_rows. The maker and the sweep take turns,
so parts that are being written are never taken for parts of no use.
"""

from __future__ import annotations

from functools import partial

from quorate.store.engine import Engine
from quorate.store.storage.interface import Write
from quorate.store.storage.large_rows import (
    LargeRow,
    Note,
    is_of_no_use,
    large_row,
    notes_of_row,
    notes_of_topic,
)
from quorate.store.storage.state_records import Candidate
from quorate.store.tasks.executor import Apart


class LargeRows:
    """The large rows of one store."""

    def __init__(self, engine: Engine, apart: Apart) -> None:
        """apart: runs what reads rows."""
        self._engine = engine
        self._apart = apart

    async def write(self, prefix: bytes, key: bytes, candidate: Candidate) -> list[Write]:
        """Write the payload of a candidate, and return the rows that are to be committed with it.

        They are its row, and the removal of the payloads that the row had before. Raises
        StorageFailed, Malformed.
        """
        made, former = await self._apart(partial(self._made, prefix, key, candidate))
        await self._commit([made.note])
        for part in made.parts:
            await self._commit([part])
        return [made.row, *(each for note in former for each in note.removal())]

    def _made(self, prefix: bytes, key: bytes, candidate: Candidate) -> tuple[LargeRow, list[Note]]:
        made = large_row(prefix, key, candidate)
        notes = notes_of_row(self._engine.reads, made.row.key)
        return made, [note for note in notes if note.key != made.note.key]

    async def sweep(self, prefix: bytes) -> bool:
        """Remove the payloads of a topic that have no row; return whether others are left.

        Raises StorageFailed, Malformed.
        """
        useless, are_left = await self._apart(partial(self._useless, prefix))
        for note in useless:
            await self._commit(note.removal())
        return are_left

    def _useless(self, prefix: bytes) -> tuple[list[Note], bool]:
        reads = self._engine.reads
        notes = list(notes_of_topic(reads, prefix))
        useless = [note for note in notes if is_of_no_use(reads, note)]
        return useless, len(useless) < len(notes)

    async def _commit(self, rows: list[Write]) -> None:
        writer = self._engine.writer
        await writer.durable(writer.submit(rows, sync=False))
