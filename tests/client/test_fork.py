"""A forked child that uses its parent's client is told what to do, and never waits for ever."""

from __future__ import annotations

import asyncio
import sys
import textwrap

import pytest
from tests.receiver.real_peers import Stores

pytestmark = pytest.mark.processes

SUPPORT = """
import asyncio, os, sys, tempfile
from quorate.client import FilePublishStore, Outgoing, connect, connect_blocking
from quorate.errors import UsedBeforeFork

STORES = sys.argv[1]

def told(what, call):
    try:
        call()
    except UsedBeforeFork as error:
        assert "spawn" in str(error) and str(os.getppid()) in str(error)
    else:
        print(what, "raised nothing", flush=True)

def in_child(body):
    child = os.fork()
    if not child:
        try:
            body()
        except BaseException as error:
            print(repr(error), flush=True)
        finally:
            os._exit(0)
    os.waitpid(child, 0)
"""

BLOCKING = """
kept = FilePublishStore(tempfile.mkdtemp())
client = connect_blocking(STORES)
source = client.source("orders")
safe = client.source("safe", publish_store=kept)
receiver = client.receiver("orders")
source.publish(b"before")

def body():
    told("send", lambda: source.send(b"x"))
    told("send", lambda: source.send(b"x", timeout=1))
    told("send with a key", lambda: source.send(b"x", key=b"k"))
    told("send to a publish store", lambda: safe.send(b"x"))
    told("send_many", lambda: source.send_many([b"x"]))
    told("send_nowait", lambda: source.send_nowait(b"x"))
    told("publish", lambda: source.publish(b"x", timeout=1))
    told("commit", lambda: source.commit([b"x"], b"marker"))
    told("flush", lambda: source.flush(1))
    told("close", lambda: source.close(1))
    told("deregister", lambda: source.deregister(1))
    told("receive", lambda: receiver.receive(1))
    told("iterate", lambda: next(iter(receiver)))
    told("flush of a receiver", lambda: receiver.flush(1))
    told("close of a receiver", lambda: receiver.close())
    told("another source", lambda: client.source("other"))
    told("another receiver", lambda: client.receiver("other"))
    told("another client", lambda: connect_blocking(STORES).source("other"))
    told("close of the client", lambda: client.close())

with source._lock:  # as if another thread were in the middle of a send
    in_child(body)
in_child(body)
source.publish(b"after", timeout=30)
client.close()
print("done", flush=True)
"""

ASYNCIO = """
async def main():
    async with connect(STORES) as client:
        source = await client.source("orders")
        receiver = await client.receiver("orders")
        await source.publish(b"before")

        def run(make):
            return lambda: asyncio.run(make())

        async def another():
            await connect(STORES).source("other")

        def body():
            told("send", run(lambda: source.send(b"x")))
            told("send with a key", run(lambda: source.send(b"x", key=b"k")))
            told("send_many", run(lambda: source.send_many([b"x"])))
            told("send_nowait", lambda: source.send_nowait(b"x"))
            told("publish", run(lambda: source.publish(b"x")))
            told("close", run(lambda: source.close(1)))
            told("deregister", run(lambda: source.deregister(1)))
            told("receive", run(lambda: receiver.receive()))
            told("flush of a receiver", run(lambda: receiver.flush()))
            told("close of a receiver", run(lambda: receiver.close()))
            told("another client", run(another))
            told("close of the client", run(lambda: client.close()))

        in_child(body)
        await source.publish(b"after")
    print("done", flush=True)

asyncio.run(main())
"""

EARLY = """
client = connect_blocking(STORES)

def body():
    with client.source("orders") as source:
        source.publish(b"from the child", timeout=30)
    print("published", flush=True)

in_child(body)
print("done", flush=True)
"""


@pytest.mark.parametrize(
    ("program", "output"),
    [(BLOCKING, b"done\n"), (ASYNCIO, b"done\n"), (EARLY, b"published\ndone\n")],
    ids=["blocking", "asyncio", "before the parent connects"],
)
async def test_a_forked_child_is_told_at_once(stores: Stores, program: str, output: bytes) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        textwrap.dedent(SUPPORT) + program,
        stores.addresses,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(60):
            said, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
    assert said == output
