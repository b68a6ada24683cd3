"""docs/deploying.md: what it shows of the daemon is what the daemon says."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from tests.deploy.rendering import DEPLOY, OVERLAYS, ROOT
from typer.testing import CliRunner

from quorate.console.daemon import app

TEXT = (ROOT / "docs" / "deploying.md").read_text()
SNIPPETS = re.findall(r"(?<!-->\n)^```console\n\$ quorated (.*)\n((?:.*\n)*?)```$", TEXT, re.M)


def test_there_are_snippets() -> None:
    assert len(SNIPPETS) == 2


@pytest.mark.parametrize(("line", "shown"), SNIPPETS, ids=lambda text: text.split("--")[-1][:20])
def test_the_daemon_says_what_is_shown(
    line: str, shown: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (file,) = re.findall(r"^```toml\n(name = .*?)^```$", TEXT, re.M | re.S)
    (tmp_path / "store-a.toml").write_text(file)
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, shlex.split(line))
    assert result.exit_code == 0, result.output
    head, left_out, _ = shown.partition("…\n")
    said = result.stdout or result.stderr
    assert said.startswith(head) if left_out else said == head


def test_the_folders_and_overlays_that_it_names_exist() -> None:
    for path in re.findall(r"deploy/[\w./@-]*\w", TEXT):
        assert (ROOT / path).exists(), path
    named = set(re.findall(r"^\| `overlays/(\w+)`", TEXT, re.M))
    there = {path.name for path in (DEPLOY / "kubernetes" / "overlays").iterdir()}
    assert named == there == set(OVERLAYS)
