"""A store inside an application, and its check of what sources send."""

from __future__ import annotations

import runpy
import signal
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from quorate.client import connect
from quorate.errors import BatchRefused
from quorate.protocol.framing import encode_batch, read_header
from quorate.protocol.identity import SourceName
from quorate.source import SourceOptions
from quorate.store.embedded import (
    BatchCheck,
    OfferedBatch,
    StoreConfiguration,
    serve,
)
from quorate.store.node import StoreNode
from quorate.store.rules.batch_check import refuse

ORDERS = SourceName("orders", 7)
QUICK = SourceOptions(registration_interval=0.3)


def embedded(path: Path, name: str = "a", listen: str = "127.0.0.1:0") -> StoreConfiguration:
    return StoreConfiguration(name=name, data_directory=path / name, listen=listen, peers=())


def without(word: bytes) -> BatchCheck:
    def check(batch: OfferedBatch) -> str:
        found = [each.sequence for each in batch.messages() if word in each.payload]
        return f"message {found[0]} has {word.decode()}" if found else ""

    return check


async def test_it_serves_in_the_block_and_touches_no_signal(tmp_path: Path) -> None:
    before = {each: signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)}
    async with serve(embedded(tmp_path)) as node:
        assert isinstance(node, StoreNode)
        assert {each: signal.getsignal(each) for each in before} == before
        async with connect(f"a={node.address}") as quorate, quorate.source("orders") as source:
            assert (await source.publish(b"one")).sequence == 0
    await node.wait()
    async with (
        serve(embedded(tmp_path, listen=node.address)) as node,
        connect(f"a={node.address}", timeout=30.0) as quorate,
        quorate.receiver("orders") as receiver,
    ):
        assert (await anext(aiter(receiver))).payload == b"one"


@pytest.mark.expects_log("refused BatchRefused|cannot go on|does not take")
async def test_what_the_check_refuses_ends_the_source_and_is_not_kept(tmp_path: Path) -> None:
    async with (
        serve(embedded(tmp_path), without(b"bad")) as node,
        connect(node.address, timeout=30.0) as quorate,
    ):
        source = await quorate.source("orders", session_id=7, options=QUICK)
        await source.publish(b"good")
        with pytest.raises(BatchRefused, match="message 1 has bad") as caught:
            await source.publish(b"bad")
        assert (caught.value.first, caught.value.last) == (1, 1)
        assert not caught.value.retryable
        assert [each.payload for each in source.unstable()] == [b"bad"]
        with pytest.raises(BatchRefused):
            await source.close()
        again = await quorate.source("orders", session_id=7, options=QUICK)
        assert (await again.publish(b"better")).sequence == 1
        await again.close()


# On a busy machine repair asks a peer that does not have the message yet.
@pytest.mark.expects_log("refused BatchRefused|does not take|no peer could give it")
async def test_a_refusal_of_one_store_only_does_not_hold_up_the_source(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        nodes = [
            await stack.enter_async_context(
                serve(embedded(tmp_path, name), without(b"bad") if name == "a" else None)
            )
            for name in "abc"
        ]
        stores = ",".join(f"{name}={node.address}" for name, node in zip("abc", nodes, strict=True))
        async with connect(stores, timeout=30.0) as quorate:
            source = await quorate.source("orders", session_id=7, options=QUICK)
            receipt = await source.publish(b"bad")
            assert set(receipt.stores) == {"b", "c"}
            await source.close()


def batch_of(*payloads: bytes) -> bytes:
    return encode_batch(ORDERS, 1, 5, payloads, 0)


def test_a_check_sees_the_batch_as_it_is() -> None:
    frame = batch_of(b"one", b"two")
    seen: list[OfferedBatch] = []

    def check(batch: OfferedBatch) -> str:
        seen.append(batch)
        return ""

    refuse(check, read_header(frame), frame, len(frame), "a")
    (batch,) = seen
    assert (batch.source, batch.first, batch.last) == (ORDERS, 5, 6)
    assert (batch.size, batch.is_large) == (len(frame), False)
    assert [(each.sequence, each.payload) for each in batch.messages()] == [
        (5, b"one"),
        (6, b"two"),
    ]
    refuse(check, read_header(frame), b"", 1 << 24, "a")
    assert seen[1].is_large
    assert (seen[1].size, seen[1].messages()) == (1 << 24, [])


def test_a_check_that_fails_refuses() -> None:
    def check(_: OfferedBatch) -> str:
        raise KeyError("id")

    frame = batch_of(b"one")
    with pytest.raises(BatchRefused, match=r"its check failed: KeyError\('id'\)"):
        refuse(check, read_header(frame), frame, len(frame), "a")


@pytest.mark.expects_log("refused BatchRefused|cannot go on|does not take")
async def test_the_example(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = Path(__file__).parents[2] / "docs" / "examples" / "embedded_store.py"
    example = runpy.run_path(str(path))
    await example["main"](tmp_path)
    taken, refused = capsys.readouterr().out.splitlines()
    assert taken == "message 0 is on inside"
    assert refused.startswith("Store inside refuses [0, 0] of orders/")
    assert "message 0 is no JSON" in refused
