"""The demo's plan, board, facts and view, without any process."""

import io
from dataclasses import astuple
from pathlib import Path

import pytest
from rich.console import Console

from quorate.console.demo.board import Board, ReceiverState, StoreState
from quorate.console.demo.facts import Facts, Kill
from quorate.console.demo.faults import STORM, Act, Fault, Plan
from quorate.console.demo.records import Record, read_records, record_line, run_file, run_files
from quorate.console.demo.verdict import ReceiverVerdict, RunVerdict, StoreVerdict
from quorate.console.demo.view import DemoView, render


def board() -> Board:
    made = Board(
        totals={"one": 100},
        sent={"one": 60},
        stable={"one": 50},
        receivers={"r": ReceiverState(handed={"one": 40})},
        stores={"s": StoreState(address="here:1", pid=7, state="up")},
    )
    made.note("something happened")
    return made


def all_due(plan: Plan, share: float) -> list[Fault]:
    return list(iter(lambda: plan.due(share), None))


def test_faults_come_due_by_progress_each_once() -> None:
    plan = Plan()
    assert plan.victims == ["store-2", "receiver-1", "source", "store-1"]
    assert plan.due(0.1) is None
    assert [fault.victim for fault in all_due(plan, 0.3)] == ["store-2", "store-2"]
    assert plan.due(0.3) is None
    assert [fault.act for fault in all_due(plan, 0.60)] == [Act.KILL, Act.START] * 2
    assert len(plan.left) == 2


def test_the_stream_goes_no_further_than_shortly_behind_the_next_fault() -> None:
    plan = Plan()
    for fault in STORM:
        assert fault.share < plan.share_max < fault.share + 0.1
        assert plan.due(fault.share) is fault
    assert plan.share_max == 1.0


def test_every_victim_is_started_again_before_the_end() -> None:
    alive: dict[str, bool] = {}
    for fault in STORM:
        assert alive.get(fault.victim, True) is (fault.act is Act.KILL)
        alive[fault.victim] = fault.act is Act.START
        assert 0 < fault.share < 0.95
    assert all(alive.values())


def test_the_board_adds_up() -> None:
    made = board()
    assert made.share_stable == 0.5
    assert made.lag("r") == 20
    assert not made.all_handed()
    made.receivers["r"].handed["one"] = 100
    assert made.all_handed()


def test_a_terminal_is_shown_everything() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=120, highlight=False)
    console.print(render(board()))
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    for text in ("one", "here:1", "something happened", "50%"):
        assert text in shown


def test_a_pipe_gets_each_event_once_as_a_line(capsys: object) -> None:
    made = board()
    console = Console(file=io.StringIO(), force_terminal=False)
    with DemoView(made, console, 0.0) as view:
        view.refresh()
        made.note("and again")
        view.refresh()
        view.refresh()
    shown = capsys.readouterr().out  # type: ignore[attr-defined]
    assert shown.count("something happened") == 1
    assert shown.count("and again") == 1
    assert "50 of 100 stable" in shown


def test_a_run_that_waits_says_for_what() -> None:
    made = board()
    made.phase, made.stores["s"].state = "starting", "starting"
    assert made.waiting_for == "s to start"
    made.stores["s"].state = "up"
    assert made.waiting_for == "the source, which is starting"
    made.phase, made.source_state = "streaming", "registering"
    assert made.waiting_for == "the source, which is registering"
    made.source_state = "up"
    assert made.waiting_for == ""
    made.phase, made.source_state = "settling", "done"
    assert made.waiting_for == "r"
    made.receivers["r"].handed["one"], made.lacking = 100, ["s one"]
    assert made.waiting_for == "s one"


def test_a_wait_is_shown_in_place_of_the_rate(capsys: pytest.CaptureFixture[str]) -> None:
    made = board()
    made.phase, made.source_state = "streaming", "reading the input"
    view = DemoView(made, Console(file=io.StringIO(), force_terminal=False), 0.0)
    view.refresh()
    made.totals = {}
    view.refresh()
    first, second = capsys.readouterr().out.splitlines()[1:]
    waiting = "waiting for the source, which is reading the input"
    assert first.endswith(f"streaming: 50 of 100 stable, {waiting}; r 20 behind")
    assert second.endswith(f"streaming: {waiting}")
    console = Console(file=io.StringIO(), force_terminal=True, width=150, highlight=False)
    console.print(render(made))
    assert waiting in console.file.getvalue()  # type: ignore[attr-defined]


def test_a_pipe_gets_one_line_for_all_that_is_verified(capsys: pytest.CaptureFixture[str]) -> None:
    made = board()
    with DemoView(made, Console(file=io.StringIO(), force_terminal=False)) as view:
        for part in ("the input", "the disk of s"):
            made.verified.append(part)
            view.refresh()
            view.refresh()
    shown = capsys.readouterr().out.splitlines()
    assert [line[10:] for line in shown] == [
        "something happened",
        "verifying the input, the disk of s",
    ]


def test_facts_survive_the_file(tmp_path: Path) -> None:
    facts = Facts(None, 5, ["r"], ["s"], ["r"], [Kill("r", 1, 1, 5, 4, 9, {"a": 3}, {"a": 2})])
    facts.save(tmp_path)
    assert Facts.load(tmp_path) == facts


def test_records_survive_the_file(tmp_path: Path) -> None:
    record = Record("a topic", 0xAB, 3, 2, True, 17, "00ff")
    for run in (1, 2, 10):
        run_file(tmp_path, "r", run).write_text(record_line(*astuple(record)) + "ab 4")
    assert [path.name for path in run_files(tmp_path, "r")] == [
        "r.run-1.records",
        "r.run-2.records",
        "r.run-10.records",
    ]
    assert read_records(run_files(tmp_path, "r")[0]) == ([record], "ab 4")


def test_one_problem_anywhere_makes_the_verdict_bad() -> None:
    assert RunVerdict(10, [ReceiverVerdict("r")], [StoreVerdict("s")]).line().startswith("VERIFIED")
    verdict = RunVerdict(10, [ReceiverVerdict("r")], [StoreVerdict("s")])
    verdict.stores[0].problems.add("s: lost its mind")
    assert not verdict.good
    assert verdict.line() == "FAILED: 1 problem found."
    assert verdict.words() == ["s: lost its mind"]


def test_many_problems_are_counted_and_a_few_shown() -> None:
    verdict = RunVerdict(10)
    for number in range(25):
        verdict.run.add(f"problem {number}")
    assert len(verdict.words()) == 11
    assert verdict.words()[-1] == "… and 15 more like these"
