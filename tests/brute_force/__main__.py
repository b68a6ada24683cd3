"""Goes through the small worlds as a whole and the larger ones as far as asked: `--help`."""

from __future__ import annotations

import argparse
import random
import sys
import time

from tests.brute_force.exploring import ALL_RULES, Found, explore, walk_in
from tests.brute_force.judge import Judge
from tests.brute_force.model import Model
from tests.brute_force.states import Shape
from tests.brute_force.walks import random_shape
from tests.brute_force.worlds import LARGER_WORLDS, WORLDS, every_policy

WALK_STEPS = 120


def main() -> int:
    parser = argparse.ArgumentParser(prog="brute-force", description=__doc__)
    parser.add_argument("--states", type=int, default=300_000, help="at most, of each larger world")
    parser.add_argument(
        "--policy-states", type=int, default=20_000, help="at most, of each policy's world"
    )
    parser.add_argument("--stores", type=int, default=5, help="at most, for the policies")
    parser.add_argument("--walks", type=int, default=20_000, help="random walks in larger worlds")
    parser.add_argument("--first", type=int, default=0, help="the first walk; to see one again")
    options = parser.parse_args()
    try:
        for name, shape in WORLDS.items():
            _explore(name, shape, 1 << 60)
        for name, shape in LARGER_WORLDS.items():
            _explore(name, shape, options.states)
        for name, shape in every_policy(options.stores):
            _explore(name, shape, options.policy_states)
        _walk(range(options.first, options.first + options.walks))
    except Found as found:
        print(f"FOUND\n{found}")
        return 1
    return 0


def _explore(name: str, shape: Shape, states_max: int) -> None:
    said_at = time.monotonic()

    def progress(states: int, waiting: int) -> None:
        nonlocal said_at
        if time.monotonic() - said_at >= 5:
            said_at = time.monotonic()
            print(f"  {states:,} states, {waiting:,} to go on from", file=sys.stderr, flush=True)

    print(f"{name}: {explore(shape, ALL_RULES, states_max, progress)}", flush=True)


def _walk(seeds: range) -> None:
    stable, said_at = 0, time.monotonic()
    for number, seed in enumerate(seeds, 1):
        shape = random_shape(seed)
        judge = Judge(shape, ALL_RULES)
        try:
            model = Model(shape, ALL_RULES, judge)
            stable += walk_in(model, judge, random.Random(seed), WALK_STEPS)
        except Found as found:
            print(f"again: make brute-force WALKS=1 FIRST={seed}\n{shape}")
            raise found from None
        if time.monotonic() - said_at >= 5:
            said_at = time.monotonic()
            print(f"  {number:,} walks, {stable:,} stable", file=sys.stderr, flush=True)
    print(
        f"{len(seeds):,} walks of up to {WALK_STEPS} steps: {stable:,} messages stable, none lost"
    )


if __name__ == "__main__":
    sys.exit(main())
