"""Phrases for numbers, ranges, lineages, policies and errors, as stories use them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from quorate.protocol.begin import BeginRecord
from quorate.protocol.errors import Fenced, MissingMessages, QuorateError, SourceActive
from quorate.protocol.lineage import Lineage
from quorate.protocol.policy import Membership, Policy
from quorate.protocol.ranges import HeldRange, Range

UNBROKEN = ",\N{NO-BREAK SPACE}"


def numbers(first: int, last: int) -> str:
    """Return a range of sequence numbers."""
    return str(first) if first == last else f"{first} to {last}"


def messages(first: int, last: int) -> str:
    """Return a range of messages."""
    return f"{'message' if first == last else 'messages'} {numbers(first, last)}"


def upto(number: int) -> str:
    """Return everything up to a number."""
    return "nothing" if number < 0 else f"up to {number}"


def told(stable_upto: int) -> str:
    """Return how far a store was told that a stream is stable."""
    return "told of nothing stable" if stable_upto < 0 else f"told stable up to {stable_upto}"


def ranges(held: Sequence[Range | HeldRange]) -> str:
    """Return ranges, with their epochs where these differ."""
    if not held:
        return "nothing"
    epochs = {item.epoch for item in held if isinstance(item, HeldRange)}
    return ", ".join(
        numbers(item.first, item.last)
        + (f" of epoch {item.epoch}" if len(epochs) > 1 and isinstance(item, HeldRange) else "")
        for item in held
    )


def lineage(terms: Lineage) -> str:
    """Return a lineage."""
    return ", ".join(f"epoch {term.epoch} from {term.first}" for term in terms.terms)


def membership(record: Membership) -> str:
    """Return a change of stores; empty: there is none."""
    if record.from_policies == record.to_policies:
        return ""
    return f"; stores from {policies(record.from_policies)} to {policies(record.to_policies)}"


def confirmed(record: BeginRecord) -> str:
    """Return that a begin counts, which changed the stores."""
    return f"epoch {record.epoch} counts; the stores are {policies(record.policies)}"


def policies(named: Iterable[Policy]) -> str:
    """Return the stores of policies of one group each, as docs/protocol.md writes them."""
    return f"[{UNBROKEN.join(''.join(policy.groups[0].stores) for policy in named)}]"


def error(what: QuorateError) -> str:
    """Return an error."""
    name = type(what).__name__
    match what:
        case Fenced():
            return f"{name}, epoch {what.promised} is promised"
        case SourceActive():
            return f"{name}, another instance lives, or may live"
        case MissingMessages():
            return f"{name}, {numbers(what.first, what.last)} may have been stable"
    return name
