"""The settings that all sources and receivers of a client share, as an application gives them.

Reading a file is the only I/O here; nothing is opened.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path

from quorate.protocol.errors import ConfigurationInvalid
from quorate.protocol.heartbeat import Heartbeat
from quorate.protocol.identity import StoreAddress
from quorate.protocol.layout import Layout
from quorate.protocol.timeouts import check_timeout

Stores = str | os.PathLike[str] | Sequence[str | StoreAddress] | Layout
"""The stores, as `connect` takes them."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings that all sources and receivers of a client share."""

    layout: Layout
    previous: tuple[Layout, ...]
    """The layouts of earlier configurations."""
    timeout: float
    """Seconds for which opening waits, unless the call says otherwise; inf: as long as it takes."""
    heartbeat: Heartbeat
    """The pace of the heartbeats with stores, sources and receivers."""


def read_settings(
    stores: Stores,
    previous_policies: Sequence[Stores],
    timeout: float | None,
    heartbeat_interval: float,
    heartbeat_timeout: float,
) -> Settings:
    """Return the settings of a client.

    Raises InvalidArgument, or ConfigurationInvalid with every problem of a file.
    """
    check_timeout(timeout)
    previous = tuple(read_layout(earlier) for earlier in previous_policies)
    heartbeat = Heartbeat(interval=heartbeat_interval, timeout=heartbeat_timeout)
    patience = inf if timeout is None else timeout
    return Settings(read_layout(stores), previous, patience, heartbeat)


def read_layout(stores: Stores) -> Layout:
    """Return the layout of stores that are given as text, a list, a layout or a TOML file.

    Raises InvalidArgument, or ConfigurationInvalid with every problem of a file.
    """
    match stores:
        case Layout():
            return stores
        case os.PathLike():
            return _read_file(Path(stores))
        case str() if stores.strip().endswith(".toml"):
            return _read_file(Path(stores.strip()))
        case str():
            return Layout.plain(stores)
        case _:
            return Layout.plain(
                tuple(
                    StoreAddress.parse(store) if isinstance(store, str) else store
                    for store in stores
                )
            )


def _read_file(path: Path) -> Layout:
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigurationInvalid(str(path), f"  {error.strerror}") from None
    return Layout.from_toml(text)
