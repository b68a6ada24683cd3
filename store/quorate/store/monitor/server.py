"""The HTTP server of a store, on the store's own event loop. The pages are made elsewhere."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Iterator
from functools import partial
from typing import Any

import uvicorn

from quorate.protocol.delays import REPEAT
from quorate.protocol.tls import Tls
from quorate.store.configuration import cannot_listen
from quorate.store.monitor.connection import REQUEST_SECONDS, Connection
from quorate.store.monitor.visitors import Visitor, Visitors
from quorate.transport.credentials import check_files, paths_of
from quorate.transport.delays import delay
from quorate.transport.watched_files import WatchedFiles

_STOP_SECONDS = 1
"""The time that requests under way have to end when the server stops."""


class MonitorServer:
    """The HTTP server of one store."""

    def __init__(self, application: Any, listen: str, tls: Tls | None) -> None:
        """Begin without a socket.

        - application: in the form of ASGI.
        - listen: host:port. Port 0 takes a free one.
        - tls: None: the server speaks HTTP, otherwise HTTPS. Clients need no certificate.
        """
        self._application = application
        self._listen = listen
        self._tls = tls
        self._server: _Server | None = None
        self._serving: asyncio.Task[None] | None = None
        self._accepting: asyncio.Task[None] | None = None
        self._visitors = Visitors()
        self.address = ""
        """host:port; set once the server has started."""

    async def start(self) -> None:
        """Listen and serve. Raises InvalidArgument, ConfigurationInvalid."""
        host, _, port = self._listen.rpartition(":")
        try:
            listening = socket.create_server(
                (host.strip("[]"), int(port)),
                family=socket.AF_INET6 if host.startswith("[") else socket.AF_INET,
            )
        except OSError as error:
            raise cannot_listen("monitor.listen", self._listen, error) from error
        config = uvicorn.Config(
            self._application,
            log_config=None,
            log_level="error",  # a stranger's bad request is no warning
            access_log=False,
            lifespan="off",
            ws="none",
            timeout_graceful_shutdown=_STOP_SECONDS,
            server_header=False,
        )
        config.load()
        context = None if self._tls is None else _context(self._tls)
        self._server = _Server(config)
        self._serving = asyncio.create_task(self._server.serve(sockets=[]))
        listening.setblocking(False)
        self._accepting = asyncio.create_task(self._accept(self._server, listening, context))
        self.address = f"{host}:{listening.getsockname()[1]}"

    async def stop(self) -> None:
        """Stop. Requests under way have a moment to end."""
        if self._server is None or self._serving is None or self._accepting is None:
            return
        self._accepting.cancel()
        await asyncio.gather(self._accepting, return_exceptions=True)
        self._server.should_exit = True
        await self._serving
        self._visitors.close_all()

    async def _accept(
        self, server: _Server, listening: socket.socket, context: ssl.SSLContext | None
    ) -> None:
        """Take in whoever connects. uvicorn would count a connection only after its handshake."""
        loop = asyncio.get_running_loop()
        opening, failures = set[asyncio.Task[None]](), 0
        with listening:
            while True:
                try:
                    connection, (peer, *_) = await loop.sock_accept(listening)
                except OSError:  # The process has no descriptor left, perhaps.
                    failures += 1
                    await asyncio.sleep(delay(REPEAT, failures))
                    continue
                failures = 0
                visitor = Visitor(peer, connection.close)
                task = asyncio.create_task(self._open(server, connection, context, visitor))
                visitor.close = task.cancel
                opening.add(task)
                task.add_done_callback(opening.discard)
                self._visitors.come(visitor)
                # From here on the task owns the socket. Other tasks run between two visitors.
                await asyncio.sleep(0)

    async def _open(
        self,
        server: _Server,
        connection: socket.socket,
        context: ssl.SSLContext | None,
        visitor: Visitor,
    ) -> None:
        """Speak HTTP with a visitor, after the handshake of TLS if there is one."""
        loop = asyncio.get_running_loop()
        try:
            await loop.connect_accepted_socket(
                lambda: Connection(server.config, server.server_state, self._visitors, visitor),
                connection,
                ssl=context,
                ssl_handshake_timeout=None if context is None else REQUEST_SECONDS,
            )
        except (OSError, asyncio.CancelledError):
            # The handshake failed, or the visitor gave way. The transport closes the socket.
            self._visitors.go(visitor)


class _Server(uvicorn.Server):
    """A server that leaves signals to the store."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def _context(tls: Tls) -> ssl.SSLContext:
    """Return a context that uses the newest files for each handshake."""
    kept = "the certificate of the monitor that was there before stays"
    contexts = WatchedFiles(paths_of(tls), partial(_loaded, tls), kept)

    def renewed(connection: ssl.SSLObject, _: str | None, __: ssl.SSLContext) -> None:
        connection.context = contexts.content

    first = _loaded(tls)
    first.sni_callback = renewed
    return first


def _loaded(tls: Tls) -> ssl.SSLContext:
    check_files(tls)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tls.certificate, tls.key)
    return context
