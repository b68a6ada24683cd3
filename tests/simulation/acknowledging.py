"""The ways in which a simulated application acknowledges."""

from __future__ import annotations

import enum

from quorate.receiver.options import AcknowledgeMode


class Acknowledging(enum.Enum):
    """The ways in which the application acknowledges a batch."""

    AUTOMATIC = "automatic"
    """It takes the next one."""
    EACH = "each"
    """It acknowledges message by message, out of order."""
    ALL_BEFORE = "all before"
    """It acknowledges a batch with all before it."""

    @property
    def mode(self) -> AcknowledgeMode:
        """The mode of its receiver."""
        automatic = self is Acknowledging.AUTOMATIC
        return AcknowledgeMode.AUTOMATIC if automatic else AcknowledgeMode.EXPLICIT
