"""The verdict on a run, from the outside: the input, the receivers' records, the stores' disks.

No report of a Quorate process about itself decides here, with one exception: the acknowledged and
the stable positions when a process was killed. These only make the verdict stricter.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from quorate.console.demo.facts import Facts
from quorate.console.demo.flights import messages
from quorate.console.demo.records import digest
from quorate.console.demo.store_contents import read_store
from quorate.console.demo.verdict import Problems, RunVerdict
from quorate.console.demo.verify_receiver import Expected, ReceiverVerifier
from quorate.console.demo.verify_store import verify_stores


def verify(directory: Path, tell: Callable[[str], None] = lambda _: None) -> RunVerdict:
    """Return the verdict on the run in this directory, whose processes must have ended.

    `tell` is called with the name of each part when its turn comes.
    """
    facts = Facts.load(directory)
    tell("the input")
    expected = expected_digests(Path(facts.input) if facts.input else None)
    verdict = RunVerdict(sum(map(len, expected.values())))
    _verify_run(facts, verdict)
    for name in facts.receivers:
        tell(f"the records of {name}")
        verifier = ReceiverVerifier(name, expected, facts)
        verdict.receivers.append(verifier.verify(directory / "receivers"))
    contents = {}
    for name in facts.stores:
        tell(f"the disk of {name}")
        contents[name] = read_store(directory / "stores" / name)
    tell("the stores against each other")
    verdict.stores, among = verify_stores(contents, expected, facts.source_session_id)
    _merge(verdict.run, among)
    return verdict


def expected_digests(path: Path | None) -> Expected:
    """Return the digest of each message of the input, in order, by topic."""
    expected: dict[str, list[str]] = {}
    for topic, payload in messages(path):
        expected.setdefault(topic, []).append(digest(payload))
    return expected


def _verify_run(facts: Facts, verdict: RunVerdict) -> None:
    for complaint in facts.complaints:
        verdict.run.add(complaint)
    killed = [kill.victim for kill in facts.kills]
    if killed != facts.planned:
        verdict.run.add(f"the killed processes are {killed}, the planned ones {facts.planned}")
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
