"""The lines of the log about refused calls: one for each host and cause, however often it tries.

Nothing is refused here.
"""

from __future__ import annotations

import logging
from collections import OrderedDict

from quorate.protocol.errors import AccessDenied, ContentConflict, Fenced, InLimbo, QuorateError

_REMEMBERED = 4096


class Refusals:
    """The refusals that the log has."""

    def __init__(self) -> None:
        self._told: OrderedDict[tuple[str, str, str], None] = OrderedDict()

    def level(self, host: str, error: QuorateError) -> int:
        """Return the level of the line about a refusal of a call that comes from this host."""
        # Times in an error's text change with each attempt; its first fact says what it is about.
        subject = next(iter(error.facts().values()), "")
        if isinstance(error, ContentConflict):
            # Each conflict is news by itself, and only once, whichever client runs into it.
            host, subject = "", str(error)
        if isinstance(error, AccessDenied):
            # Topics may be many, and hosts too: an operator needs to know who lacks which right.
            host, subject = "", f"{error.identity} {error.verb}"
        key = (host, type(error).__name__, subject)
        is_told = key in self._told
        self._told[key] = None
        self._told.move_to_end(key)
        if len(self._told) > _REMEMBERED:
            self._told.popitem(last=False)
        # A registration learns of the newest epoch so. Of limbo the store logs what it waits for.
        if is_told or isinstance(error, Fenced | InLimbo):
            return logging.DEBUG
        return logging.ERROR if isinstance(error, ContentConflict) else logging.INFO
