"""A process that sends until it is killed, and reports each message that a call has accepted.

It is started as `python killed_sender.py STORES PATH asyncio|blocking 0|1 ROUND`. A line of its
output is a sequence number, a space, and the payload.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import sys
import threading
import time
from collections.abc import Iterator, Sequence

from quorate import source as asynchronous
from quorate.protocol.errors import QuorateError
from quorate.source import FilePublishStore, Outgoing
from quorate.source.blocking import Source

THREADS = 2
REPORTING = threading.Lock()


def report(first: int, payloads: Sequence[bytes]) -> None:
    """One line a message."""
    lines = (b"%d %b\n" % (number, each) for number, each in enumerate(payloads, first))
    with REPORTING:
        os.write(1, b"".join(lines))


def payloads(prefix: str) -> Iterator[bytes]:
    """Distinct payloads of different sizes."""
    for number in itertools.count():
        yield f"{prefix}-{number}-{'x' * (number % 200)}".encode()


async def send(stores: str, path: str, sync: bool, run: str) -> None:
    source = await asynchronous.Source.open(
        "orders", session_id=0x10, stores=stores, publish_store=FilePublishStore(path, sync)
    )
    report(-1, [b"open"])
    made = payloads(run)
    for number in itertools.count():
        if number % 50 == 10:
            many = [next(made) for _ in range(30)]
            report((await source.send_many(many)).start, many)
        elif number % 50 == 20:
            many = [next(made) for _ in range(5)]
            report((await source.commit(many, b"mark")).start, many)
        elif number % 50 == 30:
            payload = next(made)
            report(await source.send(payload, key=b"key"), [payload])
        else:
            payload = next(made)
            report(await source.send(payload), [payload])


def send_from_threads(stores: str, path: str, sync: bool, run: str) -> None:
    source = Source.open(
        "orders", session_id=0x10, stores=stores, publish_store=FilePublishStore(path, sync)
    )
    report(-1, [b"open"])

    def send(name: str) -> None:
        made = payloads(f"{run}-{name}")
        for number in itertools.count():
            payload = next(made)
            if number % 50 == 0:
                time.sleep(0.002)  # the stores of the test are slow with very many messages
            if number % 50 == 10:
                many: list[bytes | Outgoing] = [next(made) for _ in range(30)]
                report(source.send_many(many).start, many)  # type: ignore[arg-type]
            elif number % 50 == 30:
                report(source.send(payload, properties={"a": b"b"}), [payload])
            else:
                report(source.send(payload), [payload])

    threads = [threading.Thread(target=send, args=(str(n),)) for n in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    _, stores, path, how, sync, run = sys.argv
    try:
        if how == "asyncio":
            asyncio.run(send(stores, path, sync == "1", run))
        else:
            send_from_threads(stores, path, sync == "1", run)
    except QuorateError as error:
        report(-1, [repr(error).encode()])
        raise
