"""Alerts and dashboard: they ask for metrics that there are, and fire when they should."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml
from tests.store.monitor.promtool import firing, promtool
from tests.store.monitor.test_metrics import LISTED
from typer.testing import CliRunner

from quorate.console.main import app
from quorate.store.monitor import metrics
from quorate.store.monitor.alerts import ALERTS, Alert, as_yaml, rules, rules_of_operator
from quorate.store.monitor.dashboard import dashboard

ROOT = Path(__file__).parents[3]
DOCUMENT = ROOT / "docs" / "alerts.md"
NAMES = [alert.name for alert in ALERTS]

HOUR = "x240"
QUIET = {
    'quorate_peer_reachable{job="g", instance="a", peer="b"}': "1" + HOUR,
    'quorate_peer_reachable{job="g", instance="a", peer="c"}': "1" + HOUR,
    'quorate_peer_reachable{job="g", instance="b", peer="a"}': "1" + HOUR,
    'quorate_peer_reachable{job="g", instance="b", peer="c"}': "1" + HOUR,
    'quorate_unstable_live_messages{job="g", instance="a", topic="t"}': "5" + HOUR,
    'quorate_stable_messages{job="g", instance="a", topic="t"}': "0+100" + HOUR,
    'quorate_limbo{job="g", instance="a"}': "0" + HOUR,
    'quorate_limbo_sources{job="g", instance="a", topic="t"}': "0" + HOUR,
    'quorate_starts{job="g", instance="a"}': "7" + HOUR,
    'quorate_disk_free_bytes{job="g", instance="a"}': "9000" + HOUR,
    'quorate_disk_free_warning_bytes{job="g", instance="a"}': "1000" + HOUR,
    'quorate_disk_free_min_bytes{job="g", instance="a"}': "100" + HOUR,
    'quorate_retention_held_up{job="g", instance="a"}': "0" + HOUR,
    'quorate_sync_seconds_bucket{job="g", instance="a", le="0.1"}': "0+99" + HOUR,
    'quorate_sync_seconds_bucket{job="g", instance="a", le="1.0"}': "0+100" + HOUR,
    'quorate_sync_seconds_bucket{job="g", instance="a", le="+Inf"}': "0+100" + HOUR,
    'quorate_event_loop_lag_seconds_bucket{job="g", instance="a", le="0.1"}': "0+99" + HOUR,
    'quorate_event_loop_lag_seconds_bucket{job="g", instance="a", le="1.0"}': "0+100" + HOUR,
    'quorate_event_loop_lag_seconds_bucket{job="g", instance="a", le="+Inf"}': "0+100" + HOUR,
    'quorate_lacking_messages{job="g", instance="a", topic="t"}': "0" + HOUR,
    'quorate_unreadable_messages{job="g", instance="a", topic="t"}': "0" + HOUR,
    'quorate_conflicts{job="g", instance="a", topic="t"}': "0" + HOUR,
    'quorate_receiver_lag_messages{job="g", instance="a", topic="t"}': "99000" + HOUR,
    'quorate_row_lag_messages{job="g", instance="a", topic="t"}': "99000" + HOUR,
    'quorate_row_lag_seconds{job="g", instance="a", topic="t"}': "59" + HOUR,
    'quorate_certificate_end_timestamp_seconds{job="g", instance="a"}': "700000" + HOUR,
    'quorate_queue_dispatches{job="g", instance="a", queue="q"}': "1" + HOUR,
    'quorate_queue_dispatches{job="g", instance="b", queue="q"}': "0" + HOUR,
    'quorate_queue_dead_messages_total{job="g", instance="a", queue="q"}': "5" + HOUR,
    'quorate_denied_calls_total{job="g", instance="a"}': "0+0.1" + HOUR,
}
"""Values of a group that works, for an hour. The clock of the tool begins at 0."""

FAULTS = {
    "QuorateStoreAway": {("peer_reachable", 'peer="c"'): "0"},
    "QuorateQuorumAway": {("peer_reachable", ""): "0"},
    "QuorateStoresPartitioned": {("peer_reachable", 'instance="a", peer="c"'): "0"},
    "QuorateNothingBecomesStable": {("stable_messages", ""): "100"},
    "QuorateStoreInLimbo": {("limbo", ""): "1"},
    "QuorateSourcesInLimbo": {("limbo_sources", ""): "1"},
    "QuorateStoreRestarts": {("starts", ""): "0+0.1"},
    "QuorateDiskAlmostFull": {("disk_free_bytes", ""): "999"},
    "QuorateDiskFillsUp": {("disk_free_bytes", ""): "90000-100"},
    "QuorateRetentionHeldUp": {("retention_held_up", ""): "1"},
    "QuorateDiskSlow": {("sync_seconds_bucket", 'le="0.1"'): "0+50"},
    "QuorateStoreOverloaded": {("event_loop_lag_seconds_bucket", 'le="0.1"'): "0+50"},
    "QuorateMessagesLacking": {("lacking_messages", ""): "1"},
    "QuorateMessagesUnreadable": {("unreadable_messages", ""): "1"},
    "QuorateStoresDiffer": {("conflicts", ""): "1"},
    "QuorateReceiverBehind": {("receiver_lag_messages", ""): "100001"},
    "QuorateRowsBehind": {("row_lag_messages", ""): "100001"},
    "QuorateQueueNotDispatched": {("queue_dispatches", ""): "0"},
    "QuorateQueueDeadLetters": {("queue_dead_messages_total", ""): "0+1"},
    "QuorateCertificateEnds": {("certificate_end_timestamp_seconds", ""): "600000"},
    "QuorateCallsDenied": {("denied_calls_total", ""): "0+1"},
}
"""The values that cause each alert: those of series by metric and by a part of the labels."""
WITH_OTHERS = {"QuorateQuorumAway": {"QuorateStoreAway"}}


def caused(name: str) -> dict[str, str]:
    """Return the series of a group with the fault of an alert."""
    series = dict(QUIET)
    for (metric, labels), values in FAULTS[name].items():
        hit = [key for key in series if key.startswith(f"quorate_{metric}{{") and labels in key]
        assert hit, (metric, labels)
        series |= dict.fromkeys(hit, values + HOUR)
    return series


def metrics_of(text: str) -> set[str]:
    return {name.removesuffix("_bucket") for name in re.findall(r"quorate_[a-z_]+", text)}


def test_alerts_and_dashboard_ask_for_metrics_that_there_are() -> None:
    known = {metrics.full_name(each) for listed in LISTED.values() for each in listed}
    asked = metrics_of(" ".join(alert.expression for alert in ALERTS))
    drawn = metrics_of(json.dumps(dashboard()))
    assert len(asked) > 15
    assert len(drawn) > 15
    assert asked | drawn <= known


def test_the_document_says_of_each_alert_what_to_do() -> None:
    text = DOCUMENT.read_text()
    parts = dict(re.findall(r"^## (Quorate\w+)\n\n((?:.+\n)+)", text, re.M))
    assert list(parts) == NAMES
    for alert in ALERTS:
        assert alert.page == f"docs/alerts.md#{alert.name.lower()}"


def test_the_rules_are_yaml() -> None:
    assert yaml.safe_load(as_yaml(rules())) == rules()
    assert yaml.safe_load(as_yaml(rules_of_operator())) == rules_of_operator()


@pytest.mark.parametrize(
    ("file", "arguments"),
    [
        ("deploy/monitoring/alerts.yaml", ["alerts"]),
        ("deploy/monitoring/dashboard.json", ["dashboard"]),
        ("deploy/kubernetes/components/monitoring/alerts.yaml", ["alerts", "--operator"]),
    ],
)
def test_the_files_are_those_that_the_command_prints(file: str, arguments: list[str]) -> None:
    printed = CliRunner().invoke(app, ["generate", *arguments])
    assert printed.exit_code == 0
    assert (ROOT / file).read_text() == printed.stdout, "run `make alerts`"


def test_the_panels_of_the_dashboard_do_not_overlap() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in dashboard()["panels"]:
        place = panel["gridPos"]
        fields = {
            (place["x"] + column, place["y"] + line)
            for column in range(place["w"])
            for line in range(place["h"])
        }
        assert not fields & taken, panel["title"]
        assert place["x"] + place["w"] <= 24
        taken |= fields
    ids = [panel["id"] for panel in dashboard()["panels"]]
    assert len(ids) == len(set(ids))


def test_prometheus_takes_the_files() -> None:
    for arguments in (
        ("check", "rules", "deploy/monitoring/alerts.yaml"),
        ("check", "config", "deploy/monitoring/prometheus.yaml"),
    ):
        *verbs, file = arguments
        checked = promtool(*verbs, str(ROOT / file))
        assert checked.returncode == 0, checked.stdout + checked.stderr


def test_no_alert_fires_in_a_group_that_works(tmp_path: Path) -> None:
    assert firing(tmp_path, QUIET, 59) == [set()]


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert.name)
def test_an_alert_fires_by_its_fault_after_its_minutes(alert: Alert, tmp_path: Path) -> None:
    earlier = max(0.0, alert.minutes - 0.25)
    before, at_the_end = firing(tmp_path, caused(alert.name), earlier, 59)
    assert at_the_end == {alert.name} | WITH_OTHERS.get(alert.name, set())
    assert not alert.minutes or alert.name not in before
