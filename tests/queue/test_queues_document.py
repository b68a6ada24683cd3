"""docs/queues.md says what is: its configuration is read, its programs and commands are run."""

from __future__ import annotations

import asyncio
import json
import re
import shlex
from pathlib import Path

import pytest
from tests.documents import Document
from tests.queue.conftest import CHANGES_OF_DISPATCHER, QueueStores, Start
from typer.main import get_command

from quorate.client import Job, connect
from quorate.console.commands.queue import queue
from quorate.store.configuration import QueueConfiguration, load

pytestmark = pytest.mark.expects_log(CHANGES_OF_DISPATCHER)

PAGE = Document("queues")
TEXT, CODE, TOML = PAGE.text, PAGE.blocks("python"), PAGE.block("toml")


def rows(title: str) -> list[str]:
    """Return the first cells of the table that begins with this title."""
    table = TEXT[TEXT.index(f"| {title} |") :].split("\n\n")[0]
    return re.findall(r"^\| `([^`]+)` ", table, re.M)


async def send(stores: QueueStores, *payloads: bytes) -> None:
    async with connect(stores.named) as client, client.source("orders") as source:
        await source.send_many(payloads)


async def test_the_programs(start: Start, capsys: pytest.CaptureFixture[str]) -> None:
    stores = await start(name="orders")
    await send(stores, b"first", b"second")
    await PAGE.defined("work")(stores.named, 2)
    assert capsys.readouterr().out == "first\nsecond\n"
    await send(stores, b'{"price": 500}', b'{"price": 5}', b"no JSON")
    await PAGE.defined("careful")(stores.named, 3)
    [dispatcher] = stores.dispatching
    dispatched = stores.queues[dispatcher].service._dispatchers["orders"]
    async with asyncio.timeout(30):
        while dispatched.status().dead != 1:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.05)
    status = dispatched.status()
    assert (status.done, status.retried, status.waiting) == (3, 2, 1)
    await send(stores, *[b"x"] * 50)
    await PAGE.defined("many")(stores.named, 40)
    await asyncio.to_thread(PAGE.defined("plain"), stores.named, 10)
    assert dispatched.status().done == 53


def test_each_program_is_run() -> None:
    names = {name for code in CODE for name in re.findall(r"^(?:async )?def (\w+)", code, re.M)}
    assert names == {"work", "charge", "careful", "one", "many", "plain"}


def test_the_configuration(tmp_path: Path) -> None:
    path = tmp_path / "store.toml"
    path.write_text('name = "s1"\ndata_directory = "/data"\n' + TOML)
    [configured] = load(path).queue
    assert configured.settings.topics == ("orders.eu", "orders.us")
    assert set(rows("setting")) == {"stores", *QueueConfiguration.model_fields}
    for name, said in re.findall(r"^\| `(\w+)` \|.*\| (\d+|`false`) \|$", TEXT, re.M):
        default = QueueConfiguration.model_fields[name].default
        assert json.loads(said.strip("`")) == default, name


def test_a_job_has_what_the_page_says() -> None:
    calls = [each.partition("(")[0].removeprefix("job.") for each in rows("call")]
    assert calls == ["done", "retry", "discard"]
    for name in (*calls, "payload", "key", "properties", "topic", "tries", "message"):
        assert hasattr(Job, name)


def test_the_commands_are_those_that_the_command_has() -> None:
    known = get_command(queue).commands  # type: ignore[attr-defined]
    assert {each.split()[2] for each in rows("command")} == set(known)
    lines = re.findall(r"^\$ (?:.*\| )?quorate queue (.*)$", TEXT, re.M)
    for line in lines:
        name, *arguments = shlex.split(line)
        options = {each for parameter in known[name].params for each in parameter.opts}
        assert {each for each in arguments if each.startswith("--")} <= options
    assert len(lines) == 2
