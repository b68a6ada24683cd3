"""Send a message a second to groups of stores, and print which groups hold each one.

python docs/examples/groups.py docs/examples/three-locations.toml orders
"""

import asyncio
import sys
from pathlib import Path

from quorate.client import Layout, Receipt, Source, connect
from quorate.client.source_events import Event
from quorate.errors import NotRegistered, QuorateError


def tell(event: Event) -> None:
    print(event)


async def publish(source: Source, payload: bytes, pause: float) -> Receipt:
    """Publish a message; try again while too few stores answer.

    The source registers again by itself.
    """
    while True:
        try:
            return await source.publish(payload)
        except NotRegistered as error:
            print(error)
            await asyncio.sleep(pause)


async def send(
    stores: Path | Layout, topic: str, messages: int, pause: float
) -> list[tuple[str, ...]]:
    """Send so many messages; return the groups that held each message when it became stable."""
    groups = []
    async with connect(stores) as quorate, quorate.source(topic, on_event=tell) as source:
        for number in range(messages):
            receipt = await publish(source, b"message %d" % number, pause)
            held = ", ".join(receipt.groups)
            print(f"{receipt.sequence} is on {', '.join(receipt.stores)}; groups: {held}")
            groups.append(receipt.groups)
            await asyncio.sleep(pause)
    return groups


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    file, topic = sys.argv[1:]
    try:
        asyncio.run(send(Path(file), topic, 3600, 1.0))
    except QuorateError as error:
        sys.exit(str(error))
