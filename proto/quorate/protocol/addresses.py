"""Addresses: the one spelling of a host and a port, and whether two spellings are one place.

Nothing here looks a name up. The names of stores are in quorate.protocol.identity.
"""

from __future__ import annotations

from contextlib import suppress
from ipaddress import IPv6Address

from quorate.protocol.limits import NUMBER_DIGITS_MAX

_THIS_MACHINE = "127.0.0.1"
_LOOPBACK = ("localhost", _THIS_MACHINE, "[::1]")


def normal_address(address: str) -> str:
    """Return a host:port in its one spelling.

    Letters are small. The port has no zeros in front. An IPv6 host has its shortest form.
    Text that has no port stays as it is.
    """
    host, _, port = address.rpartition(":")
    is_number = port.isdecimal() and len(port) <= NUMBER_DIGITS_MAX
    return f"{_normal_host(host.lower())}:{int(port)}" if is_number else address


def place_of(address: str) -> str:
    """Return the address that stands for every spelling of this host:port.

    The names of this machine's loopback interface are one place.
    """
    host, _, port = normal_address(address).rpartition(":")
    return f"{_THIS_MACHINE if host in _LOOPBACK else host}:{port}"


def _normal_host(host: str) -> str:
    if host.startswith("[") and host.endswith("]"):
        with suppress(ValueError):
            number = IPv6Address(host[1:-1])
            return str(number.ipv4_mapped or f"[{number}]")
    return host
