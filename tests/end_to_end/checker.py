"""Holds what applications saw against what the stores serve in the end (protocol.md 1, I1 to I6).

Knows nothing else: no epochs but those that were told, no state of any process. Raises Violation.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.end_to_end.applications import TOPIC, name_of

from quorate.protocol.framing import check_batch, read_payloads
from quorate.protocol.identity import SourceName
from quorate.store.offline import OfflineStore

Content = dict[int, tuple[str, int]]
"""Name and epoch of each message, by its number."""
Lines = Sequence[Sequence[Any]]
"""What one run of an application said."""


class Violation(AssertionError):
    """Something that must always hold did not."""


@dataclass(frozen=True, slots=True)
class Receiver:
    """All runs of one receiver identity, in their order."""

    runs: Sequence[Lines]
    stable: bool
    """It is only handed what is stable."""


@dataclass(frozen=True, slots=True)
class Summary:
    """How much there was to be checked."""

    messages: int
    stable_said: int
    """How many messages applications were told to be stable, each counted as often as told."""
    delivered: int
    withdrawn: int


def stored(directory: Path, session: int) -> Content:
    """Return the messages of a source in a stopped store; none, if it never heard of the source."""
    content: Content = {}
    name = SourceName(TOPIC, session)
    with OfflineStore(directory) as store:
        known = [source.name for source in store.sources()]
        for batch in store.batches(name) if name in known else ():
            _must(not batch.problem, f"{directory.name} has a batch that it can not read: {batch}")
            header = check_batch(batch.frame)
            payloads = read_payloads(batch.frame, header)
            for number in range(batch.part.first, batch.part.last + 1):
                content[number] = (name_of(payloads[number - header.first]), header.epoch)
    return content


def check(
    stores: Mapping[str, Content],
    last: int,
    sources: Mapping[str, Sequence[Lines]],
    receivers: Mapping[str, Receiver],
    losses: Iterable[range] = (),
) -> Summary:
    """Everything. last: the newest number that is stable; losses: what an operator accepted."""
    lost = {number for loss in losses for number in loss}
    final = check_stores(stores, last, lost)
    stable_said = 0
    for name, runs in sources.items():
        for at, lines in enumerate(runs):
            stable_said += check_source(f"{name}, run {at + 1}", lines, final, lost)
    for name, receiver in receivers.items():
        check_receiver(name, receiver, final, lost)
    lines = [line for receiver in receivers.values() for run in receiver.runs for line in run]
    return Summary(
        len(final),
        stable_said,
        sum(len(line[2]) for line in lines if line[0] == "delivered"),
        sum(line[0] == "withdrawn" for line in lines),
    )


def check_stores(stores: Mapping[str, Content], last: int, lost: set[int]) -> Content:
    """I2, I6: all have the same, everything, and each message once."""
    final: Content = {}
    for content in stores.values():
        final |= content
    for store, content in stores.items():
        for number in range(last + 1):
            _must(number in content or number in lost, f"{store} lacks {number}")
        beyond = [number for number in content if number > last]
        _must(not beyond, f"{store} has {beyond[:3]}, which are after the end")
        for number, it in content.items():
            _must(it == final[number], f"{store} has {it} as {number}, another {final[number]}")
    numbers: dict[str, int] = {}
    for number, (name, _) in sorted(final.items()):
        before = numbers.setdefault(name, number)
        _must(before == number, f"{name} is there twice, as {before} and as {number}")
    return final


def check_source(who: str, lines: Lines, final: Content, lost: set[int]) -> int:
    """I1: what was said to be stable is there. Returns how many messages that was said of."""
    accepted: Content = {}
    epoch, stable_upto, receipts = 0, -1, 0
    for kind, *facts in lines:
        match kind, facts:
            case "opened", [epoch, _]:
                pass
            case "accepted", [first, names]:
                for number, name in enumerate(names, first):
                    _must(number not in accepted, f"{who}: {number} was given to two messages")
                    accepted[number] = (name, epoch)
            case "stable", [upto]:
                stable_upto = max(stable_upto, upto)
            case "receipt", [number, name, receipt_epoch]:
                receipts += 1
                it = (name, receipt_epoch)
                _must(
                    final.get(number) == it or number in lost,
                    f"{who}: had a receipt for {it} as {number}, there is {final.get(number)}",
                )
    # Within one run a source may have registered again: its epoch is then not the first one.
    places = {name: number for number, (name, _) in final.items()}
    stable = 0
    for number, (name, _) in accepted.items():
        if number <= stable_upto:
            stable += 1
            there = final.get(number, ("nothing", 0))[0]
            _must(
                there == name or number in lost,
                f"{who}: {name} was stable as {number}, there is {there}",
            )
        _must(
            places.get(name, number) == number,
            f"{who}: {name} was accepted as {number} and is there as {places.get(name)}",
        )
    return stable + receipts


def check_receiver(who: str, receiver: Receiver, final: Content, lost: set[int]) -> None:
    """I2, I3, I4: all of it, in order, over all runs of one receiver."""
    got: Content = {}
    taken = -1
    for at, lines in enumerate(receiver.runs):
        here = _check_run(f"{who}, run {at + 1}", lines, taken, lost)
        wrong = sorted(number for number, it in here.items() if final.get(number) != it)
        # One that was killed may not have heard that they were withdrawn.
        excused = not receiver.stable and at + 1 < len(receiver.runs)
        _must(
            not wrong or excused,
            f"{who}, run {at + 1}: was handed {[(n, here[n]) for n in wrong[:3]]}, "
            f"there is {[final.get(n) for n in wrong[:3]]}",
        )
        got |= {number: it for number, it in here.items() if final.get(number) == it}
        taken = max(taken, _taken(lines, here))
    missing = sorted(final.keys() - got.keys())
    _must(not missing, f"{who}: was never handed {missing[:3]}")


def _taken(lines: Lines, here: Content) -> int:
    """The last that it was done with of what it was handed, and so may have acknowledged."""
    upto = max((line[1] for line in lines if line[0] == "taken"), default=-1)
    return max((number for number in here if number <= upto), default=-1)


def _check_run(who: str, lines: Lines, taken: int, lost: set[int]) -> Content:
    """What one run was handed and not told to forget.

    taken: the last that those before it may have acknowledged.
    """
    here: Content = {}
    following: int | None = None
    # An application that says where it starts is asked before it is handed anything.
    chosen = next((line[1] for line in lines if line[0] == "chose"), None)
    # Events are told beside messages: a withdrawal may be heard of after what takes its place.
    withdrawals = [(line[1], line[2]) for line in lines if line[0] == "withdrawn"]
    for kind, *facts in lines:
        match kind, facts:
            case "delivered", [first, names, epoch]:
                if following is None:
                    _must(
                        first <= taken + 1
                        or first == chosen
                        or set(range(taken + 1, first)) <= lost,
                        f"{who}: begins at {first} after {taken}",
                    )
                elif first != following:
                    withdrawal = (first, following - 1)
                    _must(
                        withdrawal in withdrawals,
                        f"{who}: is handed {first} where {following} should follow",
                    )
                    _forget(here, withdrawals, withdrawal)
                here |= {number: (name, epoch) for number, name in enumerate(names, first)}
                following = first + len(names)
            case "withdrawn", [first, last]:
                if (first, last) in withdrawals:
                    _forget(here, withdrawals, (first, last))
                    following = first
            case "gap", [first, last, *_]:
                _must(
                    set(range(first, last + 1)) <= lost,
                    f"{who}: is told that [{first}, {last}] can not be had",
                )
                following = last + 1
    return here


def _forget(here: Content, withdrawals: list[tuple[int, int]], which: tuple[int, int]) -> None:
    withdrawals.remove(which)
    for number in range(which[0], which[1] + 1):
        here.pop(number, None)


def _must(holds: bool, otherwise: str) -> None:
    if not holds:
        raise Violation(otherwise)
