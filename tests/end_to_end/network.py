"""Where processes live and how they are cut off from each other; this host is one such place.

A place is cut off in one direction or both: `there` is what others send to it, `back` what it sends
to them.
"""

from __future__ import annotations

from contextlib import AsyncExitStack
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol, Self

from tests.end_to_end.proxy import Proxy

from quorate.console.group.ports import free_addresses

WAYS = ("there", "back")


@dataclass(frozen=True, slots=True)
class Place:
    """Where a process runs that others connect to."""

    listen: str
    """host:port for it to listen on."""
    address: str
    """host:port at which others reach it."""
    command: tuple[str, ...] = ()
    """What runs a command there."""


class Network(Protocol):
    """Places, and the ways between them."""

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...

    async def place(self, name: str) -> Place:
        """A place of that name, made at first use."""
        ...

    def stall(self, name: str, *ways: str) -> None:
        """Nothing passes these ways, and nobody is told."""
        ...

    def heal(self, name: str, *ways: str) -> None:
        """What waited passes, and all that follows."""
        ...

    def cut(self, name: str) -> None:
        """Break what connections there are to this place; what waited is lost."""
        ...


class Proxies:
    """All on this host, with a proxy in front of each place.

    Only connections that others make to a place can be stalled, not those that it makes itself.
    """

    def __init__(self) -> None:
        self._stack = AsyncExitStack()
        self._places: dict[str, Place] = {}
        self._proxies: dict[str, Proxy] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def place(self, name: str) -> Place:
        if name not in self._places:
            (listen,) = free_addresses(1)
            proxy = self._proxies[name] = Proxy(_port_of(listen))
            await self._stack.enter_async_context(proxy.running())
            self._places[name] = Place(listen, proxy.address)
        return self._places[name]

    async def door(self, name: str) -> Proxy:
        """A further proxy in front of a place, for some to use alone."""
        proxy = Proxy(_port_of(self._places[name].listen))
        await self._stack.enter_async_context(proxy.running())
        return proxy

    def stall(self, name: str, *ways: str) -> None:
        for way in ways:
            self._proxies[name].stall(way)

    def heal(self, name: str, *ways: str) -> None:
        self._proxies[name].heal(*ways)

    def cut(self, name: str) -> None:
        self._proxies[name].cut()


def _port_of(address: str) -> int:
    return int(address.rpartition(":")[2])
