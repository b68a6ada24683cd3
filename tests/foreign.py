"""Servers that are no stores: they say one thing, and leave no connection behind."""

from __future__ import annotations

import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

NOT_GRPC = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"


@contextmanager
def answering(reply: bytes) -> Iterator[str]:
    """The address of a server that answers this to whatever comes, and hangs up."""

    class Answer(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            self.request.settimeout(10)
            with suppress(OSError):
                self.request.recv(16)
                self.request.sendall(reply)

    # Leaving it waits for its threads: none leaves a connection to the test that runs next.
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Answer) as server:
        serving = threading.Thread(target=server.serve_forever, args=(0.01,))
        serving.start()
        try:
            yield f"127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            serving.join()
