"""The command as a whole: instant, lazy, and one meaning for each exit code."""

import re
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from quorate.console import main

HEAVY = ("grpc", "rocksdict", "pydantic", "google.protobuf", "quorate.store", "asyncio")


def test_help_names_every_command() -> None:
    result = CliRunner().invoke(main.app, ["--help"])
    assert result.exit_code == 0
    for name in main.COMMANDS:
        assert name in result.output


def test_nothing_heavy_is_imported_for_help() -> None:
    program = (
        "import sys\n"
        "from quorate.console.main import app\n"
        "try:\n"
        "    app(['--help'])\n"
        "except SystemExit:\n"
        "    pass\n"
        "print('\\n'.join(sys.modules), file=sys.stderr)\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    imported = set(result.stderr.split())
    assert "quorate.console.main" in imported
    assert imported.intersection(HEAVY) == set()


@pytest.mark.parametrize("name", ["archive", "audit", "backtest", "restore", "stats"])
def test_a_job_of_the_pipeline_shows_its_help_without_anything_of_the_pipeline(name: str) -> None:
    program = (
        "import sys\n"
        "from quorate.console.main import app\n"
        "try:\n"
        f"    app([{name!r}, '--help'])\n"
        "except SystemExit as end:\n"
        "    assert not end.code, end.code\n"
        "print('\\n'.join(sys.modules), file=sys.stderr)\n"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert "Usage:" in result.stdout
    imported = set(result.stderr.split())
    assert f"quorate.console.commands.{'archive' if name == 'restore' else name}" in imported
    heavy = {"pyspark", "pyarrow", "pandas", "numpy", "matplotlib", "grpc", "google.protobuf"}
    assert imported & {*heavy, "rocksdict", "quorate.pipeline"} == set()


@pytest.mark.parametrize("name", ["demo", "dev", "receive", "send", "status", "store"])
def test_a_command_shows_its_own_help_without_grpc(name: str) -> None:
    program = (
        "import sys\n"
        "from quorate.console.main import app\n"
        "try:\n"
        f"    app([{name!r}, '--help'])\n"
        "except SystemExit as end:\n"
        "    assert not end.code, end.code\n"
        "heavy = {'grpc', 'rocksdict', 'google.protobuf'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    assert "Usage:" in result.stdout


FIRST = {
    "send": ["--stores", "--session-id", "--file", "--key", "--property", "--expires", "--help"],
    "receive": [
        "--stores",
        "--session-id",
        "--from",
        "--last",
        "--where",
        "--count",
        "--pattern",
        "--help",
    ],
}


@pytest.mark.parametrize("name", FIRST)
def test_the_options_that_people_use_first_come_first(name: str) -> None:
    shown = CliRunner().invoke(main.app, [name, "--help"]).output
    first, *groups = re.split(r"\n(?=\S[^\n]*:\n)", shown[shown.index("\nOptions:") + 1 :])
    options = re.findall(r"^  (?:-\w, )?(--[\w-]+)", first, re.M)
    assert options == FIRST[name]
    assert len(groups) >= 3
    assert all(len(re.findall(r"^  (?:-\w, )?--", group, re.M)) >= 2 for group in groups)
    parameters = main.load(name).params
    assert len(re.findall(r"^  (?:-\w, )?--", shown, re.M)) == 1 + sum(
        option.param_type_name == "option" for option in parameters
    )


def test_every_command_refuses_a_variable_that_none_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUORATE_STORE", "127.0.0.1:7301")
    for arguments in (["store", "schema"], ["bench", "--messages", "1"], ["status"]):
        result = CliRunner().invoke(main.app, arguments)
        assert result.exit_code == 78
        assert "QUORATE_STORE: unknown; did you mean QUORATE_STORES?" in result.output


def test_a_misspelt_command_is_a_usage_error_with_a_suggestion() -> None:
    result = CliRunner().invoke(main.app, ["statsu"])
    assert result.exit_code == 2
    suggested = result.output.partition("Did you mean")[2]
    assert "'status'" in suggested


@pytest.mark.parametrize(
    ("module", "arguments", "extra"),
    [
        ("rocksdict", ["demo", "--verify", "anywhere"], "store"),
        ("pyarrow", ["stats", "--stores", "127.0.0.1:1"], "archive"),
    ],
)
def test_a_missing_extra_is_named(module: str, arguments: list[str], extra: str) -> None:
    program = (
        "import sys\n"
        f"sys.modules['{module}'] = None\n"
        f"sys.argv = {['quorate', *arguments]}\n"
        "from quorate.console.main import main\n"
        "main()\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert result.returncode == 1
    assert result.stderr == (
        f"error: This command needs {module}, which is not installed. Run this in the "
        f"directory of Quorate: pip install '.[{extra}]'.\n"
    )


def test_version() -> None:
    result = CliRunner().invoke(main.app, ["--version"])
    assert result.exit_code == 0
    assert result.output.startswith("quorate ")


@pytest.mark.parametrize("text", ["0", "0x0", ""])
@pytest.mark.parametrize("command", ["send", "receive"])
def test_zero_and_nothing_are_no_session_ids(command: str, text: str) -> None:
    arguments = [command, "orders", "--stores", "127.0.0.1:1", "--session-id", text]
    result = CliRunner().invoke(main.app, arguments)
    assert result.exit_code == 2
    assert "session ID" in result.output
