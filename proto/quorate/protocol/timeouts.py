"""Timeouts of calls, as an application gives them: the valid ones.

Nothing here waits.
"""

from __future__ import annotations

from quorate.protocol.errors import InvalidArgument


def check_timeout(timeout: float | None) -> float | None:
    """Return the seconds unchanged; None: no limit. Raises InvalidArgument."""
    if timeout is None or (isinstance(timeout, int | float) and timeout >= 0):
        return timeout
    raise InvalidArgument("timeout", f"{timeout!r} is not a number of seconds, 0 or more")
