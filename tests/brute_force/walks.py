"""Larger worlds by seed: up to five stores, two groups, any rules, wiped stores, new policies."""

from __future__ import annotations

import random

from tests.brute_force.definitions import NAMES, Configuration
from tests.brute_force.states import Shape

from quorate.protocol.consensus import Behaviour
from quorate.protocol.policy import IntergroupRule, IntragroupRule


def random_policy(chooser: random.Random, stores: str) -> Configuration:
    """One group of these stores or two, with any rules."""
    names = list(stores)
    chooser.shuffle(names)
    cut = chooser.choice((0, 0, *range(1, len(names))))
    parts = [part for part in (names[:cut], names[cut:]) if part]
    return Configuration(
        tuple(
            (sum(1 << NAMES.index(name) for name in part), chooser.choice(list(IntragroupRule)))
            for part in parts
        ),
        chooser.choice(list(IntergroupRule)),
    )


def random_shape(seed: int) -> Shape:
    """Who is in the world of this seed."""
    chooser = random.Random(seed)
    stores = NAMES[: chooser.choice((3, 3, 4, 4, 5))]
    policy = random_policy(chooser, stores)
    registrations = chooser.choice((2, 3, 4, 6))
    policies = [policy] * registrations
    if chooser.random() < 0.3:
        size = chooser.randint(1, min(3, len(stores)))
        other = random_policy(chooser, "".join(chooser.sample(stores, size)))
        policies[chooser.randrange(1, registrations) :] = [other] * registrations
        policies = policies[:registrations]
    wipes = chooser.choice((0, 1, 2))
    # Of its own: all else is as it would be without.
    keeping = random.Random(f"{seed} keeps state only")
    turns = keeping.choice((0, 0, 1, 2))
    state_only = 1 << keeping.randrange(len(stores)) if keeping.random() < 0.3 else 0
    return Shape(
        tuple(policies),
        messages=chooser.choice((1, 2)),
        wipes=wipes,
        doomed=(1 << len(stores)) - 1 if wipes else 0,
        behaviours=tuple(Behaviour),
        first_began=policy.everyone if chooser.random() < 0.7 else 0,
        tells=chooser.random() < 0.5,
        leaves=chooser.random() < 0.5,
        one_after_another=chooser.random() < 0.3,
        forwards=chooser.random() < 0.5,
        rolls_back=chooser.random() < 0.5,
        proxies=chooser.random() < 0.3,
        state_only=state_only,
        turns=turns,
        turning=(1 << len(stores)) - 1 if turns else 0,
    )
