from __future__ import annotations

from pathlib import Path

from quorate.console.children import free_addresses

LOCAL_PORTS = Path("/proc/sys/net/ipv4/ip_local_port_range")


def test_no_connection_is_given_the_port_of_a_store_that_is_down() -> None:
    addresses = free_addresses(50)
    assert len(set(addresses)) == 50
    first = int(LOCAL_PORTS.read_text().split()[0]) if LOCAL_PORTS.exists() else 49_152
    assert all(int(address.rpartition(":")[2]) < first for address in addresses)
