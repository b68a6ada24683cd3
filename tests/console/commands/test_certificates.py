"""`quorate certificates` and `quorate dev --tls`, as processes."""

from __future__ import annotations

import json
import os
import shlex
import signal
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.console.command import QUORATE

pytestmark = pytest.mark.processes


def ran(
    *arguments: str, variables: dict[str, str] | None = None, given: str = ""
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*QUORATE, *arguments],
        env={**os.environ, **(variables or {})},
        input=given,
        capture_output=True,
        text=True,
        timeout=60,
    )


def exported(line: str) -> dict[str, str]:
    """Return the variables that a line `export A=b C=d` sets."""
    words = shlex.split(line)
    assert words[0] == "export"
    return dict(word.split("=", 1) for word in words[1:])


def made(directory: Path, *ends: str) -> dict[str, dict[str, str]]:
    options = [f"--end={end}" for end in ends]
    done = ran("certificates", str(directory), *options, "-o", "json")
    assert done.returncode == 0, done.stderr
    found: dict[str, dict[str, str]] = json.loads(done.stdout)["ends"]
    return found


def test_each_end_gets_files_and_only_the_owner_may_read_a_key(tmp_path: Path) -> None:
    ends = made(tmp_path / "new")
    assert list(ends) == ["a", "b", "c", "client"]
    keys = [*(Path(end["key"]) for end in ends.values()), tmp_path / "new" / "ca.key.pem"]
    assert {stat.S_IMODE(key.stat().st_mode) for key in keys} == {0o600}
    assert len({Path(end["ca"]).read_bytes() for end in ends.values()}) == 1


def test_the_authority_is_used_again_and_files_are_replaced(tmp_path: Path) -> None:
    first = made(tmp_path, "a=10.0.0.1,store-a.example")["a"]
    before = {name: Path(path).read_bytes() for name, path in first.items() if path}
    again = made(tmp_path, "a")["a"]
    after = {name: Path(path).read_bytes() for name, path in again.items() if path}
    assert after["ca"] == before["ca"]
    assert after["certificate"] != before["certificate"]
    assert after["key"] != before["key"]


def test_validate_reads_the_files_of_a_store(tmp_path: Path) -> None:
    tls = made(tmp_path / "pki", "a")["a"]
    table = "".join(f'{key} = "{path}"\n' for key, path in tls.items() if path)
    configuration = tmp_path / "a.toml"
    configuration.write_text(f'name = "a"\ndata_directory = "d"\n[tls]\n{table}')
    assert ran("store", "validate", "-c", str(configuration)).returncode == 0
    Path(tls["key"]).unlink()
    done = ran("store", "validate", "-c", str(configuration))
    assert done.returncode == 78
    assert "key.pem: No such file" in done.stderr


def test_half_an_authority_is_an_error(tmp_path: Path) -> None:
    made(tmp_path, "a")
    (tmp_path / "ca.key.pem").unlink()
    done = ran("certificates", str(tmp_path))
    assert done.returncode == 78
    assert "ca.key.pem: the file does not exist" in done.stderr


@pytest.mark.parametrize("end", ["=host", "../a", ".a"])
def test_an_end_has_a_name(tmp_path: Path, end: str) -> None:
    assert ran("certificates", str(tmp_path), "--end", end).returncode == 2


@pytest.fixture
def dev(tmp_path: Path) -> Iterator[dict[str, str]]:
    """The variables that `quorate dev --tls` prints."""
    arguments = ["--tls", "--base-port", "0", "--data-directory", str(tmp_path / "dev")]
    with subprocess.Popen(
        [*QUORATE, "dev", *arguments], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdout is not None
        yield exported(process.stdout.readline())
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)


def plain(variables: dict[str, str]) -> dict[str, str]:
    return {"QUORATE_STORES": variables["QUORATE_STORES"]}


def test_dev_with_tls(dev: dict[str, str], tmp_path: Path) -> None:
    assert ran("send", "orders", variables=dev, given="one\n").returncode == 0
    received = ran("receive", "orders", "-n", "1", variables=dev)
    assert received.stdout.strip() == "one"
    status = ran("status", "-o", "json", variables=dev)
    assert json.loads(status.stdout)["healthy"] is True, "stores speak TLS with each other, too"

    without = ran("status", variables=plain(dev))
    assert without.returncode == 78
    assert "it speaks TLS, and this end does not" in without.stderr

    other = made(tmp_path / "other", "client")["client"]
    flags = [f"--tls-{key}={path}" for key, path in other.items() if path]
    strange = ran(*flags, "status", variables=plain(dev))
    assert strange.returncode == 78
    assert "no authority" in strange.stderr
    missing = ran("--tls-ca=/none", "status", variables=plain(dev))
    assert missing.returncode == 78
    assert "ca /none: No such file" in missing.stderr

    secrets = [path.read_text().splitlines()[1] for path in (tmp_path / "dev").rglob("*key.pem")]
    assert len(secrets) == 5
    logs = "".join(path.read_text() for path in (tmp_path / "dev").glob("*.log"))
    said = "".join(each.stdout + each.stderr for each in (received, status, without, strange))
    assert logs
    assert not [secret for secret in secrets if secret in logs + said]
