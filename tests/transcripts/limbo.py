"""Scenarios with stores that lost their data, and with stores that never had any."""

from __future__ import annotations

from tests.transcripts.stage import Stage

THREE = ("store1", "store2", "store3")


def wiped_store_returns() -> Stage:
    """A store comes back without its data: it is in limbo until it has heard enough of its peers.

    Meanwhile it promises, begins and takes nothing. Then it knows every promise and holds all that
    may be stable; what the source was told by the one before it counts no more.
    """
    stage = Stage()
    source = stage.source_as_ever()
    stage.send(source, 2)
    stage.until(stage.holds("store3", 1))
    stage.settle(0.6)
    stage.say("store3 loses its disk, and comes back with an empty one.")
    stage.wipe("store3")
    stage.start("store3")
    stage.until(lambda: not stage.in_limbo("store3"))
    stage.send(source)
    stage.until(stage.holds("store3", 2))
    stage.settle()
    return stage


def three_blank_stores_found_a_group() -> Stage:
    """Three new stores found a group once each has heard that all the others are blank."""
    stage = Stage(founds=False)
    stage.until(lambda: not any(map(stage.in_limbo, THREE)))
    stage.settle()
    return stage


def two_wiped_stores_of_three_stall() -> Stage:
    """Two stores without their data form no quorum with each other: nothing is started over.

    What the third has counts; what it lacks may have been stable on the other two. An operator has
    to say what is lost.
    """
    stage = Stage()
    source = stage.source_as_ever()
    stage.send(source, 2)
    stage.until(stage.holds("store3", 1))
    stage.settle(0.6)
    stage.kill(source)
    stage.say("store2 and store3 lose their disks, and come back with empty ones.")
    stage.wipe("store2", "store3")
    stage.start("store2", "store3")
    again = stage.source()
    stage.settle(1.5)
    assert not again.core.complete
    stage.say(str(again.core.registration.unfinished()))
    return stage


def operator_accepts_a_loss() -> Stage:
    """What was stable on two stores that lost their data is gone; an operator says so, and where.

    store1 was told that 9 is stable, and has 0 only. Registration names what it lacks and goes on
    by nobody's leave but an operator's. A receiver is told of the gap.
    """
    stage = Stage()
    source = stage.source_as_ever(retention_bytes=300)
    stage.send(source)
    stage.until(stage.holds("store3", 0))
    stage.say("store1 loses power, and is back when the source has let go of what it missed.")
    stage.crash("store1")
    for upto in (3, 6, 9):
        stage.send(source, 3)
        stage.until(stage.stable(source, upto))
        stage.settle()
    stage.start("store1")
    stage.until(lambda: stage.told_stable("store1") == 9)
    stage.kill(source)
    stage.say("store2 and store3 lose their disks, and come back with empty ones.")
    stage.wipe("store2", "store3")
    stage.start("store2", "store3")
    again = stage.source()
    stage.settle(0.5)
    stage.say(str(again.core.registration.unfinished()))
    stage.say("An operator has store2 go on with what it has, which is nothing.")
    stage.leave_limbo("store2", "its disk is gone")
    stage.settle(1.0)
    stage.say(str(again.core.registration.unfinished()))
    stage.say("An operator accepts on store1 that 1 to 9 are lost.")
    stage.accept_loss("store1", 1, 9, "both disks are gone")
    stage.until(lambda: again.core.complete)
    stage.send(again)
    stage.until(stage.stable(again, 10))
    receiver = stage.receiver()
    stage.until(stage.has_taken(receiver, 10))
    stage.settle(0.3)
    return stage


def directory_put_back_from_a_copy() -> Stage:
    """A store that has forgotten what it once said is found out by whoever it said it to.

    store3 and store2 have 1 and 2, which are stable so; store1 was away. store3 is put back from a
    copy that has neither, and store2 is away. If the other two were believed the messages would be
    lost. But store1 has met store3 since the copy was made. Once store2 has given it everything
    store3 vouches again.
    """
    stage = Stage()
    source = stage.source_as_ever()
    stage.send(source)
    stage.until(stage.holds("store3", 0))
    stage.settle(0.3)
    stage.say("The host of store3 is stopped, its data directory is copied, and it is started.")
    stage.crash("store3")
    copy = stage.copy("store3")
    stage.start("store3")
    stage.until(lambda: "store3" in source.core.streams.open_stores())
    stage.settle(0.3)
    stage.say("store1 loses power. Two messages are sent.")
    stage.crash("store1")
    stage.send(source, 2)
    stage.until(stage.stable(source, 2))
    stage.settle(0.2)
    stage.kill(source)
    stage.say("store2 and store3 lose power; store3 is put back from the copy.")
    stage.crash("store2", "store3")
    stage.put_back("store3", copy)
    stage.say("store1 and store3 are back. The source starts again.")
    stage.start("store1", "store3")
    again = stage.source()
    stage.settle(0.4)
    assert not again.core.complete
    stage.say(str(again.core.registration.unfinished()))
    stage.say("store2 is back.")
    stage.start("store2")
    stage.until(lambda: again.core.complete)
    stage.until(lambda: not stage.in_limbo("store3"))
    stage.send(again)
    stage.until(stage.holds("store3", 3))
    stage.settle(0.3)
    return stage


LIMBO = (
    wiped_store_returns,
    three_blank_stores_found_a_group,
    two_wiped_stores_of_three_stall,
    operator_accepts_a_loss,
    directory_put_back_from_a_copy,
)
