"""`quorate store validate` and `schema`: what is wrong, all at once, with its path."""

import json
from pathlib import Path

from typer.testing import CliRunner

from quorate.console.main import app


def test_a_good_configuration_is_valid(tmp_path: Path) -> None:
    path = tmp_path / "store.toml"
    path.write_text(f'name = "a"\ndata_directory = "{tmp_path}"')
    result = CliRunner().invoke(app, ["store", "validate", "-c", str(path), "-o", "json"])
    assert result.exit_code == 0
    assert json.loads(result.stdout)["name"] == "a"


def test_every_problem_is_told_with_exit_code_78(tmp_path: Path) -> None:
    path = tmp_path / "store.toml"
    path.write_text('name = "a"\nlisten = "nowhere"\ncolour = "red"')
    result = CliRunner().invoke(app, ["store", "validate", "-c", str(path)])
    assert result.exit_code == 78
    for key in ("data_directory", "listen", "colour"):
        assert key in result.stderr


def test_problems_are_json_when_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "store.toml"
    path.write_text("")
    result = CliRunner().invoke(app, ["store", "validate", "-c", str(path), "-o", "json"])
    assert result.exit_code == 78
    assert json.loads(result.stderr)["error"] == "ConfigurationInvalid"


def test_the_schema_is_a_json_schema() -> None:
    result = CliRunner().invoke(app, ["store", "schema"])
    assert result.exit_code == 0
    assert "data_directory" in json.loads(result.stdout)["properties"]
