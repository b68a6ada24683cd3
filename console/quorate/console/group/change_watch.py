"""The looks at a group while its stores change, until each step is done.

Nothing is decided here: quorate.console.group.rules.change_steps has the steps.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence

from quorate.console.group.rules.change_situation import Situation
from quorate.console.group.rules.change_steps import POLICIES, Step, steps
from quorate.console.group.rules.source_status import Answers
from quorate.console.group.rules.store_change import StoreChange
from quorate.console.group.source_moving import move
from quorate.console.group.status import ask_all
from quorate.protocol.delays import HEALTH
from quorate.protocol.errors import QuorateError
from quorate.protocol.identity import StoreAddress
from quorate.transport.delays import delay


async def look(change: StoreChange, stores: Sequence[StoreAddress], timeout: float) -> Situation:
    """Ask all stores, the one that comes, and those that policies name besides."""
    asked = list(stores)
    places = {store.address for store in asked}
    if change.new is not None and change.new.address not in places:
        asked.append(change.new)
    answers: Answers = await ask_all(asked, timeout)
    situation = Situation(change, answers)
    places = {store.address for store in asked}
    further = {
        address: StoreAddress(name, address)
        for view in situation.views
        for name, address in view.members.unasked.items()
        if address and address not in places
    }
    if not further:
        return situation
    return Situation(change, {**answers, **await ask_all(list(further.values()), timeout)})


async def move_away(situation: Situation, timeout: float, told: Callable[[str], None]) -> bool:
    """Move the sources that do not run, if that is the next step; return whether there were any.

    told: called with what became of each.
    """
    following = next((step for step in steps(situation) if not step.done), None)
    if following is None or following.title != POLICIES:
        return False
    away = [view for view in situation.unmoved if not view.is_live]
    for view in away:
        try:
            await move(situation, view, timeout)
            told(f"Moved {view.name}.")
        except QuorateError as error:
            told(f"{view.name} was not moved: {error}")
        except TimeoutError:
            told(
                f"{view.name} was not moved within {timeout:g} s; it goes on with the next attempt."
            )
    return bool(away)


async def follow(
    looking: Callable[[], Awaitable[Situation]],
    told: Callable[[list[Step]], None],
    seconds: float | None,
) -> list[Step]:
    """Look again and again until every step is done. Return the steps of the last look.

    - told: called with the steps of each look that differs from the one before.
    - seconds: to go on at most; None: there is no end.
    """
    end = None if seconds is None else time.monotonic() + seconds
    before: list[Step] = []
    looks = 0
    while True:
        looks += 1
        found = steps(await looking())
        if found != before:
            told(found)
            before, looks = found, 1
        left = None if end is None else end - time.monotonic()
        if all(step.done for step in found) or (left is not None and left <= 0):
            return found
        pause = delay(HEALTH, looks)
        await asyncio.sleep(pause if left is None else min(pause, left))
