"""How a source is configured with stores: groups of them, and who stands in."""

from __future__ import annotations

from dataclasses import dataclass

from tests.end_to_end.world import World


@dataclass(frozen=True)
class Setup:
    """How the source is configured: groups of stores; a majority of each group counts."""

    groups: tuple[tuple[str, ...], ...]
    rule: str = "all"
    """How many of the groups count."""
    backups: tuple[str, ...] = ()
    """Of the last group."""

    @property
    def stores(self) -> frozenset[str]:
        return frozenset(store for group in self.groups for store in group)

    def written(self, world: World) -> str:
        """As a file that the source reads."""

        def listed(stores: tuple[str, ...]) -> str:
            return ", ".join(f'"{world.addresses_of(store)}"' for store in stores)

        lines = [f'intergroup = "{self.rule}"'] if len(self.groups) > 1 else []
        for at, group in enumerate(self.groups, 1):
            lines += ["[[groups]]", f'name = "g{at}"', f"stores = [{listed(group)}]"]
        if self.backups:
            lines.append(f"backups = [{listed(self.backups)}]")
        return "\n".join(lines)
