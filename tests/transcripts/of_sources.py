"""Stories of sources that register, come back, and take over from each other."""

from __future__ import annotations

from tests.transcripts.applications import SourceApplication
from tests.transcripts.stage import Stage

ACTIVITY_SECONDS = 1.0
"""Seconds after its last sign of life for which stores protect a source."""


def opened(stage: Stage) -> SourceApplication:
    """Begin with the stores a, b and c, and the source x that has published a message."""
    stage.open_with("a", "b", "c")
    x = stage.registered("x", activity_timeout=ACTIVITY_SECONDS)
    stage.say("The source x has registered with the stores a, b and c, in epoch 1.")
    stage.publish(x, "zero")
    return x


def leave_tail_at_a(stage: Stage, x: SourceApplication) -> None:
    """Let a alone have message 1, and let its source crash."""
    stage.say("x is cut off from b and c. Its second message reaches a only. Then x crashes.")
    mend = stage.cut("x", "b", "c")
    stage.publish(x, "one")
    stage.crash("x")
    mend()


def first_registration(stage: Stage) -> None:
    """A source registers with three stores and publishes. A receiver takes its messages.

    A registration has three steps. The stores promise an epoch, and say what they have. The source
    decides from that what its stream is. The stores begin it. Here no store knows the stream, so it
    begins at 0.
    """
    stage.open_with("a", "b", "c")
    stage.say("The stores a, b and c run. The source x starts.")
    x = stage.source("x")
    stage.until(lambda: x.is_registered)
    stage.say("Two messages are published at once, and travel as one batch.")
    stage.publish(x, "zero", "one")
    stage.say("The receiver r starts. No store knows it, so it starts with the first message.")
    r = stage.receiver("r")
    stage.until(lambda: r.taken_upto == 1)
    stage.say(
        "A third message goes to the stores and to the receiver at the same time. The receiver "
        "hands it over once it is stable."
    )
    stage.publish(x, "two")


def tail_that_survives(stage: Stage) -> None:
    """A message that one store holds is kept if that store answers, though it was never stable.

    The consensus of the source is `highest`, the default. The message is sent to the stores that
    lack it. It is stable only then.
    """
    x = opened(stage)
    leave_tail_at_a(stage, x)
    stage.say("The network is whole again. The next instance of the source is y.")
    stage.wait(ACTIVITY_SECONDS)
    y = stage.source("y")
    stage.until(lambda: y.is_registered and y.stable_upto == 1)


def floor_that_is_kept(stage: Stage) -> None:
    """A message that may have been stable is kept, whatever the source is configured to keep.

    The message is stable on a and b. Then b is away, and only a and c answer. The consensus of the
    source is `lowest`, which keeps what all stores hold that answer. c lacks the message. But b,
    which is silent, may hold it, and so it may be stable on a and b. The source keeps it.
    """
    x = opened(stage)
    stage.say("x is cut off from c, and publishes.")
    mend = stage.cut("x", "c")
    stage.publish(x, "one")
    stage.say("x and b crash. The next instance of the source is y, with consensus `lowest`.")
    stage.crash("x", "b")
    mend()
    stage.wait(ACTIVITY_SECONDS)
    y = stage.source("y", consensus="lowest")
    stage.until(lambda: y.is_registered and y.stable_upto == 1)


def restart_with_divergent_tails(stage: Stage) -> None:
    """A message that only one store holds is set aside there, and its number is used again.

    The source comes back while that store is away. The two others are a blocking set: what neither
    of them holds cannot have been stable. A receiver was handed the message before it was stable.
    It is told that the message is withdrawn.
    """
    stage.open_with("a", "b", "c")
    x = stage.registered("x", activity_timeout=ACTIVITY_SECONDS)
    r = stage.joined("r", delivery="live")
    stage.say(
        "The source x has registered with the stores a, b and c, in epoch 1. The receiver r is "
        "handed messages at once."
    )
    stage.publish(x, "zero")
    leave_tail_at_a(stage, x)
    stage.say("a crashes, too. The network is whole again. The next instance of the source is y.")
    stage.crash("a")
    stage.wait(ACTIVITY_SECONDS)
    y = stage.source("y")
    stage.until(lambda: y.is_registered)
    stage.say("A message is published.")
    stage.publish(y, "another one")
    assert r.taken_upto == 1
    stage.say("a is back.")
    stage.start("a")
    stage.until(lambda: stage.begun("a") == 2 and stage.holds("a", 1))


