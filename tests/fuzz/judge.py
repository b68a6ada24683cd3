"""The judge of the fuzzer: runs inputs from seeds, and says which of them break a rule.

The rules: nothing but typed refusals is raised; Python warns of nothing at run time; no input holds
a thread up for a second of its CPU time; memory does not grow without end. CPU time counts, so that
a busy machine fails nothing.
"""

from __future__ import annotations

import re
import resource
import time
import traceback
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from tests.fuzz.decoders import REFUSALS, Target
from tests.fuzz.mutation import Mutator

HELD_UP_SECONDS_MAX = 1.0
GROWTH_BYTES_MAX = 512 * 1024 * 1024
"""Bytes by which the process may grow while it reads inputs."""


@dataclass(frozen=True)
class Finding:
    """An input that breaks a rule."""

    target: str
    seed: int
    what: str
    input: bytes = b""

    @property
    def kind(self) -> tuple[str, str]:
        """The kind of error: findings that differ in numbers only have one kind."""
        return self.target, re.sub(r"\d+", "N", self.what)[:60]

    def __str__(self) -> str:
        shown = f"\n    input: {self.input[:400]!r}" if self.input else ""
        return (
            f"{self.target}: {self.what}{shown}\n    again: python -m tests.fuzz "
            f"--target '{self.target}' --first {self.seed} --inputs 1"
        )


def told(error: BaseException) -> str:
    """Return an error and where it was raised."""
    *_, last = traceback.extract_tb(error.__traceback__)
    return f"{type(error).__name__} in {last.name}: {error}"[:500]


def memory_bytes() -> int:
    """Return the most memory that the process has had so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def judged(name: str, target: Target, seed: int) -> Finding | None:
    """Return what is wrong with a target for the input of this seed; None: nothing."""
    data = target.input(Mutator(seed))
    began, had = time.thread_time(), memory_bytes()
    try:
        target.read(data)
    except REFUSALS:
        pass
    except Exception as error:
        return Finding(name, seed, told(error), data)
    took, grew = time.thread_time() - began, memory_bytes() - had
    if took > HELD_UP_SECONDS_MAX:
        return Finding(name, seed, f"took {took:.1f} s of CPU", data)
    if grew > GROWTH_BYTES_MAX:
        return Finding(name, seed, f"took {grew:,} bytes of memory", data)
    return None


@contextmanager
def warnings_found(name: str, seed: int, findings: list[Finding]) -> Iterator[None]:
    """Add what Python warns of at run time in this block, such as a call that nobody awaited."""
    with warnings.catch_warnings(record=True, action="always", category=RuntimeWarning) as warned:
        yield
    findings += [Finding(name, seed, f"Python warns: {each.message}") for each in warned]


def each_judged(targets: Mapping[str, Target], first: int, inputs: int) -> list[Finding]:
    """Return the findings of so many inputs of each target: one for each kind of error."""
    findings: dict[tuple[str, str], Finding] = {}
    for name, target in targets.items():
        for seed in range(first, first + inputs):
            if (finding := judged(name, target, seed)) is not None:
                findings.setdefault(finding.kind, finding)
    return list(findings.values())
