"""Receiver-paced persistence: the receivers that a source waits for, and how far it may send.

Pure rules over the answers of stores: the source, the stores and the command use the same ones.
Nothing here decides whether a message is safe.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass

from quorate.protocol.choices import check_kinds
from quorate.protocol.errors import InvalidArgument
from quorate.protocol.limits import NOTHING, SEQUENCE_MAX
from quorate.protocol.policy import Policy


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiverPacing:
    """How far a source may send beyond the slowest receiver that it waits for.

    Both bounds must exceed what a receiver takes before it acknowledges, or both wait for ever.
    Half a second's worth of messages allows the full rate. Raises InvalidArgument.
    """

    messages: int = 1_000_000
    bytes: int = 256 * 1024 * 1024
    """Bytes of messages that this source has sent since its last registration."""

    def __post_init__(self) -> None:
        check_kinds(self, "receiver_pacing.")
        for setting in ("messages", "bytes"):
            if getattr(self, setting) < 1:
                raise InvalidArgument(
                    f"receiver_pacing.{setting}", f"{getattr(self, setting)} is not at least 1"
                )


def may_send_upto(pacing: ReceiverPacing, slowest_upto: int) -> int:
    """Return the last number that may be sent.

    slowest_upto: the last number that the slowest receiver has acknowledged.
    """
    return min(slowest_upto + pacing.messages, SEQUENCE_MAX)


def waited_for(
    policies: Iterable[Policy], told: Mapping[str, Mapping[int, int]], streaming: Set[str]
) -> dict[int, int]:
    """Return the receivers that the source waits for, with the last number each acknowledged.

    policies: the policies in force. told: the last acknowledged numbers by store and by the session
    ID of each receiver that is alive. See quorate.protocol.ends.living. streaming: the stores that
    report now.

    An acknowledgement to any store counts. A receiver is registered when a stable set knows it. So
    it is gone, or not registered yet, if the stores that do not know it are a blocking set. One
    store that was away while a receiver registered, or ended, decides nothing.
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
