"""The units of systemd: it takes them, and holds a store to what it needs."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.deploy.rendering import DEPLOY, command
from typer.testing import CliRunner

from quorate.console.main import app

UNITS = DEPLOY / "systemd"
EXPOSURE_MAX = 15
"""The bound on what `systemd-analyze security` calls exposure, in tenths; 100 is the worst."""


def settings(unit: Path) -> dict[str, dict[str, list[str]]]:
    """Return the settings of a unit by section, in their order."""
    sections: dict[str, dict[str, list[str]]] = {}
    for line in unit.read_text().splitlines():
        if line.startswith("["):
            current = sections.setdefault(line.strip("[]"), {})
        elif line and not line.startswith("#"):
            key, _, value = line.partition("=")
            current.setdefault(key, []).append(value)
    return sections


ARCHIVE = "quorate-archive.service"


@pytest.fixture(params=["quorated.service", "quorated@store-a.service", ARCHIVE])
def unit(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Return a unit as it would be started, with a program that exists here."""
    name: str = request.param
    source = UNITS / name.replace("store-a", "")
    path = tmp_path / name
    path.write_text(re.sub("/opt/quorate/bin/quorated?", sys.executable, source.read_text()))
    return path


def test_systemd_takes_the_unit(unit: Path) -> None:
    done = subprocess.run(
        [command("systemd-analyze"), "verify", "--man=no", unit],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_systemd_calls_the_unit_well_protected(unit: Path) -> None:
    analyze = [command("systemd-analyze"), "security", "--offline=true", "--json=short"]
    done = subprocess.run(
        [*analyze, f"--threshold={EXPOSURE_MAX}", unit],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout or done.stderr
    assert json.loads(done.stdout), "it was looked at"


def test_a_store_is_waited_for_when_it_starts_and_when_it_stops() -> None:
    for unit in UNITS.glob("quorated*.service"):
        service = settings(unit)["Service"]
        assert service["Type"] == ["notify"]
        assert service["TimeoutStartSec"] == ["infinity"], "a recovery takes as long as it takes"
        assert float(service["WatchdogSec"][0]) >= 60
        assert float(service["TimeoutStopSec"][0]) >= 60
        assert service["RestartPreventExitStatus"] == ["78"]


def test_both_units_differ_only_in_the_names_of_the_store() -> None:
    one, several = (
        settings(UNITS / name)["Service"] for name in ("quorated.service", "quorated@.service")
    )
    differing = {key for key in one.keys() | several.keys() if one.get(key) != several.get(key)}
    assert differing == {"ExecStart", "StateDirectory"}
    assert several["ExecStart"] == ["/opt/quorate/bin/quorated /etc/quorate/%i.toml"]
    assert several["StateDirectory"] == ["quorate/%i"]


def test_the_user_of_the_units_is_made_by_the_file_for_it() -> None:
    kind, name, *_ = (UNITS / "quorate.sysusers").read_text().splitlines()[-1].split()
    assert (kind, [name]) == ("u", settings(UNITS / "quorated.service")["Service"]["User"])


def test_the_archive_runs_each_night_by_a_command_that_there_is(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow", reason="the extra archive is not installed")
    timer = UNITS / "quorate-archive.timer"
    assert (UNITS / ARCHIVE).exists(), "a timer starts the service of its name"
    (when,) = settings(timer)["Timer"]["OnCalendar"]
    calendar = [command("systemd-analyze"), "calendar", "--iterations=2", when]
    done = subprocess.run(calendar, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    (line,) = settings(UNITS / ARCHIVE)["Service"]["ExecStart"]
    _, *arguments = line.replace("/var/lib/quorate-archive", str(tmp_path)).split()
    nobody = {"QUORATE_STORES": "a=127.0.0.1:1"}
    done_once = CliRunner().invoke(app, arguments, env=nobody)
    assert done_once.exit_code == 69, done_once.output
