"""Which stores have been told that a receiver is over (DESIGN 4.4). Pure.

A store may have been replaced by another one behind its address, which has not heard it. The others
say so as they answer.
"""

from __future__ import annotations

from quorate.protocol.incarnations import Word, replaced


class Ending:
    """The end of one receiver of one source."""

    def __init__(self) -> None:
        self._words: dict[str, Word] = {}

    @property
    def told(self) -> frozenset[str]:
        """The stores that remember it, as far as is known."""
        return frozenset(self._words)

    def answered(self, store: str, word: Word) -> frozenset[str]:
        """The store has done it. Returns who is to be told again: what answered for these, now or
        before, is known to this one, or to another, as what they were once."""
        self._words[store] = word
        gone = frozenset(replaced(self._words))
        for each in gone:
            del self._words[each]
        return gone
