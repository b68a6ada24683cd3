"""The verdict on a run, from the outside: the input, the receivers' records, the stores' disks.

Nothing that a Quorate process said of itself decides here, except where it can only make the
verdict stricter: what had been acknowledged or was stable when a process was killed.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from quorate.console.demo.facts import Facts
from quorate.console.demo.flights import messages
from quorate.console.demo.records import digest
from quorate.console.demo.store_contents import read_store
from quorate.console.demo.verdict import Problems, Verdict
from quorate.console.demo.verify_receiver import Expected, ReceiverVerifier
from quorate.console.demo.verify_store import verify_stores


def verify(directory: Path, note: Callable[[str], None] = lambda _: None) -> Verdict:
    """Judge the run in this directory; its processes must have ended."""
    facts = Facts.load(directory)
    note("reading the input again")
    expected = expected_digests(Path(facts.input) if facts.input else None)
    verdict = Verdict(sum(map(len, expected.values())))
    _verify_run(facts, verdict)
    for name in facts.receivers:
        note(f"comparing what {name} was handed with the input")
        verifier = ReceiverVerifier(name, expected, facts)
        verdict.receivers.append(verifier.verify(directory / "receivers"))
    contents = {}
    for name in facts.stores:
        note(f"reading {name}'s disk")
        contents[name] = read_store(directory / "stores" / name)
    note("comparing the stores with each other and with the input")
    verdict.stores, among = verify_stores(contents, expected, facts.source_session_id)
    _merge(verdict.run, among)
    return verdict


def expected_digests(path: Path | None) -> Expected:
    """By topic, the digest of each message of the input, in order."""
    expected: dict[str, list[str]] = {}
    for topic, payload in messages(path):
        expected.setdefault(topic, []).append(digest(payload))
    return expected


def _verify_run(facts: Facts, verdict: Verdict) -> None:
    for complaint in facts.complaints:
        verdict.run.add(complaint)
    killed = [kill.victim for kill in facts.kills]
    if killed != facts.planned:
        verdict.run.add(f"killed were {killed}, planned were {facts.planned}")
    for kill in facts.kills:
        verdict.kills.append(
            {
                "killed": kill.victim,
                "process": str(kill.pid),
                "after": f"{kill.sent:,} sent, {kill.stable:,} stable",
                "of": verdict.expected,
            }
        )
        if not 0 < kill.stable < verdict.expected:
            verdict.run.add(f"{kill.victim} was not killed in mid-stream")


def _merge(into: Problems, others: Problems) -> None:
    for text in others.shown:
        into.add(text)
    into.count += others.count - len(others.shown)
