"""Stories of stores that are away, come back, or lost what they had."""

from __future__ import annotations

from tests.transcripts.stage import Stage

ACTIVITY_SECONDS = 1.0
"""Seconds after its last sign of life for which stores protect a source."""


def store_away_and_repaired(stage: Stage) -> None:
    """A store was away for longer than the source keeps messages. Its peers fill it.

    The source keeps stable messages for a bounded stretch only. The store takes the stream from
    there on, and has a hole below. Repair closes the hole.
    """
    stage.open_with("a", "b", "c")
    x = stage.registered("x", retention_bytes_max=0)
    stage.say("The source x has registered with the stores a, b and c, in epoch 1. c crashes.")
    stage.crash("c")
    stage.say("A message is published, and another one. x lets go of each when it is stable.")
    stage.publish(x, "zero")
    stage.publish(x, "one")
    stage.say("c is back.")
    stage.start("c")
    stage.until(lambda: stage.holds("c", 0) and stage.holds("c", 1))
    stage.wait(1.0)


def three_blank_stores_found_a_group(stage: Stage) -> None:
    """Three new stores found a group once each has heard that all others are blank.

    A store with an empty data directory cannot know whether it is new, or has lost everything. So
    it is in limbo until it knows.
    """
    stage.tell_of_peers()
    stage.place_stores("a", "b", "c")
    stage.say("The stores a, b and c start with empty data directories.")
    stage.start("a", "b", "c")
    stage.until(lambda: all(map(stage.serves, "abc")))


def wiped_store_returns(stage: Stage) -> None:
    """A store comes back without its data. It is in limbo until it has heard enough of its peers.

    In limbo it promises, begins and takes nothing. It leaves limbo once it knows every promise and
    holds everything that may be stable. What the lost directory acknowledged counts no more.
    """
    stage.open_with("a", "b", "c")
    x = stage.registered("x")
    stage.say("The source x has registered with the stores a, b and c, in epoch 1.")
    stage.publish(x, "zero", "one")
    stage.wait(1.0)  # The stores are told that it is stable.
    stage.say("c crashes, and loses its data directory. It is started again.")
    stage.tell_of_peers()
    stage.wipe("c")
    stage.start("c")
    stage.until(lambda: stage.serves("c") and stage.begun("c") == 1)
    stage.say("A message is published.")
    stage.publish(x, "two")


def operator_accepts_a_loss(stage: Stage) -> None:
    """Two stores of three lose their data. An operator says what is lost, and the stream goes on.

    a was told that 2 is stable, and has 0 only. The two blank stores are no quorum with each
    other: nothing starts over, and the source does not register. It names what is missing. A
    receiver is told of the gap.
    """
    stage.open_with("a", "b", "c")
    x = stage.registered("x", retention_bytes_max=0, activity_timeout=ACTIVITY_SECONDS)
    stage.say("The source x has registered with the stores a, b and c, in epoch 1.")
    stage.publish(x, "zero")
    stage.say("a crashes. Two more messages are published.")
    stage.crash("a")
    stage.wait()
    stage.publish(x, "one", "two")
    stage.say("a is back, and hears what is stable. Then x crashes.")
    stage.start("a")
    stage.until(lambda: stage.told_stable("a") == 2, is_exact=True)
    stage.crash("x")
    stage.say("b and c lose their data directories, and are started again. y starts.")
    stage.wipe("b", "c")
    stage.start("b", "c")
    stage.wait(ACTIVITY_SECONDS)
    y = stage.source("y")
    stage.wait(3.0)
    stage.say("An operator has b and c go on with what they have, which is nothing.")
    stage.accept_loss("b", "c", reason="both disks are gone")
    stage.until(lambda: y.error is not None)
    stage.say("An operator accepts that 1 and 2 are lost. z starts.")
    stage.accept_loss("a", "b", "c", lost=(1, 2), reason="both disks are gone")
    z = stage.source("z")
    stage.until(lambda: z.is_registered)
    stage.say("A message is published. Then the receiver r starts.")
    stage.publish(z, "three")
    r = stage.receiver("r")
    stage.until(lambda: r.taken_upto == 3)


def store_that_keeps_state_only(stage: Stage) -> None:
    """One store of three keeps no messages. It promises, begins, and keeps positions.

    What is stable is on both others. While one of them is away nothing becomes stable. A source
    that starts then hears enough to begin: c says that it holds nothing, and that is true. But
    it takes no messages before the other one is back.
    """
    stage.open_with("a", "b", "c", state_only="c")
    x = stage.registered("x", activity_timeout=ACTIVITY_SECONDS)
    stage.say("The source x has registered with the stores a, b and c, in epoch 1.")
    stage.publish(x, "zero")
    stage.say("x is cut off from b, and publishes.")
    mend = stage.cut("x", "b")
    stage.publish(x, "one")
    stage.say("x and b crash. The next instance of the source is y.")
    stage.crash("x", "b")
    mend()
    stage.wait(ACTIVITY_SECONDS)
    y = stage.source("y")
    stage.until(lambda: stage.begun("a") == 2)
    stage.say("b is back.")
    stage.start("b")
    stage.until(lambda: y.is_registered and y.stable_upto == 1)


STORIES_OF_STORES = (
    store_away_and_repaired,
    three_blank_stores_found_a_group,
    wiped_store_returns,
    operator_accepts_a_loss,
    store_that_keeps_state_only,
)
