"""`quorate store validate`, `schema` and `init`."""

import json
import logging
import uuid
from pathlib import Path

from typer.testing import CliRunner, Result

from quorate.console.main import app
from quorate.console.store import _is_news


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


def init(directory: Path, *options: str) -> Result:
    arguments = ["store", "init", "--name", "a", "--data-directory", str(directory), *options]
    return CliRunner().invoke(app, arguments)


def test_a_directory_is_made_for_a_store_that_founds(tmp_path: Path) -> None:
    result = init(tmp_path / "data", "--new", "-o", "json")
    assert result.exit_code == 0
    said = json.loads(result.stdout)
    assert (said["store"], said["new"]) == ("a", True)
    assert uuid.UUID(said["incarnation"])


def test_a_directory_is_made_for_a_store_that_asks_its_peers(tmp_path: Path) -> None:
    result = init(tmp_path / "data")
    assert result.exit_code == 0
    assert "asks its peers" in result.stderr


def test_a_directory_that_has_been_used_is_left_alone(tmp_path: Path) -> None:
    assert init(tmp_path / "data", "--new").exit_code == 0
    result = init(tmp_path / "data", "--new")
    assert result.exit_code == 78
    assert "in use by store 'a'. Nothing was changed." in result.stderr


def test_a_blank_store_without_peers_does_not_run(tmp_path: Path) -> None:
    arguments = ["store", "run", "--name", "a", "--listen", "127.0.0.1:0", "-o", "json"]
    result = CliRunner().invoke(app, [*arguments, "--data-directory", str(tmp_path / "data")])
    assert result.exit_code == 78
    error = json.loads(result.stderr.splitlines()[-1])
    assert error["error"] == "NotFounded"
    assert "--peer" in error["message"]


def test_a_client_that_goes_while_it_is_answered_is_no_error_of_the_store() -> None:
    logger = logging.getLogger("grpc._cython.cygrpc")
    gone = "ExecuteBatchError raised in core by servicer method [/quorate.v1.Store/Fetch]"
    assert not _is_news(logger.makeRecord(logger.name, logging.ERROR, "", 0, gone, (), None))
    ours = "Unexpected [ValueError] raised by servicer method [/quorate.v1.Store/Fetch]"
    assert _is_news(logger.makeRecord(logger.name, logging.ERROR, "", 0, ours, (), None))
