"""Scenarios with a source that is away, or does not know that it is over."""

from __future__ import annotations

from tests.transcripts.stage import Stage


def proxy_and_return() -> Stage:
    """While a source is away every store that has its state answers for it.

    The source dies before it hears that its last messages are stable. The stores find that out once
    they are a quorum. So a receiver that is handed only what is stable gets them without the
    source. When that is back the proxies give way at once.
    """
    stage = Stage()
    source = stage.source_as_ever()
    receiver = stage.receiver(stable=True)
    stage.send(source)
    stage.until(stage.has_taken(receiver, 0))
    stage.settle(0.2)
    stage.say("The receiver goes away. Two more are sent; the source dies before it hears of them.")
    receiver.instance.kill()
    stage.send(source, 2)
    stage.until(lambda: all(stage.holds(store, 2)() for store in stage.stores))
    stage.kill(source)
    stage.say("store2 and store3 lose power. Alone store1 is no quorum; the receiver is back.")
    stage.crash("store2", "store3")
    stage.restart(receiver)
    stage.settle(3.0)
    assert stage.proxies() == ["store1"]
    assert not stage.has_taken(receiver, 1)()
    stage.say("store2 is back.")
    stage.start("store2")
    stage.until(stage.has_taken(receiver, 2))
    stage.settle(0.2)
    stage.say("The source is back.")
    again = stage.registered_source()
    assert not stage.proxies()
    stage.send(again)
    stage.until(stage.has_taken(receiver, 3))
    stage.settle(0.2)
    return stage


def old_source_makes_nothing_stable() -> Stage:
    """A source that was taken over from goes on with the one store that did not hear of it.

    What it sends is on that store only: the others have promised a later epoch. Its number is used
    again, the store sets aside what it has there, and the old source hears that it is over.
    """
    stage = Stage()
    old = stage.source_as_ever()
    stage.send(old)
    stage.until(stage.stable(old, 0))
    stage.settle()
    stage.say("source1 and store1 are cut off from all others. Another instance takes over.")
    heals = [stage.cut("store1", "source2", "store2", "store3")]
    heals.append(stage.cut("source1", "store2", "store3"))
    new = stage.source(take_over=True)
    stage.send(old)
    stage.until(lambda: new.core.complete)
    stage.send(new)
    stage.until(stage.stable(new, 1))
    stage.settle(0.3)
    assert old.core.stable_upto == 0
    stage.say("The network is whole again.")
    for heal in heals:
        heal()
    stage.until(lambda: old.core.error is not None)
    stage.until(lambda: stage.told_stable("store1") >= 1)
    stage.settle(0.3)
    return stage


AWAY = (proxy_and_return, old_source_makes_nothing_stable)
