"""Sending many messages through a source, with patience while too few stores take the stream."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from quorate.protocol.delays import REPEAT
from quorate.protocol.errors import NotRegistered
from quorate.transport.delays import lacks_quorum, retrying

if TYPE_CHECKING:
    from quorate.source import Outgoing, Source


async def send_all(source: Source, messages: Sequence[bytes | Outgoing], patience: float) -> None:
    """Send all messages, each once, and return when all are accepted.

    patience: seconds in a row without enough stores, after which NotRegistered is raised. Raises
    also the errors of the source.
    """
    upto = source.next_sequence + len(messages)
    while (before := source.next_sequence) < upto:

        def is_stuck(error: BaseException, before: int = before) -> bool:
            return lacks_quorum(error) and source.next_sequence == before

        left = messages[len(messages) - (upto - before) :]
        sending = retrying(REPEAT, patience=patience, again=is_stuck)
        try:
            await sending(source.send_many, left)
        except NotRegistered:
            if source.next_sequence == before:
                raise
