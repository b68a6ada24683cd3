"""The verdict of an audit about each source, and about all sources.

A loss is never reported as a difference. Messages that were not compared are never reported as
whole. A loss that an operator accepted is a loss. Nothing here asks a store.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from quorate.pipeline.audit.archive_verdict import archive_findings, unknown_to_stores
from quorate.pipeline.audit.contents import merged
from quorate.pipeline.audit.facts import (
    ARCHIVE,
    ArchivedCopy,
    Copy,
    Finding,
    Kind,
    SourceFacts,
    StoreFacts,
    Weight,
)
from quorate.pipeline.audit.holdings import Kept, Stretch, kept, stretches
from quorate.protocol.figures import numbers_in
from quorate.protocol.identity import SourceName
from quorate.protocol.lineage import diverges_at
from quorate.protocol.ranges import Range, RangeSet

_NAMED_MAX = 4
"""Number of findings that a summary names. The list has all of them."""


class AuditOutcome(enum.Enum):
    """The outcome of an audit. The number is the exit code of the command."""

    NO_LOSS = "no loss", 0
    UNKNOWN = "not known", 10
    DIFFERENCE = "difference", 1
    LOSS = "loss", 1

    def __init__(self, text: str, exit_code: int) -> None:
        self.text = text
        self.exit_code = exit_code

    @staticmethod
    def of(weights: Iterable[Weight]) -> AuditOutcome:
        """Return the outcome for findings of these weights. The worst one decides."""
        return _OUTCOMES[max(weights, default=Weight.NOTE)]

    @property
    def weight(self) -> Weight:
        return next(weight for weight, outcome in _OUTCOMES.items() if outcome is self)


_OUTCOMES = {
    Weight.NOTE: AuditOutcome.NO_LOSS,
    Weight.UNKNOWN: AuditOutcome.UNKNOWN,
    Weight.DIFFERENCE: AuditOutcome.DIFFERENCE,
    Weight.LOSS: AuditOutcome.LOSS,
}


@dataclass(frozen=True, slots=True)
class Coverage:
    """The stores that have the messages [first, last], and whether they make them stable."""

    first: int
    last: int
    stores: tuple[str, ...]
    kept: Kept


@dataclass(frozen=True, slots=True)
class ReceiverPosition:
    """The position of a receiver in a source: the number up to which it has acknowledged."""

    session_id: int
    by_store: Mapping[str, int]
    upto: int
    """The highest position at any store."""
    behind: int
    """Number of stable messages that the receiver has not acknowledged."""
    remarks: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SourceVerdict:
    """The verdict about a source."""

    source: SourceName
    outcome: AuditOutcome
    summary: str
    messages: int
    """Number of stable messages that retention has not released."""
    retained_from: int
    stable_upto: int
    stores: tuple[str, ...]
    """The stores that have all of them."""
    findings: tuple[Finding, ...]
    coverage: tuple[Coverage, ...]
    positions: tuple[ReceiverPosition, ...]
    archived: ArchivedCopy | None = None
    """The copy of the archive; None: the audit is of the stores alone."""


@dataclass(slots=True)
class AuditReport:
    """The result of an audit."""

    stores: list[StoreFacts]
    sources: list[SourceVerdict] = field(default_factory=list)
    compared: int = 0
    """Number of messages that were compared by digest or by content."""
    read: int = 0
    """Number of messages that were read, at all stores together."""
    thorough: bool = False
    archive: str = ""
    """The archive that was compared with the stores; empty: none."""
    archived: int = 0
    """Number of messages of the archive that were looked for, and compared if stores have them."""
    seconds: float = 0.0

    @property
    def outcome(self) -> AuditOutcome:
        """The outcome for all sources.

        A silent store may have sources that no other store knows.
        """
        weights = [each.outcome.weight for each in self.sources]
        weights += [Weight.UNKNOWN for each in self.stores if each.silence]
        return AuditOutcome.of(weights)

    @property
    def summary(self) -> str:
        """The outcome in one line."""
        counts = ", ".join(
            f"{count:,} {outcome.text}"
            for outcome in reversed(AuditOutcome)
            if (count := sum(each.outcome is outcome for each in self.sources))
        )
        silent = [each.name for each in self.stores if each.silence]
        parts = [f"{len(self.sources):,} sources: {counts}" if counts else "no source is known"]
        parts += [f"{', '.join(silent)} did not answer"] if silent else []
        return f"{self.outcome.text}: {'; '.join(parts)}"

    def as_object(self) -> dict[str, Any]:
        """Return the report as values for JSON."""
        return {
            "outcome": self.outcome.text,
            "summary": self.summary,
            "thorough": self.thorough,
            "compared": self.compared,
            "read": self.read,
            "archive": self.archive,
            "archived": self.archived,
            "seconds": round(self.seconds, 3),
            "stores": [
                {
                    "store": each.name,
                    "address": each.address,
                    "silence": each.silence,
                    "limbo": each.limbo,
                }
                for each in self.stores
            ],
            "sources": [_as_object(each) for each in self.sources],
        }


def _as_object(verdict: SourceVerdict) -> dict[str, Any]:
    return {
        "topic": verdict.source.topic,
        "source": f"{verdict.source.session_id:#x}",
        "outcome": verdict.outcome.text,
        "summary": verdict.summary,
        "messages": verdict.messages,
        "retained_from": verdict.retained_from,
        "stable_upto": verdict.stable_upto,
        "stores": list(verdict.stores),
        "archived": _archived(verdict.archived),
        "findings": [
            {
                "kind": each.kind.text,
                "weight": each.kind.weight.name.lower(),
                "stores": list(each.stores),
                "first": each.first,
                "last": each.last,
                "detail": each.detail,
            }
            for each in verdict.findings
        ],
        "coverage": [
            {
                "first": each.first,
                "last": each.last,
                "stores": list(each.stores),
                "stable": each.kept.value,
            }
            for each in verdict.coverage
        ],
        "receivers": [
            {
                "receiver": f"{each.session_id:#x}",
                "acknowledged_upto": each.upto,
                "behind": each.behind,
                "by_store": dict(each.by_store),
                "remarks": list(each.remarks),
            }
            for each in verdict.positions
        ],
    }


def _archived(copy: ArchivedCopy | None) -> dict[str, Any] | None:
    if copy is None:
        return None
    return {"first": copy.first, "last": copy.last, "messages": copy.has.count()}


# Judging a source.


def judge(facts: SourceFacts, found: Sequence[Finding]) -> SourceVerdict:
    """Return the verdict about a source.

    found: the findings of comparing the contents.
    """
    if facts.archived is not None and not facts.copies:
        return _judge_archive_alone(facts, facts.archived, found)
    findings = [each for each in found if each.kind is not Kind.HOLE]
    findings += _known_unreadable(facts)
    facts = _after_a_look(facts, found)
    by_store = {store: copy.held for store, copy in facts.copies.items()}
    whole = stretches(by_store, facts.first, facts.stable_upto)
    for stretch in whole:
        findings += _of_stretch(facts, stretch)
    findings += _unseen(facts)
    findings += _of_lineages(facts)
    findings += _tails(facts)
    findings += archive_findings(facts)
    findings = _ordered(findings)
    outcome = AuditOutcome.of(each.kind.weight for each in findings)
    coverage = tuple(
        Coverage(each.first, each.last, tuple(sorted(each.holders)), kept(facts, each.holders))
        for each in whole
    )
    messages = numbers_in(whole)
    stores = tuple(
        sorted(
            store
            for store in facts.copies
            if messages and all(store in each.holders for each in whole)
        )
    )
    return SourceVerdict(
        facts.name,
        outcome,
        _summary(facts, outcome, messages, stores, findings),
        messages,
        facts.retained_from,
        facts.stable_upto,
        stores,
        tuple(findings),
        coverage,
        tuple(_positions(facts)),
        facts.archived,
    )


def _ordered(findings: Iterable[Finding]) -> list[Finding]:
    """Return the findings with adjacent ones joined, the worst ones first."""
    return sorted(
        merged(findings),
        key=lambda each: (-each.kind.weight, each.first, each.kind.text, each.stores),
    )


def _judge_archive_alone(
    facts: SourceFacts, archived: ArchivedCopy, found: Sequence[Finding]
) -> SourceVerdict:
    """Return the verdict about a source that only the archive knows."""
    findings = _ordered([*found, unknown_to_stores(facts, archived)])
    outcome = AuditOutcome.of(each.kind.weight for each in findings)
    summary = f"{outcome.text}: {_named(findings)}"
    return SourceVerdict(
        facts.name, outcome, summary, 0, 0, -1, (), tuple(findings), (), (), archived
    )


def _known_unreadable(facts: SourceFacts) -> Iterator[Finding]:
    for store, copy in sorted(facts.copies.items()):
        for each in copy.unreadable:
            if each.first <= facts.stable_upto:
                last = min(each.last, facts.stable_upto)
                detail = "the store found that it cannot read it"
                yield Finding(Kind.UNREADABLE, (store,), each.first, last, detail)


def _after_a_look(facts: SourceFacts, found: Sequence[Finding]) -> SourceFacts:
    """Return the facts without messages that the comparison found lacking or unreadable."""
    copies = dict(facts.copies)
    for store, copy in facts.copies.items():
        lacking, unreadable = (
            RangeSet(
                Range(each.first, each.last)
                for each in found
                if each.kind is kind and store in each.stores
            )
            for kind in (Kind.HOLE, Kind.UNREADABLE)
        )
        copies[store] = copy.without(lacking, unreadable)
    archived = facts.archived
    if archived is not None:
        unreadable = RangeSet(
            Range(each.first, each.last)
            for each in found
            if each.kind is Kind.UNREADABLE and ARCHIVE in each.stores
        )
        archived = replace(archived, has=archived.has.minus(unreadable))
    return replace(facts, copies=copies, archived=archived)


def _of_stretch(facts: SourceFacts, stretch: Stretch) -> Iterator[Finding]:
    first, last = stretch.first, stretch.last
    lackers = {store: copy for store, copy in facts.copies.items() if store not in stretch.holders}
    for part, lost, unreadable in _parts(lackers, Range(first, last)):
        yield from _of_part(facts, stretch, part, lackers, lost, unreadable)


def _parts(
    lackers: Mapping[str, Copy], whole: Range
) -> Iterator[tuple[Range, bool, frozenset[str]]]:
    """Yield the parts of a range, each with two facts about it.

    They are whether its loss was accepted, and which stores cannot read it.
    """
    said = {f"r{store}": copy.unreadable for store, copy in lackers.items()}
    said |= {f"l{store}": copy.losses for store, copy in lackers.items()}
    for each in stretches(said, whole.first, whole.last):
        unreadable = frozenset(name[1:] for name in each.holders if name[0] == "r")
        lost = any(name[0] == "l" for name in each.holders)
        yield Range(each.first, each.last), lost, unreadable


def _of_part(
    facts: SourceFacts,
    stretch: Stretch,
    part: Range,
    lackers: Mapping[str, Copy],
    lost: bool,
    unreadable: frozenset[str],
) -> Iterator[Finding]:
    first, last = part.first, part.last
    doubtful = {store for store, copy in lackers.items() if copy.limbo}
    if not stretch.holders:
        yield from _nowhere(facts, part, sorted({*doubtful, *facts.unseen}), lost)
        return
    holders = ", ".join(sorted(stretch.holders))
    for store, copy in sorted(lackers.items()):
        if store in unreadable or store not in facts.members or not copy.takes_data:
            continue
        if copy.limbo:
            detail = f"it lacks it, but is in limbo: {copy.limbo}"
            yield Finding(Kind.UNSEEN, (store,), first, last, detail)
        elif copy.live and first > copy.held.high:
            detail = f"the source is sending to it; held by {holders}"
            yield Finding(Kind.BEHIND, (store,), first, last, detail)
        else:
            yield Finding(Kind.HOLE, (store,), first, last, f"held by {holders}")
    match kept(facts, stretch.holders, doubtful):
        case Kept.TOO_FEW:
            detail = f"held by {holders} only, which does not make it stable"
            yield Finding(Kind.FEW_COPIES, tuple(sorted(stretch.holders)), first, last, detail)
        case Kept.UNKNOWN:
            others = tuple(sorted(doubtful)) or tuple(sorted(facts.unseen))
            detail = f"held by {holders}; stable only if stores that were not seen have it, too"
            yield Finding(Kind.UNSEEN, others, first, last, detail)
        case Kept.STABLE:
            pass


def _nowhere(
    facts: SourceFacts, part: Range, unseen: Sequence[str], lost: bool
) -> Iterator[Finding]:
    """Yield the findings about messages that no answering store has."""
    if unseen and not lost:
        detail = f"no answering store outside limbo has it; {', '.join(unseen)} may have it"
        yield Finding(Kind.UNSEEN, tuple(unseen), part.first, part.last, detail)
        return
    has = facts.archived.has if facts.archived is not None else RangeSet()
    for each in RangeSet([part]).both(has):
        detail = "no store has it; `quorate restore` gives it back"
        yield Finding(Kind.ONLY_ARCHIVED, (ARCHIVE,), each.first, each.last, detail)
    for each in RangeSet([part]).minus(has):
        if lost:
            detail = "no store that answered has it, and an operator accepted its loss"
            yield Finding(Kind.ACCEPTED, (), each.first, each.last, detail)
        else:
            yield Finding(Kind.MISSING, (), each.first, each.last, "no store has it")


def _unseen(facts: SourceFacts) -> Iterator[Finding]:
    upto = max(facts.first, facts.stable_upto)
    for store, why in facts.unseen.items():
        yield Finding(Kind.UNSEEN, (store,), facts.first, upto, why)


def _of_lineages(facts: SourceFacts) -> Iterator[Finding]:
    for store, copy in sorted(facts.copies.items()):
        at = diverges_at(copy.lineage, facts.lineage)
        if not copy.lineage.terms or at > facts.stable_upto:
            continue
        upto = facts.stable_upto
        ours = f"from {at} on it has epoch {copy.lineage.epoch_at(at)}, the others have "
        detail = f"{ours}{facts.lineage.epoch_at(at)}"
        if copy.stable_upto >= at:
            detail += f", and it was told that it is stable up to {copy.stable_upto}"
            yield Finding(Kind.LINEAGE, (store,), at, max(upto, copy.stable_upto), detail)
        else:
            yield Finding(Kind.OUTDATED, (store,), at, upto, detail)


def _tails(facts: SourceFacts) -> Iterator[Finding]:
    for store, copy in sorted(facts.copies.items()):
        for each in copy.tail:
            yield Finding(
                Kind.TAIL, (store,), each.first, each.last, "held, but not known to be stable"
            )


def _positions(facts: SourceFacts) -> Iterator[ReceiverPosition]:
    sessions = sorted({each for copy in facts.copies.values() for each in copy.positions})
    for session_id in sessions:
        by_store = {
            store: copy.positions.get(session_id, -1) for store, copy in facts.copies.items()
        }
        upto = max(by_store.values())
        behind = max(0, facts.stable_upto - upto)
        remarks = []
        if behind:
            remarks.append(f"{behind:,} behind")
        if upto > facts.stable_upto:
            remarks.append("above the last stable number")
        if upto + 1 < facts.retained_from:
            remarks.append(
                f"retention released numbers below {facts.retained_from:,} before it got there"
            )
        if len(set(by_store.values())) > 1:
            remarks.append("stores differ")
        yield ReceiverPosition(session_id, by_store, upto, behind, tuple(remarks))


# The summary.


def _summary(
    facts: SourceFacts,
    outcome: AuditOutcome,
    messages: int,
    stores: Sequence[str],
    findings: Sequence[Finding],
) -> str:
    below = facts.retained_from
    released = f"; retention released numbers below {below:,}" if below else ""
    if facts.archived is not None:
        released += f"; the archive has {_all_of(facts.archived.has)}"
    if outcome is AuditOutcome.NO_LOSS:
        if not messages:
            return f"no loss: nothing is {'stable yet' if not below else 'retained'}{released}"
        agree = "1 store has them" if len(stores) == 1 else f"{len(stores)} stores agree"
        return f"no loss: {messages:,} messages, {agree}{_but(findings)}{released}"
    if outcome is AuditOutcome.UNKNOWN:
        seen = f"{messages:,} messages, of which {len(stores)} stores have all"
        return f"not known: {seen}; {_named(findings)}"
    return f"{outcome.text}: {_named(findings)}"


def _all_of(numbers: RangeSet) -> str:
    """Return the numbers as text; of many ranges only the count and the bounds."""
    if not numbers:
        return "nothing of it"
    return f"{numbers.count():,} messages of [{numbers.low}, {numbers.high}]"


def _but(findings: Sequence[Finding]) -> str:
    behind = {store for each in findings if each.kind is Kind.BEHIND for store in each.stores}
    return f"; {', '.join(sorted(behind))} is still taking the newest" if behind else ""


def _named(findings: Sequence[Finding]) -> str:
    """Return the findings that decide the verdict, as text."""
    grave = [each for each in findings if each.kind.weight > Weight.NOTE]
    named = [_sentence(each) for each in grave[:_NAMED_MAX]]
    if len(grave) > _NAMED_MAX:
        named.append(f"and {len(grave) - _NAMED_MAX:,} more")
    return "; ".join(named)


def _sentence(each: Finding) -> str:
    where, stores = f"[{each.first}, {each.last}]", ", ".join(each.stores)
    match each.kind:
        case Kind.MISSING:
            return f"no store has {where} ({len(each):,} messages)"
        case Kind.ACCEPTED:
            return f"{where} is lost, and an operator accepted it ({len(each):,} messages)"
        case Kind.HOLE:
            return f"{stores} lacks {where}"
        case Kind.UNREADABLE:
            return f"{stores} cannot read {where}"
        case Kind.DIVERGENT:
            return f"{where} has different contents: {each.detail}"
        case Kind.DUPLICATE:
            return f"{stores} has numbers of {where} more than once"
        case Kind.FEW_COPIES:
            return f"{where} is {each.detail}"
        case Kind.LINEAGE:
            return f"{stores} has another history from {each.first} on"
        case Kind.NOT_ARCHIVED:
            return f"retention released {where}, and the archive lacks it ({len(each):,} messages)"
        case Kind.ONLY_ARCHIVED:
            return f"no store has {where}, but the archive has it ({len(each):,} messages)"
        case Kind.BEYOND:
            return (
                f"the archive has {where}, which is above what is stable ({len(each):,} messages)"
            )
        case Kind.FORGOTTEN:
            return f"no store knows the source, of which the archive has {where}"
        case _:
            return f"{stores} was not seen for {where}: {each.detail}"
