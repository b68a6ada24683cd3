"""What holds for every test: nothing may be complained of that the test does not expect."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator

import pytest

# Before anything imports gRPC: what it does in a fork ends one in ten of those that start Java.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")


@pytest.fixture(autouse=True)
def only_expected_complaints(
    request: pytest.FixtureRequest, caplog: pytest.LogCaptureFixture
) -> Iterator[None]:
    """Fail on a WARNING or worse of ours that no `expects_log` mark of the test matches."""
    yield
    expected = [mark.args[0] for mark in request.node.iter_markers("expects_log")]
    complaints = [
        f"{record.levelname} {record.name}: {record.getMessage()}"
        for when in ("setup", "call")
        for record in caplog.get_records(when)
        if record.levelno >= logging.WARNING and record.name.startswith("quorate")
    ]
    unexpected = [
        line for line in complaints if not any(re.search(pattern, line) for pattern in expected)
    ]
    assert unexpected == []
