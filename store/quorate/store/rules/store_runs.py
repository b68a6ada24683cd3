"""The runs of a store, one for each start, and what they say of its directory; pure.

The runs show whether a directory can be the one that a peer has met. The consequences are in
quorate.store.rules.store_identity.
"""

from __future__ import annotations

from collections.abc import Sequence

from quorate.store.storage.records import (
    StoreRun,
)
from quorate.v1 import store_pb2 as store_v1

RUNS_MAX = 128
"""The count of last starts of which a store knows the run.

A directory that was put back is found out within so many starts. It lacks a run that a peer has
met, or made fewer commits in it.
"""


def run_to_wire(run: StoreRun) -> store_v1.StoreRun:
    return store_v1.StoreRun(drawn=run.drawn, commits_before=run.commits_before)


def run_from_wire(run: store_v1.StoreRun) -> StoreRun:
    return StoreRun(run.drawn, run.commits_before)


def contradiction(known: store_v1.Greeting, starts: int, runs: Sequence[StoreRun]) -> str:
    """Why a directory is not what a peer has known, but a copy of it, or was put back; empty: it
    may be.

    starts: how often it was started, last as these runs, of which there is one at least. Both say
    that they are of the same incarnation.
    """
    if runs[-1].drawn == known.run.drawn:
        return ""
    if known.starts >= starts:
        return (
            f"its directory says that it was started {starts} times, and a peer has seen "
            f"{known.starts} starts: it is a copy, or was put back"
        )
    ago = starts - known.starts
    if not _was_through(known, ago, runs):
        return (
            f"a peer has met its start {known.starts}, and that was another one than its directory "
            "has seen: it is a copy, or was put back"
        )
    later = _later(ago, runs)
    if known.commits > later[0].commits_before:
        return (
            f"its directory had {later[0].commits_before} commits when its start "
            f"{starts + 1 - len(later)} began, and a peer knew of {known.commits} before: it is a "
            "copy, or was put back"
        )
    return ""


def _was_through(known: store_v1.Greeting, ago: int, runs: Sequence[StoreRun]) -> bool:
    """Whether the run that a peer has met, so many starts ago, may be the directory's own.

    What was drawn at starts that are longer ago nobody knows any more.
    """
    return ago >= len(runs) or runs[-1 - ago].drawn == known.run.drawn


def _later(ago: int, runs: Sequence[StoreRun]) -> Sequence[StoreRun]:
    """Return the known runs after that one. The first says how many commits there were before it.

    If the next runs are forgotten, the run may have ended with fewer commits, never with more.
    Commits that a peer knew of stay. So no directory is found out wrongly.
    """
    return runs[-ago:]
