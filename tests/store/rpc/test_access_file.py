"""Rules of access in a file of their own, and signed tokens: real stores obey the newest ones."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.certificates import files
from tests.issuer import AUDIENCE, ISSUER, Issuer
from tests.source.real_stores import RealStores

from quorate.client import Client, Tls, connect
from quorate.console.group.authority import Authority
from quorate.errors import AccessDenied, ConfigurationInvalid
from quorate.store.configuration import load, read_access

_READS = '[[access]]\nidentities = ["desk"]\nverbs = ["subscribe"]\n'


class Ruled:
    """A store with a file of rules, and clients with signed tokens."""

    def __init__(self, path: Path) -> None:
        self.rules = path / "access.toml"
        self.rules.write_text(_READS)
        self.issuer = Issuer()
        self._token = path / "token"
        self._stores = RealStores(path)
        self._tls = files(path / "tls", Authority.new(), "store-a")
        keys = self.issuer.write(path / "keys")
        jwt = {"issuer": ISSUER, "audience": AUDIENCE, "keys": keys}
        tls: dict[str, Any] = {
            "ca": self._tls.ca, "certificate": self._tls.certificate, "key": self._tls.key,
            "mutual": False, "jwt": jwt,
        }  # fmt: skip
        self._stores.settings["a"] = {"tls": tls, "access_file": self.rules}

    async def start(self) -> None:
        await self._stores.start("a")

    async def stop(self) -> None:
        await self._stores.stop_all()

    def client(self, token: str) -> Client:
        self._token.write_text(token)
        tls = Tls(ca=self._tls.ca, token=str(self._token))
        return connect(self._stores.named("a"), tls=tls, timeout=5)


@pytest.fixture
async def ruled(tmp_path: Path) -> AsyncIterator[Ruled]:
    ruled = Ruled(tmp_path)
    await ruled.start()
    yield ruled
    await ruled.stop()


async def replays(client: Client) -> None:
    async with client, client.subscriber("orders", begin="epoch"):
        pass


@pytest.mark.expects_log("may not")
async def test_a_signed_token_names_its_bearer(ruled: Ruled) -> None:
    await replays(ruled.client(ruled.issuer.token("desk")))
    with pytest.raises(AccessDenied, match="stranger may not subscribe"):
        await replays(ruled.client(ruled.issuer.token("stranger")))
    with pytest.raises(AccessDenied):
        await replays(ruled.client(ruled.issuer.token("desk", exp=1000)))


@pytest.mark.expects_log("may not")
async def test_rules_that_are_replaced_count_for_the_next_call(ruled: Ruled) -> None:
    await replays(ruled.client(ruled.issuer.token("desk")))
    ruled.rules.write_text(_READS.replace("desk", "someone-else"))
    with pytest.raises(AccessDenied, match="desk may not subscribe"):
        await replays(ruled.client(ruled.issuer.token("desk")))


@pytest.mark.expects_log("the rules of access that were there before stay in use")
async def test_rules_that_cannot_be_read_change_nothing(ruled: Ruled) -> None:
    ruled.rules.write_text("[[access]]\nverbs = []")
    await replays(ruled.client(ruled.issuer.token("desk")))


@pytest.mark.parametrize("content", ["", "access = []", "[[access]]", "[[other]]", "a = "])
def test_a_file_without_rules_is_refused(content: str, tmp_path: Path) -> None:
    path = tmp_path / "access.toml"
    path.write_text(content)
    with pytest.raises(ConfigurationInvalid):
        read_access(str(path))


def test_rules_are_in_one_place(tmp_path: Path) -> None:
    tls = {"certificate": "a", "key": "b", "ca": "c"}
    rule = {"identities": ["desk"], "verbs": ["send"]}
    values = {"name": "a", "data_directory": tmp_path, "access_file": tmp_path / "access.toml"}
    with pytest.raises(ConfigurationInvalid, match="exclude each other"):
        load(None, {**values, "tls": tls, "access": [rule]})
    with pytest.raises(ConfigurationInvalid, match="access needs tls"):
        load(None, values)
