"""When a source registers anew to change its stores; how it does is tested with the core."""

from __future__ import annotations

from quorate.protocol.limits import NOTHING
from quorate.protocol.policy import Group, Membership, Policy
from quorate.protocol.ranges import Range
from quorate.source.protocol.membership_change import Changing
from quorate.source.protocol.retention import Retention
from quorate.source.protocol.store_cursors import Streams

FSYNC = 1
OLD = Policy.majority_of("abc")
NEW = Policy.majority_of("def")
DECLARED = Policy((Group("g", tuple("abc"), backups=("d",)),))


def open_streams(stores: str) -> Streams:
    streams = Streams()
    for store in "abcd":
        streams.add(store)
    for store in stores:
        streams.opened(store, 0, FSYNC, Retention(0))
    return streams


def test_the_new_policy_stands_alone_once_it_has_everything() -> None:
    changing = Changing(NEW, 1.0)
    changing.decided(Membership((OLD,), (OLD, NEW)), NEW)
    assert not changing.is_brought_up(4, 4)
    for store in "abdef":
        changing.joined(store, 1.0, True)
    assert sorted(changing.due(1.0)) == list("abdef")
    for store in "abdef":
        changing.answered(store, [Range(0, 4 if store != "f" else NOTHING + 1)], 1.0, 0)
    assert not changing.is_brought_up(3, 4), "what was kept is not stable yet"
    assert changing.is_brought_up(4, 4)
    changing.left("e")
    assert not changing.is_brought_up(4, 4)
    changing.registers(2.0, to_change=True)
    assert not changing.brings_up
    changing.decided(Membership((NEW,), (NEW,)), NEW)
    assert not changing.brings_up
    assert changing.due(9.0) == []


def test_messages_wait_for_a_change_but_not_for_ever() -> None:
    changing = Changing(OLD, 1.0)
    changing.registers(1.0, to_change=False)
    assert not changing.is_waited_for(1.0)
    changing.registers(1.0, to_change=True)
    assert changing.is_waited_for(10.9)
    assert not changing.is_waited_for(11.0)
    changing.registers(20.0, to_change=True)
    changing.complete()
    assert not changing.is_waited_for(20.0)


def test_a_backup_is_wanted_if_both_policies_can_be_registered_with() -> None:
    changing = Changing(DECLARED, 1.0)
    present = DECLARED
    assert changing.wanted(present, open_streams("abc"), 0.0) is None
    assert changing.wanted(present, open_streams("ab"), 1.0) is None
    wanted = changing.wanted(present, open_streams("ab"), 2.0)
    assert wanted is not None
    assert wanted.groups[0].stores == ("a", "b", "d")
    assert changing.wanted(present, open_streams("a"), 9.0) is None, "it would stop the stream"
