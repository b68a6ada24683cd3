"""Forks: a forked child has its parent's connections, but no thread that serves them.

A call in the child would wait for ever, so it raises UsedBeforeFork at once. A child whose parent
had opened no connection yet is as good as any other process. A send calls nothing here: an object
that is open in the parent is told of the fork, and refuses each call. The contents of connections
are not known here.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable
from typing import Any, TypeVar

from quorate.protocol.errors import UsedBeforeFork

T = TypeVar("T")

Forked = Callable[[Any, UsedBeforeFork], None]
"""Makes an open object raise this error from now on, and wait for nothing."""

_open: weakref.WeakKeyDictionary[object, Forked] = weakref.WeakKeyDictionary()
_used = False
_error: UsedBeforeFork | None = None


def check() -> None:
    """Raise UsedBeforeFork if the parent of this process had connections when it forked."""
    if _error is not None:
        raise _error


def error() -> UsedBeforeFork | None:
    """Return the error that every call raises; None: the process may use connections."""
    return _error


def use() -> None:
    """Note that this process has connections from now on. Raises UsedBeforeFork."""
    global _used
    check()
    _used = True


def watch(opened: T, forked: Callable[[T, UsedBeforeFork], None]) -> None:
    """Call this with the object in each child that is forked while the object exists.

    No other thread runs in the child. The object's locks may be held for ever.
    """
    _open[opened] = forked


def _in_child() -> None:
    global _error
    if _used and _error is None:
        _error = UsedBeforeFork(os.getppid())
    if _error is not None:
        for opened, forked in list(_open.items()):
            forked(opened, _error)


os.register_at_fork(after_in_child=_in_child)
