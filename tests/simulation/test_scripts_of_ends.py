"""Streams that were deleted, as their time was over, while somebody still works on them.

Scripted worlds like those of quorate's tests.simulation.test_scripts: each goes its way with a
guard and without it.
"""

from __future__ import annotations

import pytest
from tests.simulation.endings import Mortality
from tests.simulation.guards import Guard
from tests.simulation.script import Script
from tests.simulation.source_actor import SourceInstance
from tests.simulation.test_scripts import ALL, A, B, C, _begin

from quorate.protocol.errors import SourceDeleted
from quorate.source import registration
from quorate.source.registration import Registration
from quorate.store import core
from quorate.store.lifetimes import Lifetimes

MORTAL = {"mortality": Mortality(Lifetimes(0.0, 20.0))}


def _until_deleted(script: Script) -> None:
    """Every store has deleted the source, and vouches for that."""

    def settled(store: str) -> bool:
        return script.checker.source in script.stores[store].core.identities.settled

    script.until(lambda: all(map(settled, ALL)))


def _until_told(script: Script, source: SourceInstance) -> None:
    """Its application hears that there is nothing any more to go on with, and begins anew."""
    script.until(lambda: isinstance(source.core.error, SourceDeleted))
    script.restart_source()


def _ends_are_not_told(to: pytest.MonkeyPatch) -> None:
    """A source takes what was deleted for what is missing, and may be found yet."""
    to.setattr(registration, "ended_upto", lambda _: 0)


def _cut_off_while_all_is_deleted(script: Script) -> None:
    """The source lives, and reaches no store until its state lifetime is over."""
    _begin(script)
    free = script.cut("source1", *ALL)
    _until_deleted(script)
    free()
    _until_told(script, script.source)


def _begins_go_on_with_what_was_deleted(to: pytest.MonkeyPatch) -> None:
    """A store begins whatever was decided, also before it deleted the stream.

    A source that hears of the end decides anew by itself, so that this matters only for what it has
    sent before: both are taken out together.
    """
    to.setattr(core, "check_not_ended", lambda *_: None)
    to.setattr(Registration, "_was_decided_without", lambda *_: False)


def _decided_before_all_is_deleted(script: Script) -> None:
    """The second source has decided by what A and B promised. All three delete the stream before
    they hear of that, and then only C does, which promises as well."""
    _begin(script)
    script.source.kill()
    second = script.start_source(C)
    script.until_decided(second, lambda: script.cut("source2", *ALL))
    _until_deleted(script)
    assert second.core.epoch == 2, "it has not given up yet"
    script.network.heal()
    script.cut("source2", A, B)
    script.until(lambda: script.knows(C) and script.promised(C) == 2)
    script.run(0.1)
    script.network.heal()
    _until_told(script, second)


GUARDS = (
    Guard(_ends_are_not_told, _cut_off_while_all_is_deleted, "I6", MORTAL),
    Guard(
        _begins_go_on_with_what_was_deleted,
        _decided_before_all_is_deleted,
        "I6",
        {**MORTAL, "outlives": True},
    ),
)
