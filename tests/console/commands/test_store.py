"""`quorate store validate`, `schema` and `init`."""

import json
import logging
import uuid
from dataclasses import replace
from pathlib import Path

from typer.testing import CliRunner, Result

from quorate.console.commands.store import _is_news
from quorate.console.main import app
from quorate.store.rules.store_identity import Standing
from quorate.store.startup import store_record
from quorate.store.storage.rocksdb import RocksStorage


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
    assert (
        "used by store 'a' already. Nothing was changed. The store can be started" in result.stderr
    )


def run_alone(directory: Path) -> Result:
    arguments = ["store", "run", "--name", "a", "--listen", "127.0.0.1:0", "-o", "json"]
    return CliRunner().invoke(app, [*arguments, "--data-directory", str(directory)])


def test_a_directory_that_was_made_and_never_served_can_still_found(tmp_path: Path) -> None:
    made = json.loads(init(tmp_path / "data", "-o", "json").stdout)
    refused = run_alone(tmp_path / "data")
    assert (refused.exit_code, "store init --new" in refused.stderr) == (78, True)
    result = init(tmp_path / "data", "--new", "-o", "json")
    assert result.exit_code == 0, result.stderr
    assert json.loads(result.stdout)["incarnation"] == made["incarnation"]
    storage = RocksStorage(tmp_path / "data" / "rocksdb", create=False)
    record = store_record(storage)
    storage.close()
    assert record is not None
    assert (record.blank, record.limbo) == (False, ""), "it vouches now"


def test_a_directory_that_has_served_and_is_blank_still_is_left_alone(tmp_path: Path) -> None:
    """Its peers may have heard that it is blank, and count on it."""
    assert init(tmp_path / "data").exit_code == 0
    storage = RocksStorage(tmp_path / "data" / "rocksdb", create=False)
    record = store_record(storage)
    assert record is not None
    storage.write((Standing("a", replace(record, starts=1), {}).row(),))
    storage.sync()
    storage.close()
    assert init(tmp_path / "data", "--new").exit_code == 78


def test_a_blank_store_without_peers_does_not_run(tmp_path: Path) -> None:
    result = run_alone(tmp_path / "data")
    assert result.exit_code == 78
    error = json.loads(result.stderr.splitlines()[-1])
    assert error["error"] == "NotFounded"
    assert "--peer" in error["message"]


def test_a_name_that_has_no_address_is_an_error_of_the_configuration(
    tmp_path: Path,
) -> None:
    arguments = ["store", "run", "--name", "a", "--listen", "no-such-host.invalid:7301"]
    result = CliRunner().invoke(app, [*arguments, "--data-directory", str(tmp_path), "-o", "json"])
    assert result.exit_code == 78
    error = json.loads(result.stderr.splitlines()[-1])
    assert error["error"] == "ConfigurationInvalid"
    assert "listen: the name no-such-host.invalid has no address" in error["message"]


def test_a_client_that_goes_while_it_is_answered_is_no_error_of_the_store() -> None:
    logger = logging.getLogger("grpc._cython.cygrpc")
    gone = "ExecuteBatchError raised in core by servicer method [/quorate.v1.Store/Fetch]"
    assert not _is_news(logger.makeRecord(logger.name, logging.ERROR, "", 0, gone, (), None))
    ours = "Unexpected [ValueError] raised by servicer method [/quorate.v1.Store/Fetch]"
    assert _is_news(logger.makeRecord(logger.name, logging.ERROR, "", 0, ours, (), None))
