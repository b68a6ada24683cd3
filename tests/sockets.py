"""The TCP connections of this process."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable

import psutil


def connections_to(addresses: Iterable[str]) -> Counter[str]:
    """Return how many TCP connections this process has made to each of these addresses.

    The addresses differ in their ports: gRPC writes the hosts in its own way.
    """
    by_port = {int(address.rpartition(":")[2]): address for address in addresses}
    return Counter(
        by_port[each.raddr.port]
        for each in psutil.Process(os.getpid()).net_connections("tcp")
        if each.raddr and each.raddr.port in by_port and each.status == psutil.CONN_ESTABLISHED
    )
