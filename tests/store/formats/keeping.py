"""A kept data directory of each released format: what it has, and how it is made.

`python -m tests.store.formats.keeping` writes the one of the present format. A release that raises
the format keeps it; it is never written again.
"""

from __future__ import annotations

import asyncio
import tarfile
import tempfile
from pathlib import Path

from quorate.client import connect
from quorate.store.configuration import StoreConfiguration, TopicConfiguration
from quorate.store.node import StoreNode
from quorate.store.storage.data_directory import FORMAT

HERE = Path(__file__).parent
NAME = "kept"
MESSAGES = [b'{"number": %d}' % number for number in range(50)]
KEYS = [b"key %d" % (number % 7) for number in range(50)]
TAKEN = 20
"""The messages that the receiver has taken."""
RECEIVER = 2


def archives() -> list[Path]:
    """Return the kept directories."""
    return sorted(HERE.glob("format-*.tar.gz"))


async def started(directory: Path) -> StoreNode:
    """Start a store on the directory."""
    topic = TopicConfiguration(pattern="orders", keys=("$key",))
    node = StoreNode(
        StoreConfiguration(
            name=NAME, data_directory=directory, listen="127.0.0.1:0", peers=(), topic=(topic,)
        )
    )
    await node.start()
    return node


async def fill(directory: Path) -> None:
    """Let a store have a source, a receiver, and rows of keys."""
    node = await started(directory)
    async with connect(f"{NAME}={node.address}") as client:
        async with client.source("orders", session_id=1) as source:
            for payload, key in zip(MESSAGES, KEYS, strict=True):
                await source.send(payload, key=key)
            await source.flush()
            async with client.receiver("orders", session_id=RECEIVER) as receiver:
                for _ in range(TAKEN):
                    await receiver.receive(timeout=30)
                await receiver.flush()
        assert await client.state("orders").count() == len(set(KEYS))
    await node.stop()


def _without_logs(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """Leave out the log of RocksDB, which is for people, and the owner."""
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return None if member.name.endswith("/LOG") else member


def keep() -> Path:
    """Write the directory of the present format, and return its archive."""
    path = HERE / f"format-{FORMAT:02}.tar.gz"
    with tempfile.TemporaryDirectory() as temporary:
        asyncio.run(fill(Path(temporary) / NAME))
        with tarfile.open(path, "w:gz") as archive:
            archive.add(Path(temporary) / NAME, NAME, filter=_without_logs)
    return path


if __name__ == "__main__":
    print(keep())
