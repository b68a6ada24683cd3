"""What a simulated world is like: drawn from its seed, as far as a test does not fix it.

Weather is what makes a rare state likely; it never decides what is right.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from tests.simulation import rules
from tests.simulation.acknowledging import Acknowledging
from tests.simulation.endings import GRACE_SECONDS, Mortality
from tests.simulation.rules import Setup

from quorate.protocol.consensus import Behaviour
from quorate.store.rules.lifetimes import Lifetimes

STORES_MAX = 7
TWICE_SHARE = 0.4
"""Of worlds in which one identity is used twice at once."""
SUCCESSION_SHARE = 0.1
"""Of worlds in which sources follow each other, each without what the one before it has told."""
HANGING_SHARE = 0.1
"""Of worlds in which a store takes calls and answers none, also when the faults stop."""
LAGGING_SHARE = 0.1
"""Of worlds in which one store lags again and again, while the source goes on sending."""
RETIRING_SHARE = 0.6
"""Of worlds in which a stream moves, those in which the stores that it left go for good."""
MORTAL_SHARE = 0.2
"""Of worlds in which identities end."""

KINDS: Mapping[str, int] = {
    "crash_store": 2,
    "crash_stores": 1,
    "fail_sync": 1,
    "slow_disk": 1,
    "partition": 2,
    "cut_one_way": 1,
    "leave_behind": 1,
    "reset_connections": 1,
    "crash_source": 1,
    "pause_source": 1,
    "strand_source": 1,
    "strand_at_begin": 1,
    "rotate": 1,
    "pause_store": 1,
    "hang_store": 0,
    "wipe_store": 1,
    "flip_bit": 1,
    "wipe_in_need": 1,
    "flip_in_need": 1,
    "wipe_stores": 0,
    "lose_batch": 0,
    "copy_disk": 2,
    "put_back": 2,
    "put_back_in_need": 1,
    "reboot_host": 2,
    "jump_clock": 2,
    "reboot_in_need": 1,
    "crash_receiver": 1,
    "pause_receiver": 1,
}
"""Every kind of fault, by the name of its method in Faults, and how likely it is."""


MORTAL_KINDS: Mapping[str, int] = {
    "rest_source": 6,
    "deregister_source": 3,
    "rest_receiver": 2,
    "deregister_receiver": 2,
    "part_for_long": 3,
    "crash_for_long": 2,
}
"""The same, where state does not last; chosen besides the others."""
TWICE_KINDS: Mapping[str, int] = {"second_source": 4, "second_receiver": 3}
"""Kinds of faults where one identity is used twice at once; chosen besides the others."""
LASTING = (
    Mortality(),
    Mortality(Lifetimes(0.0, 4000.0), Lifetimes(0.0, 4000.0)),
    Mortality(Lifetimes(8.0, 4000.0), Lifetimes(8.0, 4000.0)),
)
"""So long that nobody is over in time."""


@dataclass(frozen=True, kw_only=True)
class Weather:
    """All that is decided of a world before it begins."""

    setups: tuple[Setup, ...]
    """What the source is configured with, one after the other."""
    kinds: tuple[str, ...]
    """Faults that happen; one that is named twice is twice as likely."""
    faulty_seconds: float
    complete_seconds: float
    """So long after the faults everything must be complete."""
    pause_between_faults: float
    pause_between_sends: float
    failure_rate: float
    duplicate_rate: float
    slow_rate: float
    honest: bool
    """Nobody breaks the protocol; else only guards that are left in keep what must hold."""
    founds: bool
    """An operator says that the group is new; else the stores find out together."""
    cached: tuple[str, ...]
    """Stores that acknowledge what is in the page cache."""
    mortality: Mortality
    """How long sources and receivers are protected and kept."""
    proxies: bool
    """Stores answer for the source while it is away, and find out what is stable."""
    lets_go: bool
    """Stores let go of what is stable, at any time."""
    state_only: tuple[str, ...]
    """Stores that keep registrations and positions, and take no messages; for a while perhaps."""
    receiver_pacing: int
    """So many messages the source may be ahead of its receivers; 0: it waits for none."""
    attributes: bool
    """The source gives messages keys and properties."""
    outlives: bool
    """The source's publish store outlives its processes."""
    consensus: Behaviour
    """The source's; no setting may lose what is stable."""
    modes: tuple[Acknowledging, ...]
    """One for each receiver. Every other one wants only what is stable."""
    consensus_of_receivers: tuple[Behaviour, ...]

    @property
    def stores(self) -> tuple[str, ...]:
        """All stores of any setup."""
        return tuple(sorted({store for setup in self.setups for store in setup.everyone}))


