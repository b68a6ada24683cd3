"""Weather that several mutations share, and which rules they violate. No guard is named here."""

from __future__ import annotations

from tests.simulation.rules import Party, Setup, majority_of

from quorate.protocol.consensus import Behaviour

LAGGING = {
    "pause_between_sends": 0.03,
    "pause_between_faults": 0.4,
    "consensus": Behaviour.LOWEST,
    "founds": True,
    "setups": (majority_of(["store1", "store2", "store3"]),),
}
SAFETY = ("I1", "I2", "I3", "I4", "I5")
ALL_ACTIVE = (Setup((Party("stores", ("store1", "store2", "store3"), "all-active"),)),)
PAIR = (Setup((Party("stores", ("store1", "store2"), "all-active"),)),)
"""Each of the two is a blocking set."""
EITHER = (Setup((Party("here", ("store1", "store2")), Party("there", ("store3",))), "any"),)
"""Their quorums do not meet."""
MOVED = (
    majority_of(["store1", "store2", "store3"]),
    majority_of(["store4", "store5", "store6"]),
)
THREE = {"setups": (majority_of(["store1", "store2", "store3"]),)}
SUCCESSION = {"kinds": ("succeed",), "faulty_seconds": 6.0, "founds": True, **THREE}
"""Tails and begins of minorities, of which a source has heard that its predecessor had not."""
