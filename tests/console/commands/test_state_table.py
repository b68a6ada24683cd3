"""The live table of `quorate state watch`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from quorate.client.replay import Bookmark, Completed, Left, LeftReason, Position, Updated
from quorate.console.commands.state_changes import _show
from quorate.protocol.framing import encode_batch
from quorate.protocol.identity import SourceName
from quorate.subscriber.changes import Change
from quorate.subscriber.rows import message_of

SOURCE = SourceName("orders", 1)


def updated(key: bytes, number: int) -> Updated:
    frame = encode_batch(SOURCE, 1, number, [b"row %d" % number], number)
    return Updated(key, message_of(frame, "s1"))


async def changes_of(*changes: Change) -> AsyncIterator[Change]:
    for change in changes:
        yield change


async def test_the_table_has_the_newest_rows_first(capsys: pytest.CaptureFixture[str]) -> None:
    changes: Any = changes_of(
        updated(b"a", 1),
        updated(b"b", 2),
        Completed(Position()),
        updated(b"a", 3),
        updated(b"c", 4),
        Left(b"b", LeftReason.DELETED, Bookmark(SOURCE, 1, 5)),
    )
    await _show("orders", changes, 5)
    out = capsys.readouterr().out
    assert "orders: 2 rows, the newest first" in out
    assert out.index("row 4") < out.index("row 3")
    assert "row 1" not in out
    assert "row 2" not in out


async def test_a_table_without_rows(capsys: pytest.CaptureFixture[str]) -> None:
    left = Left(b"a", LeftReason.EXPIRED, Bookmark(SOURCE, 1, 1))
    await _show("orders", changes_of(updated(b"a", 1), left), 2)  # type: ignore[arg-type]
    assert "orders: 0 rows, the newest first" in capsys.readouterr().out
