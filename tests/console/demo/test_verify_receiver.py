"""The verifier must say so whenever a receiver was handed anything but the input, in order."""

from collections.abc import Callable
from dataclasses import astuple, replace
from pathlib import Path

import pytest

from quorate.console.demo.facts import Facts, Kill
from quorate.console.demo.records import Record, digest, record_line, run_file
from quorate.console.demo.verdict import ReceiverVerdict
from quorate.console.demo.verify_receiver import (
    RECEIVER_RESTART,
    SOURCE_RESTART,
    ReceiverVerifier,
)

SESSION = 0x5EED
COUNT = 50
EXPECTED = {
    topic: [digest(f"{topic}-{number}".encode()) for number in range(COUNT)]
    for topic in ("one", "two")
}
Lives = list[list[Record]]


def record(topic: str, sequence: int, epoch: int = 1, time_ns: int = 100) -> Record:
    return Record(topic, SESSION, sequence, epoch, False, time_ns, EXPECTED[topic][sequence])


def stream(topic: str, first: int = 0, last: int = COUNT - 1, epoch: int = 1) -> list[Record]:
    return [record(topic, sequence, epoch) for sequence in range(first, last + 1)]


def killed_once() -> Lives:
    """A receiver that was killed at 30 of `one`, having acknowledged 25."""
    return [
        stream("one", last=30) + stream("two", last=10),
        stream("one", first=26) + stream("two", first=11),
    ]


def facts(*kills: Kill) -> Facts:
    return Facts(None, SESSION, ["r"], ["s"], kills=list(kills))


RECEIVER_KILLED = Kill("r", 1, 1, 40, 30, 50, {}, {"one": 25, "two": 10})
SOURCE_KILLED = Kill("source", 1, 1, 40, 30, 50, {"one": 20, "two": 10}, {})


def verify(
    directory: Path, lives: Lives, *kills: Kill, rest: dict[int, str] | None = None
) -> ReceiverVerdict:
    for run, records in enumerate(lives, start=1):
        text = "".join(record_line(*astuple(each)) for each in records) + (rest or {}).get(run, "")
        run_file(directory, "r", run).write_text(text)
    return ReceiverVerifier("r", EXPECTED, facts(*kills)).verify(directory)


def test_what_is_right_is_right(tmp_path: Path) -> None:
    verdict = verify(tmp_path, killed_once(), RECEIVER_KILLED)
    assert verdict.problems.shown == []
    assert verdict.distinct == 2 * COUNT
    assert verdict.records == 2 * COUNT + 5
    assert verdict.duplicates == {RECEIVER_RESTART: 5}


def test_topics_may_be_interleaved(tmp_path: Path) -> None:
    both = zip(stream("one"), stream("two"), strict=True)
    verdict = verify(tmp_path, [[each for pair in both for each in pair]])
    assert verdict.problems.count == 0


def test_the_record_that_kill_9_cut_short_does_not_count(tmp_path: Path) -> None:
    torn = record_line(*astuple(record("one", 31)))[:9]
    verdict = verify(tmp_path, killed_once(), RECEIVER_KILLED, rest={1: torn})
    assert verdict.problems.count == 0


def test_a_record_that_is_cut_short_without_a_kill_is_a_problem(tmp_path: Path) -> None:
    torn = record_line(*astuple(record("one", 31)))[:9]
    verdict = verify(tmp_path, killed_once(), RECEIVER_KILLED, rest={2: torn})
    assert "cut short" in verdict.problems.shown[0]


def dropped(lives: Lives) -> None:
    del lives[1][10]


def dropped_at_the_seam(lives: Lives) -> None:
    del lives[1][:6]


def dropped_at_the_end(lives: Lives) -> None:
    lives[1].pop()


def dropped_at_the_beginning(lives: Lives) -> None:
    del lives[0][0]


def duplicated(lives: Lives) -> None:
    lives[0].insert(5, lives[0][4])


def duplicated_from_before_the_kill(lives: Lives) -> None:
    lives[1].append(record("one", 28))


