"""The scenarios; the docstring of each is the head of its transcript."""

from __future__ import annotations

from collections.abc import Callable

from tests.simulation.acknowledging import Acknowledging
from tests.transcripts.away import AWAY
from tests.transcripts.by_hand import batch_that_straddles_what_is_kept
from tests.transcripts.changes import CHANGES
from tests.transcripts.groups import group_away_and_back
from tests.transcripts.keeping_state import store_that_keeps_state_only
from tests.transcripts.limbo import LIMBO
from tests.transcripts.receivers import RECEIVERS
from tests.transcripts.stage import SOURCE, Stage


def void(_: object) -> None:
    """What is returned does not matter."""


def first_registration() -> Stage:
    """A new source registers with three stores and sends; a receiver hears it.

    All stores must promise, because it is the first registration interval. Nothing was begun, so
    the stream begins at 0. A receiver attaches and consumes.
    """
    stage = Stage()
    source = stage.source()
    stage.until(lambda: source.core.complete)
    stage.say("The application sends two messages at once.")
    stage.send(source, 2)
    stage.until(stage.stable(source, 1))
    stage.say("A receiver that is new starts with the first message.")
    receiver = stage.receiver()
    stage.until(stage.has_taken(receiver, 1))
    stage.say("A third message goes to stores and receiver at the same time.")
    stage.send(source)
    stage.until(stage.stable(source, 2))
    stage.settle(0.3)
    return stage


def restart_with_divergent_tails() -> Stage:
    """A message that only one store has is used again, and set aside where it was.

    The source comes back while that store is away. The two others are a blocking set: what neither
    of them has can not have been stable. A receiver that was handed it is told so.
    """
    stage = Stage()
    source = stage.source_as_ever()
    receiver = stage.receiver()
    stage.send(source, 2)
    stage.until(stage.stable(source, 1))
    stage.until(stage.has_taken(receiver, 1))
    stage.say(
        "The source is cut off from store2 and store3: its third message reaches store1 only."
    )
    heal = stage.cut(source.process.name, "store2", "store3")
    stage.send(source)
    stage.until(stage.holds("store1", 2))
    stage.until(stage.has_taken(receiver, 2))
    stage.kill(source)
    stage.say("store1 loses power.")
    stage.crash("store1")
    heal()
    again = stage.registered_source()
    stage.send(again)
    stage.until(stage.stable(again, 2))
    stage.settle(0.5)
    stage.say("store1 is back.")
    stage.start("store1")
    stage.until(stage.holds("store1", 2))
    stage.settle(0.5)
    return stage


def tail_that_survives() -> Stage:
    """A message that one store has is kept if that store answers, though it was never stable.

    The behaviour is `highest`. It is sent again to the stores that lack it, and only then stable.
    """
    stage = Stage()
    source = stage.source_as_ever()
    stage.send(source)
    stage.until(stage.stable(source, 0))
    stage.say(
        "The source is cut off from store2 and store3: its second message reaches store1 only."
    )
    heal = stage.cut(source.process.name, "store2", "store3")
    stage.send(source)
    stage.until(stage.holds("store1", 1))
    stage.kill(source)
    heal()
    again = stage.registered_source()
    stage.until(stage.stable(again, 1))
    stage.settle()
    return stage


def epoch_begun_by_a_minority() -> Stage:
    """An epoch that began at one store only does not void what a later one kept.

    store1 alone has message 1. Epoch 2 sees store2 and store3, which lack it: it begins at 1, but
    only at store2. Epoch 3 sees store1 and store3: it keeps 1. When store2 is back it follows.
    """
    stage = Stage()
    source = stage.source_as_ever()
    stage.send(source)
    stage.until(stage.holds("store3", 0))
    stage.settle()
    stage.say(
        "The source is cut off from store2 and store3: its second message reaches store1 only."
    )
    heal = stage.cut(source.process.name, "store2", "store3")
    stage.send(source)
    stage.until(stage.holds("store1", 1))
    stage.kill(source)
    heal()
    stage.say(
        "store1 loses power. Another source registers; it reaches only store2 with its begin."
    )
    stage.crash("store1")
    second = stage.source()
    stage.checker.when_decided[2] = lambda: void(stage.cut("source2", "store3"))
    stage.until(lambda: stage.stores["store2"].core.sources[SOURCE].registration.begun.epoch == 2)
    stage.settle()
    stage.kill(second)
    stage.say("store2 loses power; store1 is back. A third source registers.")
    stage.crash("store2")
    stage.start("store1")
    third = stage.registered_source()
    stage.until(stage.stable(third, 1))
    stage.settle(0.3)
    stage.say("store2 is back.")
    stage.start("store2")
    stage.until(stage.holds("store2", 1))
    stage.settle(0.3)
    return stage


def two_sources_with_one_identity() -> Stage:
    """A second source is refused while the first lives, or takes over and fences it for good."""
    stage = Stage()
    source = stage.source_as_ever()
    stage.send(source)
    stage.until(stage.stable(source, 0))
    stage.settle()
    stage.say("Another instance starts with the same identity.")
    refused = stage.source()
    stage.until(lambda: refused.core.error is not None)
    refused.kill()
    stage.say("source1 hangs. A third instance is told to take over.")
    source.process.pause()
    taker = stage.source(take_over=True)
    stage.until(lambda: taker.core.complete)
    stage.send(taker)
    stage.until(stage.stable(taker, 1))
    stage.say("source1 wakes up; its application had sent a message just before it hung.")
    source.process.wake()
    source.send()
    stage.until(lambda: source.core.error is not None)
    stage.settle()
    return stage


