"""The times at which a receiver may hand over a message, and the default.

Only the names are here. The stream of a receiver holds messages back.
"""

from __future__ import annotations

import enum


class Delivery(enum.Enum):
    """The time at which a message is delivered."""

    LIVE = "live"
    """At once. The receiver gets Withdrawn if the source fails before the message is stable and its
    next epoch does not keep it."""
    STABLE = "stable"
    """Once it is stable. It will never be withdrawn."""


DELIVERY_DEFAULT = Delivery.STABLE
"""The delivery of a receiver whose application names none."""
