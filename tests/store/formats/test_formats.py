"""A store reads the data directory of each released format, and loses nothing of it."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest
from tests.store.formats.keeping import (
    KEYS,
    MESSAGES,
    NAME,
    RECEIVER,
    TAKEN,
    archives,
    started,
)

from quorate.client import connect
from quorate.client.replay import EPOCH, Completed, ReplayedMessage
from quorate.store.storage.data_directory import FORMAT


@pytest.mark.parametrize("kept", archives(), ids=lambda path: path.name)
async def test_nothing_of_it_is_lost(kept: Path, tmp_path: Path) -> None:
    with tarfile.open(kept) as archive:
        # Python 3.11.2 has no filters yet.
        archive.extraction_filter = getattr(tarfile, "data_filter", None)
        archive.extractall(tmp_path)
    node = await started(tmp_path / NAME)
    try:
        async with connect(f"{NAME}={node.address}") as client:
            found = []
            async with client.subscriber("orders", begin=EPOCH) as subscriber:
                async for item in subscriber:
                    if isinstance(item, Completed):
                        break
                    if isinstance(item, ReplayedMessage):
                        found.append((item.key, item.payload))
            assert found == list(zip(KEYS, MESSAGES, strict=True))
            rows = await client.state("orders").query(order_by=["number"])
            assert [json.loads(row.payload)["number"] for row in rows] == list(range(43, 50))
            async with client.source("orders", session_id=1) as source:
                receipt = await source.publish(b"new", key=b"new")
                assert receipt.sequence == len(MESSAGES)
                async with client.receiver("orders", session_id=RECEIVER) as receiver:
                    message = await receiver.receive(timeout=30)
                    assert message is not None
                    assert message.sequence in (TAKEN - 1, TAKEN), "it goes on where it was"
    finally:
        await node.stop()
    # Read once, it is a directory of this version.
    assert json.loads((tmp_path / NAME / "FORMAT").read_text())["format"] == FORMAT


def test_the_present_format_is_kept() -> None:
    assert any(path.name == f"format-{FORMAT:02}.tar.gz" for path in archives())
