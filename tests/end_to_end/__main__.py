"""Chaos, and changes of the stores, for as long as you like: `make soak MINUTES=10`.

Each round is a world of its own with a seed of its own, and ends with everything checked. Prints
what happened; stops at the first round that fails, and says how to have it again.
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests.end_to_end.changing import Changes
from tests.end_to_end.chaos import Chaos
from tests.end_to_end.namespaces import Namespaces, why_not
from tests.end_to_end.network import Network, Proxies
from tests.end_to_end.world import World

_ROUND_SECONDS = 60.0


async def _round(
    seed: int, seconds: float, directory: Path, network: Network
) -> tuple[Counter[str], Counter[str]]:
    async with World(directory, network) as world:
        # Every third round is about changes of the stores.
        chaos = Changes(world, seed) if seed % 3 == 2 else Chaos(world, seed)
        begun = time.monotonic()
        try:
            summary = await chaos.run(seconds)
        finally:
            for fault, times in sorted(chaos.faults.items()):
                print(f"  {times:4d} x {fault}")
        print(
            f"  {summary.messages:,} messages, {summary.delivered:,} deliveries, "
            f"{summary.withdrawn} withdrawals, {summary.stable_said:,} promises of stability held, "
            f"{time.monotonic() - begun:.0f} s",
            flush=True,
        )
    seen = Counter(messages=summary.messages, deliveries=summary.delivered)
    return chaos.faults, seen


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--seed", type=int, default=0, help="of the first round")
    parser.add_argument("--network", choices=("namespaces", "proxies", "both"), default="both")
    given = parser.parse_args()
    reason = "" if given.network == "proxies" else why_not()
    if reason:
        print(f"Without network namespaces: {reason}")
    until = time.monotonic() + 60 * given.minutes
    faults: Counter[str] = Counter()
    seen: Counter[str] = Counter()
    seed = given.seed
    while (left := until - time.monotonic()) > 5:
        # Seeds 0 and 1 are in proxies, 2 and 3 in namespaces, and so on.
        spaced = not reason and (given.network == "namespaces" or seed % 4 >= 2)
        kind = "namespaces" if spaced else "proxies"
        print(f"Seed {seed} ({kind}):", flush=True)
        directory = Path(tempfile.mkdtemp(prefix="quorate-soak-"))
        network: Network = Namespaces() if spaced else Proxies()
        try:
            seconds = min(_ROUND_SECONDS, left)
            happened, counted = asyncio.run(_round(seed, seconds, directory, network))
            faults += happened
            seen += counted
        except Exception as error:
            print(f"FAILED: {error}")
            print(f"Everything that was said is in {directory}.")
            print(f"Again: make soak SEED={seed} MINUTES=1 NETWORK={kind}")
            return 1
        except KeyboardInterrupt:
            shutil.rmtree(directory, ignore_errors=True)
            print("Interrupted; nothing was left running.")
            return 130
        shutil.rmtree(directory)
        seed += 1
    print(f"{seed - given.seed} rounds held:")
    for what, times in sorted(faults.items()):
        print(f"  {times:8,d} x {what}")
    print("  " + ", ".join(f"{count:,} {what}" for what, count in seen.items()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
