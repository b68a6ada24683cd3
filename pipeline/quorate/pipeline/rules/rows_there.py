"""The rows that an earlier attempt of a task left: which of the rows that come now are among them.

Rows may come back in any order, because a shuffle brings them in another one each time. So they are
compared by what is in them. Nothing here knows Spark, I/O or a clock.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import repeat
from typing import Protocol

import google_crc32c

from quorate.pipeline.rules.chunks import NO_ROWS, Rows
from quorate.protocol.attributes import encode_attributes

_SUM_LIMIT = 1 << 64
_DIGEST_BYTES = 16


class RowSum:
    """A sum over rows. Neither their order nor how they are split into chunks changes it."""

    def __init__(self, rows: int = 0, text: str = "0") -> None:
        """rows, text: the count and the sum to go on from, as a marker has them."""
        self.rows = rows
        self._sum = int(text, 16)

    def add(self, rows: Rows) -> None:
        checksums = map(google_crc32c.value, rows.payloads)
        if rows.attributes:
            encoded = map(encode_attributes, rows.attributes)
            checksums = map(google_crc32c.extend, checksums, encoded)
        self._sum = (self._sum + sum(checksums)) % _SUM_LIMIT
        self.rows += len(rows)

    @property
    def text(self) -> str:
        """The sum as a marker has it. It almost always differs if a row differs."""
        return f"{self._sum:016x}"


class RowsThere(Protocol):
    """The rows that are there, less those that have come back."""

    left: int
    """Number of rows that are there and have not come back yet."""

    def take(self, rows: Rows) -> Rows:
        """Take out the rows that are there; return the others, in their order."""

    def differ(self) -> str:
        """Return why the rows that came are not those that are there; empty: they may be."""


class ReadBack:
    """Rows that were read back from the stores. Any row that comes is found among them."""

    def __init__(self, rows: Iterable[Rows]) -> None:
        self._digests = Counter(digest for each in rows for digest in _digests(each))
        self.left = self._digests.total()

    def take(self, rows: Rows) -> Rows:
        if not self.left:
            return rows
        new = [at for at, digest in enumerate(_digests(rows)) if not self._took(digest)]
        return rows if len(new) == len(rows) else rows.picked(new)

    def _took(self, digest: bytes) -> bool:
        if not self._digests[digest]:
            return False
        self._digests[digest] -= 1
        self.left -= 1
        return True

    def differ(self) -> str:
        return f"{self.left:,} of them did not come again" if self.left else ""


class Released:
    """Rows that no store has any longer; only their number and their sum are known.

    So the rows that come must be these and no more: nothing tells which of more rows are new.
    """

    def __init__(self, known: RowSum) -> None:
        self._known = known
        self._came = RowSum()
        self._more = 0
        self.left = known.rows

    def take(self, rows: Rows) -> Rows:
        part = rows[: self.left]
        self._came.add(part)
        self.left -= len(part)
        self._more += len(rows) - len(part)
        return NO_ROWS

    def differ(self) -> str:
        if self.left:
            return f"now there are only {self._came.rows:,}"
        if self._came.text != self._known.text:
            return "their content differs, and no store has them any longer to compare"
        if self._more:
            return f"{self._more:,} more came, and no store has them any longer to compare"
        return ""


def _digests(rows: Rows) -> Iterator[bytes]:
    """Yield a digest of each row: of its payload, and of what else it has."""
    encoded = map(encode_attributes, rows.attributes) if rows.attributes else repeat(b"")
    for payload, own in zip(rows.payloads, encoded, strict=False):
        digest = hashlib.blake2b(len(payload).to_bytes(8, "little"), digest_size=_DIGEST_BYTES)
        digest.update(payload)
        digest.update(own)
        yield digest.digest()
