"""Guards of what sources send and stores take that are taken out.

Production knows nothing of it. `guards` has the worlds in which each is missed.
"""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from tests import seams
from tests.world.disk import WorldWriter

from quorate.protocol.errors import StorageFailed


def acknowledged_before_the_sync(to: pytest.MonkeyPatch) -> None:
    """A store acknowledges what is written and not synced."""
    seams.MEMORY_STORAGE_SYNC.replace(to, lambda _: None)


def failed_syncs_are_tried_again(to: pytest.MonkeyPatch) -> None:
    """A store goes on after a failed sync."""
    real = WorldWriter._commit

    def commit(self: WorldWriter, commit: Any) -> None:
        with contextlib.suppress(StorageFailed):
            real(self, commit)

    to.setattr(WorldWriter, "_commit", commit)
