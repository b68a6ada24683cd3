"""Guards that are taken out of the code that ships, and the worlds in which that is missed.

How most of them are taken out is said in `tests.simulation.test_mutations`. Those that need a part
of this world are here. Nothing in production knows of it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests import seams
from tests.simulation import test_mutations, test_scripts
from tests.world.channel import Call
from tests.world.checker import Violated
from tests.world.disk import Disk, WorldWriter
from tests.world.weather import USUAL, Weather, run_world
from tests.world.world import Stuck

from quorate.protocol.errors import StorageFailed
from quorate.store.storage.group_commit import Writer

Patch = Callable[[pytest.MonkeyPatch], None]


@dataclass(frozen=True)
class Mutation:
    """A guard taken out, and the weather in which it is missed soonest."""

    patch: Patch
    weather: Weather = USUAL
    seeds: int = 20
    """In so many worlds at most."""
    first: int = 0

    def __str__(self) -> str:
        return self.patch.__name__.strip("_")


def first_found(mutation: Mutation, directory: Path) -> tuple[int, str] | None:
    """Return the first seed in whose world something is violated, and what; None: none is."""
    for seed in range(mutation.first, mutation.first + mutation.seeds):
        try:
            run_world(seed, directory / str(seed), mutation.weather)
        except (Violated, Stuck) as violated:
            return seed, str(violated)
    return None


def _acknowledged_before_the_sync(to: pytest.MonkeyPatch) -> None:
    """A store acknowledges what is written, and syncs it a moment later."""

    def commit(self: WorldWriter, commit: Any) -> None:
        syncs, commit.sync = commit.sync, False
        Writer._commit(self, commit)
        if syncs:
            self._loop.call_later(self.random.uniform(0.0, 0.1), sync, self._storage)

    def sync(disk: Any) -> None:
        with contextlib.suppress(StorageFailed):
            disk.sync()

    to.setattr(WorldWriter, "_commit", commit)


def _failed_syncs_are_tried_again(to: pytest.MonkeyPatch) -> None:
    """A store goes on after a failed sync, which has lost what was to be synced."""

    def commit(self: WorldWriter, commit: Any) -> None:
        disk = self._storage
        assert isinstance(disk, Disk)
        try:
            Writer._commit(self, commit)
        except StorageFailed:
            disk.drop_unsynced()

    to.setattr(WorldWriter, "_commit", commit)


def _gaps_are_taken(to: pytest.MonkeyPatch) -> None:
    """A store takes a batch that does not go on where the last one ended, and frames get lost."""
    real = Call.up

    def up(self: Call, message: bytes | None) -> None:
        chance = self.connection.random
        if message is None or not self.method.endswith("Append") or chance.random() > 0.02:
            real(self, message)

    def check_next(self: Any, stream: Any, header: Any) -> None:
        self._check_open(stream)
        stream.expected = header.first

    to.setattr(Call, "up", up)
    seams.SOURCE_STREAMS_CHECK_NEXT.replace(to, check_next)


_SHARED = {str(each): each.patch for each in test_mutations.MUTATIONS}
_SHARED |= {str(each): each.patch for each in test_scripts.GUARDS}

OWN = (_acknowledged_before_the_sync, _failed_syncs_are_tried_again, _gaps_are_taken)


def patch_of(name: str) -> Patch:
    """Return how this guard is taken out."""
    own = {patch.__name__.strip("_"): patch for patch in OWN}
    return own.get(name) or _SHARED[name]