def epoch_begun_by_a_minority(stage: Stage) -> None:
    """An epoch that only one store began does not void what a later epoch kept.

    a alone has message 1. Epoch 2 hears b and c, which lack it. So epoch 2 begins at 1, but only b
    hears that. Epoch 3 hears a and c, and keeps message 1. Its lineage does not name epoch 2. When
    b is back, the source hears of epoch 2. Its decision did not know of it, so it registers anew.
    """
    x = opened(stage)
    leave_tail_at_a(stage, x)
    stage.say("a crashes, too. y registers, and its begin reaches b only. Then y crashes.")
    stage.crash("a")
    stage.wait(ACTIVITY_SECONDS)
    stage.source("y", activity_timeout=ACTIVITY_SECONDS)
    stage.until(lambda: stage.promised("c") == 2)
    mend = stage.cut("y", "c")
    stage.until(lambda: stage.begun("b") == 2)
    stage.crash("y")
    mend()
    stage.say("b crashes, and a is back. z registers.")
    stage.crash("b")
    stage.start("a")
    stage.wait(2 * ACTIVITY_SECONDS)
    z = stage.source("z")
    stage.until(lambda: z.is_registered and z.stable_upto == 1)
    stage.say("b is back.")
    stage.start("b")
    stage.until(lambda: stage.holds("b", 1))


def two_sources_with_one_identity(stage: Stage) -> None:
    """A second source is refused while the first lives. If it takes over, the first one ends."""
    x = opened(stage)
    stage.say("y starts, another instance with the same topic and session ID.")
    y = stage.source("y")
    stage.until(lambda: y.error is not None)
    stage.say("x hangs. z starts, which is told to take over.")
    wake = stage.pause("x")
    z = stage.source("z", take_over=True)
    stage.until(lambda: z.is_registered)
    stage.say("A message is published.")
    stage.publish(z, "one")
    stage.say("x goes on. It sends what its application published, and hears what happened.")
    x.publish("another one")
    wake()
    stage.wait()


def old_source_makes_nothing_stable(stage: Stage) -> None:
    """A source that was replaced goes on with the one store that has not heard of it.

    What it sends is on that store only: the two others have promised a later epoch. So its message
    is never stable. The number is used again, and the store sets its copy aside.
    """
    x = opened(stage)
    stage.say("x and a are cut off from all others. x publishes.")
    mends = [stage.cut("a", "y", "b", "c"), stage.cut("x", "y", "b", "c")]
    stage.publish(x, "one")
    stage.say("y takes over, and publishes.")
    y = stage.source("y", take_over=True)
    stage.until(lambda: y.is_registered)
    stage.publish(y, "another one")
    stage.say("The network is whole again.")
    for mend in mends:
        mend()
    stage.until(lambda: stage.begun("a") == 2 and stage.holds("a", 1))


def take_over_wins_before_it_has_begun(stage: Stage) -> None:
    """A source that takes over wins with its first promise, long before it has begun.

    The source that is replaced hears so from one store only. It does not register anew, and
    fences nobody.
    """
    x = opened(stage)
    stage.say("y starts, which is told to take over. It reaches c only.")
    mend = stage.cut("y", "a", "b")
    y = stage.source("y", take_over=True)
    stage.until(lambda: x.error is not None)
    stage.wait(2.0)
    stage.say("x has ended. y reaches a and b, too.")
    mend()
    stage.until(lambda: y.is_registered)


def promise_that_came_to_nothing(stage: Stage) -> None:
    """A source crashes after a first promise. The source that it fenced at that store goes on.

    The living source leaves the other one a registration interval to begin. Then it registers with
    a higher epoch.
    """
    x = opened(stage)
    stage.say("c restarts. y reaches c before x does, and reaches neither a nor b. Then y crashes.")
    mends = [stage.cut("x", "c"), stage.cut("y", "a", "b")]
    stage.crash("c")
    stage.wait()
    stage.start("c")
    stage.until(lambda: stage.serves("c"))
    stage.source("y")
    stage.until(lambda: stage.promised("c") == 2)
    stage.crash("y")
    stage.say("x reaches c again.")
    for mend in mends:
        mend()
    stage.until(lambda: stage.begun("c") == 3)
    stage.say("A message is published.")
    stage.publish(x, "one")


def stream_that_ends(stage: Stage) -> None:
    """A source is deregistered. Its stream ends by a begin, and the newest begin decides.

    A store that was away still has the older stream. The next instance hears so, and hears of the
    end from the others. So it begins a new stream, at 0. The store sets its messages aside.
    """
    stage.open_with("a", "b", "c")
    x = stage.registered("x", activity_timeout=0.1)
    stage.say("The source x has registered with the stores a, b and c, in epoch 1.")
    stage.publish(x, "zero")
    stage.say("c crashes. x is deregistered, and is closed.")
    stage.crash("c")
    stage.wait()
    x.deregister()
    stage.wait(1.0)
    stage.crash("x")
    stage.say("c is back. y starts.")
    stage.start("c")
    stage.until(lambda: stage.serves("c"), is_exact=True)
    y = stage.source("y")
    stage.until(lambda: y.is_registered)
    stage.say("A message is published.")
    stage.publish(y, "another zero")


STORIES_OF_SOURCES = (
    first_registration,
    tail_that_survives,
    floor_that_is_kept,
    restart_with_divergent_tails,
    epoch_begun_by_a_minority,
    two_sources_with_one_identity,
    old_source_makes_nothing_stable,
    take_over_wins_before_it_has_begun,
    promise_that_came_to_nothing,
    stream_that_ends,
)
