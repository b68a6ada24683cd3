"""`make bench-pairs`: `quorate bench` of an older commit and of this tree, in turns.

It also compares two settings of this tree: `--base HEAD`, with other options for that side.

Machines differ, and one machine differs from hour to hour. So only runs side by side show whether
something became slower. Both versions run in this environment, on the same dependencies.
`quorate bench` decides what is measured.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import statistics
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.report import say

ROOT = Path(__file__).parent.parent


def figures(measured: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, float]]:
    """Yield every measured number with its path, without the settings."""
    for name, value in measured.items():
        if isinstance(value, Mapping) and name != "settings":
            yield from figures(value, f"{prefix}{name} ")
        elif isinstance(value, int | float):
            yield prefix + name, float(value)


def compared(pairs: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]]) -> Iterator[str]:
    """Yield a line for each figure that both versions have: medians, and ratios of the pairs."""
    before = [dict(figures(old)) for old, _ in pairs]
    now = [dict(figures(new)) for _, new in pairs]
    for name in now[0]:
        if all(each.get(name) for each in before) and all(name in each for each in now):
            ratios = [new[name] / old[name] for old, new in zip(before, now, strict=True)]
            spread = f"{min(ratios):.2f} to {max(ratios):.2f}"
            old, new = (statistics.median(each[name] for each in side) for side in (before, now))
            more = f"from {old:,.6g} to {new:,.6g}; the pairs' ratios {spread}"
            yield f"{name:<44}{statistics.median(ratios):>8.2f}  {more}"


def extracted(commit: str, directory: Path) -> Path:
    """Put the tree of a commit into a directory. Raises SystemExit if there is no such commit."""
    made = subprocess.run(["git", "-C", ROOT, "archive", commit], capture_output=True, check=False)
    if made.returncode:
        raise SystemExit(f"there is no tree of {commit}: {made.stderr.decode().strip()}")
    subprocess.run(["tar", "-x", "-C", directory], input=made.stdout, check=True)
    return directory


def roots(tree: Path) -> list[str]:
    """Return the folders of a tree that have its packages."""
    project = tomllib.loads((tree / "pyproject.toml").read_text())
    found: list[str] = project["tool"]["hatch"]["build"]["targets"]["wheel"]["dev-mode-dirs"]
    return found


def run(tree: Path, options: Sequence[str]) -> dict[str, Any]:
    """Run `quorate bench` of a tree, and return its measurements. Raises SystemExit if it fails."""
    paths = os.pathsep.join(str(tree / root) for root in (*roots(tree), "."))
    done = subprocess.run(
        [sys.executable, "-m", "quorate.console.main", "bench", *options, "-o", "json"],
        cwd=tree,
        env=os.environ | {"PYTHONPATH": paths},
        stdout=subprocess.PIPE,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"the bench of {tree} failed with exit code {done.returncode}")
    measured: dict[str, Any] = json.loads(done.stdout)
    return measured


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--base", required=True, help="the commit to compare with")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--bench", default="--messages 3000000", help="options of the bench")
    parser.add_argument("--base-bench", help="options for the older commit, if they are others")
    arguments = parser.parse_args()
    ours, theirs = arguments.bench, arguments.base_bench or arguments.bench
    pairs = []
    with tempfile.TemporaryDirectory(prefix="quorate-bench-pairs-") as name:
        base = extracted(arguments.base, Path(name))
        options = {base: shlex.split(theirs), ROOT: shlex.split(ours)}
        for number in range(1, arguments.pairs + 1):
            # The second version finds a warm machine, so the versions take turns at being second.
            order = (base, ROOT) if number % 2 else (ROOT, base)
            measured = {tree: run(tree, options[tree]) for tree in order}
            pairs.append((measured[base], measured[ROOT]))
            rates = [each["stable_messages_per_second"] for each in pairs[-1]]
            say(f"pair {number}: made stable/s", f"{rates[1]:,.0f}", f"{rates[0]:,.0f} before")
    print("\n".join(compared(pairs)))


if __name__ == "__main__":
    main()
