"""The image and the compose file: they fit the package, and a store needs no rights in them."""

from __future__ import annotations

import re
from pathlib import Path

from tests.deploy.rendering import DEPLOY
from tools.package import VERSION
from typer.testing import CliRunner
from yaml import safe_load

from quorate.console.daemon import app
from quorate.store.configuration import load

COMPOSE = safe_load((DEPLOY / "compose" / "compose.yaml").read_text())
CONTAINERFILE = (DEPLOY / "Containerfile").read_text()


def test_each_service_starts_a_store_that_the_others_know(tmp_path: Path) -> None:
    names = set()
    for service, settings in COMPOSE["services"].items():
        file, *options = settings["command"]
        mounted = f"./store.toml:{file}:ro"
        assert mounted in settings["volumes"]
        path = DEPLOY / "compose" / "store.toml"
        checked = CliRunner().invoke(app, [str(path), *options, "--print-config"])
        assert checked.exit_code == 0, checked.output
        effective = tmp_path / "effective.toml"
        effective.write_text(checked.stdout)
        configuration = load(effective)
        assert configuration.name == service
        assert configuration.advertise == f"{service}:7301"
        assert configuration.peers is not None
        assert set(configuration.peers) == {f"{each}:7301" for each in COMPOSE["services"]}
        assert f"{service}:{configuration.data_directory.parent}" in settings["volumes"]
        names.add(service)
    assert names == set(COMPOSE["volumes"])


def test_each_service_runs_the_image_of_this_version_without_rights() -> None:
    for settings in COMPOSE["services"].values():
        assert settings["image"] == f"quorate:{VERSION}"
        assert settings["read_only"] is True
        assert settings["cap_drop"] == ["ALL"]
        assert settings["security_opt"] == ["no-new-privileges:true"]
        assert all(port.startswith("127.0.0.1:") for port in settings["ports"])


def test_the_image_runs_the_daemon_as_another_user_than_root() -> None:
    last = CONTAINERFILE.rpartition("\nFROM ")[2]
    assert re.search(r"^USER 7301:7301$", last, re.M)
    assert 'ENTRYPOINT ["quorated"]' in last
    assert "/opt/quorate/bin/quorated --version" in CONTAINERFILE, "the build tries the daemon"
