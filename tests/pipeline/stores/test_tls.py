"""The pipeline's client of stores that speak TLS, with settings from its environment."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.certificates import files
from tests.pipeline.group import Group

from quorate.console.group.authority import Authority
from quorate.errors import TlsFailed
from quorate.pipeline.stores.client import Stores, channel_to
from quorate.protocol.errors import Unreachable
from quorate.protocol.tls import environment_of


def test_the_environment_says_how_to_connect(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = Authority.new()
    tls = files(tmp_path / "tls", authority, "all")
    for name, value in environment_of(tls).items():
        monkeypatch.setenv(name, value)
    group = Group(tmp_path, count=1)
    group.start()
    try:
        assert Stores(group.addresses).sources().answered == tuple(group.addresses)
        channel = channel_to(group.addresses[0])
        assert channel_to(group.addresses[0]) is channel
        files(tmp_path / "tls", authority, "all")
        assert channel_to(group.addresses[0]) is not channel, "new files count for a new channel"
        assert Stores(group.addresses).sources().sources == {}
        for name, value in environment_of(None).items():
            monkeypatch.setenv(name, value)
        with pytest.raises((TlsFailed, Unreachable), match="it speaks TLS, and this end does not"):
            Stores(group.addresses).sources()
    finally:
        group.stop()
