"""The options of a subscription that have a set of values. No I/O."""

from __future__ import annotations

import enum


class Delivered(enum.Enum):
    """The messages that a subscription is given."""

    STABLE = "stable"
    """Stable messages: none is ever taken back."""
    DURABLE = "durable"
    """Messages on the disk of the store that is asked. They may be withdrawn."""
    LIVE = "live"
    """Messages that have come to the store that is asked. They may be withdrawn."""
