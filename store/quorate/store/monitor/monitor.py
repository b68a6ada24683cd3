"""The monitor of a store: its HTTP server with the pages, as the node starts and stops it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from concurrent.futures import Executor

from quorate.protocol.tls import Tls
from quorate.store.durations import Durations
from quorate.store.engine import Engine
from quorate.store.monitor.application import Pages
from quorate.store.monitor.group_view import SUBSCRIBERS_MAX, Report
from quorate.store.monitor.group_watch import GroupWatch
from quorate.store.monitor.health import Health
from quorate.store.monitor.last_messages import LastMessages
from quorate.store.monitor.scrape import Scrape
from quorate.store.monitor.server import MonitorServer
from quorate.store.rpc.guard import Admission
from quorate.store.rpc.status import Reports
from quorate.store.tasks import loop_lag
from quorate.store.tasks.peer_polling import Peers
from quorate.transport.status import read_status
from quorate.v1.queue_pb2 import QueueStatus


class Monitor:
    """The monitor of one store."""

    def __init__(
        self, listen: str, tls: Tls | None, health: Health, admission: Admission | None
    ) -> None:
        """Begin without a socket.

        - listen: host:port.
        - tls: None: the monitor speaks HTTP, otherwise HTTPS.
        - admission: None: whoever can connect may see the metrics.
        """
        self._health = health
        self._pages = Pages(health, _everybody if admission is None else admission.admit_token)
        self._server = MonitorServer(self._pages.application(), listen, tls)
        self._loop_lag = Durations()
        self._measuring: asyncio.Task[None] | None = None

    @property
    def address(self) -> str:
        """host:port; empty until the monitor has started."""
        return self._server.address

    async def start(self) -> None:
        """Serve health. Raises InvalidArgument, ConfigurationInvalid."""
        await self._server.start()
        self._measuring = asyncio.create_task(loop_lag.measure(self._loop_lag))

    def serve(
        self,
        reports: Reports,
        engine: Engine,
        peers: Peers,
        executor: Executor,
        queues: Callable[[], Iterable[QueueStatus]],
    ) -> None:
        """Serve everything from now on. queues: as for `Scrape`."""
        self._pages.last = LastMessages(engine, executor)
        self._pages.scrape = Scrape(reports, engine, self._health, self._loop_lag, queues)

        async def own() -> Report:
            status = await read_status(reports.parts("", SUBSCRIBERS_MAX))
            return Report(status, list(queues()))

        self._pages.group = GroupWatch(
            engine.core.store, engine.address, own, lambda: peers.addresses, peers.channel_to
        )

    async def end_views(self) -> None:
        """End the views of the group: the channels to peers are about to close."""
        if self._pages.group is not None:
            await self._pages.group.stop()

    async def stop(self) -> None:
        """Stop serving."""
        if self._measuring is not None:
            self._measuring.cancel()
        await self._server.stop()


def _everybody(_: str, __: str | None = None) -> None:
    """Admit everybody."""
