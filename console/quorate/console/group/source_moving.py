"""The move of a source that does not run: it is opened for a moment with its new policy.

Nothing is sent. The application of the source must not run, or it is fenced.
"""

from __future__ import annotations

import asyncio
import os

from quorate.console.group.rules.change_situation import Situation
from quorate.console.group.rules.source_status import SourceView
from quorate.protocol.identity import StoreAddress
from quorate.protocol.layout import Layout
from quorate.protocol.policy import Policy
from quorate.protocol.tls import tls_of_environment
from quorate.protocol.wire import pacing_from_wire
from quorate.source import Event, MembershipChanged, Source, SourceOptions


async def move(situation: Situation, view: SourceView, timeout: float) -> None:
    """Bring the new policy of a source in force. Raises what opening a source raises.

    timeout: seconds to wait, for the registration and for the change each. Raises TimeoutError.
    """
    information = view.newest.information
    reg_ids = {entry.name: entry.reg_id for entry in information.stores}
    known = situation.addresses(view)

    def layout(policy: Policy) -> Layout:
        names = sorted(policy.stores | policy.backups)
        return Layout(
            policy, tuple(StoreAddress(name, known[name], reg_ids.get(name, 0)) for name in names)
        )

    before, target = situation.move_of(view)
    confirmed = asyncio.Event()

    def heard(event: Event) -> None:
        if isinstance(event, MembershipChanged) and event.confirmed:
            confirmed.set()

    async with await Source.open(
        view.name.topic,
        stores=layout(target),
        session_id=view.name.session_id,
        previous_policies=[layout(before)],
        # Stores keep what paced receivers need only while the source asks for it.
        options=SourceOptions(receiver_pacing=pacing_from_wire(information)),
        timeout=timeout,
        on_event=heard,
        tls=tls_of_environment(os.environ),
    ):
        async with asyncio.timeout(timeout):
            await confirmed.wait()
