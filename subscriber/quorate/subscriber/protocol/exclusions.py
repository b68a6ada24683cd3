"""The options of a subscription that exclude, or need, each other: one table. Pure."""

from __future__ import annotations

from quorate.protocol.errors import InvalidArgument

LIVE = "delivered='live'"
BATCHES = "batches()"

_EXCLUDES = {
    ("rate", LIVE): "which waits for none",
    ("paused", LIVE): "which waits for none",
    ("pause()", LIVE): "which waits for none",
    ("conflation", BATCHES): "as the messages of a batch are not conflated; iterate over messages",
}
"""Why the first cannot be given with the second."""

_NEEDS = {
    ("rate_max_gap", "rate"): "such as 2x",
    ("conflation", "conflation_key"): 'such as "key"',
    ("conflation_key", "conflation"): 'such as "500ms"',
}
"""An example of the second, without which the first has no sense."""


def check(given: set[str]) -> None:
    """Raise InvalidArgument if one of these excludes another, or needs what is not there.

    given: the names of the options, and LIVE or BATCHES.
    """
    for (one, other), why in _EXCLUDES.items():
        if one in given and other in given:
            raise InvalidArgument(one, f"cannot be given with {other}, {why}")
    for (one, other), example in _NEEDS.items():
        if one in given and other not in given:
            raise InvalidArgument(one, f"needs a {other}, {example}")
