"""The pages of a store that runs: health and metrics, with and without TLS and rules."""

from __future__ import annotations

import asyncio
import json
import re
import ssl
import threading
from http.client import HTTPResponse
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from tests import seams
from tests.certificates import files
from tests.store.monitor.support import ask, samples
from tests.store.support import Client, batch, configuration, running

from quorate.client import connect
from quorate.console.group.authority import Authority
from quorate.protocol.errors import InvalidArgument
from quorate.store.monitor.last_messages import SHOWN_BYTES_MAX, shown
from quorate.store.node import StoreNode
from quorate.transport.identities import hash_of

MONITOR = {"listen": "127.0.0.1:0"}


async def test_a_store_that_serves_is_healthy_and_has_metrics(tmp_path: Path) -> None:
    async with running(tmp_path, monitor=MONITOR) as node, Client(node.address) as client:
        for page in ("/livez", "/startupz", "/readyz"):
            assert (await ask(node.monitor_address, page)).json() == {"status": "ok"}, page
        orders = await client.stream()
        await orders.append(0, 4)
        await orders.append(5, 9)
        found = samples((await ask(node.monitor_address, "/metrics")).body)
        assert found["quorate_received_batches_total", ()] == 2
        assert found["quorate_received_messages_total", ()] == 10
        assert found["quorate_messages", ("orders",)] == 10
        assert found["quorate_live_sources", ("orders",)] == 1
        assert found["quorate_unstable_messages", ("orders",)] == 10
        assert found["quorate_ready", ()] == 1
        assert found["quorate_sync_seconds_count", ()] >= 2
        assert found["process_open_fds", ()] > 0


async def test_what_is_sent_again_is_not_counted_as_messages(tmp_path: Path) -> None:
    async with running(tmp_path, monitor=MONITOR) as node, Client(node.address) as client:
        orders = await client.stream()
        await orders.append(0, 4)
        await orders.batch(batch(0, 4))
        await orders.append(5, 9)
        found = samples((await ask(node.monitor_address, "/metrics")).body)
        assert found["quorate_received_batches_total", ()] == 3
        assert found["quorate_received_messages_total", ()] == 10


async def test_a_store_in_limbo_lives_and_is_not_ready(tmp_path: Path) -> None:
    nobody = "127.0.0.1:1"
    node = StoreNode(configuration(tmp_path, monitor=MONITOR, peers=(nobody,)))
    await node.start()
    try:
        assert (await ask(node.monitor_address, "/livez")).status == 200
        assert (await ask(node.monitor_address, "/startupz")).status == 200
        answer = await ask(node.monitor_address, "/readyz")
        assert answer.status == 503
        reason, *_ = node.why_in_limbo.split(";")
        assert answer.json()["reason"].split(";")[0] == reason != ""
        found = samples((await ask(node.monitor_address, "/metrics")).body)
        assert found["quorate_ready", ()] == 0
        assert found["quorate_limbo", ()] == 1
        assert found["quorate_peer_reachable", (nobody,)] == 0
    finally:
        await node.stop()


async def test_a_store_that_still_reads_its_directory_lives_and_has_not_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    let, sources = threading.Event(), seams.STORE_STARTUP_SOURCES.real()

    def held(*arguments: Any) -> Any:
        let.wait()
        return sources(*arguments)

    seams.STORE_STARTUP_SOURCES.replace(monkeypatch, held)
    node = StoreNode(configuration(tmp_path, monitor=MONITOR))
    starting = asyncio.create_task(node.start())
    while not node.monitor_address:  # noqa: ASYNC110, nothing tells when it listens
        await asyncio.sleep(0.01)

    async def answers(page: str) -> int:
        return (await ask(node.monitor_address, page)).status

    try:
        assert [await answers(page) for page in ("/livez", "/startupz", "/readyz", "/metrics")] == [
            200,
            503,
            503,
            503,
        ]
    finally:
        let.set()
        await starting
        await node.stop()


async def test_a_store_stops_at_once_while_a_connection_is_open(tmp_path: Path) -> None:
    async with running(tmp_path, monitor=MONITOR) as node:
        host, _, port = node.monitor_address.rpartition(":")
        _, writer = await asyncio.open_connection(host, int(port))
        writer.write(b"GET /livez HTTP/1.1\r\n")
        await writer.drain()
        async with asyncio.timeout(10):
            await node.stop()
        writer.close()


