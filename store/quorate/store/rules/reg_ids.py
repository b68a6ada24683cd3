"""The RegIDs of a store: each names one source, chosen by the application or drawn by the store."""

from __future__ import annotations

from quorate.protocol.errors import RegIdInUse


class RegIds:
    """The RegIDs of one store: sources and receivers share them."""

    def __init__(self, store: str) -> None:
        self._store = store
        self._holders: dict[int, str] = {}
        self._next = 1

    def claim(self, wanted: int, holder: str) -> int:
        """The wanted RegID, or a free one if that is 0; raises RegIdInUse."""
        if not wanted:
            while self._next in self._holders:
                self._next += 1
            wanted = self._next
        if wanted in self._holders:
            raise RegIdInUse(wanted, self._store, self._holders[wanted])
        self._holders[wanted] = holder
        return wanted

    def release(self, reg_id: int) -> None:
        """Nobody has it any more."""
        self._holders.pop(reg_id, None)

    def is_free(self, reg_id: int) -> bool:
        """Whether nobody has this RegID; 0 is none."""
        return reg_id > 0 and reg_id not in self._holders

    def check_not_of_another(self, has: int, wanted: int) -> None:
        """An identity keeps the RegID that it has; its session says who it is.

        A store that took it over from its peers may not have known what it wants here. Raises
        RegIdInUse if another identity has what it asks for.
        """
        other = self._holders.get(wanted) if wanted not in (0, has) else None
        if other is not None:
            raise RegIdInUse(wanted, self._store, other)
