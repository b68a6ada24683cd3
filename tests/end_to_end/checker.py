"""Holds what applications saw against what the stores have in the end (DESIGN 7, I1 to I6)."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.end_to_end.applications import SESSION, TOPIC, name_of

from quorate.protocol.framing import check_batch, read_payloads
from quorate.protocol.identity import SourceName
from quorate.store.offline import OfflineStore

Content = dict[int, tuple[str, int]]
"""Name and epoch of each message, by its number."""


def history(path: Path) -> list[list[Any]]:
    """Without the last line, if its writer was killed in the middle of it."""
    lines = path.read_bytes().splitlines(keepends=True) if path.exists() else []
    return [json.loads(line) for line in lines if line.endswith(b"\n")]


def stored(directory: Path) -> Content:
    content: Content = {}
    with OfflineStore(directory) as store:
        for batch in store.batches(SourceName(TOPIC, SESSION)):
            assert not batch.problem, (directory, batch)
            header = check_batch(batch.frame)
            payloads = read_payloads(batch.frame, header)
            for number in range(batch.part.first, batch.part.last + 1):
                content[number] = (name_of(payloads[number - header.first]), header.epoch)
    return content


def check_stores(directories: Iterable[Path], last: int) -> Content:
    """I2, I6: all have the same, and everything."""
    contents = [stored(directory) for directory in directories]
    for content in contents:
        assert sorted(content) == list(range(last + 1))
        assert content == contents[0]
    return contents[0]


def check_source(seen: list[list[Any]], final: Content) -> int:
    """I1: what was said to be stable is there. Returns how often that was said."""
    accepted: dict[int, str] = {}
    promises = 0
    for kind, *facts in seen:
        if kind == "accepted":
            first, names = facts
            accepted |= dict(enumerate(names, first))
        elif kind == "receipt":
            number, name, epoch = facts
            assert final[number] == (name, epoch)
            promises += 1
        elif kind == "flushed":
            flushed = {number: name for number, name in accepted.items() if number <= facts[0]}
            assert flushed == {number: final[number][0] for number in flushed}
            promises += 1
    return promises


def check_receiver(runs: list[list[list[Any]]], final: Content, *, stable: bool) -> None:
    """I2, I3, I4: all of it, in order, over all runs of one receiver."""
    got: Content = {}
    highest = -1
    for run in runs:
        withdrawn = {facts[0] for kind, *facts in run if kind == "withdrawn"}
        here: Content = {}
        following: int | None = None
        for kind, *facts in run:
            assert kind != "gap", facts
            if kind == "delivered":
                first, names, epoch = facts
                if following is None:
                    assert first <= highest + 1
                else:
                    assert first == following or (first < following and first in withdrawn)
                here |= {number: (name, epoch) for number, name in enumerate(names, first)}
                following = first + len(names)
                highest = max(highest, following - 1)
        wrong = {number for number, it in here.items() if final.get(number) != it}
        # One that was killed may not have heard that they were withdrawn.
        assert not wrong or (not stable and run is not runs[-1]), min(wrong)
        got |= {number: it for number, it in here.items() if number not in wrong}
    assert got == final
