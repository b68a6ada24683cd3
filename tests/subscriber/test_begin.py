"""Applications name where a subscription begins."""

from __future__ import annotations

from datetime import datetime

import pytest

from quorate.protocol.times import TIME_NS_MAX
from quorate.subscriber.begin import Time, read_begin


@pytest.mark.parametrize("given", ["9999-12-31", datetime(9999, 12, 31)])
def test_a_time_that_no_request_can_name_is_the_last_one(given: str | datetime) -> None:
    assert read_begin(given, 0) == Time(TIME_NS_MAX)
