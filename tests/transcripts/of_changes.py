"""Stories in which the stores of a source change, and of stores at several places."""

from __future__ import annotations

from tests.transcripts.stage import Stage

from quorate.protocol.layout import Layout


def all_stores_moved(stage: Stage) -> None:
    """A source is configured with three other stores, and names those where it was before.

    No new store knows the stream. The source finds it because it names the former stores. First a
    message must be stable at both: [abc, def] stands for that. Once the new stores hold everything
    they are enough, and the source confirms the change: the epoch counts.
    """
    old, new = ("a", "b", "c"), ("d", "e", "f")
    stage.open_with(*old, *new)
    x = stage.registered("x", old, activity_timeout=1.0)
    stage.say("The source x has registered with the stores a, b and c, in epoch 1.")
    stage.publish(x, "zero")
    stage.say("x is stopped. y is configured with d, e and f, and names a, b and c.")
    stage.crash("x")
    stage.wait(1.0)
    y = stage.source("y", new, previous=[old])
    stage.until(lambda: y.stable_upto == 0, is_exact=True)
    stage.say("y asks again for its promise, and so learns that d, e and f hold everything.")
    stage.until(lambda: stage.begun("d") == 3 and y.is_registered)
    stage.say("The former stores are switched off.")
    stage.crash(*old)
    stage.publish(y, "one")


def backup_steps_in_and_back(stage: Stage) -> None:
    """A store is away for longer than the source waits. A backup stands in until it is back.

    The source changes its stores by way of both policies: from [abc] to [abc, abd], where a message
    must be stable at both, and on to [abd]. Then it goes the same way back.
    """
    stage.open_with("a", "b", "c", "d")
    layout = Layout.of(stage.group("stores", "a", "b", "c", backups=["d"]))
    x = stage.registered("x", layout, backup_after=1.0)
    stage.say("The source x has registered with the stores a, b and c. d is their backup.")
    stage.publish(x, "zero")
    stage.say("c crashes. After a while x takes d in.")
    stage.crash("c")
    stage.until(lambda: stage.begun("d") == 2, is_exact=True)
    stage.wait(0.05)
    stage.say("x asks again for its promise, and so learns that a and b hold everything.")
    stage.until(lambda: stage.begun("d") == 3 and x.is_registered)
    stage.until(lambda: stage.holds("d", 0))
    stage.say("A message is published.")
    stage.publish(x, "one")
    stage.say("c is back, and gets the message.")
    stage.start("c")
    stage.until(lambda: stage.holds("c", 1), is_exact=True)
    stage.wait(0.05)
    stage.say("x gives c its place back.")
    stage.until(lambda: stage.begun("c") == 5 and x.is_registered)


def group_away_and_back(stage: Stage) -> None:
    """A group of stores is at each of three places. A message must be at two of the places.

    Two stores of a group are enough. One place goes down, and one store of another: messages are
    stable nevertheless. Without one more store none is taken, until the first place is back.
    """
    groups = {place: tuple(f"{place}{number}" for number in (1, 2, 3)) for place in "nsw"}
    stage.open_with(*(store for stores in groups.values() for store in stores))
    of_places = [stage.group(place, *stores) for place, stores in groups.items()]
    x = stage.registered("x", Layout.of(*of_places, rule="majority"))
    stage.say("Groups n, s and w have three stores each. The source x has registered with all.")
    stage.publish(x, "zero")
    stage.say("The stores of w crash, and s1. A message is published.")
    stage.crash("w1", "w2", "w3", "s1")
    stage.wait()
    stage.publish(x, "one")
    stage.say("s2 crashes. No message can be at two places any more.")
    stage.crash("s2")
    stage.wait()
    stage.publish(x, "two")
    stage.say("The stores of w are back. The message is published again.")
    stage.start(*groups["w"])
    stage.until(lambda: x.is_registered)
    stage.publish(x, "two")


STORIES_OF_CHANGES = (all_stores_moved, backup_steps_in_and_back, group_away_and_back)
