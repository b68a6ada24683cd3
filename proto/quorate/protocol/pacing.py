"""Whom a source waits for that is paced by its receivers, and how much it may still send.

Pure rules over what stores say: source, stores and people's tools judge by the same ones. Nothing
here decides whether a message is safe.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass

from quorate.protocol.errors import InvalidArgument
from quorate.protocol.limits import NOTHING, SEQUENCE_MAX
from quorate.protocol.policy import Policy


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiverPacing:
    """So much may be sent beyond what every receiver that is waited for has acknowledged.

    More than a receiver lets pass before it acknowledges, or both wait for ever; half a second's
    worth, to go at full rate. Raises InvalidArgument.
    """

    messages: int = 1_000_000
    bytes: int = 256 * 1024 * 1024
    """Of messages that this source has sent since it registered last."""

    def __post_init__(self) -> None:
        for setting in ("messages", "bytes"):
            if getattr(self, setting) < 1:
                raise InvalidArgument(
                    f"receiver_pacing.{setting}", f"{getattr(self, setting)} is not at least 1"
                )

    def may_send_upto(self, slowest_upto: int) -> int:
        """The last number that may be sent while the slowest receiver has acknowledged this."""
        return min(slowest_upto + self.messages, SEQUENCE_MAX)


def waited_for(
    policies: Iterable[Policy], told: Mapping[str, Mapping[int, int]], streaming: Set[str]
) -> dict[int, int]:
    """Each receiver that the source waits for, and how far it has acknowledged.

    policies: in force. told: by store, what it said last: by session ID, what each receiver that is
    waited for, and not over (quorate.protocol.ends.living), has acknowledged. streaming: stores
    that say so now.

    What was acknowledged to any store counts. A receiver is registered once a stable set knows it;
    so it is gone, or not there yet, as soon as those that do not know it are a blocking set. One
    store that was away when a receiver was deregistered, or registered, decides nothing.
    """
    highest: dict[int, int] = {}
    for positions in told.values():
        for receiver, upto in positions.items():
            highest[receiver] = max(upto, highest.get(receiver, NOTHING))
    in_force = tuple(policies)
    saying = streaming & told.keys()
    gone = [
        receiver
        for receiver in highest
        if (lacking := {store for store in saying if receiver not in told[store]})
        and in_force
        and all(policy.blocks(lacking) for policy in in_force)
    ]
    for receiver in gone:
        del highest[receiver]
    return highest
