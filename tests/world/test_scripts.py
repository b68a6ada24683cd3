"""Short stories that chance tells too seldom, each with its guard and without it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tests import seams
from tests.world.patches_of_decisions import (
    ends_do_not_win,
    ends_leave_no_mark,
    hung_stores_are_waited_for,
    older_generations_count,
)
from tests.world.script import Instance, Script, Taker
from tests.world.world import Stuck

from quorate.store.rules.acceptor import StoreCore
from quorate.store.rules.peer_knowledge import Heard
from quorate.store.rules.source_state import SourceState
from quorate.store.rules.store_identity import Standing

pytestmark = pytest.mark.expects_log(".*")
OPEN_SECONDS = 20.0
"""A source opens within this time, if it ever does."""
SCRUB_SECONDS = 5.0
FORGOTTEN_SECONDS = 300.0
"""Stores have forgotten the end of a receiver within this time."""
HEARD_SECONDS = 10.0
"""Stores have asked each other several times within this time."""


def begun(script: Script) -> Instance:
    """Return a source whose first message all stores have."""
    source = script.start_source(sends=False)
    script.until(lambda: source.source is not None)
    script.send(source)
    script.until(lambda: source.receipts and all(script.holds(each, 0) for each in script.names))
    return source


def goes_on_without(script: Script, *away: str) -> bool:
    """Return whether another source opens that does not reach these stores."""
    later = script.start_source(*away, sends=False)
    script.run(OPEN_SECONDS)
    return later.source is not None


# Stores that were wiped.


def stable_after_a_wipe(directory: Path) -> tuple[int, int]:
    """Return how many messages are reported as stable, and how many stores hold the last of them.

    Store a alone has message 1, and has said so. It is wiped, and vouches again. Then b gets 1.
    """
    with Script(1, directory) as script:
        source = begun(script)
        script.cut(source.name, "c")
        deliver = script.mute(source.name, "b")
        script.send(source)
        script.until(lambda: script.holds("a", 1))
        script.run(0.1)
        script.cut(source.name, "a")
        script.wipe("a")
        script.until(lambda: script.vouches("a"))
        assert not script.holds("a", 1)
        deliver()
        script.until(lambda: script.holds("b", 1))
        script.run(0.1)
        last = len(source.receipts) - 1
        return len(source.receipts), sum(script.holds(each, last) for each in "abc")


def test_what_a_wiped_store_had_makes_nothing_stable(tmp_path: Path) -> None:
    assert stable_after_a_wipe(tmp_path) == (1, 3)


def test_a_source_that_hears_of_no_wipe_reports_what_one_store_holds(tmp_path: Path) -> None:
    with seams.SOURCE_CORE_KNOWN.replaced(lambda *_: []):
        assert stable_after_a_wipe(tmp_path) == (2, 1)


def goes_on_by_one_that_lags(directory: Path) -> bool:
    """Return whether a source opens that reaches a and b alone.

    Message 1 is stable on a and c, and b lags. Then a is wiped, and hears b alone.
    """
    with Script(1, directory) as script:
        source = begun(script)
        script.cut(source.name, "b")
        script.cut("b", "a", "c")
        script.send(source)
        script.until(lambda: len(source.receipts) == 2)
        script.kill(source)
        script.cut("c", "a")
        script.mend("a", "b")
        script.wipe("a")
        return goes_on_without(script, "c")


def test_a_wiped_store_does_not_go_on_by_what_one_that_lags_says(tmp_path: Path) -> None:
    assert not goes_on_by_one_that_lags(tmp_path)


def test_where_any_peer_is_enough_to_leave_limbo_what_was_stable_is_lost(tmp_path: Path) -> None:
    real = seams.LEAVE_IN_READMISSION.real()

    def leave(*arguments: Any) -> Any:
        with (
            seams.POLICY_STABLE.replaced(lambda *_: True),
            seams.POLICY_BLOCKS.replaced(lambda *_: True),
        ):
            return real(*arguments)

    with seams.LEAVE_IN_READMISSION.replaced(leave):
        assert goes_on_by_one_that_lags(tmp_path)


def begins_anew_on_wiped_stores(directory: Path) -> bool:
    """Return whether a source opens that reaches b and c alone, which were wiped, without a."""
    with Script(1, directory) as script:
        source = begun(script)
        script.kill(source)
        script.cut("a", "b", "c")
        script.wipe("b")
        script.wipe("c")
        return goes_on_without(script, "a")


def test_two_wiped_stores_of_three_begin_no_stream_anew(tmp_path: Path) -> None:
    assert not begins_anew_on_wiped_stores(tmp_path)


def test_where_some_blank_stores_found_a_group_a_stream_begins_anew(tmp_path: Path) -> None:
    real = seams.STANDING_FOUNDERS.real()

    def founders(self: Standing, _: Any, heard: Mapping[str, Heard]) -> Any:
        some = {at: each for at, each in heard.items() if each.answer.blank or each.answer.founders}
        return real(self, some.keys(), some) if some else ()

    with seams.STANDING_FOUNDERS.replaced(founders):
        assert begins_anew_on_wiped_stores(tmp_path)


# A store that cannot read, and one that hangs.


def goes_on_without_the_only_copy(directory: Path) -> bool:
    """Return whether a source opens that reaches b and c alone.

    Message 1 is stable on a and b. Then a is away, and b cannot read 1.
    """
    with Script(1, directory, scrub_interval_seconds=SCRUB_SECONDS) as script:
        source = begun(script)
        script.cut(source.name, "c")
        script.cut("c", "a", "b")
        script.send(source)
        script.until(lambda: len(source.receipts) == 2)
        script.kill(source)
        script.cut("a", "b")
        script.flip("b")
        script.until(lambda: script.cannot_read("b"))
        script.mend("b", "c")
        return goes_on_without(script, "a")


def test_messages_that_cannot_be_read_are_not_given_away(tmp_path: Path) -> None:
    assert not goes_on_without_the_only_copy(tmp_path)


def test_where_a_store_vouches_for_what_it_cannot_read_that_is_lost(tmp_path: Path) -> None:
    with seams.STORE_CORE_DOUBT_OF.replaced(StoreCore.limbo_of):
        assert goes_on_without_the_only_copy(tmp_path)


def opens_beside_one_that_hangs(directory: Path) -> bool:
    """Return whether a source opens while c takes calls and answers none."""
    with Script(1, directory) as script:
        source = begun(script)
        script.kill(source)
        script.world.pause("c", 1000.0)
        return goes_on_without(script)


def test_a_hung_store_keeps_no_source_from_opening(tmp_path: Path) -> None:
    assert opens_beside_one_that_hangs(tmp_path)


def test_a_source_that_waits_for_all_stores_does_not_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hung_stores_are_waited_for(monkeypatch)
    assert not opens_beside_one_that_hangs(tmp_path)


# Receivers that ended.


def acknowledged(script: Script) -> tuple[Instance, Taker]:
    """Return a source and a receiver that has acknowledged its first message at all stores."""
    source, receiver = begun(script), script.start_receiver()
    script.until(lambda: all(script.position(each) == 0 for each in script.names))
    script.run(1.0)  # Then it is on their disks.
    return source, receiver


def begins_anew_at(directory: Path) -> int:
    """Return the first message that a receiver is handed after it had ended.

    Store c was down when it ended. Then c is back, and a is wiped and refilled.
    """
    with Script(1, directory) as script:
        source, receiver = acknowledged(script)
        script.world.crash("c")
        script.deregister(receiver)
        script.until(lambda: script.position("a") is None and script.position("b") is None)
        script.kill(receiver)
        script.start_store("c")
        script.until(lambda: script.vouches("c"))
        script.wipe("a")
        script.until(lambda: script.vouches("a"))
        script.run(HEARD_SECONDS)
        script.send(source)
        script.until(lambda: len(source.receipts) == 2)
        again = script.start_receiver()
        script.until(lambda: again.taken)
        return again.taken[0]


def test_the_end_of_a_receiver_reaches_a_store_that_was_away(tmp_path: Path) -> None:
    assert begins_anew_at(tmp_path) == 0


def test_where_the_end_of_a_receiver_leaves_no_mark_its_place_comes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends_leave_no_mark(monkeypatch)
    assert begins_anew_at(tmp_path) == 1


def begins_beside_a_frozen_one_at(directory: Path) -> int:
    """Return the first message that a receiver is handed of which an older instance was frozen.

    The older one has acknowledged all. Its end is forgotten when the next one begins, and that
    dies. The stores start again, so that they know of no instance, and the older one wakes.
    """
    with Script(1, directory) as script:
        source, frozen = acknowledged(script)
        script.world.pause(frozen.name, 1e6)
        script.deregister_receiver()
        script.until(lambda: not any(map(script.remembers_ends, script.names)), FORGOTTEN_SECONDS)
        later = script.start_receiver()
        script.until(lambda: later.receiver is not None)
        script.kill(later)
        for store in script.names:
            script.restart(store)
        script.wake(frozen)
        script.run(HEARD_SECONDS)
        script.kill(frozen)
        script.send(source)
        again = script.start_receiver()
        script.until(lambda: again.taken)
        return again.taken[0]


def test_a_frozen_receiver_that_ended_moves_nothing_when_it_wakes(tmp_path: Path) -> None:
    assert begins_beside_a_frozen_one_at(tmp_path) == 0


def test_where_epochs_are_used_again_a_frozen_receiver_speaks_for_another(tmp_path: Path) -> None:
    with seams.FENCE_IN_RECEIVERS.replaced(SourceState.ended_upto):
        assert begins_beside_a_frozen_one_at(tmp_path) == 1


# Sources that ended, or did not.


def first_number_after_an_end(directory: Path) -> int:
    """Return the number of the first message of a source that had ended.

    Message 1 is stable on b and c, and a is away while the source ends. The next one reaches a and
    b, and a hears of no other store.
    """
    with Script(1, directory) as script:
        source = begun(script)
        script.cut("a", "b", "c", source.name)
        script.send(source)
        script.until(lambda: len(source.receipts) == 2)
        script.deregister(source)
        script.until(lambda: script.has_ended("b") and script.has_ended("c"))
        script.kill(source)
        later = script.start_source("c")
        script.until(lambda: later.receipts)
        return later.receipts[0].sequence


def test_a_source_begins_anew_where_one_store_has_not_heard_of_its_end(tmp_path: Path) -> None:
    assert first_number_after_an_end(tmp_path) == 0


def test_where_an_end_does_not_win_the_stream_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends_do_not_win(monkeypatch)
    assert first_number_after_an_end(tmp_path) > 0


def test_where_what_had_ended_counts_its_messages_are_missed_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    older_generations_count(monkeypatch)
    with pytest.raises(Stuck):
        first_number_after_an_end(tmp_path)


def epochs_beside_a_lonely_store(directory: Path) -> set[int]:
    """Return the epochs in which a source sends, while c hears nobody for long."""
    with Script(1, directory) as script:
        source = script.start_source(lifetime=5.0)
        script.until(lambda: source.receipts and script.holds("c", 0))
        mend = script.cut("c", "a", "b", source.name)
        script.run(30.0)
        mend()
        script.run(HEARD_SECONDS)
        return {receipt.epoch for receipt in source.receipts}


def test_a_store_that_hears_nobody_ends_no_source(tmp_path: Path) -> None:
    assert len(epochs_beside_a_lonely_store(tmp_path)) == 1


def test_a_store_that_asks_nobody_disturbs_a_source_that_lives(tmp_path: Path) -> None:
    with seams.MAY_EXPIRE_IN_LIFECYCLE.replaced(lambda *_: True):
        assert len(epochs_beside_a_lonely_store(tmp_path)) > 1
