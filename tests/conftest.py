"""What holds for every test: nothing may be complained of that the test does not expect."""

from __future__ import annotations

import logging
import os
import re
import signal
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import settings
from tests import forks, ports
from tests.sharing import share

# Before anything imports gRPC: what it does in a fork ends one in ten of those that start Java.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
# The processes that tests start need two thirds of the time if they find compiled modules.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
# Rewriting the asserts of all tests takes each process twenty seconds: the next run finds it done.
sys.dont_write_bytecode = False
# What commands print goes through a buffer, as with most people.
os.environ.pop("PYTHONUNBUFFERED", None)
# A shell lets what it starts in the background ignore Ctrl-C. Processes of tests would do so, too.
signal.signal(signal.SIGINT, signal.default_int_handler)

# No example has to be quick: the machine may be busy with other things.
settings.register_profile("busy", deadline=None)
settings.load_profile("busy")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """How processes share the tests (`-n`), unless the command line says (`--dist`)."""
    from xdist.scheduler import LoadScopeScheduling

    class Sharing(LoadScopeScheduling):  # type: ignore[misc]
        """Hands out the shares with the most tests first."""

        def _split_scope(self, nodeid: str) -> str:
            return share(nodeid)

    return Sharing(config, log) if config.getoption("dist") == "load" else None


def pytest_configure(config: pytest.Config) -> None:
    """Let processes of tests begin as forks, and servers keep their ports."""
    server = forks.Server()
    config.add_cleanup(server.close)
    forks.install(server)
    ports.install()


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
