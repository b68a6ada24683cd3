"""docs/operating.md says how often, and how fast, a store checks what it has."""

from __future__ import annotations

import re
from pathlib import Path

from quorate.store.configuration import StoreConfiguration
from quorate.store.tasks import (
    repair,
    scrub,
    throttle,
)

DOCUMENT = Path(__file__).parents[2] / "docs" / "operating.md"
TEXT = re.split(r"^## ", DOCUMENT.read_text(), flags=re.M)
(CHECKS,) = (
    " ".join(part.split()) for part in TEXT if part.startswith("Checks that a store makes")
)
DAY = 86_400.0


def test_how_often_and_how_fast_a_store_checks() -> None:
    interval = StoreConfiguration.model_fields["scrub_interval_seconds"].default
    assert interval == DAY
    assert f"`scrub_interval_seconds`, {interval:,.0f} (a day) by default" in CHECKS
    slowest, fastest = scrub.BYTES_PER_SECOND_MIN >> 20, scrub.BYTES_PER_SECOND_MAX >> 20
    assert f"It is no slower than {slowest} MiB a second" in CHECKS
    assert f"It is no faster than {fastest} MiB a second" in CHECKS
    in_a_day = scrub.BYTES_PER_SECOND_MAX * DAY / 1e12
    assert f"a pass over more than about {in_a_day:.1f} TB takes longer than a day" in CHECKS


def test_how_often_a_store_compares_and_what_share_of_the_time_that_takes() -> None:
    assert f"It compares every {repair.COMPARE_SECONDS:.0f} s what is new." in CHECKS
    every = f"{repair.COMPARE_ALL_SECONDS / 3600:.0f} h"
    assert f"It compares everything every {every}, and after each start." in CHECKS
    assert throttle.SHARE == 1 / 5
    assert "a fifth of the time" in CHECKS
    assert f"took nothing for {throttle.BUSY_SECONDS:.1f} s" in CHECKS
