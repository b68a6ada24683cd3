"""Scenarios in which the stores of a source change, by its configuration or by themselves."""

from __future__ import annotations

from tests.simulation.rules import Party, Setup, majority_of
from tests.transcripts.stage import Stage

FOUR = ("store1", "store2", "store3", "store4")
SIX = (*FOUR, "store5", "store6")


def store_replaced() -> Stage:
    """store4 takes the place of store3 in the configuration of a source that starts again.

    Until what was kept is stable under the new policy both policies make things stable; then the
    source goes to its own alone, and has the stores forget where the record came from.
    """
    stage = Stage(FOUR, [majority_of(FOUR[:3]), majority_of(("store1", "store2", "store4"))])
    source = stage.source_as_ever()
    stage.send(source)
    stage.until(stage.holds("store3", 0))
    stage.settle()
    stage.say("The source is stopped and configured with store1, store2 and store4.")
    source.kill()
    stage.settle(0.1)
    again = stage.registered_source(configured=1)
    stage.until(stage.holds("store4", 0))
    stage.send(again)
    stage.until(stage.stable(again, 1))
    stage.settle(0.3)
    return stage


def all_stores_moved() -> Stage:
    """A source is configured with three other stores, and names where it was before.

    Nobody of the new ones knows the stream: it is found because the predecessor is named.
    """
    stage = Stage(SIX, [majority_of(SIX[:3]), majority_of(SIX[3:])])
    source = stage.source_as_ever()
    stage.send(source, 2)
    stage.until(stage.stable(source, 1))
    stage.settle()
    stage.say("The source is stopped and configured with store4, store5 and store6.")
    source.kill()
    stage.settle(0.1)
    again = stage.registered_source(configured=1)
    stage.settle(0.3)
    stage.say("The old stores are switched off.")
    stage.crash(*SIX[:3])
    stage.send(again)
    stage.until(stage.stable(again, 2))
    stage.settle()
    return stage


def backup_steps_in_and_back() -> Stage:
    """A store is away for longer than the source waits: its backup stands in until it is back."""
    stage = Stage(FOUR, [Setup((Party("stores", FOUR[:3], backups=("store4",)),))])
    source = stage.source_as_ever(backup_after=0.5)
    stage.send(source)
    stage.until(stage.holds("store3", 0))
    stage.settle()
    stage.say("store3 loses power.")
    stage.crash("store3")
    stage.until(stage.holds("store4", 0))
    stage.send(source)
    stage.until(stage.holds("store4", 1))
    stage.settle(0.3)
    stage.say("store3 is back.")
    stage.start("store3")
    stage.until(stage.holds("store3", 1))
    stage.settle(1.0)
    return stage


CHANGES = (store_replaced, all_stores_moved, backup_steps_in_and_back)