async def first_view(address: str, token: str = "", context: ssl.SSLContext | None = None) -> Any:
    """Return the first view of the group that a monitor sends; an int: the status, if refused."""
    answer = await ask(address, "/api/group", token, context, HTTPResponse.readline)
    if answer.status != 200:
        return answer.status
    assert answer.body.startswith("data: ")
    return json.loads(answer.body.removeprefix("data: "))


async def test_the_group_as_a_store_sees_it(tmp_path: Path) -> None:
    async with running(tmp_path, monitor=MONITOR) as node, Client(node.address) as client:
        orders = await client.stream()
        await orders.append(0, 9)
        view = await first_view(node.monitor_address)
        (store,), (source,) = view["stores"], view["sources"]
        assert (view["by"], store["name"], store["problem"]) == ("s1", "s1", "")
        assert (source["topic"], source["high"], source["is_live"]) == ("orders", 9, True)
        async with asyncio.timeout(10):
            await node.stop()


async def test_the_page_is_whole_and_needs_nothing_from_elsewhere(tmp_path: Path) -> None:
    async with running(tmp_path, monitor=MONITOR) as node:
        page = await ask(node.monitor_address, "/")
        assert page.status == 200
        linked = re.findall(r'(?:href|src)="([^"]+)"', page.body)
        assert sorted(linked) == ["data:,", "page.css", "page.js"]
        for name in ("page.css", "page.js"):
            file = await ask(node.monitor_address, f"/{name}")
            assert file.status == 200
            assert "http" not in file.body.replace("https?", "")


async def test_an_address_that_is_taken_is_an_error_that_names_it(tmp_path: Path) -> None:
    async with running(tmp_path / "a", monitor=MONITOR) as node:
        taken = {"listen": node.monitor_address}
        other = StoreNode(configuration(tmp_path / "b", "s2", monitor=taken))
        with pytest.raises(InvalidArgument, match=f"{node.monitor_address}.*choose another"):
            await other.start()


def trusting(authority: Authority) -> ssl.SSLContext:
    """Trust an authority, as strictly as each context does from Python 3.13 on."""
    context = ssl.create_default_context(cadata=authority.certificate.decode())
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    return context


def of_tls(files_of_store: Any, **more: Any) -> dict[str, Any]:
    paths = {name: getattr(files_of_store, name) for name in ("certificate", "key", "ca")}
    return {**paths, **more}


async def test_with_tls_it_speaks_https_and_uses_a_certificate_that_replaces_its_own(
    tmp_path: Path,
) -> None:
    first, second = Authority.new(), Authority.new()
    tls = of_tls(files(tmp_path / "tls", first, "s1", days=10))
    async with running(tmp_path / "s1", monitor=MONITOR, tls=tls) as node:
        address = node.monitor_address
        assert (await ask(address, "/livez", context=trusting(first))).status == 200
        text = (await ask(address, "/metrics", context=trusting(first))).body
        ends = samples(text)["quorate_certificate_end_timestamp_seconds", ()]
        files(tmp_path / "tls", second, "s1", days=20)
        assert (await ask(address, "/livez", context=trusting(second))).status == 200
        text = (await ask(address, "/metrics", context=trusting(second))).body
        later = samples(text)["quorate_certificate_end_timestamp_seconds", ()]
        assert later - ends == pytest.approx(10 * 86400, abs=600)


async def test_the_group_is_seen_over_tls(tmp_path: Path) -> None:
    authority = Authority.new()
    tls = {name: of_tls(files(tmp_path / f"tls-{name}", authority, name)) for name in ("s1", "s2")}
    async with (
        running(tmp_path / "s2", "s2", tls=tls["s2"]) as peer,
        running(tmp_path / "s1", monitor=MONITOR, tls=tls["s1"], peers=(peer.address,)) as node,
    ):
        view = await first_view(node.monitor_address, context=trusting(authority))
        shown = {store["address"]: (store["name"], store["problem"]) for store in view["stores"]}
        assert shown == {node.address: ("s1", ""), peer.address: ("s2", "")}


