"""Losses that operators accepted at other stores: they are taken over, and each is logged once.

quorate.store.rules.accepted_losses decides which losses are taken over. Here are only the clock and
the log.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable

from quorate.protocol.ranges import HeldRange
from quorate.store.rules.accepted_losses import Losses
from quorate.store.rules.source_state import SourceState
from quorate.store.storage.interface import Write

_log = logging.getLogger("quorate.store.tasks.loss_exchange")


def learn_losses(
    losses: Losses, state: SourceState, told: Iterable[HeldRange], told_by: str
) -> tuple[Write, ...]:
    """Return the rows to write for those losses that are news to the store."""
    count = len(losses.records)
    writes = losses.learn(state, told, told_by, time.time_ns())
    for record in losses.records[count:]:
        _log.warning("accepted by an operator: %s", record)
    return writes
