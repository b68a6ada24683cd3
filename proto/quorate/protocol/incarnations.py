"""Which data directory is a store's present one, by what stores say of each other.

A store that was wiped, or was found to be a copy, has another incarnation than it had. What the
former one said counts no more: whoever adds answers of several stores up leaves it out, sources
and receivers by the same rule. Stores say which incarnations they know with every answer that
somebody decides from, in the same breath: so of enough answers one knows. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from quorate.v1.store_pb2 import StoreReplaced


@dataclass(frozen=True, slots=True)
class Word:
    """What a store says with an answer of who it is, and of whom it knows."""

    incarnation: bytes = b""
    """Of the data directory that answers."""
    known: tuple[StoreReplaced, ...] = ()
    """Every store that it knows, itself included; an older store says nothing of that."""

    @property
    def store_name(self) -> str:
        """The store's own name; policies may call it otherwise."""
        return next((each.store_name for each in self.known if not each.incarnation), "")


NO_WORD = Word()


class Incarnations:
    """What stores have said of each other's."""

    def __init__(self) -> None:
        self._said: dict[str, dict[str, bytes]] = {}
        """By store, and by who says it: the incarnation that it has."""
        self._former: set[bytes] = set()

    def heard(
        self, store_name: str, incarnation: bytes, former: Iterable[bytes], teller: str
    ) -> bool:
        """A store says which incarnation another one has, and which that, or itself, had before.

        incarnation: empty if it speaks of itself: its own answers say which it has now.
        teller: the store that says so. Its newest word counts: what it said before may be of an
        incarnation that was wiped in turn, and that nobody remembers any more.
        Returns whether that is news.
        """
        said = self._said.setdefault(store_name, {})
        if self._former.issuperset(former) and said.get(teller, b"") == incarnation:
            return False
        if incarnation:
            said[teller] = incarnation
        self._former.update(former)
        return True

    def is_present(self, store_name: str, incarnation: bytes) -> bool:
        """Whether nobody knows better; who says otherwise may be behind, but then some store will
        say so: without that whoever asks waits.
        """
        said = {*self._said.get(store_name, {}).values()} - self._former
        return incarnation not in self._former and said <= {incarnation}


def replaced(words: Mapping[str, Word]) -> set[str]:
    """Of these stores those whose answer is of a data directory that is not their present one, as
    these very answers say. By the names that policies use.

    Of enough of them one is of a store that knows: another directory vouches only by the word of a
    stable set that has noted it (2026-11-21-limbo.md), and that has told it before whatever they
    answered before.
    """
    known = Incarnations()
    for teller, word in words.items():
        for each in word.known:
            known.heard(each.store_name, each.incarnation, each.former, teller)
    return {
        store
        for store, word in words.items()
        if not known.is_present(word.store_name, word.incarnation)
    }
