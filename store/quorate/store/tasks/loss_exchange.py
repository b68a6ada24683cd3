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
from quorate.store.storage.maintenance_records import LossRecord

_log = logging.getLogger("quorate.store.tasks.loss_exchange")


def learn_losses(
    losses: Losses, state: SourceState, told: Iterable[HeldRange], told_by: str
) -> tuple[Write, ...]:
    """Return the rows to write for those losses that are news to the store."""
    count = len(losses.records)
    return _logged(losses, count, losses.learn(state, told, told_by, time.time_ns()))


def learn_poison(
    losses: Losses, state: SourceState, told: Iterable[LossRecord]
) -> tuple[Write, ...]:
    """Return the rows to write for those marks of poison that are news to the store."""
    count = len(losses.records)
    return _logged(losses, count, losses.learn_poison(state, told))


def _logged(losses: Losses, count: int, writes: tuple[Write, ...]) -> tuple[Write, ...]:
    for record in losses.records[count:]:
        _log.warning("accepted by an operator: %s", record)
    return writes
