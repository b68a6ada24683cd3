"""Batches that tests know to be no large ones."""

from __future__ import annotations

from quorate.protocol.fragments import Batch


def whole(batch: Batch) -> bytes:
    """Return a batch that is not large."""
    assert isinstance(batch, bytes)
    return batch
