"""Keys and tokens for stores are in no plan, no log, no event and no checkpoint of Spark."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.certificates import files
from tests.pipeline.group import Group
from tests.pipeline.logging_driver import ROWS

from quorate.console.group.authority import Authority
from quorate.protocol.tls import environment_of
from quorate.transport.identities import hash_of, new_token

pytestmark = [pytest.mark.long, pytest.mark.processes, pytest.mark.timeout(400)]


def traces(directory: Path) -> Iterator[tuple[Path, str]]:
    """The text of each file that a driver left."""
    for path in directory.rglob("*"):
        if path.is_file():
            yield path, path.read_text(errors="replace")


def test_no_key_and_no_token_is_where_spark_shows_or_keeps_what_it_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tls = files(tmp_path / "tls", Authority.new(), "job")
    token = new_token()
    (tmp_path / "tls" / "token").write_text(token)
    (tmp_path / "tls" / "tokens").write_text(f"job {hash_of(token)}\n")
    for name, value in environment_of(tls).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("QUORATE_TLS_TOKEN", str(tmp_path / "tls" / "token"))
    of_stores = "".join(
        f'{key} = "{tmp_path / "tls" / name}"\n'
        for key, name in (("ca", "ca.pem"), ("certificate", "certificate.pem"), ("key", "key.pem"))
    )
    group = Group(
        tmp_path,
        count=1,
        configuration=f'[tls]\n{of_stores}tokens = "{tmp_path / "tls" / "tokens"}"\n',
    )
    group.start()
    left = tmp_path / "driver"
    left.mkdir()
    try:
        with (left / "output").open("wb") as output:
            subprocess.run(
                [
                    *(sys.executable, "-m", "tests.pipeline.logging_driver"),
                    *(group.stores, str(left)),
                ],
                stdout=output,
                stderr=output,
                env={**os.environ, "TMPDIR": str(left)},
                check=False,
            )
    finally:
        group.stop()
    found = dict(traces(left))
    said = found[left / "output"]
    assert f"rows: {ROWS}" in said, said[-4000:]
    assert f"batch: 0 {ROWS}" in said, said[-4000:]
    # Plans, events and checkpoints are there as text, so a secret in them would be found.
    for folder, part in (("events", "BatchScan quorate"), ("checkpoint", "logged/0x")):
        assert any(part in text for path, text in found.items() if folder in path.parts), folder
    key = (tmp_path / "tls" / "key.pem").read_text().splitlines()
    secrets = {token, hash_of(token), *key[1:-1]}
    assert [path for path, text in found.items() if any(each in text for each in secrets)] == []
