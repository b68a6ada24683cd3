"""What the log says of events that only people read."""

from __future__ import annotations

import logging

import pytest

from quorate.protocol.identity import SourceName
from quorate.source import WaitingForStores
from quorate.source.io.engine import _log_event


@pytest.mark.parametrize(
    ("seconds", "upto"), [(2.25, "2.2 s at most"), (0.0, "as long as it takes")]
)
def test_how_long_it_waits(seconds: float, upto: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "quorate.source"):
        _log_event(SourceName("orders", 0x10), WaitingForStores(("b", "c"), seconds))
    assert caplog.messages == [f"orders/0x10 waits for b, c, {upto}"]
