"""Short stories that chance tells too seldom, each with its guard and without it."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests import seams
from tests.world.script import Script

pytestmark = pytest.mark.expects_log(".*")


def stable_after_a_wipe(directory: Path) -> tuple[int, int]:
    """Return how many messages are reported as stable, and how many stores hold the last of them.

    Store a alone has message 1, and has said so. It is wiped, and vouches again. Then b gets 1.
    """
    with Script(1, directory) as script:
        source = script.start_source(sends=False)
        script.until(lambda: source.source is not None)
        script.send(source)
        script.until(lambda: source.receipts and all(script.holds(each, 0) for each in "abc"))
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
