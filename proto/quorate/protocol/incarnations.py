"""Incarnations: which data directory of a store is its present one, by the word of all stores.

A store that was wiped, or that was found to be a copy, has a new incarnation. Answers from its
former directory no longer count. Sources and receivers leave them out by the same rule when they
combine the answers of several stores. Each such answer names the incarnations that its store knows,
so among enough answers at least one knows of the replacement. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from quorate.v1.store_pb2 import StoreReplaced


@dataclass(frozen=True, slots=True)
class Word:
    """The incarnations that a store names together with an answer: its own, and those it knows."""

    incarnation: bytes = b""
    """The incarnation of the data directory that answers."""
    known: tuple[StoreReplaced, ...] = ()
    """Every store that it knows, itself included; empty from a store of an older version."""

    @property
    def store_name(self) -> str:
        """The name that the store has for itself; policies may use another."""
        return next((each.store_name for each in self.known if not each.incarnation), "")


NO_WORD = Word()


class Incarnations:
    """The incarnations that stores have named, of themselves and of each other."""

    def __init__(self) -> None:
        self._said: dict[str, dict[str, bytes]] = {}
        """The present incarnation of each store, by the store that names it."""
        self._former: set[bytes] = set()

    def heard(
        self, store_name: str, incarnation: bytes, former: Iterable[bytes], teller: str
    ) -> bool:
        """Note the present and the former incarnations of a store; return whether that is news.

        incarnation: the present one; empty if the store speaks of itself, because its answers name
        the present one. teller: the store that says so. Its newest word replaces its earlier ones,
        which may be about an incarnation that was wiped in turn, and that no store remembers.
        """
        said = self._said.setdefault(store_name, {})
        if self._former.issuperset(former) and said.get(teller, b"") == incarnation:
            return False
        if incarnation:
            said[teller] = incarnation
        self._former.update(former)
        return True

    def is_present(self, store_name: str, incarnation: bytes) -> bool:
        """Return whether no store names another incarnation as the present one.

        A store that names another one may be behind. Its newer word will settle that; until then
        the caller waits.
        """
        said = {*self._said.get(store_name, {}).values()} - self._former
        return incarnation not in self._former and said <= {incarnation}


def replaced(words: Mapping[str, Word]) -> set[str]:
    """Return the stores, by their names in policies, that answered from a replaced directory.

    These answers alone decide that. A replacement leaves limbo only after a stable set has noted it
    (docs/decisions/2026-11-21-limbo.md). So among enough answers one is from a store that knows.
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
