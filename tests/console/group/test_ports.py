from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from quorate.console.group.ports import Ports, free_addresses

LOCAL_PORTS = Path("/proc/sys/net/ipv4/ip_local_port_range")
MANY = 300
"""So many that processes which know nothing of each other would be given some in common."""
ANOTHER = f"""
import json, sys
from quorate.console.group.ports import free_addresses
print(json.dumps(free_addresses({MANY})), flush=True)
sys.stdin.read()
"""


def own_ports(count: int) -> list[int]:
    """Return ports that no other process is given as long as this one runs."""
    return [int(address.rpartition(":")[2]) for address in free_addresses(count)]


@contextmanager
def another_process() -> Iterator[list[str]]:
    """Yield the addresses of a process that runs beside this one. It listens on none of them."""
    with subprocess.Popen(
        [sys.executable, "-c", ANOTHER], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        yield json.loads(process.stdout.readline())
        process.kill()


def test_no_connection_is_given_the_port_of_a_store_that_is_down() -> None:
    addresses = free_addresses(50)
    assert len(set(addresses)) == 50
    first = int(LOCAL_PORTS.read_text().split()[0]) if LOCAL_PORTS.exists() else 49_152
    assert all(int(address.rpartition(":")[2]) < first for address in addresses)


def test_processes_are_given_no_port_in_common_though_nobody_listens() -> None:
    with ExitStack() as stack:
        others = [stack.enter_context(another_process()) for _ in range(2)]
        every = [*free_addresses(MANY), *others[0], *others[1]]
        assert len(set(every)) == len(every) == 3 * MANY


def test_a_fork_is_given_ports_of_its_own() -> None:
    before = set(free_addresses(MANY))
    reading, writing = os.pipe()
    fork = os.fork()
    if not fork:
        os.write(writing, json.dumps(free_addresses(MANY)).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as told:
        assert before.isdisjoint(json.load(told))
    os.waitpid(fork, 0)


def test_a_block_is_free_again_once_it_is_left() -> None:
    ports = own_ports(8)
    one, other = Ports(ports, block=4), Ports(ports, block=4)
    taken = {*one.free(3), *other.free(3)}
    assert len(taken) == 6
    with pytest.raises(OSError, match="no block of ports is left"):
        other.free(4)
    one.close()
    assert len(other.free(6)) == 6
    other.close()


def test_a_port_is_given_again_as_late_as_can_be() -> None:
    ports = Ports(own_ports(7), block=7)
    assert [*ports.free(2), *ports.free(4)] == ports.free(6)
    ports.close()
