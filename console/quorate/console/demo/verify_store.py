"""The verdict on the stores: compared with the input and each other, message by message."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import zip_longest

from quorate.console.demo.verdict import Problems, StoreVerdict
from quorate.console.demo.verify_receiver import Expected
from quorate.protocol.identity import SourceName
from quorate.protocol.lineage import Lineage


@dataclass(slots=True)
class Contents:
    """The messages of one source at one store: (sequence number, digest), in order."""

    lineage: Lineage
    messages: list[tuple[int, str]] = field(default_factory=list)
    corrupt: list[str] = field(default_factory=list)
    """Batches that could not be read, in words."""


def verify_stores(
    stores: Mapping[str, Mapping[SourceName, Contents]], expected: Expected, session_id: int
) -> tuple[list[StoreVerdict], Problems]:
    """Return the verdict on each store, and the differences between the stores."""
    verdicts = [
        _verify_store(name, contents, expected, session_id) for name, contents in stores.items()
    ]
    among = Problems()
    for topic in expected:
        _compare(SourceName(topic, session_id), stores, among)
    return verdicts, among


def _verify_store(
    name: str, contents: Mapping[SourceName, Contents], expected: Expected, session_id: int
) -> StoreVerdict:
    verdict = StoreVerdict(name)
    for topic, digests in expected.items():
        source = SourceName(topic, session_id)
        held = contents.get(source)
        if held is None:
            verdict.problems.add(f"{name}: it does not know {source}")
            continue
        verdict.messages += len(held.messages)
        verdict.epochs += len(held.lineage.terms)
        for text in held.corrupt:
            verdict.problems.add(f"{name}: {text}")
        _check_messages(f"{name}: {source}", held.messages, digests, verdict.problems)
    for source in contents:
        if source.topic not in expected or source.session_id != session_id:
            verdict.problems.add(f"{name}: it holds {source}, which was never published")
    return verdict


def _check_messages(
    where: str, messages: Iterable[tuple[int, str]], digests: Iterable[str], problems: Problems
) -> None:
    due = 0
    wanted = list(digests)
    for sequence, content in messages:
        if sequence > due:
            problems.add(f"{where} lacks [{due}, {sequence - 1}]")
        elif sequence < due:
            problems.add(f"{where} has {sequence} twice or out of order")
        if sequence >= len(wanted):
            problems.add(f"{where} has {sequence}, which was never published")
        elif content != wanted[sequence]:
            problems.add(f"{where} has other content under {sequence} than the input")
        due = sequence + 1
    if due < len(wanted):
        problems.add(f"{where} lacks [{due}, {len(wanted) - 1}]")


def _compare(
    source: SourceName, stores: Mapping[str, Mapping[SourceName, Contents]], problems: Problems
) -> None:
    """Compare all stores with the first."""
    (first_name, first), *others = (
        (name, contents.get(source, Contents(Lineage()))) for name, contents in stores.items()
    )
    for name, other in others:
        if other.lineage != first.lineage:
            problems.add(f"{first_name} and {name} differ in the lineage of {source}")
        for mine, theirs in zip_longest(first.messages, other.messages):
            if mine != theirs:
                sequence = (mine or theirs or (0, ""))[0]
                problems.add(f"{first_name} and {name} differ in {source} from {sequence} on")
                break