async def test_with_rules_metrics_need_a_token_and_health_needs_none(tmp_path: Path) -> None:
    authority = Authority.new()
    tokens = tmp_path / "tokens"
    tokens.write_text(f"prometheus {hash_of('good')}\nsender {hash_of('other')}\n")
    tls = of_tls(files(tmp_path / "tls", authority, "s1"), mutual=False, tokens=tokens)
    access = [
        {"identities": ["prometheus"], "verbs": ["query"]},
        {"identities": ["sender"], "verbs": ["send"]},
    ]
    async with running(tmp_path / "s1", monitor=MONITOR, tls=tls, access=access) as node:
        address, context = node.monitor_address, trusting(authority)
        assert (await ask(address, "/readyz", context=context)).status == 200
        for token, status in (("", 401), ("wrong", 401), ("other", 401), ("good", 200)):
            answer = await ask(address, "/metrics", token, context)
            assert answer.status == status, token
            view = await first_view(address, token, context)
            assert (view == 401) == (status == 401), token
            assert token not in answer.body or token in ("", "other", "good")


async def last(node: StoreNode, topic: str, *, count: str = "", token: str = "") -> Any:
    page = f"/api/topics/{quote(topic, safe='')}/last" + (f"?count={count}" if count else "")
    return await ask(node.monitor_address, page, token)


async def test_the_last_stable_messages_of_a_topic(tmp_path: Path) -> None:
    async with running(tmp_path, monitor=MONITOR) as node:
        async with connect(node.address) as client:
            orders = await client.source("orders/eu", session_id=7)
            for number in range(30):
                await orders.send(b"message %d" % number, key=b"k", properties={"p": b"\xff"})
            await orders.flush()
            other = await client.source("orders/eu", session_id=8)
            await other.publish(b"x" * 5000)
        async with asyncio.timeout(20):
            # The store hears a moment later that the newest message is stable.
            while True:
                answer = await last(node, "orders/eu")
                found = answer.json()["messages"]
                if len(found) == 20 and found[0]["session"] == "0x8":
                    break
                await asyncio.sleep(0.05)
        assert answer.status == 200
        newest, *rest = answer.json()["messages"]
        assert (newest["session"], newest["bytes"]) == ("0x8", 5000)
        assert newest["payload"] == {"text": "x" * SHOWN_BYTES_MAX, "is_cut": True}
        assert [row["sequence"] for row in rest] == list(range(29, 10, -1))
        assert rest[0]["payload"] == {"text": "message 29", "is_cut": False}
        assert rest[0]["key"] == {"text": "k", "is_cut": False}
        assert rest[0]["properties"] == {"p": {"hex": "ff", "is_cut": False}}
        assert len((await last(node, "orders/eu", count="3")).json()["messages"]) == 3
        assert (await last(node, "nobody")).json() == {"messages": []}
        for wrong in ("0", "-1", "101", "many", "9" * 5000):
            assert (await last(node, "orders/eu", count=wrong)).status == 400, wrong


async def test_what_is_not_stable_is_not_shown(tmp_path: Path) -> None:
    async with running(tmp_path, monitor=MONITOR) as node, Client(node.address) as client:
        orders = await client.stream()
        await orders.append(0, 9)
        assert (await last(node, "orders")).json() == {"messages": []}


def test_text_is_cut_between_characters() -> None:
    assert shown(b"a" + "ü".encode() * SHOWN_BYTES_MAX)["text"].endswith("ü")
    assert shown(b"")["text"] == ""
    assert shown(b"\x00\xff") == {"hex": "00 ff", "is_cut": False}


async def test_with_rules_the_last_messages_need_a_verb_that_reads_the_topic(
    tmp_path: Path,
) -> None:
    authority = Authority.new()
    tokens = tmp_path / "tokens"
    names = ("reader", "sender", "subscriber", "elsewhere")
    tokens.write_text("".join(f"{name} {hash_of(name)}\n" for name in names))
    tls = of_tls(files(tmp_path / "tls", authority, "s1"), mutual=False, tokens=tokens)
    access = [
        {"identities": ["reader"], "verbs": ["receive"], "topics": ["orders"]},
        {"identities": ["sender"], "verbs": ["send", "operate", "delete"]},
        {"identities": ["subscriber"], "verbs": ["subscribe"], "topics": ["orders"]},
        {"identities": ["elsewhere"], "verbs": ["receive"], "topics": ["trades"]},
    ]
    async with running(tmp_path / "s1", monitor=MONITOR, tls=tls, access=access) as node:
        for token, status in (
            ("", 401), ("reader", 200), ("sender", 401), ("subscriber", 200), ("elsewhere", 401),
        ):  # fmt: skip
            page, context = "/api/topics/orders/last", trusting(authority)
            assert (await ask(node.monitor_address, page, token, context)).status == status, token
