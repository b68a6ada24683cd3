"""The stores that have been told that a receiver has ended (protocol.md 14.9).

Pure. A store may have been replaced by another one at its address, which was not told. The others
report that in their answers. How the stores are told is not known here.
"""

from __future__ import annotations

from quorate.protocol.incarnations import Word, replaced


class Ending:
    """The end of one receiver of one source."""

    def __init__(self) -> None:
        self._words: dict[str, Word] = {}

    @property
    def told(self) -> frozenset[str]:
        """The stores that remember the end, as far as is known."""
        return frozenset(self._words)

    def answered(self, store: str, word: Word) -> frozenset[str]:
        """Note that the store has taken the end. Return the stores to be told again.

        These answered from a data directory that another one has replaced since, as an answer
        shows.
        """
        self._words[store] = word
        gone = frozenset(replaced(self._words))
        for each in gone:
            del self._words[each]
        return gone
