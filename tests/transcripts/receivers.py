"""Scenarios of receivers that are replaced, or were forgotten."""

from __future__ import annotations

from tests.transcripts.stage import Stage


def two_receivers_with_one_identity() -> Stage:
    """A second receiver fences the first, for good, and goes on where that one had got to.

    receiver1 is done with 0, and at 1. Until it tells next how far it is nobody tells it that it
    was replaced, so that both are handed 2; what it is done with then does not count.
    """
    stage = Stage()
    source = stage.source_as_ever()
    application = stage.receiver(name="receiver1")
    first = application.instance
    for number in (0, 1):
        stage.send(source)
        stage.until(stage.has_taken(application, number))
    stage.settle(0.3)
    stage.say("Another instance starts with the same identity.")
    stage.second_receiver(application, "receiver2")
    stage.until(stage.has_taken(application, 1))
    stage.settle(0.1)
    stage.say("A third message is sent.")
    stage.send(source)
    stage.until_fenced(first)
    stage.settle(0.1)
    stage.say("A fourth message is sent.")
    stage.send(source)
    stage.settle(0.2)
    return stage


def receiver_that_is_deregistered_begins_anew() -> Stage:
    """A store that was away still has a receiver that is over: what it says of it does not count.

    The receiver has consumed 0 and 1 when it is deregistered, at two stores; the third keeps where
    it was. Its peers tell that one, which acts on it when it looks at their answers next; before
    that the receiver is back, hears from the others that it was over, and tells it as well. So it
    is new everywhere, and begins anew. When all know nobody is told any more.
    """
    stage = Stage()
    source = stage.source_as_ever()
    receiver = stage.receiver()
    for number in range(3):
        stage.send(source)
        stage.until(stage.has_taken(receiver, number))
    stage.settle(0.3)
    stage.say("store3 loses power. The receiver is deregistered.")
    stage.crash("store3")
    receiver.instance.deregister()
    stage.settle(0.1)
    receiver.instance.kill()
    stage.say("store3 is back. The receiver starts again.")
    stage.start("store3")
    stage.restart(receiver)
    stage.until(stage.has_taken(receiver, 2))
    stage.settle(1.0)
    return stage


RECEIVERS = (two_receivers_with_one_identity, receiver_that_is_deregistered_begins_anew)
