"""The content of files that may be replaced at any time. Their format is no matter here."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from quorate.protocol.errors import ConfigurationInvalid

_log = logging.getLogger("quorate.transport")

T = TypeVar("T")
Stamp = tuple[tuple[int, int, int], ...]
"""The time, the number and the size of each file: new ones tell that a file was replaced."""


def stamp_of(paths: Sequence[str]) -> Stamp:
    """Return the stamp of files. One that is missing for now has a stamp, too."""
    return tuple(map(_file_stamp, paths))


def _file_stamp(path: str) -> tuple[int, int, int]:
    try:
        found = os.stat(path)
    except OSError:
        return (0, 0, 0)
    return (found.st_mtime_ns, found.st_ino, found.st_size)


class WatchedFiles(Generic[T]):
    """The content of files that may be replaced at any time. An unusable one never counts."""

    def __init__(self, paths: Sequence[str], read: Callable[[], T], kept: str) -> None:
        """Read the files. Raises ConfigurationInvalid.

        - read: returns the content of the files. Raises ConfigurationInvalid.
        - kept: says in the log what stays in use if the files were replaced by unusable ones.
        """
        self._paths = tuple(paths)
        self._read = read
        self._kept = kept
        self._stamp = stamp_of(self._paths)
        self._content = read()

    @property
    def content(self) -> T:
        """The newest content. It is the same object until the files are replaced."""
        stamp = stamp_of(self._paths)
        if stamp != self._stamp:
            self._stamp = stamp
            try:
                self._content = self._read()
            except ConfigurationInvalid as error:
                # The files may be half replaced. The next change is looked at, too.
                _log.warning("%s in use: %s", self._kept, error)
        return self._content
