"""Whether messages are accepted although the source is not registered, and why a call waits.

Pure. A message gets a number when it is accepted, and keeps it. So a source accepts messages only
while it knows the next number: from the stores, or from a publish store that has every earlier one.
How accepted messages are packed is not known here.
"""

from __future__ import annotations

from quorate.protocol.errors import SendTimedOut
from quorate.protocol.identity import SourceName
from quorate.source.options import SourceOptions, WithoutQuorum
from quorate.source.protocol.flight_window import Window


class Numbering:
    """The knowledge of the next message's number."""

    def __init__(self, options: SourceOptions, window: Window) -> None:
        """Begin without it. window: the window that gives the numbers out."""
        self._keeps_without_quorum = WithoutQuorum(options.without_quorum) is WithoutQuorum.KEEP
        self._window = window
        self.is_known = False
        """Whether the next number is known, and the publish store may keep its message."""

    @property
    def is_enough(self) -> bool:
        """Whether messages are accepted without a quorum."""
        return self._keeps_without_quorum and self.is_known

    def may_begin_at(self, next_sequence: int, taken_upto: int) -> bool:
        """Return whether messages from this number on may be accepted before the registration.

        next_sequence: the publish store has every earlier one. taken_upto: the highest number that
        the stores are known to have given to messages.
        """
        return self._keeps_without_quorum and taken_upto < next_sequence

    def withdraw(self) -> bool:
        """Give out no number from now on. Return whether no message that waits has one."""
        with self._window.lock:
            if self._window.payloads:
                return False
            self.is_known = self._window.is_open = False
            self._window.refresh()
            return True


def send_timed_out(
    source: SourceName, seconds: float, window: Window, *, complete: bool
) -> SendTimedOut:
    """Return the error of a call that waited for so long and accepted nothing.

    complete: whether enough stores take the stream.
    """
    if not complete:
        why = "too few stores take the stream"
    elif window.exceeded:
        why = "the flight window is full of messages that are not stable"
    elif window.paced_out:
        why = "receivers lag"
    else:
        why = "others send"
    return SendTimedOut(str(source), f"{seconds:g} s", why)
