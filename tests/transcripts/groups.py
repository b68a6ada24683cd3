"""A scenario with stores at several places."""

from __future__ import annotations

from tests.simulation.rules import Party, Setup
from tests.transcripts.stage import Stage

PLACES = ("north", "south", "west")


def group_away_and_back() -> Stage:
    """A group of stores at each of three places; a message has to be at two of the places.

    Of a group two stores are enough. One place goes down, and one store of another: what is sent is
    stable nevertheless. With one more of these no message can be stable, and none is taken, until
    the first place is back. Its stores are given what they missed.
    """
    groups = [Party(place, tuple(f"{place}{number}" for number in (1, 2, 3))) for place in PLACES]
    setup = Setup(tuple(groups), "majority")
    stage = Stage(setup.stores, [setup])
    source = stage.source_as_ever()
    stage.send(source)
    stage.until(stage.holds("west3", 0))
    stage.settle()
    stage.say("The west loses power.")
    stage.crash("west1", "west2", "west3")
    stage.settle()
    stage.send(source)
    stage.until(stage.stable(source, 1))
    stage.settle()
    stage.say("So does south1.")
    stage.crash("south1")
    stage.settle()
    stage.send(source)
    stage.until(stage.stable(source, 2))
    stage.settle()
    stage.say("And south2: no message can be at two places any more.")
    stage.crash("south2")
    stage.settle()
    stage.say(str(source.core.refusal()))
    stage.say("The west is back.")
    stage.start("west1", "west2", "west3")
    stage.until(lambda: source.core.complete)
    stage.send(source)
    stage.until(stage.stable(source, 3))
    stage.until(stage.holds("west3", 3))
    stage.settle(0.3)
    return stage
