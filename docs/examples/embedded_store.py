"""Run a store inside this program, and refuse messages that are no JSON.

python docs/examples/embedded_store.py DIRECTORY
"""

import asyncio
import json
import sys
from pathlib import Path

from quorate.client import connect
from quorate.errors import BatchRefused
from quorate.store.embedded import OfferedBatch, StoreConfiguration, serve


def only_json(batch: OfferedBatch) -> str:
    for message in batch.messages():
        try:
            json.loads(message.payload)
        except ValueError:
            return f"message {message.sequence} is no JSON"
    return ""


async def publish(address: str, payload: bytes) -> None:
    async with connect(address) as quorate, quorate.source("orders") as source:
        receipt = await source.publish(payload)
        print(f"message {receipt.sequence} is on {', '.join(receipt.stores)}")


async def main(directory: Path) -> None:
    configuration = StoreConfiguration(
        name="inside", data_directory=directory, listen="127.0.0.1:0", peers=()
    )
    async with serve(configuration, only_json) as node:
        await publish(f"inside={node.address}", b'{"id": 1}')
        try:
            await publish(f"inside={node.address}", b"no JSON")
        except BatchRefused as error:
            print(error)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    asyncio.run(main(Path(sys.argv[1])))
