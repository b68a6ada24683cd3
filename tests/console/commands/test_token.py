"""`quorate token`, and a group of stores in processes that obey rules of access."""

from __future__ import annotations

import json
import re
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.certificates import LOCAL, files
from tests.console.command import QUORATE
from tests.console.commands.test_certificates import ran

from quorate.console.group.authority import Authority
from quorate.console.group.ports import free_addresses
from quorate.protocol.tls import Tls, environment_of
from quorate.transport.identities import hash_of, read_tokens

pytestmark = pytest.mark.processes


def test_a_token_is_shown_once_and_only_its_hash_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    first, second = (ran("token", "add", str(path), "desk").stdout.strip() for _ in range(2))
    assert read_tokens(str(path)) == {hash_of(first): "desk", hash_of(second): "desk"}
    assert first not in path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert ran("token", "add", str(path), "viewer").returncode == 0
    assert ran("token", "remove", str(path), "desk").returncode == 0
    assert list(read_tokens(str(path)).values()) == ["viewer"]
    assert ran("token", "remove", str(path), "desk").returncode == 2


@pytest.mark.parametrize("identity", ["", "two words", "#comment"])
def test_an_identity_is_one_word(tmp_path: Path, identity: str) -> None:
    assert ran("token", "add", str(tmp_path / "tokens"), identity).returncode == 2


def test_a_line_that_is_no_token_is_refused_and_not_shown(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    path.write_text("desk the-token-itself\n")
    done = ran("token", "add", str(path), "viewer")
    assert done.returncode == 78
    assert "line 1" in done.stderr
    assert "the-token-itself" not in done.stderr


RULES = """
[[access]]
identities = ["a", "b", "c"]
verbs = ["replicate"]

[[access]]
identities = ["desk"]
verbs = ["send", "receive"]
topics = ["orders.*"]

[[access]]
identities = ["viewer"]
verbs = ["query"]
"""


class Group:
    """Three stores with rules, in processes, and the files of their clients."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.authority = Authority.new()
        self.addresses = dict(zip("abc", free_addresses(3), strict=True))
        self._processes: list[subprocess.Popen[str]] = []

    def start(self) -> None:
        for name, address in self.addresses.items():
            tls = files(self.path / f"{name}-tls", self.authority, name)
            table = "".join(
                f'{key} = "{getattr(tls, key)}"\n' for key in ("ca", "certificate", "key")
            )
            peers = [f'"{each}"' for each in self.addresses.values() if each != address]
            configuration = self.path / f"{name}.toml"
            configuration.write_text(
                f'name = "{name}"\ndata_directory = "{self.path / name}"\nlisten = "{address}"\n'
                f"peers = [{', '.join(peers)}]\n{RULES}\n[tls]\n{table}"
            )
            with (self.path / f"{name}.log").open("w") as log:
                process = subprocess.Popen(
                    [*QUORATE, "store", "run", "-c", str(configuration), "-o", "json"],
                    stdout=subprocess.PIPE,
                    stderr=log,
                    text=True,
                )
            self._processes.append(process)
        for process in self._processes:
            assert process.stdout is not None
            assert json.loads(process.stdout.readline())["address"]

    def stop(self) -> None:
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            process.communicate(timeout=60)

    def variables(self, identity: str, **changes: str) -> dict[str, str]:
        end = files(self.path / identity, self.authority, identity, hosts=LOCAL)
        stores = ",".join(f"{name}={address}" for name, address in self.addresses.items())
        return {"QUORATE_STORES": stores, **environment_of(end), **changes}

    def logs(self) -> str:
        return "".join((self.path / f"{name}.log").read_text() for name in self.addresses)


@pytest.fixture
def group(tmp_path: Path) -> Iterator[Group]:
    group = Group(tmp_path)
    group.start()
    yield group
    group.stop()


def test_a_group_with_rules(group: Group) -> None:
    desk, viewer = group.variables("desk"), group.variables("viewer")
    assert ran("send", "orders.eu", variables=desk, given="one\n").returncode == 0
    assert ran("receive", "orders.eu", "-n", "1", variables=desk).stdout == "one\n"
    seen = ran("status", "-o", "json", variables=viewer)
    assert seen.returncode == 0, seen.stderr
    answer: dict[str, Any] = json.loads(seen.stdout)
    assert answer["healthy"] is True, "stores may replicate from each other, and have founded"

    for arguments, given in ((["send", "trades"], "one\n"), (["status"], "")):
        denied = ran(*arguments, variables=desk, given=given)
        assert denied.returncode == 77, denied.stderr
        assert re.search("desk.* may not", denied.stderr)
    repaired = ran("repair", "-o", "json", variables=desk)
    assert repaired.returncode != 0
    assert repaired.stdout.count("may not operate all topics") == 3
    assert ran("send", "orders.eu", variables=viewer, given="one\n").returncode == 77
    logs = group.logs()
    assert re.search("desk.* may not send topic trades", logs)
    secrets = [path.read_text().splitlines()[1] for path in group.path.rglob("key.pem")]
    assert len(secrets) == 5
    assert not [secret for secret in secrets if secret in logs]


def test_a_store_that_may_not_replicate_learns_nothing(group: Group, tmp_path: Path) -> None:
    assert ran("send", "orders", variables=group.variables("desk"), given="1\n").returncode == 0
    (address,) = free_addresses(1)
    tls = files(tmp_path / "d-tls", group.authority, "d")
    peers = [f"--peer={each}" for each in group.addresses.values()]
    store = ["store", "run", "--name", "d", "--data-directory", str(tmp_path / "d"), *peers]
    with subprocess.Popen(
        [*QUORATE, *flags(tls), *store, "--listen", address, "-o", "json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if re.search("d.* may not replicate all topics", line):
                break
        process.terminate()
        _, rest = process.communicate(timeout=60)
    assert "store d has stopped" in rest
    assert re.search("d.* may not replicate all topics", group.logs())


def flags(tls: Tls) -> list[str]:
    return [f"--tls-{key}={getattr(tls, key)}" for key in ("ca", "certificate", "key")]
