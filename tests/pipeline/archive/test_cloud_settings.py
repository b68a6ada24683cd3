"""The settings of GCS and Azure arrive: a server on this machine sees what goes out with them."""

from __future__ import annotations

import base64
import http.server
import json
import re
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from quorate.archive.location import Location
from quorate.archive.table import Table
from quorate.protocol.errors import ArchiveUnusable

KEY = base64.b64encode(b"a key of the tests").decode()

Request = tuple[str, str]
"""The path, and the header Authorization."""


class Cloud(http.server.ThreadingHTTPServer):
    """Has no object, and refuses to list any. It remembers what it was asked."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answering)
        self.asked: list[Request] = []

    @property
    def at(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Answering(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        assert isinstance(self.server, Cloud)
        self.server.asked.append((self.path, self.headers.get("Authorization", "")))
        self.send_response(404)
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_HEAD = do_GET

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def cloud() -> Iterator[Cloud]:
    with Cloud() as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def asked_by(cloud: Cloud, address: str) -> list[Request]:
    """Return the requests that opening an archive at an address makes, and those for its files."""
    with pytest.raises(ArchiveUnusable) as caught:
        Table.open(Location(address))
    assert KEY not in str(caught.value)
    opened = len(cloud.asked)
    assert opened
    with pytest.raises(OSError, match=re.escape(cloud.at)):
        Location(address).files.get_file_info("file.parquet")
    assert len(cloud.asked) > opened, "its files are asked for with the same settings"
    return cloud.asked


def test_azure_is_asked_with_the_account_and_its_key(
    cloud: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "archivist")
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", KEY)
    monkeypatch.setenv("AZURE_STORAGE_ENDPOINT", cloud.at)
    monkeypatch.setenv("AZURE_ALLOW_HTTP", "true")
    for path, authorization in asked_by(cloud, "az://container/prefix"):
        assert path.startswith("/container")
        assert authorization.startswith("SharedKey archivist:")
        assert KEY not in authorization


def test_gcs_is_asked_as_the_service_account_says(
    cloud: Cloud, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    account = tmp_path / "account.json"
    given = {"gcs_base_url": cloud.at, "disable_oauth": True}
    empty = dict.fromkeys(("client_email", "private_key", "private_key_id"), "")
    account.write_text(json.dumps(given | empty))
    monkeypatch.setenv("GOOGLE_SERVICE_ACCOUNT", str(account))
    for path, _ in asked_by(cloud, "gs://bucket/prefix"):
        assert path.startswith("/bucket")
