"""A scenario with a store that keeps registrations and positions, and no messages."""

from __future__ import annotations

from tests.transcripts.stage import Stage


def store_that_keeps_state_only() -> Stage:
    """Of three stores one takes no messages: it promises, begins and knows where a receiver was.

    What is stable is on the two others. While one of these is away nothing becomes stable; but who
    registers has enough answers, because the third says truthfully that it holds nothing.
    """
    stage = Stage(state_only=["store3"])
    source = stage.source()
    stage.until(lambda: source.core.complete)
    stage.send(source, 2)
    stage.until(stage.stable(source, 1))
    receiver = stage.receiver()
    stage.until(stage.has_taken(receiver, 1))
    stage.settle(0.4)
    stage.say("store2 loses power. The source dies, and comes back.")
    stage.crash("store2")
    stage.kill(source)
    again = stage.source()
    stage.settle(0.6)
    assert not again.core.complete
    stage.say(str(again.core.refusal()))
    stage.say("store2 is back.")
    stage.start("store2")
    stage.until(lambda: again.core.complete)
    stage.send(again)
    stage.until(stage.stable(again, 2))
    stage.settle(0.3)
    return stage
