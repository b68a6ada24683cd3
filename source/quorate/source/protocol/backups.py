"""The backups of a source's groups: which policy it wants while members do not answer.

Pure. A backup takes the place of a member that took no messages for a while. So the group keeps its
size and its quorum. The member gets its place back once it has caught up. The registration moves
the stream from one policy to the other.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import replace

from quorate.protocol.policy import Group, Policy


class Backups:
    """The places in the groups of one declared policy."""

    def __init__(self, declared: Policy, backup_after: float) -> None:
        """Begin with every member in its place. backup_after: seconds until a backup takes over."""
        self._declared = declared
        self._backup_after = backup_after
        self._away_since: dict[str, float] = {}
        self._tried_at: dict[str, float] = {}

    def wanted(self, present: Policy, taking: Set[str], caught_up: Set[str], now: float) -> Policy:
        """Return the policy to want, given the present one.

        taking: the stores that take the stream; caught_up: those that have been sent all of it.
        """
        if not self._declared.backups:
            return present
        for store in present.stores | self._declared.stores:
            if store in taking:
                self._away_since.pop(store, None)
            else:
                self._away_since.setdefault(store, now)
        groups = tuple(
            self._group(declared, group, caught_up, now)
            for declared, group in zip(self._declared.groups, present.groups, strict=True)
        )
        return replace(present, groups=groups)

    def _group(self, declared: Group, group: Group, caught_up: Set[str], now: float) -> Group:
        stores = list(group.stores)
        for place, member in enumerate(declared.stores):
            if member in stores and stores[place] != member:
                continue
            if stores[place] != member and member in caught_up:
                stores[place] = member
            elif self._away(stores[place], now):
                spares = [store for store in declared.backups if store not in stores]
                if spares:
                    # The backup that was never tried, or whose last try is longest ago.
                    spare = min(spares, key=lambda store: self._tried_at.get(store, float("-inf")))
                    self._tried_at[spare] = now
                    self._away_since.pop(spare, None)
                    stores[place] = spare
        spares = [store for store in (*declared.backups, *declared.stores) if store not in stores]
        return replace(group, stores=tuple(stores), backups=tuple(spares))

    def _away(self, store: str, now: float) -> bool:
        since = self._away_since.get(store)
        return since is not None and now >= since + self._backup_after
