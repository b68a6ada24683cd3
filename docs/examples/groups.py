"""Send a message a second to groups of stores, and say what happens to them.

python docs/examples/groups.py docs/examples/three-locations.toml orders
"""

import asyncio
import sys
from pathlib import Path

from quorate.protocol.errors import QuorateError
from quorate.source import Event, Layout, Source


def tell(event: Event) -> None:
    print(event)


async def send(layout: Layout, topic: str, messages: int, pause: float) -> list[tuple[str, ...]]:
    """Send so many messages; returns the groups that held each of them when it became stable."""
    groups = []
    async with await Source.open(topic, stores=layout, on_event=tell) as source:
        for number in range(messages):
            receipt = await source.publish(b"message %d" % number)
            print(f"{receipt.sequence} is on {', '.join(receipt.stores)}")
            groups.append(receipt.groups)
            await asyncio.sleep(pause)
    return groups


if __name__ == "__main__":
    try:
        file, topic = sys.argv[1:]
        asyncio.run(send(Layout.from_toml(Path(file).read_text()), topic, 3600, 1.0))
    except QuorateError as error:
        sys.exit(str(error))
