"""Timeouts that an application gives."""

from __future__ import annotations

from math import inf, nan
from typing import Any

import pytest

from quorate.protocol.errors import InvalidArgument
from quorate.protocol.timeouts import check_timeout


@pytest.mark.parametrize("seconds", [None, 0, 0.5, 30, inf])
def test_timeouts(seconds: float | None) -> None:
    assert check_timeout(seconds) == seconds


@pytest.mark.parametrize("wrong", [-1, -0.001, nan, "1", [1], b"1"])
def test_what_is_no_timeout(wrong: Any) -> None:
    with pytest.raises(InvalidArgument, match=r"timeout: .* is not a number of seconds, 0 or more"):
        check_timeout(wrong)
