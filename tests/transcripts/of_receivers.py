"""Stories of receivers that go on, are replaced, or are ended."""

from __future__ import annotations

from tests.transcripts.applications import ReceiverApplication, SourceApplication
from tests.transcripts.stage import Stage


def opened(stage: Stage) -> tuple[SourceApplication, ReceiverApplication]:
    """Begin with the stores a, b and c, the source x and the receiver r."""
    stage.open_with("a", "b", "c")
    x, r = stage.registered("x"), stage.joined("r")
    stage.say("The source x and the receiver r have registered with the stores a, b and c.")
    return x, r


def receiver_starts_where_it_wants(stage: Stage) -> None:
    """A receiver that comes back goes on where the stores say, unless its application chooses.

    It was done with 0, and there are messages up to 4. So it would start at 1. A request maximum of
    2 moves that to 2. Its application is asked last, and may say any number.
    """
    x, _ = opened(stage)
    stage.publish(x, "zero")
    stage.say("r crashes. Four more messages are published.")
    stage.crash("r")
    stage.publish(x, "one", "two", "three", "four")
    stage.say("r is back, with a request maximum of 2. It crashes at once.")
    r = stage.receiver("r", take_over=True, request_maximum=2)
    stage.until(lambda: r.taken_upto >= 0, is_exact=True)
    stage.crash("r")
    stage.say("r is back once more. Its application says 1.")
    r = stage.receiver("r", take_over=True, request_maximum=2, choose_start=lambda _: 1)
    stage.until(lambda: r.taken_upto == 4)


def two_receivers_with_one_identity(stage: Stage) -> None:
    """A second receiver takes over from the first one, and goes on where that one was.

    The first one hears so when it says next what it is done with. Until then both are handed
    messages. What the first one is done with counts no more.
    """
    x, r = opened(stage)
    stage.publish(x, "zero")
    stage.say("s starts, another instance with the same identity. It is told to take over.")
    s = stage.receiver("s", take_over=True)
    stage.until(lambda: s.receiver is not None)
    stage.say("A second message is published.")
    stage.publish(x, "one")
    assert r.error is not None
    stage.say("A third message is published.")
    stage.publish(x, "two")


def receiver_that_is_deregistered_begins_anew(stage: Stage) -> None:
    """A store was away when a receiver ended. What it says of the receiver does not count.

    The two others remember the end. The receiver hears of it when it registers anew, and tells the
    store that was away. So it is new everywhere, and starts with the first message.
    """
    x, r = opened(stage)
    stage.publish(x, "zero", "one")
    stage.say("c crashes. r is deregistered, and is closed.")
    stage.crash("c")
    stage.wait()
    r.deregister()
    stage.wait()
    stage.crash("r")
    stage.say("c is back. s starts, a receiver with the same identity.")
    stage.start("c")
    stage.until(lambda: stage.serves("c"))
    s = stage.receiver("s")
    stage.until(lambda: s.taken_upto == 1)
    stage.wait(6.0)


def proxy_and_return(stage: Stage) -> None:
    """While a source is away, every store that has its state answers for it.

    The source crashes before it hears that its last message is stable. The stores find that out
    once they are a quorum, and have looked twice. A receiver asks a store that answers for the
    source how far the stream is stable. So it gets the message without the source.
    """
    x, r = opened(stage)
    stage.publish(x, "zero")
    stage.say("A second message reaches the stores. x hangs before it hears that it is on disk.")
    mend = stage.cut("x", "r")
    x.publish("one")
    stage.until(lambda: all(stage.holds(store, 1) for store in "abc"), is_exact=True)
    stage.pause("x")
    stage.wait()
    stage.say("x, b and c crash. Alone a is no quorum.")
    stage.crash("x", "b", "c")
    mend()
    stage.wait(5.0)
    stage.say("b is back.")
    stage.start("b")
    stage.until(lambda: r.taken_upto == 1)
    stage.say("The source is back as y.")
    y = stage.source("y")
    stage.until(lambda: y.is_registered)
    stage.say("A message is published.")
    stage.publish(y, "two")


STORIES_OF_RECEIVERS = (
    receiver_starts_where_it_wants,
    two_receivers_with_one_identity,
    receiver_that_is_deregistered_begins_anew,
    proxy_and_return,
)