def replaced_source_hears_of_it_late() -> Stage:
    """A source that was replaced hears so from one store alone, and does not take itself back."""
    stage = Stage()
    source = stage.source_as_ever()
    stage.send(source)
    stage.until(stage.stable(source, 0))
    stage.settle()
    stage.say("source1 reaches only store1. Another instance is told to take over.")
    free = stage.cut("source1", "store2", "store3")
    taker = stage.source(take_over=True)
    stage.until(lambda: taker.core.complete)
    stage.settle()
    stage.say("source1 has ended, and does not register anew. It reaches all stores again.")
    assert source.core.error is not None
    free()
    stage.send(taker)
    stage.until(stage.stable(taker, 1))
    stage.settle()
    return stage


def take_over_wins_before_it_has_begun() -> Stage:
    """An instance that takes over wins, although it needs a long time between promise and begin."""
    stage = Stage()
    source = stage.source_as_ever()
    stage.send(source)
    stage.until(stage.stable(source, 0))
    stage.settle()
    stage.say("Another instance reaches only store3 at first. It is told to take over.")
    free = stage.cut("source2", "store1", "store2")
    taker = stage.source(take_over=True)
    stage.until(lambda: source.core.error is not None)
    stage.settle()
    stage.say("source1 has ended, and does not register anew. Nothing keeps source2 out.")
    free()
    stage.until(lambda: taker.core.complete)
    stage.send(taker)
    stage.until(stage.stable(taker, 1))
    stage.settle()
    return stage


def promise_that_came_to_nothing() -> Stage:
    """An instance dies after a first promise: the source that it fenced goes on."""
    stage = Stage()
    source = stage.source_as_ever()
    stage.send(source)
    stage.until(stage.stable(source, 0))
    stage.settle()
    stage.say("store3 restarts. An instance reaches it before source1, and reaches no other.")
    free = stage.cut("source1", "store3")
    stage.crash("store3")
    stage.until(lambda: "store3" not in source.core.streams.open_stores())
    stage.start("store3")
    stage.cut("source2", "store1", "store2")
    opening = stage.source()
    stage.until(lambda: "store3" in opening.core.registration.unused_promises())
    opening.kill()
    stage.say("The instance died. source1 reaches store3 again.")
    free()
    stage.until(lambda: source.core.epoch == 3 and source.core.complete)
    stage.send(source)
    stage.until(stage.stable(source, 1))
    stage.until(stage.holds("store3", 1))
    stage.settle()
    return stage


def store_away_and_repaired() -> Stage:
    """A store that was away for longer than the source retains is filled by its peers."""
    stage = Stage()
    source = stage.source_as_ever(retention_bytes=300)
    stage.send(source)
    stage.until(stage.holds("store3", 0))
    stage.settle()
    stage.say("store3 loses power.")
    stage.crash("store3")
    for upto in (3, 6, 9):
        stage.send(source, 3)
        stage.until(stage.stable(source, upto))
        stage.settle()
    stage.say("store3 is back. The source has let go of the oldest that it lacks.")
    stage.start("store3")
    stage.until(stage.holds("store3", 9))
    stage.settle(0.2)
    return stage


def receiver_starts_where_it_wants() -> Stage:
    """Seven messages, one consumed, at most two requested; and what the application may do.

    The receiver consumed 0, went away, and comes back after 6. It would start at 1; with a request
    maximum of 2 at 4. Its application is shown all that and may say another number; saying 1 again
    means that nothing is changed.
    """
    stage = Stage()
    source = stage.source_as_ever()
    stage.send(source)
    receiver = stage.receiver(Acknowledging.ALL_BEFORE)
    stage.until(stage.has_taken(receiver, 0))
    stage.settle(0.2)
    stage.say("The receiver goes away; six more messages are sent.")
    receiver.instance.kill()
    stage.send(source, 6)
    stage.until(stage.holds("store3", 6))
    stage.settle()
    stage.say("It comes back; at most two messages are requested.")
    stage.restart(receiver, request_maximum=2)
    stage.until(lambda: receiver.instance.registered)
    receiver.instance.kill()
    stage.say("It comes back; its application says 1, which it was shown.")
    stage.restart(receiver, request_maximum=2, choose_start=lambda point: point.low)
    stage.until(lambda: receiver.instance.registered)
    receiver.instance.kill()
    stage.say("It comes back; its application says 2.")
    stage.restart(receiver, request_maximum=2, choose_start=lambda _: 2)
    stage.until(stage.has_taken(receiver, 6))
    stage.settle(0.3)
    return stage


SCENARIOS: dict[str, Callable[[], Stage]] = {
    scenario.__name__: scenario
    for scenario in (
        first_registration,
        restart_with_divergent_tails,
        tail_that_survives,
        epoch_begun_by_a_minority,
        two_sources_with_one_identity,
        replaced_source_hears_of_it_late,
        take_over_wins_before_it_has_begun,
        promise_that_came_to_nothing,
        store_away_and_repaired,
        receiver_starts_where_it_wants,
        batch_that_straddles_what_is_kept,
        *AWAY,
        *CHANGES,
        *LIMBO,
        store_that_keeps_state_only,
        *RECEIVERS,
        group_away_and_back,
    )
}
