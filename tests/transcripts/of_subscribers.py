"""A story of a subscriber, which replays what stores have."""

from __future__ import annotations

from tests.transcripts.stage import Stage


def subscriber_moves_to_another_store(stage: Stage) -> None:
    """A subscriber reads one store at a time. Where that fails it goes on at another one.

    It names its position: the last message that it was given, of each source. The other store
    gives what follows that, so nothing is given twice and nothing is left out. No store keeps the
    position, and no source knows of the subscriber.
    """
    stage.open_with("a", "b", "c")
    x = stage.registered("x")
    stage.say("The source x has registered with the stores a, b and c, in epoch 1.")
    stage.publish(x, "zero", "one")
    stage.wait(1.0)  # The stores are told that it is stable.
    stage.say("The subscriber u starts. It is given what was sent before, and then what comes.")
    u = stage.subscriber("u")
    stage.until(lambda: u.given_upto == 1)
    stage.say("Another message is published.")
    stage.publish(x, "two")
    stage.until(lambda: u.given_upto == 2)
    stage.say("a crashes. Another message is published meanwhile.")
    stage.crash("a")
    stage.publish(x, "three")
    stage.until(lambda: u.given_upto == 3)


STORIES_OF_SUBSCRIBERS = (subscriber_moves_to_another_store,)
