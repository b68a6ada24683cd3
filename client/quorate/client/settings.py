"""The settings that all sources and receivers of a client share, as an application gives them.

Nothing is opened here. A file is read in quorate.client.file_settings.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import Any

from quorate.client.file_settings import OptionSections, read_file
from quorate.protocol.application import Application
from quorate.protocol.choices import check_flag, options_of
from quorate.protocol.delays import Delays
from quorate.protocol.errors import InvalidArgument
from quorate.protocol.heartbeat import Heartbeat
from quorate.protocol.identity import StoreAddress
from quorate.protocol.layout import Layout
from quorate.protocol.timeouts import check_timeout
from quorate.protocol.tls import Tls
from quorate.receiver.options import ReceiverOptions
from quorate.source.options import SourceOptions
from quorate.transport.application import this_application
from quorate.transport.credentials import check_files
from quorate.transport.tracing import Tracing

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
    delays: Delays | None
    """The delays of all sources and receivers; None: those of their options."""
    tls: Tls | None
    """The TLS files; None: connections are not secure."""
    application: Application
    """The application that stores show to operators."""
    options: OptionSections = field(default_factory=OptionSections)
    """The options that a file has for sources and receivers."""

    def source_options(self, topic: str, code: SourceOptions | None) -> SourceOptions:
        """Return the options of a source. Those named in code win. Raises InvalidArgument."""
        given = options_of(SourceOptions, code)
        return self.options.source.of(topic, given, **self._shared())

    def receiver_options(self, topic: str | None, code: ReceiverOptions | None) -> ReceiverOptions:
        """Return the options of a receiver. Those named in code win. Raises InvalidArgument."""
        given = options_of(ReceiverOptions, code)
        return self.options.receiver.of(topic, given, **self._shared())

    def _shared(self) -> dict[str, Any]:
        return {} if self.delays is None else {"delays": self.delays}


def read_settings(
    stores: Stores,
    previous_policies: Sequence[Stores],
    timeout: float | None,
    heartbeat_interval: float,
    heartbeat_timeout: float,
    delays: Delays | None,
    tls: Tls | None,
    name: str,
) -> Settings:
    """Return the settings of a client.

    Raises InvalidArgument, or ConfigurationInvalid with every problem of a file.
    """
    check_timeout(timeout)
    if not isinstance(delays, Delays | None):
        raise InvalidArgument("delays", f"{delays!r} is not made by Delays")
    if not isinstance(name, str):
        raise InvalidArgument("name", f"{name!r} is not text")
    if not isinstance(tls, Tls | None):
        raise InvalidArgument("tls", f"{tls!r} is not made by Tls")
    seconds = inf if timeout is None else timeout
    if isinstance(previous_policies, str) or not isinstance(previous_policies, Iterable):
        raise InvalidArgument("previous_policies", f"{previous_policies!r} is not a list")
    previous = tuple(read_layout(earlier) for earlier in previous_policies)
    heartbeat = Heartbeat(interval=heartbeat_interval, timeout=heartbeat_timeout)
    application = this_application(name)
    file = _file(stores)
    if file is None:
        layout = read_layout(stores)
        return _checked(Settings(layout, previous, seconds, heartbeat, delays, tls, application))
    read = read_file(file)
    before = (*read.previous, *previous)
    return _checked(
        Settings(
            read.layout,
            before,
            seconds,
            heartbeat,
            delays,
            tls or read.tls,
            application,
            read.options,
        )
    )


def tracing_of(tracing: bool) -> Tracing | None:
    """Return what makes spans, if the application asks for it. Raises InvalidArgument."""
    check_flag("tracing", tracing)
    return Tracing() if tracing else None


def _checked(settings: Settings) -> Settings:
    """Return the settings, if their TLS files can be used. Raises ConfigurationInvalid."""
    if settings.tls is not None:
        check_files(settings.tls)
    return settings


def read_layout(stores: Stores) -> Layout:
    """Return the layout of stores that are given as text, a list, a layout or a TOML file.

    Raises InvalidArgument, or ConfigurationInvalid with every problem of a file.
    """
    given: object = stores
    match stores:
        case Layout():
            return stores
        case os.PathLike():
            return read_file(Path(stores)).layout
        case str() if (file := _file(stores)) is not None:
            return read_file(file).layout
        case str():
            return Layout.plain(stores)
        case _ if isinstance(given, Iterable):
            return Layout.plain(
                tuple(
                    store if isinstance(store, StoreAddress) else _parsed(store) for store in given
                )
            )
        case _:
            return Layout.plain((_parsed(given),))


def _parsed(store: object) -> StoreAddress:
    if not isinstance(store, str):
        detail = f"{store!r} is none; name them as a=host:port,b=host:port,…"
        raise InvalidArgument("stores", detail)
    return StoreAddress.parse(store)


def _file(stores: Stores) -> Path | None:
    """Return the path of the file that is meant; None: no file is."""
    if isinstance(stores, str):
        return Path(stores.strip()) if stores.strip().endswith(".toml") else None
    return Path(stores) if isinstance(stores, os.PathLike) else None
