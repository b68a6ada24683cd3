"""The RegIDs of a store. A RegID names one source or receiver; the store draws it by default."""

from __future__ import annotations

from quorate.protocol.errors import RegIdInUse


class RegIds:
    """The RegIDs that are in use at one store, by sources and receivers together."""

    def __init__(self, store: str) -> None:
        self._store = store
        self._holders: dict[int, str] = {}
        self._next = 1

    def claim(self, wanted: int, holder: str) -> int:
        """Claim the wanted RegID, or a free one if that is 0. Raises RegIdInUse."""
        if not wanted:
            while self._next in self._holders:
                self._next += 1
            wanted = self._next
        if wanted in self._holders:
            raise RegIdInUse(wanted, self._store, self._holders[wanted])
        self._holders[wanted] = holder
        return wanted

    def release(self, reg_id: int) -> None:
        """Free a RegID."""
        self._holders.pop(reg_id, None)

    def is_free(self, reg_id: int) -> bool:
        """Return whether this RegID is free; False for 0, which is none."""
        return reg_id > 0 and reg_id not in self._holders

    def check_not_of_another(self, has: int, wanted: int) -> None:
        """Raise RegIdInUse if another identity has the wanted RegID.

        An identity keeps the RegID that it has, even if it wants another one. It may have come here
        from peers, which do not know the RegID that it wants at this store.
        """
        other = self._holders.get(wanted) if wanted not in (0, has) else None
        if other is not None:
            raise RegIdInUse(wanted, self._store, other)
