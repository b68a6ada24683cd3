"""What stores look for by themselves in what they have: rot by reading it, and by comparing it with
what peers have.

As in quorate's tests.simulation.test_mutations and test_scripts: each guard is taken out.
"""

from __future__ import annotations

import pytest
from tests import seams
from tests.simulation.checker import Checker
from tests.simulation.circumstances import THREE
from tests.simulation.guards import Guard, Mutation, missed
from tests.simulation.script import Script
from tests.simulation.simulation import CHECK_SECONDS, SOURCE
from tests.simulation.store_upkeep import COMPARE_ALL_SECONDS
from tests.simulation.test_mutations import _other_content
from tests.simulation.test_scripts import ALL, A, B, C, _begin

from quorate.protocol.framing import check_batch
from quorate.protocol.ranges import Range, RangeSet
from quorate.store.storage.index import entries
from quorate.store.storage.interface import (
    Table,
    Write,
)
from quorate.store.storage.records import (
    index_key,
    pack_index,
    position_key,
)
from quorate.v1 import messages_pb2 as v1


def _nobody_scrubs(to: pytest.MonkeyPatch) -> None:
    """A store never reads what nobody asks it for."""

    async def check(*_: object) -> int:
        return 0

    seams.SCRUB_CHECK.replace(to, check)


def _digests_always_agree(to: pytest.MonkeyPatch) -> None:
    """Whoever compares finds no difference."""
    seams.DIGEST_DIFFERING.replace(to, lambda *_: [])


def all_have_three(script: Script) -> None:
    """Three messages that all stores have, and know to be stable."""
    _begin(script)
    for _ in range(2):
        script.send(*ALL)
    script.until(lambda: all(script.state(store).held.stable_upto == 2 for store in ALL))


def _a_row_of_the_index_is_lost(script: Script) -> None:
    """B does not know any more where it has 1. Nobody asks B for it, and nothing is damaged that is
    read."""
    all_have_three(script)
    assert script.checker.tolerates(B)
    script.checker.destroys(B)
    key = index_key(script.state(B).reg_id, 1)
    script.stores[B].disk.plant([Write(Table.INDEX, key, None)])
    assert not script.has(B, 1)


MUTATIONS = (Mutation(_nobody_scrubs, {"kinds": ("flip_bit",), **THREE}, ("I6",), 20),)
GUARDS = (Guard(_digests_always_agree, _a_row_of_the_index_is_lost, "I6", {"lets_go": False}),)


@pytest.mark.parametrize("mutation", MUTATIONS, ids=str)
def test_a_guard_that_is_taken_out_is_missed(
    mutation: Mutation, monkeypatch: pytest.MonkeyPatch
) -> None:
    missed(mutation, monkeypatch)


def plant_other_content(script: Script, store: str, sequence: int) -> list[Write]:
    """The store has a sound batch with other content under that number; returns its rows."""
    actor, state = script.stores[store], script.state(store)
    rows = actor.disk.synced
    (entry,) = entries(rows, state.reg_id, sequence, sequence)
    key = position_key(entry.position)
    (batch,) = rows.get(Table.JOURNAL, [key])
    assert batch is not None
    other = v1.Frame.FromString(_other_content(v1.Frame(batch=batch).SerializeToString())).batch
    header = check_batch(other)
    assert header.source == SOURCE
    assert header.checksum != entry.checksum
    row = pack_index(entry.position, entry.last, entry.epoch, header.checksum)
    writes = [
        Write(Table.JOURNAL, key, other),
        Write(Table.INDEX, index_key(state.reg_id, entry.first), row),
    ]
    actor.disk.plant(writes)
    return writes


@pytest.mark.expects_log("hold other content for")
def test_other_content_that_is_stable_is_told_of_by_whoever_compares(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is for people to say which one is right: nothing is repaired, so that only this tells."""
    told: list[tuple[str, str, list[Range]]] = []

    def compared(_: Checker, store: str, peer: str, divergent: RangeSet) -> None:
        if divergent:
            told.append((store, peer, list(divergent)))

    monkeypatch.setattr(Checker, "compared", compared)

    def tell() -> list[tuple[str, str, list[Range]]]:
        told.clear()
        script = Script(0, {"lets_go": False})
        all_have_three(script)
        script.run(2 * CHECK_SECONDS)  # the checker looks at what is new: this is not any more
        plant_other_content(script, B, 1)
        script.run(2 * COMPARE_ALL_SECONDS)
        return told

    assert {(A, B), (B, A), (B, C), (C, B)} == {(store, peer) for store, peer, _ in tell()}
    assert all(found == [Range(1, 1)] for _, _, found in told)
    _digests_always_agree(monkeypatch)
    assert tell() == []
