"""The checks of what applications saw: DESIGN's I1 to I3 and I7, by what users are promised."""

from __future__ import annotations

from tests.world.seen import Messages, Seen, Stream


class Violated(AssertionError):
    """An application saw what must not be."""


def check(seen: Seen, seed: int) -> None:
    """Raise Violated if an application saw what must not be."""
    _hold(not seen.failures, f"seed {seed}: {seen.failures[:3]}")
    for stream in seen.streams:
        where = f"seed {seed}, {stream.topic} of {stream.session_id}"
        _hold(not stream.conflicts, f"{where}: numbers were stable twice: {stream.conflicts[:3]}")
        _check_read(stream, where)
        _check_taken(stream, where)
        _check_replayed(stream, where)


def _check_read(stream: Stream, where: str) -> None:
    """All that was stable is read back, each number once, in order."""
    numbers = [number for number, _ in stream.read]
    _hold(numbers == list(range(len(numbers))), f"{where}: read back {_gaps(numbers)}")
    content = dict(stream.read)
    for number, payload in stream.stable.items():
        found = content.get(number)
        _hold(found == payload, f"{where}: {number} was stable as {payload!r}, now {found!r}")


def _check_taken(stream: Stream, where: str) -> None:
    """Each receiver gets the stream in order, without a gap, and goes on where one was."""
    for taken in stream.taken:
        numbers = [number for number, _ in taken.messages]
        first = numbers[0]
        expected = list(range(first, first + len(numbers)))
        _hold(numbers == expected, f"{where}: a gap: {_gaps(numbers)}")
        _hold(first <= taken.before + 1, f"{where}: began at {first} after {taken.before}")
        _check_content(stream, taken.messages, f"{where}: a receiver")


def _check_replayed(stream: Stream, where: str) -> None:
    """The subscriber is handed each stable message once, in order."""
    numbers = [number for number, _ in stream.replayed]
    _hold(numbers == list(range(len(numbers))), f"{where}: replayed {_gaps(numbers)}")
    _check_content(stream, stream.replayed, f"{where}: the subscriber")


def _check_content(stream: Stream, messages: Messages, who: str) -> None:
    content = dict(stream.read)
    for number, payload in messages:
        if number in content:
            _hold(content[number] == payload, f"{who}: {number} has two contents")


def _hold(holds: bool, rule: str) -> None:
    if not holds:
        raise Violated(rule)


def _gaps(numbers: list[int]) -> str:
    """Return the numbers that do not follow on the one before, each with that one."""
    pairs = zip([-1, *numbers], numbers, strict=False)
    return ", ".join(f"{number} after {before}" for before, number in pairs if number != before + 1)
