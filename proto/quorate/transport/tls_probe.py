"""A question to an address that hangs up without a word: does it speak TLS?

gRPC reports the same for a server that refuses a handshake and for one that stops. The question
blocks its thread for a moment, so an address that did not speak TLS is not asked again.
"""

from __future__ import annotations

import socket
import ssl

PROBE_SECONDS_MAX = 0.25
"""The time that each step of the question may take: it is asked on event loops, too."""

_without_tls: set[str] = set()
"""The addresses that were asked and did not speak TLS."""


def speaks_tls(address: str) -> bool:
    """Return whether the server at host:port answers a TLS handshake, whatever its certificate."""
    if address in _without_tls:
        return False
    answers = _answers(address)
    if not answers:
        _without_tls.add(address)
    return answers


def _answers(address: str) -> bool:
    host, _, port = address.rpartition(":")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    try:
        target = (host.strip("[]"), int(port))
        with socket.create_connection(target, PROBE_SECONDS_MAX) as connection:
            context.wrap_socket(connection).close()
    except (OSError, ValueError):
        return False
    return True
