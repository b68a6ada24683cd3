"""Ports of this machine for stores that a process starts.

Each process takes its ports from blocks that no other process takes from. A port without a listener
looks free to everyone. So a store that is down, or not up yet, keeps its port only by such a block.
"""

from __future__ import annotations

import os
import random
import socket
from collections import deque
from collections.abc import Sequence
from contextlib import ExitStack, suppress

_PORTS = range(20_000, 32_000)
"""Ports below those that systems give to outgoing connections."""
_BLOCK_PORTS = 150
_HOST = "127.0.0.1"


class Ports:
    """The ports that this process may give to its stores.

    The first port of a block is bound as long as the block is claimed. The system frees it when the
    process ends, however it ends.
    """

    def __init__(self, ports: Sequence[int], block: int) -> None:
        """ports: of all processes. block: how many of them a process claims at once."""
        self._blocks = [ports[first : first + block] for first in range(0, len(ports), block)]
        self._claims: list[socket.socket] = []
        self._own: deque[int] = deque()
        """The port that was looked at longest ago is the first."""

    def free(self, count: int) -> list[int]:
        """Return this many ports on which no process listens. Raises OSError."""
        with ExitStack() as listening:
            found: list[int] = []
            unseen = len(self._own)
            while len(found) < count:
                if not unseen:
                    unseen = self._claim()
                port = self._own.popleft()
                self._own.append(port)
                unseen -= 1
                with suppress(OSError):
                    listening.enter_context(socket.create_server((_HOST, port)))
                    found.append(port)
        return found

    def close(self) -> None:
        """Leave all blocks to others. This process claims anew if it needs ports again."""
        for claim in self._claims:
            claim.close()
        self._claims.clear()
        self._own.clear()

    def _claim(self) -> int:
        """Claim another block, and return how many ports it has. Raises OSError."""
        for first, *others in random.sample(self._blocks, len(self._blocks)):
            # Without SO_REUSEADDR: it is bound once, so also only once by this process.
            claim = socket.socket()
            try:
                claim.bind((_HOST, first))
            except OSError:
                claim.close()
                continue
            self._claims.append(claim)
            self._own.extendleft(reversed(others))
            return len(others)
        raise OSError(f"no block of ports is left on {_HOST}: other processes have them all")


_OWN = Ports(_PORTS, _BLOCK_PORTS)
# A fork is another process: the blocks stay with its parent.
os.register_at_fork(after_in_child=_OWN.close)


def free_addresses(count: int) -> list[str]:
    """Return this many addresses on this machine on which no process listens. Raises OSError.

    Until this process ends, no other process is given them.
    """
    return [f"{_HOST}:{port}" for port in _OWN.free(count)]