def drawn(chooser: random.Random, seed: int, fixed: Mapping[str, Any]) -> Weather:
    """Weather by chance, but for what is fixed."""
    names = [f"store{number}" for number in range(1, STORES_MAX + 1)]
    simple = rules.majority_of(names[: chooser.choice((3, 3, 3, 5))])
    setup = rules.drawn(chooser, names) if chooser.random() < 0.5 else simple
    setups = [setup]
    while len(setups) < 3 and chooser.random() < 0.25:
        setups.append(rules.changed(chooser, setups[-1], names))
    receivers = chooser.choice((1, 2, 2))
    rare = chooser.choice((*((),) * 14, ("wipe_stores",), ("lose_batch",)))
    every_kind = [kind for kind, times in KINDS.items() for _ in range(times)]
    weather = Weather(
        setups=tuple(setups),
        # Each world has its own: few kinds, often, show what many hide from each other.
        kinds=(
            *chooser.sample(every_kind, chooser.randint(2, len(every_kind))),
            *rare,
        ),
        faulty_seconds=chooser.choice((2.0, 4.0, 4.0, 6.0)),
        complete_seconds=40.0,
        pause_between_faults=chooser.choice((0.06, 0.15, 0.4)),
        pause_between_sends=chooser.choice((0.03, 0.1, 0.2)),
        failure_rate=chooser.choice((0.0, 0.001, 0.005, 0.02)),
        duplicate_rate=chooser.choice((0.0, 0.01, 0.1)),
        slow_rate=chooser.choice((0.0, 0.01, 0.1)),
        honest=True,
        founds=chooser.random() < 0.8,
        cached=tuple(chooser.sample(names, chooser.choice((0, 0, 0, STORES_MAX // 2, STORES_MAX)))),
        mortality=chooser.choice(LASTING),
        proxies=seed % 2 == 1,
        lets_go=seed % 3 == 0,
        state_only=(),
        receiver_pacing=0 if fixed else _pacing(seed),
        attributes=seed % 5 < 2,
        outlives=chooser.random() < 0.4,
        consensus=chooser.choice((Behaviour.HIGHEST, *Behaviour)),
        modes=tuple(chooser.choice(list(Acknowledging)) for _ in range(receivers)),
        consensus_of_receivers=tuple(chooser.choice(list(Behaviour)) for _ in range(receivers)),
    )
    # What a test has fixed is as it says, and nothing besides.
    if fixed:
        return replace(weather, **fixed)
    weather = _with_twins(weather, random.Random(f"{seed} twice"))
    weather = _mortal(_with_state_only(weather, seed), random.Random(f"{seed} is mortal"))
    weather = _with_frozen(weather, random.Random(f"{seed} frozen"))
    weather = _with_successions(weather, random.Random(f"{seed} succession"))
    weather = _with_hanging(weather, random.Random(f"{seed} hanging"))
    weather = _with_retiring(weather, random.Random(f"{seed} retiring"))
    return _with_lagging(weather, random.Random(f"{seed} lagging"))


def _pacing(seed: int) -> int:
    """In some worlds the source waits for its receivers."""
    # Of its own: all else is as it would be without.
    chooser = random.Random(f"{seed} paced")
    return chooser.choice((0, 0, 0, 1, 10, 30))


def _with_twins(weather: Weather, chooser: random.Random) -> Weather:
    """In some worlds one identity is used twice at once."""
    # Drawn apart: the other worlds are as they would be without.
    if chooser.random() >= TWICE_SHARE:
        return weather
    every_kind = [kind for kind, times in TWICE_KINDS.items() for _ in range(times)]
    kinds = chooser.sample(every_kind, chooser.randint(1, len(every_kind)))
    return replace(weather, kinds=(*weather.kinds, *kinds))


def _with_state_only(weather: Weather, seed: int) -> Weather:
    """In some worlds some stores take no messages; the others are enough by every setup."""
    # Of its own: all else is as it would be without.
    chooser = random.Random(f"{seed} state-only")
    if chooser.random() < 0.7:
        return weather
    state_only: set[str] = set()
    for name in chooser.sample(weather.stores, min(2, len(weather.stores))):
        left = {*weather.stores} - state_only - {name}
        if all(each.stable(left, left) for setup in weather.setups for each in setup.variants()):
            state_only.add(name)
    if not state_only:
        return weather
    kinds = (*weather.kinds, *("reconfigure_store",) * chooser.choice((0, 1, 2)))
    return replace(weather, state_only=tuple(sorted(state_only)), kinds=kinds)


def _mortal(weather: Weather, chooser: random.Random) -> Weather:
    """The same, but that identities end, in some worlds; drawn apart, so that the others stay."""
    if chooser.random() >= MORTAL_SHARE:
        return weather
    ends = [kind for kind, times in MORTAL_KINDS.items() for _ in range(times)]
    kept_for = chooser.choice((40.0, 60.0, 100.0))
    kept_for = chooser.choice((kept_for, kept_for, 0.0))
    mortality = Mortality(
        Lifetimes(chooser.choice((0.0, 8.0, 30.0)), kept_for),
        Lifetimes(
            chooser.choice((0.0, 8.0)), chooser.choice((0.0 if kept_for else 60.0, 30.0, 90.0))
        ),
        chooser.choice((30.0, 60.0, GRACE_SECONDS)),
    )
    return replace(
        weather,
        mortality=mortality,
        kinds=(
            *weather.kinds,
            *chooser.sample(ends, chooser.randint(2, len(ends))),
        ),
        faulty_seconds=weather.faulty_seconds + 2.0,
    )


def _with_frozen(weather: Weather, chooser: random.Random) -> Weather:
    """In some worlds where identities end, receivers are frozen meanwhile."""
    if weather.mortality in LASTING or chooser.random() < 0.6:
        return weather
    return replace(
        weather, kinds=(*weather.kinds, *("end_frozen_receiver",) * chooser.choice((1, 2, 4)))
    )


def _with_successions(weather: Weather, chooser: random.Random) -> Weather:
    """In some worlds sources succeed each other; drawn apart, so that the others stay."""
    if chooser.random() >= SUCCESSION_SHARE:
        return weather
    return replace(weather, kinds=(*weather.kinds, *("succeed",) * chooser.choice((1, 2, 4))))


def _with_hanging(weather: Weather, chooser: random.Random) -> Weather:
    """In some worlds a store hangs for ever; drawn apart, so that the others stay.

    Not where a source may wait for that very store: as what stores without messages once took
    counts, and as whatever was deleted has to be settled first.
    """
    if weather.state_only or weather.mortality not in LASTING:
        return weather
    if chooser.random() >= HANGING_SHARE:
        return weather
    return replace(weather, kinds=(*weather.kinds, *("hang_store",) * chooser.choice((1, 2, 4))))


def _with_retiring(weather: Weather, chooser: random.Random) -> Weather:
    """In some worlds stores go that the stream has left; drawn apart, so that the others stay."""
    if len(weather.setups) < 2 or chooser.random() >= RETIRING_SHARE:
        return weather
    return replace(weather, kinds=(*weather.kinds, *("retire_stores",) * chooser.choice((2, 4, 8))))


def _with_lagging(weather: Weather, chooser: random.Random) -> Weather:
    """In some worlds one store lags; drawn apart, so that the others stay."""
    if chooser.random() >= LAGGING_SHARE:
        return weather
    return replace(weather, kinds=(*weather.kinds, *("lag_store",) * chooser.choice((2, 4, 8))))
