"""The small worlds that are gone through, and for each rule one where taking it out loses data."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tests.brute_force.definitions import NAMES, Configuration, configurations
from tests.brute_force.states import Shape

from quorate.protocol.policy import IntergroupRule, IntragroupRule

QUORUM, ALL_ACTIVE = IntragroupRule.QUORUM, IntragroupRule.ALL_ACTIVE
ANY = IntergroupRule.ANY


def groups(*stores: str, rule: IntergroupRule = ANY) -> Configuration:
    """Groups of these stores, each with a quorum."""
    masks = tuple(sum(1 << NAMES.index(name) for name in each) for each in stores)
    return Configuration(tuple((mask, QUORUM) for mask in masks), rule)


THREE = groups("abc")
SHRINKING = Configuration(((0b111, ALL_ACTIVE),), ANY)
TWO_OR_ONE = groups("ab", "c")

# A stream that has begun at all its stores, and who registers next.
TWICE = Shape((THREE,) * 2, first_began=THREE.everyone)
THRICE = replace(TWICE, policies=(THREE,) * 3)
ONE_WIPED = replace(TWICE, wipes=1, doomed=0b001)
REPLACED = Shape((THREE, groups("abd"), groups("abd")), first_began=THREE.everyone)
SHIFTED = Shape((groups("ab"), groups("bc"), groups("bc"), groups("bc")), first_began=0b011)
MOVED = Shape((groups("a"), groups("b"), groups("b"), groups("b")), first_began=0b001)
TWO_WIPED = Shape((THREE,), first_began=THREE.everyone, wipes=2, doomed=0b011)
FOUR_WIPED = replace(ONE_WIPED, policies=(groups("abcd"),) * 2, first_began=0b1111)

KEEPS_STATE = replace(TWICE, state_only=0b100)
TURNS_AND_WIPED = replace(ONE_WIPED, turns=1, turning=0b001)

WORLDS: dict[str, Shape] = {
    "two registrations of a new stream, one after the other or at once": Shape((THREE,) * 2),
    "two registrations after the first, one after the other or at once": THRICE,
    "two messages each": replace(TWICE, messages=2),
    "two groups": replace(
        TWICE, policies=(groups("ab", "cd", rule=IntergroupRule.ALL),) * 2, first_began=15
    ),
    "five stores": Shape((groups("abcde"),) * 2, first_began=31),
    "five stores, of which two are wiped": Shape(
        (groups("abcde"),), first_began=31, wipes=2, doomed=0b00011
    ),
    "five stores in two groups": Shape((groups("abc", "de"),) * 2, first_began=31),
    "one group or the other": replace(TWICE, policies=(TWO_OR_ONE,) * 2),
    "a store that is wiped": ONE_WIPED,
    "a store that is put back from a copy": replace(ONE_WIPED, rolls_back=True),
    "a wiped store, while stores repair each other": replace(ONE_WIPED, forwards=True),
    "a wiped store of one group or the other": replace(ONE_WIPED, policies=(TWO_OR_ONE,) * 2),
    "two stores that are wiped, one after the other": TWO_WIPED,
    "stores find out what is stable": replace(TWICE, proxies=True),
    "all-active, stores leave": replace(TWICE, policies=(SHRINKING,) * 2, leaves=True),
    "the only store is exchanged": MOVED,
    "a store keeps state only": replace(KEEPS_STATE, messages=2),
    "a store turns to keep state only": replace(TWICE, turns=1, turning=0b001),
    "a store that keeps state only is wiped": replace(ONE_WIPED, state_only=0b001),
    "a store is wiped beside one that keeps state only": replace(ONE_WIPED, state_only=0b100),
}
"""By what happens in it; each is gone through as a whole."""

LARGER_WORLDS: dict[str, Shape] = {
    "a wiped store and three registrations": replace(THRICE, wipes=1, doomed=0b001),
    "a store that is wiped twice": replace(ONE_WIPED, wipes=2),
    "a wiped store, and stores that find out what is stable": replace(ONE_WIPED, proxies=True),
    "two wiped stores and two registrations": replace(TWO_WIPED, policies=(THREE,) * 2),
    "four stores, one wiped": FOUR_WIPED,
    "five stores, three registrations": Shape((groups("abcde"),) * 3, first_began=31),
    "two groups of three": Shape((groups("abc", "def"),) * 2, first_began=63),
    "a new stream and a wiped store": replace(ONE_WIPED, first_began=0),
    "a store is replaced": REPLACED,
    "a store is replaced, somebody still runs the old configuration": replace(
        REPLACED, policies=(*REPLACED.policies[:2], THREE)
    ),
    "two stores of which one is exchanged": SHIFTED,
    "all stores are exchanged": Shape((groups("ab"), *(groups("cd"),) * 3), first_began=0b0011),
    "a store is replaced by a source that goes on": replace(
        REPLACED, policies=(*REPLACED.policies, REPLACED.policies[-1])
    ),
    "a store turns to keep state only, and is wiped": TURNS_AND_WIPED,
    "a store turns to keep state only and back, while stores find out what is stable": replace(
        TWICE, turns=2, turning=0b001, proxies=True, forwards=True
    ),
    "five stores, of which one keeps state only and one turns": Shape(
        (groups("abcde"),) * 2, first_began=31, state_only=0b10000, turns=1, turning=0b00001
    ),
    "all-active, a store keeps state only, and one turns": replace(
        TWICE, policies=(SHRINKING,) * 2, leaves=True, state_only=0b100, turns=2, turning=0b010
    ),
    "one group becomes two": Shape((THREE, *(groups("ab", "c"),) * 2), first_began=7),
}
"""What `make brute-force` goes through besides, up to a number of states each."""


def every_policy(stores_max: int) -> Iterator[tuple[str, Shape]]:
    """Two registrations under every policy of two groups at most."""
    for configuration in configurations(stores_max, 2):
        leaves = configuration.rule is IntergroupRule.ALL_ACTIVE or any(
            rule is ALL_ACTIVE for _, rule in configuration.groups
        )
        yield (
            str(configuration),
            Shape((configuration,) * 2, first_began=configuration.everyone, leaves=leaves),
        )
