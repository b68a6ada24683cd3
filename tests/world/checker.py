"""The checks of what applications saw: DESIGN's I1 to I3, by what users are promised."""

from __future__ import annotations

from tests.world.applications import Seen


def check(seen: Seen, seed: int) -> None:
    """Raise AssertionError if an application saw what must not be."""
    assert not seen.failures, f"seed {seed}: {seen.failures[:3]}"
    assert not seen.conflicts, f"seed {seed}: stable numbers were given twice: {seen.conflicts[:3]}"
    _check_read(seen, seed)
    _check_taken(seen, seed)


def _check_read(seen: Seen, seed: int) -> None:
    """All that was stable is read back, each number once, in order."""
    numbers = [number for number, _ in seen.read]
    assert numbers == list(range(len(numbers))), f"seed {seed}: read back {numbers[:5]} …"
    content = dict(seen.read)
    for number, payload in seen.stable.items():
        found = content.get(number)
        assert found == payload, f"seed {seed}: {number} was stable as {payload!r}, now {found!r}"


def _check_taken(seen: Seen, seed: int) -> None:
    """Each receiver gets the stream in order, without a gap, and goes on where one was."""
    content, upto = dict(seen.read), -1
    for taken in seen.taken:
        if not taken:
            continue
        numbers = [number for number, _ in taken]
        first = numbers[0]
        assert numbers == list(range(first, first + len(numbers))), f"seed {seed}: a gap: {numbers}"
        assert first <= upto + 1, f"seed {seed}: began at {first}, though {upto} was the last"
        upto = max(upto, numbers[-1])
        for number, payload in taken:
            if number in content:
                assert content[number] == payload, f"seed {seed}: {number} has two contents"
