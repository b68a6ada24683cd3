"""`quorate audit`: what it shows, and its exit codes; what it finds is tested in tests/pipeline."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from tests import seams

pytest.importorskip("pyarrow", reason="the extra archive is not installed")

from tests.pipeline.audit.test_verdict import WHOLE, facts
from typer.testing import CliRunner, Result

from quorate.console.main import app
from quorate.pipeline.audit.facts import Finding, Kind, StoreFacts
from quorate.pipeline.audit.verdict import AuditOutcome, AuditReport, judge
from quorate.protocol import exit_codes
from quorate.protocol.errors import Unreachable

STORES = [StoreFacts(f"s{number}", f"h:{number}") for number in range(3)]
DIVERGENT = Finding(Kind.DIVERGENT, ("s0", "s1"), 10, 12, "s0 against s1")


def audited(
    monkeypatch: pytest.MonkeyPatch, report: AuditReport, *arguments: str
) -> tuple[Result, dict[str, Any]]:
    """The command's end with this report, and what the job was asked for."""
    asked: dict[str, Any] = {}

    def run_audit(stores: Sequence[str], **options: Any) -> AuditReport:
        asked.update(options, stores=list(stores))
        options["told"]("comparing")
        return report

    seams.JOBS_COMMAND_RUN_AUDIT.replace(monkeypatch, run_audit)
    command = ["audit", "--stores", "a=h:1,b=h:2,c=h:3", *arguments]
    return CliRunner().invoke(app, command, env={"COLUMNS": "200"}), asked


def report_with(*findings: Finding, silence: str = "") -> AuditReport:
    stores = [*STORES[:2], StoreFacts("s2", "h:2", silence)]
    unseen = {"s2": silence} if silence else {}
    copies = WHOLE[:2] if silence else WHOLE
    return AuditReport(stores, [judge(facts(*copies, unseen=unseen), findings)], 100)


def test_the_exit_codes_are_those_of_the_command() -> None:
    assert {each.exit_code for each in AuditOutcome} == {
        exit_codes.DONE,
        exit_codes.FAILED,
        exit_codes.UNHEALTHY,
    }
    assert AuditOutcome.UNKNOWN.exit_code == exit_codes.UNHEALTHY


def test_no_loss_is_shown_and_exits_0(monkeypatch: pytest.MonkeyPatch) -> None:
    result, asked = audited(monkeypatch, report_with())
    assert result.exit_code == exit_codes.DONE
    assert "orders/0x10: no loss: 100 messages, 3 stores agree." in result.stderr
    assert "comparing" in result.stderr
    assert "no loss" in result.stdout
    assert asked["stores"] == ["h:1", "h:2", "h:3"]
    assert (asked["topics"], asked["topics_pattern"], asked["thorough"]) == ((), None, False)


def test_a_difference_is_shown_where_and_exits_1(monkeypatch: pytest.MonkeyPatch) -> None:
    result, asked = audited(monkeypatch, report_with(DIVERGENT), "--topic", "orders", "--thorough")
    assert result.exit_code == exit_codes.FAILED
    assert "s0 against s1" in result.stdout
    assert "divergent" in result.stdout
    assert (asked["topics"], asked["thorough"]) == (["orders"], True)


def test_what_could_not_be_seen_exits_10(monkeypatch: pytest.MonkeyPatch) -> None:
    result, _ = audited(monkeypatch, report_with(silence="h:2 cannot be reached"))
    assert result.exit_code == exit_codes.UNHEALTHY
    assert "s2 was not seen for [0, 99]: h:2 cannot be reached" in result.stderr
    worse, _ = audited(monkeypatch, report_with(DIVERGENT, silence="it is away"))
    assert worse.exit_code == exit_codes.FAILED


def test_the_report_is_one_object_or_a_line_for_each(monkeypatch: pytest.MonkeyPatch) -> None:
    report = report_with(DIVERGENT)
    whole, _ = audited(monkeypatch, report, "-o", "json")
    assert json.loads(whole.stdout) == report.as_object()
    lines, _ = audited(monkeypatch, report, "-o", "jsonl")
    rows = [json.loads(line) for line in lines.stdout.splitlines()]
    assert [row["kind"] for row in rows] == [*3 * ["store"], "source", "verdict"]
    assert rows[-1]["outcome"] == "difference"


def test_a_group_of_which_no_store_answers_is_unreachable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def run_audit(*_: Any, **__: Any) -> AuditReport:
        raise Unreachable("h:1", "refused")

    seams.JOBS_COMMAND_RUN_AUDIT.replace(monkeypatch, run_audit)
    result = CliRunner().invoke(app, ["audit", "--stores", "h:1"])
    assert result.exit_code == exit_codes.UNREACHABLE
