"""docs/security.md says what is: its commands and its program run."""

from __future__ import annotations

import shlex
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.console.command import QUORATE
from tests.documents import Document, shape

PAGE = Document("security")

pytestmark = pytest.mark.processes


def shown(beginning: str) -> tuple[list[str], str]:
    """Return the command of the page that begins so, and what it shows."""
    (console,) = (
        each for each in PAGE.blocks("console") if each.startswith(f"$ quorate {beginning}")
    )
    line, _, output = console.removeprefix("$ quorate ").partition("\n")
    return shlex.split(line), output


def begun(*words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*QUORATE, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def test_the_command_for_trying_says_what_is_shown() -> None:
    words, output = shown("dev --tls")
    with begun(*words, "--base-port", "0") as dev:
        assert dev.stdout is not None
        said = "".join(dev.stdout.readline() for _ in output.splitlines())
        dev.send_signal(signal.SIGINT)
        dev.communicate(timeout=60)
    assert shape(said) == shape(output)


def test_the_program_uses_the_certificates_that_the_command_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words, output = shown("certificates")
    with begun(*words) as making:
        said, _ = making.communicate(timeout=60)
    assert making.returncode == 0
    assert shape(said) == shape(output)
    names: dict[str, Any] = {}
    exec(PAGE.block("python"), names)
    assert names["quorate"]._settings.tls == names["tls"]


def test_a_token_is_shown_once(tmp_path: Path) -> None:
    words, output = shown("token add")
    tokens = str(tmp_path / "tokens")
    assert words[2] == "/etc/quorate/tokens"
    with begun(*words[:2], tokens, *words[3:]) as adding:
        said, _ = adding.communicate(timeout=60)
    assert adding.returncode == 0
    (token, *line), (token_shown, *line_shown) = said.split(), output.split()
    assert len(token) == len(token_shown)
    assert shape(" ".join(line)) == shape(" ".join(line_shown))
