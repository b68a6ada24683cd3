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


class OnUnknownBookmark(enum.Enum):
    """The way to begin if the stores do not have the message of a bookmark."""

    FAIL = "fail"
    """Raise UnknownBookmark."""
    EPOCH = "epoch"
    """Begin with the first message of each source: messages may come again, none is missed."""
    NOW = "now"
    """Begin with what is sent from now on: messages may be missed, none comes again."""
