"""The operator of a simulated world who changes its stores, as `quorate store replace` says.

The command says what is to be done next, and the operator does it. A command that was killed is
started again, and goes on where the group is.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

from tests.world.group import Change, StoresOfWorld
from tests.world.seen import Seen

from quorate.console.group.change_watch import look
from quorate.console.group.rules.change_steps import POLICIES, Step, steps
from quorate.errors import QuorateError

ANSWER_SECONDS = 2.0
"""The time in seconds that each store has to answer, at each look."""
LOOK_SECONDS = 0.5


class Hands(Protocol):
    """Everything that an operator does with the processes of a group."""

    def add_store(self, name: str) -> None:
        """Start a further store, on a blank disk."""

    def open_anew(self) -> None:
        """Open all applications again, with the stores of the change."""

    def retire_store(self, name: str) -> None:
        """Stop a store for good."""

    def restart_store(self, name: str) -> None:
        """Start a store again, as its configuration has changed."""


async def change_stores(group: StoresOfWorld, change: Change, hands: Hands, seen: Seen) -> None:
    """Carry a change through to its end."""
    while True:
        stores = group.addresses()
        try:
            found = steps(await look(change.asked, stores, ANSWER_SECONDS))
        except QuorateError:
            found = []
        following = next((step for step in found if not step.done), None)
        if found and following is None:
            break
        if following is not None:
            _act(following, group, change, hands)
        await asyncio.sleep(LOOK_SECONDS)
    seen.reached[f"changes: {str(change.asked).split()[0]}"] += 1
    group.end_change()
    hands.open_anew()


def _act(step: Step, group: StoresOfWorld, change: Change, hands: Hands) -> None:
    """Do the operator's part of a step."""
    asked = change.asked
    if asked.new is not None and step.title.startswith(f"{asked.new.name} runs"):
        if asked.new.name not in group.names:
            group.names.append(asked.new.name)
            group.peers[asked.new.name] = list(change.peers)
            hands.add_store(asked.new.name)
    elif step.title == POLICIES and not change.has_moved:
        change.has_moved = True
        group.opening = change.opening
        hands.open_anew()
    elif step.title == f"{asked.old} has stopped":
        group.names.remove(asked.old)
        hands.retire_store(asked.old)
    elif lines := [line for line in step.lines if ": peers = " in line]:
        # One after the other: the next look says which one is left.
        name = lines[0].partition(":")[0]
        group.peers[name] = list(change.peers)
        hands.restart_store(name)