def swapped(lives: Lives) -> None:
    lives[1][7], lives[1][8] = lives[1][8], lives[1][7]


def altered(lives: Lives) -> None:
    lives[0][3] = replace(lives[0][3], digest=digest(b"something else"))


def exchanged(lives: Lives) -> None:
    lives[0][3] = replace(lives[0][3], digest=lives[0][4].digest)


def of_another_session(lives: Lives) -> None:
    lives[0][3] = replace(lives[0][3], session_id=SESSION + 1)


def never_published(lives: Lives) -> None:
    lives[1].append(replace(lives[1][-1], sequence=COUNT))


def of_another_topic(lives: Lives) -> None:
    lives[0][3] = replace(lives[0][3], topic="three")


def redelivered_though_acknowledged(lives: Lives) -> None:
    lives[1].insert(0, record("one", 25))


def a_life_too_many(lives: Lives) -> None:
    lives.append([])


@pytest.mark.parametrize(
    ("tamper", "says"),
    [
        (dropped, "was handed when 36 was due"),
        (dropped_at_the_seam, "one/0x5eed 32 was handed when 31 was due"),
        (dropped_at_the_end, "it was handed two up to 48 only, of 49"),
        (dropped_at_the_beginning, "was handed when 0 was due"),
        (duplicated, "was handed after 4, and no new epoch"),
        (duplicated_from_before_the_kill, "one/0x5eed 28 was handed after 49"),
        (swapped, "was handed when 33 was due"),
        (altered, "has other content than the input"),
        (exchanged, "has other content than the input"),
        (of_another_session, "was never published"),
        (never_published, "was never published"),
        (of_another_topic, "was never published"),
        (redelivered_though_acknowledged, "though 25 was acknowledged by then"),
        (a_life_too_many, "3 files of records for 2 lives"),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_tampering_is_seen(tmp_path: Path, tamper: Callable[[Lives], None], says: str) -> None:
    lives = killed_once()
    tamper(lives)
    verdict = verify(tmp_path, lives, RECEIVER_KILLED)
    assert verdict.problems.count > 0
    assert any(says in text for text in verdict.problems.shown), verdict.problems.shown


def after_source_restart(first: int, epoch: int) -> Lives:
    """The source was killed when `one` was at 30; it came back and `first` is handed again."""
    return [[*stream("one", last=30), *stream("one", first, epoch=epoch), *stream("two")]]


def test_a_new_epoch_explains_what_was_not_stable(tmp_path: Path) -> None:
    verdict = verify(tmp_path, after_source_restart(26, 2), SOURCE_KILLED)
    assert verdict.problems.shown == []
    assert verdict.duplicates == {SOURCE_RESTART: 5}


def test_a_new_epoch_does_not_explain_what_was_stable(tmp_path: Path) -> None:
    verdict = verify(tmp_path, after_source_restart(20, 2), SOURCE_KILLED)
    assert verdict.problems.shown == [
        "r: one/0x5eed 20 was handed again after the source's restart, though 20 was stable by then"
    ]


def test_without_a_new_epoch_nothing_explains_it(tmp_path: Path) -> None:
    verdict = verify(tmp_path, after_source_restart(26, 1), SOURCE_KILLED)
    assert any("nothing explains it" in text for text in verdict.problems.shown)


def test_a_new_epoch_without_a_kill_explains_nothing(tmp_path: Path) -> None:
    verdict = verify(tmp_path, after_source_restart(26, 2))
    assert any("nothing explains it" in text for text in verdict.problems.shown)


def test_a_later_kill_does_not_explain_an_earlier_duplicate(tmp_path: Path) -> None:
    later = replace(SOURCE_KILLED, time_ns=200)
    verdict = verify(tmp_path, after_source_restart(26, 2), later)
    assert any("nothing explains it" in text for text in verdict.problems.shown)


def test_a_receiver_that_wrote_nothing_was_handed_nothing(tmp_path: Path) -> None:
    verdict = verify(tmp_path, [[]])
    assert verdict.problems.shown == [
        "r: it was handed one up to -1 only, of 49",
        "r: it was handed two up to -1 only, of 49",
    ]
