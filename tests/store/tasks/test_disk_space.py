from __future__ import annotations

import logging

import pytest

from quorate.store.tasks.disk_space import DiskSpace

MIB = 1024 * 1024


@pytest.mark.expects_log("has 900 MiB left. The store stops at 64 MiB")
def test_a_low_disk_is_said_once_and_once_that_it_is_well_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "quorate.store")
    free = iter((2000 * MIB, 900 * MIB, 900 * MIB, 1030 * MIB, 800 * MIB, 1200 * MIB))
    space = DiskSpace("a", lambda: next(free), 1024 * MIB, 64 * MIB)
    for _ in range(6):
        space.look()
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]
    assert "has 1200 MiB left again" in caplog.text
