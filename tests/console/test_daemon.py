"""`quorated`, as a service manager starts it and as a person asks it."""

import os
import signal
import socket
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from typer.core import TyperGroup
from typer.main import get_command
from typer.testing import CliRunner, Result

from quorate.console.commands.store import store
from quorate.console.daemon import app
from quorate.store.configuration import StoreConfiguration, load

PATIENCE_SECONDS = 60.0


def said(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "store.toml"
    path.write_text(
        f'data_directory = "{tmp_path / "data"}"\nlisten = "127.0.0.1:0"\npeers = []\n'
        '[[topic]]\npattern = "metrics\\\\..*"\nretention_messages = 1000\n'
    )
    return path


def test_a_file_is_checked_with_what_the_options_add(file: Path) -> None:
    assert said(file, "--validate").exit_code == 78, "it has no name"
    result = said(file, "--validate", "--name", "store-a")
    assert (result.exit_code, result.stderr) == (0, f"{file} is valid.\n")
    assert not (file.parent / "data").exists()


def test_the_printed_configuration_is_the_file_of_the_same_store(file: Path) -> None:
    result = said(file, "--print-config", "--name", "store-a", "--durability", "os")
    assert result.exit_code == 0, result.stderr
    printed = file.with_name("printed.toml")
    printed.write_text(result.stdout)
    overrides = {"name": "store-a", "durability": "os"}
    assert load(printed) == load(file, overrides)
    assert set(tomllib.loads(result.stdout)) >= {
        name for name, field in StoreConfiguration.model_fields.items() if field.default is not None
    }


def test_a_missing_file_is_an_error_of_the_configuration(tmp_path: Path) -> None:
    result = said(tmp_path / "none.toml")
    assert result.exit_code == 78
    assert "none.toml is not valid:\n  the file cannot be read" in result.stderr


def test_missing_files_of_tls_are_found_before_the_start(file: Path) -> None:
    file.write_text(
        f'name = "store-a"\n{file.read_text()}'
        '[tls]\nca = "ca.pem"\ncertificate = "a.pem"\nkey = "a.key"\n'
    )
    result = said(file, "--validate")
    assert result.exit_code == 78
    assert "ca.pem" in result.stderr


def test_a_misspelled_variable_is_refused(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUORATE_TLS_KAY", "a.key")
    result = said(file, "--name", "store-a")
    assert result.exit_code == 78
    assert "QUORATE_TLS_KAY: unknown; did you mean QUORATE_TLS_KEY?" in result.stderr


def test_the_daemon_takes_what_the_command_takes() -> None:
    group = get_command(store)
    assert isinstance(group, TyperGroup)
    of_daemon, of_command = (
        {option for parameter in command.params for option in parameter.opts}
        for command in (get_command(app), group.commands["run"])
    )
    of_command -= {"--config", "-c", "--stop-with-parent"}
    assert of_daemon - of_command == {"config", "--validate", "--print-config", "--version"}
    assert of_command <= of_daemon


@pytest.mark.processes
def test_a_service_manager_hears_when_the_store_serves_and_when_it_stops(
    file: Path, tmp_path: Path
) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(PATIENCE_SECONDS)
        with subprocess.Popen(
            [sys.executable, "-m", "quorate.console.daemon", file, "--name", "store-a"],
            env={**os.environ, "NOTIFY_SOCKET": str(tmp_path / "notify")},
            stderr=subprocess.PIPE,
            text=True,
        ) as store:
            try:
                assert manager.recv(1000) == b"READY=1"
                assert manager.recv(1000).startswith(b"WATCHDOG=1\nSTATUS=serves 127.0.0.1:")
                store.send_signal(signal.SIGTERM)
                assert manager.recv(1000) == b"STOPPING=1\nSTATUS=stops"
                assert store.wait(PATIENCE_SECONDS) == 0
            finally:
                store.kill()
            assert store.stderr is not None
            assert "stopping on SIGTERM" in store.stderr.read()
