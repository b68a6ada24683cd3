"""How far an epoch may be above those that a store knows of the identity.

Pure. Without a bound, one request with the highest epoch of all would leave no epoch for anybody
else. Which epochs are too low is decided where promises are made.
"""

from __future__ import annotations

from quorate.protocol.errors import EpochTooFar
from quorate.protocol.limits import EPOCH_STEP_MAX


def check_step(who: str, store: str, epoch: int, known: int) -> None:
    """Raise EpochTooFar if an epoch is more than a step above the highest that the store knows.

    known: the highest epoch of this identity at the store; 0: none.
    """
    admitted = known + EPOCH_STEP_MAX
    if epoch > admitted:
        raise EpochTooFar(who, store, epoch, admitted)
